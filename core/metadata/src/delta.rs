//! What some records changed, for whoever must act on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{BrokerId, LeaderEpoch, PartitionIndex, TopicId};

use crate::parts::{ConfigResource, Topic};

/// What changed between two images.
///
/// What was created and deleted within is in neither list. Look the values up in the new image; a
/// deleted topic is no longer there, so it comes along.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delta {
    /// Topics that are new, all their partitions with them.
    pub topics_created: BTreeSet<TopicId>,
    /// Topics that are gone, as they were.
    pub topics_deleted: BTreeMap<TopicId, Arc<Topic>>,
    /// Partitions added to topics that were there.
    pub partitions_added: BTreeSet<(TopicId, PartitionIndex)>,
    /// Partitions that were there and changed: leader, replicas, in-sync set.
    pub partitions_changed: BTreeSet<(TopicId, PartitionIndex)>,
    /// Resources of which a setting changed. A deleted topic's are not listed.
    pub configs_changed: BTreeSet<ConfigResource>,
    /// Brokers that came, left, or changed.
    pub brokers_changed: BTreeSet<BrokerId>,
    /// Whether the level of a feature changed.
    pub features_changed: bool,
    /// Leaders that were elected although they may lack what was committed, in order. What a snapshot has
    /// swallowed is not told.
    pub unclean_elections: Vec<UncleanElection>,
}

/// A leader that was elected although it may lack what was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncleanElection {
    /// The topic of its partition.
    pub topic: TopicId,
    /// Which of the topic's partitions.
    pub partition: PartitionIndex,
    /// Who led before, or led last; [`BrokerId::NONE`] if nobody is known.
    pub before: BrokerId,
    /// Who leads.
    pub leader: BrokerId,
    /// The leadership that began.
    pub epoch: LeaderEpoch,
    /// Whether it is the last leader that was known, elected for want of any other (KIP-966); else it was
    /// asked for, by a setting or a person.
    pub is_last_known: bool,
}

impl Delta {
    /// Whether nothing changed that anyone must act on.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
