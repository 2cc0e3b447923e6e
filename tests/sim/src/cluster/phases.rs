//! The phases of a run, and what must be so at the end of each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::BrokerId;

use super::client::Client;
use super::invariants::{i01_acked_is_kept, i16_same_prefix};
use super::net::Place;
use super::process::cell::Cell;
use super::process::{PartitionKey, Process};
use super::queue::Event;
use super::quorum::{broker, node_of};
use super::truth::History;
use super::world::World;
use crate::violation::Violation;

const SETUP_US: u64 = 60_000_000;
/// How long a majority may take until it goes on, and all nodes until all is well: some sessions, elections
/// and patience of clients.
const CORE_US: u64 = 40_000_000;
const HEALED_US: u64 = 120_000_000;

impl World {
    /// Plays to the end, or until something is wrong.
    pub(crate) fn play(&mut self) {
        self.set_up();
        if self.found.is_empty() {
            self.begin_load();
            self.is_troubled = true;
            self.queue.push(self.now_us, Event::Trouble);
            self.run_until(self.now_us + self.options.troubled_us);
            (self.is_troubled, self.is_in_ambush) = (false, false);
        }
        if self.found.is_empty() && self.random.chance(600) {
            self.heal_some();
        }
        if self.found.is_empty() {
            self.heal_all();
        }
        if self.found.is_empty() {
            self.compare();
        }
    }

    fn complain(&mut self, invariant: &'static str, what: String) {
        self.found.push(Violation { invariant, what });
    }

    /// The nodes find each other and make the topics.
    pub(super) fn set_up(&mut self) {
        let end = self.now_us + SETUP_US;
        let is_ready = |world: &Self| {
            let image = world.quorum.image();
            let is_made = |topic: &super::options::TopicOptions| {
                image
                    .topic(&topic.name)
                    .is_some_and(|it| it.partitions().iter().all(|it| it.isr.len() == it.replicas.len()))
            };
            image.brokers_alive().count() == world.options.nodes && world.options.topics.iter().all(is_made)
        };
        if !self.run_while(end, is_ready) && self.found.is_empty() {
            let image = self.quorum.image();
            self.complain("a cluster forms", format!("it did not: {image:?}"));
        }
    }

    /// A majority is well, whatever becomes of the others: it has to go on.
    fn heal_some(&mut self) {
        let nodes = self.nodes.len();
        let mut order: Vec<usize> = (0..nodes).collect();
        for at in (1..nodes).rev() {
            order.swap(at, self.random.index(at + 1));
        }
        let core: Vec<usize> = order[..nodes / 2 + 1].to_vec();
        self.say(format_args!("nodes {core:?} are well from here on"));
        let is_core = |place: Place| match place {
            Place::Node(node) => core.contains(&node),
            Place::Client(_) => true,
        };
        self.mend(|a, b| is_core(a) && is_core(b));
        for &other in &order[nodes / 2 + 1..] {
            self.nodes[other].is_held = true;
            match self.random.chance(500) {
                true => self.cut_power(other),
                false => {
                    let clients = (0..self.clients.len()).map(Place::Client);
                    for place in core.iter().copied().map(Place::Node).chain(clients) {
                        self.net.cut(place, Place::Node(other));
                        self.net.cut(Place::Node(other), place);
                    }
                }
            }
        }
        self.quorum.calm();
        self.net.calm();
        self.calm_members();
        core.iter().for_each(|node| self.make_well(*node));
        let ends: BTreeMap<PartitionKey, _> =
            self.truth.histories.iter().map(|(key, history)| (*key, history.end)).collect();
        let acked = self.truth.groups.acked.clone();
        let end = self.now_us + CORE_US;
        let stuck =
            |world: &Self| world.stuck_in(&core, &ends).or_else(|| world.groups_stuck_in(&core, &acked));
        let goes_on = |world: &Self| stuck(world).is_none();
        if !self.run_while(end, goes_on) && self.found.is_empty() {
            let what = stuck(self).unwrap_or_default();
            self.complain("a majority goes on", format!("nodes {core:?}: {what}"));
        }
        self.nodes.iter_mut().for_each(|node| node.is_held = false);
    }

    /// Why a majority does not go on.
    fn stuck_in(&self, core: &[usize], ends: &BTreeMap<PartitionKey, base::Offset>) -> Option<String> {
        let image = self.quorum.image();
        for node in core {
            if image.broker(broker(*node)).is_none_or(|broker| broker.fenced) {
                return Some(format!("node {node} is fenced"));
            }
        }
        for (key, partition) in self.partitions() {
            let Some(history) = self.truth.histories.get(&key).filter(|history| !history.is_broken) else {
                continue;
            };
            let has_disk = |node: usize| {
                let process = self.nodes[node].process.as_ref().filter(|process| process.needs_repair());
                let is_good = |cell: &Arc<Cell>| cell.with(|partition| !partition.is_failed());
                process.is_none_or(|process| process.cells.get(&key).is_some_and(is_good))
            };
            let is_core = |id: &&BrokerId| core.contains(&node_of(**id)) && has_disk(node_of(**id));
            let able = partition.isr.iter().chain(partition.eligible()).filter(is_core).count();
            let has_leader = partition.leader != BrokerId::NONE && core.contains(&node_of(partition.leader));
            if able > 0 && !has_leader {
                return Some(format!("{} has no leader: {partition:?}", history.name));
            }
            // Who may lead here is not out of sync only because it has nobody to follow.
            let others = partition.isr.iter().filter(|id| **id != partition.leader).filter(is_core).count();
            if has_leader && !has_disk(node_of(partition.leader)) && others > 0 {
                return Some(format!("{} is led from a failed directory: {partition:?}", history.name));
            }
            let enough = partition.replicas.iter().filter(is_core).count() >= history.isr_min_most;
            // Who comes back may need what the leader has not any more.
            let is_rotten = has_leader && self.is_rotten(node_of(partition.leader), key);
            let is_written = self.options.producers > 0 && !history.compacts && !is_rotten;
            if is_written && has_leader && enough && ends.get(&key).is_some_and(|end| history.end <= *end) {
                return Some(format!("nothing is written to {}: {partition:?}", history.name));
            }
        }
        None
    }

