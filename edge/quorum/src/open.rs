//! How the metadata log comes back.
//!
//! | found | decision |
//! | --- | --- |
//! | nothing | begin one |
//! | a torn end, of which nothing was known to be durable | cut it |
//! | damage below what was durable, or before a whole batch | refuse to start |
//! | entries of an election, and no vote | refuse to start: this node would vote twice |
//! | a log that begins behind a snapshot, and no such snapshot | refuse to start |
//! | a start that says the log is void | a snapshot took its place: finish that |
//! | entries and no membership before them | a node that was alone wrote it: see [`Found::is_alone`] |

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Now, Offset, TopicId, Uuid};
use bytes::Bytes;
use openraft::EntryPayload;
use records::Scratch;
use storage::disk::Disk;
use storage::layout::partition_dir;
use storage::{Cut, Known, Log, LogSettings};

use crate::batch;
use crate::error::OpenError;
use crate::files::{self, Voted};
use crate::members::Voter;
use crate::memory::{Kept, Memory};
use crate::scan;
use crate::snapshot::{self, Checkpoint};
use crate::types::{Home, log_id};
use crate::writer::{Writer, wall};

/// Kafka's id of the metadata topic.
pub(crate) const METADATA_TOPIC_ID: TopicId = TopicId(Uuid(1u128.to_be_bytes()));

/// What was found on a disk.
pub(crate) struct Found {
    pub(crate) writer: Writer,
    pub(crate) memory: Memory,
    /// The newest snapshot.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// What a crash tore off the end.
    pub(crate) cut: Option<Cut>,
    /// Whether a node wrote the log that was alone, by a release that knew no quorum.
    pub(crate) is_alone: bool,
}

/// The directory of the metadata log.
pub(crate) fn log_dir_of(log_dir: &Path) -> PathBuf {
    partition_dir(log_dir, &files::partition())
}

pub(crate) fn open(disk: Arc<dyn Disk>, log_dir: &Path, node: u64) -> Result<Found, OpenError> {
    let dir = log_dir_of(log_dir);
    disk.create_dir(log_dir)?;
    let now = Now::new(std::time::Duration::ZERO, wall());
    if !has_log(disk.as_ref(), log_dir)? {
        // What lies there is what a crash left of the first start.
        disk.remove_dir(&dir)?;
        let log = Log::create(disk.clone(), dir.clone(), METADATA_TOPIC_ID, settings(), now)?;
        // From here on a log that is missing is known to be missing.
        files::write_durable(disk.as_ref(), &dir, Offset::ZERO)?;
        let writer = Writer::new(disk, dir, log, Offset::ZERO, Offset::ZERO);
        return Ok(Found { writer, memory: Memory::new(node), checkpoint: None, cut: None, is_alone: false });
    }
    let voted = files::read_vote(disk.as_ref(), &dir)?;
    let start = files::read_start(disk.as_ref(), &dir)?;
    let checkpoint = newest_checkpoint(disk.as_ref(), &dir)?;
    let mut memory = Memory::new(node);
    memory.vote = voted.vote();
    if let Some(checkpoint) = &checkpoint {
        memory.snapshot = Some((checkpoint.last, checkpoint.image.end()));
        memory.set_members_before(checkpoint.last, checkpoint.members.membership().clone());
    }
    if let Some(start) = &start {
        (memory.first, memory.before, memory.start) =
            (start.before.index + 1, Some(start.before), start.offset);
        match &checkpoint {
            Some(checkpoint) if checkpoint.last.index >= start.before.index => {}
            _ => return Err(snapshot_lost(&dir, start)),
        }
    }
    let durable = files::read_durable(disk.as_ref(), &dir)?;
    let committed = files::read_committed(disk.as_ref(), &dir)?;
    let is_void = start.is_some_and(|start| start.void);
    if !is_void {
        read_entries(disk.as_ref(), &dir, durable, &mut memory)?;
    }
    let known = Known { recovery_point: Offset::ZERO, log_start: memory.start, clean: false, adopted: false };
    let (mut log, recovered) = Log::open(disk.clone(), dir.clone(), settings(), known, now)?;
    if !is_void {
        if log.end() != memory.end() {
            return Err(OpenError::Missing { path: dir, end: log.end(), durable: memory.end() });
        }
        // What was read may be in the page cache only: it counts from here on, so it has to be durable.
        log.flush(storage::FlushScope::Checkpoint)?;
    }
    let is_alone = start.is_none()
        && memory.kept.front().is_some_and(|first| {
            !matches!(first.entry.payload, EntryPayload::Membership(_)) && checkpoint.is_none()
        });
    let is_elected = memory.last().is_some_and(|last| last.leader_id.term > 0);
    if voted == Voted::Nothing && is_elected && !is_alone {
        let path = dir.join(files::VOTE_FILE);
        return Err(OpenError::VoteLost { path, why: "it is not there".into() });
    }
    memory.committed = memory.ending_by(committed);
    let mut writer = Writer::new(disk, dir, log, durable, committed);
    if let Some(start) = start.filter(|start| start.void) {
        writer.start_at(&start).map_err(|stopped| OpenError::Quorum(stopped.0))?;
    }
    Ok(Found { writer, memory, checkpoint, cut: recovered.cut, is_alone })
}

