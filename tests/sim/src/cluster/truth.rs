//! What is true of a run, whoever knows it: what was committed, who led, and what each replica looked like
//! when it was last seen.

use std::collections::{BTreeMap, BTreeSet};

use base::{BrokerId, LeaderEpoch, Offset};
use metadata::settings::FlushPolicy;
use metadata::{Image, Partition};
use records::Scratch;
use storage::Log;

use super::groups::Groups;
use super::keyed::{KeyedRecord, keyed};
use super::process::PartitionKey;
use super::process::cell::View;
use super::quorum::{broker, node_of};
use crate::trace::hash;
use crate::world::World as LogWorld;

/// A batch that was committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) base: Offset,
    pub(crate) next: Offset,
    pub(crate) epoch: LeaderEpoch,
    /// Of all its bytes.
    pub(crate) hash: u64,
    /// What its records say.
    pub(crate) values: Vec<u64>,
    /// The records themselves, of a log that is compacted.
    pub(crate) records: Vec<KeyedRecord>,
}

/// A leadership of a partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reign {
    pub(crate) node: usize,
    pub(crate) life: u32,
    /// Where the log of the leader ended when it began.
    pub(crate) start: Offset,
}

/// What was committed of one partition, and what may be claimed of it.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) name: String,
    /// The weakest that it was asked to be set to.
    pub(crate) policy: FlushPolicy,
    /// The least that was asked for.
    pub(crate) isr_min: usize,
    /// The most.
    pub(crate) isr_min_most: usize,
    /// Whether of each key only the last record needs to be there.
    pub(crate) compacts: bool,
    /// Where the last record of each key is, if it is compacted.
    pub(crate) last_of: BTreeMap<Vec<u8>, Offset>,
    pub(crate) batches: Vec<Stored>,
    pub(crate) end: Offset,
    /// Up to where `isr_min` disks had the log at once at some time; those count that were replaced since.
    pub(crate) on_disks: Offset,
    /// How far nodes had it on disks that were replaced, and not since on others.
    pub(crate) on_replaced: BTreeMap<usize, Offset>,
    pub(crate) reigns: BTreeMap<LeaderEpoch, Reign>,
    /// Up to where somebody asked for records to be deleted.
    pub(crate) deletes_asked: Offset,
    /// Up to where they are, as somebody was told.
    pub(crate) deleted: Offset,
    /// Nodes that were counted on and cannot vouch for what they have, where not only what is durable counts:
    /// they ended without order or gave its log directory up, and did not come to be in sync since. And those
    /// that lost their disks.
    pub(crate) doubtful: BTreeSet<usize>,
    /// Those of them that lost something.
    pub(crate) robbed: BTreeSet<usize>,
    /// Nodes that were counted on until they could not reach the directory of their replica, since last there were
    /// enough in sync.
    pub(crate) given_up: BTreeSet<usize>,
    /// More nodes failed than the settings allow for, nobody was left who could vouch for all of it, and data
    /// were lost: nothing is claimed any more.
    pub(crate) is_broken: bool,
}

/// A replica as it was last seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replica {
    pub(crate) life: u32,
    pub(crate) is_up: bool,
    /// What its machine lost with the power is still in here.
    pub(crate) view: View,
    /// Up to where it is known to have what was committed.
    pub(crate) verified: Offset,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    InOrder,
    Killed,
    PowerCut,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) histories: BTreeMap<PartitionKey, History>,
    pub(crate) replicas: BTreeMap<(PartitionKey, usize), Replica>,
    /// What the logs of groups say.
    pub(crate) groups: Groups,
    /// Lives of nodes that ended in an orderly way, as far as they could know.
    pub(crate) orderly: BTreeSet<(usize, u32)>,
}

impl History {
    pub(crate) fn new(name: String, policy: FlushPolicy, isr_min: usize) -> Self {
        Self {
            name,
            policy,
            isr_min,
            isr_min_most: isr_min,
            compacts: false,
            last_of: BTreeMap::new(),
            batches: Vec::new(),
            end: Offset::ZERO,
            on_disks: Offset::ZERO,
            on_replaced: BTreeMap::new(),
            reigns: BTreeMap::new(),
            deletes_asked: Offset::ZERO,
            deleted: Offset::ZERO,
            doubtful: BTreeSet::new(),
            robbed: BTreeSet::new(),
            given_up: BTreeSet::new(),
            is_broken: false,
        }
    }

    /// Somebody asks for other settings. When they hold for whom nobody can tell: no more is claimed from here on
    /// than the weakest promise.
    pub(crate) fn weaken(&mut self, policy: FlushPolicy, isr_min: usize) {
        self.isr_min = self.isr_min.min(isr_min);
        if policy != FlushPolicy::Ack {
            self.policy = policy;
        }
    }

