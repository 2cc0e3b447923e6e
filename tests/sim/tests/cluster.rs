//! Seeds of whole clusters; `VLTAVA_SIM_SEEDS` asks for more.

mod planted;

use planted::looked_for;
use vltava_sim::cluster::plant::Plant;
use vltava_sim::cluster::run::{Outcome, run, shrink};

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
    (Plant::CacheCounts, 5),
    (Plant::BarriersIgnored, 2),
    (Plant::MinIsrIgnored, 5),
    (Plant::AckAtOnce, 5),
    (Plant::EpochsUncompared, 10),
    (Plant::CutToCommitted, 100),
    (Plant::AllIsCommitted, 5),
    (Plant::CommittedToTheEnd, 10),
    (Plant::IsrUnasked, 5),
    (Plant::BrokerEpochGuessed, 30),
    (Plant::DoubtUnsaid, 30),
    (Plant::CleanMarkKept, 10),
    (Plant::ActsTooSoon, 5),
    (Plant::LeadershipKept, 20),
    (Plant::UncleanElected, 10),
    (Plant::QuorumForgets, 5),
    (Plant::DeposedIsHeard, 5),
];

#[test]
fn planted_bugs_are_found() {
    let mut table = String::new();
    for &(plant, seeds_max) in PLANTED {
        let name = format!("{plant:?}");
        let (found, took) = looked_for(&name, || {
            (0..seeds_max).map(|seed| run(seed, Some(plant))).find(|run| !run.violations.is_empty())
        });
        let found: Outcome = found.unwrap_or_else(|| panic!("{plant:?} is not found in {seeds_max} seeds"));
        let first_words: String = found.violations[0].to_string().chars().take(90).collect();
        table.push_str(&format!("{name:<20} seed {:>3}  {took:>8.1?}  {first_words}\n", found.seed));
    }
    for plant in Plant::ALL {
        let count = PLANTED.iter().filter(|(planted, _)| *planted == plant).count();
        assert_eq!(count, 1, "{plant:?} is in the table {count} times");
    }
    // `cargo test -- --nocapture` shows how soon each was found.
    eprintln!("{table}");
}