/// Whether there is a metadata log in a log directory, or a sign that there was one.
pub fn has_log(disk: &dyn Disk, log_dir: &Path) -> Result<bool, OpenError> {
    scan::has_log(disk, log_dir, &log_dir_of(log_dir))
}

/// Whether the log in a directory names a node a member of the quorum; `None` if there is no log, or nobody is in
/// it: the first start ended before it had begun. Who is a member is started as one, who is not observes: nor is it
/// who the log does not know by its directory, unless nobody else votes.
pub fn is_member(disk: Arc<dyn Disk>, log_dir: &Path, me: &Voter) -> Result<Option<bool>, OpenError> {
    disk.create_dir(log_dir)?;
    if !has_log(disk.as_ref(), log_dir)? {
        return Ok(None);
    }
    let id = crate::types::node(me.id);
    let found = open(disk, log_dir, id)?;
    let members = &found.memory.members;
    let is_alone = found.is_alone || members.voter_ids().all(|voter| voter == id);
    let is_me = |(node, home): (&u64, &Home)| *node == id && (is_alone || me.directory == home.directory);
    let is_void = members.nodes().next().is_none() && !found.is_alone;
    Ok((!is_void).then(|| found.is_alone || members.nodes().any(is_me)))
}

fn newest_checkpoint(disk: &dyn Disk, dir: &Path) -> Result<Option<Checkpoint>, OpenError> {
    let Some(id) = snapshot::list(disk, dir)?.pop() else { return Ok(None) };
    let path = snapshot::path(dir, id);
    let bytes: Bytes = snapshot::read(disk, dir, id)?.unwrap_or_default();
    let checkpoint = Checkpoint::decode(id, &bytes);
    checkpoint.map(Some).map_err(|why| OpenError::SnapshotLost { path, why: why.0 })
}

fn snapshot_lost(dir: &Path, start: &files::LogStart) -> OpenError {
    let epoch = crate::types::epoch(start.before.leader_id.term);
    let id = snapshot::SnapshotId { offset: start.offset, epoch };
    OpenError::SnapshotLost { path: snapshot::path(dir, id), why: "no snapshot reaches that far".into() }
}

