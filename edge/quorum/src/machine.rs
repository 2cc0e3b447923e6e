//! The state machine: the cluster's image, and whoever is told of what is committed.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Offset;
use bytes::Bytes;
use controller::Committed;
use futures_core::Stream;
use metadata::Image;
use openraft::EntryPayload;
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use parking_lot::Mutex;
use records::{Scratch, StoredBatch};
use tokio::sync::{Notify, watch};

use crate::batch;
use crate::error::Malformed;
use crate::snapshot::{Checkpoint, SnapshotId};
use crate::store::{Store, io_error};
use crate::types::{Entry, LogId, Snapshot, SnapshotMeta, StoredMembership, Types, epoch};
use crate::writer::wall;

/// When a snapshot is worth its while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotEvery {
    /// After as many bytes of batches: Kafka's `metadata.log.max.record.bytes.between.snapshots`.
    pub bytes: u64,
    /// After as many batches.
    pub batches: u64,
    /// With the first batch after as long: Kafka's `metadata.log.max.snapshot.interval.ms`.
    pub age: Option<Duration>,
}

impl SnapshotEvery {
    /// Whether it is worth its while, so much and so long after the last one.
    pub(crate) fn is_due(&self, bytes: u64, batches: u64, age: Duration) -> bool {
        bytes >= self.bytes || batches >= self.batches || self.age.is_some_and(|most| age >= most)
    }
}

impl Default for SnapshotEvery {
    fn default() -> Self {
        Self { bytes: 20 << 20, batches: 10_000, age: Some(Duration::from_secs(3600)) }
    }
}

/// What is applied.
#[derive(Debug, Default)]
struct State {
    image: Image,
    last: Option<LogId>,
    members: StoredMembership,
    /// The newest snapshot on the disk.
    snapshot: Option<(SnapshotId, SnapshotMeta)>,
}

impl State {
    fn end(&self) -> Offset {
        self.image.end()
    }
}

/// What was applied since the last snapshot was asked for.
#[derive(Debug)]
pub(crate) struct Since {
    pub(crate) at: Instant,
    pub(crate) bytes: u64,
    pub(crate) batches: u64,
}

impl Default for Since {
    fn default() -> Self {
        Self { at: Instant::now(), bytes: 0, batches: 0 }
    }
}

/// The state machine. A clone is the same one.
#[derive(Clone)]
pub(crate) struct Machine {
    store: Arc<Store>,
    state: Arc<Mutex<State>>,
    every: SnapshotEvery,
    since: Arc<Mutex<Since>>,
    /// Up to where it is applied, for those who wait.
    ended: Arc<watch::Sender<Offset>>,
    /// Whoever takes snapshots.
    pub(crate) snapshot_due: Arc<Notify>,
}

impl Machine {
    pub(crate) fn new(store: Arc<Store>, checkpoint: Option<&Checkpoint>, every: SnapshotEvery) -> Self {
        let snapshot = checkpoint.map(|checkpoint| (checkpoint.id(), checkpoint.meta()));
        let state = State { snapshot, ..State::default() };
        Self {
            store,
            state: Arc::new(Mutex::new(state)),
            every,
            since: Arc::default(),
            ended: Arc::new(watch::channel(Offset::ZERO).0),
            snapshot_due: Arc::default(),
        }
    }

    /// Up to where it is applied.
    pub(crate) fn end(&self) -> Offset {
        self.state.lock().end()
    }

    /// Tells up to where it is applied.
    pub(crate) fn ended(&self) -> watch::Receiver<Offset> {
        self.ended.subscribe()
    }

    /// The newest snapshot on the disk.
    pub(crate) fn snapshot_id(&self) -> Option<SnapshotId> {
        self.state.lock().snapshot.as_ref().map(|(id, _)| *id)
    }

    fn apply_one(&self, entry: &Entry, scratch: &mut Scratch) -> Result<(), Malformed> {
        let mut records = Vec::new();
        let mut state = self.state.lock();
        let mut end = state.end().next();
        let mut bytes = 0;
        if let Some(stored) = &entry.stored {
            let batch = StoredBatch::trust(stored).map_err(|error| Malformed(error.to_string()))?;
            let read = batch::metadata_records(&batch, scratch, &mut records);
            read.map_err(|(offset, error)| Malformed(format!("at offset {offset}: {error}")))?;
            end = batch.next_offset();
            bytes = stored.len() as u64;
        }
        state.image = state.image.after(&records, end).0;
        state.last = Some(entry.log_id);
        if let EntryPayload::Membership(members) = &entry.payload {
            state.members = StoredMembership::new(Some(entry.log_id), members.clone());
        }
        drop(state);
        let of = epoch(entry.log_id.leader_id.term);
        self.store.teller.committed(Committed { epoch: of, records, end });
        if matches!(entry.payload, EntryPayload::Blank) {
            self.store.teller.began(of);
        }
        self.ended.send_replace(end);
        self.count(bytes);
        Ok(())
    }

