//! What is measured shares the disk with nothing that was before.
//!
//! ```text
//!   topics of runs before ── gone from the directories? ──▶ all that was written, on the disk? (syncfs)
//!                                                      ──▶ the disk told of all that is free again? (discard)
//! ```
//!
//! A file system that is mounted with `discard` tells the disk in the background what the files had that were deleted:
//! for seconds after gigabytes of them, at the cost of the disk and of the processors that its machine has for it. So
//! whoever wrote more to the disk in the run before would pay for that in the next.

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use disk::Device;

use super::Sources;

/// Brokers have deleted the logs of a topic by then; longer than that nobody waits.
const GONE_MAX: Duration = Duration::from_secs(60);
/// From one look to the next.
const LOOK: Duration = Duration::from_millis(50);
/// The disk has been told all if it is told nothing for so long.
const QUIET: Duration = Duration::from_millis(200);
/// Longer than that nobody waits.
const QUIET_MAX: Duration = Duration::from_secs(20);
/// Logs are in the directories of brokers, which are in one of theirs.
const DEPTH: u32 = 2;

impl Sources<'_> {
    /// Waits until the disk is done with all that was before, and logs of topics whose names begin so are gone; or until
    /// it is to stop.
    pub fn await_gone(&self, topics: &str, stop: &AtomicBool) -> Result<()> {
        let Some(dir) = self.dir else { return Ok(()) };
        look_until(stop, |waited| waited >= GONE_MAX || !holds(dir, topics, DEPTH));
        self.settle(stop)
    }

    /// Waits until the disk is done with all that was written, and with what was deleted, or until it is to stop: what is
    /// measured next would share it with that.
    pub fn settle(&self, stop: &AtomicBool) -> Result<()> {
        let Some(dir) = self.dir else { return Ok(()) };
        let settled = File::open(dir).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
        settled.with_context(|| {
            format!("what was written to {} could not be brought to its disk", dir.display())
        })?;
        if let Some(device) = Device::under(dir) {
            let mut still = Still::default();
            look_until(stop, |waited| {
                let discards = device.counts().map_or(0, |counts| counts.discards);
                waited >= QUIET_MAX || still.is_over(waited, discards)
            });
        }
        Ok(())
    }
}

/// Looks until that says that it is over, which is told how long that has been, or until it is to stop. Neither brokers
/// nor the system tell of what is looked for.
fn look_until(stop: &AtomicBool, mut is_over: impl FnMut(Duration) -> bool) {
    let since = Instant::now();
    while !stop.load(Ordering::Relaxed) && !is_over(since.elapsed()) {
        std::thread::sleep(LOOK);
    }
}

/// Whether a directory has some whose name begins so, down to a depth. One that cannot be read has none.
fn holds(dir: &Path, start: &str, depth: u32) -> bool {
    let Ok(entries) = fs::read_dir(dir) else { return false };
    entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).any(|entry| {
        entry.file_name().to_string_lossy().starts_with(start)
            || depth > 1 && holds(&entry.path(), start, depth - 1)
    })
}

/// A number that is to stand still.
#[derive(Default)]
struct Still {
    last: Option<u64>,
    since: Duration,
}

impl Still {
    /// Whether it has stood still for [`QUIET`], or never grew.
    fn is_over(&mut self, now: Duration, number: u64) -> bool {
        if self.last != Some(number) {
            (self.last, self.since) = (Some(number), now);
        }
        number == 0 || now.saturating_sub(self.since) >= QUIET
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_of_topics_are_seen_where_brokers_have_them_and_nowhere_else() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let dir = |name: &str| fs::create_dir_all(folder.path().join(name)).expect("there is room");
        dir("data-1/other-0");
        fs::write(folder.path().join("data-1/bench-file"), "").expect("there is room");
        assert!(!holds(folder.path(), "bench-", DEPTH));
        dir("data-1/bench-1-0.0123-delete");
        assert!(holds(folder.path(), "bench-", DEPTH) && !holds(folder.path(), "bench-", 1));
        assert!(!holds(Path::new("/no/such/folder"), "bench-", DEPTH));
    }

    #[test]
    fn what_grows_is_waited_for_and_what_never_did_is_not() {
        let mut still = Still::default();
        let at = |ms| Duration::from_millis(ms);
        for (ms, number) in [(0, 7), (150, 8), (300, 8), (349, 8), (349, 9), (548, 9)] {
            assert!(!still.is_over(at(ms), number), "{number} after {ms} ms");
        }
        assert!(still.is_over(at(549), 9));
        assert!(Still::default().is_over(at(0), 0), "the disk is told nothing");
    }

    #[test]
    fn who_is_to_stop_waits_for_nothing() {
        look_until(&AtomicBool::new(true), |_| panic!("it does not look"));
    }
}
