//! What is done to a cluster, and how it is undone. One file a kind.
//!
//! A fault is planned without knowing the cluster (who leads what then?) and finds its nodes when it
//! begins. Faults of processes and disks that go on at the same time are of different nodes; those of the
//! network may be of any.

mod connections;
mod disk;
mod kill;
mod partition;
mod pause;
mod power;
mod reassign;
mod restart;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use anyhow::Result;
use e2e::Chance;

use crate::cluster::{Cluster, Replicas, group_name};
use crate::net::RulesId;

pub use disk::fill;
pub use partition::isolate;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, clap::ValueEnum)]
pub enum Kind {
    /// kill -9.
    Kill,
    /// SIGSTOP, and SIGCONT a while later: a zombie leader.
    Pause,
    /// Frames do not pass: between all, one way only, or between some.
    Partition,
    /// Some frames get lost.
    Loss,
    /// TCP connections are reset, again and again.
    Connections,
    /// The disk forgets what was not flushed, and the process dies.
    Power,
    /// The disk is full.
    Full,
    /// The disk fails, and the process has to live with it.
    Failing,
    /// The disk takes nothing and says nothing, and goes on a while later.
    Hang,
    /// SIGTERM, one node after the other.
    Restart,
    /// Replicas are taken away and given back, leaders sent elsewhere.
    Reassign,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Kill,
        Self::Pause,
        Self::Partition,
        Self::Loss,
        Self::Connections,
        Self::Power,
        Self::Full,
        Self::Failing,
        Self::Hang,
        Self::Restart,
        Self::Reassign,
    ];

    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Partition => "partition",
            Self::Loss => "loss",
            Self::Connections => "connections",
            Self::Power => "power",
            Self::Full => "full",
            Self::Failing => "failing",
            Self::Hang => "hang",
            Self::Restart => "restart",
            Self::Reassign => "reassign",
        }
    }

    /// Whether it takes a node to itself.
    pub const fn is_of_node(self) -> bool {
        !matches!(self, Self::Partition | Self::Loss | Self::Connections | Self::Reassign)
    }
}

/// Whom it is to hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Who leads this partition.
    Leader(i32),
    /// Somebody who does not.
    Follower(i32),
    /// Who takes commands.
    Controller,
    /// Who coordinates this group.
    Coordinator(u32),
    /// Anybody.
    Any,
    /// Everybody.
    All,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leader(partition) => write!(f, "the leader of {partition}"),
            Self::Follower(partition) => write!(f, "a follower of {partition}"),
            Self::Controller => f.write_str("the controller"),
            Self::Coordinator(group) => write!(f, "the coordinator of group {group}"),
            Self::Any => f.write_str("any"),
            Self::All => f.write_str("all"),
        }
    }
}

/// A fault of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What.
    pub kind: Kind,
    /// To whom.
    pub target: Target,
    /// When, from the beginning of its round.
    pub after: Duration,
    /// How long.
    pub lasts: Duration,
    /// The rest of it.
    pub seed: u64,
}

/// A fault that goes on.
#[derive(Debug)]
pub struct Ongoing {
    /// What, for people.
    pub what: String,
    /// Who is hit.
    pub nodes: Vec<i32>,
    heal: Heal,
}

/// How it is undone.
#[derive(Debug)]
enum Heal {
    /// It has passed by itself.
    Nothing,
    /// Start them.
    Start,
    /// Let them go on.
    Resume,
    /// Let frames pass.
    Lift(RulesId),
    /// Make room on their disks.
    Free,
    /// Let their disks answer.
    GoOn,
    /// Kill them, mend their disks, start them.
    Mend,
    /// Have replicas where they were.
    GiveBack(Vec<Replicas>),
}

impl Planned {
    /// Begins. `None` if there is nobody left to be hit.
    pub fn begin(&self, cluster: &mut Cluster, busy: &BTreeSet<i32>) -> Result<Option<Ongoing>> {
        let mut chance = Chance::new(self.seed);
        let nodes = self.nodes(cluster, busy, &mut chance);
        if nodes.is_empty() {
            return Ok(None);
        }
        let begin = match self.kind {
            Kind::Kill => kill::begin,
            Kind::Pause => pause::begin,
            Kind::Partition => partition::begin,
            Kind::Loss => partition::lose,
            Kind::Connections => connections::begin,
            Kind::Power => power::begin,
            Kind::Full => disk::full,
            Kind::Failing => disk::failing,
            Kind::Hang => disk::hanging,
            Kind::Restart => restart::begin,
            Kind::Reassign => reassign::begin,
        };
        let (what, heal) = begin(cluster, &nodes, &mut chance)?;
        Ok(Some(Ongoing { what, nodes, heal }))
    }

    fn nodes(&self, cluster: &Cluster, busy: &BTreeSet<i32>, chance: &mut Chance) -> Vec<i32> {
        let all = cluster.nodes().iter().map(|node| node.id);
        let free: Vec<i32> = all.filter(|id| !self.kind.is_of_node() || !busy.contains(id)).collect();
        if free.is_empty() || (self.kind == Kind::Reassign && free.len() == 1) {
            return Vec::new();
        }
        let any = *chance.one_of(&free);
        let wanted = match self.target {
            Target::All => return free,
            Target::Any => any,
            Target::Controller => cluster.controller().unwrap_or(any),
            Target::Coordinator(group) => cluster.coordinator(&group_name(group)).unwrap_or(any),
            Target::Leader(partition) => cluster.leader(partition).unwrap_or(any),
            Target::Follower(partition) => {
                let leader = cluster.leader(partition);
                let others: Vec<i32> = free.iter().copied().filter(|id| Some(*id) != leader).collect();
                if others.is_empty() { any } else { *chance.one_of(&others) }
            }
        };
        vec![if free.contains(&wanted) { wanted } else { any }]
    }
}

impl Ongoing {
    /// Undoes it.
    pub fn heal(self, cluster: &mut Cluster) -> Result<()> {
        if let Heal::Lift(id) = self.heal {
            return cluster.net.lift(id);
        }
        if let Heal::GiveBack(before) = &self.heal {
            reassign::give_back(cluster, before);
        }
        for id in self.nodes {
            match self.heal {
                Heal::Nothing | Heal::Lift(_) | Heal::GiveBack(_) => {}
                Heal::Start => cluster.start_node(id)?,
                Heal::Resume => cluster.node(id).resume()?,
                Heal::Free => disk::free(cluster, id)?,
                Heal::GoOn => cluster.node(id).let_disk_go_on()?,
                Heal::Mend => {
                    let node = cluster.node(id);
                    node.kill()?;
                    node.restore_disk()?;
                    cluster.start_node(id)?;
                }
            }
        }
        Ok(())
    }
}

/// Nodes, for people.
fn names(nodes: &[i32]) -> String {
    nodes.iter().map(|id| format!("b{id}")).collect::<Vec<_>>().join(" ")
}
