//! Seeds of clusters with groups of consumers; `VLTAVA_SIM_SEEDS` asks for more.

mod planted;

use vltava_sim::cluster::plant::Plant;
use vltava_sim::cluster::run::{run_groups, shrink};

/// How many seeds run if nobody asks for another number; `cargo xtask test` runs others for longer.
const SEEDS: u64 = 16;

fn check(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        let outcome = run_groups(seed, None);
        assert!(outcome.violations.is_empty(), "{}", shrink(&outcome));
    }
}

fn seeds_wanted() -> u64 {
    std::env::var("VLTAVA_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

#[test]
fn even_seeds_hold() {
    check((0..seeds_wanted()).filter(|seed| seed % 2 == 0));
}

#[test]
fn odd_seeds_hold() {
    check((0..seeds_wanted()).filter(|seed| seed % 2 == 1));
}

#[test]
fn seeds_that_once_failed_hold() {
    let lines = include_str!("../group-seeds.txt").lines().filter(|line| !line.starts_with('#'));
    let seeds = lines.filter_map(|line| line.split_whitespace().next());
    check(seeds.map(|seed| seed.parse().expect("each line begins with a seed")));
}

#[test]
fn a_seed_is_the_same_run_twice() {
    for seed in 0..6 {
        let (first, second) = (run_groups(seed, None), run_groups(seed, None));
        assert_eq!((first.hash, first.events), (second.hash, second.events), "seed {seed}");
    }
}

/// A planted bug, and within how many seeds it must be found: a minute's worth at most.
const PLANTED: &[(Plant, u64)] = &[
    (Plant::ReplyUncommitted, 5),
    (Plant::ShardKept, 5),
    (Plant::OnlyCommittedLoaded, 5),
    (Plant::LoadEndsAtGap, 5),
    (Plant::StaleCommitTaken, 10),
    (Plant::HeartbeatsUnread, 5),
    (Plant::CompactIsDelete, 5),
    (Plant::TombstonesForgotten, 40),
    (Plant::StaleEpochTaken, 20),
    (Plant::GivenBeforeRevoked, 20),
    (Plant::AssignmentsUnloaded, 5),
    (Plant::EpochsUnloaded, 5),
    (Plant::OutOfTouchSpeaks, 120),
    (Plant::UnreadIsLeft, 20),
];

#[test]
fn planted_bugs_are_found() {
    planted::are_found(PLANTED, &Plant::OF_GROUPS, run_groups);
}
