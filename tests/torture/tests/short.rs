//! The short form, for each change: minutes of faults from seeds that were never seen, with groups and without,
//! and the power cuts and kills of all at once. One after the other: a machine bears one cluster at a time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use vltava_torture::report::Outcome;
use vltava_torture::scenario::{self, Options, Protocols, Scenario};
use vltava_torture::stop::Stop;
use vltava_torture::system::{Flush, System};
use vltava_torture::{history, machine};

/// How many brokers.
const NODES: i32 = 3;
const FAULTS_TIME: Duration = Duration::from_secs(75);

static TURN: Mutex<()> = Mutex::new(());

fn play(scenario: Scenario, flush: Flush) -> Result<()> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = machine::unavailable() {
        eprintln!("skipped: {why}");
        return Ok(());
    }
    let without = machine::without_librdkafka();
    if let Some(why) = &without {
        eprintln!("skipped: librdkafka: {why}");
    }
    let seed = history::now_ns();
    let options = Options {
        nodes: Some(NODES),
        flush,
        seed,
        time: FAULTS_TIME,
        librdkafka: without.is_none(),
        protocols: Some(Protocols::Both),
        program: env!("CARGO_BIN_EXE_torture").into(),
        ..Options::new(System::vltava()?)
    };
    let minutes = FAULTS_TIME.as_secs_f64() / 60.0;
    eprintln!(
        "again: torture run {scenario:?} --nodes {NODES} --flush {flush:?} --seed {seed} --minutes {minutes}"
    );
    let report = scenario::run(scenario, &options, &Stop::default())?;
    eprintln!("\n{}", report.table());
    ensure!(report.outcome == Outcome::Passed, "it {:?}; with {:?}", report.outcome, report.findings);
    Ok(())
}

#[test]
fn faults_from_a_seed_lose_nothing() -> Result<()> {
    play(Scenario::Faults, Flush::Ack)
}

#[test]
fn groups_lose_no_commit_and_have_one_owner_for_each_partition() -> Result<()> {
    play(Scenario::Groups, Flush::Ack)
}

#[test]
fn a_power_cut_of_all_loses_nothing_that_was_flushed() -> Result<()> {
    play(Scenario::D1, Flush::Ack)
}

#[test]
fn a_power_cut_of_all_loses_what_was_not_flushed() -> Result<()> {
    play(Scenario::D1, Flush::Os)
}

#[test]
fn a_kill_of_all_loses_nothing() -> Result<()> {
    play(Scenario::D4, Flush::Os)
}
