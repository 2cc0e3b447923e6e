//! What may be read of a replica, and by whom.

use base::{BrokerId, Effects, LeaderEpoch, Now, Offset, TimestampMs};
use storage::{DeleteError, ReadError};

use crate::fetch::{Fetch, FetchError, Fetched, OffsetSpec, Reader};
use crate::leader::FollowerId;
use crate::partition::{Effect, Partition};
use crate::role::Role;

impl Partition {
    /// Finds records to read. A follower that asks for the first time tells thereby how far it has come.
    pub fn fetch(
        &mut self,
        now: Now,
        fetch: &Fetch,
        out: &mut Effects<Effect>,
    ) -> Result<Fetched, FetchError> {
        self.check_reader(fetch.reader)?;
        self.check_epoch(fetch.current_epoch)?;
        let (start, high_watermark) = (self.log.start(), self.high_watermark);
        let last_stable = self.last_stable();
        let upto = match fetch.reader {
            Reader::Follower(_) => self.log.end(),
            _ if fetch.committed_only => last_stable,
            _ => high_watermark,
        };
        let end = if matches!(fetch.reader, Reader::Follower(_)) { upto } else { high_watermark };
        let out_of_range = FetchError::OutOfRange { from: fetch.from, start, end };
        let mut fetched = Fetched {
            high_watermark,
            last_stable,
            log_start: start,
            slices: Vec::new(),
            aborted: None,
            diverging: None,
        };
        if fetch.last_epoch > LeaderEpoch::NONE {
            let (epoch, end) = self.end_of(fetch.last_epoch);
            if epoch == LeaderEpoch::NONE || fetch.from < start {
                return Err(out_of_range);
            }
            if epoch < fetch.last_epoch || end < fetch.from {
                fetched.diverging = Some((epoch, end));
                return Ok(fetched);
            }
        }
        if fetch.from > self.log.end() && matches!(self.role, Role::Follower(_)) {
            // The leader has what this replica does not have yet: nothing is lost.
            return Err(FetchError::NotAvailable);
        }
        if fetch.from < start || fetch.from > self.log.end() {
            return Err(out_of_range);
        }
        let planned = self.plan_fetch(fetch, upto, &mut fetched, out);
        // Whatever came of it, files may have been opened.
        self.log.on_read(fetch.from);
        if planned.is_err() && !self.failed {
            out.push(Effect::Suspect(fetch.from));
        }
        planned?;
        if !fetched.slices.is_empty() && !fetch.is_again {
            self.note_given(fetch.reader, fetch.from, out);
        }
        if let Reader::Follower(id) = fetch.reader
            && !fetch.is_again
        {
            self.on_follower_fetch(now, id, (fetch.log_start, fetch.from), out);
            fetched.high_watermark = self.high_watermark;
        }
        Ok(fetched)
    }

    /// Who else could be read from at an offset, as far as this leader knows: those in sync that have it, each
    /// with the end of its log (KIP-392). Nobody if this replica does not lead.
    pub fn replicas_with(&self, offset: Offset) -> impl Iterator<Item = (BrokerId, Offset)> {
        let leader = match &self.role {
            Role::Leader(leader) => Some(leader),
            Role::Follower(_) | Role::None => None,
        };
        leader.into_iter().flat_map(move |leader| leader.replicas_with(offset))
    }

    /// How many committed records it lacks, as far as it was told.
    pub fn lag(&self) -> u64 {
        let committed = match &self.role {
            Role::Follower(following) => following.committed,
            Role::Leader(_) | Role::None => self.high_watermark,
        };
        u64::try_from(committed.0 - self.log.end().0).unwrap_or(0)
    }

    /// How many records the follower lacks that is furthest behind, as far as it said; all of them if it said
    /// nothing yet. 0 if this replica does not lead.
    pub fn followers_lag(&self) -> u64 {
        let Role::Leader(leader) = &self.role else { return 0 };
        let end = leader.ends().map(|end| end.max(self.log.start())).min();
        end.map_or(0, |end| u64::try_from(self.log.end().0 - end.0).unwrap_or(0))
    }

