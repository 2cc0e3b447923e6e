//! The settings of topics, by name.

use super::setting::Allowed::{
    self, Any, AtLeast, Between, BetweenOr, LimitFrom, ListOf, OneOf, Ratio, ThrottledReplicas,
};
use super::setting::Kind::{self, Boolean, Double, Int, List, Long, String};
use super::setting::{Scope, Setting};

pub(super) const FLUSH_POLICIES: Allowed = OneOf(&["ack", "interval", "os"]);
pub(super) const COMPRESSION_TYPES: Allowed =
    OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]);
pub(super) const CLEANUP_POLICIES: Allowed = ListOf(&["compact", "delete"]);
pub(super) const TIMESTAMP_TYPES: Allowed = OneOf(&["CreateTime", "LogAppendTime"]);
/// The longest array a Java broker can allocate: Kafka's way to say "no limit".
pub(super) const ARRAY_LEN_MAX: i64 = 2_147_483_639;

const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;

const KAFKA: &str = "Kafka's default.";
const TIERED: &str = "Object storage is not in use: taken and kept for tools that set it.";
const UNUSED: &str = "Taken and kept for tools that set it.";
const FOREVER: &str = "9223372036854775807";

/// Sorted by name.
pub(super) const TOPIC: &[Setting] = &[
    topic("cleanup.policy", List, "delete", CLEANUP_POLICIES)
        .from(&[("log.cleanup.policy", 1)])
        .doc("What happens to old segments: `delete` drops them by age and size, `compact` \
              keeps the last record of each key. With both, both are done; an empty list keeps everything.")
        .why("Kafka's default: a log, not a table."),
    topic("compression.gzip.level", Int, "-1", BetweenOr(1, 9, -1))
        .from(&[("compression.gzip.level", 1)])
        .doc("How hard gzip tries when the broker compresses; -1 is gzip's own default.")
        .why(KAFKA),
    topic("compression.lz4.level", Int, "9", Between(1, 17))
        .from(&[("compression.lz4.level", 1)])
        .doc("How hard lz4 tries when the broker compresses.")
        .why(KAFKA),
    topic("compression.type", String, "producer", COMPRESSION_TYPES)
        .from(&[("compression.type", 1)])
        .doc("How batches are compressed at rest; `producer` keeps what the producer chose.")
        .why("Kafka's default, and the only one for which a batch is stored as it came, byte for byte."),
    topic("compression.zstd.level", Int, "3", Between(-131_072, 22))
        .from(&[("compression.zstd.level", 1)])
        .doc("How hard zstd tries when the broker compresses.")
        .why(KAFKA),
    topic("delete.retention.ms", Long, "86400000", AtLeast(0))
        .from(&[("log.cleaner.delete.retention.ms", 1)])
        .doc(
            "How long a compacted topic keeps the marks of deleted keys, once compaction has dropped what they delete; \
             longer while a replica is out of sync.",
        )
        .why("Kafka's default: a reader that starts over has a day to see every deletion."),
    topic("errors.deadletterqueue.group.enable", Boolean, "false", Any)
        .doc("Whether share groups may write what they could not deliver to this topic. Without effect: there are no share groups.")
        .why(UNUSED),
    topic("file.delete.delay.ms", Long, "60000", AtLeast(0))
        .from(&[("log.segment.delete.delay.ms", 1)])
        .doc("How long the files of a dropped segment stay before they are removed; those of a deleted topic go at once.")
        .why("Kafka's default: reads that are under way finish."),
    topic("flush.messages", Long, FOREVER, AtLeast(1))
        .from(&[("log.flush.interval.messages", 1)])
        .doc("Flush to the disk after this many records, whatever `flush.policy` says.")
        .why("Off, as in Kafka; `flush.policy` is the better tool."),
    topic("flush.ms", Long, FOREVER, AtLeast(0))
        .from(&[("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)])
        .doc("Flush to the disk when the oldest unflushed record is this old, whatever `flush.policy` says.")
        .why("Off, as in Kafka; `flush.policy` is the better tool."),
    topic("flush.policy", String, "ack", FLUSH_POLICIES)
        .from(&[("flush.policy", 1)])
        .doc("When records are durable: `ack` before an acks=all answer, `interval` every \
              `flush.interval.ms`, `os` when the operating system gets to it.")
        .why("What was acknowledged survives a power cut. `os` is Kafka's behaviour: turn to it only if \
              losing the last seconds of acknowledged records is acceptable."),
    topic("follower.replication.throttled.replicas", List, "", ThrottledReplicas)
        .doc("The replicas, as `partition:broker`, that are filled no faster than `follower.replication.throttled.rate` of their broker while they are not in sync; `*` for all.")
        .why("Empty; tools that move replicas fill it and clear it."),
    topic("index.interval.bytes", Int, "4096", AtLeast(0))
        .from(&[("log.index.interval.bytes", 1)])
        .doc("How many bytes of records lie between two entries of an index.")
        .why("Kafka's default: a lookup reads at most a page more than it needs."),
    topic("leader.replication.throttled.replicas", List, "", ThrottledReplicas)
        .doc("The replicas, as `partition:broker`, that while they lead fill others no faster than `leader.replication.throttled.rate` of their broker; `*` for all.")
        .why("Empty; tools that move replicas fill it and clear it."),
    topic("local.retention.bytes", Long, "-2", AtLeast(-2))
        .from(&[("log.local.retention.bytes", 1)])
        .doc("How much of a tiered topic stays on the local disk; -2 is `retention.bytes`. Without effect: object storage is not in use.")
        .why(TIERED),
    topic("local.retention.ms", Long, "-2", AtLeast(-2))
        .from(&[("log.local.retention.ms", 1)])
        .doc("How long a tiered topic's records stay on the local disk; -2 is `retention.ms`. Without effect: object storage is not in use.")
        .why(TIERED),
    topic("max.compaction.lag.ms", Long, FOREVER, AtLeast(1))
        .from(&[("log.cleaner.max.compaction.lag.ms", 1)])
        .doc("How long a record of a compacted topic can go without being compacted: it is then due, however little of the log is dirty.")
        .why(KAFKA),
    topic("max.decompressed.message.bytes", Int, "2147483639", Between(1, ARRAY_LEN_MAX))
        .from(&[("max.decompressed.message.bytes", 1)])
        .doc("The largest single record, decompressed.")
        .why("Kafka's default, no limit; what a whole batch may decompress to is bounded anyway."),
    topic("max.message.bytes", Int, "1048588", AtLeast(0))
        .from(&[("message.max.bytes", 1)])
        .doc("The largest batch of records, as it comes.")
        .why("Kafka's default: 1 MiB of records and a batch's header."),
    topic("message.timestamp.after.max.ms", Long, "3600000", AtLeast(0))
        .from(&[("log.message.timestamp.after.max.ms", 1)])
        .doc("How far a record's time may be ahead of the broker's clock, with CreateTime.")
        .why("Kafka's default: a record from the future would hold its segment back from retention."),
    topic("message.timestamp.before.max.ms", Long, FOREVER, AtLeast(0))
        .from(&[("log.message.timestamp.before.max.ms", 1)])
        .doc("How far a record's time may be behind the broker's clock, with CreateTime.")
        .why("Kafka's default, no limit: old records are imported every day."),
    topic("message.timestamp.type", String, "CreateTime", TIMESTAMP_TYPES)
        .from(&[("log.message.timestamp.type", 1)])
        .doc("Whose clock a record's time is from: its producer's or the broker's.")
        .why(KAFKA),
    topic("min.cleanable.dirty.ratio", Double, "0.5", Ratio(0.0, 1.0))
        .from(&[("log.cleaner.min.cleanable.ratio", 1)])
        .doc("The share of a log that must be uncompacted before compaction is worth its while.")
        .why("Kafka's default: at most half of the log is duplicates."),
    topic("min.compaction.lag.ms", Long, "0", AtLeast(0))
        .from(&[("log.cleaner.min.compaction.lag.ms", 1)])
        .doc("How long a record stays as it was written before it can be compacted away.")
        .why(KAFKA),
    topic("min.insync.replicas", Int, "1", AtLeast(1))
        .from(&[("min.insync.replicas", 1)])
        .doc("How many replicas must be in sync for an acks=all write; with fewer it is refused. Never more \
              than the topic has replicas. What a node is given at start counts for the whole cluster once its controller is \
              elected while the cluster has none, and then stays: it is changed there, and not taken back.")
        .why("Kafka's default, and all that one node can give. A topic that is made with three \
              replicas or more gets its own 2, unless it is set for all."),
    topic("preallocate", Boolean, "false", Any)
        .from(&[("log.preallocate", 1)])
        .doc("Whether a new segment takes its whole room on the disk at once. Without effect: files grow as they are written.")
        .why(UNUSED),
    topic("remote.copy.lag.bytes", Long, "-1", AtLeast(-1))
        .from(&[("log.remote.copy.lag.bytes", 1)])
        .doc("How many newer bytes make a segment go to object storage; -1 follows local retention. Without effect: object storage is not in use.")
        .why(TIERED),
    topic("remote.copy.lag.ms", Long, "0", AtLeast(-1))
        .from(&[("log.remote.copy.lag.ms", 1)])
        .doc("How old a segment is when it goes to object storage; -1 follows local retention. Without effect: object storage is not in use.")
        .why(TIERED),
    topic("remote.log.copy.disable", Boolean, "false", Any)
        .doc("Whether a tiered topic stops sending segments to object storage. Without effect: object storage is not in use.")
        .why(TIERED),
    topic("remote.log.delete.on.disable", Boolean, "false", Any)
        .doc("Whether what is in object storage goes when tiering is turned off. Without effect: object storage is not in use.")
        .why(TIERED),
    topic("remote.storage.enable", Boolean, "false", Any)
        .doc("Whether old segments go to object storage.")
        .why("Object storage is not in use: `true` is refused."),
    topic("retention.bytes", Long, "-1", LimitFrom(0))
        .from(&[("log.retention.bytes", 1)])
        .doc("How large a partition may grow before its oldest segments are dropped; -1 is no limit.")
        .why("Kafka's default: age decides. Set it to protect a small disk."),
    topic("retention.ms", Long, "604800000", AtLeast(-1))
        .from(&[
            ("log.retention.ms", 1),
            ("log.retention.minutes", MINUTE_MS),
            ("log.retention.hours", HOUR_MS),
        ])
        .doc("How long records are kept before their segment is dropped; -1 is for ever.")
        .why("Kafka's default: a week outlasts a long weekend's outage."),
    topic("segment.bytes", Int, "1073741824", AtLeast(1_048_576))
        .from(&[("log.segment.bytes", 1)])
        .doc("How large a segment file grows before the next one is begun.")
        .why("Kafka's default. Smaller segments let small limits of retention act sooner."),
    topic("segment.index.bytes", Int, "10485760", AtLeast(4))
        .from(&[("log.index.size.max.bytes", 1)])
        .doc("How large an index may grow; a full one begins the next segment.")
        .why(KAFKA),
    topic("segment.jitter.ms", Long, "0", AtLeast(0))
        .from(&[("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)])
        .doc("By how much at most a roll by age comes early, so that not all partitions roll at once.")
        .why(KAFKA),
    topic("segment.ms", Long, "604800000", AtLeast(1))
        .from(&[("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)])
        .doc("How old a segment grows before the next one is begun, even if it is not full.")
        .why("Kafka's default. A quiet partition lets go of old records only once it rolls."),
    topic("unclean.leader.election.enable", Boolean, "false", Any)
        .from(&[("unclean.leader.election.enable", 1)])
        .doc("Whether a replica that may miss acknowledged records becomes leader when no other can.")
        .why("Never: it loses what was acknowledged. Turn it on for one topic, for one moment, to get it back."),
];

const fn topic(name: &'static str, kind: Kind, default: &'static str, allowed: Allowed) -> Setting {
    Setting {
        name,
        kind,
        default: Some(default),
        allowed,
        doc: "",
        reason: "",
        scope: Scope::Topic,
        synonyms: &[],
    }
}

impl Setting {
    /// The broker's settings that give its default.
    pub(super) const fn from(self, synonyms: &'static [(&'static str, i64)]) -> Self {
        Self { synonyms, ..self }
    }

    /// What it does.
    pub(super) const fn doc(self, doc: &'static str) -> Self {
        Self { doc, ..self }
    }

    /// Why it is as it is.
    pub(super) const fn why(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }
}
