//! What those read who follow the log without a vote.

use std::time::Duration;

use base::{BrokerId, LeaderEpoch, Offset, TimestampMs};
use openraft::async_runtime::WatchReceiver;

use crate::member::{Member, Reader};
use crate::message::{Addressed, Answer, Read};
use crate::read_request::ReadRequest;
use crate::snapshot::SnapshotId;
use crate::store::REQUEST_BYTES_MAX;
use crate::types::{broker, epoch};
use crate::writer::wall;

/// Readers that are remembered: more brokers than a cluster has.
const READERS_MAX: usize = 1_000;

/// How long a reader may wait for something new.
const READ_WAIT_MAX: Duration = Duration::from_secs(10);

impl Member {
    /// What comes behind an offset. If that is nothing, the answer waits for something new, or another leader.
    pub(crate) async fn read(&self, who: &Addressed, asked: &ReadRequest) -> Read {
        let wait = Duration::from_millis(asked.wait_max_ms.into()).min(READ_WAIT_MAX);
        let deadline = tokio::time::Instant::now() + wait;
        let (mut ended, mut metrics) = (self.machine.ended(), self.core.server_metrics());
        let leader = self.leader();
        // Not when it is answered: by then it may be gone, and known to be.
        self.note_reader(who, asked, self.machine.end());
        loop {
            ended.mark_unchanged();
            let read = self.read_now(asked);
            let is_new = match &read {
                Read::Records { batches, .. } => !batches.is_empty() || self.leader() != leader,
                Read::Snapshot(_) | Read::Diverging { .. } => true,
            };
            if is_new {
                return read;
            }
            let goes_on = tokio::select! {
                changed = ended.changed() => changed.is_ok(),
                changed = metrics.changed() => changed.is_ok(),
                () = tokio::time::sleep_until(deadline) => false,
            };
            if !goes_on {
                return self.read_now(asked);
            }
        }
    }

    /// Who leads, and since when, as far as this node knows. A leader that no majority has answered for long enough
    /// says that nobody does: there may be another, and whoever asks looks for it.
    fn leader(&self) -> (Option<BrokerId>, LeaderEpoch) {
        let metrics = self.core.server_metrics();
        let seen = metrics.borrow_watched();
        let has_majority = || self.led_ago().is_some_and(|ago| ago < self.timing.election_timeout);
        let leader = seen.current_leader.filter(|leader| *leader != seen.id || has_majority());
        (leader.map(broker), epoch(seen.vote.leader_id.term))
    }

    fn read_now(&self, asked: &ReadRequest) -> Read {
        let ReadRequest { from, epoch: last, bytes_max, .. } = *asked;
        let committed = self.machine.end();
        let (leader, of) = self.leader();
        let memory = self.store.memory.lock();
        if from < memory.start {
            return match self.machine.snapshot_id() {
                Some(id) => Read::Snapshot(id),
                None => Read::Diverging { epoch: LeaderEpoch::NONE, end: Offset::ZERO },
            };
        }
        let has_all = from == Offset::ZERO || memory.epoch_before(from) == Some(last);
        if !has_all {
            let (epoch, end) = end_of_epoch(&memory, last, from);
            return Read::Diverging { epoch, end };
        }
        let room = usize::try_from(bytes_max).unwrap_or(usize::MAX).min(REQUEST_BYTES_MAX);
        let mut batches = Vec::new();
        for kept in memory.behind(from).take_while(|kept| kept.end <= committed) {
            let stored = kept.entry.stored.as_deref().unwrap_or_default();
            if !batches.is_empty() && batches.len() + stored.len() > room {
                break;
            }
            batches.extend_from_slice(stored);
        }
        Read::Records { leader, epoch: of, high_watermark: committed, batches: batches.into() }
    }

    fn note_reader(&self, who: &Addressed, asked: &ReadRequest, committed: Offset) {
        let (now, end) = (wall(), asked.from);
        let mut readers = self.readers.lock();
        if readers.len() >= READERS_MAX && !readers.contains_key(&who.from) {
            let oldest = readers.iter().min_by_key(|(_, reader)| reader.read_at).map(|(id, _)| *id);
            oldest.map(|id| readers.remove(&id));
        }
        let before = readers.get(&who.from).map_or(TimestampMs::NONE, |reader| reader.caught_up_at);
        let caught_up_at = if end >= committed { now } else { before };
        let reader =
            Reader { home: who.home.clone(), may_vote: asked.may_vote, end, read_at: now, caught_up_at };
        readers.insert(who.from, reader);
    }

    /// A part of a snapshot; none if there is a newer one.
    pub(crate) async fn read_snapshot(
        &self,
        id: SnapshotId,
        position: u64,
        bytes_max: u32,
    ) -> Result<Answer, String> {
        let gone = || format!("{} is gone", id.file_name());
        if self.machine.snapshot_id() != Some(id) {
            return Err(gone());
        }
        let room = usize::try_from(bytes_max).unwrap_or(usize::MAX).clamp(1, REQUEST_BYTES_MAX);
        let read = self.store.run(move |writer| writer.read_snapshot_part(id, (position, room))).await;
        let (total, bytes) = read.map_err(|_| gone())?;
        Ok(Answer::ReadSnapshot { total, bytes })
    }
}

/// The newest epoch up to `last` that the log has before `from`, and where it ends.
pub(crate) fn end_of_epoch(
    memory: &crate::memory::Memory,
    last: LeaderEpoch,
    from: Offset,
) -> (LeaderEpoch, Offset) {
    let before = memory.before.map(|before| (epoch(before.leader_id.term), memory.start));
    let entries = memory.kept.iter().map(|kept| (epoch(kept.entry.log_id.leader_id.term), kept.end));
    let fits = |(of, end): &(LeaderEpoch, Offset)| *of <= last && *end <= from;
    let found = before.into_iter().chain(entries).take_while(fits).last();
    found.unwrap_or((LeaderEpoch::NONE, Offset::ZERO))
}
