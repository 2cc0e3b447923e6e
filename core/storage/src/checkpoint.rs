//! Kafka's small text files: offsets per partition, epochs of one partition, a topic's id.
//!
//! ```text
//!   0                  version
//!   2                  how many lines follow
//!   events 0 4711      topic partition offset      (recovery point, log start, high watermark)
//!   events 1 12
//! ```
//!
//! The epoch file has `epoch offset` lines; `partition.metadata` has `version: 0` and `topic_id: …`.
//! Every such file is put in place whole, so that one that does not parse was damaged.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use base::{LeaderEpoch, Offset, PartitionIndex, TopicId, TopicName, TopicPartition};

use crate::disk::{Disk, DiskError};
use crate::layout::PARTITION_METADATA_FILE;

/// The largest checkpoint file that is read: room for a million partitions with long names.
const BYTES_MAX: u64 = 256 << 20;
const VERSION: &str = "0";

/// Why a checkpoint file could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// A line is not what the format says.
    #[error("line {line}: {found:?} is not {expected}")]
    Malformed {
        /// Counted from 1.
        line: usize,
        /// What stands there, cut to a length that can be shown.
        found: String,
        /// What should stand there.
        expected: &'static str,
    },
    /// The disk did not give the file.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// Offsets of many partitions, as in the three checkpoint files of a log directory.
pub type PartitionOffsets = BTreeMap<TopicPartition, Offset>;

/// Reads an offset checkpoint; empty if the file is not there.
pub fn read_offsets(disk: &dyn Disk, path: &Path) -> Result<PartitionOffsets, CheckpointError> {
    match disk.read(path, BYTES_MAX)? {
        Some(bytes) => parse_offsets(&bytes),
        None => Ok(PartitionOffsets::new()),
    }
}

/// Puts an offset checkpoint in place, durably.
pub fn write_offsets(disk: &dyn Disk, path: &Path, offsets: &PartitionOffsets) -> Result<(), DiskError> {
    disk.replace(path, format_offsets(offsets).as_bytes())
}

/// The text of an offset checkpoint.
pub fn format_offsets(offsets: &PartitionOffsets) -> String {
    let mut text = format!("{VERSION}\n{}\n", offsets.len());
    for (at, offset) in offsets {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} {} {offset}", at.topic, at.partition);
    }
    text
}

/// Reads the text of an offset checkpoint.
pub fn parse_offsets(bytes: &[u8]) -> Result<PartitionOffsets, CheckpointError> {
    let mut offsets = PartitionOffsets::new();
    for (line, text) in entries(bytes)? {
        let parsed = parse_partition_offset(text);
        let (at, offset) = parsed.ok_or_else(|| malformed(line, text, "`topic partition offset`"))?;
        offsets.insert(at, offset);
    }
    Ok(offsets)
}

fn parse_partition_offset(text: &str) -> Option<(TopicPartition, Offset)> {
    let mut words = text.split_ascii_whitespace();
    let topic = TopicName::new(words.next()?).ok()?;
    let partition = PartitionIndex(words.next()?.parse().ok().filter(|&index: &i32| index >= 0)?);
    let offset = words.next()?.parse().ok().map(Offset)?;
    words.next().is_none().then_some((TopicPartition { topic, partition }, offset))
}

/// The text of a leader epoch checkpoint.
pub fn format_epochs(epochs: &[(LeaderEpoch, Offset)]) -> String {
    let mut text = format!("{VERSION}\n{}\n", epochs.len());
    for (epoch, start) in epochs {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{epoch} {start}");
    }
    text
}

/// Reads the text of a leader epoch checkpoint: epochs and starts both grow.
pub fn parse_epochs(bytes: &[u8]) -> Result<Vec<(LeaderEpoch, Offset)>, CheckpointError> {
    let mut epochs: Vec<(LeaderEpoch, Offset)> = Vec::new();
    for (line, text) in entries(bytes)? {
        let parsed = parse_epoch(text).filter(|&(epoch, start)| {
            epochs.last().is_none_or(|&(before, from)| before < epoch && from < start)
        });
        epochs.push(parsed.ok_or_else(|| malformed(line, text, "a later `epoch offset`"))?);
    }
    Ok(epochs)
}

fn parse_epoch(text: &str) -> Option<(LeaderEpoch, Offset)> {
    let (epoch, start) = text.split_once(' ')?;
    let epoch = epoch.parse().ok().filter(|&epoch: &i32| epoch >= 0)?;
    let start = start.trim_end().parse().ok().filter(|&start: &i64| start >= 0)?;
    Some((LeaderEpoch(epoch), Offset(start)))
}