    /// Whether it may read here.
    fn check_reader(&self, reader: Reader) -> Result<(), FetchError> {
        match (&self.role, reader) {
            (Role::Leader(leader), Reader::Follower(id)) => match leader.accepts(id) {
                true => Ok(()),
                false => Err(FetchError::UnknownReplica(id.broker)),
            },
            (Role::Leader(_), _) | (Role::Follower(_), Reader::Nearby) => Ok(()),
            _ => Err(FetchError::NotLeader),
        }
    }

    /// A follower has all before `end`: that may be committed now, and it may be in sync.
    fn on_follower_fetch(
        &mut self,
        now: Now,
        id: FollowerId,
        log: (Offset, Offset),
        out: &mut Effects<Effect>,
    ) {
        let leader_end = self.log.end();
        let Role::Leader(leader) = &mut self.role else { return };
        leader.on_fetch(now, id, log, leader_end);
        self.advance(out);
        let Role::Leader(leader) = &mut self.role else { return };
        if !self.failed
            && let Some(proposal) = leader.expand(now, id.broker, self.high_watermark)
        {
            out.push(Effect::AlterIsr(proposal));
        }
    }

    fn plan_fetch(
        &mut self,
        fetch: &Fetch,
        upto: Offset,
        fetched: &mut Fetched,
        out: &mut Effects<Effect>,
    ) -> Result<(), FetchError> {
        let mut next = fetch.from;
        if fetch.from < upto && (fetch.bytes_max > 0 || fetch.at_least_one) {
            let bytes_max = u32::try_from(fetch.bytes_max).unwrap_or(u32::MAX);
            let plan =
                self.log.plan_read(fetch.from, upto, bytes_max, fetch.at_least_one).map_err(|error| {
                    match error {
                        ReadError::OutOfRange { from, start, end } => {
                            FetchError::OutOfRange { from, start, end }
                        }
                        ReadError::Lookup(error) => self.lookup_failed(error, out),
                    }
                })?;
            next = plan.next;
            fetched.slices = plan.slices.into_vec();
        }
        if fetch.committed_only {
            let aborted = self.log.aborted_transactions(fetch.from, next);
            let aborted = aborted.map_err(|error| self.lookup_failed(error, out))?;
            fetched.aborted = Some(aborted.iter().map(|txn| (txn.producer_id, txn.first_offset)).collect());
        }
        Ok(())
    }

    /// Looks an offset up. `None` if no record is meant.
    pub fn offset_for(
        &mut self,
        spec: OffsetSpec,
        current_epoch: LeaderEpoch,
        committed_only: bool,
        out: &mut Effects<Effect>,
    ) -> Result<Option<(TimestampMs, Offset, LeaderEpoch)>, FetchError> {
        self.check_reader(Reader::Consumer)?;
        self.check_epoch(current_epoch)?;
        let upto = if committed_only { self.last_stable() } else { self.high_watermark };
        let plain = |offset| Ok(Some((TimestampMs::NONE, offset, self.epoch_at(offset))));
        let found = match spec {
            OffsetSpec::Earliest | OffsetSpec::EarliestLocal => return plain(self.log.start()),
            // A new leader does not know yet how far the one before it had committed (KIP-207).
            OffsetSpec::Latest | OffsetSpec::MaxTimestamp if self.may_have_committed_more() => {
                return Err(FetchError::NotAvailable);
            }
            OffsetSpec::Latest => return plain(upto),
            // Nothing is in remote storage.
            OffsetSpec::LatestTiered | OffsetSpec::EarliestPendingUpload => return Ok(None),
            OffsetSpec::MaxTimestamp => self.log.max_timestamp_before(upto),
            OffsetSpec::At(timestamp) => self.log.offset_for_timestamp(timestamp),
        };
        let found = found.map_err(|error| self.lookup_failed(error, out))?;
        match found.filter(|found| found.offset < upto) {
            // What is meant may be committed all the same: whoever was told that there is none would read on behind it.
            None if self.may_have_committed_more() => Err(FetchError::NotAvailable),
            found => Ok(found.map(|found| (found.timestamp, found.offset, found.epoch))),
        }
    }

    fn may_have_committed_more(&self) -> bool {
        matches!(&self.role, Role::Leader(leader) if self.high_watermark < leader.start())
    }