    /// Whether nobody is known to lead since a later epoch.
    pub(crate) fn is_latest(&self, epoch: LeaderEpoch) -> bool {
        self.reigns.last_key_value().is_none_or(|(last, _)| *last <= epoch)
    }

    /// Whether what was acknowledged is on a second disk, whatever else happens.
    pub(crate) fn outlives_a_disk(&self) -> bool {
        self.isr_min > 1 && self.counts_durable()
    }

    /// Whether only what is durable counts.
    pub(crate) fn counts_durable(&self) -> bool {
        self.policy == FlushPolicy::Ack
    }

    /// Up to where a replica has the log, as far as that counts.
    pub(crate) fn counted(&self, view: &View) -> Offset {
        if self.counts_durable() { view.durable } else { view.end }
    }

    /// A node cannot vouch for its replica from here on. It matters if it was counted on.
    pub(crate) fn doubt(&mut self, node: usize, has_lost: bool, decided: Option<&Partition>) {
        let Some(decided) = decided.filter(|_| !self.counts_durable()) else { return };
        if self.doubtful.contains(&node) || counted_on(decided).any(|at| at == node) {
            self.doubtful.insert(node);
            self.robbed.extend(has_lost.then_some(node));
            self.judge(decided);
        }
    }

    /// All that a node had is gone.
    fn on_replica_lost(&mut self, node: usize, replica: &Replica) {
        self.on_replaced.insert(node, replica.view.durable);
        if self.counts_durable() {
            // It had what it said that it had, and may be about to be in sync, or not known yet to be it no more.
            self.doubtful.insert(node);
        }
    }

    /// Notes who is counted on no more because it cannot reach the directory of its replica.
    pub(crate) fn on_given_up(&mut self, was: &Partition, is: &Partition, image: &Image) {
        let is_counted: BTreeSet<usize> = counted_on(is).collect();
        let left = counted_on(was).filter(|node| !is_counted.contains(node));
        // Who is no replica any more had its directory before.
        let is_reached = |node| [was, is].iter().all(|it| is_reached(it, broker(node), image));
        self.given_up.extend(left.filter(|node| !is_reached(*node)));
        self.given_up.retain(|node| !is_counted.contains(node));
        if is.isr.len() >= self.isr_min_most {
            self.given_up.clear();
        }
    }

    /// Whether nobody will ever lead it who had all of it, unless somebody asks for that: as many disks failed as
    /// the settings allow for, at the least, and the last who led cannot reach its own. What is durable may still
    /// be there, but nodes that come back do not know.
    pub(crate) fn is_orphaned(&self, decided: &Partition, image: &Image) -> bool {
        let last = decided.last_known_eligible();
        counted_on(decided).next().is_none()
            && !last.is_empty()
            && !last.iter().any(|id| is_reached(decided, *id, image))
            && self.given_up.len() >= self.isr_min
    }

    /// Looks whether anybody is left who can vouch for all of it. As many as `min.insync.replicas` have it,
    /// and may be fewer than are in sync by the time the last of them fails.
    pub(crate) fn judge(&mut self, decided: &Partition) {
        let has_nobody = counted_on(decided).all(|node| self.doubtful.contains(&node));
        // Processes that are killed lose nothing: without a power cut nothing may be lost at all.
        self.is_broken |= has_nobody && self.doubtful.len() >= self.isr_min && !self.robbed.is_empty();
    }

    /// The value of a record that was committed.
    pub(crate) fn value_at(&self, offset: Offset) -> Option<u64> {
        let place = self.batches.partition_point(|batch| batch.next <= offset);
        let batch = self.batches.get(place)?;
        batch.values.get(usize::try_from(offset.0 - batch.base.0).ok()?).copied()
    }

    /// Where the first batch begins of which nothing lies before an offset.
    pub(crate) fn first_whole(&self, offset: Offset) -> Offset {
        self.from(offset).first().map_or(self.end.max(offset), |batch| batch.base)
    }

    /// The batches from an offset on at which one begins.
    pub(crate) fn from(&self, offset: Offset) -> &[Stored] {
        &self.batches[self.batches.partition_point(|batch| batch.base < offset)..]
    }

    /// Whether another record of its key is committed behind it.
    pub(crate) fn is_replaced(&self, record: &KeyedRecord) -> bool {
        self.last_of.get(&record.key).is_some_and(|last| *last > record.offset)
    }

    pub(crate) fn extend(&mut self, batch: Stored) {
        self.last_of.extend(batch.records.iter().map(|record| (record.key.clone(), record.offset)));
        self.end = batch.next;
        self.batches.push(batch);
    }

