//! A broker that does what a test tells it to, on a real socket.
//!
//! ```text
//!   connection: one thread reads a request and says when its answer is due; another waits until then, answers,
//!   and writes down what it answered. What is produced is kept when it is acknowledged.
//! ```

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use client::producer::Producer;

use crate::log::{Lie, Logs, Sent};

/// How it answers what is produced.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manner {
    /// So long after it came, by the number of its first record, counted over all that was produced.
    pub(crate) delay: Option<fn(u64) -> Duration>,
    /// From when that many records had come, nothing is answered for so long.
    pub(crate) stall: Option<(u64, Duration)>,
    /// No more than so many records a second.
    pub(crate) capacity: Option<f64>,
    /// Until that many records had come, a quarter of that.
    pub(crate) cold_until: u64,
    /// So long after it was asked it says where partitions end.
    pub(crate) ends_delay: Option<Duration>,
    /// The time it is asked where partitions end, counted from one, at which it knows that it leads them.
    pub(crate) leads_after: u32,
    /// What it makes and deletes it does twice, and says what came of the second time.
    pub(crate) does_twice: bool,
    /// What becomes of the batch with this record of the first sender.
    pub(crate) lie: Option<(u64, Lie)>,
}

/// A batch that was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledged {
    /// When all of its request had come.
    pub(crate) came: Duration,
    /// When its answer was about to be written.
    pub(crate) answered: Duration,
    pub(crate) records: Vec<Sent>,
    /// What became of it, if it is not what it should have.
    pub(crate) lie: Option<Lie>,
}

/// A broker, until it is dropped.
pub(crate) struct Broker {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What its connections share.
pub(crate) struct Shared {
    pub(crate) port: u16,
    pub(crate) manner: Manner,
    is_over: AtomicBool,
    /// Nothing is sent with it: it has the clock of all clients.
    clock: Producer,
    state: Mutex<State>,
    appended: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) logs: Logs,
    pub(crate) acknowledged: Vec<Acknowledged>,
    /// Of each record that was read, from when it was due until its answer was about to be written.
    pub(crate) read: Vec<Duration>,
    /// How often somebody asked where partitions end.
    pub(crate) asked_for_ends: u32,
    /// Records that came.
    produced: u64,
    stalls_until: Option<Duration>,
    /// When it is done with all that came.
    busy_until: Duration,
    /// It lies once.
    pub(crate) has_lied: bool,
}

/// A request that came.
pub(crate) struct Request {
    pub(crate) frame: Vec<u8>,
    pub(crate) came: Duration,
    due: Duration,
}

impl Broker {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("it has one");
        let clock = Producer::new("127.0.0.1:1").expect("nothing is sent with it");
        let shared = Arc::new(Shared {
            port: address.port(),
            manner,
            is_over: AtomicBool::new(false),
            clock,
            state: Mutex::default(),
            appended: Condvar::new(),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let (shared, stream) = (accepting.clone(), stream.expect("somebody connected"));
                thread::spawn(move || shared.serve(stream));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn servers(&self) -> String {
        self.address.to_string()
    }

    /// What it acknowledged, in that order.
    pub(crate) fn acknowledged(&self) -> Vec<Acknowledged> {
        self.shared.state().acknowledged.clone()
    }

    /// The time of all clients, and its own.
    pub(crate) fn now(&self) -> Duration {
        self.shared.now()
    }

    /// How old records were when they were read.
    pub(crate) fn read(&self) -> Vec<Duration> {
        self.shared.state().read.clone()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // The listener's thread looks once more.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.elapsed()
    }

    fn serve(&self, mut stream: TcpStream) {
        stream.set_nodelay(true).expect("it is a socket");
        let writing = stream.try_clone().expect("it is a socket");
        let (requests, coming) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| self.answer_all(writing, coming));
            // Whoever hangs up is done.
            while let Some(frame) = read_frame(&mut stream) {
                let came = self.now();
                let due = self.state().due(&self.manner, &frame, came);
                if requests.send(Request { frame, came, due }).is_err() {
                    break;
                }
            }
            drop(requests);
        });
    }

    fn answer_all(&self, mut stream: TcpStream, requests: Receiver<Request>) {
        for request in requests {
            if let Some(left) = request.due.checked_sub(self.now()) {
                // This is how late it is told to answer, and nothing that is waited for.
                thread::sleep(left);
            }
            if let Some(frame) = self.answer(&request)
                && stream.write_all(&frame).is_err()
            {
                return;
            }
        }
    }

    /// Waits until something is appended, or for so long.
    pub(crate) fn wait_for_more<'a>(
        &self,
        state: MutexGuard<'a, State>,
        until: Duration,
    ) -> MutexGuard<'a, State> {
        let left = until.saturating_sub(self.now());
        self.appended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
    }

    pub(crate) fn tell_of_more(&self) {
        self.appended.notify_all();
    }
}

impl State {
    /// When the answer to a request is due.
    fn due(&mut self, manner: &Manner, frame: &[u8], came: Duration) -> Duration {
        if let Some(delay) = manner.ends_delay
            && crate::serving::asks_for_ends(frame)
        {
            return came + delay;
        }
        let Some(records) = crate::serving::records_of(frame) else { return came };
        let first = self.produced;
        self.produced += records;
        let mut due = came + manner.delay.map_or(Duration::ZERO, |delay| delay(first));
        if let Some(capacity) = manner.capacity {
            let capacity = if first < manner.cold_until { capacity / 4.0 } else { capacity };
            self.busy_until = self.busy_until.max(came) + Duration::from_secs_f64(records as f64 / capacity);
            due = due.max(self.busy_until);
        }
        if let Some((number, time)) = manner.stall
            && self.produced > number
        {
            due = due.max(*self.stalls_until.get_or_insert(came + time));
        }
        due
    }
}

fn read_frame(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut size = [0; 4];
    stream.read_exact(&mut size).ok()?;
    let mut frame = vec![0; wire::frame_len(size, 100 << 20).ok()?];
    stream.read_exact(&mut frame).ok()?;
    Some(frame)
}
