//! I11: groups are coordinated by whoever leads their partition: a node keeps a shard for as long as it leads the
//! partition in the same epoch, as far as it knows.

use super::violation;
use crate::cluster::process::Process;
use crate::violation::Violation;

pub(crate) fn check(process: &Process, found: &mut Vec<Violation>) {
    for shard in process.shards().iter().filter(|shard| !shard.is_led()) {
        let (name, epoch) = (&shard.cell.name, shard.epoch);
        let what = format!("node {} coordinates the groups of {name} as in epoch {epoch}", process.node);
        violation(found, "I11 shards", what);
    }
}
