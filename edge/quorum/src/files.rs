//! The small files beside the metadata log.
//!
//! | file | what it says |
//! | --- | --- |
//! | `quorum-state` | the epoch this node is in and for whom it voted; Kafka's JSON |
//! | `metadata-log-start` | the entry before the first one in the log: its offset, index and epoch |
//! | `recovery-point-offset-checkpoint` | up to where the log was durable when that was last noted |
//! | `replication-offset-checkpoint` | up to where it was committed, likewise |
//!
//! Each is put in the place of its predecessor whole: see [`Disk::replace`].

use std::path::{Path, PathBuf};

use base::{Offset, PartitionIndex, TopicName, TopicPartition, Uuid};
use serde::{Deserialize, Serialize};
use storage::checkpoint::{PartitionOffsets, read_offsets, write_offsets};
use storage::disk::{Disk, DiskError};
use storage::layout::{HIGH_WATERMARKS_FILE, RECOVERY_POINTS_FILE};

use crate::METADATA_TOPIC;
use crate::error::OpenError;
use crate::types::{LogId, Vote, log_id};

pub(crate) const VOTE_FILE: &str = "quorum-state";
pub(crate) const START_FILE: &str = "metadata-log-start";

const BYTES_MAX: u64 = 64 << 10;

/// The partition that is the metadata log.
pub(crate) fn partition() -> TopicPartition {
    let topic = TopicName::new(METADATA_TOPIC).expect("it is a legal name");
    TopicPartition { topic, partition: PartitionIndex(0) }
}

/// Kafka's file, with Kafka's names.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct QuorumState {
    leader_id: i32,
    leader_epoch: i32,
    #[serde(default = "nobody")]
    voted_id: i32,
    #[serde(default)]
    voted_directory_id: String,
    #[serde(rename = "data_version", default)]
    data_version: i16,
}

fn nobody() -> i32 {
    -1
}

/// What the file of votes says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voted {
    /// It is not there.
    Nothing,
    /// This node never voted.
    Never,
    /// Its last vote.
    For(Vote),
}

impl Voted {
    pub(crate) fn vote(self) -> Option<Vote> {
        match self {
            Self::For(vote) => Some(vote),
            Self::Nothing | Self::Never => None,
        }
    }
}

pub(crate) fn read_vote(disk: &dyn Disk, dir: &Path) -> Result<Voted, OpenError> {
    let path = dir.join(VOTE_FILE);
    let Some(bytes) = disk.read(&path, BYTES_MAX)? else { return Ok(Voted::Nothing) };
    let lost = |why: String| OpenError::VoteLost { path: path.clone(), why };
    let state: QuorumState = serde_json::from_slice(&bytes).map_err(|error| lost(error.to_string()))?;
    let term = u64::try_from(state.leader_epoch).map_err(|_| lost("a negative epoch".into()))?;
    let led = u64::try_from(state.leader_id).ok();
    match (led, u64::try_from(state.voted_id).ok()) {
        // Kafka forgets a vote once there is a leader; the leader of an epoch is whom one may follow.
        (Some(leader), _) => Ok(Voted::For(Vote::new_committed(term, leader))),
        (None, Some(candidate)) => Ok(Voted::For(Vote::new(term, candidate))),
        (None, None) => Ok(Voted::Never),
    }
}

pub(crate) fn write_vote(disk: &dyn Disk, dir: &Path, vote: Option<&Vote>) -> Result<(), DiskError> {
    let number = |id: u64| i32::try_from(id).unwrap_or(-1);
    let id = vote.map_or(-1, |vote| number(vote.leader_id.voted_for));
    let state = QuorumState {
        leader_id: if vote.is_some_and(|vote| vote.committed) { id } else { -1 },
        leader_epoch: vote.map_or(0, |vote| number(vote.leader_id.term)),
        voted_id: id,
        voted_directory_id: Uuid::ZERO.to_string(),
        data_version: 1,
    };
    let json = serde_json::to_vec(&state).expect("it is a plain struct");
    disk.replace(&dir.join(VOTE_FILE), &json)
}

/// What comes before the first entry of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogStart {
    /// Where the first entry begins.
    pub(crate) offset: Offset,
    /// The entry before it.
    pub(crate) before: LogId,
    /// Whether what lies in the log files is void, because a snapshot took its place.
    pub(crate) void: bool,
}

pub(crate) fn read_start(disk: &dyn Disk, dir: &Path) -> Result<Option<LogStart>, OpenError> {
    let path = dir.join(START_FILE);
    let Some(bytes) = disk.read(&path, BYTES_MAX)? else { return Ok(None) };
    match parse_start(&bytes) {
        Some(start) => Ok(Some(start)),
        None => Err(OpenError::SnapshotLost { path, why: "it cannot be read".into() }),
    }
}

fn parse_start(bytes: &[u8]) -> Option<LogStart> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    if lines.next()? != "0" {
        return None;
    }
    let mut words = lines.next()?.split(' ');
    let offset = Offset(words.next()?.parse().ok().filter(|offset| *offset >= 0)?);
    let index = words.next()?.parse().ok()?;
    let term: i32 = words.next()?.parse().ok()?;
    let void = match words.next()? {
        "void" => true,
        "kept" => false,
        _ => return None,
    };
    Some(LogStart { offset, before: log_id(u64::try_from(term).ok()?, index), void })
}

pub(crate) fn write_start(disk: &dyn Disk, dir: &Path, start: &LogStart) -> Result<(), DiskError> {
    let LogStart { offset, before, void } = start;
    let void = if *void { "void" } else { "kept" };
    let text = format!("0\n{offset} {} {} {void}\n", before.index, before.leader_id.term);
    disk.replace(&dir.join(START_FILE), text.as_bytes())
}

/// Up to where the log was durable.
pub(crate) fn read_durable(disk: &dyn Disk, dir: &Path) -> Result<Offset, OpenError> {
    read_offset(disk, dir.join(RECOVERY_POINTS_FILE))
}

pub(crate) fn write_durable(disk: &dyn Disk, dir: &Path, offset: Offset) -> Result<(), DiskError> {
    write_offset(disk, &dir.join(RECOVERY_POINTS_FILE), offset)
}

/// Up to where the log was committed.
pub(crate) fn read_committed(disk: &dyn Disk, dir: &Path) -> Result<Offset, OpenError> {
    read_offset(disk, dir.join(HIGH_WATERMARKS_FILE))
}

pub(crate) fn write_committed(disk: &dyn Disk, dir: &Path, offset: Offset) -> Result<(), DiskError> {
    write_offset(disk, &dir.join(HIGH_WATERMARKS_FILE), offset)
}

fn read_offset(disk: &dyn Disk, path: PathBuf) -> Result<Offset, OpenError> {
    let offsets = read_offsets(disk, &path).map_err(|error| OpenError::Checkpoint { path, error })?;
    Ok(offsets.get(&partition()).copied().unwrap_or(Offset::ZERO))
}

fn write_offset(disk: &dyn Disk, path: &Path, offset: Offset) -> Result<(), DiskError> {
    write_offsets(disk, path, &PartitionOffsets::from_iter([(partition(), offset)]))
}
