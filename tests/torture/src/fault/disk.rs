//! Disks that are full, and disks that fail or hang under a process that lives.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Result;
use e2e::Chance;
use e2e::disk::Cut;
use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::{Heal, names};
use crate::cluster::Cluster;
use crate::system::RESERVE_BYTES;

pub(super) fn full(cluster: &mut Cluster, nodes: &[i32], chance: &mut Chance) -> Result<(String, Heal)> {
    // Nothing at all, a few pages, or less than the node wants to keep free.
    let left = *chance.one_of(&[0, 64 << 10, RESERVE_BYTES / 2]);
    for id in nodes {
        let node = cluster.node(*id);
        node.may_end = true;
        fill(&node.disk().path(), left)?;
    }
    Ok((format!("the disks of {} are full to {} KiB", names(nodes), left >> 10), Heal::Free))
}

/// Takes all room of a disk but so much.
pub fn fill(mounted: &Path, left_bytes: u64) -> Result<()> {
    let file = File::create(filler(mounted))?;
    let room = statvfs(mounted)?;
    // Blocks are taken for the map of blocks too, so the last of them have to be tried for.
    let mut bytes = (room.f_bavail * room.f_frsize).saturating_sub(left_bytes);
    let mut at = 0;
    while bytes >= room.f_frsize {
        match fallocate(&file, FallocateFlags::empty(), at, bytes) {
            Ok(()) => {
                at += bytes;
                let free = statvfs(mounted)?;
                bytes = bytes.min((free.f_bavail * free.f_frsize).saturating_sub(left_bytes));
            }
            Err(_) => bytes /= 2,
        }
    }
    Ok(())
}

/// Gives the room back, and starts the node if it ended.
pub(super) fn free(cluster: &mut Cluster, id: i32) -> Result<()> {
    fs::remove_file(filler(&cluster.node(id).disk().path()))?;
    cluster.node(id).may_end = false;
    cluster.start_node(id)
}

fn filler(mounted: &Path) -> PathBuf {
    mounted.join("filler")
}

/// Every write and every flush fails from now on; what was not flushed is gone.
pub(super) fn failing(cluster: &mut Cluster, nodes: &[i32], chance: &mut Chance) -> Result<(String, Heal)> {
    let cut = *chance.one_of(&[Cut::Now, Cut::AfterJournal]);
    for id in nodes {
        cluster.node(*id).fail_disk(cut)?;
    }
    Ok((format!("the disks of {} fail ({cut:?})", names(nodes)), Heal::Mend))
}

/// Who writes waits until it is healed.
pub(super) fn hanging(cluster: &mut Cluster, nodes: &[i32], _: &mut Chance) -> Result<(String, Heal)> {
    for id in nodes {
        cluster.node(*id).hang_disk()?;
    }
    Ok((format!("the disks of {} hang", names(nodes)), Heal::GoOn))
}
