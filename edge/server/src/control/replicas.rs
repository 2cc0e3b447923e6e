//! What the replicas of this broker want of the controller: other in-sync sets, and to be given up.

use std::sync::atomic::{AtomicU64, Ordering};

use base::{Now, Offset};
use broker::directories::give_up;
use broker::lifecycle::{DiskWait, Lifecycle};
use broker::replication::PartitionKey;
use controller::{AlterPartition, AlterPartitions, Command, Reply};
use metadata::Delta;
use replica::AlterIsr;
use tracing::{error, info};

use super::waiting::Asker;
use super::{ControlFailed, ControlThread, Decision, RETRY_AFTER};
use crate::elections::{self, By};
use crate::in_sync::Answered;
use crate::log_dir::{HUNG_AFTER, Lag};

/// In-sync sets that one request asks for.
const PROPOSALS_PER_REQUEST: usize = 1_000;

impl ControlThread {
    /// Looks how far replicas are behind, and whether disks answer.
    pub(super) fn look_at_directories(&mut self, now: Now) {
        let max = |of: fn(&Lag) -> &AtomicU64| {
            self.dirs.iter().map(|dir| of(&dir.lag).load(Ordering::Relaxed)).max().unwrap_or(0)
        };
        let replication = &self.metrics.replication;
        replication.follower_lag_records_max.set(max(|lag| &lag.here));
        replication.leader_lag_records_max.set(max(|lag| &lag.of_followers));
        let Some(life) = &mut self.lifecycle else { return };
        let waits: Vec<DiskWait> = self.dirs.iter().map(|dir| dir.disk_wait()).collect();
        let longest = DiskWait {
            held: waits.iter().map(|wait| wait.held).max().unwrap_or_default(),
            flushing: waits.iter().map(|wait| wait.flushing).max().unwrap_or_default(),
        };
        let was_stuck = life.is_stuck();
        life.on_disk_wait(now, longest);
        self.control.set_stuck(life.is_stuck());
        match (was_stuck, life.is_stuck()) {
            (false, true) => {
                let hung = self.dirs.iter().zip(&waits).filter(|(_, wait)| wait.is_over(HUNG_AFTER));
                let dirs: Vec<_> = hung.map(|(dir, _)| dir.path.display().to_string()).collect();
                error!(
                    dirs = dirs.join(", "),
                    "the disk of a log directory does not answer: others are asked to lead what they can of what this \
                     broker leads, until it does"
                );
            }
            (true, false) => info!("the disks of all log directories answer again: this broker may lead"),
            _ => {}
        }
    }

    /// Says which leaders this node's controller had to elect, or was told to, although they may lack records.
    pub(super) fn tell_of_elections(&self, delta: &Delta) {
        if self.controller.is_active() {
            let (image, given) = (self.controller.image(), &self.seat.settings().fixed);
            elections::tell(By::Controller(given), image, delta, &self.metrics.replication);
        }
    }

    pub(super) fn ask_for_in_sync_sets(&mut self, now: Now) -> Result<(), ControlFailed> {
        let Some(broker_epoch) = self.lifecycle.as_ref().and_then(Lifecycle::epoch) else { return Ok(()) };
        if now.elapsed < self.state.proposals_at {
            return Ok(());
        }
        let asked = self.state.proposals.next(PROPOSALS_PER_REQUEST);
        if asked.is_empty() {
            return Ok(());
        }
        let partition = |((topic, partition), proposal): (PartitionKey, AlterIsr)| AlterPartition {
            topic,
            partition,
            leader_epoch: proposal.leader_epoch,
            partition_epoch: proposal.partition_epoch,
            isr: proposal.isr,
            recovering: false,
        };
        let partitions = asked.into_iter().map(partition).collect();
        let command = AlterPartitions { broker: self.node, broker_epoch, partitions };
        self.give(Asker::Proposals, Command::AlterPartitions(command))
    }

    /// The controller answered what leaders asked for.
    pub(super) fn on_sets_decided(&mut self, now: Now, result: Decision, end: Offset) {
        let Ok(reply) = result else { return self.on_in_sync_sets(now, None) };
        self.state.proposals_decided = Some((end, reply));
        self.tell_in_sync_sets(now);
    }

    /// Tells the leaders once they were told all that the controller knew by then: with the settings of before, one
    /// would count on too few when its set becomes smaller.
    pub(super) fn tell_in_sync_sets(&mut self, now: Now) {
        let applied = self.state.applied;
        if let Some((_, reply)) = self.state.proposals_decided.take_if(|(end, _)| *end <= applied) {
            self.on_in_sync_sets(now, Some(reply));
        }
    }

    /// The controller answered, or nobody did.
    pub(super) fn on_in_sync_sets(&mut self, now: Now, reply: Option<Reply>) {
        for (partition, asked, answer) in self.state.proposals.on_answered(reply) {
            if answer.may_come_again() {
                self.state.proposals_at = now.elapsed + RETRY_AFTER;
            }
            let Some(cell) = self.table.get(partition.0, partition.1) else { continue };
            if let Some(way) = self.in_sync.get(&cell.dir.id) {
                // If that thread has ended, the node ends.
                let _ = way.send(Answered { partition, asked, answer });
            }
        }
    }

    /// Has it known of logs that cannot be served: others are in sync and lead in their stead. It is said until it
    /// is so.
    pub(super) fn give_up_lost(&mut self) -> Result<(), ControlFailed> {
        match give_up(self.node, self.controller.image(), self.table.lost()) {
            Some(command) => self.give(Asker::Nobody, command),
            None => Ok(()),
        }
    }
}