    fn epoch_at(&self, offset: Offset) -> LeaderEpoch {
        if offset >= self.log.end() {
            self.epoch
        } else {
            self.log.epoch_at(offset).unwrap_or(LeaderEpoch::NONE)
        }
    }

    /// Where `epoch`, or the last one before it, ended.
    pub fn epoch_end(
        &self,
        current_epoch: LeaderEpoch,
        epoch: LeaderEpoch,
    ) -> Result<(LeaderEpoch, Offset), FetchError> {
        self.check_reader(Reader::Consumer)?;
        self.check_epoch(current_epoch)?;
        Ok(self.end_of(epoch))
    }

    /// The log hears of the epoch that leads with its first batch. Until then it is the last one all the
    /// same, and begins where the log ends: a reader that was here before must not be told that its own
    /// epoch is unknown.
    fn end_of(&self, epoch: LeaderEpoch) -> (LeaderEpoch, Offset) {
        if !self.is_leader() {
            return self.log.epoch_end(epoch);
        }
        let end = self.log.end();
        let known = self.log.last_epoch();
        if epoch == self.epoch {
            return (epoch, end);
        }
        if known.is_none_or(|known| known < epoch) && (LeaderEpoch::FIRST..self.epoch).contains(&epoch) {
            return (known.unwrap_or(epoch), end);
        }
        self.log.epoch_end(epoch)
    }

    fn check_epoch(&self, got: LeaderEpoch) -> Result<(), FetchError> {
        let current = self.epoch;
        if got == LeaderEpoch::NONE || got == current {
            return Ok(());
        }
        Err(if got < current {
            FetchError::Fenced { got, current }
        } else {
            FetchError::UnknownEpoch { got, current }
        })
    }

    /// Moves the start of the log up to `upto`, or to the high watermark; the new start.
    pub fn delete_records(
        &mut self,
        upto: Option<Offset>,
        out: &mut Effects<Effect>,
    ) -> Result<Offset, FetchError> {
        if self.failed {
            return Err(FetchError::Retired);
        }
        self.check_reader(Reader::Consumer)?;
        let (start, end) = (self.log.start(), self.high_watermark);
        let upto = upto.unwrap_or(end);
        if upto < Offset::ZERO || upto > end {
            return Err(FetchError::OutOfRange { from: upto, start, end });
        }
        let deleted = self.log.delete_records(upto).map_err(|error| match error {
            DeleteError::OutOfRange { upto, end } => FetchError::OutOfRange { from: upto, start, end },
            DeleteError::Disk(error) => {
                self.fail(error.clone(), out);
                FetchError::Disk(error)
            }
        });
        if let (Role::Leader(leader), Ok(upto)) = (&mut self.role, &deleted) {
            leader.on_deleted(*upto);
        }
        if self.log.start() > start {
            out.push(Effect::Deleted);
        }
        deleted
    }

    /// Where the logs of all who may be in sync start, durably: whoever leads next does not have what lies below
    /// (Kafka's low watermark). [`Offset::NONE`] as long as one of them said nothing, and while too few are in sync, for
    /// then others may be elected; of a replica that does not lead, where its own log starts.
    pub fn low_watermark(&self) -> Offset {
        match &self.role {
            Role::Leader(leader) if leader.isr().len() < leader.isr_min(self.settings.isr_min) => {
                Offset::NONE
            }
            Role::Leader(leader) => leader.shared_start(self.log.start()),
            Role::Follower(_) | Role::None => self.log.start(),
        }
    }

    /// Up to where the start of the log is durable: it comes back no lower than this.
    pub fn start_saved(&self) -> Offset {
        self.start_saved
    }

    /// The start of the log was made durable as it was some time ago. Those who saved it may say so in any order; a log
    /// that was cut to nothing since says where it begins by itself.
    pub fn on_start_saved(&mut self, start: Offset, out: &mut Effects<Effect>) {
        let saved = start.min(self.log.start());
        if saved > self.start_saved {
            self.start_saved = saved;
            if matches!(self.role, Role::Follower(_)) {
                out.push(Effect::FetchOn);
            }
        }
    }
}
