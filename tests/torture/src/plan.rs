//! What is to be done to a cluster, and when: from a seed, before anything is known of it.
//!
//! Rounds of a quiet time and then no fault, one, or two at once. A run does not draw from all kinds that it
//! may: rare combinations come about when the common ones are away.

use std::time::Duration;

use e2e::Chance;

use crate::fault::{Kind, Planned, Target};
use crate::system::Flush;

/// A plan's limits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Kinds that may be drawn.
    pub kinds: Vec<Kind>,
    /// Whether a run is to draw from some of them only.
    pub swarm: bool,
    /// How long it is to take.
    pub time: Duration,
    /// How many brokers there are.
    pub nodes: i32,
    /// How many partitions there are.
    pub partitions: i32,
    /// When they flush.
    pub flush: Flush,
    /// How many groups there are, whose coordinators are hit as often as all others.
    pub groups: u32,
}

/// A quiet time, and faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Before the faults.
    pub quiet: Duration,
    /// At once, or nearly so.
    pub faults: Vec<Planned>,
    /// Whether the cluster is to be whole again before the next round.
    pub whole_after: bool,
}

impl Round {
    /// From its beginning to the end of its last fault.
    pub fn time(&self) -> Duration {
        let ends = self.faults.iter().map(|fault| fault.after + fault.lasts);
        self.quiet + ends.max().unwrap_or_default()
    }
}

const QUIET_MS: std::ops::Range<u64> = 1_000..6_000;
const LASTS_MS: std::ops::Range<u64> = 500..14_000;
const APART_MS: std::ops::Range<u64> = 0..4_000;
/// Until groups have members that read.
const SETTLING: Duration = Duration::from_secs(8);

/// The plan of a seed.
pub fn plan(seed: u64, limits: &Limits) -> Vec<Round> {
    let mut chance = Chance::new(seed);
    let kinds = drawn(&limits.kinds, limits.swarm, &mut chance);
    let mut rounds = Vec::new();
    let mut time = Duration::ZERO;
    while time < limits.time {
        let is_sure = rounds.is_empty() && limits.groups > 0 && limits.kinds.contains(&Kind::Kill);
        let round = match is_sure {
            true => kill_of_a_coordinator(limits, &mut chance),
            false => round(&kinds, limits, &mut chance),
        };
        // To be whole again takes some time that nobody can plan.
        time += round.time() + Duration::from_secs(if round.whole_after { 4 } else { 0 });
        rounds.push(round);
    }
    rounds
}

/// The kinds of a run: each with three chances of four, and one at least.
fn drawn(kinds: &[Kind], swarm: bool, chance: &mut Chance) -> Vec<Kind> {
    if !swarm || kinds.is_empty() {
        return kinds.to_vec();
    }
    let sure = *chance.one_of(kinds);
    kinds.iter().copied().filter(|kind| !chance.one_in(4) || *kind == sure).collect()
}

/// What every run with groups begins with, however short it is and whatever else it draws.
fn kill_of_a_coordinator(limits: &Limits, chance: &mut Chance) -> Round {
    let fault = Planned {
        kind: Kind::Kill,
        target: Target::Coordinator(chance.pick(0..u64::from(limits.groups)) as u32),
        after: Duration::ZERO,
        lasts: Duration::from_millis(chance.pick(LASTS_MS)),
        seed: chance.draw(),
    };
    Round { quiet: SETTLING, faults: vec![fault], whole_after: true }
}

fn round(kinds: &[Kind], limits: &Limits, chance: &mut Chance) -> Round {
    let quiet = Duration::from_millis(chance.pick(QUIET_MS));
    let count = if kinds.is_empty() { 0 } else { [0, 1, 1, 1, 2, 2][chance.pick(0..6) as usize] };
    let mut faults: Vec<Planned> = (0..count).map(|_| fault(kinds, limits, chance)).collect();
    // Where nothing is flushed, one power cut at a time is what replication has to bear, and no more.
    if limits.flush == Flush::Os && faults.iter().any(|fault| loses_data(fault.kind)) {
        faults.retain(|fault| loses_data(fault.kind));
        faults.truncate(1);
    }
    let whole_after = limits.flush == Flush::Os || chance.one_in(2);
    Round { quiet, faults, whole_after }
}

/// Whether what is not flushed goes.
pub const fn loses_data(kind: Kind) -> bool {
    matches!(kind, Kind::Power | Kind::Failing)
}

