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
use std::thread::sleep;
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
/// Logs are in directories of a broker's data, which are in one of the run's.
const DEPTH: u32 = 3;

impl Sources<'_> {
    /// Waits until the disk is done with all that was before, and logs of topics whose names begin so are gone.
    pub fn await_gone(&self, topics: &str) -> Result<()> {
        let Some(dir) = self.dir else { return Ok(()) };
        let until = Instant::now() + GONE_MAX;
        while holds(dir, topics, DEPTH) && Instant::now() < until {
            sleep(LOOK);
        }
        self.settle()
    }

    /// Waits until the disk is done with all that was written, and with what was deleted: what is measured next would
    /// share it with that.
    pub fn settle(&self) -> Result<()> {
        let Some(dir) = self.dir else { return Ok(()) };
        let settled = File::open(dir).and_then(|dir| Ok(rustix::fs::syncfs(dir)?));
        settled.with_context(|| {
            format!("what was written to {} could not be brought to its disk", dir.display())
        })?;
        if let Some(device) = Device::under(dir) {
            await_quiet(|| device.counts().map_or(0, |counts| counts.discards));
        }
        Ok(())
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

/// Waits until a number stands still, which it does at once where it never grew.
fn await_quiet(count: impl Fn() -> u64) {
    let until = Instant::now() + QUIET_MAX;
    let (mut last, mut since) = (count(), Instant::now());
    while last > 0 && since.elapsed() < QUIET && Instant::now() < until {
        sleep(LOOK);
        let now = count();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn logs_of_topics_are_seen_where_brokers_have_them_and_nowhere_else() {
        let folder = tempfile::tempdir().expect("there is a place for files");
        let dir = |name: &str| fs::create_dir_all(folder.path().join(name)).expect("there is room");
        dir("run/data-1/other-0");
        fs::write(folder.path().join("run/data-1/bench-file"), "").expect("there is room");
        assert!(!holds(folder.path(), "bench-", DEPTH));
        dir("run/data-1/bench-1-0.0123-delete");
        assert!(holds(folder.path(), "bench-", DEPTH) && !holds(folder.path(), "bench-", 2));
        assert!(!holds(Path::new("/no/such/folder"), "bench-", DEPTH));
    }

    #[test]
    fn what_grows_is_waited_for_and_what_never_did_is_not() {
        let looks = Cell::new(0);
        await_quiet(|| {
            looks.set(looks.get() + 1);
            looks.get().min(5)
        });
        assert!(looks.get() > 5, "it stood still after five: {}", looks.get());
        let looks = Cell::new(0);
        await_quiet(|| {
            looks.set(looks.get() + 1);
            0
        });
        assert_eq!(looks.get(), 1);
    }
}
