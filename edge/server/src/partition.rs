//! A partition behind its lock, and the doing of what it decides.
//!
//! The lock is held across one step: an append to the page cache, a plan of a read. Never across a
//! wait, a sync or a send. What the step asks for is done after the lock is released.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use base::{BrokerId, Effects, Offset, TopicId, TopicPartition};
use broker::host::{Effect, Hosted, HostedPartition};
use broker::partition::{flush_policy, log_settings, partition_settings};
use broker::replication::PartitionKey;
use disk::{FlushJob, FlushTicket};
use metadata::settings::TopicSettings;
use parking_lot::Mutex;
use replica::{Assignment, FlushPolicy, Lane, NextFetch, Partition, PartitionSettings};
use storage::disk::DiskError;
use storage::{FlushScope, LogSettings, LookupError};
use tracing::{error, info, warn};

use crate::clock::Clock;
use crate::log_dir::LogDirectory;
use crate::requests::{LeaderBells, Outbox};

/// One partition of this node.
pub(crate) struct PartitionCell {
    pub(crate) name: TopicPartition,
    pub(crate) topic: TopicId,
    pub(crate) dir: Arc<LogDirectory>,
    clock: Clock,
    outbox: Arc<Outbox>,
    /// Where to say that the leader can be asked for more, while this replica follows one.
    follows: ArcSwapOption<LeaderBells>,
    /// The lane in which it was asked for last.
    is_catching_up: AtomicBool,
    state: Mutex<Hosted>,
    settings: ArcSwap<TopicSettings>,
    /// Whether it is on the media that records may count here before they are: until then none does, or a power
    /// cut could take what was acknowledged and nobody would look for it.
    is_noted_lax: AtomicBool,
    flush: FlushTicket,
    /// Whether the next flush is to cover the tables, too.
    checkpoint_asked: AtomicBool,
    /// Held while files are synced. The kernel tells an error of a file to one of those who sync it at
    /// the same time: the other would take records for durable that are not.
    syncing: Mutex<()>,
    /// Whether it takes no writes any more, for those who must not wait for the lock.
    offline: AtomicBool,
    /// Whether its records were found damaged.
    damaged: AtomicBool,
    /// Whether its topic and the controller have it filled no faster than this node's limit (KIP-73): it is
    /// named, and not in sync.
    is_throttled: AtomicBool,
}

impl PartitionCell {
    pub(crate) fn new(
        name: TopicPartition,
        dir: Arc<LogDirectory>,
        open: impl FnOnce(PartitionSettings) -> Partition,
        settings: Arc<TopicSettings>,
        (clock, outbox): (Clock, Arc<Outbox>),
    ) -> Arc<Self> {
        let is_noted_lax = !flush_policy(&settings).counts_durable() && dir.is_noted_lax(&name);
        let partition = open(own_settings(&settings, is_noted_lax));
        let topic = partition.log().topic_id();
        Arc::new_cyclic(|me: &Weak<Self>| Self {
            flush: dir.flushes.register(me.clone() as Weak<dyn FlushJob>),
            name,
            topic,
            dir,
            clock,
            outbox,
            follows: ArcSwapOption::empty(),
            is_catching_up: AtomicBool::new(false),
            state: Mutex::new(Hosted::new(partition)),
            settings: ArcSwap::new(settings),
            is_noted_lax: AtomicBool::new(is_noted_lax),
            checkpoint_asked: AtomicBool::new(false),
            syncing: Mutex::new(()),
            offline: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
            is_throttled: AtomicBool::new(false),
        })
    }

