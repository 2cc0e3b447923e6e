//! A partition that this broker leads: what is appended, what is committed, what may be read.

use std::time::Duration;

use base::{Effects, LeaderEpoch, Now, Offset, TimestampMs};
use records::CheckedBatch;
use storage::disk::DiskError;
use storage::{
    DeleteError, Flush, FlushScope, Flushed, Log, LogSettings, LookupError, ProducerView, ReadError, Removal,
    Removed,
};

use crate::FlushPolicy;
use crate::fetch::{Fetch, FetchError, Fetched, OffsetSpec};

/// What the caller of a step has to do, in order, after the step.
#[derive(Debug)]
pub enum Effect {
    /// Run [`Partition::flush_plan`] and bring the result back with [`Partition::on_flushed`].
    Flush,
    /// A batch was appended, or was there already.
    Appended {
        /// How many records it has.
        records: u32,
        /// How many bytes.
        bytes: usize,
        /// Whether it was there already.
        duplicate: bool,
    },
    /// The high watermark moved up to here.
    Committed(Offset),
    /// The directory failed. The partition takes no more writes, and neither may any other in it.
    Retire(DiskError),
    /// A file of the log failed in the middle of a change. This partition takes no more writes; others
    /// are as good as before.
    Offline(DiskError),
    /// The disk did not do what was asked, but nothing was changed: the same may go well later.
    Refused(DiskError),
}

/// What became of an append.
pub type Appended = storage::Appended;

/// Why a batch was not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The partition takes no more writes: its directory failed, or it was deleted.
    #[error("the partition takes no writes any more")]
    Retired,
    /// The log refused it.
    #[error(transparent)]
    Log(#[from] storage::AppendError),
}

/// See the module.
#[derive(Debug)]
pub struct Partition {
    log: Log,
    epoch: LeaderEpoch,
    policy: FlushPolicy,
    high_watermark: Offset,
    /// Bytes and records appended since the last flush was asked for.
    unflushed_bytes: u64,
    unflushed_records: u64,
    /// When the first of them was appended, by `Now::elapsed`.
    unflushed_since: Duration,
    failed: bool,
}

impl Partition {
    /// Takes the lead of a log that was just opened, in `epoch`.
    ///
    /// A single replica has, by definition, all that was committed: so everything in the log is,
    /// once it is durable. The log hears of the epoch with the first batch of it.
    pub fn lead(log: Log, epoch: LeaderEpoch, policy: FlushPolicy) -> Self {
        let high_watermark = if policy.counts_durable() { log.durable_end() } else { log.end() };
        Self {
            log,
            epoch,
            policy,
            high_watermark,
            unflushed_bytes: 0,
            unflushed_records: 0,
            unflushed_since: Duration::ZERO,
            failed: false,
        }
    }

    /// Appends a batch.
    pub fn append(
        &mut self,
        now: Now,
        batch: &CheckedBatch<'_>,
        out: &mut Effects<Effect>,
    ) -> Result<Appended, AppendError> {
        if self.failed {
            return Err(AppendError::Retired);
        }
        let appended = match self.log.append(now, batch, self.epoch) {
            Ok(appended) => appended,
            Err(error) => {
                if let storage::AppendError::Disk(disk) = &error {
                    self.fail(disk.clone(), out);
                }
                return Err(error.into());
            }
        };
        let records = u32::try_from(batch.header().records_count).unwrap_or(0);
        out.push(Effect::Appended { records, bytes: batch.bytes().len(), duplicate: appended.duplicate });
        if !appended.duplicate {
            if self.unflushed_bytes == 0 {
                self.unflushed_since = now.elapsed;
            }
            self.unflushed_bytes += batch.bytes().len() as u64;
            self.unflushed_records += u64::from(records);
            if self.wants_flush() {
                (self.unflushed_bytes, self.unflushed_records) = (0, 0);
                out.push(Effect::Flush);
            }
            self.advance(out);
        }
        self.check();
        Ok(appended)
    }

