//! Waking a thread that sleeps in a poll.

use std::sync::atomic::{AtomicU8, Ordering};

use mio::Waker;

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const RUNG: u8 = 2;

/// Wakes whoever sleeps in the seat; costs a system call only if somebody does.
#[derive(Debug)]
pub(crate) struct Bell {
    state: AtomicU8,
    waker: Waker,
}

impl Bell {
    /// Nobody sleeps yet; `waker` wakes whoever will.
    pub(crate) const fn new(waker: Waker) -> Self {
        Self { state: AtomicU8::new(AWAKE), waker }
    }

    /// Whoever sleeps, or is about to, does not.
    pub(crate) fn ring(&self) {
        if self.state.swap(RUNG, Ordering::SeqCst) == ASLEEP {
            // It fails only where there is no memory left in the kernel; then the next deadline wakes it.
            let _ = self.waker.wake();
        }
    }

    /// Whether to sleep: nobody rang since the last time.
    pub(crate) fn begin_sleep(&self) -> bool {
        self.state.compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// What was rung for is about to be done.
    pub(crate) fn silence(&self) {
        self.state.store(AWAKE, Ordering::SeqCst);
    }
}
