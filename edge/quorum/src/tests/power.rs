//! The power is cut after each change of the disk, and what was reported is there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::TimestampMs;
use metadata::Image;
use openraft::entry::RaftEntry;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};

use super::fragile::FragileDisk;
use super::nodes::mark;
use crate::batch;
use crate::error::Stopped;
use crate::open::{self, Found};
use crate::snapshot::Checkpoint;
use crate::store::{LogStore, Store};
use crate::tell::Teller;
use crate::types::{Entry, Home, LogId, Membership, Payload, Records, StoredMembership, Vote, log_id};

/// What was reported to the others.
#[derive(Debug, Default, Clone)]
struct Reported {
    vote: Option<Vote>,
    /// By index.
    entries: BTreeMap<u64, LogId>,
    /// Up to where entries may be in a snapshot only.
    purged: Option<LogId>,
    /// What was cut off, as far as that was reported.
    cut: Vec<LogId>,
}

fn members() -> Membership {
    let nodes: BTreeMap<u64, Home> = [(1, Home::default())].into();
    Membership::new(vec![[1].into()], nodes).expect("legal")
}

fn entry(id: LogId, name: &str) -> Entry {
    let payload = match id.index {
        0 => Payload::Membership(members()),
        _ => {
            Payload::Normal(Records(batch::propose(&[mark(name), mark("x")], TimestampMs(1)).expect("small")))
        }
    };
    Entry::new(id, payload)
}

struct Run {
    found: Found,
    reported: Reported,
}

impl Run {
    fn vote(&mut self, vote: Vote) -> Result<(), Stopped> {
        self.found.writer.vote(Some(&vote))?;
        self.found.memory.vote = Some(vote);
        self.reported.vote = Some(vote);
        Ok(())
    }

    fn append(&mut self, term: u64, count: u64) -> Result<(), Stopped> {
        let next = self.found.memory.last().map_or(0, |last| last.index + 1);
        let ids: Vec<_> = (next..next + count).map(|index| log_id(term, index)).collect();
        let batches: Vec<_> = ids
            .iter()
            .filter_map(|id| {
                let kept = self.found.memory.append(entry(*id, &format!("{id}")), TimestampMs(1));
                kept.expect("it follows").entry.stored
            })
            .collect();
        self.found.writer.append(&batches)?;
        self.reported.entries.extend(ids.into_iter().map(|id| (id.index, id)));
        Ok(())
    }

    fn truncate(&mut self, keep: u64) -> Result<(), Stopped> {
        // From here on nobody counts on them.
        let cut = self.reported.entries.split_off(&(keep + 1));
        let last = self.found.memory.get(keep).map(|kept| kept.entry.log_id);
        let end = self.found.memory.truncate_after(last);
        self.found.writer.truncate(end)?;
        self.reported.cut.extend(cut.into_values());
        Ok(())
    }

    /// Takes a snapshot up to an entry, whether or not the log has it, and purges the log up to there.
    fn snapshot(&mut self, last: LogId) -> Result<(), Stopped> {
        let end = self.found.memory.end_of(last.index).unwrap_or(base::Offset(10_000));
        let (image, _) = Image::default().after(&[mark("s")], end);
        let members = StoredMembership::new(Some(log_id(0, 0)), members());
        let checkpoint = Checkpoint { last, members, image };
        let bytes = checkpoint.encode(TimestampMs(1)).expect("small");
        self.found.writer.snapshot(checkpoint.id(), &bytes)?;
        self.found.memory.snapshot = Some((last, end));
        self.reported.purged = Some(last);
        let is_here = self.found.memory.end_of(last.index).is_some();
        if !is_here {
            self.reported.entries.clear();
        }
        let start = self.found.memory.purge(last);
        self.found.writer.start_at(&start)
    }

    fn all(&mut self) -> Result<(), Stopped> {
        self.append(0, 1)?;
        self.vote(Vote::new(1, 1))?;
        self.vote(Vote::new_committed(1, 1))?;
        self.append(1, 3)?;
        self.vote(Vote::new(2, 2))?;
        self.append(1, 2)?;
        self.found.writer.note_all()?;
        self.truncate(3)?;
        self.append(2, 3)?;
        self.snapshot(log_id(2, 4))?;
        self.append(2, 2)?;
        self.vote(Vote::new_committed(5, 2))?;
        self.found.writer.note_all()?;
        self.truncate(5)?;
        self.append(5, 1)?;
        // It was away, and its leader has something else.
        self.snapshot(log_id(5, 50))?;
        self.append(5, 2)?;
        self.vote(Vote::new(6, 1))?;
        self.found.writer.close()
    }
}

