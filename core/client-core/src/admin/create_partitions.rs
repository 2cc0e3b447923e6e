//! CreatePartitions: asked of the controller.

use base::BrokerId;
use wire::messages::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic,
};

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// More partitions for a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MorePartitions {
    /// The topic.
    pub topic: String,
    /// How many there shall be in all.
    pub count: i32,
    /// Which brokers have replicas of each new partition; empty leaves it to the cluster.
    pub assignments: Vec<Vec<BrokerId>>,
}

/// Gives topics more partitions.
#[derive(Debug)]
pub struct CreatePartitions {
    /// Only says whether it could be done.
    pub is_dry_run: bool,
}

impl Ask for CreatePartitions {
    type Item = MorePartitions;
    type Said = ();
    type Request<'a> = CreatePartitionsRequest<'a>;

    fn is_change(&self) -> bool {
        !self.is_dry_run
    }

    fn name<'a>(&self, more: &'a MorePartitions) -> Name<'a> {
        Name::Topic(&more.topic)
    }

    fn route<'a>(&self, _: &'a MorePartitions) -> Route<'a> {
        Route::Controller
    }

    fn request<'a>(&'a self, topics: &[&'a MorePartitions], how: &How<'_>) -> CreatePartitionsRequest<'a> {
        let topics = topics.iter().map(|more| {
            let assignments = more.assignments.iter().map(|brokers| CreatePartitionsAssignment {
                broker_ids: brokers.iter().map(|broker| broker.0).collect(),
            });
            let assignments = (!more.assignments.is_empty()).then(|| assignments.collect());
            CreatePartitionsTopic { name: &more.topic, count: more.count, assignments }
        });
        CreatePartitionsRequest {
            topics: topics.collect(),
            timeout_ms: how.timeout_ms,
            validate_only: self.is_dry_run,
        }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for topic in &said.results {
            each(Name::Topic(topic.name), Refusal::check(topic.error_code, topic.error_message));
        }
        said.throttle_time_ms
    }
}
