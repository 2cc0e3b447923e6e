//! ElectLeaders: asked of the controller.

use base::{ErrorCode, PartitionIndex};
use wire::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// The first version that can ask for an unclean election.
const UNCLEAN_VERSION: i16 = 1;

/// A partition by its topic's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionOf {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: PartitionIndex,
}

/// How an election went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Election {
    /// It has another leader.
    Changed,
    /// Who leads is the one that was asked for.
    NotNeeded,
    /// Nobody of those that were asked for can lead.
    NotPossible(ErrorCode),
}

/// Elects leaders.
#[derive(Debug)]
pub struct ElectLeaders {
    /// Whether anybody will do where nobody in sync is there: what only the others had is lost.
    pub is_unclean: bool,
}

impl Ask for ElectLeaders {
    type Item = PartitionOf;
    type Said = Election;
    type Request<'a> = ElectLeadersRequest<'a>;

    fn is_change(&self) -> bool {
        true
    }

    fn name<'a>(&self, of: &'a PartitionOf) -> Name<'a> {
        Name::Partition(&of.topic, of.partition)
    }

    fn route<'a>(&self, _: &'a PartitionOf) -> Route<'a> {
        Route::Controller
    }

    fn version_min(&self, _: &PartitionOf) -> i16 {
        if self.is_unclean { UNCLEAN_VERSION } else { 0 }
    }

    fn request<'a>(&'a self, them: &[&'a PartitionOf], how: &How<'_>) -> ElectLeadersRequest<'a> {
        let mut topics: Vec<TopicPartitions<'a>> = Vec::new();
        for of in them {
            match topics.last_mut() {
                Some(last) if last.topic == of.topic => last.partitions.push(of.partition.0),
                _ => topics.push(TopicPartitions { topic: &of.topic, partitions: vec![of.partition.0] }),
            }
        }
        ElectLeadersRequest {
            election_type: i8::from(self.is_unclean),
            topic_partitions: Some(topics),
            timeout_ms: how.timeout_ms,
        }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        if let Err(refusal) = Refusal::check(said.error_code, None) {
            each(Name::All, Err(refusal));
            return said.throttle_time_ms;
        }
        for topic in &said.replica_election_results {
            for result in &topic.partition_result {
                let name = Name::Partition(topic.topic, PartitionIndex(result.partition_id));
                let outcome = match Refusal::check(result.error_code, result.error_message) {
                    Ok(()) => Ok(Election::Changed),
                    Err(Refusal { code: ErrorCode::ElectionNotNeeded, .. }) => Ok(Election::NotNeeded),
                    // Kafka's clients may try again for as long as they like; it is no error of the call.
                    Err(Refusal { code, .. })
                        if matches!(
                            code,
                            ErrorCode::PreferredLeaderNotAvailable | ErrorCode::EligibleLeadersNotAvailable
                        ) =>
                    {
                        Ok(Election::NotPossible(code))
                    }
                    Err(refusal) => Err(refusal),
                };
                each(name, outcome);
            }
        }
        said.throttle_time_ms
    }
}
