//! What others wait for, and since when.
//!
//! A disk that fails says so; one that hangs says nothing, and whoever waits for it cannot say it either. So who holds a
//! partition, or has it flushed for somebody who waits, leaves the time when that began where others see it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// As many are seen at a time. Threads beyond it share places: of two in one place the first is seen.
const PLACES: usize = 64;

/// What is under way.
#[derive(Debug)]
pub(crate) struct Waits {
    since: Instant,
    places: [Place; PLACES],
}

/// When that of a place began, in nanoseconds since all of it and one more; 0 if there is none. Threads do not share
/// lines of the processor's cache.
#[derive(Debug)]
#[repr(align(64))]
struct Place(AtomicU64);

/// One that is under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct Wait<'a>(Option<&'a AtomicU64>);

/// Flushes that somebody waits for. A disk that is only slow ends some of them.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    waits: Waits,
    /// When the last one ended, as the waits count.
    ended: AtomicU64,
}

/// A flush that is under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct FlushWait<'a> {
    flushes: &'a Flushes,
    _wait: Wait<'a>,
}

impl Default for Waits {
    fn default() -> Self {
        Self { since: Instant::now(), places: [const { Place(AtomicU64::new(0)) }; PLACES] }
    }
}

impl Waits {
    /// Takes note of what this thread begins.
    pub(crate) fn begin(&self) -> Wait<'_> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static PLACE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % PLACES;
        }
        let place = &self.places[PLACE.with(|place| *place)].0;
        // What begins within it is part of it.
        let is_first = place.compare_exchange(0, self.now(), Ordering::Relaxed, Ordering::Relaxed).is_ok();
        Wait(is_first.then_some(place))
    }

    /// How long the longest of them has been under way; zero if there is none.
    pub(crate) fn longest(&self) -> Duration {
        self.longest_since(0)
    }

    /// The same, but for what was before.
    fn longest_since(&self, at: u64) -> Duration {
        let begun = self.places.iter().map(|place| place.0.load(Ordering::Relaxed));
        let first = begun.filter(|begun| *begun > 0).min();
        first.map_or(Duration::ZERO, |first| Duration::from_nanos(self.now().saturating_sub(first.max(at))))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).map_or(u64::MAX, |nanos| nanos.saturating_add(1))
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(0, Ordering::Relaxed);
        }
    }
}

impl Flushes {
    /// Takes note of a flush that this thread begins.
    pub(crate) fn begin(&self) -> FlushWait<'_> {
        FlushWait { flushes: self, _wait: self.waits.begin() }
    }

    /// How long none of those under way has ended; zero if there is none.
    pub(crate) fn longest(&self) -> Duration {
        self.waits.longest_since(self.ended.load(Ordering::Relaxed))
    }
}

impl Drop for FlushWait<'_> {
    fn drop(&mut self) {
        self.flushes.ended.store(self.flushes.waits.now(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spins until the clock has moved.
    fn until(of: impl Fn() -> Duration, longest: Duration) {
        while of() < longest {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn the_longest_of_all_threads_counts_until_it_ends() {
        let waits = Waits::default();
        assert_eq!(waits.longest(), Duration::ZERO);
        let first = waits.begin();
        until(|| waits.longest(), Duration::from_millis(2));
        drop(waits.begin());
        assert!(waits.longest() >= Duration::from_millis(2), "what begins within it does not end it");
        let (began, begun) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let (waits, since) = (&waits, Instant::now());
            scope.spawn(move || {
                let _second = waits.begin();
                began.send(()).unwrap();
                let _ = ends.recv();
            });
            begun.recv().unwrap();
            assert!(waits.longest() >= Duration::from_millis(2), "the first began before");
            drop(first);
            assert!(waits.longest() <= since.elapsed(), "only the second is left");
            until(|| waits.longest(), Duration::from_millis(1));
            drop(end);
        });
        assert_eq!(waits.longest(), Duration::ZERO);
    }

    #[test]
    fn a_flush_that_ends_is_a_sign_of_life() {
        let flushes = Flushes::default();
        let (began, begun) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let flushes = &flushes;
            scope.spawn(move || {
                let _slow = flushes.begin();
                began.send(()).unwrap();
                let _ = ends.recv();
            });
            begun.recv().unwrap();
            until(|| flushes.longest(), Duration::from_millis(2));
            let since = Instant::now();
            drop(flushes.begin());
            assert!(flushes.longest() <= since.elapsed(), "another one ended since");
            until(|| flushes.longest(), Duration::from_millis(1));
            drop(end);
        });
        assert_eq!(flushes.longest(), Duration::ZERO);
    }
}
