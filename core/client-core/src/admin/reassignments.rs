//! Partitions on their way to other brokers: AlterPartitionReassignments and ListPartitionReassignments,
//! asked of the controller.

use base::{BrokerId, PartitionIndex};
use wire::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use wire::messages::list_partition_reassignments::ListPartitionReassignmentsRequest;

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// Where a partition shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassignment {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: PartitionIndex,
    /// Who shall have a replica, the preferred leader first; `None` takes back what is under way.
    pub replicas: Option<Vec<BrokerId>>,
}

/// A partition that is on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OngoingReassignment {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: PartitionIndex,
    /// Who has a replica, those that come and those that go included.
    pub replicas: Vec<BrokerId>,
    /// Who of them comes.
    pub adding: Vec<BrokerId>,
    /// Who of them goes.
    pub removing: Vec<BrokerId>,
}

/// Moves partitions, or takes back what moves them.
#[derive(Debug)]
pub struct AlterReassignments;

/// Says what is on its way.
#[derive(Debug)]
pub struct ListReassignments;

impl Ask for AlterReassignments {
    type Item = Reassignment;
    type Said = ();
    type Request<'a> = AlterPartitionReassignmentsRequest<'a>;

    fn is_change(&self) -> bool {
        true
    }

    fn name<'a>(&self, it: &'a Reassignment) -> Name<'a> {
        Name::Partition(&it.topic, it.partition)
    }

    fn route<'a>(&self, _: &'a Reassignment) -> Route<'a> {
        Route::Controller
    }

    fn request<'a>(
        &'a self,
        them: &[&'a Reassignment],
        how: &How<'_>,
    ) -> AlterPartitionReassignmentsRequest<'a> {
        let mut topics: Vec<ReassignableTopic<'a>> = Vec::new();
        for it in them {
            let replicas = it.replicas.as_ref().map(|ids| ids.iter().map(|id| id.0).collect());
            let partition = ReassignablePartition { partition_index: it.partition.0, replicas };
            match topics.last_mut() {
                Some(last) if last.name == it.topic => last.partitions.push(partition),
                _ => topics.push(ReassignableTopic { name: &it.topic, partitions: vec![partition] }),
            }
        }
        AlterPartitionReassignmentsRequest { timeout_ms: how.timeout_ms, topics, ..Default::default() }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        if let Err(refusal) = Refusal::check(said.error_code, said.error_message) {
            each(Name::All, Err(refusal));
        }
        for topic in &said.responses {
            for part in &topic.partitions {
                let name = Name::Partition(topic.name, PartitionIndex(part.partition_index));
                each(name, Refusal::check(part.error_code, part.error_message));
            }
        }
        said.throttle_time_ms
    }
}

impl Ask for ListReassignments {
    type Item = ();
    /// By topic and partition.
    type Said = Vec<OngoingReassignment>;
    type Request<'a> = ListPartitionReassignmentsRequest<'a>;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, (): &'a ()) -> Name<'a> {
        Name::Whole("the reassignments")
    }

    fn route<'a>(&self, (): &'a ()) -> Route<'a> {
        Route::Controller
    }

    fn request<'a>(&'a self, _: &[&'a ()], how: &How<'_>) -> ListPartitionReassignmentsRequest<'a> {
        ListPartitionReassignmentsRequest { timeout_ms: how.timeout_ms, topics: None }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        let ongoing = Refusal::check(said.error_code, said.error_message).map(|()| {
            let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
            let of_all = said.topics.iter().flat_map(|topic| {
                topic.partitions.iter().map(move |part| OngoingReassignment {
                    topic: topic.name.to_owned(),
                    partition: PartitionIndex(part.partition_index),
                    replicas: brokers(&part.replicas),
                    adding: brokers(&part.adding_replicas),
                    removing: brokers(&part.removing_replicas),
                })
            });
            let mut ongoing: Vec<OngoingReassignment> = of_all.collect();
            ongoing.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
            ongoing
        });
        each(Name::All, ongoing);
        said.throttle_time_ms
    }
}
