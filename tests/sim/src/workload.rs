//! What happens to a log: one action at a step.

mod append;
mod cut;
mod flush;
mod harm;
mod poison;
mod read;

use std::path::PathBuf;

use storage::FlushScope;
use storage::disk::Failed;

use crate::disk::{Halt, Operation};
use crate::found::Edges;
use crate::found::Stop;
use crate::options::Action;
use crate::world::{Pending, World};

impl World {
    /// One step: time passes, something happens, and if the server went down over it, it comes back.
    pub fn step(&mut self) {
        self.restart = None;
        self.retention = None;
        self.look_closely = false;
        let passed = self.random.below(20);
        self.clock.pass(passed);
        let action = self.options.pick(&mut self.random);
        self.trace.event(format!("> {action:?}"));
        self.act(action);
        self.settle();
        self.advance_high_watermark();
    }

    /// The last look at a run: an orderly stop, and everything is there.
    pub fn finish(&mut self) {
        self.restart = None;
        self.retention = None;
        self.disk.disarm();
        self.close();
        self.settle();
        self.look_closely = true;
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Append => self.append(),
            Action::AppendStored => self.append_stored(),
            Action::Repeat => self.repeat(),
            Action::Misbehave => self.misbehave(),
            Action::EndTransaction => self.end_transaction(),
            Action::BeginEpoch => self.begin_epoch(),
            Action::Flush => {
                let scope = self.random.pick(&[FlushScope::Records, FlushScope::Checkpoint]);
                self.flush(scope);
            }
            Action::BeginFlush => self.begin_flush(),
            Action::EndFlush => self.end_flush(),
            Action::Checkpoint => self.checkpoint(),
            Action::Truncate => self.truncate(),
            Action::StartOver => self.start_over(),
            Action::DeleteRecords => self.delete_records(),
            Action::Retain => self.retain(),
            Action::Rest => self.log().rest(),
            Action::Close => self.close(),
            Action::Kill => self.restart(Stop::Killed, |_, _| None),
            Action::CutPower => self.restart(Stop::PowerCut, |_, _| None),
            Action::CutPowerSoon => {
                let operations = self.random.below(30);
                self.disk.halt_after(operations, Halt::Power);
            }
            Action::KillSoon => {
                let operations = self.random.below(30);
                self.disk.halt_after(operations, Halt::Process);
            }
            Action::Read => self.read(),
            Action::Fail => self.fail(),
            Action::Rot => self.rot(),
            Action::LoseFile => self.lose_file(),
            Action::JumpClock => {
                let ms = self.random.between(0, 200_000) as i64 - 100_000;
                self.clock.jump_wall(ms);
            }
            Action::Look => self.look_closely = true,
        }
    }

    /// Restarts the server if something ended, or if the disk failed it.
    fn settle(&mut self) {
        if self.over {
            return;
        }
        match self.disk.halted() {
            Some(Halt::Power) => self.restart(Stop::PowerCut, |_, _| None),
            Some(Halt::Process) => self.restart(Stop::Killed, |_, _| None),
            None if self.disk.has_struck() => self.settle_failure(),
            None => {
                if let Some(poison) = self.log().poison() {
                    let what = format!("the log gave up although nothing failed: {poison}");
                    self.complain("poison", what);
                }
            }
        }
    }

    /// The disk failed something. A log that was told so by a write must have given up; one that could
    /// not read something may go on.
    fn settle_failure(&mut self) {
        self.check_poison();
        let dir = self.keeper.partition_dir();
        let only_looked =
            |(on, path): &(Operation, PathBuf)| on.breaks() == Failed::File && path.starts_with(&dir);
        let only_looked = self.disk.strikes().iter().all(only_looked);
        if only_looked && self.log().poison().is_none() && self.random.chance(500) {
            self.disk.disarm();
            // What was to be done was not begun, but for the segments that a retention took out before.
            let start = self.log().start();
            if matches!(self.pending, Pending::Start(upto) if (self.model.start..=upto).contains(&start)) {
                self.model.start = start;
            }
            self.pending = Pending::Nothing;
            return;
        }
        let stop = self.random.pick(&[Stop::Killed, Stop::PowerCut]);
        self.restart(stop, |_, _| None);
    }

    /// Takes note of a failure: fine if the disk had a reason, a finding if not.
    pub(crate) fn failed(&mut self, what: &str, error: &dyn std::fmt::Display) {
        self.trace.event(format!("{what} failed: {error}"));
        if self.disk.halted().is_none() && !self.disk.has_struck() {
            self.complain("unexpected error", format!("{what}: {error}"));
        }
    }

    /// Remembers the edges for the next step.
    pub(crate) fn note_edges(&mut self) {
        if let Some(log) = &self.log {
            self.seen = Edges { start: log.start(), end: log.end() };
        }
    }
}
