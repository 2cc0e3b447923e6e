//! The threads on which connections live.
//!
//! Each has a current-thread runtime of its own, so a connection never moves and never waits for
//! another thread's lock.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use crate::stop::{Stop, StopSwitch};

/// Cold reads and nothing else go to a runtime's blocking pool: more of them at once only seek more.
const BLOCKING_THREADS_MAX: usize = 4;

/// The running I/O threads. Dropping them ends every task on them.
#[derive(Debug)]
pub struct IoThreads {
    handles: Vec<Handle>,
    stop: StopSwitch,
    threads: Vec<JoinHandle<()>>,
    next: AtomicUsize,
}

impl IoThreads {
    /// Half the cores, at least one: with as many threads as cores, clients on the same machine and
    /// the flush threads wait for a core.
    pub fn count_default() -> usize {
        std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1))
    }

    /// Starts `count` threads.
    pub fn start(count: usize) -> io::Result<Self> {
        assert!(count > 0, "a broker needs an I/O thread");
        let mut io = Self {
            handles: Vec::with_capacity(count),
            stop: StopSwitch::new(),
            threads: Vec::new(),
            next: AtomicUsize::new(0),
        };
        for index in 0..count {
            io.start_one(index)?;
        }
        Ok(io)
    }

    /// How many threads there are.
    pub fn count(&self) -> usize {
        self.handles.len()
    }

    /// The thread whose turn it is, round robin.
    pub fn next(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed) % self.handles.len()
    }

    /// Starts a task on a thread. A panic ends the task and nothing else.
    pub fn spawn_on(&self, thread: usize, task: impl Future<Output = ()> + Send + 'static) {
        self.handles[thread % self.handles.len()].spawn(task);
    }

    /// The handle of a thread's runtime.
    pub fn handle(&self, thread: usize) -> &Handle {
        &self.handles[thread % self.handles.len()]
    }

    /// Ends all tasks and waits for the threads.
    pub fn stop(mut self) {
        self.end();
    }

    fn start_one(&mut self, index: usize) -> io::Result<()> {
        let runtime =
            Builder::new_current_thread().enable_all().max_blocking_threads(BLOCKING_THREADS_MAX).build()?;
        self.handles.push(runtime.handle().clone());
        let stop = self.stop.watch();
        let thread = std::thread::Builder::new().name(format!("io-{index}"));
        self.threads.push(thread.spawn(move || run(runtime, stop))?);
        Ok(())
    }

    fn end(&mut self) {
        self.stop.stop();
        for thread in self.threads.drain(..) {
            // A panic outside a task was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Drop for IoThreads {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(runtime: Runtime, mut stop: Stop) {
    runtime.block_on(stop.stopped());
    // A read from a dead disk must not keep the process from ending.
    runtime.shutdown_timeout(Duration::from_secs(1));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn tasks_run_where_they_were_put() {
        let io = IoThreads::start(2).unwrap();
        let (sender, names) = mpsc::channel();
        for thread in [0, 1, 0] {
            let sender = sender.clone();
            io.spawn_on(thread, async move {
                sender.send((thread, std::thread::current().name().unwrap().to_owned())).unwrap();
            });
        }
        drop(sender);
        let mut names: Vec<_> = names.iter().collect();
        names.sort();
        assert_eq!(names, [(0, "io-0".to_owned()), (0, "io-0".to_owned()), (1, "io-1".to_owned())]);
        io.stop();
    }

    #[test]
    fn threads_take_turns() {
        let io = IoThreads::start(3).unwrap();
        let turns: Vec<_> = (0..5).map(|_| io.next()).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn a_panic_ends_its_task_only() {
        let io = IoThreads::start(1).unwrap();
        let (sender, done) = mpsc::channel();
        io.spawn_on(0, async { panic!("on purpose") });
        io.spawn_on(0, async move { sender.send(()).unwrap() });
        done.recv().unwrap();
    }

    #[test]
    fn stopping_ends_tasks_that_wait() {
        struct Last(mpsc::Sender<()>);
        impl Drop for Last {
            fn drop(&mut self) {
                let _ = self.0.send(());
            }
        }
        let io = IoThreads::start(1).unwrap();
        let (sender, dropped) = mpsc::channel();
        let last = Last(sender);
        io.spawn_on(0, async move {
            let _last = last;
            std::future::pending::<()>().await;
        });
        io.stop();
        dropped.recv().unwrap();
    }
}