    /// Where each epoch begins among what is committed before an offset.
    pub(crate) fn epochs_before(&self, upto: Offset) -> Vec<(LeaderEpoch, Offset)> {
        let mut epochs: Vec<(LeaderEpoch, Offset)> = Vec::new();
        for batch in self.batches.iter().take_while(|batch| batch.base < upto) {
            if epochs.last().is_none_or(|(epoch, _)| *epoch != batch.epoch) {
                epochs.push((batch.epoch, batch.base));
            }
        }
        epochs
    }
}

/// Those who have all that was committed, as far as the metadata know.
fn counted_on(decided: &Partition) -> impl Iterator<Item = usize> {
    decided.isr.iter().chain(decided.eligible()).map(|id| node_of(*id))
}

/// Whether a broker has the directory in which its replica of a partition is.
fn is_reached(partition: &Partition, id: BrokerId, image: &Image) -> bool {
    let directory = partition.directory_of(id).filter(|id| *id != Partition::DIRECTORY_UNASSIGNED);
    directory.zip(image.broker(id)).is_none_or(|(directory, broker)| broker.log_dirs.contains(&directory))
}

impl Truth {
    /// The replicas of a partition, by node.
    pub(crate) fn replicas_of(&self, key: PartitionKey) -> impl Iterator<Item = (usize, &Replica)> {
        self.replicas.range((key, 0)..=(key, usize::MAX)).map(|((_, node), replica)| (*node, replica))
    }

    /// These have a partition now: what others may lack does not matter any more, but that they gave up does, if nobody
    /// took their place.
    pub(crate) fn on_replicas(&mut self, key: PartitionKey, replicas: &[BrokerId]) {
        let Some(history) = self.histories.get_mut(&key) else { return };
        history.doubtful.retain(|node| replicas.contains(&broker(*node)));
        history.robbed.retain(|node| replicas.contains(&broker(*node)));
    }

    /// All that a node had is gone.
    pub(crate) fn on_disk_replaced(&mut self, node: usize, image: &Image) {
        for (key, history) in &mut self.histories {
            let Some(replica) = self.replicas.remove(&(*key, node)) else { continue };
            history.on_replica_lost(node, &replica);
            history.doubt(node, true, image.partition(key.0, key.1).map(|it| &**it));
        }
    }

    /// A replica that was damaged begins with an empty log.
    pub(crate) fn on_begun_anew(&mut self, node: usize, key: PartitionKey) {
        let known = self.replicas.remove(&(key, node));
        if let (Some(known), Some(history)) = (known, self.histories.get_mut(&key)) {
            history.on_replica_lost(node, &known);
        }
    }

    /// A process has ended.
    pub(crate) fn on_down(&mut self, node: usize, how: How, image: &Image) {
        for ((key, at), replica) in &mut self.replicas {
            if *at != node {
                continue;
            }
            replica.is_up = false;
            let has_lost = how == How::PowerCut && replica.view.durable < replica.view.end;
            if let Some(history) = self.histories.get_mut(key).filter(|_| how != How::InOrder) {
                history.doubt(node, has_lost, image.partition(key.0, key.1).map(|it| &**it));
            }
        }
    }
}

/// Reads what a log has between two offsets.
pub(crate) fn read(log: &Log, from: Offset, upto: Offset, is_keyed: bool) -> Result<Vec<Stored>, String> {
    let (mut next, mut bytes) = (from, Vec::new());
    while next < upto {
        let plan = log.plan_read(next, upto, 1 << 20, true).map_err(|error| error.to_string())?;
        if plan.next <= next {
            return Err(format!("nothing can be read at {next}, and it ends at {}", log.end()));
        }
        bytes.extend(LogWorld::fetch(&plan).map_err(|error| error.to_string())?);
        next = plan.next;
    }
    let mut scratch = Scratch::default();
    let stored = records::batches(&bytes).map(|batch| {
        let batch = batch.map_err(|error| error.to_string())?;
        let keyed = if is_keyed { keyed(&batch, &mut scratch)? } else { Vec::new() };
        let values = match is_keyed {
            true => keyed.iter().map(|record| hash(0, &record.key)).collect(),
            false => {
                let records = batch.records(&mut scratch).map_err(|error| error.to_string())?;
                let values = records.map(|record| value_of(record.map_err(|error| error.to_string())?.value));
                values.collect::<Result<Vec<u64>, String>>()?
            }
        };
        Ok(Stored {
            base: batch.base_offset(),
            next: batch.next_offset(),
            epoch: batch.leader_epoch(),
            hash: hash(0, batch.bytes()),
            values,
            records: keyed,
        })
    });
    stored.collect()
}

/// The number that a record's value begins with.
pub(crate) fn value_of(value: Option<&[u8]>) -> Result<u64, String> {
    let number = value.and_then(|value| value.first_chunk());
    number.map(|number| u64::from_be_bytes(*number)).ok_or_else(|| "a record without its number".to_owned())
}
