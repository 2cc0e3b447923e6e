//! How long nobody acknowledges when a leader goes: killed, cut off in silence, with the controller, or
//! restarted in order. One round after the other, each on a cluster that is whole.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Options, Scenario};
use crate::fault::isolate;
use crate::history::now_ns;
use crate::report::Report;
use crate::stop::Stop;
use crate::world::{Expect, World};

const WHOLE_MAX: Duration = Duration::from_secs(120);
/// What is done to a broker that somebody needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Blow {
    /// kill -9 of a leader.
    Kill,
    /// A leader sees nobody any more, and nobody is told.
    Silent,
    /// kill -9 of the controller.
    Controller,
    /// SIGTERM and start of all, one after the other.
    Rolling,
}

impl Blow {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Kill, Self::Silent, Self::Controller, Self::Rolling];
}

/// A load that is steady before, and time to see the new leader after.
const BEFORE: Duration = Duration::from_secs(2);
const AWAY_MAX: Duration = Duration::from_secs(20);

pub(super) fn run(options: &Options, stop: Stop) -> Result<Report> {
    let mut setup = options.setup(Scenario::Failover, 3);
    // A gap is seen as finely as records are sent.
    setup.amount.rate = setup.amount.rate.max(800);
    setup.amount.librdkafka = false;
    World::start(setup, stop)?.play(Expect::Nothing, |world| rounds(world, options))
}

fn rounds(world: &mut World, options: &Options) -> Result<()> {
    world.load.begin(&world.setup.amount.clone())?;
    let blows = if options.blows.is_empty() { &Blow::ALL[..] } else { &options.blows };
    for (round, blow) in (0..options.rounds).zip(blows.iter().cycle()) {
        // Each blow goes from partition to partition.
        let turn = round / blows.len() as u32;
        world.wait_until_whole(WHOLE_MAX).context("before the next round")?;
        world.stop.wait(BEFORE);
        world.stop.check()?;
        match blow {
            Blow::Kill => leader_killed(world, turn)?,
            Blow::Silent => leader_silent(world, turn)?,
            Blow::Controller => controller_killed(world, turn)?,
            Blow::Rolling => rolling(world)?,
        }
        world.look_for_dead()?;
    }
    Ok(())
}

fn leader_of_some(world: &World, turn: u32) -> Result<(i32, Vec<i32>)> {
    let partition = turn as i32 % world.setup.amount.partitions;
    let leader = world.cluster.leader(partition).context("nobody leads")?;
    Ok((leader, world.led_by(&[leader])))
}

fn leader_killed(world: &mut World, turn: u32) -> Result<()> {
    let (leader, led) = leader_of_some(world, turn)?;
    let at = now_ns();
    world.blow("kill -9 of a leader", at, led);
    world.cluster.node(leader).kill()?;
    world.did(format!("kill -9 b{leader}"));
    wait_for_the_next(world, at);
    world.cluster.start_node(leader)
}

fn leader_silent(world: &mut World, turn: u32) -> Result<()> {
    let (leader, led) = leader_of_some(world, turn)?;
    let at = now_ns();
    world.blow("leader cut off in silence", at, led);
    let rules = isolate(&mut world.cluster, leader, true)?;
    world.did(format!("b{leader} sees nobody"));
    wait_for_the_next(world, at);
    world.cluster.net.lift(rules)
}

/// Leaves it as it is until every partition has been acknowledging for a while.
fn wait_for_the_next(world: &World, at: u64) {
    const FOR_A_WHILE: Duration = Duration::from_secs(1);
    let began = Instant::now();
    let partitions = world.setup.amount.partitions;
    world.stop.until(AWAY_MAX, || {
        let since = now_ns() - FOR_A_WHILE.as_nanos() as u64;
        began.elapsed() > FOR_A_WHILE * 2 && since > at && world.acknowledged_since(since) == partitions
    });
}

/// What the controller does not lead must not feel it, and whoever gives a command waits for the next controller.
fn controller_killed(world: &mut World, turn: u32) -> Result<()> {
    let controller = world.cluster.controller().context("nobody takes commands")?;
    let led = world.led_by(&[controller]);
    let others = (0..world.setup.amount.partitions).filter(|index| !led.contains(index)).collect();
    let at = now_ns();
    world.blow("kill -9 of the controller", at, led);
    world.blow("kill -9 of the controller: led by others", at, others);
    world.cluster.node(controller).kill()?;
    world.did(format!("kill -9 b{controller}, the controller"));
    let carried_out = world.stop.until(AWAY_MAX, || world.cluster.change_a_setting(turn).is_ok());
    world.waited("kill -9 of the controller: a command", carried_out.then(|| now_ns() - at));
    wait_for_the_next(world, at);
    world.cluster.start_node(controller)
}

/// No partition must feel it, whoever leads it, from the first SIGTERM until all replicas are in sync again
/// and leaders have had time to move back.
fn rolling(world: &mut World) -> Result<()> {
    let at = now_ns();
    for id in 1..=world.setup.launch.nodes {
        if !world.cluster.node(id).stop()? {
            world.found(format!("b{id} did not end after SIGTERM"));
        }
        world.cluster.start_node(id)?;
        world.did(format!("restarted b{id}"));
        world.wait_until_whole(WHOLE_MAX).context("in a rolling restart")?;
    }
    world.stop.wait(BEFORE);
    world.blow_since("rolling restart", at, (0..world.setup.amount.partitions).collect());
    Ok(())
}
