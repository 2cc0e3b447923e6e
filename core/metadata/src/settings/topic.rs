//! What a topic's settings are, in the end.

use std::collections::BTreeSet;
use std::time::Duration;

use base::{BrokerId, PartitionIndex};

use super::describe::{Layers, resolve};
use super::kept::with_kept;
use super::setting::{INSYNC_MIN, SettingError, Value};
use super::{find_broker, find_topic};
use crate::parts::ConfigMap;

/// A topic's settings that something in the broker reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSettings {
    /// `cleanup.policy`.
    pub cleanup: Cleanup,
    /// `min.cleanable.dirty.ratio`, in millionths.
    pub dirty_ppm_min: u32,
    /// `min.compaction.lag.ms`.
    pub compaction_lag_min: Duration,
    /// `max.compaction.lag.ms`; `None` for ever.
    pub compaction_lag_max: Option<Duration>,
    /// `delete.retention.ms`.
    pub tombstone_retention: Duration,
    /// `compression.type`.
    pub compression: CompressionType,
    /// `compression.{gzip,lz4,zstd}.level` of the type; `None` for what has no level.
    pub compression_level: Option<i32>,
    /// `file.delete.delay.ms`.
    pub file_delete_delay: Duration,
    /// `flush.policy`.
    pub flush_policy: FlushPolicy,
    /// `flush.messages`; `None` for no limit.
    pub flush_messages: Option<u64>,
    /// `flush.ms`, or `flush.interval.ms` under `flush.policy=interval`, whichever is shorter; `None`
    /// for never.
    pub flush_interval: Option<Duration>,
    /// `follower.replication.throttled.replicas`.
    pub follower_throttled: ThrottledReplicas,
    /// `leader.replication.throttled.replicas`.
    pub leader_throttled: ThrottledReplicas,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u32,
    /// `max.decompressed.message.bytes`.
    pub message_decompressed_bytes_max: u32,
    /// `max.message.bytes`.
    pub message_bytes_max: u32,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max: Duration,
    /// `message.timestamp.before.max.ms`; `None` for no limit.
    pub timestamp_before_max: Option<Duration>,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `min.insync.replicas`.
    pub insync_replicas_min: usize,
    /// `retention.bytes`; `None` for no limit.
    pub retention_bytes: Option<u64>,
    /// `retention.ms`; `None` for ever.
    pub retention: Option<Duration>,
    /// `segment.bytes`.
    pub segment_bytes: u32,
    /// `segment.index.bytes`.
    pub segment_index_bytes: u32,
    /// `segment.jitter.ms`.
    pub segment_jitter: Duration,
    /// `segment.ms`.
    pub segment_age_max: Duration,
}

/// Replicas that are filled, or fill others, no faster than their broker's limit (KIP-73).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ThrottledReplicas {
    /// None of them.
    #[default]
    None,
    /// Each replica of each partition.
    All,
    /// These.
    Listed(BTreeSet<(PartitionIndex, BrokerId)>),
}

impl ThrottledReplicas {
    /// Whether a partition's replica on a broker is one of them.
    pub fn include(&self, partition: PartitionIndex, broker: BrokerId) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Listed(replicas) => replicas.contains(&(partition, broker)),
        }
    }
}

/// What happens to old segments. Neither keeps everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cleanup {
    /// Segments are dropped by age and size.
    pub delete: bool,
    /// Only the latest value of each key is kept.
    pub compact: bool,
}

/// How batches are compressed at rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionType {
    /// As the producer chose.
    Producer,
    /// Not at all.
    Uncompressed,
    /// By gzip.
    Gzip,
    /// By snappy.
    Snappy,
    /// By lz4.
    Lz4,
    /// By zstd.
    Zstd,
}

/// When records are durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushPolicy {
    /// Before an acks=all answer.
    Ack,
    /// Every so often.
    Interval,
    /// When the operating system gets to it.
    Os,
}

/// Whose clock a record's time is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// Its producer's.
    CreateTime,
    /// The broker's.
    LogAppendTime,
}