    fn wants_flush(&self) -> bool {
        match self.policy {
            FlushPolicy::Ack => true,
            FlushPolicy::Interval { bytes, records, .. } => {
                self.unflushed_bytes >= bytes || self.unflushed_records >= records
            }
            // The page cache may not fill with dirty pages without bound: the writer that crosses the
            // kernel's limit is stopped for as long as the disk takes.
            FlushPolicy::Os => self.unflushed_bytes >= DIRTY_BYTES_MAX,
        }
    }

    /// Whether the time has come to flush what was appended under [`FlushPolicy::Interval`].
    pub fn flush_is_due(&self, now: Now) -> bool {
        match self.policy {
            FlushPolicy::Interval { every, .. } => {
                self.unflushed_bytes > 0 && now.elapsed.saturating_sub(self.unflushed_since) >= every
            }
            FlushPolicy::Ack | FlushPolicy::Os => false,
        }
    }

    /// After a failure nothing more is committed: an older flush that comes back later vouches for its
    /// own bytes, not for those of the one that failed.
    fn advance(&mut self, out: &mut Effects<Effect>) {
        if self.failed {
            return;
        }
        let committed = if self.policy.counts_durable() { self.log.durable_end() } else { self.log.end() };
        if committed > self.high_watermark {
            self.high_watermark = committed;
            self.log.on_high_watermark(committed);
            out.push(Effect::Committed(committed));
        }
    }

    /// What to sync, outside any lock; `None` if all that `scope` means is on the disk.
    pub fn flush_plan(&mut self, scope: FlushScope, out: &mut Effects<Effect>) -> Option<Flush> {
        if self.failed {
            return None;
        }
        (self.unflushed_bytes, self.unflushed_records) = (0, 0);
        match self.log.flush_plan(scope) {
            Ok(flush) => flush,
            Err(error) => {
                self.fail(error, out);
                None
            }
        }
    }

    /// A flush came back. If it failed for want of descriptors, the next one brings to the disk what it
    /// should have: the caller plans one every now and then.
    pub fn on_flushed(&mut self, result: Result<Flushed, DiskError>, out: &mut Effects<Effect>) {
        match result {
            Ok(_) if self.failed => {}
            Ok(flushed) => {
                self.log.on_flushed(flushed);
                self.advance(out);
            }
            Err(error) => {
                self.log.on_flush_failed(&error);
                self.fail(error, out);
            }
        }
        self.check();
    }

    /// Finds records to read.
    pub fn fetch(&mut self, fetch: &Fetch, out: &mut Effects<Effect>) -> Result<Fetched, FetchError> {
        self.check_epoch(fetch.current_epoch)?;
        let (start, high_watermark) = (self.log.start(), self.high_watermark);
        let last_stable = self.last_stable();
        let out_of_range = FetchError::OutOfRange { from: fetch.from, start, end: high_watermark };
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
        if fetch.from < start || fetch.from > self.log.end() {
            return Err(out_of_range);
        }
        let upto = if fetch.committed_only { last_stable } else { high_watermark };
        let planned = self.plan_fetch(fetch, upto, &mut fetched, out);
        // Whatever came of it, files may have been opened.
        self.log.on_read(fetch.from);
        planned.map(|()| fetched)
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
        self.check_epoch(current_epoch)?;
        let upto = if committed_only { self.last_stable() } else { self.high_watermark };
        let plain = |offset| Ok(Some((TimestampMs::NONE, offset, self.epoch_at(offset))));
        let found = match spec {
            OffsetSpec::Earliest | OffsetSpec::EarliestLocal => return plain(self.log.start()),
            OffsetSpec::Latest => return plain(upto),
            // Nothing is in remote storage.
            OffsetSpec::LatestTiered | OffsetSpec::EarliestPendingUpload => return Ok(None),
            OffsetSpec::MaxTimestamp => self.log.max_timestamp_before(upto),
            OffsetSpec::At(timestamp) => self.log.offset_for_timestamp(timestamp),
        };
        let found = found.map_err(|error| self.lookup_failed(error, out))?;
        Ok(found
            .filter(|found| found.offset < upto)
            .map(|found| (found.timestamp, found.offset, found.epoch)))
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
        self.check_epoch(current_epoch)?;
        Ok(self.end_of(epoch))
    }

