//! I27: where only what is durable counts, an acknowledged record is on the disks of at least as many
//! replicas as `min.insync.replicas` when its producer is told.

use base::Offset;

use super::violation;
use crate::cluster::process::PartitionKey;
use crate::cluster::truth::Truth;
use crate::violation::Violation;

/// A producer with acks=all was told that a record was written.
pub(crate) fn check_acked(key: PartitionKey, offset: Offset, truth: &Truth, found: &mut Vec<Violation>) {
    let Some(history) = truth.histories.get(&key).filter(|history| history.counts_durable()) else { return };
    let durable = truth.replicas_of(key).filter(|(_, replica)| replica.view.durable > offset).count();
    if durable < history.isr_min {
        let what = format!("{} {offset} is on {durable} disks, wanted {}", history.name, history.isr_min);
        violation(found, "I27 acknowledged is durable", what);
    }
}
