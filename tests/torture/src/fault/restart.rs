//! SIGTERM, one node after the other, each when the one before it is in sync again: a rolling restart.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::Chance;

use super::{Heal, names};
use crate::cluster::Cluster;
use crate::stop::Stop;

const WHOLE_MAX: Duration = Duration::from_secs(60);

pub(super) fn begin(cluster: &mut Cluster, nodes: &[i32], _: &mut Chance) -> Result<(String, Heal)> {
    for id in nodes {
        let ended = cluster.node(*id).stop()?;
        cluster.start_node(*id)?;
        ensure!(ended, "b{id} did not end after SIGTERM");
        // Other faults may go on, and keep it from becoming whole.
        let _ = cluster.wait_until_whole(WHOLE_MAX, &Stop::default());
    }
    Ok((format!("restarted {}", names(nodes)), Heal::Nothing))
}
