//! A shard of the group coordinator without an edge: nobody else steps it meanwhile.

use std::sync::Arc;
use std::time::Duration;

use base::{ErrorCode, LeaderEpoch, Now, Offset};
use coordinator::{Caller, ConnectionId, Count, Record, Request, Response, Shard, ShardSettings, Ticket};
use metadata::Image;
use parking_lot::Mutex;
use vltava_broker::groups::{Desk, ShardLog, write};
use vltava_broker::host::{Asked, HostedPartition, HostedShard};
use vltava_broker::parked::{Waiter, WaiterId, Wake};

use crate::world::{Bell, TestPartition};

/// See the module.
pub(crate) struct TestShard {
    desk: Mutex<Desk>,
    partition: Arc<TestPartition>,
    epoch: LeaderEpoch,
    bell: Arc<Bell>,
}

impl TestShard {
    /// One whose log is empty.
    pub(crate) fn new(now: Now, partition: Arc<TestPartition>) -> Arc<Self> {
        let shard = Shard::new(ShardSettings::default());
        let epoch = partition.act(|partition, _| partition.epoch());
        let made = Self { desk: Mutex::new(Desk::new(shard)), partition, epoch, bell: Arc::default() };
        made.begin_load(now);
        made.end_load(now);
        Arc::new(made)
    }

    /// What was appended is flushed, and so committed.
    pub(crate) fn commit(&self, now: Now) {
        self.partition.flush();
        if self.bell.rang() > 0 {
            let committed = self.partition.act(|partition, _| partition.high_watermark());
            self.step(|desk, log| {
                desk.step(now, log, |shard, out| shard.on_committed(committed, out));
            });
        }
    }

    /// Time went by, as far as the shard cares. What time it is then.
    pub(crate) fn wait(&self, now: Now, image: &Image) -> Now {
        let due = self.desk.lock().shard().deadline().expect("it waits for something");
        let now = Now::new(due.max(now.elapsed + Duration::from_millis(1)), now.wall);
        self.step(|desk, log| desk.step(now, log, |shard, out| shard.on_tick(now, image, out)));
        now
    }

    /// Its log, which has nothing in it, is to be read.
    pub(crate) fn begin_load(&self, now: Now) {
        self.step(|desk, log| desk.step(now, log, |shard, _| shard.on_load_begin()));
    }

    /// It is read.
    pub(crate) fn end_load(&self, now: Now) {
        self.step(|desk, log| {
            let nothing = (Offset::ZERO, Offset::ZERO);
            desk.step(now, log, |shard, out| shard.on_loaded(now, nothing, &Image::default(), out));
        });
    }

    /// Another broker leads the partition.
    pub(crate) fn unload(&self, now: Now) {
        self.step(|desk, log| desk.step(now, log, |shard, out| shard.on_unload(out)));
    }

    fn step<R>(&self, act: impl FnOnce(&mut Desk, &mut dyn ShardLog) -> R) -> R {
        let mut desk = self.desk.lock();
        let result = act(&mut desk, &mut Log(self));
        let woken = desk.take_woken();
        drop(desk);
        woken.into_iter().for_each(|waiter| waiter.bell.wake());
        result
    }
}

impl HostedShard for TestShard {
    fn ask(
        &self,
        (now, image): (Now, &Image),
        caller: Caller<'_>,
        request: Request<'_>,
        waiter: &Waiter,
    ) -> Asked {
        self.step(|desk, log| {
            let asked = desk.ask(now, (caller, waiter), request, image, log);
            desk.release(now, log);
            asked
        })
    }

    fn await_loaded(&self, waiter: &Waiter) -> bool {
        self.desk.lock().await_loaded(waiter)
    }

    fn take(&self, ticket: Ticket) -> Option<Response> {
        self.desk.lock().take(ticket)
    }

    fn leave(&self, ticket: Ticket) {
        let now = Now::new(Duration::ZERO, base::TimestampMs(0));
        self.step(|desk, _| desk.leave(now, ticket));
    }

    fn disconnected(&self, connection: ConnectionId, of: (&str, &str)) {
        let now = Now::new(Duration::ZERO, base::TimestampMs(0));
        self.step(|desk, _| desk.on_disconnected(now, connection, of));
    }
}

struct Log<'a>(&'a TestShard);

impl ShardLog for Log<'_> {
    fn append(&mut self, now: Now, records: &[Record]) -> Result<Offset, ErrorCode> {
        let waiter = Waiter { id: WaiterId(0), bell: Arc::clone(&self.0.bell) as Arc<dyn Wake> };
        write(self.0.partition.as_ref() as &dyn HostedPartition, self.0.epoch, now, records, &waiter)
    }

    fn count(&mut self, _: Count) {}
}
