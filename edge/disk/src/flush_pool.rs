//! Group commit: a few threads that flush what was asked for, each thing once.
//!
//! Whoever wants something durable asks by its [`FlushTicket`]. Those who ask before its flush has
//! begun share it; those who ask while it runs share the next one, which begins when this one ends.
//! So a disk that takes long makes groups larger, and nobody has to guess how long to wait.
//!
//! ```text
//!              ask            a thread takes it          ask
//!   idle ───────────▶ queued ───────────────▶ running ───────▶ again
//!    ▲                  ▲                         │              │
//!    └──────────────────┼─────────────────────────┘ done         │ done
//!                       └────────────────────────────────────────┘
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const IDLE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const AGAIN: u8 = 3;

/// Something that can be made durable, as often as it is asked for.
///
/// A flush covers all that was written before it began. It is never run twice at once.
pub trait FlushJob: Send + Sync {
    /// Makes it durable and tells whom it concerns. May block.
    fn flush(&self);
}

impl<F: Fn() + Send + Sync> FlushJob for F {
    fn flush(&self) {
        self();
    }
}

/// The flush threads of one log directory. Dropping the pool runs what was asked for and ends them.
pub struct FlushPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The place of one job in the pool.
///
/// The queue holds each ticket at most once, so its length is bounded by the tickets there are.
#[derive(Clone)]
pub struct FlushTicket {
    slot: Arc<Slot>,
    shared: Arc<Shared>,
}

struct Slot {
    state: AtomicU8,
    /// Weak, for what is flushed usually keeps its own ticket.
    job: Weak<dyn FlushJob>,
}

struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    waiting: AtomicUsize,
    observe: Box<dyn Fn(Duration) + Send + Sync>,
}

#[derive(Default)]
struct Queue {
    slots: VecDeque<Arc<Slot>>,
    stopping: bool,
}

impl FlushPool {
    /// Enough to keep a disk with a queue busy without each file waiting for the one before: file systems with a
    /// journal write it once for all that wait at the same time.
    pub const THREADS_DEFAULT: usize = 8;

    /// Starts the threads of the directory called `name`. `observe` gets the time each flush took.
    pub fn start(
        name: &str,
        threads: usize,
        observe: impl Fn(Duration) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        assert!(threads > 0, "nobody would flush");
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            waiting: AtomicUsize::new(0),
            observe: Box::new(observe),
        });
        let mut pool = Self { shared, threads: Vec::new() };
        for index in 0..threads {
            let shared = pool.shared.clone();
            let thread = std::thread::Builder::new().name(format!("flush-{name}-{index}"));
            pool.threads.push(thread.spawn(move || shared.run())?);
        }
        Ok(pool)
    }

    /// Reserves a place for a job. Once the job is dropped, asking for it does nothing.
    pub fn register(&self, job: Weak<dyn FlushJob>) -> FlushTicket {
        let slot = Arc::new(Slot { state: AtomicU8::new(IDLE), job });
        FlushTicket { slot, shared: self.shared.clone() }
    }

    /// How many jobs wait for a thread.
    pub fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Runs what was asked for, then ends the threads. What is asked for later is not run.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A panic in a job was caught and reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Drop for FlushPool {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for FlushPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FlushPool").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

impl FlushTicket {
    /// Asks for a flush that begins after this call. Whether a flush was joined that another one
    /// had asked for.
    pub fn ask(&self) -> bool {
        let before = self.slot.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| match state {
            IDLE => Some(QUEUED),
            RUNNING => Some(AGAIN),
            // A write that says the same: it orders what the caller wrote before the flush.
            other => Some(other),
        });
        let joined = before.is_ok_and(|state| state == QUEUED || state == AGAIN);
        if before == Ok(IDLE) {
            self.shared.push(self.slot.clone());
        }
        joined
    }
}

impl fmt::Debug for FlushTicket {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FlushTicket").field("state", &self.slot.state).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Every change of the queue is complete before anything can panic.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, slot: Arc<Slot>) {
        let mut queue = self.lock();
        queue.slots.push_back(slot);
        self.waiting.store(queue.slots.len(), Ordering::Relaxed);
        drop(queue);
        self.work.notify_one();
    }

    fn pop(&self) -> Option<Arc<Slot>> {
        let mut queue = self.lock();
        loop {
            if let Some(slot) = queue.slots.pop_front() {
                self.waiting.store(queue.slots.len(), Ordering::Relaxed);
                return Some(slot);
            }
            if queue.stopping {
                return None;
            }
            queue = self.work.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self) {
        while let Some(slot) = self.pop() {
            slot.state.swap(RUNNING, Ordering::AcqRel);
            if let Some(job) = slot.job.upgrade() {
                let began = Instant::now();
                // A panic is about one job; the others of this directory still count on this thread.
                let _ = catch_unwind(AssertUnwindSafe(|| job.flush()));
                (self.observe)(began.elapsed());
            }
            let again =
                slot.state.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_err();
            if again {
                slot.state.swap(QUEUED, Ordering::AcqRel);
                self.push(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests;
