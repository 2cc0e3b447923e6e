//! What some records changed, for whoever must act on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{BrokerId, PartitionIndex, TopicId};

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
}

impl Delta {
    /// Whether nothing changed that anyone must act on.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
