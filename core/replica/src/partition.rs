//! A replica of a partition: whether it leads or follows, what is appended, what is committed.
//!
//! ```text
//!                       assign: it leads                assign: another leads
//!   opened, no role ──────────────────▶ Leader ◀──────────────────────────────▶ Follower
//!                                       append, commit                          see `follower`
//! ```

use std::time::Duration;

use base::{BrokerId, Effects, LeaderEpoch, Now, Offset};
use records::CheckedBatch;
use storage::disk::DiskError;
use storage::{Flush, FlushScope, Flushed, Log, LogSettings, LookupError, ProducerView};

use crate::assignment::Assignment;
use crate::fetch::FetchError;
use crate::flush::FlushPolicy;
use crate::given::Given;
use crate::isr::{AlterIsr, IsrAnswer};
use crate::leader::{Leader, Leadership};
use crate::role::{DecidedCut, Following, Role};

/// What the caller of a step has to do, in order, after the step.
#[derive(Debug)]
pub enum Effect {
    /// Run [`Partition::flush_plan`] and bring the result back with [`Partition::on_flushed`].
    Flush,
    /// A batch was appended by its producer, or was there already.
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
    /// There is more to read for followers than there was: up to here.
    Grown(Offset),
    /// Records were deleted on request: followers are to know where the log starts.
    Deleted,
    /// Have it written down soon where the log starts, and say so with [`Partition::on_start_saved`].
    SaveStart,
    /// Another role, or another leadership: whoever waits for this one waits in vain.
    RoleChanged,
    /// Ask the controller, and bring its answer back with [`Partition::on_isr_answer`].
    AlterIsr(AlterIsr),
    /// [`Partition::next_fetch`] may say something else now.
    FetchOn,
    /// Write down that the log is durable up to here at most, durably; then call [`Partition::cut`] with it, or
    /// [`Partition::put_off_cut`] if it cannot be written. Not if [`Partition::notes_of_cut`] says something else by then.
    LowerRecoveryPoint(Offset),
    /// The end of the log was cut off.
    Truncated {
        /// Where the log ended.
        from: Offset,
        /// Where it ends.
        to: Offset,
        /// Up to where it was committed: records below were lost by an unclean election.
        committed: Offset,
    },
    /// The directory failed. The partition takes no more writes, and neither may any other in it.
    Retire(DiskError),
    /// A file of the log failed in the middle of a change. This partition takes no more writes; others
    /// are as good as before.
    Offline(DiskError),
    /// The disk did not do what was asked, but nothing was changed: the same may go well later.
    Refused(DiskError),
    /// What is stored at this offset may be damaged: have it looked at, by [`Partition::check_plan`].
    Suspect(Offset),
    /// Stored records are damaged. This partition takes no more writes; others are as good as before. The controller is
    /// to know that the replica has lost its records.
    Damaged(LookupError),
}

/// What became of an append.
pub type Appended = storage::Appended;

/// Why a batch was not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The partition takes no more writes: its directory failed, or it was deleted.
    #[error("the partition takes no writes any more")]
    Retired,
    /// Another broker leads it, or none.
    #[error("this broker does not lead the partition")]
    NotLeader,
    /// Too few replicas are in sync for what the producer wants to be told.
    #[error("{in_sync} replicas are in sync, at least {wanted} are wanted")]
    NotEnoughReplicas {
        /// How many are.
        in_sync: usize,
        /// How many must be.
        wanted: usize,
    },
    /// The log refused it.
    #[error(transparent)]
    Log(#[from] storage::AppendError),
}

/// What a replica is told by the settings of its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionSettings {
    /// When what was appended counts.
    pub policy: FlushPolicy,
    /// `min.insync.replicas`: nothing is committed while fewer are in sync (KIP-966).
    pub isr_min: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Partition {
    pub(crate) me: BrokerId,
    pub(crate) log: Log,
    pub(crate) role: Role,
    pub(crate) epoch: LeaderEpoch,
    /// Since which leadership it has led, one after the other; `None` if it does not.
    led_since: Option<LeaderEpoch>,
    pub(crate) settings: PartitionSettings,
    pub(crate) high_watermark: Offset,
    /// Whether all replicas are in sync, as far as it was told.
    pub(crate) is_whole: bool,
    /// The last leadership that began uncleanly, see [`Assignment::unclean_epoch`].
    unclean_epoch: LeaderEpoch,
    /// The last leadership of which it was seen, since the log was opened, that its log has all of this one.
    pub(crate) agreed_epoch: LeaderEpoch,
    /// What is to be given up of the log once its recovery point is lowered.
    pub(crate) cut: Option<DecidedCut>,
    /// Why it could not be given up when that was tried last: damage that no reader need come by.
    pub(crate) unreadable: Option<LookupError>,
    /// Whether the last append was refused because of one of the log's files.
    pub(crate) was_refused: bool,
    /// Up to where the start of the log is durable: it comes back no lower than this.
    pub(crate) start_saved: Offset,
    /// Bytes and records appended since the last flush was asked for.
    unflushed_bytes: u64,
    unflushed_records: u64,
    /// When the first of them was appended, by `Now::elapsed`.
    unflushed_since: Duration,
    pub(crate) failed: bool,
    /// What consumers were given last.
    pub(crate) given: Given,
}

