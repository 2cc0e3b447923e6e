//! What takes records away: cuts at the end, deletion at the front.

use base::Offset;
use storage::LookupError;

use crate::found::Edges;
use crate::plant::Plant;
use crate::world::{Pending, Retention, World};

impl World {
    /// A follower finds out that its leader has something else from some offset on.
    pub(super) fn truncate(&mut self) {
        let len = (self.model.end - self.model.start) as u64;
        let back = if self.random.chance(800) {
            self.random.below(len.min(20) + 1)
        } else {
            self.random.below(len + 1)
        };
        // A leader's batches end where the follower's do.
        let upto = self.model.cut_at(Offset(self.model.end.0 - back as i64));
        self.pending = Pending::Cut(upto);
        // A cut that leaves nothing may leave no segment either, for a moment: then the checkpoints
        // alone say where the log goes on.
        let (lowered, log_start) = match upto > self.model.start {
            true => (self.promised.recovery_point.min(upto), self.promised.log_start),
            false => (Offset::ZERO, upto),
        };
        if self.options.plant != Some(Plant::CutBeforeCheckpoint)
            && !(self.keep_recovery_point(lowered) && self.keep_log_start(log_start))
        {
            return;
        }
        let now = self.clock.now();
        let cut = self.log().truncate(now, ..upto);
        self.trace.event(format!("truncate ..{upto}: {cut:?}"));
        match cut {
            Ok(end) => {
                self.model.cut(upto);
                self.pending = Pending::Nothing;
                let edges = Edges { start: self.model.start, end: self.model.end };
                if end != edges.end {
                    self.complain("cut", format!("..{upto} ended at {end}, should be {}", edges.end));
                }
                self.lower(edges);
            }
            Err(LookupError::Disk(error)) => self.failed("truncate", &error),
            Err(error) => self.complain("cut", format!("..{upto}: {error}")),
        }
        if self.options.plant == Some(Plant::CutBeforeCheckpoint) {
            self.keep_recovery_point(lowered);
        }
    }

    /// A follower whose leader has none of its records any more.
    pub(super) fn start_over(&mut self) {
        let at = Offset(self.model.end.0 + self.random.between(0, 10) as i64 - 5).max(Offset::ZERO);
        self.pending = Pending::StartOver(at);
        if !self.keep_recovery_point(Offset::ZERO) || !self.keep_log_start(at) {
            return;
        }
        let now = self.clock.now();
        match self.log().truncate_fully_and_start_at(now, at) {
            Ok(()) => {
                self.model.start_over(at);
                self.pending = Pending::Nothing;
                self.high_watermark = at;
                self.seen = Edges { start: at, end: at };
            }
            Err(error) => self.failed("start over", &error),
        }
    }

    pub(super) fn delete_records(&mut self) {
        let readable = (self.high_watermark - self.model.start).max(0) as u64;
        let upto = Offset(self.model.start.0 + self.random.between(0, readable) as i64);
        match self.log().delete_records(upto) {
            Ok(start) if start == upto => {
                self.pending = Pending::Start(upto);
                self.model.start = upto;
                if self.keep_log_start(upto) {
                    self.pending = Pending::Nothing;
                }
            }
            other => self.complain("delete records", format!("..{upto}: {other:?}")),
        }
    }

    pub(super) fn retain(&mut self) {
        let now = self.clock.now();
        let before = Edges { start: self.model.start, end: self.model.end };
        let bytes_before = self.log().size_bytes();
        let high_watermark = self.high_watermark;
        self.pending = Pending::Start(high_watermark.max(before.start));
        let retained = self.log().retain(now, high_watermark);
        self.trace.event(format!("retain below {high_watermark}: {retained:?}"));
        match retained {
            Ok(_) => {
                let start = self.log().start();
                self.model.start = start;
                self.pending = Pending::Nothing;
                self.retention = Some(Retention { before, bytes_before, start, high_watermark, now });
            }
            Err(LookupError::Disk(error)) => self.failed("retain", &error),
            Err(error) => self.complain("retain", error.to_string()),
        }
    }

    /// What a cut allows to go back.
    fn lower(&mut self, edges: Edges) {
        self.seen = Edges { start: self.seen.start.min(edges.start), end: edges.end };
        self.high_watermark = self.high_watermark.min(edges.end);
        if self.promised.log_start > edges.start {
            self.keep_log_start(edges.start);
        }
    }
}
