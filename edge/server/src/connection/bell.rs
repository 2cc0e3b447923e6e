//! The bell of a connection, and how it is rung from another thread.
//!
//! One flush commits what hundreds of connections of an I/O thread wait for, and to wake a task of another thread costs
//! a system call. So who rings leaves the bells with the thread's ringer, and rouses that alone, once.
//!
//! ```text
//!   flush thread ── bell, bell, bell ─▶ ringer ── on its own thread ─▶ connection, connection, connection
//!                   └─ the first one rouses it
//! ```

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use broker::parked::Wake;
use parking_lot::Mutex;
use tokio::sync::Notify;

thread_local! {
    static RINGER: RefCell<Option<Arc<Ringer>>> = const { RefCell::new(None) };
}

/// Rung by partitions, heard by the connection: while it waits, and when it asks.
pub(super) struct Bell {
    rang: AtomicBool,
    ringing: Arc<Notify>,
    ringer: Arc<Ringer>,
}

impl Bell {
    /// The bell of a connection that lives on this thread.
    pub(super) fn new() -> Arc<Self> {
        let rang = AtomicBool::new(false);
        Arc::new(Self { rang, ringing: Arc::default(), ringer: Ringer::here() })
    }

    /// Whether it rang since the last call.
    pub(super) fn rang(&self) -> bool {
        self.rang.swap(false, Ordering::AcqRel)
    }

    /// Waits until it rings. May be early, never late. Whoever waited asks whether it rang before it waits again.
    pub(super) async fn ringing(&self) {
        self.ringing.notified().await;
    }
}

impl Wake for Bell {
    fn wake(&self) {
        // In this order: who is woken finds that it rang. If it rang before and nobody has asked since, they will.
        if !self.rang.swap(true, Ordering::AcqRel) {
            self.ringer.ring(&self.ringing);
        }
    }
}

/// Rings the bells of one thread. Each is left with it once at most until its connection has asked.
#[derive(Default)]
struct Ringer {
    left: Mutex<Vec<Arc<Notify>>>,
    roused: Notify,
    /// Whether the runtime that it was on is gone, and all connections with it.
    is_over: AtomicBool,
}

impl Ringer {
    /// The one of this thread. Its task ends with the runtime.
    fn here() -> Arc<Self> {
        RINGER.with_borrow_mut(|known| {
            if let Some(ringer) = known.as_ref().filter(|it| !it.is_over.load(Ordering::Acquire)) {
                return Arc::clone(ringer);
            }
            let ringer = Arc::<Self>::default();
            tokio::spawn(run(Task(Arc::clone(&ringer))));
            Arc::clone(known.insert(ringer))
        })
    }

    fn is_here(&self) -> bool {
        RINGER.with_borrow(|known| known.as_ref().is_some_and(|it| std::ptr::eq(Arc::as_ptr(it), self)))
    }

    fn ring(&self, bell: &Arc<Notify>) {
        if self.is_here() {
            return bell.notify_one();
        }
        let mut left = self.left.lock();
        left.push(Arc::clone(bell));
        let is_first = left.len() == 1;
        drop(left);
        if is_first {
            self.roused.notify_one();
        }
    }
}

/// What a ringer does, for as long as its runtime is there.
struct Task(Arc<Ringer>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

async fn run(task: Task) {
    loop {
        task.0.roused.notified().await;
        let left = std::mem::take(&mut *task.0.left.lock());
        left.iter().for_each(|bell| bell.notify_one());
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    async fn rung(bell: &Bell) {
        while !bell.rang() {
            tokio::time::timeout(Duration::from_secs(20), bell.ringing()).await.expect("it is rung");
        }
    }

    #[test]
    fn bells_are_heard_from_here_and_from_elsewhere_and_after_the_runtime_was_another() {
        for _ in 0..2 {
            runtime().block_on(async {
                let bells: Vec<_> = (0..100).map(|_| Bell::new()).collect();
                for _ in 0..100 {
                    let far: Vec<_> = bells.iter().map(Arc::clone).collect();
                    let ringing = thread::spawn(move || far.iter().for_each(|bell| bell.wake()));
                    for bell in &bells {
                        rung(bell).await;
                    }
                    ringing.join().unwrap();
                    bells[7].wake();
                    rung(&bells[7]).await;
                    assert!(!bells.iter().any(|bell| bell.rang()), "nobody rang any more");
                }
            });
        }
    }
}
