//! Who leads partitions, and which brokers have them.

use base::{BrokerId, PartitionIndex};
use client_core::admin::{AlterReassignments, ElectLeaders, ListReassignments, PartitionOf};

use super::{Admin, AdminError, Call, Election, OngoingReassignment, Reassignment};

impl Admin {
    /// Has these partitions led by the first of their replicas again, where that is in sync: topic,
    /// partition.
    pub fn elect_preferred_leaders<T: Into<String>>(
        &self,
        partitions: impl IntoIterator<Item = (T, i32)>,
    ) -> Call<Vec<Result<Election, AdminError>>> {
        self.elect(false, partitions)
    }

    /// Has these partitions led by whoever is there, where nobody in sync is: topic, partition. What only the
    /// others had is lost for good.
    pub fn elect_unclean_leaders<T: Into<String>>(
        &self,
        partitions: impl IntoIterator<Item = (T, i32)>,
    ) -> Call<Vec<Result<Election, AdminError>>> {
        self.elect(true, partitions)
    }

    fn elect<T: Into<String>>(
        &self,
        is_unclean: bool,
        partitions: impl IntoIterator<Item = (T, i32)>,
    ) -> Call<Vec<Result<Election, AdminError>>> {
        let of = |(topic, partition): (T, i32)| PartitionOf {
            topic: topic.into(),
            partition: PartitionIndex(partition),
        };
        let partitions = partitions.into_iter().map(of).collect();
        self.call(move |admin| async move { admin.change(ElectLeaders { is_unclean }, partitions).await })
    }

    /// Moves partitions to other brokers, or gives them more or fewer replicas: topic, partition, who shall
    /// have it, the preferred leader first. It is begun when this is done; [`Admin::list_reassignments`] says
    /// what is still on its way.
    pub fn reassign<T: Into<String>>(
        &self,
        moves: impl IntoIterator<Item = (T, i32, Vec<BrokerId>)>,
    ) -> Call<Vec<Result<(), AdminError>>> {
        let to = |(topic, partition, replicas): (T, i32, Vec<BrokerId>)| Reassignment {
            topic: topic.into(),
            partition: PartitionIndex(partition),
            replicas: Some(replicas),
        };
        let moves = moves.into_iter().map(to).collect();
        self.call(|admin| async move { admin.change(AlterReassignments, moves).await })
    }

    /// Takes back what moves these partitions: topic, partition. They stay where they were.
    pub fn cancel_reassignments<T: Into<String>>(
        &self,
        partitions: impl IntoIterator<Item = (T, i32)>,
    ) -> Call<Vec<Result<(), AdminError>>> {
        let back = |(topic, partition): (T, i32)| Reassignment {
            topic: topic.into(),
            partition: PartitionIndex(partition),
            replicas: None,
        };
        let partitions = partitions.into_iter().map(back).collect();
        self.call(|admin| async move { admin.change(AlterReassignments, partitions).await })
    }

    /// The partitions that are on their way to other brokers, by topic and partition.
    pub fn list_reassignments(&self) -> Call<Result<Vec<OngoingReassignment>, AdminError>> {
        self.call(|admin| async move { admin.ask_one(ListReassignments, (), admin.deadline()).await })
    }
}
