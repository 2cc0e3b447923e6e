//! A shard behind its lock.
//!
//! What its partition has committed is told by a bell that may ring while the lock is held, by whoever holds it: an
//! append can commit what others wait for. So the bell only notes that it rang if the lock is taken, and whoever lets
//! go of the lock looks whether it did.
//!
//! A step that panics ends here: the shard is given up, for nothing is known of it any more, and its log is read anew.
//! Whoever stepped it goes on, be it a connection, the timer or a disk's flush.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use base::{Effects, ErrorCode, LeaderEpoch, Now, Offset};
use broker::groups::{Desk, ShardLog, write};
use broker::host::{Asked, HostedShard};
use broker::parked::{Waiter, WaiterId, Wake};
use coordinator::{Caller, Cause, ConnectionId, Count, Effect, Record, Request, Response, Shard, Ticket};
use metadata::{Image, Topic};
use parking_lot::Mutex;
use telemetry::{GroupMetrics, Metrics};
use tokio::runtime::Handle;
use tracing::error;

use super::Coordinators;
use super::timer::Timer;
use crate::clock::Clock;
use crate::partition::PartitionCell;

/// One shard of this node, for as long as it leads its partition in one epoch.
pub(crate) struct ShardCell {
    partition: Arc<PartitionCell>,
    epoch: LeaderEpoch,
    /// How often in a row the shards of this partition were given up before this one, and since when this one is there.
    failures: u32,
    since: Duration,
    owner: Weak<Coordinators>,
    clock: Clock,
    timer: Arc<Timer>,
    image: Arc<ArcSwap<Image>>,
    metrics: Arc<Metrics>,
    desk: Mutex<Desk>,
    /// Whether the high watermark may have moved since it was last looked at.
    rang: AtomicBool,
    /// Whether the partition is led elsewhere by now, or the shard was given up; changes with the lock held.
    is_gone: AtomicBool,
    /// Whether it was given up, and nobody knows yet.
    is_broken: AtomicBool,
    me: Weak<Self>,
}

/// How long a shard must have been there that its failure counts as the first one.
const FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// How long a log that made a shard fail again and again waits until it is read anew.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);
const READ_AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);

/// Shards wait for their partitions under this number: each for its own, once for each append.
const WAITER: WaiterId = WaiterId(0);

impl ShardCell {
    /// One that is to be loaded, after so many that were given up.
    pub(super) fn new(
        owner: &Coordinators,
        (partition, epoch): (Arc<PartitionCell>, LeaderEpoch),
        failures: u32,
    ) -> Arc<Self> {
        let mut shard = Shard::new(owner.settings.clone());
        shard.on_load_begin();
        Arc::new_cyclic(|me| Self {
            partition,
            epoch,
            failures,
            since: owner.clock.now().elapsed,
            owner: owner.me.clone(),
            clock: owner.clock,
            timer: Arc::clone(&owner.timer),
            image: Arc::clone(&owner.image),
            metrics: Arc::clone(&owner.metrics),
            desk: Mutex::new(Desk::new(shard)),
            rang: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            me: me.clone(),
        })
    }

