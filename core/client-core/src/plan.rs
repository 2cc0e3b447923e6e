//! Where replicas should be: plans, made of what a cluster says of itself.
//!
//! ```text
//!   brokers, partitions ─┬─ drain      off these brokers, onto the others
//!                        ├─ evacuate   the same, as far as there is room
//!                        ├─ rebalance  as many replicas and leaderships on each
//!                        └─ resize     more or fewer replicas of a topic
//!                                        └─▶ moves, which AlterPartitionReassignments carries out,
//!                                            as fast as `limits` lets them
//! ```
//! A new replica goes where the partition has none in the same rack if it can, then where there are the fewest
//! replicas, then the fewest bytes; and only where its bytes have room.
//!
//! **Invariant:** a plan names brokers that are up for what is new, never leaves a partition with fewer racks
//! than it had where it need not, and is the same whenever it is made of the same.

pub mod limits; // how fast moves may copy

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use base::{BrokerId, PartitionIndex};

/// A broker, as far as a plan must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: BrokerId,
    /// The rack it says it is in.
    pub rack: Option<String>,
    /// Whether replicas can be moved to it.
    pub is_up: bool,
    /// How many bytes of its disks are free, if it says so.
    pub bytes_usable: Option<u64>,
}

/// A partition and who has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its topic.
    pub topic: String,
    /// Which of the topic's partitions.
    pub partition: PartitionIndex,
    /// Who has a replica, the preferred leader first.
    pub replicas: Vec<BrokerId>,
    /// The size of one replica in bytes.
    pub bytes: u64,
}

/// A partition that is to have other replicas, or another preferred leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Its topic.
    pub topic: String,
    /// Which of the topic's partitions.
    pub partition: PartitionIndex,
    /// Who has a replica, the preferred leader first.
    pub from: Vec<BrokerId>,
    /// Who shall have one, the preferred leader first.
    pub to: Vec<BrokerId>,
    /// The size of one replica in bytes.
    pub bytes: u64,
}

impl Move {
    /// Who gets a copy.
    pub fn copies(&self) -> impl Iterator<Item = BrokerId> {
        self.to.iter().copied().filter(|id| !self.from.contains(id))
    }
}

/// Why there is no such plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The cluster names no such broker.
    #[error("the cluster has no broker {0}")]
    UnknownBroker(BrokerId),
    /// A partition has nowhere to go.
    #[error(
        "{topic}-{partition} has nowhere to go: {wanted} replicas of it need as many brokers that are up and have \
         room for {bytes} bytes"
    )]
    Nowhere {
        /// Its topic.
        topic: String,
        /// The partition.
        partition: PartitionIndex,
        /// How many replicas it shall have.
        wanted: usize,
        /// The size of one in bytes.
        bytes: u64,
    },
    /// A partition without replicas would be gone.
    #[error("a topic has one replica of each partition at least")]
    NoReplicas,
}

/// How many bytes each broker gets, of those that get any.
pub fn incoming(moves: &[Move]) -> BTreeMap<BrokerId, u64> {
    let mut incoming = BTreeMap::new();
    for one in moves {
        one.copies().for_each(|id| *incoming.entry(id).or_insert(0) += one.bytes);
    }
    incoming
}

/// Takes all replicas off these brokers.
pub fn drain(nodes: &[Node], placed: &[Placed], leaving: &[BrokerId]) -> Result<Vec<Move>, PlanError> {
    if let Some(id) = leaving.iter().find(|id| !nodes.iter().any(|node| node.id == **id)) {
        return Err(PlanError::UnknownBroker(*id));
    }
    let Evacuation { moves, stays } = evacuate(nodes, placed, leaving);
    match stays.first() {
        Some(one) => Err(one.nowhere(one.replicas.len())),
        None => Ok(moves),
    }
}

/// What becomes of replicas that are to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evacuation {
    /// Partitions whose replicas go elsewhere.
    pub moves: Vec<Move>,
    /// Partitions that keep a replica where it is, for there is nowhere else.
    pub stays: Vec<Placed>,
}

/// Takes off these brokers what has somewhere to go. They need not be known any more.
pub fn evacuate(nodes: &[Node], placed: &[Placed], leaving: &[BrokerId]) -> Evacuation {
    let mut draft = Draft::new(nodes, placed);
    leaving.iter().for_each(|id| draft.close(*id));
    let (mut moves, mut stays) = (Vec::new(), Vec::new());
    for one in placed {
        let mut to = one.replicas.clone();
        for place in 0..to.len() {
            if leaving.contains(&to[place]) {
                let others: Vec<BrokerId> = others(&to, place);
                let Ok(id) = draft.add(one, &others, one.replicas.len()) else { continue };
                to[place] = id;
                draft.take(one, one.replicas[place]);
            }
        }
        if to.iter().any(|id| leaving.contains(id)) {
            stays.push(one.clone());
        }
        if to != one.replicas {
            moves.push(one.to(to));
        }
    }
    Evacuation { moves, stays }
}

