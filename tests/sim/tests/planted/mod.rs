//! Looks for planted bugs, in clusters with groups or without.

use std::time::Duration;

use vltava_sim::cluster::plant::Plant;
use vltava_sim::cluster::run::Outcome;

/// How long a processor may look for each of them: a minute. Code that is not optimised, which takes ten times as
/// long, is given three.
const PROCESSOR_MAX: Duration = Duration::from_secs(if cfg!(debug_assertions) { 180 } else { 60 });

/// How long this thread has had a processor, so that what else the machine does does not count; `None` where the
/// system does not say.
fn on_processor() -> Option<Duration> {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    said.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Looks for each planted bug in as many seeds, and says in a table how soon it was found. Each of all is in the list
/// once.
pub(crate) fn are_found(planted: &[(Plant, u64)], all: &[Plant], run: fn(u64, Option<Plant>) -> Outcome) {
    let mut table = String::new();
    for &(plant, seeds_max) in planted {
        let began = on_processor();
        let found = (0..seeds_max).map(|seed| run(seed, Some(plant))).find(|run| !run.violations.is_empty());
        let took = on_processor().zip(began).map(|(now, began)| now - began).unwrap_or_default();
        let found = found.unwrap_or_else(|| panic!("{plant:?} is not found in {seeds_max} seeds"));
        assert!(took < PROCESSOR_MAX, "{plant:?} is found by seed {} after {took:?}", found.seed);
        let first_words: String = found.violations[0].to_string().chars().take(90).collect();
        let name = format!("{plant:?}");
        table.push_str(&format!("{name:<20} seed {:>3}  {took:>8.1?}  {first_words}\n", found.seed));
    }
    for plant in all {
        let count = planted.iter().filter(|(planted, _)| planted == plant).count();
        assert_eq!(count, 1, "{plant:?} is in the table {count} times");
    }
    // `cargo test -- --nocapture` shows how soon each was found.
    eprintln!("{table}");
}
