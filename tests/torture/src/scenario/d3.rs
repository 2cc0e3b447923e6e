//! D3, last replica standing (KIP-966): the only replica that is in sync loses what it had not flushed.
//!
//! ```text
//!   1  b1 is cut off, then b2: of the replicas only b3 is in sync; b4 and b5 are there to be a majority
//!   2  b3 loses power
//!   3  b3 starts, and is alone
//!   4  b1 and b2 are back
//! ```
//!
//! Whoever has b3 lead again, for it is the only one in sync, has b1 and b2 cut what b3 forgot. With eligible replicas
//! nobody leads in 3: b2 is eligible, b3 in doubt. With flush.policy=ack b3 may lead, for it has everything.
//!
//! The control has to lose something by the same steps, or they show nothing. KIP-966 loses it without eligible
//! replicas, but our brokers have no way to be without: they know no feature `eligible.leader.replicas.version`, and
//! refuse to set its level. What an operator can choose, and what gives up the same promise, is
//! `unclean.leader.election.enable=true` of the topic: b3 is in doubt as before, b2 eligible as before, but the topic
//! does not wait for b2. So b3 leads in 3 as it would without eligible replicas, and b1 and b2 cut in 4.

use std::time::Duration;

use anyhow::{Result, ensure};
use base::BrokerId;
use client::admin::Partition;
use e2e::disk::Cut;

use super::{Options, Scenario};
use crate::fault::isolate;
use crate::report::Report;
use crate::stop::Stop;
use crate::system::Flush;
use crate::world::{Expect, Setup, World};

const RECORDS: u64 = 2_000;
const RECORDS_TIME_MAX: Duration = Duration::from_secs(60);
/// Kafka's default until a silent broker is fenced is nine seconds.
const FENCED_MAX: Duration = Duration::from_secs(20);
/// b3 has this long, alone, to lead where it must not: several times what it takes where it may.
const ALONE: Duration = Duration::from_secs(5);
/// Until b3 leads where it is to.
const LED_MAX: Duration = Duration::from_secs(60);

/// A broker of ours flushes its logs each time, whatever the policy, to read less of them after a crash. It takes two
/// seconds until b3 is alone in sync, and what was acknowledged before that is not to be flushed meanwhile.
const CHECKPOINTS: (&str, &str) = ("log.flush.offset.checkpoint.interval.ms", "3600000");

/// Whether b3 leads while it is alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leads {
    /// It may: it lacks nothing.
    May,
    /// It must not: it may lack what was acknowledged.
    Never,
    /// It is to, and lacks what was acknowledged: the control.
    Uncleanly,
}

impl Leads {
    fn of(setup: &Setup) -> Self {
        match (setup.launch.flush, setup.unclean) {
            (Flush::Ack, _) => Self::May,
            (Flush::Os, false) => Self::Never,
            (Flush::Os, true) => Self::Uncleanly,
        }
    }
}

pub(super) fn run(options: &Options, stop: Stop) -> Result<Report> {
    let mut setup = options.setup(Scenario::D3, 5);
    ensure!(setup.launch.nodes == 5, "d3 is played with five brokers");
    // b3 leads from the beginning, so that what it has not flushed is what was acknowledged.
    setup.replicas = vec![3, 1, 2];
    let (name, value) = CHECKPOINTS;
    // Before those that were asked for: the last one counts.
    setup.launch.settings.insert(0, (name.to_owned(), value.to_owned()));
    let leads = Leads::of(&setup);
    let expect = if leads == Leads::Uncleanly { Expect::Loss } else { Expect::Nothing };
    World::start(setup, stop)?.play(expect, |world| cut_the_last(world, leads))
}

fn cut_the_last(world: &mut World, leads: Leads) -> Result<()> {
    world.load.begin(&world.setup.amount.clone())?;
    world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;

    let b1 = isolate(&mut world.cluster, 1, true)?;
    world.did("b1 is cut off");
    wait_until_in_sync(world, &[2, 3])?;
    world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;
    let b2 = isolate(&mut world.cluster, 2, true)?;
    world.did("b2 is cut off");
    wait_until_in_sync(world, &[3])?;

    let before = world.cluster.partitions()?;
    let b3 = world.cluster.node(3);
    b3.cut_power(Cut::Now)?;
    b3.kill()?;
    b3.restore_disk()?;
    world.did("b3 lost power");
    world.cluster.start_node(3)?;
    world.did("b3 starts");
    look_who_leads(world, &before, leads)?;
    world.cluster.net.lift(b1)?;
    world.cluster.net.lift(b2)?;
    world.did("b1 and b2 are back");
    world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;
    Ok(())
}

fn wait_until_in_sync(world: &mut World, only: &[i32]) -> Result<()> {
    let is_so = |world: &World| {
        let all = world.cluster.partitions().unwrap_or_default();
        let of = |one: &Partition| {
            let mut ids: Vec<i32> = one.in_sync.iter().map(|id| id.0).collect();
            ids.sort_unstable();
            ids == only
        };
        !all.is_empty() && all.iter().all(of)
    };
    let so = world.stop.clone().until(FENCED_MAX, || is_so(world));
    world.stop.check()?;
    if so {
        world.did(format!("in sync: {only:?}"));
    } else {
        world.found(format!("after {} s not only {only:?} are in sync", FENCED_MAX.as_secs()));
    }
    Ok(())
}

/// Gives b3 the time to lead again. That it led before its power went, who was not told anything since still says.
fn look_who_leads(world: &mut World, before: &[Partition], leads: Leads) -> Result<()> {
    let is_so = |world: &World| {
        let now = world.cluster.partitions().unwrap_or_default();
        let is_anew = |then: &Partition, one: &Partition| {
            one.index == then.index && one.leader == Some(BrokerId(3)) && one.leader_epoch > then.leader_epoch
        };
        !before.is_empty() && before.iter().all(|then| now.iter().any(|one| is_anew(then, one)))
    };
    let time_max = if leads == Leads::Uncleanly { LED_MAX } else { ALONE };
    let so = world.stop.clone().until(time_max, || is_so(world));
    world.stop.check()?;
    world.did(if so { "b3 leads again, alone" } else { "b3 does not lead alone" });
    if so && leads == Leads::Never {
        world.found("b3 leads, and may lack what was acknowledged");
    }
    Ok(())
}
