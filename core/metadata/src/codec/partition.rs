//! Partitions, in bytes.

use base::{BrokerId, LeaderEpoch, PartitionIndex, TopicId};

use super::{RecordError, wrong};
use crate::metadata_record::{MetadataRecord, NewPartition, PartitionChange};
use crate::parts::{Partition, Unsettled};
use crate::record::{PartitionChangeRecord, PartitionRecord};

/// In a change, the leader that means "as it was".
const LEADER_UNCHANGED: i32 = -2;
/// In a change, the recovery state that means "as it was".
const RECOVERY_UNCHANGED: i8 = -1;

impl From<&NewPartition> for PartitionRecord {
    fn from(new: &NewPartition) -> Self {
        let partition = &new.partition;
        let if_any = |list: &[BrokerId]| (!list.is_empty()).then(|| numbers(list));
        Self {
            partition_id: partition.index.0,
            topic_id: new.topic.0,
            replicas: numbers(&partition.replicas),
            isr: numbers(&partition.isr),
            removing_replicas: numbers(partition.removing()),
            adding_replicas: numbers(partition.adding()),
            leader: partition.leader.0,
            leader_recovery_state: partition.recovering.into(),
            leader_epoch: partition.leader_epoch.0,
            partition_epoch: partition.partition_epoch,
            directories: partition.directories.to_vec(),
            eligible_leader_replicas: if_any(partition.eligible()),
            last_known_elr: if_any(partition.last_known_eligible()),
            unclean_epoch: partition.unclean_epoch.0,
        }
    }
}

pub(super) fn new(it: PartitionRecord) -> Result<MetadataRecord, RecordError> {
    let unsettled = Unsettled {
        adding: brokers(it.adding_replicas),
        removing: brokers(it.removing_replicas),
        eligible: brokers(it.eligible_leader_replicas.unwrap_or_default()),
        last_known_eligible: brokers(it.last_known_elr.unwrap_or_default()),
    };
    let mut directories = it.directories;
    // Version 0 has no directories; every replica has one.
    directories.resize(it.replicas.len(), Partition::DIRECTORY_UNASSIGNED);
    let partition = Partition {
        index: index("PartitionRecord.partitionId", it.partition_id)?,
        leader: BrokerId(it.leader),
        leader_epoch: LeaderEpoch(it.leader_epoch),
        partition_epoch: it.partition_epoch,
        recovering: it.leader_recovery_state == 1,
        unclean_epoch: LeaderEpoch(it.unclean_epoch),
        replicas: brokers(it.replicas).into(),
        isr: brokers(it.isr).into(),
        directories: directories.into(),
        unsettled: (unsettled != Unsettled::default()).then(|| Box::new(unsettled)),
    };
    Ok(MetadataRecord::Partition(NewPartition { topic: TopicId(it.topic_id), partition }))
}

impl From<&PartitionChange> for PartitionChangeRecord {
    fn from(change: &PartitionChange) -> Self {
        let list = |list: &Option<Vec<BrokerId>>| list.as_deref().map(numbers);
        Self {
            partition_id: change.partition.0,
            topic_id: change.topic.0,
            isr: list(&change.isr),
            leader: change.leader.map_or(LEADER_UNCHANGED, |leader| leader.0),
            replicas: list(&change.replicas),
            removing_replicas: list(&change.removing),
            adding_replicas: list(&change.adding),
            leader_recovery_state: change.recovering.map_or(RECOVERY_UNCHANGED, i8::from),
            directories: change.directories.clone(),
            eligible_leader_replicas: list(&change.eligible),
            last_known_elr: list(&change.last_known_eligible),
        }
    }
}

pub(super) fn change(it: PartitionChangeRecord) -> Result<MetadataRecord, RecordError> {
    let list = |list: Option<Vec<i32>>| list.map(brokers);
    Ok(MetadataRecord::PartitionChange(PartitionChange {
        topic: TopicId(it.topic_id),
        partition: index("PartitionChangeRecord.partitionId", it.partition_id)?,
        leader: (it.leader != LEADER_UNCHANGED).then_some(BrokerId(it.leader)),
        isr: list(it.isr),
        replicas: list(it.replicas),
        adding: list(it.adding_replicas),
        removing: list(it.removing_replicas),
        eligible: list(it.eligible_leader_replicas),
        last_known_eligible: list(it.last_known_elr),
        recovering: (it.leader_recovery_state != RECOVERY_UNCHANGED).then_some(it.leader_recovery_state == 1),
        directories: it.directories,
    }))
}

fn index(field: &'static str, index: i32) -> Result<PartitionIndex, RecordError> {
    if index < 0 {
        return Err(wrong(field, index));
    }
    Ok(PartitionIndex(index))
}

fn numbers(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.0).collect()
}

fn brokers(numbers: Vec<i32>) -> Vec<BrokerId> {
    numbers.into_iter().map(BrokerId).collect()
}