impl Partition {
    /// A replica on broker `me` of a log that was just opened, committed up to `high_watermark` at least as
    /// its checkpoint says. It neither leads nor follows yet.
    pub fn open(me: BrokerId, log: Log, high_watermark: Offset, settings: PartitionSettings) -> Self {
        // What was cut off since the checkpoint was written is not there any more.
        let high_watermark = high_watermark.clamp(log.start(), log.end());
        // It begins where its checkpoint says, or with the first segment that is there.
        let start_saved = log.start();
        Self {
            me,
            start_saved,
            log,
            role: Role::None,
            epoch: LeaderEpoch::NONE,
            led_since: None,
            settings,
            high_watermark,
            is_whole: false,
            unclean_epoch: LeaderEpoch::NONE,
            agreed_epoch: LeaderEpoch::NONE,
            cut: None,
            unreadable: None,
            was_refused: false,
            unflushed_bytes: 0,
            unflushed_records: 0,
            unflushed_since: Duration::ZERO,
            failed: false,
            given: Given::default(),
        }
    }

    /// Does what the controller decided: leads, follows, or goes on with other replicas. What is older than
    /// what it knows is passed over.
    pub fn assign(&mut self, now: Now, assignment: &Assignment, out: &mut Effects<Effect>) {
        if assignment.leader_epoch < self.epoch {
            return;
        }
        let is_new = assignment.leader_epoch > self.epoch || matches!(self.role, Role::None);
        self.epoch = assignment.leader_epoch;
        self.unclean_epoch = assignment.unclean_epoch;
        self.is_whole = assignment.replicas.iter().all(|id| assignment.isr.contains(id));
        let leadership = Leadership {
            epoch: assignment.leader_epoch,
            partition_epoch: assignment.partition_epoch,
            replicas: assignment.replicas.clone(),
            isr: assignment.isr.clone(),
        };
        match &mut self.role {
            Role::Leader(leader) if !is_new => {
                leader.change(now, leadership);
            }
            Role::Follower(following) if !is_new => following.leader = assignment.leader,
            _ if assignment.leader == Some(self.me) => {
                let log = (self.log.start(), self.log.end());
                let leader = Leader::new(now, self.me, log, leadership);
                self.role = Role::Leader(leader);
                self.led_since.get_or_insert(self.epoch);
                self.agreed_epoch = self.epoch;
                (self.cut, self.unreadable) = (None, None);
                out.push(Effect::RoleChanged);
            }
            _ => {
                let leader = assignment.leader;
                self.led_since = None;
                self.role = Role::Follower(Following { leader, committed: Offset::NONE, within: None });
                (self.cut, self.unreadable) = (None, None);
                out.push(Effect::RoleChanged);
            }
        }
        self.advance(out);
        if self.own_end() < self.log.end() {
            out.push(Effect::Flush);
        }
        out.push(Effect::FetchOn);
        self.check();
    }

    /// Whether committed records may have to be given up: a leader was elected that may have lacked them, and this
    /// replica has followed nobody since. A log that has records of that leadership or a later one was a part
    /// of its leader's when they came, and a leader's own log is what the others follow.
    pub(crate) fn may_lose_committed(&self) -> bool {
        let written = self.log.last_epoch().unwrap_or(LeaderEpoch::NONE);
        self.unclean_epoch > written.max(self.agreed_epoch)
    }

    /// Appends a batch as leader. `needs_isr` is whether its producer wants to know that enough replicas have
    /// it (`acks=all`).
    pub fn append(
        &mut self,
        now: Now,
        batch: &CheckedBatch<'_>,
        needs_isr: bool,
        out: &mut Effects<Effect>,
    ) -> Result<Appended, AppendError> {
        if self.failed {
            return Err(AppendError::Retired);
        }
        let Role::Leader(leader) = &self.role else { return Err(AppendError::NotLeader) };
        let (in_sync, wanted) = (leader.isr().len(), leader.isr_min(self.settings.isr_min));
        if needs_isr && in_sync < wanted {
            return Err(AppendError::NotEnoughReplicas { in_sync, wanted });
        }
        let appended = match self.log.append(now, batch, self.epoch) {
            Ok(appended) => appended,
            Err(error) => {
                if let storage::AppendError::Disk(disk) = &error {
                    self.append_refused(disk, out);
                }
                return Err(error.into());
            }
        };
        let records = u32::try_from(batch.header().records_count).unwrap_or(0);
        out.push(Effect::Appended { records, bytes: batch.bytes().len(), duplicate: appended.duplicate });
        if !appended.duplicate {
            self.on_appended(now, batch.bytes().len(), records, out);
            if leader_has_followers(&self.role) {
                out.push(Effect::Grown(self.log.end()));
            }
            self.advance(out);
        }
        self.check();
        Ok(appended)
    }