    /// The one that takes its place, for it was given up; and when to load that.
    pub(super) fn successor(&self, owner: &Coordinators) -> (Arc<Self>, Duration) {
        let now = self.clock.now().elapsed;
        let is_forgiven = now.saturating_sub(self.since) >= FORGIVEN_AFTER;
        let before = if is_forgiven { 0 } else { self.failures };
        let after = match before.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => {
                READ_AGAIN_AFTER.saturating_mul(1 << doublings.min(16)).min(READ_AGAIN_AFTER_MAX)
            }
        };
        let led = (Arc::clone(&self.partition), self.epoch);
        (Self::new(owner, led, before.saturating_add(1)), now + after)
    }

    pub(crate) fn partition(&self) -> &Arc<PartitionCell> {
        &self.partition
    }

    pub(crate) fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// The cluster as this node has acted on it.
    pub(crate) fn image(&self) -> Arc<Image> {
        self.image.load_full()
    }

    /// As who it waits for its partition; `None` when nobody needs the shard any more.
    pub(super) fn waiter(&self) -> Option<Waiter> {
        let bell = self.me.upgrade()?;
        Some(Waiter { id: WAITER, bell })
    }

    /// Looks at the shard.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&Shard) -> R) -> R {
        let result = look(self.desk.lock().shard());
        self.look_at_bell();
        result
    }

    /// Steps the shard while it is loaded; `false` if it was taken away meanwhile.
    pub(super) fn load(&self, act: impl FnOnce(Now, &mut Shard, &mut Effects<Effect>)) -> bool {
        let now = self.clock.now();
        self.at_desk(|desk, log| {
            let is_here = !self.is_gone.load(Ordering::SeqCst);
            if is_here {
                desk.step(now, log, |shard, out| act(now, shard, out));
            }
            is_here
        })
        .unwrap_or(false)
    }

    /// Steps the shard, and wakes those whose answers came.
    pub(crate) fn step(&self, act: impl FnOnce(Now, &mut Shard, &mut Effects<Effect>)) {
        let now = self.clock.now();
        self.at_desk(|desk, log| desk.step(now, log, |shard, out| act(now, shard, out)));
    }

    /// Steps the shard if it is time.
    pub(super) fn tick(&self) {
        let (now, image) = (self.clock.now(), self.image.load_full());
        self.at_desk(|desk, log| {
            if desk.shard().deadline().is_some_and(|due| due <= now.elapsed) {
                desk.step(now, log, |shard, out| shard.on_tick(now, &image, out));
            }
        });
    }

    /// Does something at the desk, then what follows from it. `None` if the shard was given up over it.
    fn at_desk<R>(&self, act: impl FnOnce(&mut Desk, &mut dyn ShardLog) -> R) -> Option<R> {
        let (done, woken) = {
            let mut desk = self.desk.lock();
            let done = self.attempt(&mut desk, |desk| {
                let result = act(desk, &mut Log(self));
                (result, desk.shard().deadline())
            });
            (done, desk.take_woken())
        };
        let result = done.map(|(result, due)| {
            self.timer.set(due);
            result
        });
        woken.into_iter().for_each(|waiter| waiter.bell.wake());
        self.look_at_bell();
        self.tell_if_broken();
        result
    }

    /// A step that panics leaves a shard of which nothing is known: it is given up.
    fn attempt<R>(&self, desk: &mut Desk, act: impl FnOnce(&mut Desk) -> R) -> Option<R> {
        let done = catch_unwind(AssertUnwindSafe(|| act(&mut *desk)));
        if done.is_err() {
            error!(
                partition = %self.partition.name,
                "a step of the groups of this partition failed, see above: they are read anew from its log"
            );
            self.give_up(desk);
        }
        done.ok()
    }

    fn give_up(&self, desk: &mut Desk) {
        self.is_gone.store(true, Ordering::SeqCst);
        // If it fails at that, too, those it did not name are told by the desk.
        let _ = catch_unwind(AssertUnwindSafe(|| desk.unload()));
        desk.give_up();
        self.is_broken.store(true, Ordering::SeqCst);
    }

    /// Whoever loads it failed outside of its steps, or cannot read its log.
    pub(super) fn fail(&self) {
        let woken = {
            let mut desk = self.desk.lock();
            self.give_up(&mut desk);
            desk.take_woken()
        };
        woken.into_iter().for_each(|waiter| waiter.bell.wake());
        self.tell_if_broken();
    }

    /// No lock is held.
    fn tell_if_broken(&self) {
        if self.is_broken.swap(false, Ordering::SeqCst)
            && let Some(owner) = self.owner.upgrade()
        {
            owner.renew(self);
        }
    }

    /// Tells the shard what is committed, if the bell rang and nobody holds the lock: who holds it looks afterwards.
    fn look_at_bell(&self) {
        while self.rang.load(Ordering::SeqCst) {
            let Some(mut desk) = self.desk.try_lock() else { return };
            self.rang.store(false, Ordering::SeqCst);
            let committed = self
                .partition
                .with(|partition| (partition.epoch() == self.epoch).then(|| partition.high_watermark()));
            if let Some(committed) = committed {
                let now = self.clock.now();
                self.attempt(&mut desk, |desk| {
                    desk.step(now, &mut Log(self), |shard, out| shard.on_committed(committed, out));
                });
            }
            let woken = desk.take_woken();
            drop(desk);
            woken.into_iter().for_each(|waiter| waiter.bell.wake());
            self.tell_if_broken();
        }
    }

    /// Has commits written that were gathered, once the other connections of this thread that have something to ask
    /// have had their turn: a task that is new is behind theirs.
    fn release_soon(&self) {
        let release = |cell: &Self| cell.at_desk(|desk, log| desk.release(cell.clock.now(), log));
        match (Handle::try_current(), self.me.upgrade()) {
            (Ok(runtime), Some(me)) => drop(runtime.spawn(async move { release(&me) })),
            _ => {
                release(self);
            }
        }
    }

    /// Its partition is led elsewhere, or in another epoch.
    pub(crate) fn unload(&self) {
        self.step(|_, shard, out| {
            self.is_gone.store(true, Ordering::SeqCst);
            shard.on_unload(out);
        });
    }

    pub(crate) fn forget_topics(&self, topics: &[Arc<Topic>]) {
        self.step(|now, shard, out| shard.on_topics_deleted(now, topics, out));
    }
}

