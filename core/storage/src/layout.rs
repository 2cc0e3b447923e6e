//! What files and directories are called. The names are Kafka's, so that its tools find their way.
//!
//! ```text
//!   events-0/                                    one partition
//!     00000000000000000000.log                   records from offset 0 on
//!     00000000000000000000.index                 offset → position
//!     00000000000000000000.timeindex             timestamp → offset
//!     00000000000000000000.txnindex              aborted transactions, if there were any
//!     00000000000000004711.snapshot              producers as they were before offset 4711
//!     leader-epoch-checkpoint                    where each leader epoch began
//!     partition.metadata                         the topic's id
//!   events-1.0123456789abcdef0123456789abcdef-delete/   a partition that is being removed
//! ```

use std::path::{Path, PathBuf};

use base::{Offset, PartitionIndex, TopicName, TopicPartition, Uuid};

/// Where each leader epoch of a partition began.
pub const EPOCHS_FILE: &str = "leader-epoch-checkpoint";
/// The id of the topic a partition belongs to.
pub const PARTITION_METADATA_FILE: &str = "partition.metadata";
/// How far the logs of a directory are known to be durable.
pub const RECOVERY_POINTS_FILE: &str = "recovery-point-offset-checkpoint";
/// Where the logs of a directory begin for their readers.
pub const LOG_STARTS_FILE: &str = "log-start-offset-checkpoint";
/// The high watermarks of the partitions of a directory.
pub const HIGH_WATERMARKS_FILE: &str = "replication-offset-checkpoint";
/// There if the last stop was an orderly one.
pub const CLEAN_SHUTDOWN_FILE: &str = ".kafka_cleanshutdown";
/// To whom a directory belongs.
pub const META_PROPERTIES_FILE: &str = "meta.properties";
/// Up to where the logs of a directory were compacted.
pub const CLEAN_OFFSETS_FILE: &str = "cleaner-offset-checkpoint";

const FILE_NAME_BYTES_MAX: usize = 255;
const DELETED_SUFFIX: &str = ".deleted";
const SWAP_SUFFIX: &str = ".swap";
const CLEANED_SUFFIX: &str = ".cleaned";
const DELETE_DIR_SUFFIX: &str = "-delete";
const STRAY_DIR_SUFFIX: &str = "-stray";
const OTHER_DIR_SUFFIXES: [&str; 2] = ["-future", STRAY_DIR_SUFFIX];

/// The files that make up a segment, and the snapshots beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// The records.
    Log,
    /// Offset → position.
    OffsetIndex,
    /// Timestamp → offset.
    TimeIndex,
    /// Aborted transactions.
    TxnIndex,
    /// Producers as they were before the offset in the name.
    Snapshot,
}

impl FileKind {
    /// Every kind.
    pub const ALL: [Self; 5] =
        [Self::Log, Self::OffsetIndex, Self::TimeIndex, Self::TxnIndex, Self::Snapshot];

    /// How the names of its files end.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Log => ".log",
            Self::OffsetIndex => ".index",
            Self::TimeIndex => ".timeindex",
            Self::TxnIndex => ".txnindex",
            Self::Snapshot => ".snapshot",
        }
    }
}

/// What a name in a partition's directory means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileName {
    /// A file of the segment that begins at the offset, or the snapshot before it.
    Part(FileKind, Offset),
    /// A file that is about to take the place of segments.
    Swap(FileKind, Offset),
    /// Something unfinished or already given up: it may be removed.
    Leftover,
    /// Anything else; not ours to touch.
    Other,
}

/// The name of a file of the segment that begins at `base`.
pub fn file_name(kind: FileKind, base: Offset) -> String {
    format!("{:020}{}", base.0, kind.suffix())
}

/// The name a file gets when it is given up: it stays readable until it is removed.
pub fn deleted_name(name: &str) -> String {
    format!("{name}{DELETED_SUFFIX}")
}

/// The name of a file that is being written to take the place of others.
pub fn cleaned_name(name: &str) -> String {
    format!("{name}{CLEANED_SUFFIX}")
}

/// The name of a file that is about to take the place of others: a start completes that.
pub fn swap_name(name: &str) -> String {
    format!("{name}{SWAP_SUFFIX}")
}

/// The base offset of the segment that a file with a [`cleaned_name`] is being written for.
pub fn cleaned_base(name: &str) -> Option<Offset> {
    match parse_file_name(name.strip_suffix(CLEANED_SUFFIX)?) {
        FileName::Part(_, base) => Some(base),
        _ => None,
    }
}

/// Says what a name in a partition's directory means.
pub fn parse_file_name(name: &str) -> FileName {
    if name.ends_with(DELETED_SUFFIX) || name.ends_with(CLEANED_SUFFIX) || name.ends_with(".tmp") {
        return FileName::Leftover;
    }
    let (part, swap) = match name.strip_suffix(SWAP_SUFFIX) {
        Some(part) => (part, true),
        None => (name, false),
    };
    let Some(dot) = part.find('.') else { return FileName::Other };
    let (number, suffix) = part.split_at(dot);
    let kind = FileKind::ALL.into_iter().find(|kind| kind.suffix() == suffix);
    let base = (number.len() == 20 && number.bytes().all(|c| c.is_ascii_digit()))
        .then(|| number.parse::<i64>().ok())
        .flatten();
    match (kind, base) {
        (Some(kind), Some(base)) if swap => FileName::Swap(kind, Offset(base)),
        (Some(kind), Some(base)) => FileName::Part(kind, Offset(base)),
        _ => FileName::Other,
    }
}