fn check(reported: &Reported, found: &Found) {
    let memory = &found.memory;
    assert!(memory.vote >= reported.vote, "voted {:?}, and knows of {:?}", reported.vote, memory.vote);
    let covered = memory.before.max(found.checkpoint.as_ref().map(|checkpoint| checkpoint.last));
    for (index, id) in &reported.entries {
        let here = memory.get(*index).map(|kept| kept.entry.log_id);
        assert!(
            here == Some(*id) || covered.is_some_and(|covered| *id <= covered),
            "{id} is not there: {here:?}"
        );
    }
    if let Some(purged) = reported.purged {
        let checkpoint = found.checkpoint.as_ref().map(|checkpoint| checkpoint.last);
        assert!(checkpoint >= Some(purged), "the snapshot of {purged} is not there: {checkpoint:?}");
    }
    for cut in &reported.cut {
        let here = memory.get(cut.index).map(|kept| kept.entry.log_id);
        assert_ne!(here, Some(*cut), "it was cut, and is there again");
    }
}

fn any_number() -> impl FnMut() -> u64 {
    let mut seed = 1u64;
    move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    }
}

#[test]
fn what_was_reported_is_there() {
    let mut random = any_number();
    let run = |changes: usize| {
        let disk = FragileDisk::new(changes);
        let found = open::open(Arc::new(disk.clone()), Path::new("data"), 1);
        let Ok(found) = found else { return (disk, Reported::default(), false) };
        let mut run = Run { found, reported: Reported::default() };
        let is_done = run.all().is_ok();
        (disk, run.reported, is_done)
    };
    let (whole, reported, is_done) = run(usize::MAX);
    assert!(is_done && reported.vote == Some(Vote::new(6, 1)));
    let changes = whole.changes();
    assert!(changes > 100, "{changes}");
    for cut in 0..=changes {
        let (disk, reported, _) = run(cut);
        for round in 0..8 {
            let left = disk.survivors(&mut random);
            let opened = open::open(Arc::new(left.clone()), Path::new("data"), 1);
            let found = opened.unwrap_or_else(|error| panic!("cut after {cut}, round {round}: {error}"));
            check(&reported, &found);
            let (last, vote) = (found.memory.last(), found.memory.vote);
            drop(found);
            let again = open::open(Arc::new(left), Path::new("data"), 1).expect("it was mended");
            assert_eq!((again.memory.last(), again.memory.vote), (last, vote), "cut after {cut}");
        }
    }
}

/// What the consensus library does, one after the other; it may answer others once each is done.
async fn all_that_is_answered(log: &mut LogStore, reported: &mut Reported) -> Result<(), std::io::Error> {
    for (term, votes) in
        [(1, [Vote::new(1, 1), Vote::new_committed(1, 1)]), (4, [Vote::new(3, 2), Vote::new(4, 3)])]
    {
        for vote in votes {
            log.save_vote(&vote).await?;
            reported.vote = Some(vote);
        }
        let next = reported.entries.keys().last().map_or(0, |last| last + 1);
        let ids: Vec<_> = (next..next + 3).map(|index| log_id(term, index)).collect();
        log.blocking_append(ids.iter().map(|id| entry(*id, &format!("{id}")))).await?;
        reported.entries.extend(ids.into_iter().map(|id| (id.index, id)));
    }
    Ok(())
}

#[test]
fn what_the_consensus_library_may_answer_is_there() {
    let mut random = any_number();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let run = |changes: usize| {
        let (disk, mut reported) = (FragileDisk::new(changes), Reported::default());
        if let Ok(found) = open::open(Arc::new(disk.clone()), Path::new("data"), 1) {
            let teller = Arc::new(Teller::new(1, Box::new(|_| {})));
            let store = Store::start(found.writer, found.memory, teller).expect("a thread");
            // It fails where the power goes.
            let _ = runtime.block_on(all_that_is_answered(&mut LogStore(store.clone()), &mut reported));
            store.close();
        }
        (disk, reported)
    };
    let (whole, reported) = run(usize::MAX);
    assert_eq!((reported.vote, reported.entries.len()), (Some(Vote::new(4, 3)), 6));
    for cut in 0..=whole.changes() {
        let (disk, reported) = run(cut);
        for round in 0..8 {
            let opened = open::open(Arc::new(disk.survivors(&mut random)), Path::new("data"), 1);
            let found = opened.unwrap_or_else(|error| panic!("cut after {cut}, round {round}: {error}"));
            check(&reported, &found);
        }
    }
}
