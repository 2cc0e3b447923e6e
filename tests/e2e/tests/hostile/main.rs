//! A live node under attack serves the others throughout, within its memory.
//!
//! One node, one client that behaves and must never notice, and one attack after the other. Some attacks
//! are slow: their connections are opened first, and go on meanwhile.

mod bombs;
mod bytes;
mod counts;
mod floods;
mod good;
mod held;
mod queues;
mod target;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use conformance::Node;
use vltava_e2e::churn::{Churn, FOR_EVER, admin};
use vltava_e2e::process::{self, Taken, setup, with_node};
use vltava_e2e::{Chance, wait};

use good::Served;
use target::{TOPIC, Target};

/// What all attacks together may make it grow by.
const GROWTH_BYTES_MAX: u64 = 200 << 20;
/// What may be open behind the attacks and was not before: what the one who behaves uses.
const SOCKETS_MORE: usize = 3;
/// Logs of topics that requests made by chance, as clients may.
const FILES_MORE: usize = 100;
/// The node gives a slow frame 30 seconds; to close all of them takes some more.
const HELD_MAX: Duration = Duration::from_secs(60);

/// What others are served at the least, and how soon. A machine that does this alone serves many times
/// as much; below it, one who behaves would call the node dead.
const REQUESTS_PER_SECOND_MIN: f64 = 50.0;
const P99_MAX: Duration = Duration::from_millis(250);

type Attack = fn(&Target, &mut Chance) -> Result<()>;

/// Quick ones: each is over before the next begins.
const ATTACKS: &[(&str, Attack)] = &[
    ("lengths that are not kept", bytes::lengths),
    ("other protocols", bytes::protocols),
    ("versions and keys that there are not", bytes::versions),
    ("counts that are not kept", counts::mutated),
    ("garbage for every key and version", counts::garbage),
    ("decompression bombs", bombs::every_codec),
    ("fetch sessions without end", floods::fetch_sessions),
    ("producer ids without end", floods::producer_ids),
    ("names without end", floods::names),
    ("topics without end", floods::topics),
    ("answers before the end", queues::ends),
    ("queues full of answers", queues::hoards),
    ("queues that nobody waits for", queues::abandoned),
];

#[test]
fn a_node_under_attack_serves_others() -> Result<()> {
    let mut chance = Chance::from_env("hostile")?;
    with_node(Node::start(setup()?)?, |node| story(node, &mut chance))
}

fn story(node: &mut Node, chance: &mut Chance) -> Result<()> {
    let pid = node.pid().context("it runs")?;
    let admin = admin(&node.bootstrap())?;
    for topic in [TOPIC, good::TOPIC] {
        Churn::default().create(&admin, topic, 1, &[FOR_EVER])?;
    }
    let target = Target::new(node, pid);
    target.fill()?;
    let before = process::taken(pid)?;
    let over = AtomicBool::new(false);
    let began = Instant::now();
    let mut served = thread::scope(|scope| -> Result<Served> {
        let good = scope.spawn(|| good::serve(&node.bootstrap(), node.http_address(), &over));
        let attacked = attack(&target, before, chance);
        over.store(true, Ordering::Relaxed);
        let served = good.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (attacked, served) {
            (Ok(()), served) => served,
            (attacked, Ok(_)) => attacked.map(|()| unreachable!("it failed")),
            (Err(attacked), Err(served)) => bail!("{attacked:#}; and others were not served: {served:#}"),
        }
    })?;
    ensure!(node.exited()?.is_none() && node.pid() == Some(pid), "the node is not the one it was");
    let after = process::taken(pid)?;
    let (took, p99) = (began.elapsed(), served.p99());
    eprintln!(
        "hostile: {} requests of others answered in {:.0} s, 99 of 100 within {} ms, the slowest in {:.2} s ({}); \
         memory grew by {} MiB at most",
        served.requests,
        took.as_secs_f64(),
        p99.as_millis(),
        served.slowest.0.as_secs_f64(),
        served.slowest.1,
        mib(after.resident_max.saturating_sub(before.resident)),
    );
    let rate = served.requests as f64 / took.as_secs_f64();
    ensure!(rate > REQUESTS_PER_SECOND_MIN, "others were answered {rate:.1} requests a second");
    ensure!(p99 < P99_MAX, "others waited {p99:?} for one request of a hundred");
    ensure!(node.stop()?.success(), "it did not stop in good order");
    Ok(())
}

fn attack(target: &Target, before: Taken, chance: &mut Chance) -> Result<()> {
    let began = Instant::now();
    let held = held::open(target)?;
    for (name, attack) in ATTACKS {
        let since = Instant::now();
        attack(target, chance).with_context(|| (*name).to_owned())?;
        let now = process::taken(target.pid).with_context(|| format!("after {name}"))?;
        let grown = now.resident_max.saturating_sub(before.resident);
        eprintln!(
            "hostile: {name}: {:.1} s, {} MiB, at most {} MiB, {} sockets, {} files",
            since.elapsed().as_secs_f64(),
            mib(now.resident),
            mib(now.resident_max),
            now.sockets,
            now.files,
        );
        ensure!(grown < GROWTH_BYTES_MAX, "{name}: memory grew by {} MiB", mib(grown));
    }
    let let_be = held.let_be();
    let left = HELD_MAX.saturating_sub(began.elapsed());
    // The attackers still hold their ends: what is closed, the node has closed.
    let closed = wait::until("the node closes what attackers hold open", left, || {
        let now = process::taken(target.pid)?;
        Ok((now.sockets <= before.sockets + let_be + SOCKETS_MORE).then_some(()))
    });
    let now = process::taken(target.pid)?;
    closed.with_context(|| format!("{before:?} before, {now:?} now"))?;
    ensure!(now.files <= before.files + FILES_MORE, "{} files are open, before {}", now.files, before.files);
    held.end()?;
    wait::until("the node closes what attackers let go", HELD_MAX, || {
        let now = process::taken(target.pid)?;
        Ok((now.sockets <= before.sockets + SOCKETS_MORE).then_some(()))
    })
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}