    /// The log hears of the epoch that leads with its first batch. Until then it is the last one all the
    /// same, and begins where the log ends: a reader that was here before must not be told that its own
    /// epoch is unknown.
    fn end_of(&self, epoch: LeaderEpoch) -> (LeaderEpoch, Offset) {
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
        let (start, end) = (self.log.start(), self.high_watermark);
        let upto = upto.unwrap_or(end);
        if upto < Offset::ZERO || upto > end {
            return Err(FetchError::OutOfRange { from: upto, start, end });
        }
        self.log.delete_records(upto).map_err(|error| match error {
            DeleteError::OutOfRange { upto, end } => FetchError::OutOfRange { from: upto, start, end },
            DeleteError::Disk(error) => {
                self.fail(error.clone(), out);
                FetchError::Disk(error)
            }
        })
    }

    /// Drops some of what retention no longer keeps, and files that were dropped a while ago. What is to be
    /// run outside any lock; `None` if there is nothing to drop.
    pub fn retain_plan(&mut self, now: Now, out: &mut Effects<Effect>) -> Option<Removal> {
        if self.failed {
            return None;
        }
        self.log.expire_producers(now);
        match self.log.retain_plan(now, self.high_watermark) {
            Ok(removal) => removal,
            Err(error) => {
                self.lookup_failed(error, out);
                None
            }
        }
    }

    /// A removal came back; whether to plan another.
    pub fn on_removed(&mut self, result: Result<Removed, DiskError>, out: &mut Effects<Effect>) -> bool {
        match result {
            Ok(removed) => {
                self.log.on_removed(&removed);
                true
            }
            Err(error) => {
                self.log.on_flush_failed(&error);
                self.fail(error, out);
                false
            }
        }
    }

    fn lookup_failed(&mut self, error: LookupError, out: &mut Effects<Effect>) -> FetchError {
        match error {
            LookupError::Disk(error) => {
                self.fail(error.clone(), out);
                FetchError::Disk(error)
            }
            damaged @ LookupError::Damaged { .. } => FetchError::Damaged(damaged.to_string()),
        }
    }

    /// Says how far an error of the disk reaches.
    fn fail(&mut self, error: DiskError, out: &mut Effects<Effect>) {
        if self.failed {
            return;
        }
        self.failed = error.is_of_directory() || self.log.poison().is_some();
        out.push(match self.failed {
            true if error.is_of_directory() => Effect::Retire(error),
            true => Effect::Offline(error),
            false => Effect::Refused(error),
        });
    }

    /// The directory of this partition was given up because of something else in it, or the partition was
    /// deleted.
    pub fn retire(&mut self) {
        self.failed = true;
    }

    /// Whether the disk failed: nothing more is written here.
    pub fn is_failed(&self) -> bool {
        self.failed
    }

    /// First offset consumers may not read yet.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// First offset of a transaction that is not decided, or the high watermark.
    pub fn last_stable(&self) -> Offset {
        self.log.last_stable_offset(self.high_watermark)
    }

    /// The leader epoch.
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// How it is flushed.
    pub fn policy(&self) -> FlushPolicy {
        self.policy
    }

    /// Puts other settings in force.
    pub fn reconfigure(&mut self, settings: LogSettings, policy: FlushPolicy, out: &mut Effects<Effect>) {
        self.log.reconfigure(settings);
        self.policy = policy;
        self.advance(out);
        if policy.counts_durable() && self.log.durable_end() < self.log.end() {
            out.push(Effect::Flush);
        }
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The log, for those who keep house: checkpoints, closing.
    pub fn log_mut(&mut self) -> &mut Log {
        &mut self.log
    }

    /// The producers this partition remembers.
    pub fn producers(&self) -> impl Iterator<Item = ProducerView> + '_ {
        self.log.producers()
    }

    fn check(&self) {
        assert!(self.high_watermark <= self.log.end(), "{} > {}", self.high_watermark, self.log.end());
    }
}

/// Appended bytes of one partition that may wait for the operating system to write them.
pub const DIRTY_BYTES_MAX: u64 = 64 << 20;
