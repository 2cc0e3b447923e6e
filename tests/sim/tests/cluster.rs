//! Seeds of whole clusters; `VLTAVA_SIM_SEEDS` asks for more.

mod planted;

use vltava_sim::cluster::plant::Plant;
use vltava_sim::cluster::run::{run, shrink};

/// How many seeds run if nobody asks for another number; `cargo xtask test` runs others for longer.
const SEEDS: u64 = 60;

fn check(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        let outcome = run(seed, None);
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
    let lines = include_str!("../cluster-seeds.txt").lines().filter(|line| !line.starts_with('#'));
    let seeds = lines.filter_map(|line| line.split_whitespace().next());
    check(seeds.map(|seed| seed.parse().expect("each line begins with a seed")));
}

#[test]
fn a_seed_is_the_same_run_twice() {
    for seed in 0..8 {
        let (first, second) = (run(seed, None), run(seed, None));
        assert_eq!((first.hash, first.events), (second.hash, second.events), "seed {seed}");
    }
}

/// A planted bug, and within how many seeds it must be found.
const PLANTED: &[(Plant, u64)] = &[
    (Plant::CacheCounts, 20),
    (Plant::BarriersIgnored, 20),
    (Plant::MinIsrIgnored, 20),
    (Plant::AckAtOnce, 20),
    (Plant::EpochsUncompared, 20),
    (Plant::CutToCommitted, 60),
    (Plant::AllIsCommitted, 20),
    (Plant::CommittedToTheEnd, 20),
    (Plant::IsrUnasked, 20),
    (Plant::BrokerEpochGuessed, 30),
    (Plant::DoubtUnsaid, 60),
    (Plant::CleanMarkKept, 20),
    (Plant::ActsTooSoon, 20),
    (Plant::LeadershipKept, 20),
    (Plant::UncleanElected, 20),
    (Plant::QuorumForgets, 20),
    (Plant::DeposedIsHeard, 20),
    (Plant::DamageKept, 60),
];

#[test]
fn planted_bugs_are_found() {
    planted::are_found(PLANTED, &Plant::ALL, run);
}