    /// Looks at the partition, or does what has no effects.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Partition) -> R) -> R {
        let mut hosted = self.state.lock();
        let _held = self.dir.held.begin();
        act(&mut hosted.partition)
    }

    /// A step of the partition, then its effects.
    pub(crate) fn act<R>(&self, act: impl FnOnce(&mut Partition, &mut Effects<replica::Effect>) -> R) -> R {
        let mut act = Some(act);
        let mut result = None;
        self.step(&mut |hosted, out| {
            if let Some(act) = act.take() {
                result = Some(hosted.with(out, act));
            }
        });
        result.expect("step runs its action")
    }

    pub(crate) fn reconfigure(&self, settings: Arc<TopicSettings>, producer_expiry: Duration) {
        let log = log_settings(&settings, producer_expiry);
        self.settings.store(settings);
        self.take_settings(Some(log));
    }

    /// Whether it only counts what is durable because it is not written down that it may count more.
    pub(crate) fn waits_for_note(&self) -> bool {
        !self.is_noted_lax.load(Ordering::Acquire) && !flush_policy(&self.settings.load()).counts_durable()
    }

    /// That is written down now.
    pub(crate) fn on_noted(&self) {
        self.take_settings(None);
    }

    fn take_settings(&self, log: Option<LogSettings>) {
        if self.waits_for_note() {
            self.is_noted_lax.fetch_or(self.dir.is_noted_lax(&self.name), Ordering::AcqRel);
        }
        self.act(|partition, out| {
            let log = log.unwrap_or_else(|| partition.log().settings().clone());
            // Read under the lock: whoever puts others in force meanwhile comes after.
            let own = own_settings(&self.settings.load(), self.is_noted_lax.load(Ordering::Acquire));
            partition.reconfigure(log, own, out);
        });
    }

    /// Whether it is filled no faster than this node's limit, if there is one.
    pub(crate) fn is_throttled(&self) -> bool {
        self.is_throttled.load(Ordering::Relaxed)
    }

    /// Who is in sync, or the settings of the topic or of this node, may have changed.
    pub(crate) fn throttle(&self, isr: &[BrokerId]) {
        let me = self.with(|partition| partition.broker());
        let is_named = self.settings.load().follower_throttled.include(self.name.partition, me);
        self.is_throttled.store(is_named && !isr.contains(&me), Ordering::Relaxed);
        // What was held back may be asked for at once if it is not any more.
        self.fetch_on();
    }

    /// Leads, follows, or goes on with other replicas, as the controller decided.
    pub(crate) fn assign(&self, assignment: &Assignment) {
        let now = self.clock.now();
        self.act(|partition, out| partition.assign(now, assignment, out));
    }

    /// Those who ask its leader for it; `None` if it has none.
    pub(crate) fn follow(&self, bells: Option<Arc<LeaderBells>>) {
        let before = self.follows.swap(bells.clone());
        match (before, bells) {
            (Some(before), Some(bells)) if Arc::ptr_eq(&before, &bells) => self.fetch_on(),
            (before, bells) => {
                // Those before find that it is not their concern any more.
                before.iter().for_each(|before| before.ring_all(self.key()));
                bells.iter().for_each(|bells| bells.of(self.enter_lane().0).ring_urgently(self.key()));
            }
        }
    }

    /// Has the one who asks its leader look at it, in the lane that it is in now.
    fn fetch_on(&self) {
        let bells = self.follows.load();
        let Some(bells) = bells.as_ref() else { return };
        let (lane, is_new) = self.enter_lane();
        if is_new {
            // The one before finds that it is not its concern any more.
            bells.ring_all(self.key());
            bells.of(lane).ring_urgently(self.key());
        } else {
            bells.of(lane).ring(self.key());
        }
    }

    /// The lane that it is in now, and whether it was in the other one.
    fn enter_lane(&self) -> (Lane, bool) {
        let lane = self.with(|partition| partition.lane());
        let is_catching_up = lane == Lane::CatchingUp;
        (lane, self.is_catching_up.swap(is_catching_up, Ordering::AcqRel) != is_catching_up)
    }

    /// What to ask a leader for in one of its lanes. If it is in the other one by now, that is told.
    pub(crate) fn next_fetch(&self, leader: BrokerId, lane: Lane) -> NextFetch {
        let (next, now_in) = self.with(|partition| (partition.next_fetch().of(leader), partition.lane()));
        if now_in == lane || next == NextFetch::Nothing {
            return next;
        }
        self.fetch_on();
        NextFetch::Nothing
    }

    fn key(&self) -> PartitionKey {
        (self.topic, self.name.partition)
    }

    /// Takes no more writes; whoever waits is told.
    pub(crate) fn retire(&self) {
        self.offline.store(true, Ordering::Release);
        let mut woken = Vec::new();
        let mut hosted = self.state.lock();
        let _held = self.dir.held.begin();
        hosted.partition.retire();
        hosted.parked.gone(|waiter| woken.push(waiter));
        drop(hosted);
        woken.into_iter().for_each(|waiter| waiter.bell.wake());
    }

    /// Waits until no flush is on its way of what was retired: it would go on in whatever has its name next. In a
    /// directory that failed nothing will have it, and a flush may hang.
    pub(crate) fn await_flush(&self) {
        if !self.dir.is_retired() {
            drop(self.syncing.lock());
        }
    }

    fn perform(&self, effects: &mut Effects<Effect>) {
        for effect in effects.drain() {
            match effect {
                Effect::Flush => {
                    self.flush.ask();
                }
                Effect::Appended { duplicate: true, .. } => self.dir.metrics.produce.batches_duplicate.inc(),
                Effect::Appended { records, bytes, .. } => {
                    self.dir.metrics.produce.batches.inc();
                    self.dir.metrics.produce.records.add(records.into());
                    self.dir.metrics.produce.bytes.add(bytes as u64);
                }
                Effect::Wake(waiter) => waiter.bell.wake(),
                Effect::AlterIsr(proposal) => self.outbox.propose(self.key(), proposal),
                Effect::FetchOn => self.fetch_on(),
                Effect::SaveStart => self.save_start(),
                Effect::LowerRecoveryPoint(upto) => self.cut(upto),
                Effect::Truncated { from, to, committed } => self.tell_of_cut(from, to, committed),
                Effect::Retire(error) => self.on_error(&error),
                Effect::Offline(error) => {
                    self.on_error(&error);
                    self.retire();
                }
                Effect::Refused(error) => {
                    if let Some(unsaid) = self.dir.complaints.next(self.dir.since.elapsed()) {
                        warn!(partition = %self.name, %error, unsaid, "the disk refused; nothing was changed");
                    }
                }
                Effect::Suspect(at) => self.dir.suspect(self.key(), at),
                Effect::Damaged(why) => self.on_damaged(&why),
            }
        }
    }

    /// Cuts the end of the log off as was decided, once it is written down that it is durable up to `upto` at
    /// most. Nobody else writes that down in between: they would say what was before. Nor is a flush on its way, which
    /// puts files into place that a cut does, too.
    fn cut(&self, upto: Offset) {
        let _alone = self.syncing.lock();
        let now = self.clock.now();
        let cut = self.dir.mark(|marks| {
            // What was taken away may have left its name to another log by now, and another leader may have had the
            // log cut elsewhere.
            let notes = self.with(|partition| partition.notes_of_cut());
            let Some(notes) = notes.filter(|notes| notes.recovery_point == upto && !self.is_offline()) else {
                return Ok(Ok(()));
            };
            marks.note_cut(&self.name, notes)?;
            Ok(self.act(|partition, out| partition.cut(now, upto, out)))
        });
        match cut {
            Some(Ok(())) => {}
            Some(Err(why)) => {
                if let Some(unsaid) = self.dir.complaints.next(self.dir.since.elapsed()) {
                    error!(partition = %self.name, %why, unsaid, "the log could not be cut to what its leader has");
                }
            }
            None => self.act(Partition::put_off_cut),
        }
    }

    fn tell_of_cut(&self, from: Offset, to: Offset, committed: Offset) {
        if to < committed {
            error!(
                partition = %self.name, %from, %to, %committed,
                "committed records were given up: the leader was elected without having them"
            );
        } else if to < from {
            info!(partition = %self.name, %from, %to, "cut what the leader does not have and nobody was promised");
        }
    }

    /// Whether it takes no writes any more.
    pub(crate) fn is_offline(&self) -> bool {
        self.offline.load(Ordering::Acquire)
    }

    /// An error after which the partition takes no writes: its own, or that of its directory.
    pub(crate) fn on_error(&self, error: &DiskError) {
        let was_offline = self.offline.swap(true, Ordering::AcqRel);
        if self.dir.on_error(error) || was_offline {
            return;
        }
        error!(
            partition = %self.name, dir = %self.dir.path.display(), %error,
            "partition is offline after an error of one of its files; look at the file and start the node again"
        );
    }

    fn on_damaged(&self, why: &LookupError) {
        self.damaged.store(true, Ordering::Release);
        self.dir.metrics.log.damages.inc();
        self.retire();
        error!(
            partition = %self.name, dir = %self.dir.path.display(), %why,
            "stored records are damaged or cannot be read: this replica is given up, another leads, and fills an empty \
             one here; look at the disk"
        );
    }

    /// Whether its records were found damaged: it is to begin anew once nobody counts on it.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Acquire)
    }

    /// Has the records at an offset looked at, for they could not be used.
    pub(crate) fn suspect(&self, at: Offset) {
        self.dir.suspect(self.key(), at);
    }

    /// Up to where the start of the log is in the checkpoint of its directory.
    pub(crate) fn start_saved(&self) -> Offset {
        self.state.lock().partition.start_saved()
    }

    /// The start of the log is in the checkpoint now: those who wait for that look again.
    pub(crate) fn on_start_saved(&self, start: Offset) {
        self.step(&mut |hosted, out| hosted.on_start_saved(start, out));
    }

    /// Asks for a flush of all records, whatever the policy.
    pub(crate) fn ask_flush(&self) {
        self.flush.ask();
    }

    /// Asks for a flush that moves the recovery point to the end of the log, if it is not there.
    pub(crate) fn ask_checkpoint(&self) {
        if self.with(|partition| partition.log().recovery_point() < partition.log().end()) {
            self.checkpoint_asked.store(true, Ordering::Release);
            self.flush.ask();
        }
    }

    /// Brings everything to the disk, in the form that needs no recovery.
    pub(crate) fn close(&self) {
        let _alone = self.syncing.lock();
        if self.is_offline() {
            return;
        }
        if let Err(why) = self.with(|partition| partition.log_mut().close()) {
            self.on_error(&why);
        }
    }
}