/// What a name in a log directory means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirName {
    /// A partition's log.
    Partition(TopicPartition),
    /// A partition's log that is being removed.
    Deleted,
    /// A log that Kafka was moving or did not know; not ours to touch.
    Aside,
    /// Anything else.
    Other,
}

/// The directory of a partition within its log directory.
pub fn partition_dir(log_dir: &Path, partition: &TopicPartition) -> PathBuf {
    log_dir.join(partition.to_string())
}

/// The name that a partition's directory gets when it is to be removed. `unique` makes it differ from
/// that of an earlier topic of the same name.
pub fn deleted_dir_name(partition: &TopicPartition, unique: Uuid) -> String {
    aside_dir_name(partition, unique, DELETE_DIR_SUFFIX)
}

/// The name that a directory gets which has a partition's name and is none of this cluster's. It is
/// never removed.
pub fn stray_dir_name(partition: &TopicPartition, unique: Uuid) -> String {
    aside_dir_name(partition, unique, STRAY_DIR_SUFFIX)
}

fn aside_dir_name(partition: &TopicPartition, unique: Uuid, why: &str) -> String {
    let unique = u128::from_be_bytes(unique.0);
    let suffix = format!("-{}.{unique:032x}{why}", partition.partition);
    // A name at the limit is cut: the id, not the topic, tells such directories apart. Topic names
    // are ASCII, so that any byte is a boundary.
    let topic = partition.topic.as_str();
    let kept = topic.len().min(FILE_NAME_BYTES_MAX - suffix.len());
    format!("{}{suffix}", &topic[..kept])
}

/// Says what a name in a log directory means.
pub fn parse_dir_name(name: &str) -> DirName {
    if name.ends_with(DELETE_DIR_SUFFIX) && has_unique_part(name) {
        return DirName::Deleted;
    }
    if OTHER_DIR_SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) && has_unique_part(name) {
        return DirName::Aside;
    }
    parse_partition(name).map_or(DirName::Other, DirName::Partition)
}

/// Whether a name ends in `.<32 hex digits>-<word>`.
fn has_unique_part(name: &str) -> bool {
    let Some((rest, _)) = name.rsplit_once('-') else { return false };
    let Some((_, unique)) = rest.rsplit_once('.') else { return false };
    unique.len() == 32 && unique.bytes().all(|c| c.is_ascii_hexdigit())
}

fn parse_partition(name: &str) -> Option<TopicPartition> {
    let (topic, index) = name.rsplit_once('-')?;
    let canonical = index.bytes().all(|c| c.is_ascii_digit())
        && (index == "0" || !index.starts_with('0'))
        && !index.is_empty();
    if !canonical {
        return None;
    }
    let partition = PartitionIndex(index.parse().ok()?);
    Some(TopicPartition { topic: TopicName::new(topic).ok()?, partition })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_kafkas() {
        let cases = [
            ("00000000000000000000.log", FileName::Part(FileKind::Log, Offset(0))),
            ("00000000000000004711.index", FileName::Part(FileKind::OffsetIndex, Offset(4711))),
            ("09223372036854775807.timeindex", FileName::Part(FileKind::TimeIndex, Offset(i64::MAX))),
            ("00000000000000000007.snapshot", FileName::Part(FileKind::Snapshot, Offset(7))),
            ("00000000000000000007.log.swap", FileName::Swap(FileKind::Log, Offset(7))),
            ("00000000000000000007.log.deleted", FileName::Leftover),
            ("00000000000000000007.timeindex.cleaned", FileName::Leftover),
            ("leader-epoch-checkpoint.tmp", FileName::Leftover),
            ("99999999999999999999.log", FileName::Other),
            ("7.log", FileName::Other),
            ("00000000000000000007.txt", FileName::Other),
            ("-0000000000000000007.log", FileName::Other),
            ("leader-epoch-checkpoint", FileName::Other),
        ];
        for (name, means) in cases {
            assert_eq!(parse_file_name(name), means, "{name}");
        }
        for kind in FileKind::ALL {
            let name = file_name(kind, Offset(42));
            assert_eq!(parse_file_name(&name), FileName::Part(kind, Offset(42)));
        }
    }

    #[test]
    fn dir_names_are_kafkas() {
        let events = TopicPartition {
            topic: TopicName::new("events-a").expect("legal"),
            partition: PartitionIndex(3),
        };
        assert_eq!(parse_dir_name("events-a-3"), DirName::Partition(events.clone()));
        let deleted = deleted_dir_name(&events, Uuid([0xab; 16]));
        assert_eq!(deleted, format!("events-a-3.{}-delete", "ab".repeat(16)));
        assert_eq!(parse_dir_name(&deleted), DirName::Deleted);
        assert_eq!(parse_dir_name(&deleted.replace("-delete", "-stray")), DirName::Aside);
        for other in ["events-", "events-03", "events", "-3", "a b-3", "x-delete", "x-9999999999"] {
            assert_eq!(parse_dir_name(other), DirName::Other, "{other}");
        }
    }

    #[test]
    fn a_long_name_is_cut_when_its_directory_is_deleted() {
        let long = TopicPartition {
            topic: TopicName::new(&"x".repeat(249)).expect("legal"),
            partition: PartitionIndex(i32::MAX),
        };
        let name = deleted_dir_name(&long, Uuid([1; 16]));
        assert_eq!(name.len(), FILE_NAME_BYTES_MAX);
        assert_eq!(parse_dir_name(&name), DirName::Deleted);
        let name = stray_dir_name(&long, Uuid([1; 16]));
        assert_eq!(name.len(), FILE_NAME_BYTES_MAX);
        assert_eq!(parse_dir_name(&name), DirName::Aside);
    }
}