    fn count(&self, bytes: u64) {
        let mut since = self.since.lock();
        since.bytes += bytes;
        since.batches += 1;
        if self.every.is_due(since.bytes, since.batches, since.at.elapsed()) {
            *since = Since::default();
            self.snapshot_due.notify_one();
        }
    }

    async fn put(&self, checkpoint: &Checkpoint, bytes: Bytes) -> Result<(), io::Error> {
        let id = checkpoint.id();
        let (state, meta) = (self.state.clone(), checkpoint.meta());
        let written = self.store.run(move |writer| {
            writer.snapshot(id, &bytes)?;
            let mut state = state.lock();
            if state.snapshot.as_ref().is_none_or(|(newest, _)| *newest < id) {
                state.snapshot = Some((id, meta));
            }
            Ok(())
        });
        written.await.map_err(io_error)?;
        let mut memory = self.store.memory.lock();
        if memory.snapshot.is_none_or(|(_, newest)| newest < id.offset) {
            memory.snapshot = Some((checkpoint.last, id.offset));
        }
        Ok(())
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let state = self.state.lock();
        Ok((state.last, state.members.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + Send,
    {
        let mut scratch = Scratch::default();
        while let Some(entry) = poll_fn(|cx| Pin::new(&mut entries).poll_next(cx)).await {
            let (entry, responder) = entry?;
            self.apply_one(&entry, &mut scratch).map_err(io_error)?;
            if let Some(responder) = responder {
                responder.send(());
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let state = self.state.lock();
        let taken = state.last.map(|last| Checkpoint {
            last,
            members: state.members.clone(),
            image: state.image.clone(),
        });
        drop(state);
        Builder { machine: self.clone(), taken }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Bytes) -> Result<(), io::Error> {
        let checkpoint = Checkpoint::decode_any(&snapshot).map_err(io_error)?;
        if checkpoint.meta() != *meta {
            return Err(io_error("the snapshot is not what it was said to be"));
        }
        if self.snapshot_id() != Some(checkpoint.id()) {
            self.put(&checkpoint, snapshot).await?;
        }
        let mut state = self.state.lock();
        state.image = checkpoint.image.clone();
        state.last = Some(checkpoint.last);
        state.members = checkpoint.members.clone();
        drop(state);
        self.ended.send_replace(checkpoint.image.end());
        self.store.memory.lock().set_members_before(checkpoint.last, checkpoint.members.membership().clone());
        self.store.teller.snapshot(checkpoint.image);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        let state = self.state.clone();
        // Asked for on the writer's thread, where the newest is written and those before it are removed.
        let read = self.store.run(move |writer| {
            let newest = state.lock().snapshot.clone();
            let Some((id, meta)) = newest else { return Ok(None) };
            Ok(Some((id, meta, writer.read_snapshot(id)?)))
        });
        let Some((id, meta, bytes)) = read.await.map_err(io_error)? else { return Ok(None) };
        let snapshot = bytes.ok_or_else(|| io_error(format!("{} is gone", id.file_name())))?;
        Ok(Some(Snapshot { meta, snapshot }))
    }
}

/// Takes a snapshot of what was applied when it was made.
pub(crate) struct Builder {
    machine: Machine,
    taken: Option<Checkpoint>,
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        let Some(checkpoint) = self.taken.take() else {
            // Of nothing, which is no file.
            return Ok(Snapshot { meta: SnapshotMeta::default(), snapshot: Bytes::new() });
        };
        let encoded = tokio::task::spawn_blocking(move || {
            let bytes = checkpoint.encode(wall());
            bytes.map(|bytes| (checkpoint, bytes))
        });
        let (checkpoint, bytes) = encoded.await.map_err(io_error)?.map_err(io_error)?;
        self.machine.put(&checkpoint, bytes.clone()).await?;
        tracing::info!(end = %checkpoint.image.end(), bytes = bytes.len(), "took a snapshot of the metadata");
        Ok(Snapshot { meta: checkpoint.meta(), snapshot: bytes })
    }
}
