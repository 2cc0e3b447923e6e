//! Seeds of the client's world; `VLTAVA_SIM_SEEDS` asks for more.

use vltava_sim::client::{ClientPlant, run};

/// How many seeds run if nobody asks for another number: some ten seconds' worth.
const SEEDS: u64 = 1000;

#[test]
fn seeds_hold() {
    let wanted = std::env::var("VLTAVA_SIM_SEEDS").ok().and_then(|text| text.parse().ok());
    for seed in 0..wanted.unwrap_or(SEEDS) {
        let outcome = run(seed, None);
        assert!(outcome.violations.is_empty(), "{outcome}");
    }
}

#[test]
fn a_seed_is_the_same_run_twice() {
    for seed in 0..60 {
        let (first, second) = (run(seed, None), run(seed, None));
        assert_eq!((first.hash, first.events), (second.hash, second.events), "seed {seed}");
    }
}

#[test]
fn planted_bugs_are_found() {
    for plant in ClientPlant::ALL {
        let found = (0..400).map(|seed| run(seed, Some(plant))).find(|run| !run.violations.is_empty());
        let found = found.unwrap_or_else(|| panic!("{plant:?} is not found"));
        eprintln!("{plant:?}: seed {}, {}", found.seed, found.violations[0]);
    }
}
