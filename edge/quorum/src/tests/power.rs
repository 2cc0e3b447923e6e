//! The power is cut after each change of the disk, and what was reported is there.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::TimestampMs;
use metadata::Image;
use openraft::entry::RaftEntry;
use openraft::storage::{RaftLogStorage, RaftLogStorageExt};

use super::fragile::{Forgets, FragileDisk, Random};
use super::nodes::mark;
use crate::batch;
use crate::error::{OpenError, Stopped};
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
    /// Whether it came to its end.
    is_closed: bool,
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

/// What was reported, and is not so.
#[derive(Debug)]
#[expect(dead_code, reason = "what is in them is for whoever reads that a test failed")]
enum Loss {
    /// It does not know that it voted.
    Vote {
        reported: Option<Vote>,
        here: Option<Vote>,
    },
    Entry {
        reported: LogId,
        here: Option<LogId>,
    },
    Snapshot {
        reported: LogId,
        here: Option<LogId>,
    },
    /// It was cut off, and is there again.
    Cut(LogId),
    /// It does not start.
    Start(OpenError),
    /// The second time it found another end, or another vote.
    Mended([(Option<LogId>, Option<Vote>); 2]),
}

fn losses(reported: &Reported, found: &Found) -> Vec<Loss> {
    let memory = &found.memory;
    let mut losses = Vec::new();
    if memory.vote < reported.vote {
        losses.push(Loss::Vote { reported: reported.vote, here: memory.vote });
    }
    let checkpoint = found.checkpoint.as_ref().map(|checkpoint| checkpoint.last);
    let covered = memory.before.max(checkpoint);
    let here = |index: u64| memory.get(index).map(|kept| kept.entry.log_id);
    for (index, id) in &reported.entries {
        let here = here(*index);
        if here != Some(*id) && covered.is_none_or(|covered| *id > covered) {
            losses.push(Loss::Entry { reported: *id, here });
        }
    }
    if let Some(purged) = reported.purged.filter(|purged| checkpoint < Some(*purged)) {
        losses.push(Loss::Snapshot { reported: purged, here: checkpoint });
    }
    losses
        .extend(reported.cut.iter().filter(|cut| here(cut.index) == Some(**cut)).map(|cut| Loss::Cut(*cut)));
    losses
}

/// What of the reported is lost on a disk as a power cut left it.
fn lost_on(left: &FragileDisk, reported: &Reported) -> Vec<Loss> {
    let open = || open::open(Arc::new(left.clone()), Path::new("data"), 1);
    let found = match open() {
        Ok(found) => found,
        Err(error) => return vec![Loss::Start(error)],
    };
    let mut losses = losses(reported, &found);
    let first = (found.memory.last(), found.memory.vote);
    drop(found);
    match open().map(|again| (again.memory.last(), again.memory.vote)) {
        Ok(again) if again != first => losses.push(Loss::Mended([first, again])),
        Ok(_) => {}
        Err(error) => losses.push(Loss::Start(error)),
    }
    losses
}

/// Cuts the power after each change that something makes on a disk, and says after which what was lost.
fn lost(forgets: Forgets, act: Act) -> Vec<(usize, Loss)> {
    let mut random = Random::of(1);
    let start = |changes| {
        let disk = FragileDisk::new(changes);
        disk.forget(forgets);
        let reported = act(&disk);
        (disk, reported)
    };
    let (whole, _) = start(usize::MAX);
    let mut lost = Vec::new();
    for cut in 0..=whole.changes() {
        let (disk, reported) = start(cut);
        for _ in 0..8 {
            let left = disk.survivors(|| random.next());
            lost.extend(lost_on(&left, &reported).into_iter().map(|loss| (cut, loss)));
        }
    }
    lost
}

/// Does something on a disk as long as that works, and says what was reported.
type Act = fn(&FragileDisk) -> Reported;

fn open_on(disk: &FragileDisk) -> Option<Found> {
    open::open(Arc::new(disk.clone()), Path::new("data"), 1).ok()
}

