//! Machines that start and end their processes, and lose their power.

use std::sync::Arc;

use base::BrokerEpoch;
use controller::{BrokerSuspected, Command};
use storage::dirs::LogDirError;

use super::{Event, World};
use crate::cluster::net::{Parcel, Place};
use crate::cluster::process::Process;
use crate::cluster::process::boot::Boot;
use crate::cluster::quorum::broker;
use crate::cluster::truth::How;
use crate::disk::{Halt, SimDisk};
use crate::random::Random;
use crate::violation::Violation;

impl World {
    /// A machine runs a process, with power if it had none.
    pub(super) fn start(&mut self, node: usize) {
        let state = &mut self.nodes[node];
        if state.is_held
            || state.process.is_some()
            || state.starts_at.take().is_some_and(|at| at > self.now_us)
        {
            return;
        }
        if !state.has_power {
            state.disk.restore_power(self.options.cut);
            state.has_power = true;
        }
        state.life += 1;
        let boot = Boot {
            node,
            life: state.life,
            seed: self.seed,
            settings: self.settings[node].clone(),
            times: self.options.times,
            shard_settings: self.options.shards.clone(),
            plant: self.plant,
            disk: Arc::clone(&state.door),
        };
        match Process::begin(boot) {
            Ok(process) => state.process = Some(process),
            Err(why) => {
                let halted = state.disk.halted();
                self.say(format_args!("node {node} does not start: {why}"));
                match halted {
                    Some(Halt::Power) => self.nodes[node].has_power = false,
                    Some(Halt::Process) => self.nodes[node].disk.kill_process(),
                    None if matches!(why, LogDirError::Disk(_)) => {}
                    None => self.found.push(Violation { invariant: "nodes start", what: why.to_string() }),
                }
                return self.start_later(node, 100_000);
            }
        }
        self.say(format_args!("node {node} starts its life {}", self.nodes[node].life));
        self.quorum.on_up(node);
        self.nodes[node].tick_at = u64::MAX;
        self.schedule_tick(node);
        self.compact_later(node);
    }

    /// The process of a node goes on compacting, some time later.
    pub(super) fn compact_later(&mut self, node: usize) {
        if self.options.compact_every_us > 0 {
            let at = self.now_us + self.compactions.below(2 * self.options.compact_every_us) + 1;
            self.queue.push(at, Event::Compact { node, life: self.nodes[node].life });
        }
    }

    pub(crate) fn start_later(&mut self, node: usize, after_us: u64) {
        let at = self.now_us + after_us;
        self.nodes[node].starts_at = Some(at);
        self.queue.push(at, Event::Start(node));
    }

    /// The process of a node ends; its machine goes on.
    pub(crate) fn end(&mut self, node: usize, is_clean: bool) {
        if let Some(process) = self.nodes[node].process.as_ref().filter(|_| is_clean) {
            // As far as it can know, whatever the disk made of that.
            self.truth.orderly.insert((node, process.life));
        }
        // Its cache pretends to have on the disk what is not there: what was not flushed may be lost without the
        // power, too.
        let may_lose = self.nodes[node].disk.has_failed_to_sync();
        if may_lose && self.random.chance(500) {
            return self.cut_power(node);
        }
        let Some(process) = self.nodes[node].process.take() else { return };
        self.say(format_args!("node {node} ends its life {}", process.life));
        drop(process);
        self.nodes[node].disk.kill_process();
        let how = match (may_lose, is_clean) {
            (true, _) => How::PowerCut,
            (false, true) => How::InOrder,
            (false, false) => How::Killed,
        };
        self.gone(node, how);
        let after = self.random.below(self.options.outage_us) + 10_000;
        self.start_later(node, after);
    }

    /// The machine of a node loses its power.
    pub(crate) fn cut_power(&mut self, node: usize) {
        if !self.nodes[node].has_power {
            return;
        }
        self.say(format_args!("node {node} loses its power"));
        self.nodes[node].process = None;
        self.nodes[node].has_power = false;
        self.gone(node, How::PowerCut);
        let after = self.random.below(self.options.outage_us) + 10_000;
        self.start_later(node, after);
    }

    /// Whether the cluster can do without the disk of a node: everything is counted on by two at least, and no
    /// other disk is new and not filled yet.
    pub(crate) fn is_spare(&self, node: usize) -> bool {
        let image = self.quorum.image();
        let is_filled = |(at, epoch): (&usize, &Option<BrokerEpoch>)| {
            let id = broker(*at);
            let is_back = image.broker(id).map(|broker| broker.epoch) != *epoch;
            let partitions = self.partitions();
            let mut mine = partitions.values().filter(|partition| partition.replicas.contains(&id));
            *at == node || (is_back && mine.all(|partition| partition.isr.contains(&id)))
        };
        self.options.rots.is_none()
            && self.truth.histories.values().all(|history| history.isr_min > 1)
            && self.replaced.iter().all(is_filled)
    }

    /// A machine whose process does not run gets an empty disk in the place of the one it had.
    pub(crate) fn replace_disk(&mut self, node: usize) {
        assert!(self.nodes[node].process.is_none(), "node {node} runs");
        let stream = format!("disk {node} after life {}", self.nodes[node].life);
        let disk = SimDisk::new(Random::stream(self.seed, &stream), self.disk_trace.clone());
        disk.set_writeback(self.options.writeback_per_thousand);
        let state = &mut self.nodes[node];
        state.door = Arc::new(disk.clone());
        (state.disk, state.has_power) = (disk, true);
        let image = self.quorum.image();
        self.replaced.insert(node, image.broker(broker(node)).map(|broker| broker.epoch));
        self.truth.on_disk_replaced(node, &image);
        self.say(format_args!("the disk of node {node} is replaced"));
    }

    /// Perhaps another node finds, a while later, that nobody listens where this one should (ADR 0018).
    pub(crate) fn suspect_later(&mut self, suspect: usize, per_thousand: u32) {
        let nodes = self.nodes.len();
        let Some(random) = self.suspicions.as_mut().filter(|_| self.is_troubled) else { return };
        if random.chance(per_thousand) {
            let (by, at) = (random.index(nodes), self.now_us + random.below(100_000));
            self.queue.push(at, Event::Suspect { by, suspect });
        }
    }

    /// A node tells the controller that another is dead. It may be mistaken, or late: there may be a next life of it
    /// by now.
    pub(crate) fn suspect(&mut self, by: usize, suspect: usize) {
        let image = self.quorum.image();
        let Some(found) = image.broker(broker(suspect)).filter(|_| by != suspect) else { return };
        let (suspect, epoch, by_id) = (found.id, found.epoch, broker(by));
        self.say(format_args!("node {by} finds {suspect} dead"));
        let command = Command::BrokerSuspected(BrokerSuspected { suspect, epoch, by: by_id });
        let life = self.nodes[by].life;
        self.step(by, life, |process, now| process.ask(now, &command));
    }

    /// Nobody is there any more: the other ends of its connections hear of it, sooner or later.
    pub(super) fn gone(&mut self, node: usize, how: How) {
        self.quorum.on_down(node);
        self.truth.on_down(node, how, &self.quorum.image());
        self.nodes[node].paused_until = 0;
        self.suspect_later(node, 500);
        for (conn, way) in self.net.of(Place::Node(node)) {
            let is_silent = how == How::PowerCut && self.random.chance(self.options.silent_per_thousand);
            if is_silent {
                self.net.hold(conn, way, self.now_us + self.options.outage_us);
            }
            self.send(conn, Place::Node(node), Parcel::End);
            self.net.deafen(conn, way.other());
        }
    }
}
