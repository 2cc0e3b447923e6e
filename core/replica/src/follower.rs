//! A replica that follows: it asks its leader for what comes behind its log's end, and appends it.
//!
//! ```text
//!   next_fetch ─▶ the leader ─▶ on_fetched: diverging ─▶ cut, ask again from there
//!       ▲                                 : records   ─▶ append ─▶ flush, if only what is durable counts ─┐
//!       └──────────────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! What a follower asks for tells the leader how far it has come. So under `flush.policy=ack` it asks on
//! only once what it has is durable.

use base::{BrokerId, Effects, LeaderEpoch, Now, Offset};
use records::{BatchError, StoredBatch};
use storage::dirs::CutNotes;
use storage::disk::DiskError;
use storage::{DeleteError, LookupError};

use crate::partition::{Effect, Partition};
use crate::role::{Cut, DecidedCut, Following, Role};

/// What a follower asks its leader for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerFetch {
    /// Whom to ask.
    pub leader: BrokerId,
    /// The leadership that it follows.
    pub current_epoch: LeaderEpoch,
    /// The first offset that it lacks; all before it is durable if that is what counts.
    pub from: Offset,
    /// The epoch of the record before that; [`LeaderEpoch::NONE`] if there is none.
    pub last_epoch: LeaderEpoch,
    /// The first offset that it has, durably: after a crash it has none before this.
    pub log_start: Offset,
}

/// What comes next for a replica that may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextFetch {
    /// It asks for this.
    Ask(FollowerFetch),
    /// It has to ask this leader, once its own disk has what it was told before.
    AfterItsDisk(BrokerId),
    /// It does not follow.
    Nothing,
}

impl NextFetch {
    /// The leader that it follows.
    pub fn leader(&self) -> Option<BrokerId> {
        match self {
            Self::Ask(fetch) => Some(fetch.leader),
            Self::AfterItsDisk(leader) => Some(*leader),
            Self::Nothing => None,
        }
    }

    /// What there is to ask now.
    pub fn ask(self) -> Option<FollowerFetch> {
        match self {
            Self::Ask(fetch) => Some(fetch),
            Self::AfterItsDisk(_) | Self::Nothing => None,
        }
    }

    /// This, as far as it concerns one leader.
    #[must_use]
    pub fn of(self, leader: BrokerId) -> Self {
        if self.leader() == Some(leader) { self } else { Self::Nothing }
    }
}

/// How far a follower is behind, and so in which of two lanes its leader is asked for it: who catches up is sent as
/// much at once as fits, and who keeps up must not wait for that, nor for its disk, since producers wait for those who
/// keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// It has all that its leader called committed, as whoever is in sync has.
    KeepingUp,
    /// It lacks some of that, and so is not in sync: no producer waits for it.
    CatchingUp,
}

impl Lane {
    /// Both.
    pub const ALL: [Self; 2] = [Self::KeepingUp, Self::CatchingUp];
}

/// What a leader answered.
#[derive(Debug, Clone, Copy)]
pub struct FromLeader<'a> {
    /// The leadership that was asked.
    pub epoch: LeaderEpoch,
    /// Up to where the leader said its log is committed.
    pub high_watermark: Offset,
    /// Where the leader's log starts.
    pub log_start: Offset,
    /// The last epoch that both may share, and where it ended at the leader's.
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// Batches as they are stored; the last may be cut off.
    pub records: &'a [u8],
}