/// The lines behind version and count, each with its number.
fn entries(bytes: &[u8]) -> Result<Vec<(usize, &str)>, CheckpointError> {
    if bytes.is_empty() {
        // Kafka makes its checkpoints empty before it has something to write into them.
        return Ok(Vec::new());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| malformed(1, "", "text"))?;
    if !text.ends_with('\n') {
        return Err(malformed(text.lines().count(), "", "a whole last line"));
    }
    let mut lines = (1..).zip(text.lines());
    match lines.next() {
        Some((_, VERSION)) => {}
        other => return Err(malformed(1, other.map_or("", |(_, line)| line), "version 0")),
    }
    let (line, count) = lines.next().unwrap_or((2, ""));
    let expected: usize = count.parse().map_err(|_| malformed(line, count, "a count"))?;
    let entries: Vec<_> = lines.filter(|(_, line)| !line.is_empty()).collect();
    if entries.len() != expected {
        return Err(malformed(2, count, "the number of lines below"));
    }
    Ok(entries)
}

fn malformed(line: usize, found: &str, expected: &'static str) -> CheckpointError {
    CheckpointError::Malformed { line, found: found.chars().take(80).collect(), expected }
}

/// The text of `partition.metadata`.
pub fn format_partition_metadata(topic: TopicId) -> String {
    format!("version: 0\ntopic_id: {topic}")
}

/// Reads the text of `partition.metadata`.
pub fn parse_partition_metadata(bytes: &[u8]) -> Result<TopicId, CheckpointError> {
    let text = std::str::from_utf8(bytes).map_err(|_| malformed(1, "", "text"))?;
    let mut topic = None;
    for (line, content) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        match content.split_once(':').map(|(key, value)| (key.trim(), value.trim())) {
            Some(("version", VERSION)) => {}
            Some(("topic_id", id)) => {
                topic = Some(id.parse().map_err(|_| malformed(line, content, "a topic id"))?);
            }
            _ => return Err(malformed(line, content, "`version: 0` or `topic_id: …`")),
        }
    }
    topic.map(TopicId).ok_or_else(|| malformed(1, "", "a topic id"))
}

/// Reads the topic's id of a partition's directory; `None` if the file is not there.
pub fn read_partition_metadata(disk: &dyn Disk, dir: &Path) -> Result<Option<TopicId>, CheckpointError> {
    let bytes = disk.read(&dir.join(PARTITION_METADATA_FILE), BYTES_MAX)?;
    bytes.as_deref().map(parse_partition_metadata).transpose()
}

#[cfg(test)]
mod tests {
    use base::Uuid;

    use super::*;

    fn at(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition { topic: TopicName::new(topic).expect("legal"), partition: PartitionIndex(partition) }
    }

    #[test]
    fn offsets_are_written_and_read_as_kafka_does() {
        let offsets = PartitionOffsets::from([(at("events", 1), Offset(12)), (at("a.b", 0), Offset(0))]);
        let text = format_offsets(&offsets);
        assert_eq!(text, "0\n2\na.b 0 0\nevents 1 12\n");
        assert_eq!(parse_offsets(text.as_bytes()), Ok(offsets));
    }

    #[test]
    fn damage_is_noticed() {
        let bad: [&[u8]; 8] = [
            b"1\n0\n",
            b"0\n",
            b"0\n2\na 0 1\n",
            b"0\n1\na 0\n",
            b"0\n1\na -1 3\n",
            b"0\n1\na/b 0 3\n",
            b"0\n1\na 0 3 4\n",
            b"\xff\n",
        ];
        for bytes in bad {
            assert!(parse_offsets(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
        let bad: [&[u8]; 5] =
            [b"0\n1\n-1 0\n", b"0\n2\n1 0\n1 5\n", b"0\n2\n1 5\n2 5\n", b"0\n1\n7\n", b"0\n1\n7 1"];
        for bytes in bad {
            assert!(parse_epochs(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn epochs_are_written_and_read_as_kafka_does() {
        let epochs = vec![(LeaderEpoch(0), Offset(0)), (LeaderEpoch(3), Offset(90))];
        let text = format_epochs(&epochs);
        assert_eq!(text, "0\n2\n0 0\n3 90\n");
        assert_eq!(parse_epochs(text.as_bytes()), Ok(epochs));
    }

    #[test]
    fn a_topic_id_is_written_and_read_as_kafka_does() {
        let id = TopicId(Uuid::from_random(7 << 100));
        let text = format_partition_metadata(id);
        assert_eq!(parse_partition_metadata(text.as_bytes()), Ok(id));
        assert!(parse_partition_metadata(b"version: 0\n").is_err());
        assert!(parse_partition_metadata(b"version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ").is_err());
    }
}
