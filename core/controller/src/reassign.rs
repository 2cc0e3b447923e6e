//! Partitions on their way to other brokers (KIP-455).
//!
//! ```text
//!   replicas  1 2 3 ──▶ 4 1 | 2 3 ──▶ 4 1        who comes is first added, and once it is in sync
//!   adding              4                         who goes is gone: never fewer than before meanwhile
//!   removing            2 3
//! ```
//!
//! A target that takes the place of another one under way drops who was only coming for that; it is refused where that
//! would leave fewer than `min.insync.replicas` who have all of it, nobody who is in sync, or, where nobody is known to
//! have all of it, not the last one that had.

use std::collections::BTreeSet;

use base::BrokerId;
use metadata::{MetadataRecord, Partition, PartitionChange, Topic};

use crate::command::{AlterReassignments, Outcomes, Reassignment};
use crate::controller::Controller;
use crate::electorate::Electorate;
use crate::error::ControllerError;
use crate::placement::cordoned;
use crate::revision::Revision;

impl Controller {
    pub(crate) fn alter_reassignments(
        &self,
        command: &AlterReassignments,
    ) -> (Outcomes<()>, Vec<MetadataRecord>) {
        let electorate = self.electorate();
        let mut seen = BTreeSet::new();
        let mut records = Vec::new();
        let outcomes = command.partitions.iter().map(|asked| {
            if !seen.insert((&asked.topic, asked.partition)) {
                let why = "A partition is in the command more than once.".into();
                return Err(ControllerError::InvalidRequest(why));
            }
            let may_resize = command.allow_replication_factor_change;
            let change = self.reassign(&electorate, asked, may_resize)?;
            records.extend(change.map(MetadataRecord::PartitionChange));
            Ok(())
        });
        let outcomes = outcomes.collect();
        (outcomes, records)
    }

    fn reassign(
        &self,
        electorate: &Electorate<'_>,
        asked: &Reassignment,
        may_resize: bool,
    ) -> Result<Option<PartitionChange>, ControllerError> {
        let (topic, partition) = self.find_named(&asked.topic, asked.partition)?;
        let original = original(partition);
        let target = match &asked.replicas {
            Some(target) => {
                self.check_target(partition, target)?;
                if !may_resize && target.len() != original.len() {
                    return Err(ControllerError::InvalidReplicationFactor(format!(
                        "The replication factor is changed from {} to {}",
                        original.len(),
                        target.len()
                    )));
                }
                target
            }
            None if partition.adding().is_empty() && partition.removing().is_empty() => {
                return Err(ControllerError::NoReassignmentInProgress);
            }
            None => &original,
        };
        let removing: Vec<BrokerId> = original.iter().filter(|id| !target.contains(id)).copied().collect();
        let adding: Vec<BrokerId> = target.iter().filter(|id| !original.contains(id)).copied().collect();
        let replicas: Vec<BrokerId> = target.iter().chain(&removing).copied().collect();
        let mut revision = Revision { adding, removing, replicas, ..Revision::of(topic.id, partition) };
        check_kept(topic, partition, electorate.insync_min(topic), &revision.replicas)?;
        revision.isr.retain(|id| revision.replicas.contains(id));
        Ok(electorate.settle(topic, revision))
    }

    fn check_target(&self, partition: &Partition, target: &[BrokerId]) -> Result<(), ControllerError> {
        let refused = |why: String| Err(ControllerError::InvalidReplicaAssignment(why));
        if target.is_empty() {
            return refused("The manual partition assignment includes an empty replica list.".into());
        }
        let mut seen = BTreeSet::new();
        for id in target {
            if self.image.is_cordoned(*id) && !partition.replicas.contains(id) {
                return refused(cordoned(*id));
            }
            if !seen.insert(id) {
                return refused(format!(
                    "The manual partition assignment includes the broker {id} more than once."
                ));
            }
            // Who is gone for good can stay where it is, so that the others can be moved.
            if self.image.broker(*id).is_none() && !partition.replicas.contains(id) {
                return refused(format!(
                    "The manual partition assignment includes broker {id}, but no such broker is registered."
                ));
            }
        }
        Ok(())
    }
}

/// Whether enough of those who have all that was acknowledged stay, if these are the replicas from here on. Whoever is
/// on the way out is still one of them: only those who were on the way in are dropped.
fn check_kept(
    topic: &Topic,
    partition: &Partition,
    insync_min: usize,
    replicas: &[BrokerId],
) -> Result<(), ControllerError> {
    let (isr, eligible, last) = (&partition.isr, partition.eligible(), partition.last_known_eligible());
    let stay = |ids: &[BrokerId]| ids.iter().filter(|id| replicas.contains(id)).count();
    let dropped = |ids: &[BrokerId]| {
        let dropped = ids.iter().filter(|id| !replicas.contains(id)).map(ToString::to_string);
        dropped.collect::<Vec<_>>().join(", ")
    };
    let name = format!("{}-{}", topic.name, partition.index);
    let refused = |why: String| Err(ControllerError::InvalidReplicaAssignment(why));
    if isr.is_empty() && eligible.is_empty() && stay(last) < last.len() {
        return refused(format!(
            "Nobody is in sync of {name}, and what was acknowledged may be on nobody but {}, on the way in, which \
             would be dropped. Bring it back, or name it, too; to go on without it, elect another uncleanly first.",
            dropped(last)
        ));
    }
    if !isr.is_empty() && stay(isr) == 0 {
        return refused(format!(
            "None of the replicas of {name} that would stay is in sync: {} is, on the way in, and would be dropped. \
             Name it, too, or wait until one that stays is in sync.",
            dropped(isr)
        ));
    }
    let have_all = stay(isr) + stay(eligible);
    let enough = insync_min.min(replicas.len()).min(isr.len() + eligible.len());
    if have_all < enough {
        return refused(format!(
            "Only {have_all} of the replicas of {name} that would stay have all of it, of at least {enough}: {} has, \
             too, on the way in, and would be dropped. Name it, too, wait until more are in sync, or lower \
             min.insync.replicas.",
            dropped(&[isr, eligible].concat())
        ));
    }
    Ok(())
}

/// The replicas as they were before what is under way.
fn original(partition: &Partition) -> Vec<BrokerId> {
    partition.replicas.iter().filter(|id| !partition.adding().contains(id)).copied().collect()
}
