//! What a shard is told to keep to.

use std::sync::Arc;
use std::time::Duration;

use base::Now;

use crate::consumer::ConsumerGroupSettings;

/// The settings of a shard, each with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardSettings {
    /// `group.initial.rebalance.delay.ms`: how long a group that was empty waits for more members, at most.
    pub initial_rebalance_delay_max: Duration,
    /// `group.min.session.timeout.ms`.
    pub session_timeout_min: Duration,
    /// `group.max.session.timeout.ms`.
    pub session_timeout_max: Duration,
    /// `group.max.size`: members that a classic group has at most.
    pub members_max: usize,
    /// `offset.metadata.max.bytes`: what a client may write beside an offset.
    pub offset_metadata_bytes_max: usize,
    /// `offsets.retention.minutes`: how long offsets are kept once nobody needs them (KIP-211).
    pub offsets_retention: Duration,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval: Duration,
    /// `offsets.commit.timeout.ms`: how long a reply waits for its records to be committed.
    pub commit_timeout: Duration,
    /// `group.disconnect.shortens.session`: whether a member whose connection is closed, and which is not static, is
    /// waited for no longer than it takes to connect again.
    pub disconnect_shortens_session: bool,
    /// Of groups of the new protocol (KIP-848).
    pub consumer: Arc<ConsumerGroupSettings>,
}

impl Default for ShardSettings {
    /// Kafka's defaults, but for `group.max.size`, which has no bound there.
    fn default() -> Self {
        Self {
            initial_rebalance_delay_max: Duration::from_secs(3),
            session_timeout_min: Duration::from_secs(6),
            session_timeout_max: Duration::from_secs(30 * 60),
            members_max: 1_000,
            offset_metadata_bytes_max: 4_096,
            offsets_retention: Duration::from_secs(7 * 24 * 60 * 60),
            offsets_retention_check_interval: Duration::from_secs(10 * 60),
            commit_timeout: Duration::from_secs(5),
            disconnect_shortens_session: true,
            consumer: Arc::default(),
        }
    }
}

/// When a step happens, and what it keeps to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) now: Now,
    pub(crate) settings: &'a ShardSettings,
}
