//! The power goes under load: what was not flushed is gone.
//!
//! A kill leaves the page cache, so only this tells whether an answer waited for the disk. The same load
//! without that promise must lose something, or the test would prove nothing.
//!
//! `VLTAVA_POWER_ROUNDS` says how often (default 8), `VLTAVA_SEED` when.

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base::PartitionIndex;
use conformance::Node;
use records::Compression;
use vltava_e2e::Chance;
use vltava_e2e::churn::{Churn, FOR_EVER, admin};
use vltava_e2e::disk::{self, Cut, Disk};
use vltava_e2e::ledger::{Depth, Ledger, Place};
use vltava_e2e::load::{Load, Producer, connect};
use vltava_e2e::process::{halt, setup, with_node};

const DISK_BYTES: u64 = 2 << 30;
const TOPIC: &str = "orders";
const PARTITIONS: i32 = 4;
const LOAD_MAX: Duration = Duration::from_millis(800);
/// How often a node that promises nothing may be lucky.
const OS_ROUNDS_MAX: u64 = 5;

#[test]
fn what_was_acknowledged_survives_a_power_cut_under_ack() -> Result<()> {
    if is_skipped() {
        return Ok(());
    }
    let rounds: u64 = match env::var("VLTAVA_POWER_ROUNDS") {
        Ok(text) => text.parse().context("VLTAVA_POWER_ROUNDS is not a number")?,
        Err(_) => 8,
    };
    let began = Instant::now();
    let mut chance = Chance::from_env("power")?;
    let mut disk = Disk::new(DISK_BYTES)?;
    let node = Node::start(setup()?.in_dir(&disk.path().join("data")).set("flush.policy", "ack"))?;
    let told = with_node(node, |node| {
        let (mut load, places) = prepare(node)?;
        let mut ledger = load.ledger();
        for round in 1..=rounds {
            survive(node, &mut disk, &mut load, &mut ledger, &places, &mut chance)
                .with_context(|| format!("round {round}"))?;
        }
        ledger.check(&mut connect(&node.bootstrap())?, Depth::All).context("at the end")?;
        eprintln!(
            "power: {rounds} cuts, {} records acknowledged, none lost, {:.1} s",
            ledger.acknowledged_count(),
            began.elapsed().as_secs_f64(),
        );
        Ok(())
    });
    drop(disk);
    told
}

#[test]
fn a_power_cut_loses_what_was_acknowledged_under_os() -> Result<()> {
    if is_skipped() {
        return Ok(());
    }
    let mut chance = Chance::from_env("power os")?;
    let mut disk = Disk::new(DISK_BYTES)?;
    let node = Node::start(setup()?.in_dir(&disk.path().join("data")).set("flush.policy", "os"))?;
    let told = with_node(node, |node| {
        let (mut load, places) = prepare(node)?;
        let mut ledger = load.ledger();
        for round in 1..=OS_ROUNDS_MAX {
            cut(node, &mut disk, (&mut load, &mut ledger), &places[0], Cut::Now, &mut chance)?;
            node.start_again()?;
            // Topics are flushed whatever was promised about records.
            load.churn().check(&admin(&node.bootstrap())?)?;
            let lost = ledger.count_lost(&mut connect(&node.bootstrap())?)?;
            let acknowledged = ledger.acknowledged_count();
            eprintln!("power os: cut {round} lost {lost} of {acknowledged} acknowledged records");
            if lost > 0 {
                return check_prefix(node, &load, &places);
            }
            ledger.check(&mut connect(&node.bootstrap())?, Depth::Tail)?;
        }
        ensure!(
            false,
            "no power cut lost anything: then none of them proves anything about flush.policy=ack"
        );
        Ok(())
    });
    drop(disk);
    told
}

/// What is left is the front of what was written, whatever the disk kept of the rest.
fn check_prefix(node: &Node, load: &Load, places: &[Place]) -> Result<()> {
    let mut fresh = load.ledger();
    for at in places {
        fresh.seen(at, []);
    }
    fresh.check(&mut connect(&node.bootstrap())?, Depth::All).context("what was not lost")
}

fn is_skipped() -> bool {
    let why = disk::unavailable();
    if let Some(why) = why {
        eprintln!("skipped: {why}");
    }
    why.is_some()
}

fn prepare(node: &Node) -> Result<(Load, Vec<Place>)> {
    let mut churn = Churn::default();
    let admin = admin(&node.bootstrap())?;
    let mut connection = connect(&node.bootstrap())?;
    churn.create(&admin, TOPIC, PARTITIONS, &[FOR_EVER, ("segment.bytes", "1048576")])?;
    let (mut producers, mut places) = (Vec::new(), Vec::new());
    for partition in 0..PARTITIONS {
        let at = Place { topic: TOPIC.to_owned(), partition: PartitionIndex(partition) };
        let id = producers.len() as u32;
        producers.push(Producer::idempotent(id, at.clone(), Compression::None, &mut connection)?);
        producers.push(Producer::plain(id + 1, at.clone(), Compression::Lz4));
        places.push(at);
    }
    Ok((Load::new(producers, churn), places))
}

fn survive(
    node: &mut Node,
    disk: &mut Disk,
    load: &mut Load,
    ledger: &mut Ledger,
    places: &[Place],
    chance: &mut Chance,
) -> Result<()> {
    let how = *chance.one_of(&[Cut::Now, Cut::AfterJournal]);
    let read_at = chance.one_of(places).clone();
    cut(node, disk, (load, ledger), &read_at, how, chance)?;
    node.start_again().with_context(|| format!("after {how:?}"))?;
    load.churn().check(&admin(&node.bootstrap())?).with_context(|| format!("after {how:?}"))?;
    let mut connection = connect(&node.bootstrap())?;
    ledger.check(&mut connection, Depth::Tail).with_context(|| format!("after {how:?}"))?;
    if chance.one_in(3) {
        load.settle(&node.bootstrap(), ledger)?;
        ledger.check(&mut connection, Depth::Tail).context("after what was not answered was sent again")?;
    }
    Ok(())
}

/// Pulls the plug under load. The node stands still before its disk does: of a flush that is under way when its file
/// system is shut down, ext4 may say that it went well, and nobody without power would say so on.
fn cut(
    node: &mut Node,
    disk: &mut Disk,
    (load, ledger): (&mut Load, &mut Ledger),
    read_at: &Place,
    how: Cut,
    chance: &mut Chance,
) -> Result<()> {
    let (batches, delay, some_written) = (chance.pick(20..80), chance.time(LOAD_MAX), chance.one_in(2));
    load.during(&node.bootstrap(), ledger, read_at, |progress| {
        progress.wait_for_batches(batches)?;
        // Not to wait for anything: the moment of the fault.
        thread::sleep(delay);
        if some_written {
            disk::write_back_some(&disk.path(), chance);
        }
        halt(node.pid().context("it runs")?)?;
        disk.cut(how)?;
        node.kill()
    })?;
    disk.restore()
}
