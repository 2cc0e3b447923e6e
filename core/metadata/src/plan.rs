//! Where replicas should be: plans that people see before anything moves.
//!
//! ```text
//!   Layout: brokers and racks, who has what ─▶ drain, rebalance, resize ─▶ Plan: partition, from, to
//! ```
//!
//! A plan is made of counts: as many replicas and as many preferred leaders on each broker as on any other,
//! and the replicas of a partition in as many racks as there are. It moves no more than it must. Nothing
//! here asks a cluster or changes one: whoever has a plan gives it as a reassignment.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use base::{BrokerId, PartitionIndex, TopicName};

use crate::image::Image;

/// Brokers, and what they have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// The brokers that can take replicas, each with its rack.
    pub brokers: BTreeMap<BrokerId, Option<String>>,
    /// The partitions, in any order.
    pub partitions: Vec<Placed>,
}

/// A partition and who has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// Its topic.
    pub topic: TopicName,
    /// Which partition.
    pub partition: PartitionIndex,
    /// The brokers, the preferred leader first.
    pub replicas: Vec<BrokerId>,
}

/// What has to move.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// One a partition, in the order of the layout.
    pub moves: Vec<Move>,
}

/// A partition that gets other replicas, or another order of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Its topic.
    pub topic: TopicName,
    /// Which partition.
    pub partition: PartitionIndex,
    /// Who has it.
    pub from: Vec<BrokerId>,
    /// Who shall have it, the preferred leader first.
    pub to: Vec<BrokerId>,
}

/// Why there is no such plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A partition would need more brokers than there are.
    #[error(
        "{topic}-{partition} has {needed} replicas, and {left} brokers are left to hold them: add brokers, or lower the topic's replication factor"
    )]
    TooFewBrokers {
        /// The partition's topic.
        topic: TopicName,
        /// Which partition.
        partition: PartitionIndex,
        /// How many replicas it shall have.
        needed: usize,
        /// How many brokers can take one.
        left: usize,
    },
    /// Nobody has none of a partition.
    #[error("a replication factor is 1 or more")]
    NoReplicas,
}

impl Move {
    /// The brokers that have to copy the partition.
    pub fn copies(&self) -> impl Iterator<Item = BrokerId> + '_ {
        self.to.iter().copied().filter(|id| !self.from.contains(id))
    }
}

impl Layout {
    /// The cluster as an image has it. Replicas that are on their way out are not there any more.
    pub fn of(image: &Image) -> Self {
        let alive = image.brokers_alive().filter(|broker| !broker.in_controlled_shutdown);
        let partitions = image.topics().flat_map(|topic| {
            topic.partitions().iter().map(|partition| Placed {
                topic: topic.name.clone(),
                partition: partition.index,
                replicas: partition
                    .replicas
                    .iter()
                    .filter(|id| !partition.removing().contains(id))
                    .copied()
                    .collect(),
            })
        });
        Self {
            brokers: alive.map(|broker| (broker.id, broker.rack.clone())).collect(),
            partitions: partitions.collect(),
        }
    }

    /// Takes everything away from these brokers.
    pub fn drain(&self, gone: &[BrokerId]) -> Result<Plan, PlanError> {
        let mut counts = Counts::of(self);
        counts.leave_out(gone);
        let mut after = self.partitions.clone();
        for placed in &mut after {
            for at in 0..placed.replicas.len() {
                if gone.contains(&placed.replicas[at]) {
                    counts.take(placed.replicas[at], at);
                    let new = counts.best(&placed.replicas, Some(at), at == 0);
                    placed.replicas[at] = new.ok_or_else(|| counts.too_few(placed, placed.replicas.len()))?;
                    counts.give(placed.replicas[at], at);
                }
            }
        }
        Ok(self.plan(after))
    }

    /// Gives every broker its share, as a broker that was added has none.
    pub fn rebalance(&self) -> Plan {
        let mut counts = Counts::of(self);
        let mut after = self.partitions.clone();
        // Each step makes the counts more even, so there is a last one.
        while after.iter_mut().map(|placed| usize::from(counts.even_out(placed))).sum::<usize>() > 0 {}
        while after.iter_mut().map(|placed| usize::from(counts.hand_on(placed))).sum::<usize>() > 0 {}
        self.plan(after)
    }

    /// Gives the partitions of these topics that many replicas.
    pub fn resize(&self, topics: &[TopicName], factor: usize) -> Result<Plan, PlanError> {
        if factor == 0 {
            return Err(PlanError::NoReplicas);
        }
        let mut counts = Counts::of(self);
        let mut after = self.partitions.clone();
        for placed in after.iter_mut().filter(|placed| topics.contains(&placed.topic)) {
            while placed.replicas.len() > factor {
                let at = counts.worst(&placed.replicas);
                counts.take(placed.replicas.remove(at), at);
            }
            while placed.replicas.len() < factor {
                let new = counts.best(&placed.replicas, None, false);
                let new = new.ok_or_else(|| counts.too_few(placed, factor))?;
                counts.give(new, placed.replicas.len());
                placed.replicas.push(new);
            }
        }
        Ok(self.plan(after))
    }