/// Gives each partition of a topic so many replicas. Those that go are the last ones; before them those in whose rack
/// there is another one, and first of all those on brokers that are not up.
pub fn resize(
    nodes: &[Node],
    placed: &[Placed],
    topic: &str,
    replicas: usize,
) -> Result<Vec<Move>, PlanError> {
    if replicas == 0 {
        return Err(PlanError::NoReplicas);
    }
    let mut draft = Draft::new(nodes, placed);
    let mut moves = Vec::new();
    for one in placed.iter().filter(|one| one.topic == topic && one.replicas.len() != replicas) {
        let mut to = one.replicas.clone();
        while to.len() > replicas {
            let gone = to.remove(draft.least_needed(&to));
            draft.take(one, gone);
        }
        while to.len() < replicas {
            let id = draft.add(one, &to, replicas)?;
            to.push(id);
        }
        moves.push(one.to(to));
    }
    Ok(moves)
}

/// Moves as little as makes the brokers that are up have as many replicas each, give or take one, and be the
/// preferred leaders of as many partitions.
pub fn rebalance(nodes: &[Node], placed: &[Placed]) -> Vec<Move> {
    let mut draft = Draft::new(nodes, placed);
    let mut replicas: Vec<Vec<BrokerId>> = placed.iter().map(|one| one.replicas.clone()).collect();
    spread(&mut draft, placed, &mut replicas);
    share_leaders(&draft, &mut replicas);
    let changed = placed.iter().zip(replicas).filter(|(one, to)| one.replicas != *to);
    changed.map(|(one, to)| one.to(to)).collect()
}

/// Takes replicas from the broker that has most, the smallest first, until nobody has two more than another.
fn spread(draft: &mut Draft<'_>, placed: &[Placed], replicas: &mut [Vec<BrokerId>]) {
    let mut at: BTreeMap<BrokerId, BTreeSet<(u64, usize)>> = BTreeMap::new();
    for (place, one) in placed.iter().enumerate() {
        for id in &one.replicas {
            at.entry(*id).or_default().insert((one.bytes, place));
        }
    }
    while let Some((giver, taker, place)) = next_step(draft, &at, (placed, replicas)) {
        let one = &placed[place];
        for id in replicas[place].iter_mut().filter(|id| **id == giver) {
            *id = taker;
        }
        draft.take(one, giver);
        draft.put(one, taker);
        at.entry(giver).or_default().remove(&(one.bytes, place));
        at.entry(taker).or_default().insert((one.bytes, place));
    }
}

/// Who gives what to whom.
fn next_step(
    draft: &Draft<'_>,
    at: &BTreeMap<BrokerId, BTreeSet<(u64, usize)>>,
    (placed, replicas): (&[Placed], &[Vec<BrokerId>]),
) -> Option<(BrokerId, BrokerId, usize)> {
    let mut by_load: Vec<(usize, BrokerId)> = draft.open().map(|(id, load)| (load.replicas, id)).collect();
    by_load.sort_unstable();
    for &(most, giver) in by_load.iter().rev() {
        for &(least, taker) in &by_load {
            if most < least + 2 {
                break;
            }
            let may_go = |place: usize| {
                let has = &replicas[place];
                let others: Vec<BrokerId> = has.iter().copied().filter(|id| *id != giver).collect();
                let with = |id: BrokerId| others.iter().copied().chain([id]);
                !has.contains(&taker)
                    && draft.has_room(taker, placed[place].bytes)
                    && draft.racks(with(taker)) >= draft.racks(with(giver))
            };
            let found = at.get(&giver).and_then(|of| of.iter().find(|(_, place)| may_go(*place)));
            if let Some((_, place)) = found {
                return Some((giver, taker, *place));
            }
        }
    }
    None
}

/// Puts another replica first where who is first leads two more than that one.
fn share_leaders(draft: &Draft<'_>, replicas: &mut [Vec<BrokerId>]) {
    let mut leads: BTreeMap<BrokerId, usize> = draft.open().map(|(id, _)| (id, 0)).collect();
    for id in replicas.iter().filter_map(|has| has.first()) {
        leads.entry(*id).and_modify(|count| *count += 1);
    }
    // The second pass finds what the first one made room for.
    for _ in 0..2 {
        for has in replicas.iter_mut() {
            let Some(first) = has.first().and_then(|id| leads.get(id).copied()) else { continue };
            let others = has.iter().enumerate().skip(1);
            let known = others.filter_map(|(place, id)| Some((*leads.get(id)?, place)));
            let Some((least, place)) = known.min() else { continue };
            if first >= least + 2 {
                leads.entry(has[0]).and_modify(|count| *count -= 1);
                leads.entry(has[place]).and_modify(|count| *count += 1);
                has.swap(0, place);
            }
        }
    }
}

