//! Replicas that are taken away and given back, and leaders that are sent elsewhere, under load.
//!
//! ```text
//!   [1 2 3] ─▶ [2 3]        b1 has the partition no more         ┐
//!   [1 2 3] ─▶ [2 3 1]      another leads                        ├─▶ as it was
//!   [1 2 3] ─▶ [2 3 4]      where there are more than three      ┘
//! ```

use anyhow::Result;
use e2e::Chance;

use super::Heal;
use crate::cluster::{Cluster, Replicas};

pub(super) fn begin(cluster: &mut Cluster, nodes: &[i32], chance: &mut Chance) -> Result<(String, Heal)> {
    let (one, count) = (nodes[0], cluster.nodes().len() as i32);
    let before = cluster.replicas();
    let how = chance.pick(0..3);
    let chosen = before.iter().filter(|_| chance.one_in(2)).cloned().collect::<Vec<_>>();
    let after: Vec<Replicas> =
        chosen.iter().map(|of| Replicas { on: moved(&of.on, one, count, how), ..of.clone() }).collect();
    let moves: Vec<_> = chosen.iter().zip(&after).filter(|(before, after)| before != after).collect();
    let what = moves.iter().map(|(before, after)| format!("{before} -> {:?}", after.on));
    let what = format!("move replicas {}", what.collect::<Vec<_>>().join(", "));
    let back = moves.iter().map(|(before, _)| (*before).clone()).collect();
    let after: Vec<Replicas> = moves.into_iter().map(|(_, after)| after.clone()).collect();
    // Whoever else is hit meanwhile may keep the cluster from answering: it may be moved all the same.
    let what = match cluster.reassign(&after) {
        Ok(()) => what,
        Err(why) => format!("{what} ({why:#})"),
    };
    Ok((what, Heal::GiveBack(back)))
}

/// Where a partition goes that one broker is to lead or have no more, or to have.
fn moved(replicas: &[i32], one: i32, count: i32, how: u64) -> Vec<i32> {
    let others = || replicas.iter().copied().filter(|id| *id != one);
    match how {
        // The last in line takes over, with everything that a new preferred leader brings.
        0 => replicas.iter().skip(1).chain(replicas.first()).copied().collect(),
        // Somebody else gets it, if there is somebody.
        1 if count as usize > replicas.len() => {
            let new = (1..=count).find(|id| !replicas.contains(id));
            others().chain(new).collect()
        }
        _ if replicas.len() > 2 => others().collect(),
        _ => replicas.to_vec(),
    }
}

/// Has the partitions as they were, with their leaders first in line.
pub(super) fn give_back(cluster: &Cluster, before: &[Replicas]) {
    // If nobody answers, they stay where they are, which is as good a place.
    let _ = cluster.reassign(before);
    let _ = cluster.elect_preferred(before);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_leaves_or_another_comes_or_leads() {
        let replicas = [1, 2, 3];
        assert_eq!(moved(&replicas, 1, 3, 0), [2, 3, 1]);
        assert_eq!(moved(&replicas, 2, 3, 1), [1, 3]);
        assert_eq!(moved(&replicas, 2, 5, 1), [1, 3, 4]);
        assert_eq!(moved(&replicas, 1, 5, 2), [2, 3]);
        assert_eq!(moved(&[1], 1, 1, 2), [1]);
    }
}
