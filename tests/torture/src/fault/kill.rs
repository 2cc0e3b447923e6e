//! kill -9: what the process had in its memory is gone, what the system has is not.

use anyhow::Result;
use e2e::Chance;

use super::{Heal, names};
use crate::cluster::Cluster;

pub(super) fn begin(cluster: &mut Cluster, nodes: &[i32], _: &mut Chance) -> Result<(String, Heal)> {
    for id in nodes {
        cluster.node(*id).kill()?;
    }
    Ok((format!("kill -9 {}", names(nodes)), Heal::Start))
}
