//! I27: where only what is durable counts, an acknowledged record was on the disks of at least as many
//! replicas as `min.insync.replicas` before its producer is told.
//!
//! Before, and not when: the answer may be late, and a disk fail meanwhile.

use base::Offset;

use super::violation;
use crate::cluster::process::PartitionKey;
use crate::cluster::truth::Truth;
use crate::violation::Violation;

/// A replica of it was looked at.
pub(super) fn note(key: PartitionKey, truth: &mut Truth) {
    let mut ends: Vec<Offset> = truth.replicas_of(key).map(|(_, replica)| replica.view.durable).collect();
    ends.sort_unstable_by(|a, b| b.cmp(a));
    let Some(history) = truth.histories.get_mut(&key) else { return };
    let on_enough = history.isr_min.checked_sub(1).and_then(|last| ends.get(last));
    history.on_disks = history.on_disks.max(on_enough.copied().unwrap_or(Offset::ZERO));
}

/// A producer with acks=all was told that a record was written.
pub(crate) fn check_acked(key: PartitionKey, offset: Offset, truth: &Truth, found: &mut Vec<Violation>) {
    let Some(history) = truth.histories.get(&key).filter(|history| history.counts_durable()) else { return };
    if offset >= history.on_disks {
        let (name, upto, wanted) = (&history.name, history.on_disks, history.isr_min);
        let what = format!("{name} {offset}: on {wanted} disks at once was only what is before {upto}");
        violation(found, "I27 acknowledged is durable", what);
    }
}