fn fault(kinds: &[Kind], limits: &Limits, chance: &mut Chance) -> Planned {
    let kind = *chance.one_of(kinds);
    let partition = chance.pick(0..limits.partitions as u64) as i32;
    let mut one = *chance.one_of(&[
        Target::Leader(partition),
        Target::Leader(partition),
        Target::Follower(partition),
        Target::Controller,
        Target::Any,
    ]);
    if limits.groups > 0 && chance.one_in(2) {
        one = Target::Coordinator(chance.pick(0..u64::from(limits.groups)) as u32);
    }
    let may_hit_all = match kind {
        Kind::Kill | Kind::Restart | Kind::Connections | Kind::Loss => true,
        Kind::Power => limits.flush == Flush::Ack,
        Kind::Pause | Kind::Partition | Kind::Full | Kind::Failing | Kind::Hang | Kind::Reassign => false,
    };
    let target = if may_hit_all && chance.one_in(4) { Target::All } else { one };
    Planned {
        kind,
        target,
        after: Duration::from_millis(chance.pick(APART_MS)),
        lasts: Duration::from_millis(chance.pick(LASTS_MS)),
        seed: chance.draw(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn limits(flush: Flush) -> Limits {
        let kinds = Kind::ALL.to_vec();
        Limits {
            kinds,
            swarm: true,
            time: Duration::from_secs(600),
            nodes: 3,
            partitions: 4,
            flush,
            groups: 0,
        }
    }

    #[test]
    fn a_seed_decides_the_plan() {
        let limits = limits(Flush::Ack);
        assert_eq!(plan(7, &limits), plan(7, &limits));
        assert_ne!(plan(7, &limits), plan(8, &limits));
        let time: Duration = plan(7, &limits).iter().map(Round::time).sum();
        assert!(time < limits.time + Duration::from_secs(30), "{time:?}");
    }

    #[test]
    fn coordinators_are_hit_where_there_are_groups() {
        let hits = |groups| {
            let limits = Limits { groups, ..limits(Flush::Ack) };
            let rounds = (0..10).flat_map(|seed| plan(seed, &limits));
            let targets = rounds.flat_map(|round| round.faults).map(|fault| fault.target);
            let hit = targets.filter_map(|target| match target {
                Target::Coordinator(group) => Some(group),
                _ => None,
            });
            hit.collect::<BTreeSet<_>>()
        };
        assert_eq!((hits(0).len(), hits(3)), (0, BTreeSet::from([0, 1, 2])));
    }

    #[test]
    fn a_coordinator_is_killed_in_every_run_with_groups() {
        let is_killed = |seed, limits: &Limits| {
            let first = plan(seed, limits).swap_remove(0).faults;
            matches!(first[..], [Planned { kind: Kind::Kill, target: Target::Coordinator(_), .. }])
        };
        let short = Limits { time: Duration::from_secs(1), groups: 3, ..limits(Flush::Ack) };
        assert!((0..40).all(|seed| is_killed(seed, &short)));
        let without = [
            Limits { groups: 0, ..short.clone() },
            Limits { kinds: vec![Kind::Pause, Kind::Loss], ..short.clone() },
        ];
        for limits in without {
            assert!(!(0..40).any(|seed| is_killed(seed, &limits)), "{limits:?}");
        }
    }

    #[test]
    fn every_kind_is_drawn_and_not_in_every_run() {
        let limits = limits(Flush::Ack);
        let of = |seed| -> BTreeSet<Kind> {
            plan(seed, &limits).iter().flat_map(|round| &round.faults).map(|fault| fault.kind).collect()
        };
        let runs: Vec<_> = (0..40).map(of).collect();
        for kind in Kind::ALL {
            assert!(runs.iter().any(|run| run.contains(&kind)), "{kind:?}");
            assert!(runs.iter().any(|run| !run.contains(&kind)), "{kind:?}");
        }
    }

    #[test]
    fn what_is_not_flushed_is_lost_in_one_place_at_a_time() {
        for seed in 0..40 {
            for round in plan(seed, &limits(Flush::Os)) {
                let losing = round.faults.iter().filter(|fault| loses_data(fault.kind)).count();
                assert!(losing == 0 || round.faults.len() == 1 && round.whole_after, "{round:?}");
                assert!(
                    round.faults.iter().all(|fault| !loses_data(fault.kind) || fault.target != Target::All)
                );
            }
        }
    }
}
