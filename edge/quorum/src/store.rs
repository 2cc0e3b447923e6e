//! The metadata log as the consensus library uses it: memory for reading, a thread for the disk.
//!
//! ```text
//!   append ─▶ memory, readable at once ─▶ queue ─▶ writer: write, fdatasync, next … ─▶ durable
//!   vote, truncate, purge ───────────────▶ queue ─▶ writer ─▶ done
//! ```
//!
//! The writer does one thing after the other, so a vote is never ahead of what was appended before it.

use std::collections::BTreeMap;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::Uuid;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::error::Stopped;
use crate::memory::Memory;
use crate::tell::Teller;
use crate::types::{Entry, LogId, Types, Vote};
use crate::writer::{Writer, wall};

type Job = Box<dyn FnOnce(&mut Writer) + Send>;

/// Appends that may wait for the disk: then whoever appends waits, too.
const APPENDS_MAX: usize = 256;

/// How often it is said that a voter has another disk.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// How much of the log one request to another node may carry.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 20;

/// The log, shared by all that read it.
pub(crate) struct Store {
    pub(crate) memory: Mutex<Memory>,
    pub(crate) teller: Arc<Teller>,
    jobs: Mutex<Option<Sender<Job>>>,
    room: Arc<Semaphore>,
    stopped: watch::Sender<Option<Stopped>>,
    left: watch::Sender<bool>,
    /// When it was last said of a node that it has another disk.
    said: Mutex<BTreeMap<u64, Instant>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Store {
    pub(crate) fn start(writer: Writer, memory: Memory, teller: Arc<Teller>) -> io::Result<Arc<Self>> {
        let (jobs, queue) = channel();
        let (stopped, _) = watch::channel(None);
        let store = Arc::new(Self {
            memory: Mutex::new(memory),
            teller,
            jobs: Mutex::new(Some(jobs)),
            room: Arc::new(Semaphore::new(APPENDS_MAX)),
            stopped,
            left: watch::channel(false).0,
            said: Mutex::default(),
            thread: Mutex::new(None),
        });
        let told = store.stopped.clone();
        let thread = std::thread::Builder::new()
            .name("quorum-disk".into())
            .spawn(move || run(writer, &queue, &told))?;
        *store.thread.lock() = Some(thread);
        Ok(store)
    }

    fn send(&self, job: Job) -> Result<(), Stopped> {
        let gone = || Stopped("it was closed".into());
        self.jobs.lock().as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())
    }

    /// Has the writer do something, and waits for it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Writer) -> Result<T, Stopped> + Send + 'static,
    ) -> Result<T, Stopped> {
        let (done, wait) = oneshot::channel();
        self.send(Box::new(move |writer| drop(done.send(act(writer)))))?;
        wait.await.map_err(|_| Stopped("it was closed".into()))?
    }

    /// Has the writer do something, some time.
    pub(crate) fn post(&self, act: impl FnOnce(&mut Writer) + Send + 'static) {
        // If it is closed, nothing is left to be done.
        let _ = self.send(Box::new(act));
    }

    /// Whether a node that says it is this one has the disk that it is known by. With another disk it has
    /// forgotten for whom it voted, and what it said it had.
    pub(crate) fn check_directory(&self, id: u64, directory: Uuid) -> Result<(), String> {
        let known = self.memory.lock().members.get_node(&id).map(|home| home.directory);
        let Some(known) = known.filter(|known| *known != Uuid::ZERO && *known != directory) else {
            return Ok(());
        };
        let mut said = self.said.lock();
        if said.get(&id).is_none_or(|at| at.elapsed() >= SAY_EVERY) {
            said.insert(id, Instant::now());
            tracing::warn!(
                node = id, votes_with = %known, has = %directory,
                "a voter has another disk than the one that it votes with, so its vote does not count: `vltava cluster \
                 add {id}` gives it to the disk that it has, `vltava cluster remove {id}` takes it"
            );
        }
        Err(format!("node {id} votes with directory {known}, not {directory}: give it a vote anew"))
    }

    /// Why nothing is written any more, once that is so.
    pub(crate) fn stopped(&self) -> watch::Receiver<Option<Stopped>> {
        self.stopped.subscribe()
    }

    /// This node was taken out of the quorum; whether that is news.
    pub(crate) fn leave(&self) -> bool {
        !self.left.send_replace(true)
    }

    /// Whether this node was taken out of the quorum.
    pub(crate) fn left(&self) -> watch::Receiver<bool> {
        self.left.subscribe()
    }

    /// Stops for a reason that is not the disk's.
    pub(crate) fn stop(&self, why: Stopped) {
        self.stopped.send_if_modified(|stopped| {
            let is_first = stopped.is_none();
            stopped.get_or_insert(why);
            is_first
        });
    }

    /// Ends the writer in order. Blocks until it has ended.
    pub(crate) fn close(&self) {
        self.post(|writer| {
            if let Err(stopped) = writer.close() {
                tracing::error!(%stopped, "the metadata log was not closed in order");
            }
        });
        self.jobs.lock().take();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic of the writer was told already.
            let _ = thread.join();
        }
    }
}