    fn plan(&self, after: Vec<Placed>) -> Plan {
        let changed = self.partitions.iter().zip(after).filter(|(before, after)| *before != after);
        let moves = changed.map(|(before, after)| Move {
            topic: after.topic,
            partition: after.partition,
            from: before.replicas.clone(),
            to: after.replicas,
        });
        Plan { moves: moves.collect() }
    }
}

/// How much each broker has.
struct Counts<'a> {
    racks: BTreeMap<BrokerId, Option<&'a str>>,
    /// Replicas, and how many of them are first in line.
    has: BTreeMap<BrokerId, (usize, usize)>,
    /// The brokers that take replicas.
    open: Vec<BrokerId>,
}

impl<'a> Counts<'a> {
    fn of(layout: &'a Layout) -> Self {
        let mut counts = Self {
            racks: layout.brokers.iter().map(|(id, rack)| (*id, rack.as_deref())).collect(),
            has: layout.brokers.keys().map(|id| (*id, (0, 0))).collect(),
            open: layout.brokers.keys().copied().collect(),
        };
        for placed in &layout.partitions {
            placed.replicas.iter().enumerate().for_each(|(at, id)| counts.give(*id, at));
        }
        counts
    }

    fn leave_out(&mut self, gone: &[BrokerId]) {
        self.open.retain(|id| !gone.contains(id));
    }

    fn give(&mut self, id: BrokerId, at: usize) {
        let has = self.has.entry(id).or_default();
        has.0 += 1;
        has.1 += usize::from(at == 0);
    }

    fn take(&mut self, id: BrokerId, at: usize) {
        let has = self.has.entry(id).or_default();
        has.0 = has.0.saturating_sub(1);
        has.1 = has.1.saturating_sub(usize::from(at == 0));
    }

    fn replicas_of(&self, id: BrokerId) -> usize {
        self.has.get(&id).map_or(0, |has| has.0)
    }

    fn leads(&self, id: BrokerId) -> usize {
        self.has.get(&id).map_or(0, |has| has.1)
    }

    /// How many others of a partition's replicas are in a broker's rack.
    fn crowd(&self, id: BrokerId, replicas: &[BrokerId], except: Option<usize>) -> usize {
        let Some(Some(rack)) = self.racks.get(&id) else { return 0 };
        let others = replicas.iter().enumerate().filter(|(at, other)| Some(*at) != except && **other != id);
        others.filter(|(_, other)| self.racks.get(other).copied().flatten() == Some(*rack)).count()
    }

    /// Who should get one more replica of a partition, in the place of one of them or besides.
    fn best(&self, replicas: &[BrokerId], except: Option<usize>, is_leader: bool) -> Option<BrokerId> {
        let candidates = self.open.iter().copied().filter(|id| !replicas.contains(id));
        candidates.min_by_key(|&id| {
            let leads = if is_leader { self.leads(id) } else { 0 };
            (self.crowd(id, replicas, except), leads, self.replicas_of(id), id)
        })
    }

    /// Which of a partition's replicas can be spared: never the first in line.
    fn worst(&self, replicas: &[BrokerId]) -> usize {
        let can_go = 1..replicas.len();
        let is_gone = |id: BrokerId| !self.open.contains(&id);
        let worst = can_go.max_by_key(|&at| {
            let id = replicas[at];
            (is_gone(id), self.crowd(id, replicas, None), self.replicas_of(id), at)
        });
        worst.unwrap_or(0)
    }

    /// Moves one replica from a broker with many to one with at least two fewer; whether there was one.
    fn even_out(&mut self, placed: &mut Placed) -> bool {
        let replicas = &placed.replicas;
        let step = (0..replicas.len()).rev().find_map(|at| {
            let from = replicas[at];
            let crowd = self.crowd(from, replicas, Some(at));
            let is_better = |&to: &BrokerId| {
                !replicas.contains(&to)
                    && self.replicas_of(to) + 2 <= self.replicas_of(from)
                    && self.crowd(to, replicas, Some(at)) <= crowd
            };
            let to = self.open.iter().copied().filter(is_better).min_by_key(|&to| (self.replicas_of(to), to));
            to.map(|to| (at, from, to))
        });
        let Some((at, from, to)) = step else { return false };
        self.take(from, at);
        self.give(to, at);
        placed.replicas[at] = to;
        true
    }

    /// Puts a replica first in line whose broker is that at least two times less often; whether there was
    /// one.
    fn hand_on(&mut self, placed: &mut Placed) -> bool {
        let Some(&first) = placed.replicas.first() else { return false };
        let others = (1..placed.replicas.len()).filter(|&at| self.open.contains(&placed.replicas[at]));
        let next = others.min_by_key(|&at| (self.leads(placed.replicas[at]), at));
        let Some(at) = next.filter(|&at| self.leads(placed.replicas[at]) + 2 <= self.leads(first)) else {
            return false;
        };
        let next = placed.replicas[at];
        (self.has.entry(first).or_default().1, self.has.entry(next).or_default().1) =
            (self.leads(first) - 1, self.leads(next) + 1);
        placed.replicas.swap(0, at);
        true
    }

    fn too_few(&self, placed: &Placed, needed: usize) -> PlanError {
        PlanError::TooFewBrokers {
            topic: placed.topic.clone(),
            partition: placed.partition,
            needed,
            left: self.open.len(),
        }
    }
}