fn read_entries(disk: &dyn Disk, dir: &Path, durable: Offset, memory: &mut Memory) -> Result<(), OpenError> {
    let start = memory.start;
    // What was durable and is purged need not be there any more, unless something behind it is.
    let durable = if durable > start { durable } else { Offset::ZERO };
    let (mut at, mut records, mut scratch) = (None, Vec::new(), Scratch::default());
    let damaged =
        |offset: Offset, why: String| OpenError::Damaged { path: dir.to_owned(), position: 0, offset, why };
    scan::read_batches(disk, dir, start, durable, &mut |batch| {
        let (base, end) = (batch.base_offset(), batch.next_offset());
        if end <= start {
            return Ok(());
        }
        if base < start {
            return Err(damaged(base, format!("a batch reaches over the start of the log, {start}")));
        }
        // What this release cannot read must stop it here, and not once others count on it.
        records.clear();
        let read = batch::metadata_records(batch, &mut scratch, &mut records);
        read.map_err(|(offset, error)| OpenError::Record { offset, error })?;
        let index = at.unwrap_or(memory.first);
        let bytes = Bytes::copy_from_slice(batch.bytes());
        let entry = batch::entry(index, bytes).map_err(|why| damaged(base, why.0))?;
        if memory.last().is_some_and(|last| entry.log_id <= last) {
            return Err(damaged(base, format!("epoch {} comes behind a later one", batch.leader_epoch())));
        }
        if let EntryPayload::Membership(members) = &entry.payload
            && memory.snapshot.is_none_or(|(last, _)| last < entry.log_id)
        {
            memory.members = members.clone();
        }
        memory.kept.push_back(Kept { entry, end });
        at = Some(index + 1);
        Ok(())
    })?;
    Ok(())
}

/// Takes the log of a node that was alone for a cluster of one voter: what is in it becomes its snapshot,
/// for no entry in it tells who votes. Whatever a crash leaves of this is found again as it was before.
pub(crate) fn adopt(found: &mut Found, home: Home) -> Result<(), OpenError> {
    let Found { writer, memory, .. } = found;
    let mut image = metadata::Image::default();
    let (mut records, mut scratch) = (Vec::new(), Scratch::default());
    for kept in &memory.kept {
        records.clear();
        let bytes = kept.entry.stored.clone().unwrap_or_default();
        let batch =
            records::StoredBatch::trust(&bytes).map_err(|error| OpenError::Quorum(error.to_string()))?;
        let read = batch::metadata_records(&batch, &mut scratch, &mut records);
        read.map_err(|(offset, error)| OpenError::Record { offset, error })?;
        image = image.after(&records, kept.end).0;
    }
    let Some(last) = memory.last() else { return Ok(()) };
    // Its entries are counted from 1, as if the one that says who votes came before.
    let last = log_id(last.leader_id.term, last.index + 1);
    let quorum = |error: String| OpenError::Quorum(error);
    let members = crate::types::Membership::new(
        vec![[memory.node].into()],
        [(memory.node, home)].into_iter().collect::<std::collections::BTreeMap<_, _>>(),
    )
    .map_err(|error| quorum(error.to_string()))?;
    let members = crate::types::StoredMembership::new(Some(last), members);
    let checkpoint = Checkpoint { last, members, image };
    let vote = crate::types::Vote::new(last.leader_id.term, memory.node);
    writer.vote(Some(&vote)).map_err(|stopped| quorum(stopped.0))?;
    let bytes = checkpoint.encode(wall()).map_err(|error| quorum(error.0))?;
    writer.snapshot(checkpoint.id(), &bytes).map_err(|stopped| quorum(stopped.0))?;
    memory.vote = Some(vote);
    memory.snapshot = Some((last, checkpoint.image.end()));
    memory.set_members_before(checkpoint.last, checkpoint.members.membership().clone());
    let mut start = memory.purge(last);
    start.void = false;
    writer.start_at(&start).map_err(|stopped| quorum(stopped.0))?;
    memory.committed = Some(last);
    found.checkpoint = Some(checkpoint);
    found.is_alone = false;
    Ok(())
}

pub(crate) fn settings() -> LogSettings {
    LogSettings {
        segment_bytes: 64 << 20,
        segment_age_max: std::time::Duration::MAX,
        retention_bytes: None,
        retention_age: None,
        deletes: false,
        ..LogSettings::default()
    }
}
