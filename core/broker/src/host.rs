//! What the edge gives to a request: the partitions of this broker, its directories and numbers.
//!
//! These are the broker's doors. The edge stands behind them with locks, disks and threads, a test
//! with plain values.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use base::{Effects, Now, Offset, PartitionIndex, ProducerId, TopicId, TopicPartition};
use coordinator::{Caller, ConnectionId, Request, Response, Ticket};
use metadata::Image;
use metadata::settings::TopicSettings;
use replica::{AlterIsr, Partition};
use storage::LookupError;
use storage::disk::DiskError;

use crate::fetch_session::FetchSessionRoom;
use crate::parked::{Parked, Waiter};
use crate::replication::Throttle;

/// The node that a request reached.
pub trait Host: Send + Sync {
    /// A partition that lives here; `None` if it does not, or not any more.
    fn partition(&self, topic: TopicId, partition: PartitionIndex) -> Option<Arc<dyn HostedPartition>>;
    /// Whether a partition of which this node has a replica cannot be served: its log is missing, or its
    /// disk failed.
    fn is_offline(&self, topic: TopicId, partition: PartitionIndex) -> bool;
    /// The log directories, in the order of the settings.
    fn log_dirs(&self) -> Vec<LogDir>;
    /// The next producer id of the block this broker holds; `None` when the block is used up.
    fn producer_id(&self) -> Option<ProducerId>;
    /// Adds a block of producer ids which the controller gave to this broker.
    fn add_producer_ids(&self, block: Range<i64>);
    /// Until when nobody else can have been made to lead what the metadata say this broker leads, since a controller was
    /// heard; see [`crate::lifecycle::Lifecycle::in_touch_until`]. A process that was stopped for a while does not know
    /// of its successors.
    fn in_touch_until(&self) -> Duration;
    /// Whether that is still to come.
    fn is_in_touch(&self, now: Now) -> bool {
        now.elapsed < self.in_touch_until()
    }
    /// The room for fetch sessions.
    fn fetch_sessions(&self) -> &dyn FetchSessionRoom;
    /// 128 bits that nobody can guess, for ids.
    fn random(&self) -> u128;
    /// The shard of the group coordinator that is this partition of `__consumer_offsets`; `None` if another broker
    /// leads it.
    fn shard(&self, partition: PartitionIndex) -> Option<Arc<dyn HostedShard>>;
    /// Every shard of the group coordinator on this broker.
    fn shards(&self) -> Vec<Arc<dyn HostedShard>>;
    /// Does something with the limit of what this broker gives away to replicas that lack something, if there
    /// is one.
    fn leader_throttle(&self, act: &mut dyn FnMut(&mut Throttle));
}

/// A partition of this broker, behind whatever keeps two threads apart.
pub trait HostedPartition: Send + Sync {
    /// The settings of its topic in force.
    fn settings(&self) -> Arc<TopicSettings>;
    /// Runs `act` on the partition alone, then performs the effects. Not to be called from within `act`.
    fn step(&self, act: &mut dyn FnMut(&mut Hosted, &mut Effects<Effect>));
    /// As [`HostedPartition::step`], for an append: how long it takes is worth knowing.
    fn append_step(&self, act: &mut dyn FnMut(&mut Hosted, &mut Effects<Effect>));
    /// Whether the disk has room for more records.
    fn has_room(&self) -> bool;
    /// Has the start of the log made durable soon; then [`Hosted::on_start_saved`] is told.
    fn save_start(&self);
}

/// A shard of the group coordinator on this broker, behind whatever keeps two threads apart.
pub trait HostedShard: Send + Sync {
    /// Asks it, at a time and in a cluster as it is then. Who has to wait is woken once there is an answer.
    fn ask(&self, at: (Now, &Image), caller: Caller<'_>, request: Request<'_>, waiter: &Waiter) -> Asked;
    /// Whether its log is being read. If so, the waiter is woken when that has come to an end, whatever the end is.
    fn await_loaded(&self, waiter: &Waiter) -> bool;
    /// The answer to what was asked, if it is there; it is given once.
    fn take(&self, ticket: Ticket) -> Option<Response>;
    /// Who asked is gone.
    fn leave(&self, ticket: Ticket);
    /// A connection over which a member spoke, of a group, was closed by its other end.
    fn disconnected(&self, connection: ConnectionId, of: (&str, &str));
}

/// What became of a question to a shard.
#[derive(Debug)]
pub enum Asked {
    /// It is answered.
    Said(Response),
    /// The answer comes later, under this number; about how many bytes it takes, if it is made already.
    Waits(Ticket, usize),
}

/// A partition and those who wait for it.
#[derive(Debug)]
pub struct Hosted {
    /// The log and how far it is committed.
    pub partition: Partition,
    /// Who waits for it.
    pub parked: Parked,
}

