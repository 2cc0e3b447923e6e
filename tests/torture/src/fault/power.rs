//! The plug is pulled: what was not flushed is gone, or is there in part and out of order.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use e2e::Chance;
use e2e::disk::{Cut, write_back_some};

use super::{Heal, names};
use crate::cluster::Cluster;

/// A machine does not notice at once that its disk is gone.
const NOTICED_AFTER_MAX: Duration = Duration::from_millis(1500);

pub(super) fn begin(cluster: &mut Cluster, nodes: &[i32], chance: &mut Chance) -> Result<(String, Heal)> {
    let cut = *chance.one_of(&[Cut::Now, Cut::AfterJournal]);
    if chance.one_in(2) {
        for id in nodes {
            write_back_some(&cluster.node(*id).disk().path(), chance);
        }
    }
    let goes_on = chance.one_in(2);
    for id in nodes {
        let node = cluster.node(*id);
        if goes_on { node.fail_disk(cut)? } else { node.cut_power(cut)? }
    }
    if goes_on {
        // Not to wait for anything: as long as it takes the machine to die.
        thread::sleep(chance.time(NOTICED_AFTER_MAX));
    }
    for id in nodes {
        cluster.node(*id).kill()?;
    }
    for id in nodes {
        cluster.node(*id).restore_disk()?;
    }
    Ok((format!("power cut of {} ({cut:?})", names(nodes)), Heal::Start))
}
