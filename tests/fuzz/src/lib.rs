//! An allocator that counts, so that a target can say what an input may cost.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts what is allocated, and the most there was at once since [`Counting::begin`].
pub struct Counting {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl Counting {
    /// An allocator that has counted nothing.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self { now: AtomicUsize::new(0), peak: AtomicUsize::new(0) }
    }

    /// Forgets the peak; what is allocated now.
    pub fn begin(&self) -> usize {
        let now = self.now.load(Relaxed);
        self.peak.store(now, Relaxed);
        now
    }

    /// How far above `began` it went.
    pub fn peak_since(&self, began: usize) -> usize {
        self.peak.load(Relaxed).saturating_sub(began)
    }

    /// Does something, and fails if it ever took more than `bytes_max` more than before.
    pub fn within<T>(&self, bytes_max: usize, act: impl FnOnce() -> T) -> T {
        let began = self.begin();
        let done = act();
        let peak = self.peak_since(began);
        assert!(peak <= bytes_max, "{peak} bytes were allocated, {bytes_max} are allowed");
        done
    }

    fn add(&self, bytes: usize) {
        let now = self.now.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(now, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it is; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        self.now.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }
}
