//! Decides, commits, and then makes it true: the one place where all three meet.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use base::{BrokerId, Now, TopicId, Uuid};
use controller::{Command, Controller, ControllerSettings, RECORDS_PER_BATCH, Reply};
use metadata::{Delta, Image};
use storage::disk::Disk;
use tracing::{info, warn};

use crate::error::{CommitError, ExecuteError, OpenError};
use crate::metadata_log::{MetadataLog, Place};

/// What a node brings along when it opens its quorum.
#[derive(Debug)]
pub struct Start<'a> {
    /// The directory that has the metadata log, or gets it.
    pub log_dir: &'a Path,
    /// This node.
    pub node_id: BrokerId,
    /// What the controller has to know of the node's settings.
    pub settings: ControllerSettings,
    /// The cluster's id, should this be its first start: a random one.
    pub fresh_cluster_id: Uuid,
    /// The time.
    pub now: Now,
}

/// A controller and the log that its decisions go through. Everything blocks: it belongs on a thread of
/// its own.
#[derive(Debug)]
pub struct Quorum {
    controller: Controller,
    log: MetadataLog,
    deleted: BTreeSet<TopicId>,
}

/// A command that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// What to answer.
    pub reply: Reply,
    /// What changed; empty if nothing did. [`Quorum::image`] is the cluster after it.
    pub delta: Delta,
}

impl Quorum {
    /// Opens the metadata log and replays it, or begins a cluster.
    pub fn open(disk: Arc<dyn Disk>, start: Start<'_>) -> Result<Self, OpenError> {
        let Start { log_dir, node_id, settings, fresh_cluster_id, now } = start;
        let mut controller = Controller::new(settings);
        let place = Place { log_dir, node_id, fresh_cluster_id, now };
        let mut deleted = BTreeSet::new();
        let opened = MetadataLog::open(disk, place, &mut |records, end| {
            deleted.extend(controller.replay_batch(records, end).topics_deleted.into_keys());
        });
        let (log, cut) = opened?;
        if let Some(cut) = cut {
            warn!(at = %cut.at, bytes = cut.bytes, damage = %cut.damage, "cut a torn end off the metadata log");
        }
        let mut quorum = Self { controller, log, deleted };
        if quorum.controller.image().features().is_empty() {
            quorum.commit(&Controller::bootstrap(), now, &mut Delta::default())?;
        }
        info!(
            cluster = quorum.cluster_id(),
            topics = quorum.image().topic_count(),
            partitions = quorum.image().partition_count(),
            end = %quorum.log.end(),
            "metadata is open"
        );
        Ok(quorum)
    }

    /// The id of the cluster.
    pub fn cluster_id(&self) -> &str {
        self.log.cluster_id()
    }

    /// Topics that were deleted in earlier lives of this node. If one of them is still on a disk, a crash
    /// came between the decision and what it was to lead to.
    pub fn deleted(&self) -> &BTreeSet<TopicId> {
        &self.deleted
    }

    /// The cluster as all that was committed makes it. A clone is cheap, and never changes.
    pub fn image(&self) -> &Image {
        self.controller.image()
    }

    /// See [`Controller::on_room`].
    pub fn on_room(&mut self, has_room: bool) {
        self.controller.on_room(has_room);
    }

    /// Carries out a command: its records are durable, and in the image, when it returns.
    ///
    /// After [`ExecuteError::Commit`], unless it is harmless, the node must stop.
    pub fn execute(&mut self, now: Now, command: &Command) -> Result<Executed, ExecuteError> {
        let (reply, records) = self.controller.handle(now, command)?;
        let together = if command.may_be_split() { RECORDS_PER_BATCH } else { usize::MAX };
        let mut delta = Delta::default();
        for batch in records.chunks(together) {
            self.commit(batch, now, &mut delta)?;
        }
        Ok(Executed { reply, delta })
    }

    /// Writes down up to where the log is durable. Worth while now and then; see
    /// [`MetadataLog::checkpoint`].
    pub fn checkpoint(&mut self) -> Result<(), CommitError> {
        self.log.checkpoint()
    }

    /// Ends an orderly life.
    pub fn close(mut self) -> Result<(), CommitError> {
        self.log.close()
    }

    fn commit(
        &mut self,
        records: &[metadata::MetadataRecord],
        now: Now,
        delta: &mut Delta,
    ) -> Result<(), CommitError> {
        let end = self.log.commit(records, now)?;
        self.controller.replay_onto(records, end, delta);
        Ok(())
    }
}
