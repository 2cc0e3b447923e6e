//! Groups: who is in them, and what they have committed.

use std::collections::BTreeMap;

use base::{BrokerId, ErrorCode, PartitionIndex, TopicPartition};
use client_core::admin::{
    AlterGroupOffsets, DeleteGroupOffsets, DeleteGroups, DescribeClassicGroups, DescribeCluster,
    DescribeConsumerGroups, FindCoordinators, ListGroupOffsets, ListGroups, OffsetTo, RemoveMembers,
};
use client_core::group::OffsetAndMetadata;

use super::{Admin, AdminError, Call, GroupCoordinator, GroupDescription, ListedGroup, MemberRef};

impl Admin {
    /// The groups of the cluster, by their ids. It fails if one of the brokers that are up does not say which
    /// it keeps.
    pub fn list_groups(&self) -> Call<Result<Vec<ListedGroup>, AdminError>> {
        self.list_groups_of(Vec::new(), Vec::new())
    }

    /// Of the groups of the cluster those in these states and of these types, as Kafka calls them; empty is
    /// any.
    pub fn list_groups_of(
        &self,
        states: Vec<String>,
        types: Vec<String>,
    ) -> Call<Result<Vec<ListedGroup>, AdminError>> {
        self.call(|admin| async move {
            let until = admin.deadline();
            let cluster = admin.ask_one(DescribeCluster, (), until).await?;
            let brokers: Vec<BrokerId> =
                cluster.brokers.iter().filter(|it| !it.is_fenced).map(|it| it.id).collect();
            let mut all = Vec::new();
            let answers = admin.ask(ListGroups { states, types }, brokers.clone(), until).await;
            for (broker, listed) in brokers.into_iter().zip(answers) {
                let kept_by = |group| ListedGroup { coordinator: Some(broker), ..group };
                all.extend(listed?.into_iter().map(kept_by));
            }
            // One that moves between two answers is in both.
            all.sort();
            all.dedup_by(|a, b| a.group_id == b.group_id);
            Ok(all)
        })
    }

    /// Says which brokers keep these groups, or would keep them.
    pub fn find_coordinators<T: Into<String>>(
        &self,
        groups: impl IntoIterator<Item = T>,
    ) -> Call<Vec<Result<GroupCoordinator, AdminError>>> {
        let groups = groups.into_iter().map(Into::into).collect();
        self.call(|admin| async move { admin.ask(FindCoordinators, groups, admin.deadline()).await })
    }

    /// Says who is in these groups, whichever protocol each of them has.
    pub fn describe_groups<T: Into<String>>(
        &self,
        groups: impl IntoIterator<Item = T>,
    ) -> Call<Vec<Result<GroupDescription, AdminError>>> {
        let groups: Vec<String> = groups.into_iter().map(Into::into).collect();
        self.call(|admin| async move {
            let until = admin.deadline();
            let mut all = admin.ask(DescribeConsumerGroups, groups.clone(), until).await;
            let places: Vec<usize> = (0..all.len())
                .filter(|&place| matches!(&all[place], Err(error) if is_other(error)))
                .collect();
            let classic = places.iter().map(|&place| groups[place].clone()).collect();
            let classic = admin.ask(DescribeClassicGroups, classic, until).await;
            for (place, described) in places.into_iter().zip(classic) {
                all[place] = described;
            }
            all
        })
    }

    /// Deletes groups that have no members, with all that they committed.
    pub fn delete_groups<T: Into<String>>(
        &self,
        groups: impl IntoIterator<Item = T>,
    ) -> Call<Vec<Result<(), AdminError>>> {
        let groups = groups.into_iter().map(Into::into).collect();
        self.call(|admin| async move { admin.change(DeleteGroups, groups).await })
    }

    /// What these groups have committed.
    pub fn list_group_offsets<T: Into<String>>(
        &self,
        groups: impl IntoIterator<Item = T>,
    ) -> Call<Vec<Result<BTreeMap<TopicPartition, OffsetAndMetadata>, AdminError>>> {
        let groups = groups.into_iter().map(Into::into).collect();
        let ask = ListGroupOffsets { requires_stable: false };
        self.call(|admin| async move { admin.ask(ask, groups, admin.deadline()).await })
    }

    /// Sets what a group that has no members has committed: topic, partition, offset.
    pub fn alter_group_offsets<T: Into<String>>(
        &self,
        group: &str,
        offsets: impl IntoIterator<Item = (T, i32, OffsetAndMetadata)>,
    ) -> Call<Vec<Result<(), AdminError>>> {
        let ask = AlterGroupOffsets { group_id: group.to_owned() };
        let to = |(topic, partition, to): (T, i32, OffsetAndMetadata)| OffsetTo {
            topic: topic.into(),
            partition: PartitionIndex(partition),
            to,
        };
        let offsets = offsets.into_iter().map(to).collect();
        self.call(|admin| async move { admin.change(ask, offsets).await })
    }

    /// Forgets what a group has committed, of topics that none of its members reads: topic, partition.
    pub fn delete_group_offsets<T: Into<String>>(
        &self,
        group: &str,
        partitions: impl IntoIterator<Item = (T, i32)>,
    ) -> Call<Vec<Result<(), AdminError>>> {
        let ask = DeleteGroupOffsets { group_id: group.to_owned() };
        let of = |(topic, partition): (T, i32)| (topic.into(), PartitionIndex(partition));
        let partitions = partitions.into_iter().map(of).collect();
        self.call(|admin| async move { admin.change(ask, partitions).await })
    }

    /// Removes members from a group, so that others get what they have at once.
    pub fn remove_members(
        &self,
        group: &str,
        members: impl IntoIterator<Item = MemberRef>,
    ) -> Call<Vec<Result<(), AdminError>>> {
        let ask = RemoveMembers { group_id: group.to_owned() };
        let members = members.into_iter().collect();
        self.call(|admin| async move { admin.change(ask, members).await })
    }
}

/// Whether a group may be one of the classic protocol, or the broker one that knows no other.
fn is_other(error: &AdminError) -> bool {
    match error {
        AdminError::Unsupported { .. } => true,
        error => matches!(error.code(), Some(ErrorCode::GroupIdNotFound | ErrorCode::UnsupportedVersion)),
    }
}
