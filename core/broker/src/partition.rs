//! What the cluster's metadata and a topic's settings mean to one replica.

use std::time::Duration;

use base::BrokerId;
use metadata::settings::{self, TopicSettings};
use records::TimestampType;
use replica::{Assignment, FlushPolicy, PartitionSettings};
use storage::LogSettings;

/// What the controller decided of a partition.
pub fn assignment(partition: &metadata::Partition) -> Assignment {
    Assignment {
        leader: (partition.leader != BrokerId::NONE).then_some(partition.leader),
        leader_epoch: partition.leader_epoch,
        partition_epoch: partition.partition_epoch,
        replicas: partition.replicas.to_vec(),
        isr: partition.isr.to_vec(),
        unclean_epoch: partition.unclean_epoch,
    }
}

/// The settings of a replica among those of its topic.
pub fn partition_settings(settings: &TopicSettings) -> PartitionSettings {
    PartitionSettings { policy: flush_policy(settings), isr_min: settings.insync_replicas_min }
}

/// The flush policy among a topic's settings.
pub fn flush_policy(settings: &TopicSettings) -> FlushPolicy {
    let records = settings.flush_messages.unwrap_or(u64::MAX);
    match settings.flush_policy {
        settings::FlushPolicy::Ack => FlushPolicy::Ack,
        settings::FlushPolicy::Interval => FlushPolicy::Interval {
            every: settings.flush_interval.unwrap_or(INTERVAL_DEFAULT),
            bytes: INTERVAL_BYTES_MAX,
            records,
        },
        settings::FlushPolicy::Os => match (settings.flush_interval, settings.flush_messages) {
            (None, None) => FlushPolicy::Os,
            (every, _) => FlushPolicy::Interval {
                every: every.unwrap_or(Duration::MAX),
                bytes: replica::DIRTY_BYTES_MAX,
                records,
            },
        },
    }
}

/// `flush.interval.ms`, should it be unset.
const INTERVAL_DEFAULT: Duration = Duration::from_millis(100);

/// What `flush.policy=interval` may lose at most to a power cut, whatever the interval: as much as
/// Redpanda's write caching.
const INTERVAL_BYTES_MAX: u64 = 256 << 10;

/// The settings of a log among those of its topic.
pub fn log_settings(settings: &TopicSettings, producer_expiry: Duration) -> LogSettings {
    LogSettings {
        segment_bytes: settings.segment_bytes,
        segment_age_max: settings.segment_age_max,
        segment_jitter_max: settings.segment_jitter,
        index_interval_bytes: settings.index_interval_bytes,
        index_bytes_max: settings.segment_index_bytes,
        retention_bytes: settings.retention_bytes,
        retention_age: settings.retention,
        deletes: settings.cleanup.delete,
        compacts: settings.cleanup.compact,
        dirty_ppm_min: settings.dirty_ppm_min,
        compaction_lag_min: settings.compaction_lag_min,
        compaction_lag_max: settings.compaction_lag_max,
        tombstone_retention: settings.tombstone_retention,
        file_delete_delay: settings.file_delete_delay,
        timestamp_type: match settings.timestamp_type {
            settings::TimestampType::CreateTime => TimestampType::CreateTime,
            settings::TimestampType::LogAppendTime => TimestampType::LogAppendTime,
        },
        producer_expiry,
    }
}
