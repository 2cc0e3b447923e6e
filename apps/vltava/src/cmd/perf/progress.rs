//! How far a run is, for people who look at it: on stderr, and only if that is a terminal.

use std::fmt;
use std::io::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

pub(super) struct Progress {
    bar: ProgressBar,
    is_shown: bool,
}

impl Progress {
    /// Of so many records. It hides by itself where nobody looks.
    pub(super) fn of(records: u64) -> Self {
        let bar = ProgressBar::new(records);
        let template = "{wide_bar} {human_pos} of {human_len} records, {rate}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            // A line that cannot be written is not shown.
            let rate = |state: &ProgressState, line: &mut dyn fmt::Write| {
                let _ = write!(line, "{:.0}/s", state.per_sec());
            };
            bar.set_style(style.with_key("rate", rate));
        }
        let is_shown = !bar.is_hidden();
        Self { bar, is_shown }
    }

    /// How long may pass without a new position.
    pub(super) fn interval(&self) -> Duration {
        if self.is_shown { Duration::from_millis(100) } else { Duration::MAX }
    }

    #[inline]
    pub(super) fn set(&self, records: u64) {
        if self.is_shown {
            self.bar.set_position(records);
        }
    }

    /// Writes a line that the bar does not stand in the way of.
    pub(super) fn line(&self, out: &mut dyn Write, line: &str) -> std::io::Result<()> {
        self.bar.suspend(|| {
            writeln!(out, "{line}")?;
            out.flush()
        })
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
