//! How a consumer behaves.

use std::sync::Arc;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::links::LinksSettings;

/// What a consumer sees of transactions; Kafka's `isolation.level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Everything, aborted or not.
    ReadUncommitted,
    /// What was committed, up to the first transaction that is still open.
    ReadCommitted,
}

impl Isolation {
    /// As the protocol says it.
    pub const fn code(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}

/// Where to go on when the position is not in the log any more; Kafka's `auto.offset.reset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// At the first record there is.
    Earliest,
    /// Behind the last.
    Latest,
    /// Nowhere: it is an error.
    None,
}

/// The settings of a consumer, with the names and meanings of Kafka's.
#[derive(Clone, Debug)]
pub struct ConsumerSettings {
    /// `isolation.level`.
    pub isolation: Isolation,
    /// `auto.offset.reset`.
    pub reset: Reset,
    /// `fetch.min.bytes`.
    pub fetch_bytes_min: i32,
    /// `fetch.max.wait.ms`.
    pub fetch_wait_max: Duration,
    /// `fetch.max.bytes`: of one answer.
    pub fetch_bytes_max: i32,
    /// `max.partition.fetch.bytes`: of one partition in an answer.
    pub partition_bytes_max: i32,
    /// Bytes that nobody has read yet, beyond which nothing more is asked for. The answers that are on
    /// their way then, one of each broker, come on top.
    pub prefetch_bytes_max: usize,
    /// `check.crcs`.
    pub check_crcs: bool,
    /// `client.rack`: where it is. Leaders elsewhere may send it to a replica nearby (KIP-392).
    pub rack: Option<Arc<str>>,
    /// `retry.backoff.ms` and `retry.backoff.max.ms`.
    pub retry: Backoff,
    /// `metadata.max.age.ms`.
    pub metadata_age_max: Duration,
    /// How to connect.
    pub links: LinksSettings,
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        Self {
            isolation: Isolation::ReadUncommitted,
            reset: Reset::Latest,
            fetch_bytes_min: 1,
            fetch_wait_max: Duration::from_millis(500),
            fetch_bytes_max: 50 << 20,
            partition_bytes_max: 1 << 20,
            prefetch_bytes_max: 32 << 20,
            check_crcs: true,
            rack: None,
            retry: Backoff { first: Duration::from_millis(100), max: Duration::from_secs(1) },
            metadata_age_max: Duration::from_secs(300),
            links: LinksSettings::default(),
        }
    }
}
