//! What the replicas of this broker want of the controller: other in-sync sets, and to be given up.

use base::{Now, Offset};
use broker::directories::give_up;
use broker::lifecycle::Lifecycle;
use broker::replication::PartitionKey;
use controller::{AlterPartition, AlterPartitions, Command, Reply};
use metadata::Delta;
use replica::AlterIsr;
use tracing::debug;

use super::waiting::Asker;
use super::{ControlFailed, ControlThread, Decision, RETRY_AFTER};
use crate::elections::{self, By};

/// In-sync sets that one request asks for.
const PROPOSALS_PER_REQUEST: usize = 1_000;

impl ControlThread {
    /// Looks at all replicas for those that have fallen behind.
    pub(super) fn check_replicas(&self, now: Now) {
        let (mut behind, mut left_behind) = (0, 0);
        for cell in self.table.all() {
            cell.act(|partition, out| {
                partition.check_isr(now, self.lag_max, out);
                behind = behind.max(partition.lag());
                left_behind = left_behind.max(partition.followers_lag());
            });
        }
        let replication = &self.metrics.replication;
        replication.follower_lag_records_max.set(behind);
        replication.leader_lag_records_max.set(left_behind);
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
        for ((topic, partition), proposal, answer) in self.state.proposals.on_answered(reply) {
            if answer.may_come_again() {
                self.state.proposals_at = now.elapsed + RETRY_AFTER;
            }
            debug!(%topic, %partition, ?answer, "an in-sync set was asked for");
            if let Some(cell) = self.table.get(topic, partition) {
                cell.act(|partition, out| partition.on_isr_answer(&proposal, answer, out));
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
