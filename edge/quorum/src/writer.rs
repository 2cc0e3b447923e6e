//! The metadata log as it is on a disk. Everything blocks; one thread does it all, in order.
//!
//! **Invariant:** after the first error nothing is written any more: what is on the disk is not known.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use base::{Now, Offset, TimestampMs};
use bytes::Bytes;
use records::StoredBatch;
use storage::disk::Disk;
use storage::{FlushScope, Log};

use crate::error::Stopped;
use crate::files::{self, LogStart};
use crate::snapshot::{self, SnapshotId};
use crate::types::Vote;

/// How long what is durable and committed may go unnoted: a note costs two barriers, and what it is for is
/// to know damage for what it is, and to begin with a newer image.
const NOTE_EVERY: Duration = Duration::from_secs(1);

/// The wall clock.
pub(crate) fn wall() -> TimestampMs {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    TimestampMs(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The log's files.
#[derive(Debug)]
pub(crate) struct Writer {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    log: Log,
    began: Instant,
    committed: Offset,
    noted_durable: Offset,
    noted_committed: Offset,
    noted_at: Instant,
    stopped: Option<Stopped>,
}

impl Writer {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        log: Log,
        noted_durable: Offset,
        noted_committed: Offset,
    ) -> Self {
        let now = Instant::now();
        Self {
            disk,
            dir,
            log,
            began: now,
            committed: noted_committed,
            noted_durable,
            noted_committed,
            noted_at: now,
            stopped: None,
        }
    }

    /// Why nothing is written any more.
    pub(crate) fn stopped(&self) -> Option<&Stopped> {
        self.stopped.as_ref()
    }

    fn now(&self) -> Now {
        Now::new(self.began.elapsed(), wall())
    }

    fn attempt<T, E: ToString>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, Stopped> {
        if let Some(stopped) = &self.stopped {
            return Err(stopped.clone());
        }
        act(self).map_err(|error| {
            let stopped = Stopped(error.to_string());
            self.stopped = Some(stopped.clone());
            stopped
        })
    }

    /// Appends batches. Each is durable before the next is begun, so that a whole one behind bad bytes
    /// proves that those were durable, too.
    pub(crate) fn append(&mut self, batches: &[Bytes]) -> Result<(), Stopped> {
        for bytes in batches {
            self.attempt(|it| {
                let batch = StoredBatch::trust(bytes).map_err(|error| error.to_string())?;
                let now = it.now();
                it.log.append_stored(now, &batch).map_err(|error| error.to_string())?;
                it.log.flush(FlushScope::Records).map_err(|error| error.to_string())
            })?;
        }
        Ok(())
    }

    /// Notes a vote; durable when it returns.
    pub(crate) fn vote(&mut self, vote: Option<&Vote>) -> Result<(), Stopped> {
        self.attempt(|it| files::write_vote(it.disk.as_ref(), &it.dir, vote))
    }

    /// Keeps what lies before an offset.
    pub(crate) fn truncate(&mut self, end: Offset) -> Result<(), Stopped> {
        if self.noted_committed > end || self.noted_durable > end {
            self.committed = self.committed.min(end);
            let durable = self.noted_durable.min(end);
            self.note(durable)?;
        }
        self.attempt(|it| it.log.truncate(it.now(), ..end).map(drop))
    }

    /// Begins the log behind what a snapshot has.
    pub(crate) fn start_at(&mut self, start: &LogStart) -> Result<(), Stopped> {
        self.attempt(|it| files::write_start(it.disk.as_ref(), &it.dir, start))?;
        if start.void {
            self.attempt(|it| it.log.truncate_fully_and_start_at(it.now(), start.offset))?;
            self.committed = self.committed.max(start.offset);
            self.note(start.offset)?;
            let kept = LogStart { void: false, ..*start };
            return self.attempt(|it| files::write_start(it.disk.as_ref(), &it.dir, &kept));
        }
        self.attempt(|it| {
            it.log.delete_records(start.offset).map_err(|error| error.to_string())?;
            it.log.retain(it.now(), start.offset).map_err(|error| error.to_string())
        })?;
        Ok(())
    }

    /// Takes note, sooner or later, that the log is committed up to here.
    pub(crate) fn committed(&mut self, offset: Offset) {
        self.committed = self.committed.max(offset);
    }

    /// Puts a snapshot beside the log; durable when it returns.
    pub(crate) fn snapshot(&mut self, id: SnapshotId, bytes: &[u8]) -> Result<(), Stopped> {
        self.attempt(|it| snapshot::write(it.disk.as_ref(), &it.dir, id, bytes))
    }

    /// Reads a snapshot. That it cannot be read harms nothing that is written.
    pub(crate) fn read_snapshot(&mut self, id: SnapshotId) -> Result<Option<Bytes>, Stopped> {
        snapshot::read(self.disk.as_ref(), &self.dir, id).map_err(|error| Stopped(error.to_string()))
    }

    /// Reads a part of a snapshot, and how long the whole is.
    pub(crate) fn read_snapshot_part(
        &mut self,
        id: SnapshotId,
        part: (u64, usize),
    ) -> Result<(u64, Bytes), Stopped> {
        snapshot::read_part(self.disk.as_ref(), &self.dir, id, part)
            .map_err(|error| Stopped(error.to_string()))
    }

    /// Writes down what is durable and committed, if that has changed and was not done just before.
    pub(crate) fn note_now_and_then(&mut self) -> Result<(), Stopped> {
        if self.noted_at.elapsed() < NOTE_EVERY || self.stopped.is_some() {
            return Ok(());
        }
        self.note_all()
    }

    /// Writes down what is durable and committed.
    pub(crate) fn note_all(&mut self) -> Result<(), Stopped> {
        self.note(self.log.durable_end())
    }

    /// When there is something to note, how long that may wait.
    pub(crate) fn note_within(&self) -> Option<Duration> {
        let is_noted =
            self.noted_durable == self.log.durable_end() && self.noted_committed == self.committed_here();
        (!is_noted && self.stopped.is_none()).then(|| NOTE_EVERY.saturating_sub(self.noted_at.elapsed()))
    }

    fn committed_here(&self) -> Offset {
        self.committed.min(self.log.durable_end())
    }

    fn note(&mut self, durable: Offset) -> Result<(), Stopped> {
        let committed = self.committed_here().min(durable);
        self.attempt(|it| {
            if it.noted_committed != committed {
                files::write_committed(it.disk.as_ref(), &it.dir, committed)?;
                it.noted_committed = committed;
            }
            if it.noted_durable != durable {
                files::write_durable(it.disk.as_ref(), &it.dir, durable)?;
                it.noted_durable = durable;
            }
            Ok::<_, storage::disk::DiskError>(())
        })?;
        self.noted_at = Instant::now();
        Ok(())
    }

    /// Ends an orderly life.
    pub(crate) fn close(&mut self) -> Result<(), Stopped> {
        self.attempt(|it| {
            it.log.flush(FlushScope::Checkpoint).map_err(|error| error.to_string())?;
            it.log.close().map_err(|error| error.to_string())
        })?;
        self.note_all()
    }
}