    /// Something was appended: it may have to be flushed.
    pub(crate) fn on_appended(&mut self, now: Now, bytes: usize, records: u32, out: &mut Effects<Effect>) {
        self.append_went_well();
        if self.unflushed_bytes == 0 {
            self.unflushed_since = now.elapsed;
        }
        self.unflushed_bytes += bytes as u64;
        self.unflushed_records += u64::from(records);
        if self.wants_flush() {
            (self.unflushed_bytes, self.unflushed_records) = (0, 0);
            out.push(Effect::Flush);
        }
    }

    fn wants_flush(&self) -> bool {
        match self.settings.policy {
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
        match self.settings.policy {
            FlushPolicy::Interval { every, .. } => {
                self.unflushed_bytes > 0 && now.elapsed.saturating_sub(self.unflushed_since) >= every
            }
            FlushPolicy::Ack | FlushPolicy::Os => false,
        }
    }

    /// Commits what everybody in sync has. After a failure nothing more is: an older flush that comes back
    /// later vouches for its own bytes, not for those of the one that failed.
    pub(crate) fn advance(&mut self, out: &mut Effects<Effect>) {
        let Role::Leader(leader) = &self.role else { return };
        if self.failed || leader.isr().len() < leader.isr_min(self.settings.isr_min) {
            return;
        }
        let committed = leader.shared_end(self.own_end());
        if committed > self.high_watermark {
            self.commit(committed, out);
        }
    }

    /// Up to where this replica has the log, as far as that counts.
    pub(crate) fn own_end(&self) -> Offset {
        if self.settings.policy.counts_durable() { self.log.durable_end() } else { self.log.end() }
    }

    pub(crate) fn commit(&mut self, upto: Offset, out: &mut Effects<Effect>) {
        self.high_watermark = upto;
        self.log.on_high_watermark(upto);
        out.push(Effect::Committed(upto));
    }

    /// Who has been behind for longer than `lag_max` is not to be in sync any more. Worth calling every now
    /// and then.
    pub fn check_isr(&mut self, now: Now, lag_max: Duration, out: &mut Effects<Effect>) {
        let end = self.log.end();
        let Role::Leader(leader) = &mut self.role else { return };
        if !self.failed
            && let Some(proposal) = leader.shrink(now, lag_max, end)
        {
            out.push(Effect::AlterIsr(proposal));
        }
    }

    /// The controller answered [`Effect::AlterIsr`].
    pub fn on_isr_answer(&mut self, asked: &AlterIsr, answer: IsrAnswer, out: &mut Effects<Effect>) {
        let Role::Leader(leader) = &mut self.role else { return };
        if asked.leader_epoch != self.epoch {
            return;
        }
        if let Some(next) = leader.on_isr_answer(asked, answer) {
            out.push(Effect::AlterIsr(next));
        }
        self.advance(out);
        self.check();
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
                if matches!(self.role, Role::Follower(_)) {
                    out.push(Effect::FetchOn);
                }
            }
            Err(error) => {
                self.log.on_flush_failed(&error);
                self.fail(error, out);
            }
        }
        self.check();
    }

    pub(crate) fn lookup_failed(&mut self, error: LookupError, out: &mut Effects<Effect>) -> FetchError {
        match error {
            LookupError::Disk(error) => {
                self.fail(error.clone(), out);
                FetchError::Disk(error)
            }
            damaged @ LookupError::Damaged { .. } => FetchError::Damaged(damaged.to_string()),
        }
    }

    /// Says how far an error of the disk reaches.
    pub(crate) fn fail(&mut self, error: DiskError, out: &mut Effects<Effect>) {
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

    /// The settings in force.
    pub fn settings(&self) -> PartitionSettings {
        self.settings
    }

    /// The broker whose replica this is.
    pub fn broker(&self) -> BrokerId {
        self.me
    }

    /// Whether this broker leads it.
    pub fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// Since which leadership it has led, one after the other: what it appended since is in its log as it was. `None` if
    /// it does not lead.
    pub fn led_since(&self) -> Option<LeaderEpoch> {
        self.led_since
    }

    /// Puts other settings in force.
    pub fn reconfigure(&mut self, log: LogSettings, settings: PartitionSettings, out: &mut Effects<Effect>) {
        self.log.reconfigure(log);
        self.settings = settings;
        self.advance(out);
        if settings.policy.counts_durable() && self.log.durable_end() < self.log.end() {
            out.push(Effect::Flush);
        }
        out.push(Effect::FetchOn);
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

    pub(crate) fn check(&self) {
        assert!(self.high_watermark <= self.log.end(), "{} > {}", self.high_watermark, self.log.end());
    }
}

fn leader_has_followers(role: &Role) -> bool {
    matches!(role, Role::Leader(leader) if leader.has_followers())
}

/// Appended bytes of one partition that may wait for the operating system to write them.
pub const DIRTY_BYTES_MAX: u64 = 64 << 20;