/// What the edge has to do after a step, outside the lock.
#[derive(Debug)]
pub enum Effect {
    /// Sync the log and tell it: see [`replica::Partition::flush_plan`].
    Flush,
    /// Count a batch that was appended, or was there already.
    Appended {
        /// How many records it has.
        records: u32,
        /// How many bytes.
        bytes: usize,
        /// Whether it was there already.
        duplicate: bool,
    },
    /// Tell a connection to look again.
    Wake(Waiter),
    /// Ask the controller for another in-sync set: see [`replica::Effect::AlterIsr`].
    AlterIsr(AlterIsr),
    /// What to ask the leader for may be something else now.
    FetchOn,
    /// Have the start of the log made durable soon; then tell [`Hosted::on_start_saved`].
    SaveStart,
    /// Lower the recovery point, then cut the log: see [`replica::Effect::LowerRecoveryPoint`].
    LowerRecoveryPoint(Offset),
    /// Tell that the end of the log was cut off: see [`replica::Effect::Truncated`].
    Truncated {
        /// Where the log ended.
        from: Offset,
        /// Where it ends.
        to: Offset,
        /// Up to where it was committed.
        committed: Offset,
    },
    /// The directory of the partition failed: give it up for good.
    Retire(DiskError),
    /// The partition alone failed: it takes no more writes.
    Offline(DiskError),
    /// The disk did not do what was asked, but nothing was changed.
    Refused(DiskError),
    /// Have stored records looked at: see [`replica::Effect::Suspect`].
    Suspect(Offset),
    /// Stored records are damaged: the partition alone is given up.
    Damaged(LookupError),
}

impl Hosted {
    /// A partition for which nobody waits, as it was opened.
    pub fn new(partition: Partition) -> Self {
        Self { partition, parked: Parked::default() }
    }

    /// See [`Partition::on_start_saved`].
    pub fn on_start_saved(&mut self, start: Offset, out: &mut Effects<Effect>) {
        self.with(out, |partition, out| partition.on_start_saved(start, out));
    }

    /// Up to where records that were deleted on request do not come back: not here, whatever happens, and not with
    /// another leader.
    pub fn deleted_upto(&self) -> Offset {
        self.partition.start_saved().min(self.partition.low_watermark())
    }

    fn wake_deletions(&mut self, out: &mut Effects<Effect>) {
        if self.parked.awaits_start() {
            let upto = self.deleted_upto();
            self.parked.deleted(upto, |waiter| out.push(Effect::Wake(waiter)));
        }
    }

    /// Runs a step of the partition and turns its effects into those of this broker.
    pub fn with<R>(
        &mut self,
        out: &mut Effects<Effect>,
        step: impl FnOnce(&mut Partition, &mut Effects<replica::Effect>) -> R,
    ) -> R {
        let mut effects = Effects::new();
        let result = step(&mut self.partition, &mut effects);
        for effect in effects.drain() {
            match effect {
                replica::Effect::Flush => out.push(Effect::Flush),
                replica::Effect::Appended { records, bytes, duplicate } => {
                    out.push(Effect::Appended { records, bytes, duplicate });
                }
                replica::Effect::Committed(high_watermark) => {
                    self.parked.committed(high_watermark, |waiter| out.push(Effect::Wake(waiter)));
                }
                replica::Effect::Grown(_) | replica::Effect::Deleted => {
                    self.parked.grown(|waiter| out.push(Effect::Wake(waiter)))
                }
                replica::Effect::RoleChanged => self.parked.gone(|waiter| out.push(Effect::Wake(waiter))),
                replica::Effect::AlterIsr(proposal) => out.push(Effect::AlterIsr(proposal)),
                replica::Effect::FetchOn => out.push(Effect::FetchOn),
                replica::Effect::SaveStart => out.push(Effect::SaveStart),
                replica::Effect::LowerRecoveryPoint(upto) => out.push(Effect::LowerRecoveryPoint(upto)),
                replica::Effect::Truncated { from, to, committed } => {
                    out.push(Effect::Truncated { from, to, committed });
                }
                replica::Effect::Retire(error) => {
                    self.parked.gone(|waiter| out.push(Effect::Wake(waiter)));
                    out.push(Effect::Retire(error));
                }
                replica::Effect::Offline(error) => {
                    self.parked.gone(|waiter| out.push(Effect::Wake(waiter)));
                    out.push(Effect::Offline(error));
                }
                replica::Effect::Refused(error) => out.push(Effect::Refused(error)),
                replica::Effect::Suspect(at) => out.push(Effect::Suspect(at)),
                replica::Effect::Damaged(why) => {
                    self.parked.gone(|waiter| out.push(Effect::Wake(waiter)));
                    out.push(Effect::Damaged(why));
                }
            }
        }
        self.wake_deletions(out);
        result
    }
}

/// A log directory as DescribeLogDirs shows it.
#[derive(Clone, Debug)]
pub struct LogDir {
    /// Its path.
    pub path: String,
    /// Whether it was given up after an error.
    pub failed: bool,
    /// Size of its file system in bytes, if known.
    pub bytes_total: Option<u64>,
    /// What is free of it, if known.
    pub bytes_usable: Option<u64>,
    /// The replicas in it.
    pub replicas: Vec<LogDirReplica>,
}

/// A replica in a log directory as DescribeLogDirs shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogDirReplica {
    /// Its partition.
    pub name: TopicPartition,
    /// The size of its log in bytes.
    pub bytes: u64,
    /// How many committed records it lacks, as far as it knows.
    pub lag: u64,
}
