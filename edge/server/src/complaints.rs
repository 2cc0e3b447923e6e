//! What peers do wrong is worth a line in the log, but not a line each time: whoever can connect could
//! fill the disk with them.

use std::time::Duration;

use parking_lot::Mutex;

/// Enough to see what is wrong, and a few megabytes a day.
const LINES_MAX: u32 = 20;
const WINDOW: Duration = Duration::from_secs(10);

/// Counts what was said.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    since: Duration,
    lines: u32,
    unsaid: u64,
}

impl Complaints {
    /// Whether to say one more at this time: then, how many were left unsaid before it.
    pub(crate) fn next(&self, elapsed: Duration) -> Option<u64> {
        let mut said = self.0.lock();
        if elapsed.saturating_sub(said.since) >= WINDOW {
            (said.since, said.lines) = (elapsed, 0);
        }
        if said.lines >= LINES_MAX {
            said.unsaid += 1;
            return None;
        }
        said.lines += 1;
        Some(std::mem::take(&mut said.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_in_a_window_and_the_others_are_counted() {
        let complaints = Complaints::default();
        let said = (0..100).filter(|_| complaints.next(Duration::from_secs(1)).is_some()).count();
        assert_eq!(said, LINES_MAX as usize);
        assert_eq!(complaints.next(Duration::from_secs(12)), Some(80));
        assert_eq!(complaints.next(Duration::from_secs(12)), Some(0));
    }
}