/// All that the writer does, by hand.
fn write_all(disk: &FragileDisk) -> Reported {
    let Some(found) = open_on(disk) else { return Reported::default() };
    let mut run = Run { found, reported: Reported::default() };
    run.reported.is_closed = run.all().is_ok();
    run.reported
}

/// What the consensus library does, one after the other; it may answer others once each is done.
fn answer_all(disk: &FragileDisk) -> Reported {
    let Some(found) = open_on(disk) else { return Reported::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let teller = Arc::new(Teller::new(1, Box::new(|_| {})));
    let store = Store::start(found.writer, found.memory, teller).expect("a thread");
    let mut reported = Reported::default();
    // It fails where the power goes.
    let _ = runtime.block_on(all_that_is_answered(&mut LogStore(store.clone()), &mut reported));
    store.close();
    reported
}

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
fn what_was_reported_is_there() {
    let disk = FragileDisk::new(usize::MAX);
    let reported = write_all(&disk);
    assert!(reported.is_closed && reported.vote == Some(Vote::new(6, 1)));
    assert!(disk.changes() > 100, "{}", disk.changes());
    let lost = lost(Forgets::Nothing, write_all);
    assert!(lost.is_empty(), "{:#?}", lost[0]);
}

#[test]
fn what_the_consensus_library_may_answer_is_there() {
    let reported = answer_all(&FragileDisk::new(usize::MAX));
    assert_eq!((reported.vote, reported.entries.len()), (Some(Vote::new(4, 3)), 6));
    let lost = lost(Forgets::Nothing, answer_all);
    assert!(lost.is_empty(), "{:#?}", lost[0]);
}

/// The process is started again after a flush that failed, and shown what the media never got: what it answers from
/// then on has to be there when the power goes.
#[test]
fn after_a_flush_that_failed_the_disk_is_believed() {
    for act in [write_all, answer_all] {
        let whole = FragileDisk::new(usize::MAX);
        act(&whole);
        let mut failed = 0;
        for number in 1..=whole.changes() {
            let disk = FragileDisk::new(usize::MAX);
            disk.fail_barrier(number);
            let reported = act(&disk);
            if !disk.start_again() {
                continue;
            }
            failed += 1;
            let found = open::open(Arc::new(disk.clone()), Path::new("data"), 1);
            let found = found.unwrap_or_else(|error| panic!("{number}: {error}"));
            let lost = losses(&reported, &found);
            assert!(lost.is_empty(), "{number}: {lost:#?}");
            let (last, vote) = (found.memory.last(), found.memory.vote);
            drop(found);
            let left = open_on(&disk.survivors(|| 0)).map(|left| (left.memory.last(), left.memory.vote));
            assert_eq!(left, Some((last, vote)), "{number}");
        }
        assert!(failed > 10, "{failed}");
    }
}

/// Were votes not synced, the two tests above would tell.
#[test]
fn votes_that_are_not_synced_are_missed() {
    for act in [write_all, answer_all] {
        let lost = lost(Forgets::Votes, act);
        let mut found = lost.iter().map(|(_, loss)| loss);
        assert!(found.clone().any(|loss| matches!(loss, Loss::Vote { .. })), "{lost:#?}");
        let is_of_votes =
            |loss: &Loss| matches!(loss, Loss::Vote { .. } | Loss::Start(OpenError::VoteLost { .. }));
        assert!(found.all(is_of_votes), "nothing else is amiss: {lost:#?}");
    }
}

/// Were entries not synced, they would, too.
#[test]
fn entries_that_are_not_synced_are_missed() {
    for act in [write_all, answer_all] {
        let lost = lost(Forgets::Entries, act);
        let mut found = lost.iter().map(|(_, loss)| loss);
        assert!(found.clone().any(|loss| matches!(loss, Loss::Entry { .. })), "{lost:#?}");
        assert!(found.all(|loss| !matches!(loss, Loss::Vote { .. })), "no vote is: {lost:#?}");
    }
}