/// Why a follower cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// It does not follow that leadership, or does not follow at all.
    #[error("the replica does not follow leader epoch {0}")]
    NotFollowing(LeaderEpoch),
    /// To follow the leader, committed records would have to be given up.
    #[error(
        "the leader's log of epoch {epoch} ends at {end}, but up to {high_watermark} it is committed here: one of \
         the two lost records"
    )]
    CommittedDiverges {
        /// The last epoch that both share.
        epoch: LeaderEpoch,
        /// Where it ends at the leader's.
        end: Offset,
        /// Up to where the log is committed here.
        high_watermark: Offset,
    },
    /// What came cannot be appended.
    #[error("what the leader sent cannot be appended: {0}")]
    Unusable(String),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl Partition {
    /// What to ask the leader for next.
    pub fn next_fetch(&self) -> NextFetch {
        let Role::Follower(Following { leader: Some(leader), within, .. }) = self.role else {
            return NextFetch::Nothing;
        };
        if self.failed {
            return NextFetch::Nothing;
        }
        if self.cut.is_some() || self.own_end() < self.log.end() {
            return NextFetch::AfterItsDisk(leader);
        }
        NextFetch::Ask(FollowerFetch {
            leader,
            current_epoch: self.epoch,
            from: within.unwrap_or(self.log.end()),
            last_epoch: self.log.last_epoch().unwrap_or(LeaderEpoch::NONE),
            log_start: self.start_saved,
        })
    }

    /// How far it is behind, by what its leader said last: what is not durable here counts only where the leader counts
    /// it. One that has not heard from its leader yet keeps up.
    pub fn lane(&self) -> Lane {
        match &self.role {
            Role::Follower(following) if following.committed > self.own_end() => Lane::CatchingUp,
            Role::Follower(_) | Role::Leader(_) | Role::None => Lane::KeepingUp,
        }
    }

    /// The leader answered. Whether anything was appended.
    pub fn on_fetched(
        &mut self,
        now: Now,
        said: &FromLeader<'_>,
        out: &mut Effects<Effect>,
    ) -> Result<bool, FollowError> {
        self.check_follows(said.epoch)?;
        if let Some((epoch, end)) = said.diverging {
            self.ask_from_end();
            self.diverge((epoch, end), out)?;
            return Ok(false);
        }
        self.agreed_epoch = said.epoch;
        let appended = self.append_fetched(now, said.records, out);
        // What was appended before something went wrong is as good as it is.
        self.follow_marks(said, out)?;
        appended
    }

    /// The leader's log does not reach to where this one ends, or starts behind it.
    pub fn on_out_of_range(
        &mut self,
        epoch: LeaderEpoch,
        (start, end): (Offset, Offset),
        out: &mut Effects<Effect>,
    ) -> Result<(), FollowError> {
        self.check_follows(epoch)?;
        self.ask_from_end();
        if self.log.end() > end {
            // Its own epochs would have told where to cut, had they known.
            return self.cut_at(end, (epoch, end), out);
        }
        if self.log.end() < start {
            // All that was here was deleted there meanwhile.
            self.begin_cut(Cut::All(start), out);
        }
        Ok(())
    }

    /// Asks for what comes behind the end of the log, and nothing else.
    fn ask_from_end(&mut self) {
        if let Role::Follower(following) = &mut self.role {
            following.within = None;
        }
    }

    fn check_follows(&self, epoch: LeaderEpoch) -> Result<(), FollowError> {
        let follows = matches!(self.role, Role::Follower(_)) && epoch == self.epoch && !self.failed;
        if follows { Ok(()) } else { Err(FollowError::NotFollowing(epoch)) }
    }

    /// Cuts off what the leader does not have: behind the end of the last epoch that both share (KIP-101,
    /// KIP-279, KIP-595).
    fn diverge(
        &mut self,
        (epoch, end): (LeaderEpoch, Offset),
        out: &mut Effects<Effect>,
    ) -> Result<(), FollowError> {
        let (own_epoch, own_end) = self.log.epoch_end(epoch);
        let at = match own_epoch {
            LeaderEpoch::NONE => self.log.start(),
            // Both have it: as far as both have it.
            own if own == epoch => own_end.min(end),
            // The next question is about that one.
            _ => own_end,
        };
        self.cut_at(at, (epoch, end), out)
    }

    fn cut_at(
        &mut self,
        at: Offset,
        (epoch, end): (LeaderEpoch, Offset),
        out: &mut Effects<Effect>,
    ) -> Result<(), FollowError> {
        let high_watermark = self.high_watermark;
        if at < high_watermark && !self.may_lose_committed() {
            return Err(FollowError::CommittedDiverges { epoch, end, high_watermark });
        }
        self.begin_cut(Cut::From(at), out);
        Ok(())
    }

    fn begin_cut(&mut self, cut: Cut, out: &mut Effects<Effect>) {
        // If nothing stays, a crash may leave no segment that tells where the log was.
        let durable_max = self.keeps_upto(cut).min(self.log.recovery_point());
        // Before that is noted, after which it may come to nothing.
        self.start_saved = self.start_saved.min(starts_at(cut));
        self.cut = Some(DecidedCut { cut, durable_max });
        out.push(Effect::LowerRecoveryPoint(durable_max));
    }

    /// What is to be noted of the log before it is cut. `None` if it is not to be cut. Under another leadership that is
    /// another place than [`Effect::LowerRecoveryPoint`] said, and noting the old one may be wrong by then.
    pub fn notes_of_cut(&self) -> Option<CutNotes> {
        self.cut.map(|DecidedCut { cut, durable_max }| CutNotes {
            recovery_point: durable_max,
            end: self.keeps_upto(cut),
            start: starts_at(cut),
        })
    }

    /// Where the log will end; 0 if nothing of it stays.
    fn keeps_upto(&self, cut: Cut) -> Offset {
        match cut {
            Cut::From(at) if at > self.log.start() => at,
            Cut::From(_) | Cut::All(_) | Cut::Within { .. } => Offset::ZERO,
        }
    }

    /// Cuts the log as was decided, now that it is noted to be durable up to `noted` at most: should a crash come in
    /// between, what is missing is not taken for what was lost. A cut that was decided since, and needs a lower
    /// point than that, waits for its own call. A log that could not be cut, and did not fail, is cut when the
    /// leader says so again.
    pub fn cut(&mut self, now: Now, noted: Offset, out: &mut Effects<Effect>) -> Result<(), FollowError> {
        let decided = self.cut.take_if(|decided| noted <= decided.durable_max);
        let Some(DecidedCut { cut, .. }) = decided.filter(|_| !self.failed) else { return Ok(()) };
        let done = self.make_cut(now, cut, out);
        self.start_saved = self.start_saved.max(self.log.first_base()).min(self.log.start());
        if self.log.start() > self.start_saved {
            out.push(Effect::SaveStart);
        }
        out.push(Effect::FetchOn);
        self.check();
        done
    }

    fn make_cut(&mut self, now: Now, cut: Cut, out: &mut Effects<Effect>) -> Result<(), FollowError> {
        match cut {
            Cut::From(at) => {
                let (from, committed) = (self.log.end(), self.high_watermark);
                self.unreadable = None;
                let cut = self.log.truncate(now, ..at).or_else(|why| match (&why, self.log.poison()) {
                    // What cannot be read once may be read the next time.
                    (LookupError::Disk(_), None) => self.log.truncate(now, ..at),
                    _ => Err(why),
                });
                // A disk that fails in the middle of it may have cut all the same.
                let to = self.log.end();
                self.high_watermark = committed.min(to);
                out.push(Effect::Truncated { from, to, committed });
                cut.map_err(|error| self.cut_failed(at, error, out))?;
            }
            Cut::All(start) => {
                self.empty(now, start, out)?;
            }
            Cut::Within { base, start } => {
                self.empty(now, base, out)?;
                if let Role::Follower(following) = &mut self.role {
                    following.within = Some(start);
                }
            }
        }
        Ok(())
    }

    fn empty(&mut self, now: Now, start: Offset, out: &mut Effects<Effect>) -> Result<(), FollowError> {
        let emptied = self.log.truncate_fully_and_start_at(now, start);
        // A disk that fails in the middle of it may have emptied it all the same.
        self.high_watermark = self.high_watermark.clamp(self.log.start(), self.log.end());
        emptied.map_err(|error| self.disk(error, out))
    }

    /// The recovery point could not be lowered: nothing is cut, until the leader says again that it must be.
    pub fn put_off_cut(&mut self, out: &mut Effects<Effect>) {
        if self.cut.take().is_some() {
            out.push(Effect::FetchOn);
        }
    }

    fn append_fetched(
        &mut self,
        now: Now,
        records: &[u8],
        out: &mut Effects<Effect>,
    ) -> Result<bool, FollowError> {
        let before = self.log.end();
        if self.begins_within(records, out) {
            return Ok(false);
        }
        let mut failed = None;
        for batch in records::whole_batches(records) {
            match self.append_one(now, batch, out) {
                Ok(()) => {}
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let has_grown = self.log.end() > before;
        match failed {
            Some(error) => Err(error),
            None => Ok(has_grown),
        }
    }

    /// The leader's log starts within a batch, because records were deleted up to there. Who has nothing asks from
    /// there, and is sent the whole batch: the log here has to begin with it, too. Whether that is so.
    fn begins_within(&mut self, records: &[u8], out: &mut Effects<Effect>) -> bool {
        let start = self.log.end();
        if self.log.start() < start || self.log.size_bytes() > 0 {
            return false;
        }
        let Some(Ok(first)) = records::whole_batches(records).next() else { return false };
        let base = first.header().base_offset;
        let is_within = base < start && first.header().last_offset() >= start;
        if is_within {
            self.begin_cut(Cut::Within { base, start }, out);
        }
        is_within
    }

    fn append_one(
        &mut self,
        now: Now,
        batch: Result<StoredBatch<'_>, BatchError>,
        out: &mut Effects<Effect>,
    ) -> Result<(), FollowError> {
        let batch = batch.map_err(|error| FollowError::Unusable(error.to_string()))?;
        if batch.header().last_offset() < self.log.end() {
            // A leader sends whole batches, also the one that an offset lies in.
            return Ok(());
        }
        if batch.leader_epoch() > self.epoch {
            let what = format!("a batch of leader epoch {}", batch.leader_epoch());
            return Err(FollowError::Unusable(what));
        }
        match self.log.append_fetched(now, &batch) {
            Ok(_) => {
                self.ask_from_end();
                let records = u32::try_from(batch.header().records_count).unwrap_or(0);
                self.on_appended(now, batch.bytes().len(), records, out);
                Ok(())
            }
            Err(storage::AppendError::Disk(error)) => {
                self.append_refused(&error, out);
                Err(FollowError::Disk(error))
            }
            Err(error) => Err(FollowError::Unusable(error.to_string())),
        }
    }

    /// Takes over how far the leader's log is committed, and where it starts.
    fn follow_marks(&mut self, said: &FromLeader<'_>, out: &mut Effects<Effect>) -> Result<(), FollowError> {
        if let Role::Follower(following) = &mut self.role {
            following.committed = said.high_watermark;
        }
        let committed = said.high_watermark.min(self.log.end());
        if committed > self.high_watermark {
            self.commit(committed, out);
        }
        let start = said.log_start.min(self.high_watermark);
        if start > self.log.start() {
            self.log.delete_records(start).map_err(|error| match error {
                DeleteError::Disk(error) => self.disk(error, out),
                error @ DeleteError::OutOfRange { .. } => FollowError::Unusable(error.to_string()),
            })?;
        }
        if self.log.start() > self.start_saved {
            // Also what retention moved here, or could not be saved before: the leader waits for it.
            out.push(Effect::SaveStart);
        }
        self.check();
        Ok(())
    }

    fn disk(&mut self, error: DiskError, out: &mut Effects<Effect>) -> FollowError {
        self.fail(error.clone(), out);
        FollowError::Disk(error)
    }

    fn cut_failed(&mut self, at: Offset, error: LookupError, out: &mut Effects<Effect>) -> FollowError {
        match error {
            LookupError::Disk(error) => {
                let failed = self.disk(error.clone(), out);
                if !self.failed {
                    self.cut_found_damage(at, error.into(), out);
                }
                failed
            }
            damaged @ LookupError::Damaged { .. } => {
                let unusable = FollowError::Unusable(damaged.to_string());
                self.cut_found_damage(at, damaged, out);
                unusable
            }
        }
    }
}

/// Where a log will start at the latest, once it is cut.
fn starts_at(cut: Cut) -> Offset {
    match cut {
        Cut::From(start) | Cut::All(start) | Cut::Within { base: start, .. } => start,
    }
}
