//! The metadata log of a node that is alone in its cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, Now, Offset, PartitionIndex, TopicId, TopicName, TopicPartition, Uuid};
use metadata::MetadataRecord;
use records::{BatchBuilder, BatchOptions, Scratch, StoredBatch};
use storage::checkpoint::{PartitionOffsets, read_offsets, write_offsets};
use storage::disk::Disk;
use storage::layout::partition_dir;
use storage::{Cut, FlushScope, Known, Log, LogSettings};

use crate::METADATA_TOPIC;
use crate::error::{CommitError, OpenError};
use crate::identity;
use crate::scan::{self, CHECKPOINT_FILE, Replay};

/// Kafka's id of the metadata topic.
const METADATA_TOPIC_ID: TopicId = TopicId(Uuid(1u128.to_be_bytes()));

/// How much the records of one commit may take: Kafka's limit of a metadata batch.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// The one writer of the metadata log.
#[derive(Debug)]
pub struct MetadataLog {
    log: Log,
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    cluster_id: String,
    epoch: LeaderEpoch,
    /// Up to where the log is durable as its checkpoint has it.
    checkpointed: Offset,
    /// These three are kept for their room.
    batch: BatchBuilder,
    value: Vec<u8>,
    bytes: Vec<u8>,
}

/// Whether there is a metadata log in a log directory, or a sign that there was one.
pub fn has_log(disk: &dyn Disk, log_dir: &Path) -> Result<bool, OpenError> {
    scan::has_log(disk, log_dir, &partition_dir(log_dir, &partition()))
}

/// Where the log lies, and who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) log_dir: &'a Path,
    pub(crate) node_id: BrokerId,
    pub(crate) fresh_cluster_id: Uuid,
    pub(crate) now: Now,
}

impl MetadataLog {
    /// Opens the log, or begins it, and reads all that is in it. What a crash tore off its end is cut.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        place: Place<'_>,
        replay: &mut Replay<'_>,
    ) -> Result<(Self, Option<Cut>), OpenError> {
        let partition = partition();
        let dir = partition_dir(place.log_dir, &partition);
        disk.create_dir(place.log_dir)?;
        let has_log = scan::has_log(disk.as_ref(), place.log_dir, &dir)?;
        let cluster_id = identity::cluster_id(
            disk.as_ref(),
            place.log_dir,
            place.node_id,
            has_log,
            place.fresh_cluster_id,
        )?;
        let (log, checkpointed, cut) = if has_log {
            open_log(&disk, &dir, place.now, replay)?
        } else {
            // What lies there is what a crash left of the first start.
            disk.remove_dir(&dir)?;
            let log = Log::create(disk.clone(), dir.clone(), METADATA_TOPIC_ID, settings(), place.now)?;
            (log, Offset::ZERO, None)
        };
        // A new writer, a new epoch: what an earlier one wrote can be told apart.
        let epoch = LeaderEpoch(log.last_epoch().map_or(0, |last| last.0.saturating_add(1)));
        let mut opened = Self {
            log,
            disk,
            dir,
            cluster_id,
            epoch,
            checkpointed,
            batch: BatchBuilder::new(BATCH_BYTES_MAX),
            value: Vec::new(),
            bytes: Vec::new(),
        };
        opened.checkpoint()?;
        Ok((opened, cut))
    }

    /// The id of the cluster.
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// The offset behind the last record.
    pub fn end(&self) -> Offset {
        self.log.end()
    }

    /// Which writer this is, counted from the first.
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// Commits records as one batch: all of them are durable when it returns, or none is in the log. The
    /// offset behind the last.
    ///
    /// After an error of the disk the log takes no more; only reading it again tells what is in it.
    pub fn commit(&mut self, records: &[MetadataRecord], now: Now) -> Result<Offset, CommitError> {
        if records.is_empty() {
            return Ok(self.end());
        }
        self.build(records, now)?;
        let batch = StoredBatch::check(&self.bytes).expect("it was just built");
        self.log.append_stored(now, &batch)?;
        self.log.flush(FlushScope::Records)?;
        Ok(self.end())
    }

    fn build(&mut self, records: &[MetadataRecord], now: Now) -> Result<(), CommitError> {
        let too_large = CommitError::TooLarge { bytes_max: BATCH_BYTES_MAX };
        self.batch.clear();
        for record in records {
            self.value.clear();
            record.encode(&mut self.value).map_err(|_| too_large.clone())?;
            let appended = self.batch.try_append(now.wall, None, Some(&self.value), &[]);
            appended.map_err(|_| too_large.clone())?;
        }
        let options =
            BatchOptions { base_offset: self.end(), leader_epoch: self.epoch, ..BatchOptions::default() };
        self.bytes.clear();
        self.batch.finish(&options, &mut Scratch::default(), &mut self.bytes).map_err(|_| too_large)?;
        Ok(())
    }

    /// Writes down up to where the log is durable, so that damage below is known for what it is. Worth
    /// while after some commits, and before an orderly stop.
    pub fn checkpoint(&mut self) -> Result<(), CommitError> {
        let durable = self.log.durable_end();
        if durable == self.checkpointed {
            return Ok(());
        }
        let offsets = PartitionOffsets::from_iter([(partition(), durable)]);
        write_offsets(self.disk.as_ref(), &self.dir.join(CHECKPOINT_FILE), &offsets)?;
        self.checkpointed = durable;
        Ok(())
    }

    /// Ends an orderly life of the log.
    pub fn close(&mut self) -> Result<(), CommitError> {
        self.log.flush(FlushScope::Checkpoint)?;
        self.log.close()?;
        self.checkpoint()
    }
}

fn open_log(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    now: Now,
    replay: &mut Replay<'_>,
) -> Result<(Log, Offset, Option<Cut>), OpenError> {
    let path = dir.join(CHECKPOINT_FILE);
    let offsets =
        read_offsets(disk.as_ref(), &path).map_err(|error| OpenError::Checkpoint { path, error })?;
    let durable = offsets.get(&partition()).copied().unwrap_or(Offset::ZERO);
    let end = scan::read_all(disk.as_ref(), dir, durable, replay)?;
    // All of it was just read; what is behind its end is what a crash left.
    let known = Known { recovery_point: Offset::ZERO, log_start: Offset::ZERO, clean: false, adopted: false };
    let (mut log, recovered) = Log::open(disk.clone(), dir.to_owned(), settings(), known, now)?;
    if log.end() != end {
        return Err(OpenError::Missing { path: dir.to_owned(), end: log.end(), durable: end });
    }
    // What was read may be in the page cache only: it counts from here on, so it has to be durable.
    log.flush(FlushScope::Checkpoint)?;
    Ok((log, durable, recovered.cut))
}

fn partition() -> TopicPartition {
    let topic = TopicName::new(METADATA_TOPIC).expect("it is a legal name");
    TopicPartition { topic, partition: PartitionIndex(0) }
}

fn settings() -> LogSettings {
    LogSettings {
        segment_bytes: 64 << 20,
        segment_age_max: Duration::MAX,
        retention_bytes: None,
        retention_age: None,
        deletes: false,
        ..LogSettings::default()
    }
}
