//! A shard of the group coordinator, and how it writes and waits.

use std::sync::{Arc, Mutex};

use base::{Effects, ErrorCode, LeaderEpoch, Now, Offset, PartitionIndex};
use broker::groups::{Desk, ShardLog, write};
use broker::host::{Asked, HostedShard};
use broker::parked::{Waiter, WaiterId, Wake};
use coordinator::{
    Caller, ConnectionId, Count, Effect, Record, Request, Response, Shard, ShardSettings, Ticket,
};
use metadata::Image;

use super::cell::{Cell, Outbox, lock};

/// Shards wait for their partitions under this number; connections begin with 1.
const WAITER: WaiterId = WaiterId(0);

/// A shard, for as long as its node leads its partition in one epoch.
pub(crate) struct ShardCell {
    pub(crate) cell: Arc<Cell>,
    pub(crate) epoch: LeaderEpoch,
    desk: Mutex<Desk>,
    clock: Arc<Mutex<Now>>,
    outbox: Arc<Outbox>,
}

struct Bell {
    shard: PartitionIndex,
    outbox: Arc<Outbox>,
}

impl Wake for Bell {
    fn wake(&self) {
        self.outbox.ring(self.shard);
    }
}

impl ShardCell {
    pub(super) fn new(
        cell: Arc<Cell>,
        epoch: LeaderEpoch,
        settings: ShardSettings,
        clock: &Arc<Mutex<Now>>,
        outbox: &Arc<Outbox>,
    ) -> Arc<Self> {
        let mut shard = Shard::new(settings);
        shard.on_load_begin();
        let (desk, clock) = (Mutex::new(Desk::new(shard)), Arc::clone(clock));
        Arc::new(Self { cell, epoch, desk, clock, outbox: Arc::clone(outbox) })
    }

    pub(crate) fn index(&self) -> PartitionIndex {
        self.cell.key.1
    }

    pub(super) fn waiter(&self) -> Waiter {
        let bell = Bell { shard: self.index(), outbox: Arc::clone(&self.outbox) };
        Waiter { id: WAITER, bell: Arc::new(bell) }
    }

    /// Looks at the shard.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&Shard) -> R) -> R {
        look(lock(&self.desk).shard())
    }

    pub(super) fn step(&self, now: Now, act: impl FnOnce(&mut Shard, &mut Effects<Effect>)) {
        self.at_desk(|desk, log| desk.step(now, log, act));
    }

    /// Does something at the desk, and wakes those whose answers came.
    fn at_desk<R>(&self, act: impl FnOnce(&mut Desk, &mut dyn ShardLog) -> R) -> R {
        let mut desk = lock(&self.desk);
        let result = act(&mut desk, &mut Log(self));
        let woken = desk.take_woken();
        drop(desk);
        woken.into_iter().for_each(|waiter| waiter.bell.wake());
        result
    }

    /// Whether its node still leads the partition as it did when the shard was taken up, as far as it knows.
    pub(crate) fn is_led(&self) -> bool {
        self.cell.with(|partition| partition.is_leader() && partition.epoch() == self.epoch)
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
        self.at_desk(|desk, log| desk.ask(now, (caller, waiter), request, image, log))
    }

    fn await_loaded(&self, waiter: &Waiter) -> bool {
        lock(&self.desk).await_loaded(waiter)
    }

    fn take(&self, ticket: Ticket) -> Option<Response> {
        lock(&self.desk).take(ticket)
    }

    fn leave(&self, ticket: Ticket) {
        let now = *lock(&self.clock);
        self.at_desk(|desk, _| desk.leave(now, ticket));
    }

    fn disconnected(&self, connection: ConnectionId, of: (&str, &str)) {
        let now = *lock(&self.clock);
        self.at_desk(|desk, _| desk.on_disconnected(now, connection, of));
    }
}

/// Where a shard writes.
struct Log<'a>(&'a ShardCell);

impl ShardLog for Log<'_> {
    fn append(&mut self, now: Now, records: &[Record]) -> Result<Offset, ErrorCode> {
        write(&*self.0.cell, self.0.epoch, now, records, &self.0.waiter())
    }

    fn count(&mut self, count: Count) {
        self.0.outbox.count(self.0.index(), count);
    }
}
