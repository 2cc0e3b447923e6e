//! Bringing things to the media, and writing down how far they are.

use base::Offset;
use storage::FlushScope;

use crate::found::Stop;
use crate::plant::Plant;
use crate::world::World;

impl World {
    pub(super) fn flush(&mut self, scope: FlushScope) {
        if let Err(error) = self.log().flush(scope) {
            self.failed("flush", &error);
            return;
        }
        let log = self.log();
        let (durable, end) = (log.durable_end(), log.end());
        self.trace.event(format!("flush {scope:?}: durable {durable} of {end}"));
        if durable != end {
            self.complain("flush", format!("flushed to {durable}, the log ends at {end}"));
        }
        if scope == FlushScope::Checkpoint && self.log().recovery_point() != end {
            self.complain("flush", format!("no recovery point at {end} after a checkpoint"));
        }
    }

    /// Plans a flush; others may change the log before it is run.
    pub(super) fn begin_flush(&mut self) {
        let scope = self.random.pick(&[FlushScope::Records, FlushScope::Checkpoint]);
        match self.log().flush_plan(scope) {
            Ok(plan) => self.flush = plan,
            Err(error) => self.failed("plan flush", &error),
        }
    }

    pub(super) fn end_flush(&mut self) {
        let Some(flush) = self.flush.take() else { return };
        match flush.run() {
            Ok(flushed) => self.log().on_flushed(flushed),
            Err(error) => {
                self.log().on_flush_failed(&error);
                self.failed("flush", &error);
            }
        }
    }

    /// Writes down recovery point and log start, as a server does every so often.
    pub(super) fn checkpoint(&mut self) {
        let point = match self.options.plant {
            Some(Plant::CheckpointAhead) => self.log().end(),
            _ => self.log().recovery_point(),
        };
        let start = self.log().start();
        if self.keep_recovery_point(point) {
            self.keep_log_start(start);
        }
    }

    /// Stops the server in order and starts it again.
    pub(super) fn close(&mut self) {
        if let Err(error) = self.log().close() {
            self.failed("close", &error);
            return;
        }
        let (point, start) = (self.log().recovery_point(), self.log().start());
        if !self.keep_recovery_point(point) || !self.keep_log_start(start) {
            return;
        }
        match self.keeper.mark_clean() {
            Ok(()) => self.restart(Stop::Clean, |_, _| None),
            Err(error) => self.failed("mark clean", &error),
        }
    }

    /// Whether the recovery point could be written down.
    pub(super) fn keep_recovery_point(&mut self, at: Offset) -> bool {
        self.promised.recovery_point_tried = at;
        match self.keeper.keep_recovery_point(at) {
            Ok(()) => {
                self.promised.recovery_point = at;
                true
            }
            Err(error) => {
                self.failed("recovery point", &error);
                false
            }
        }
    }

    /// Whether the log start could be written down.
    pub(super) fn keep_log_start(&mut self, at: Offset) -> bool {
        if self.options.plant == Some(Plant::LogStartForgotten) {
            (self.promised.log_start, self.promised.log_start_tried) = (at, at);
            return true;
        }
        self.promised.log_start_tried = at;
        match self.keeper.keep_log_start(at) {
            Ok(()) => {
                self.promised.log_start = at;
                true
            }
            Err(error) => {
                self.failed("log start", &error);
                false
            }
        }
    }
}
