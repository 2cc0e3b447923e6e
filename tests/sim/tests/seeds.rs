//! Seeds, as many as fit into a test run; `VLTAVA_SIM_SEEDS` asks for more.

use vltava_sim::plant::Plant;
use vltava_sim::run::run;

/// How many seeds run if nobody asks for another number: some ten seconds' worth.
const SEEDS: u64 = 4000;

fn check(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        let outcome = run(seed, None);
        assert!(outcome.violations.is_empty(), "{outcome}");
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
    let lines = include_str!("../seeds.txt").lines().filter(|line| !line.starts_with('#'));
    let seeds = lines.filter_map(|line| line.split_whitespace().next());
    check(seeds.map(|seed| seed.parse().expect("each line begins with a seed")));
}

#[test]
fn a_seed_is_the_same_run_twice() {
    for seed in 0..60 {
        let (first, second) = (run(seed, None), run(seed, None));
        assert_eq!((first.hash, first.events), (second.hash, second.events), "seed {seed}");
    }
}

/// A planted bug, and within how many seeds it must be found: ten times what it takes, and within a
/// minute by far.
const PLANTED: &[(Plant, u64)] = &[
    (Plant::AckBeforeSync, 20),
    (Plant::NamesNotSynced, 200),
    (Plant::FailedSyncRetried, 6000),
    (Plant::CacheBelieved, 6000),
    (Plant::WriteErrorIgnored, 400),
    (Plant::ReadErrorIsEnd, 1000),
    (Plant::ChecksumsSkipped, 400),
    (Plant::CheckpointAhead, 200),
    (Plant::CutBeforeCheckpoint, 1000),
    (Plant::CheckpointIgnored, 200),
    (Plant::LogStartForgotten, 100),
    (Plant::RetentionForgotten, 1000),
];

#[test]
fn planted_bugs_are_found() {
    let mut table = String::new();
    for &(plant, seeds_max) in PLANTED {
        let found = (0..seeds_max).map(|seed| run(seed, Some(plant))).find(|run| !run.violations.is_empty());
        let found = found.unwrap_or_else(|| panic!("{plant:?} is not found in {seeds_max} seeds"));
        let violation = found.violations[0].to_string();
        let first_words: String = violation.chars().take(90).collect();
        table.push_str(&format!("{:<20} seed {:>5}  {first_words}\n", format!("{plant:?}"), found.seed));
    }
    for plant in Plant::ALL {
        let count = PLANTED.iter().filter(|(planted, _)| *planted == plant).count();
        assert_eq!(count, 1, "{plant:?} is in the table {count} times");
    }
    // `cargo test -- --nocapture` shows how soon each was found.
    eprintln!("{table}");
}
