//! The short form, for each change: minutes of faults from seeds that were never seen, with groups and without,
//! and the power cuts and kills of all at once. One after the other: a machine bears one cluster at a time.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use vltava_torture::report::{Outcome, Report};
use vltava_torture::scenario::{self, KILL_OF_COORDINATOR, Options, Protocols, Scenario};
use vltava_torture::stop::Stop;
use vltava_torture::system::{Flush, System};
use vltava_torture::{history, machine};

const FAULTS_TIME: Duration = Duration::from_secs(75);

static TURN: Mutex<()> = Mutex::new(());

/// What came of it, if this machine can do it.
fn play(scenario: Scenario, flush: Flush) -> Result<Option<Report>> {
    play_on(scenario, flush, false)
}

/// The same, on a topic that may elect leaders uncleanly.
fn play_on(scenario: Scenario, flush: Flush, unclean: bool) -> Result<Option<Report>> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(why) = machine::unavailable() {
        eprintln!("skipped: {why}");
        return Ok(None);
    }
    let without = machine::without_librdkafka();
    if let Some(why) = &without {
        eprintln!("skipped: librdkafka: {why}");
    }
    let seed = history::now_ns();
    let options = Options {
        flush,
        unclean,
        seed,
        time: FAULTS_TIME,
        librdkafka: without.is_none(),
        protocols: Some(Protocols::Both),
        program: env!("CARGO_BIN_EXE_torture").into(),
        ..Options::new(System::vltava()?)
    };
    let minutes = FAULTS_TIME.as_secs_f64() / 60.0;
    let unclean = if unclean { " --unclean" } else { "" };
    let again =
        format!("torture run {scenario:?} --flush {flush:?}{unclean} --seed {seed} --minutes {minutes}");
    eprintln!("again: {again}");
    let report = scenario::run(scenario, &options, &Stop::default())?;
    eprintln!("\n{}", report.table());
    ensure!(
        report.outcome == Outcome::Passed,
        "it {:?}; with {:?}; again: {again}",
        report.outcome,
        report.findings
    );
    Ok(Some(report))
}

#[test]
fn faults_from_a_seed_lose_nothing() -> Result<()> {
    play(Scenario::Faults, Flush::Ack).map(drop)
}

#[test]
fn groups_lose_no_commit_and_have_one_owner_for_each_partition() -> Result<()> {
    let Some(report) = play(Scenario::Groups, Flush::Ack)? else { return Ok(()) };
    let silences = report.groups.map(|groups| groups.silences).unwrap_or_default();
    let killed = silences.get(KILL_OF_COORDINATOR).map_or(0, |times| times.count + times.never);
    ensure!(killed > 0, "no coordinator of a group was killed: {:?}", report.done);
    Ok(())
}

#[test]
fn a_power_cut_of_all_loses_nothing_that_was_flushed() -> Result<()> {
    play(Scenario::D1, Flush::Ack).map(drop)
}

#[test]
fn a_power_cut_of_all_loses_what_was_not_flushed() -> Result<()> {
    play(Scenario::D1, Flush::Os).map(drop)
}

#[test]
fn a_power_cut_of_one_of_two_that_acknowledged_loses_nothing() -> Result<()> {
    play(Scenario::D2, Flush::Os).map(drop)
}

#[test]
fn a_power_cut_of_the_last_in_sync_loses_nothing() -> Result<()> {
    play(Scenario::D3, Flush::Os).map(drop)
}

#[test]
fn a_power_cut_of_the_last_in_sync_loses_records_if_the_topic_does_not_wait() -> Result<()> {
    let Some(report) = play_on(Scenario::D3, Flush::Os, true)? else { return Ok(()) };
    let lost = report.anomalies.get("lost").map_or(0, |lost| lost.count);
    ensure!(lost > 0, "nothing was lost: {:?}", report.done);
    Ok(())
}

#[test]
fn a_kill_of_all_loses_nothing() -> Result<()> {
    play(Scenario::D4, Flush::Os).map(drop)
}

#[test]
fn who_voted_and_lost_power_votes_for_nobody_else() -> Result<()> {
    play(Scenario::D6, Flush::Ack).map(drop)
}

#[test]
fn a_disk_that_hangs_costs_seconds_and_loses_nothing() -> Result<()> {
    play(Scenario::D7, Flush::Ack).map(drop)
}
