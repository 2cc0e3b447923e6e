//! What is told of a run while it goes on.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use bench::hlog::Hlog;

use super::super::tally::{Tally, Window};
use crate::progress::Progress;

/// Where a run is shown while it goes on.
pub(super) struct Show<'a> {
    pub(super) started: Duration,
    pub(super) progress: Progress,
    pub(super) hlog: Option<Hlog>,
    pub(super) out: &'a mut dyn Write,
}

impl Show<'_> {
    /// Says when the steady state begins, and a line for each interval.
    pub(super) fn tick(&mut self, tally: &Tally, now: Duration, interval: Duration) -> Result<()> {
        self.progress.set(tally.settled());
        self.say_steady(tally)?;
        if tally.until_next_line(now, interval).is_zero() {
            let window = tally.take_window(now);
            self.progress.line(self.out, &window.stats.window_line(now))?;
            self.log(&window)?;
        }
        Ok(())
    }

    pub(super) fn end(mut self, tally: &Tally, now: Duration) -> Result<()> {
        self.progress.end();
        self.say_steady(tally)?;
        let window = tally.take_window(now);
        self.log(&window)?;
        self.hlog.map_or(Ok(()), Hlog::finish)
    }

    fn say_steady(&mut self, tally: &Tally) -> Result<()> {
        if tally.became_steady() {
            self.progress.line(self.out, "In steady state.")?;
        }
        tally.take_warm_up().map_or(Ok(()), |window| self.log(&window))
    }

    fn log(&mut self, window: &Window) -> Result<()> {
        let Some(hlog) = &mut self.hlog else { return Ok(()) };
        let from = window.stats.started().saturating_sub(self.started);
        let to = window.ended.saturating_sub(self.started);
        let tags = if window.is_warm_up {
            (Some("warmup"), Some("warmup-service"))
        } else {
            (None, Some("service"))
        };
        hlog.write(from, to, tags.0, &window.stats.latency)?;
        hlog.write(from, to, tags.1, &window.stats.service)
    }
}