fn others(replicas: &[BrokerId], place: usize) -> Vec<BrokerId> {
    let kept = replicas.iter().enumerate().filter(|(at, _)| *at != place);
    kept.map(|(_, id)| *id).collect()
}

impl Placed {
    fn nowhere(&self, wanted: usize) -> PlanError {
        let (topic, partition, bytes) = (self.topic.clone(), self.partition, self.bytes);
        PlanError::Nowhere { topic, partition, wanted, bytes }
    }

    fn to(&self, to: Vec<BrokerId>) -> Move {
        let (topic, from) = (self.topic.clone(), self.replicas.clone());
        Move { topic, partition: self.partition, from, to, bytes: self.bytes }
    }
}

/// What each broker has, once the moves that were planned are done.
struct Draft<'a> {
    loads: BTreeMap<BrokerId, Load<'a>>,
}

struct Load<'a> {
    rack: Option<&'a str>,
    /// Whether it takes replicas.
    is_open: bool,
    replicas: usize,
    bytes: u64,
    /// What may still come, before anything is taken away: that is gone only when all is done.
    room: Option<u64>,
}

impl<'a> Draft<'a> {
    fn new(nodes: &'a [Node], placed: &[Placed]) -> Self {
        let load = |node: &'a Node| Load {
            rack: node.rack.as_deref(),
            is_open: node.is_up,
            replicas: 0,
            bytes: 0,
            room: node.bytes_usable,
        };
        let mut draft = Self { loads: nodes.iter().map(|node| (node.id, load(node))).collect() };
        for one in placed {
            for id in &one.replicas {
                if let Some(load) = draft.loads.get_mut(id) {
                    load.replicas += 1;
                    load.bytes = load.bytes.saturating_add(one.bytes);
                }
            }
        }
        draft
    }

    fn open(&self) -> impl Iterator<Item = (BrokerId, &Load<'a>)> {
        self.loads.iter().filter(|(_, load)| load.is_open).map(|(id, load)| (*id, load))
    }

    fn is_open(&self, id: BrokerId) -> bool {
        self.loads.get(&id).is_some_and(|load| load.is_open)
    }

    fn close(&mut self, id: BrokerId) {
        self.loads.entry(id).and_modify(|load| load.is_open = false);
    }

    fn has_room(&self, id: BrokerId, bytes: u64) -> bool {
        self.loads.get(&id).is_some_and(|load| load.room.is_none_or(|room| room >= bytes))
    }

    /// In how many racks these are; who says none is in one of its own.
    fn racks(&self, ids: impl Iterator<Item = BrokerId>) -> usize {
        let rack = |id: BrokerId| match self.loads.get(&id).and_then(|load| load.rack) {
            Some(rack) => (Some(rack), None),
            None => (None, Some(id)),
        };
        ids.map(rack).collect::<BTreeSet<_>>().len()
    }

    /// Which of these replicas goes first.
    fn least_needed(&self, replicas: &[BrokerId]) -> usize {
        let order = |place: &usize| {
            let racks = self.racks(others(replicas, *place).into_iter());
            (!self.is_open(replicas[*place]), racks, *place)
        };
        (0..replicas.len()).max_by_key(order).expect("there is one to spare")
    }

    /// One more replica, beside these.
    fn add(&mut self, one: &Placed, others: &[BrokerId], wanted: usize) -> Result<BrokerId, PlanError> {
        let fits = |id: BrokerId| {
            !others.contains(&id) && !one.replicas.contains(&id) && self.has_room(id, one.bytes)
        };
        let found = self
            .open()
            .filter(|(id, _)| fits(*id))
            .min_by_key(|(id, load)| {
                let racks = self.racks(others.iter().copied().chain([*id]));
                (others.len() + 1 - racks, load.replicas, load.bytes, *id)
            })
            .map(|(id, _)| id);
        let id = found.ok_or_else(|| one.nowhere(wanted))?;
        self.put(one, id);
        Ok(id)
    }

    fn put(&mut self, one: &Placed, id: BrokerId) {
        self.loads.entry(id).and_modify(|load| {
            load.replicas += 1;
            load.bytes = load.bytes.saturating_add(one.bytes);
            load.room = load.room.map(|room| room.saturating_sub(one.bytes));
        });
    }

    fn take(&mut self, one: &Placed, id: BrokerId) {
        self.loads.entry(id).and_modify(|load| {
            load.replicas = load.replicas.saturating_sub(1);
            load.bytes = load.bytes.saturating_sub(one.bytes);
        });
    }
}
