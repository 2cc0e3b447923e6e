//! Machines that start and end their processes, and lose their power.

use std::sync::Arc;

use storage::dirs::LogDirError;

use super::{Event, World};
use crate::cluster::net::{Parcel, Place};
use crate::cluster::process::Process;
use crate::cluster::process::boot::Boot;
use crate::cluster::truth::How;
use crate::disk::Halt;
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
    }

    pub(crate) fn start_later(&mut self, node: usize, after_us: u64) {
        let at = self.now_us + after_us;
        self.nodes[node].starts_at = Some(at);
        self.queue.push(at, Event::Start(node));
    }

    /// The process of a node ends; its machine goes on.
    pub(crate) fn end(&mut self, node: usize, is_clean: bool) {
        if self.nodes[node].disk.has_failed_to_sync() {
            // Its cache pretends to have on the disk what is not there: nobody starts it again as it is.
            return self.cut_power(node);
        }
        let Some(process) = self.nodes[node].process.take() else { return };
        self.say(format_args!("node {node} ends its life {}", process.life));
        if is_clean {
            self.truth.orderly.insert((node, process.life));
        }
        drop(process);
        self.nodes[node].disk.kill_process();
        self.gone(node, if is_clean { How::InOrder } else { How::Killed });
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

    /// Nobody is there any more: the other ends of its connections hear of it, sooner or later.
    pub(super) fn gone(&mut self, node: usize, how: How) {
        self.quorum.on_down(node);
        self.truth.on_down(node, how, &self.quorum.image());
        self.nodes[node].paused_until = 0;
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
