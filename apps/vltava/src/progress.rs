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
    /// How many there will be, if that is known.
    records_total: Option<u64>,
}

impl Progress {
    /// Begins now, towards so many records.
    pub(crate) fn of(records: u64) -> Self {
        let mut progress = Self::begin(true);
        progress.records_total = Some(records);
        progress
    }

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
            records_total: None,
        }
    }

    /// How long may pass until it is told how far things are.
    pub(crate) fn interval(&self) -> Duration {
        if self.is_wanted { INTERVAL } else { Duration::MAX }
    }

    /// So many records in all.
    #[inline]
    pub(crate) fn set(&mut self, records: u64) {
        if self.is_wanted {
            self.records = records;
            self.look();
        }
    }

    /// Writes a line that it does not stand in the way of.
    pub(crate) fn line(&mut self, out: &mut dyn Write, line: &str) -> io::Result<()> {
        self.end();
        writeln!(out, "{line}")?;
        out.flush()
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
        if let Some(total) = self.records_total {
            // Before the first record nobody knows.
            let left = if self.records == 0 { 0.0 } else { total.saturating_sub(self.records) as f64 / rate };
            return format!("{} of {total} records, {rate:.0} records/s, {left:.0} s left", self.records);
        }
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

    #[test]
    fn it_tells_how_much_is_left() {
        let mut progress = Progress::of(10_000);
        progress.records = 2_500;
        assert_eq!(
            progress.in_words(Duration::from_secs(5)),
            "2500 of 10000 records, 500 records/s, 15 s left"
        );
        progress.records = 0;
        assert_eq!(progress.in_words(Duration::ZERO), "0 of 10000 records, 0 records/s, 0 s left");
        let mut out = Vec::new();
        progress.line(&mut out, "a line").expect("it is written to memory");
        assert_eq!(out, b"a line\n");
    }
}