impl HostedPartition for PartitionCell {
    fn settings(&self) -> Arc<TopicSettings> {
        self.settings.load_full()
    }

    fn step(&self, act: &mut dyn FnMut(&mut Hosted, &mut Effects<Effect>)) {
        let mut effects = Effects::new();
        {
            let panicked_before = std::thread::panicking();
            let mut step = Step { hosted: self.state.lock(), offline: &self.offline, panicked_before };
            let _held = self.dir.held.begin();
            act(&mut step.hosted, &mut effects);
        }
        self.perform(&mut effects);
    }

    fn append_step(&self, act: &mut dyn FnMut(&mut Hosted, &mut Effects<Effect>)) {
        let mut locked = Duration::ZERO;
        self.step(&mut |hosted, out| {
            let since = Instant::now();
            act(hosted, out);
            locked = since.elapsed();
        });
        self.dir.metrics.log.append_locks.observe(locked);
    }

    fn has_room(&self) -> bool {
        self.dir.has_room()
    }

    fn save_start(&self) {
        self.dir.ask_start(self.topic, self.name.partition);
    }
}

/// What the settings of its topic mean to a replica, of which it is noted that it may count records before they
/// are durable, or not yet.
fn own_settings(settings: &TopicSettings, is_noted_lax: bool) -> PartitionSettings {
    let own = partition_settings(settings);
    if is_noted_lax { own } else { PartitionSettings { policy: FlushPolicy::Ack, ..own } }
}

/// A step that panicked leaves a partition of which nothing is known: it takes no more writes. One that
/// cleans up after a panic elsewhere is not to blame for it.
struct Step<'a> {
    hosted: parking_lot::MutexGuard<'a, Hosted>,
    offline: &'a AtomicBool,
    panicked_before: bool,
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.panicked_before {
            self.hosted.partition.retire();
            self.offline.store(true, Ordering::Release);
        }
    }
}

impl FlushJob for PartitionCell {
    /// Syncs what is not on the disk.
    fn flush(&self) {
        let _alone = self.syncing.lock();
        let checkpoint = self.checkpoint_asked.swap(false, Ordering::AcqRel);
        let scope = if checkpoint { FlushScope::Checkpoint } else { FlushScope::Records };
        let plan = |partition: &mut Partition, out: &mut Effects<replica::Effect>| {
            // Nobody waits for what is flushed by itself, which takes long where much was written.
            (partition.flush_plan(scope, out), partition.settings().policy.counts_durable())
        };
        if let (Some(flush), is_awaited) = self.act(plan) {
            let wait = is_awaited.then(|| self.dir.flushing.begin());
            let result = flush.run();
            drop(wait);
            self.act(|partition, out| partition.on_flushed(result, out));
        }
    }
}