impl HostedShard for ShardCell {
    fn ask(
        &self,
        (now, image): (Now, &Image),
        caller: Caller<'_>,
        request: Request<'_>,
        waiter: &Waiter,
    ) -> Asked {
        let asked = self.at_desk(|desk, log| {
            let had = desk.shard().gathered_since();
            let asked = desk.ask(now, (caller, waiter), request, image, log);
            (asked, had.is_none() && desk.shard().gathered_since().is_some())
        });
        let refused = || (Asked::Said(Response::refused(&request, ErrorCode::NotCoordinator)), false);
        let (asked, gathers) = asked.unwrap_or_else(refused);
        if gathers {
            self.release_soon();
        }
        asked
    }

    fn await_loaded(&self, waiter: &Waiter) -> bool {
        let is_loading = self.desk.lock().await_loaded(waiter);
        self.look_at_bell();
        is_loading
    }

    fn take(&self, ticket: Ticket) -> Option<Response> {
        let response = self.desk.lock().take(ticket);
        self.look_at_bell();
        response
    }

    fn leave(&self, ticket: Ticket) {
        let now = self.clock.now();
        self.at_desk(|desk, _| desk.leave(now, ticket));
    }

    fn disconnected(&self, connection: ConnectionId, of: (&str, &str)) {
        let now = self.clock.now();
        self.at_desk(|desk, _| desk.on_disconnected(now, connection, of));
    }
}

impl Wake for ShardCell {
    fn wake(&self) {
        self.rang.store(true, Ordering::SeqCst);
        self.look_at_bell();
    }
}

/// Where a shard writes.
struct Log<'a>(&'a ShardCell);

impl ShardLog for Log<'_> {
    fn append(&mut self, now: Now, records: &[Record]) -> Result<Offset, ErrorCode> {
        let waiter = self.0.waiter().ok_or(ErrorCode::NotLeaderOrFollower)?;
        write(self.0.partition.as_ref(), self.0.epoch, now, records, &waiter)
    }

    fn count(&mut self, count: Count) {
        tell(&count, &self.0.metrics.groups);
    }
}

fn tell(count: &Count, metrics: &GroupMetrics) {
    let number = |count: &usize| u64::try_from(*count).unwrap_or(u64::MAX);
    match count {
        Count::RebalanceBegan(cause) => metrics.rebalance_began(match cause {
            Cause::MemberJoined => "member_joined",
            Cause::MemberChanged => "member_changed",
            Cause::LeaderRejoined => "leader_rejoined",
            Cause::MemberLeft => "member_left",
            Cause::SessionExpired => "session_expired",
            Cause::SyncMissed => "sync_missed",
            Cause::WriteFailed => "write_failed",
            Cause::TopicsChanged => "topics_changed",
        }),
        Count::Rebalanced { members, took } => metrics.rebalanced(*members, *took),
        Count::Reconciled { took } => metrics.reconciled(*took),
        Count::MembersExpelled(members) => metrics.members_expelled.add(number(members)),
        Count::OffsetsCommitted(offsets) => metrics.offsets_committed.add(number(offsets)),
        Count::OffsetsExpired(offsets) => metrics.offsets_expired.add(number(offsets)),
        Count::OffsetsDeleted(offsets) => metrics.offsets_deleted.add(number(offsets)),
    }
}
