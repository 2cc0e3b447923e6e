//! What must be true of every cluster. One property, one file.
//!
//! A replica is looked at after each step that touched it; the metadata with each batch that is committed;
//! and clients say what they are told when they are told it.

pub(crate) mod i01_acked_is_kept;
pub(crate) mod i02_one_value;
pub(crate) mod i03_dense_monotone;
pub(crate) mod i10_reads_go_on;
pub(crate) mod i11_commits;
pub(crate) mod i11_epochs;
pub(crate) mod i11_generations;
pub(crate) mod i11_one_owner;
pub(crate) mod i11_shards;
pub(crate) mod i14_marks;
pub(crate) mod i15_committed_by_all;
pub(crate) mod i16_same_prefix;
pub(crate) mod i17_epochs;
pub(crate) mod i18_one_leader;
pub(crate) mod i19_clean_elections;
pub(crate) mod i20_isr_by_controller;
pub(crate) mod i21_cuts;
pub(crate) mod i22_quorum;
pub(crate) mod i23_same_image;
pub(crate) mod i26_compaction;
pub(crate) mod i26_deletion;
pub(crate) mod i27_acked_is_durable;

use std::sync::Arc;

use base::Offset;
use metadata::{Image, Partition};

use super::process::PartitionKey;
use super::process::cell::{Cell, View};
use super::truth::{History, Replica, Truth};
use crate::disk::SimDisk;
use crate::violation::Violation;

/// The end of a log that was cut off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) from: Offset,
    pub(crate) to: Offset,
    pub(crate) committed: Offset,
}

/// A replica that was stepped.
pub(crate) struct Look<'a> {
    pub(crate) node: usize,
    pub(crate) life: u32,
    pub(crate) key: PartitionKey,
    pub(crate) cell: &'a Cell,
    /// What it lies on.
    pub(crate) disk: &'a SimDisk,
    /// Whether a node's disk has not kept all records of it: there is nothing to compare then.
    pub(crate) is_rotten: &'a dyn Fn(usize) -> bool,
    /// As it was before, in the same life.
    pub(crate) before: Option<View>,
    pub(crate) after: View,
    pub(crate) cuts: &'a [Cut],
    /// What the metadata say of it, whoever knows.
    pub(crate) decided: Option<&'a Partition>,
    /// The same partition on another node, if its process runs.
    pub(crate) cell_of: &'a dyn Fn(usize) -> Option<Arc<Cell>>,
}

/// Looks at a replica.
pub(crate) fn look(look: &Look<'_>, truth: &mut Truth, found: &mut Vec<Violation>) {
    let Some(history) = truth.histories.get_mut(&look.key) else { return };
    let fails_now = look.after.has_failed && look.before.is_some_and(|before| !before.has_failed);
    if fails_now {
        history.doubt(look.node, false, look.decided);
    }
    let verified = match (look.before, truth.replicas.get(&(look.key, look.node))) {
        (Some(_), Some(replica)) => replica.verified,
        _ => look.after.start,
    };
    let cut_to = look.cuts.iter().map(|cut| cut.to).min().unwrap_or(Offset(i64::MAX));
    let is_broken = history.is_broken;
    let history: &History = history;
    i14_marks::check(look, history, found);
    i03_dense_monotone::check(look, history, found);
    i26_deletion::check(look, history, found);
    i27_acked_is_durable::check_medium(look, history, found);
    i18_one_leader::check(look, truth, found);
    if !is_broken {
        i21_cuts::check(look, verified, found);
    }
    let replica = Replica { life: look.life, is_up: true, view: look.after, verified: verified.min(cut_to) };
    truth.replicas.insert((look.key, look.node), replica);
    i27_acked_is_durable::note(look.key, truth);
    // What a leader commits in the step in which it fails is committed. Of a follower nobody reads any more, and what
    // it has of a file whose sync failed may be anything.
    if is_broken || (look.after.has_failed && !(fails_now && look.after.leads)) {
        return;
    }
    i01_acked_is_kept::check_leader(look, truth, found);
    i16_same_prefix::check(look, truth, found);
}

/// Looks at a batch of the metadata, which was just committed.
pub(crate) fn look_at_metadata(before: &Image, after: &Image, truth: &mut Truth, found: &mut Vec<Violation>) {
    for topic in after.topics() {
        for partition in topic.partitions() {
            let Some(was) = before.partition(topic.id, partition.index) else { continue };
            if was == partition {
                continue;
            }
            let key = (topic.id, partition.index);
            if let Some(history) = truth.histories.get_mut(&key) {
                history.on_given_up(was, partition, after);
                history.judge(partition);
            }
            i18_one_leader::check_metadata(key, was, partition, found);
            i19_clean_elections::check(key, was, partition, truth, found);
            i20_isr_by_controller::check(key, was, partition, after, truth, found);
            truth.on_replicas(key, &partition.replicas);
        }
    }
}

pub(crate) fn violation(found: &mut Vec<Violation>, invariant: &'static str, what: String) {
    found.push(Violation { invariant, what });
}