    fn make_well(&mut self, node: usize) {
        self.nodes[node].is_held = false;
        self.nodes[node].paused_until = 0;
        (self.nodes[node].slow_until, self.nodes[node].hung_until) = (0, 0);
        self.nodes[node].shift_ms = 0;
        self.nodes[node].disk.stay_up();
        self.nodes[node].disk.disarm();
        if self.nodes[node].process.is_none() {
            self.start_later(node, 0);
        }
    }

    /// Everything is well: in the end all have the same.
    fn heal_all(&mut self) {
        self.say(format_args!("all is well from here on"));
        self.mend(|_, _| true);
        self.quorum.calm();
        self.net.calm();
        for node in 0..self.nodes.len() {
            if self.nodes[node].process.as_ref().is_some_and(Process::needs_repair) {
                // Its disk was repaired: somebody starts it again.
                self.end(node, false);
            }
            self.make_well(node);
        }
        self.calm_members();
        // Some more is written by a cluster that is well.
        self.run_until(self.now_us + 2_000_000);
        for client in &mut self.clients {
            if let Client::Producer(producer) = client {
                producer.goes_on = false;
            }
        }
        self.end_reading();
        let end = self.now_us + HEALED_US;
        self.run_while(end, |world| world.groups_unwell(None).is_none());
        // Who asks how far groups came is told now, when all of them have come to rest.
        let quiet = Some(self.now_us);
        let unwell = |world: &Self| world.unwell().or_else(|| world.groups_unwell(quiet));
        if !self.run_while(end, |world| unwell(world).is_none()) && self.found.is_empty() {
            // Who did not come to rest is not yet asked about.
            let what = self.groups_unwell(None).or_else(|| unwell(self));
            self.complain("all becomes well", what.unwrap_or_default());
        }
    }

    /// What is not well yet.
    fn unwell(&self) -> Option<String> {
        for (number, client) in self.clients.iter().enumerate() {
            if let Client::Producer(producer) = client
                && producer.outstanding() > 0
            {
                return Some(format!("client {number} has {} batches on their way", producer.outstanding()));
            }
        }
        let partitions = self.partitions();
        for (number, node) in self.nodes.iter().enumerate() {
            let is_gone = |key: &&PartitionKey| {
                partitions.get(key).is_none_or(|partition| !partition.replicas.contains(&broker(number)))
            };
            let mut keys = node.process.iter().flat_map(|process| process.cells.keys());
            if let Some(key) = keys.find(is_gone) {
                return Some(format!("node {number} still has {key:?}"));
            }
        }
        for (key, partition) in partitions {
            let is_kept = |history: &&History| self.is_kept(history, key, &partition);
            let Some(history) = self.truth.histories.get(&key).filter(is_kept) else { continue };
            let is_moving = !partition.adding().is_empty() || !partition.removing().is_empty();
            if partition.isr.len() < partition.replicas.len() || partition.leader.0 < 0 || is_moving {
                return Some(format!("{}: {partition:?}", history.name));
            }
            for id in &partition.replicas {
                let cell =
                    self.nodes[node_of(*id)].process.as_ref().and_then(|process| process.cells.get(&key));
                let ends = cell.map(|cell| cell.with(|it| (it.high_watermark(), it.log().end())));
                if ends != Some((history.end, history.end)) {
                    return Some(format!("{}: broker {id} is at {ends:?} of {}", history.name, history.end));
                }
            }
        }
        None
    }

    /// Whether in the end all replicas have all of a partition. Where nobody leads whoever comes back has nobody to catch
    /// up with, and where as many disks failed as it was to be on at the least, nobody else may have what has rotted.
    pub(super) fn is_kept(
        &self,
        history: &History,
        key: PartitionKey,
        partition: &metadata::Partition,
    ) -> bool {
        let replicas = partition.replicas.iter().map(|id| node_of(*id));
        let rotten: BTreeSet<usize> = replicas.filter(|node| self.is_rotten(*node, key)).collect();
        let disks_failed = rotten.union(&history.given_up).count();
        !history.is_broken
            && !history.is_orphaned(partition, &self.quorum.image())
            && (rotten.is_empty() || (history.counts_durable() && disks_failed < history.isr_min))
    }

    /// Compares everything, at the end.
    fn compare(&mut self) {
        for (key, partition) in self.partitions() {
            let history = self.truth.histories.get(&key);
            if history.is_some_and(|history| !self.is_kept(history, key, &partition)) {
                continue;
            }
            for id in &partition.replicas {
                let process = self.nodes[node_of(*id)].process.as_ref();
                let cell = process.and_then(|process| process.cells.get(&key));
                if let Some(cell) = cell.filter(|_| !self.is_rotten(node_of(*id), key)) {
                    i16_same_prefix::compare_all(key, cell, node_of(*id), &self.truth, &mut self.found);
                }
            }
        }
        let Self { clients, truth, found, .. } = self;
        for client in clients {
            let Client::Producer(producer) = client else { continue };
            for acked in &producer.acked {
                if let Some(history) = truth.histories.get(&acked.key) {
                    i01_acked_is_kept::check_acked(history, acked.offset, acked.value, found);
                }
            }
            producer.check_order(truth, found);
        }
    }
}