impl TopicSettings {
    /// What the settings of a topic are that is called so: what it always is, else its own, else the broker's, else
    /// the default.
    pub fn resolve(topic: &str, overrides: &ConfigMap, layers: Layers<'_>) -> Self {
        let overrides = &*with_kept(topic, overrides);
        let reader = Reader { overrides, layers };
        let compression = reader.compression();
        let flush_policy = reader.flush_policy();
        Self {
            cleanup: reader.cleanup(),
            dirty_ppm_min: reader.ppm("min.cleanable.dirty.ratio"),
            compaction_lag_min: reader.duration("min.compaction.lag.ms"),
            compaction_lag_max: reader.limit("max.compaction.lag.ms").map(Duration::from_millis),
            tombstone_retention: reader.duration("delete.retention.ms"),
            compression,
            compression_level: compression.level_name().map(|name| reader.int(name)),
            file_delete_delay: reader.duration("file.delete.delay.ms"),
            flush_policy,
            flush_messages: reader.limit("flush.messages"),
            flush_interval: reader.flush_interval(flush_policy),
            follower_throttled: reader.throttled("follower.replication.throttled.replicas"),
            leader_throttled: reader.throttled("leader.replication.throttled.replicas"),
            index_interval_bytes: reader.bytes("index.interval.bytes"),
            message_decompressed_bytes_max: reader.bytes("max.decompressed.message.bytes"),
            message_bytes_max: reader.bytes("max.message.bytes"),
            timestamp_after_max: reader.duration("message.timestamp.after.max.ms"),
            timestamp_before_max: reader.limit("message.timestamp.before.max.ms").map(Duration::from_millis),
            timestamp_type: match reader.text("message.timestamp.type").as_str() {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            insync_replicas_min: insync_replicas_min(overrides, layers),
            retention_bytes: reader.limit("retention.bytes"),
            retention: reader.limit("retention.ms").map(Duration::from_millis),
            segment_bytes: reader.bytes("segment.bytes"),
            segment_index_bytes: reader.bytes("segment.index.bytes"),
            segment_jitter: reader.duration("segment.jitter.ms"),
            segment_age_max: reader.duration("segment.ms"),
        }
    }
}

/// A topic's `min.insync.replicas`, which is never more than the replicas that a partition has.
pub fn insync_replicas_min(overrides: &ConfigMap, layers: Layers<'_>) -> usize {
    // Asked for every topic when a broker dies: its own value is read without much ado.
    let own = overrides.get(INSYNC_MIN).and_then(|value| value.trim().parse().ok());
    let number = own.unwrap_or_else(|| Reader { overrides, layers }.number(INSYNC_MIN));
    usize::try_from(number).unwrap_or(1).max(1)
}

/// A topic's `unclean.leader.election.enable`.
pub fn allows_unclean_election(overrides: &ConfigMap, layers: Layers<'_>) -> bool {
    Reader { overrides, layers }.is_on(UNCLEAN_ELECTION)
}

/// The setting that says whether a replica may lead that may lack acknowledged records.
pub const UNCLEAN_ELECTION: &str = "unclean.leader.election.enable";

impl CompressionType {
    fn level_name(self) -> Option<&'static str> {
        match self {
            Self::Gzip => Some("compression.gzip.level"),
            Self::Lz4 => Some("compression.lz4.level"),
            Self::Zstd => Some("compression.zstd.level"),
            Self::Producer | Self::Uncompressed | Self::Snappy => None,
        }
    }
}

/// Checks what fits alone but must fit together.
pub(super) fn validate_together(overrides: &ConfigMap) -> Result<(), SettingError> {
    let none = ConfigMap::new();
    let layers = Layers { broker: &none, default_broker: &none, fixed: &none };
    let reader = Reader { overrides, layers };
    let (min, max) = (reader.number("min.compaction.lag.ms"), reader.number("max.compaction.lag.ms"));
    if min > max {
        return Err(SettingError::Conflict(format!(
            "conflict topic config setting min.compaction.lag.ms ({min}) > max.compaction.lag.ms ({max})"
        )));
    }
    if reader.is_on("remote.storage.enable") {
        return Err(SettingError::Conflict(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.".into(),
        ));
    }
    Ok(())
}

