//! What one broker used, whichever process it was meanwhile.
//!
//! What a process used is gone with it. A sum over all brokers would fall by all that one had used that was killed,
//! and hide what the others used in that second; so each is counted for itself, and never back.
//!
//! ```text
//!   process 7   0 ── 100 ── 250   ✝
//!   process 9                     0 ── 30 ── 80
//!   the broker  0 ── 100 ── 250 ─ 250 ─ 280 ── 330
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Usage;

/// A broker that runs here, and what it used.
#[derive(Debug)]
pub struct Tally(Mutex<Counted>);

/// What was counted until the last look.
#[derive(Debug, Default)]
struct Counted {
    pid: u32,
    /// What this process had used by then.
    of_process: Usage,
    /// What all of them used; memory is that of the last.
    of_all: Usage,
}

impl Tally {
    /// Of a broker that is this process.
    pub fn of(pid: u32) -> Self {
        Self(Mutex::new(Counted { pid, ..Counted::default() }))
    }

    /// It was started again, and is another process now.
    pub fn moved_to(&self, pid: u32) {
        self.lock().move_to(pid);
    }

    /// What it used until now, as far as it was looked at: what a process used since the last look before its end is
    /// not known.
    pub fn look(&self) -> Usage {
        let mut counted = self.lock();
        let now = Usage::of(counted.pid);
        counted.look(now)
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    fn move_to(&mut self, pid: u32) {
        (self.pid, self.of_process) = (pid, Usage::default());
    }

    fn look(&mut self, now: Usage) -> Usage {
        let of_all = self.of_all.and(&now.since(&self.of_process));
        self.of_all = Usage { rss_bytes: now.rss_bytes, ..of_all };
        // Of one that is gone nothing is told: it did not begin anew.
        if now != Usage::default() {
            self.of_process = now;
        }
        self.of_all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_killed_and_started_again_is_counted_on() {
        let mut counted = Counted { pid: 7, ..Counted::default() };
        let looks = [
            // process, what it says of itself, what the broker used
            (7, 100, 100),
            (7, 250, 250),
            (7, 0, 250),
            (7, 0, 250),
            (9, 30, 280),
            (9, 80, 330),
        ];
        for (pid, says, expected) in looks {
            let now = Usage {
                cpu_seconds: says as f64,
                rss_bytes: says,
                disk_written_bytes: says,
                ..Usage::default()
            };
            if pid != counted.pid {
                counted.move_to(pid);
            }
            let all = counted.look(now);
            assert_eq!((all.cpu_seconds, all.disk_written_bytes), (expected as f64, expected));
            assert_eq!(all.rss_bytes, says, "memory is what there is now");
        }
    }
}
