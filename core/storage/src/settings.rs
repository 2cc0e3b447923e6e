//! What an owner may choose about a log.

use std::time::Duration;

use records::TimestampType;

/// The largest segment: positions in it are signed 32-bit numbers in Kafka's tools.
pub const SEGMENT_BYTES_MAX: u32 = i32::MAX as u32;

/// The settings of one log. Names of topics' settings in Kafka are given with each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// A segment that would grow beyond this is closed: `segment.bytes`.
    pub segment_bytes: u32,
    /// A segment whose first record is this much older than the one to append is closed: `segment.ms`.
    pub segment_age_max: Duration,
    /// By how much at most it is closed earlier, so that not all logs close one at the same time:
    /// `segment.jitter.ms`.
    pub segment_jitter_max: Duration,
    /// An index entry is made once per as many bytes: `index.interval.bytes`.
    pub index_interval_bytes: u32,
    /// A segment whose index would grow beyond this is closed: `segment.index.bytes`.
    pub index_bytes_max: u32,
    /// Old segments are deleted while the log is larger: `retention.bytes`.
    pub retention_bytes: Option<u64>,
    /// Segments whose newest record is older are deleted: `retention.ms`.
    pub retention_age: Option<Duration>,
    /// Whether retention deletes anything: `cleanup.policy` has `delete`.
    pub deletes: bool,
    /// Whether of each key only the last record is kept: `cleanup.policy` has `compact`.
    pub compacts: bool,
    /// What part of a log must be dirty before compaction is worth its while, in millionths:
    /// `min.cleanable.dirty.ratio`.
    pub dirty_ppm_min: u32,
    /// How old a record must be to be compacted: `min.compaction.lag.ms`.
    pub compaction_lag_min: Duration,
    /// A record that is older is compacted, whatever part is dirty: `max.compaction.lag.ms`.
    pub compaction_lag_max: Option<Duration>,
    /// How long a record without a value stays, once it has taken the place of all before it:
    /// `delete.retention.ms`.
    pub tombstone_retention: Duration,
    /// How long a deleted file stays, for those who are reading it: `file.delete.delay.ms`.
    pub file_delete_delay: Duration,
    /// Who sets the timestamps of records: `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// An idempotent producer is forgotten this long after its last batch: `producer.id.expiration.ms`.
    pub producer_expiry: Duration,
}

impl Default for LogSettings {
    fn default() -> Self {
        const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
        Self {
            segment_bytes: 1 << 30,
            segment_age_max: WEEK,
            segment_jitter_max: Duration::ZERO,
            index_interval_bytes: 4096,
            index_bytes_max: 10 << 20,
            retention_bytes: None,
            retention_age: Some(WEEK),
            deletes: true,
            compacts: false,
            dirty_ppm_min: 500_000,
            compaction_lag_min: Duration::ZERO,
            compaction_lag_max: None,
            tombstone_retention: Duration::from_secs(24 * 60 * 60),
            file_delete_delay: Duration::from_secs(60),
            timestamp_type: TimestampType::CreateTime,
            producer_expiry: Duration::from_secs(24 * 60 * 60),
        }
    }
}

impl LogSettings {
    /// Segments of 4 KiB and indexes of 16 entries: for tests that want to see every edge soon.
    pub fn tiny() -> Self {
        Self {
            segment_bytes: 4096,
            index_interval_bytes: 256,
            index_bytes_max: 16 * 12,
            file_delete_delay: Duration::from_millis(10),
            ..Self::default()
        }
    }
}