/// Reads settings of the table by name. The names and types are this module's own, so a miss is a
/// mistake in the table, which a test finds.
struct Reader<'a> {
    overrides: &'a ConfigMap,
    layers: Layers<'a>,
}

impl Reader<'_> {
    fn value(&self, name: &str) -> Value {
        let setting = find_topic(name).expect("the reader asks for settings of the table");
        setting.parse(&resolve(setting, self.overrides, self.layers)).expect("resolve gives what parses")
    }

    fn number(&self, name: &str) -> i64 {
        match self.value(name) {
            Value::Number(number) => number,
            other => panic!("{name} is {other:?}, no number"),
        }
    }

    /// A ratio, in millionths.
    fn ppm(&self, name: &str) -> u32 {
        match self.value(name) {
            // The table allows 0 to 1.
            Value::Double(ratio) => (ratio * 1e6).round() as u32,
            other => panic!("{name} is {other:?}, no ratio"),
        }
    }

    fn int(&self, name: &str) -> i32 {
        i32::try_from(self.number(name)).unwrap_or(i32::MAX)
    }

    fn bytes(&self, name: &str) -> u32 {
        u32::try_from(self.number(name)).unwrap_or(0)
    }

    fn duration(&self, name: &str) -> Duration {
        Duration::from_millis(u64::try_from(self.number(name)).unwrap_or(0))
    }

    /// A number that says "no limit" by being negative or the largest there is.
    fn limit(&self, name: &str) -> Option<u64> {
        u64::try_from(self.number(name)).ok().filter(|&limit| limit < i64::MAX.unsigned_abs())
    }

    fn text(&self, name: &str) -> String {
        self.value(name).to_string()
    }

    fn throttled(&self, name: &str) -> ThrottledReplicas {
        let Value::List(listed) = self.value(name) else { panic!("{name} is a list") };
        if listed.iter().any(|one| one == "*") {
            return ThrottledReplicas::All;
        }
        let pair = |one: &String| {
            let (partition, broker) = one.split_once(':')?;
            Some((PartitionIndex(partition.trim().parse().ok()?), BrokerId(broker.trim().parse().ok()?)))
        };
        let replicas: BTreeSet<_> = listed.iter().filter_map(pair).collect();
        if replicas.is_empty() { ThrottledReplicas::None } else { ThrottledReplicas::Listed(replicas) }
    }

    fn is_on(&self, name: &str) -> bool {
        self.value(name) == Value::Boolean(true)
    }

    fn cleanup(&self) -> Cleanup {
        let Value::List(policies) = self.value("cleanup.policy") else {
            panic!("cleanup.policy is a list");
        };
        let has = |name: &str| policies.iter().any(|policy| policy == name);
        Cleanup { delete: has("delete"), compact: has("compact") }
    }

    fn compression(&self) -> CompressionType {
        match self.text("compression.type").as_str() {
            "uncompressed" => CompressionType::Uncompressed,
            "gzip" => CompressionType::Gzip,
            "snappy" => CompressionType::Snappy,
            "lz4" => CompressionType::Lz4,
            "zstd" => CompressionType::Zstd,
            _ => CompressionType::Producer,
        }
    }

    fn flush_policy(&self) -> FlushPolicy {
        match self.text("flush.policy").as_str() {
            "os" => FlushPolicy::Os,
            "interval" => FlushPolicy::Interval,
            _ => FlushPolicy::Ack,
        }
    }

    fn flush_interval(&self, policy: FlushPolicy) -> Option<Duration> {
        let own = self.limit("flush.ms").map(Duration::from_millis);
        if policy != FlushPolicy::Interval {
            return own;
        }
        let setting = find_broker("flush.interval.ms").expect("it is in the table");
        let text = self.layers.fixed.get(setting.name).map_or(setting.default.unwrap_or("100"), |text| text);
        let every = Duration::from_millis(text.trim().parse().unwrap_or(100));
        Some(own.map_or(every, |own| own.min(every)))
    }
}
