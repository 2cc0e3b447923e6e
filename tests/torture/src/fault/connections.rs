//! Connections that are reset, again and again: nobody is away, but nothing is answered for sure.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use e2e::Chance;

use super::{Heal, names};
use crate::cluster::Cluster;

const TIMES_MAX: u64 = 20;
const BETWEEN: Duration = Duration::from_millis(250);

pub(super) fn begin(cluster: &mut Cluster, nodes: &[i32], chance: &mut Chance) -> Result<(String, Heal)> {
    let times = 1 + chance.pick(0..TIMES_MAX);
    for _ in 0..times {
        for id in nodes {
            cluster.net.kill_connections(*id)?;
        }
        // Not to wait for anything: the rhythm of the fault.
        thread::sleep(chance.time(BETWEEN));
    }
    Ok((format!("reset the connections of {} {times} times", names(nodes)), Heal::Nothing))
}
