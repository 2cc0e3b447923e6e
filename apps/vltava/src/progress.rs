//! How far a long command has come: one line on a terminal, written over again and again.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// From one look to the next; and before the first, so that what is short is done in silence.
const INTERVAL: Duration = Duration::from_millis(500);

/// Between two looks at the clock, where each record is told of.
const RECORDS_BETWEEN: u64 = 256;

/// The line. It goes to stderr.
pub(crate) struct Progress {
    is_wanted: bool,
    is_shown: bool,
    began: Instant,
    next: Instant,
    records: u64,
    bytes: u64,
    records_next: u64,
}

impl Progress {
    /// Begins now. Only a terminal is written to, and only if it is wanted.
    pub(crate) fn begin(is_wanted: bool) -> Self {
        let now = Instant::now();
        Self {
            is_wanted: is_wanted && io::stderr().is_terminal(),
            is_shown: false,
            began: now,
            next: now + INTERVAL,
            records: 0,
            bytes: 0,
            records_next: 0,
        }
    }

    /// So many records of so many bytes more.
    #[inline]
    pub(crate) fn add(&mut self, records: u64, bytes: u64) {
        self.records += records;
        self.bytes += bytes;
        if self.is_wanted && self.records >= self.records_next {
            self.look();
        }
    }

    fn look(&mut self) {
        self.records_next = self.records + RECORDS_BETWEEN;
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        self.is_shown = true;
        self.say(&format!("\r\x1b[K{}", self.in_words(now - self.began)));
    }

    /// What it came to.
    pub(crate) fn in_words(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        let (mb, rate) = (self.bytes as f64 / 1e6, self.records as f64 / seconds.max(1e-3));
        format!("{} records, {mb:.1} MB in {seconds:.1} s, {rate:.0} records/s", self.records)
    }

    /// Takes the line away.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            self.say("\r\x1b[K");
        }
    }

    fn say(&self, text: &str) {
        let mut stderr = io::stderr().lock();
        // Whoever closed the terminal does not miss it.
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_and_is_silent_where_nobody_looks() {
        let mut progress = Progress::begin(false);
        progress.add(1_500, 3_000_000);
        progress.add(500, 0);
        let said = progress.in_words(Duration::from_secs(4));
        assert_eq!(said, "2000 records, 3.0 MB in 4.0 s, 500 records/s");
        assert!(!progress.is_shown);
    }
}