fn run(mut writer: Writer, queue: &Receiver<Job>, told: &watch::Sender<Option<Stopped>>) {
    loop {
        let job = match writer.note_within() {
            Some(wait) => queue.recv_timeout(wait.max(Duration::from_millis(1))),
            None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match job {
            Ok(job) => job(&mut writer),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let _ = writer.note_now_and_then();
        if let Some(stopped) = writer.stopped() {
            told.send_if_modified(|told| {
                let is_first = told.is_none();
                told.get_or_insert(stopped.clone());
                is_first
            });
        }
    }
}

/// The log for the library. A clone is the same log.
#[derive(Clone)]
pub(crate) struct LogStore(pub(crate) Arc<Store>);

fn indexes(range: &impl RangeBounds<u64>) -> std::ops::Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(start) => start.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(end) => end.saturating_add(1),
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

pub(crate) fn io_error(error: impl ToString) -> io::Error {
    io::Error::other(error.to_string())
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<R>(&mut self, range: R) -> Result<Vec<Entry>, io::Error>
    where
        R: RangeBounds<u64> + Clone + std::fmt::Debug + Send,
    {
        Ok(self.0.memory.lock().range(indexes(&range), usize::MAX))
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        Ok(self.0.memory.lock().range(start..end, REQUEST_BYTES_MAX))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.0.memory.lock().vote)
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        let memory = self.0.memory.lock();
        Ok(LogState { last_purged_log_id: memory.before, last_log_id: memory.last() })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let saved = *vote;
        self.0.run(move |writer| writer.vote(Some(&saved))).await.map_err(io_error)?;
        self.0.memory.lock().vote = Some(saved);
        self.0.teller.voted(&saved);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        let mut memory = self.0.memory.lock();
        memory.committed = committed;
        let end = committed.and_then(|committed| memory.end_of(committed.index));
        drop(memory);
        if let Some(end) = end {
            self.0.post(move |writer| writer.committed(end));
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.0.memory.lock().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let permit = self.0.room.clone().acquire_owned().await.map_err(io_error)?;
        let mut batches = Vec::with_capacity(entries.len());
        {
            let mut memory = self.0.memory.lock();
            let now = wall();
            for entry in entries {
                let kept = memory.append(entry, now).map_err(io_error)?;
                batches.extend(kept.entry.stored);
            }
        }
        let job = move |writer: &mut Writer| {
            let appended = writer.append(&batches);
            drop(permit);
            callback.io_completed(appended.map_err(io_error));
        };
        self.0.send(Box::new(job)).map_err(io_error)
    }

    async fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), io::Error> {
        let end = self.0.memory.lock().truncate_after(last);
        self.0.run(move |writer| writer.truncate(end)).await.map_err(io_error)
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), io::Error> {
        let start = self.0.memory.lock().purge(upto);
        self.0.run(move |writer| writer.start_at(&start)).await.map_err(io_error)
    }
}
