//! The two clocks of this process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::{Now, TimestampMs};

/// A reading of the clocks, and the processor's counter at that moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    ticks: u64,
    now: Now,
}

/// For so many ticks a reading is good: a microsecond at 2 GHz, and no processor of today counts slower
/// than half of that.
const FRESH_TICKS: u64 = 2_000;

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Without such a counter every reading is a new one.
#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    use std::sync::atomic::AtomicU64;
    static NEXT: AtomicU64 = AtomicU64::new(FRESH_TICKS);
    NEXT.fetch_add(FRESH_TICKS, Ordering::Relaxed)
}

impl Default for Reading {
    fn default() -> Self {
        // Older than any moment: a counter that begins near 0 has gone on by more than enough.
        Self { ticks: ticks().wrapping_sub(FRESH_TICKS), now: Now::new(Duration::ZERO, TimestampMs(0)) }
    }
}

/// Reads the time for those who must not.
///
/// A record is stamped when it is sent, so the time is read once for each: the wall clock is the
/// steady one and their distance, which [`Clock::set`] measures anew from time to time.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// What the wall clock said at the start, in nanoseconds, had it gone steadily since.
    wall_at_start_ns: AtomicI64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        // One start for all clients of the process, so that their times can be compared.
        static START: OnceLock<Instant> = OnceLock::new();
        let start = *START.get_or_init(Instant::now);
        let clock = Self { start, wall_at_start_ns: AtomicI64::new(0) };
        clock.set();
        clock
    }

    /// Looks at the wall clock, which people and NTP may have moved.
    pub(crate) fn set(&self) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since_start = wall.as_nanos() as i128 - self.start.elapsed().as_nanos() as i128;
        self.wall_at_start_ns.store(i64::try_from(since_start).unwrap_or(0), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn now(&self) -> Now {
        let elapsed = self.start.elapsed();
        let wall_ns = self.wall_at_start_ns.load(Ordering::Relaxed) + elapsed.as_nanos() as i64;
        Now::new(elapsed, TimestampMs(wall_ns / 1_000_000))
    }

    /// The same, read anew only if the time may have gone on by more than a microsecond or two since the
    /// last reading: many records are sent within one.
    #[inline]
    pub(crate) fn now_cached(&self, last: &mut Reading) -> Now {
        let ticks = ticks();
        if ticks.wrapping_sub(last.ticks) >= FRESH_TICKS {
            *last = Reading { ticks, now: self.now() };
        }
        last.now
    }
}
