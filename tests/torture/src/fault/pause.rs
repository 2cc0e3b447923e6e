//! SIGSTOP: a leader that does not know how late it is when it goes on.

use anyhow::Result;
use e2e::Chance;

use super::{Heal, names};
use crate::cluster::Cluster;

pub(super) fn begin(cluster: &mut Cluster, nodes: &[i32], _: &mut Chance) -> Result<(String, Heal)> {
    for id in nodes {
        cluster.node(*id).pause()?;
    }
    Ok((format!("pause {}", names(nodes)), Heal::Resume))
}
