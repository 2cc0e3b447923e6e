//! How a member of a group behaves.

use std::sync::Arc;
use std::time::Duration;

use super::assignor::Assignor;
use crate::backoff::Backoff;
use crate::links::LinksSettings;

/// How a member and its coordinator talk; Kafka's `group.protocol`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupProtocol {
    /// [`GroupProtocol::Consumer`] if the coordinator speaks it, else [`GroupProtocol::Classic`].
    Auto,
    /// JoinGroup and SyncGroup: one of the members assigns, and all of them meet for it.
    Classic,
    /// ConsumerGroupHeartbeat (KIP-848): the coordinator assigns, and nobody waits for a third.
    Consumer,
}

/// The settings of a member, with the names and meanings of Kafka's.
#[derive(Clone, Debug)]
pub struct GroupSettings {
    /// `group.id`.
    pub group_id: Arc<str>,
    /// `group.instance.id`: who comes back with it within the session goes on with what it had (KIP-345).
    pub instance_id: Option<Arc<str>>,
    /// `group.protocol`.
    pub protocol: GroupProtocol,
    /// `partition.assignment.strategy`, the one that is liked best first; of the classic protocol. All of
    /// them must be [`Assignor::CooperativeSticky`] for a rebalance that takes away only what moves.
    pub assignors: Vec<Assignor>,
    /// `group.remote.assignor`, of the consumer protocol; the coordinator's own choice without.
    pub remote_assignor: Option<Arc<str>>,
    /// `client.rack`.
    pub rack: Option<Arc<str>>,
    /// `session.timeout.ms`, of the classic protocol: the coordinator takes who is silent for so long for
    /// dead.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`, of the classic protocol; with the other the coordinator says it.
    pub heartbeat_interval: Duration,
    /// `max.poll.interval.ms`: an owner that asks for nothing for so long gives up its place, and for so long
    /// a rebalance waits for it.
    pub poll_interval_max: Duration,
    /// `enable.auto.commit` and `auto.commit.interval.ms`; `None` is off.
    pub auto_commit: Option<Duration>,
    /// Whether committed offsets are waited for that an open transaction may change (KIP-447), as who reads
    /// committed records does.
    pub requires_stable: bool,
    /// `retry.backoff.ms` and `retry.backoff.max.ms`.
    pub retry: Backoff,
    /// `metadata.max.age.ms`.
    pub metadata_age_max: Duration,
    /// How to connect.
    pub links: LinksSettings,
}

impl GroupSettings {
    /// Kafka's defaults, but for the protocol.
    pub fn new(group_id: &str) -> Self {
        Self {
            group_id: group_id.into(),
            instance_id: None,
            protocol: GroupProtocol::Auto,
            assignors: vec![Assignor::Range, Assignor::CooperativeSticky],
            remote_assignor: None,
            rack: None,
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            poll_interval_max: Duration::from_secs(300),
            auto_commit: Some(Duration::from_secs(5)),
            requires_stable: false,
            retry: Backoff { first: Duration::from_millis(100), max: Duration::from_secs(1) },
            metadata_age_max: Duration::from_secs(300),
            links: LinksSettings::default(),
        }
    }
}
