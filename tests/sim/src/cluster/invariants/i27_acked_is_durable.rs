//! I27: where only what is durable counts, an acknowledged record was on the disks of at least as many
//! replicas as `min.insync.replicas` before its producer is told.
//!
//! Before, and not when: the answer may be late, and a disk fail meanwhile.
//!
//! What a log says of its disk is not believed: the simulated disk is asked what a power cut would leave.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base::Offset;
use storage::layout::{FileKind, FileName, parse_file_name};

use super::{Look, violation};
use crate::cluster::process::PartitionKey;
use crate::cluster::truth::{History, Truth, read};
use crate::disk::SimDisk;
use crate::trace::hash;
use crate::violation::Violation;

const NAME: &str = "I27 acknowledged is durable";

/// A replica was stepped: what its log says to be durable is on the medium, each batch as the log has it. What
/// was compared before is compared again only after a cut, and in another life.
pub(super) fn check_medium(look: &Look<'_>, history: &History, found: &mut Vec<Violation>) {
    let (start, upto) = (look.after.start, look.after.durable);
    let known = look.before.filter(|_| look.cuts.is_empty());
    let from = known.map_or(start, |before| before.durable.max(start));
    if history.compacts || look.after.has_failed || upto <= from || (look.is_rotten)(look.node) {
        return;
    }
    let (dir, log) = look.cell.with(|it| (it.log().dir().to_owned(), read(it.log(), from, upto, false)));
    let complain = |what: String| {
        let what = format!("{} of node {}, durable up to {upto}: {what}", history.name, look.node);
        Violation { invariant: NAME, what }
    };
    let log = match log {
        Ok(log) => log,
        Err(why) => return found.push(complain(why)),
    };
    let medium = on_medium(look.disk, &dir, (from, upto));
    let missing = log.iter().find(|batch| !medium.contains(&(batch.base, batch.hash)));
    if let Some(batch) = missing {
        found.push(complain(format!("what is at {} is not on the medium", batch.base)));
    }
}

/// The batches that a power cut would leave of a log between two offsets, each with the hash of its bytes.
fn on_medium(disk: &SimDisk, dir: &Path, (from, upto): (Offset, Offset)) -> BTreeSet<(Offset, u64)> {
    let segment = |name: String| match parse_file_name(&name) {
        FileName::Part(FileKind::Log, base) => Some((base, name)),
        _ => None,
    };
    let segments: BTreeMap<Offset, String> =
        disk.names_on_media(dir).into_iter().filter_map(segment).collect();
    let first = segments.range(..=from).next_back().map_or(Offset::ZERO, |(base, _)| *base);
    let mut there = BTreeSet::new();
    for name in segments.range(first..upto).map(|(_, name)| name) {
        let bytes = disk.on_media(&dir.join(name)).unwrap_or_default();
        let whole = records::batches(&bytes).map_while(Result::ok);
        let asked = whole.filter(|batch| batch.next_offset() > from);
        there.extend(asked.map(|batch| (batch.base_offset(), hash(0, batch.bytes()))));
    }
    there
}

/// A replica of it was looked at.
pub(super) fn note(key: PartitionKey, truth: &mut Truth) {
    let mut known: BTreeMap<usize, Offset> =
        truth.replicas_of(key).map(|(node, replica)| (node, replica.view.durable)).collect();
    let Some(history) = truth.histories.get_mut(&key) else { return };
    // What a disk had that was replaced since, its node may have told others before.
    history.on_replaced.retain(|node, _| !known.contains_key(node));
    known.extend(&history.on_replaced);
    let mut ends: Vec<Offset> = known.into_values().collect();
    ends.sort_unstable_by(|a, b| b.cmp(a));
    let on_enough = history.isr_min.checked_sub(1).and_then(|last| ends.get(last));
    history.on_disks = history.on_disks.max(on_enough.copied().unwrap_or(Offset::ZERO));
}

/// A producer with acks=all was told that a record was written.
pub(crate) fn check_acked(key: PartitionKey, offset: Offset, truth: &Truth, found: &mut Vec<Violation>) {
    let Some(history) = truth.histories.get(&key).filter(|history| history.counts_durable()) else { return };
    if offset >= history.on_disks {
        let (name, upto, wanted) = (&history.name, history.on_disks, history.isr_min);
        let what = format!("{name} {offset}: on {wanted} disks at once was only what is before {upto}");
        violation(found, NAME, what);
    }
}
