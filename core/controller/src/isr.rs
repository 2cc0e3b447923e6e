//! In-sync sets, as their leaders see them: taken if nothing has changed since (KIP-497, KIP-903).
//!
//! What is taken is a change of the partition, also if it asks for what is so already: with it no other copy
//! of the command, and no earlier one, is in time any more. A leader relies on that to take back what it
//! asked for.

use std::collections::BTreeSet;

use base::{BrokerEpoch, BrokerId, PartitionIndex, TopicId};
use metadata::{MetadataRecord, Partition, PartitionChange, Topic};

use crate::command::{AlterPartition, AlterPartitions, Outcomes, PartitionAltered};
use crate::controller::Controller;
use crate::electorate::Electorate;
use crate::error::ControllerError;
use crate::revision::Revision;

type Altered = Result<PartitionAltered, ControllerError>;

impl Controller {
    pub(crate) fn alter_partitions(
        &self,
        command: &AlterPartitions,
    ) -> Result<(Outcomes<PartitionAltered>, Vec<MetadataRecord>), ControllerError> {
        let leader =
            self.image.broker(command.broker).ok_or(ControllerError::UnknownBroker(command.broker))?;
        if leader.epoch != command.broker_epoch {
            let (expected, got) = (leader.epoch, command.broker_epoch);
            return Err(ControllerError::StaleBrokerEpoch { expected, got });
        }
        if command.partitions.iter().any(|asked| self.is_ahead(asked)) {
            return Err(ControllerError::NotController { active: None });
        }
        let electorate = self.electorate();
        let mut seen = BTreeSet::new();
        let mut records = Vec::new();
        let outcomes = command.partitions.iter().map(|asked| {
            if !seen.insert((asked.topic, asked.partition)) {
                let why = "A partition is in the command more than once.".into();
                return Err(ControllerError::InvalidRequest(why));
            }
            let (altered, change) = self.alter_partition(&electorate, command.broker, asked)?;
            records.push(MetadataRecord::PartitionChange(change));
            altered
        });
        let outcomes = outcomes.collect();
        Ok((outcomes, records))
    }

    /// Whether a leader knows more of its partition than this controller: then another one is active, and this one
    /// was not told yet. What it would say of the partition is of the past, and may never be so again.
    fn is_ahead(&self, asked: &AlterPartition) -> bool {
        let known = self.find_partition(asked.topic, asked.partition);
        known.is_ok_and(|(_, known)| {
            asked.leader_epoch > known.leader_epoch || asked.partition_epoch > known.partition_epoch
        })
    }

    fn alter_partition(
        &self,
        electorate: &Electorate<'_>,
        leader: BrokerId,
        asked: &AlterPartition,
    ) -> Result<(Altered, PartitionChange), ControllerError> {
        let (topic, partition) = self.find_partition(asked.topic, asked.partition)?;
        self.check_alteration(partition, leader, asked)?;
        let revision = Revision {
            isr: asked.isr.iter().map(|&(id, _)| id).collect(),
            recovering: asked.recovering,
            ..Revision::of(topic.id, partition)
        };
        let nothing = || PartitionChange::of(topic.id, partition.index);
        let change = electorate.settle(topic, revision).unwrap_or_else(nothing);
        let mut after = Partition::clone(partition);
        after.change(&change);
        if after.leader != leader {
            return Ok((Err(ControllerError::NewLeaderElected { leader: after.leader }), change));
        }
        let altered = PartitionAltered {
            leader: after.leader,
            leader_epoch: after.leader_epoch,
            isr: after.isr.to_vec(),
            recovering: after.recovering,
            partition_epoch: after.partition_epoch,
        };
        Ok((Ok(altered), change))
    }

    fn find_partition(
        &self,
        topic: TopicId,
        partition: PartitionIndex,
    ) -> Result<(&Topic, &Partition), ControllerError> {
        let found = self.image.topic_by_id(topic).ok_or(ControllerError::UnknownTopicId(topic))?;
        let unknown = || ControllerError::UnknownPartition { topic: found.name.to_string(), partition };
        Ok((found, found.partition(partition).ok_or_else(unknown)?))
    }

    fn check_alteration(
        &self,
        partition: &Partition,
        leader: BrokerId,
        asked: &AlterPartition,
    ) -> Result<(), ControllerError> {
        if asked.leader_epoch != partition.leader_epoch {
            let (current, got) = (partition.leader_epoch, asked.leader_epoch);
            return Err(ControllerError::FencedLeaderEpoch { current, got });
        }
        if asked.partition_epoch != partition.partition_epoch {
            let (current, got) = (partition.partition_epoch, asked.partition_epoch);
            return Err(ControllerError::InvalidUpdateVersion { current, got });
        }
        let invalid = |why: &str| Err(ControllerError::InvalidRequest(why.to_owned()));
        if partition.leader != leader {
            return invalid("The broker does not lead the partition.");
        }
        let mut members = BTreeSet::new();
        if !asked.isr.iter().all(|(id, _)| members.insert(*id) && partition.replicas.contains(id)) {
            return invalid("The ISR must be of the partition's replicas, each once.");
        }
        if !members.contains(&leader) {
            return invalid("The ISR must include the leader.");
        }
        if asked.recovering && (!partition.recovering || asked.isr.len() > 1) {
            return invalid("A leader that recovers is in sync alone, and one that has recovered is done.");
        }
        // Who is in sync already was eligible when it came, and leaves when it is no more.
        let is_so =
            members.len() == partition.isr.len() && partition.isr.iter().all(|id| members.contains(id));
        if is_so { Ok(()) } else { self.check_eligible(partition, leader, asked) }
    }

    /// Whoever is in sync from here on must live, and in the life in which it caught up.
    fn check_eligible(
        &self,
        partition: &Partition,
        leader: BrokerId,
        asked: &AlterPartition,
    ) -> Result<(), ControllerError> {
        let electorate = self.electorate();
        let is_eligible = |&&(id, epoch): &&(BrokerId, BrokerEpoch)| {
            let is_known = id == leader || partition.isr.contains(&id);
            let is_this_life = self.image.broker(id).is_some_and(|broker| broker.epoch == epoch);
            let is_right_life = is_this_life || (is_known && epoch == BrokerEpoch::NONE);
            // A leader may be about to stop, and hands over to whom it takes in.
            is_right_life && (id == leader || electorate.can_lead(partition, id))
        };
        let ineligible: Vec<String> =
            asked.isr.iter().filter(|member| !is_eligible(member)).map(|(id, _)| id.to_string()).collect();
        if ineligible.is_empty() {
            return Ok(());
        }
        Err(ControllerError::IneligibleReplica(ineligible.join(", ")))
    }
}
