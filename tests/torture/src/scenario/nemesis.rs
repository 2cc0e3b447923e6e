//! Faults from a seed: the plan is the seed's, whom it hits is up to the cluster then.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Options, Scenario};
use crate::fault::{Kind, Ongoing, Planned};
use crate::plan::{Limits, Round, loses_data, plan};
use crate::report::Report;
use crate::stop::Stop;
use crate::system::Flush;
use crate::world::{Expect, Setup, World};

/// What a report calls it in the silences of its groups.
pub const KILL_OF_COORDINATOR: &str = "kill -9 of the coordinator";
/// Between rounds; a cluster that needs longer is hit again as it is.
const WHOLE_MAX: Duration = Duration::from_secs(20);
/// Between two looks at who still lives.
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(super) fn run(options: &Options, stop: Stop) -> Result<Report> {
    let setup = options.setup(Scenario::Faults, 3);
    let rounds = rounds(options, &setup, 0);
    World::start(setup, stop)?.play(Expect::Nothing, |world| play_all(world, &rounds, options.time))
}

/// The plan of a run with so many groups.
pub(super) fn rounds(options: &Options, setup: &Setup, groups: u32) -> Vec<Round> {
    let limits = Limits {
        kinds: options.kinds.clone(),
        swarm: options.swarm,
        time: options.time,
        nodes: setup.launch.nodes,
        partitions: setup.amount.partitions,
        flush: setup.launch.flush,
        groups,
    };
    plan(options.seed, &limits)
}

pub(super) fn play_all(world: &mut World, rounds: &[Round], time: Duration) -> Result<()> {
    world.load.begin(&world.setup.amount.clone())?;
    let until = Instant::now() + time;
    for round in rounds {
        if Instant::now() > until {
            break;
        }
        play(world, round)?;
    }
    Ok(())
}

/// Something that is to happen in a round.
enum Due<'a> {
    Begin(&'a Planned),
    End(usize),
}

fn play(world: &mut World, round: &Round) -> Result<()> {
    wait(world, round.quiet)?;
    let mut ongoing: Vec<Option<Ongoing>> = round.faults.iter().map(|_| None).collect();
    let mut due: Vec<(Duration, Due<'_>)> = Vec::new();
    for (index, fault) in round.faults.iter().enumerate() {
        due.push((fault.after, Due::Begin(fault)));
        due.push((fault.after + fault.lasts, Due::End(index)));
    }
    due.sort_by_key(|(at, _)| *at);
    let began = Instant::now();
    for (at, what) in due {
        wait(world, at.saturating_sub(began.elapsed()))?;
        match what {
            Due::Begin(fault) => {
                let index = round.faults.iter().position(|of| std::ptr::eq(of, fault)).unwrap_or(0);
                ongoing[index] = begin(world, fault, &ongoing)?;
            }
            Due::End(index) => {
                if let Some(fault) = ongoing[index].take() {
                    let what = format!("healed: {}", fault.what);
                    fault.heal(&mut world.cluster).with_context(|| what.clone())?;
                    world.did(what);
                }
            }
        }
    }
    if round.whole_after {
        // Whether it comes at all, the end of the run tells.
        let _ = world.cluster.wait_until_whole(WHOLE_MAX, &world.stop);
    }
    Ok(())
}

fn begin(world: &mut World, fault: &Planned, ongoing: &[Option<Ongoing>]) -> Result<Option<Ongoing>> {
    let lossy = loses_data(fault.kind) && world.setup.launch.flush == Flush::Os;
    if lossy && world.cluster.wait_until_whole(WHOLE_MAX, &world.stop).is_err() {
        world.did(format!("no {}: the cluster is not whole", fault.kind.name()));
        return Ok(None);
    }
    let of_nodes = ongoing.iter().flatten();
    let busy: BTreeSet<i32> = of_nodes.flat_map(|fault| fault.nodes.iter().copied()).collect();
    let led: Vec<_> = world.cluster.nodes().iter().map(|node| (node.id, world.led_by(&[node.id]))).collect();
    let coordinated = world.coordinated();
    let before = crate::history::now_ns();
    let begun = fault.begin(&mut world.cluster, &busy).with_context(|| format!("{fault:?}"))?;
    if let Some(begun) = &begun {
        if matches!(fault.kind, Kind::Kill | Kind::Pause | Kind::Power) && begun.nodes.len() == 1 {
            let led = led.into_iter().filter(|(id, _)| begun.nodes.contains(id));
            let partitions = led.flat_map(|(_, led)| led).collect();
            world.blow(fault.kind.name(), before, partitions);
        }
        let groups = coordinated.iter().filter(|(_, node)| begun.nodes.contains(node));
        let groups: Vec<u32> = groups.map(|(group, _)| *group).collect();
        world.group_blow(to_coordinator(fault.kind), before, &groups);
        world.did(format!("{} ({}), for {:.1} s", begun.what, fault.target, fault.lasts.as_secs_f64()));
    }
    Ok(begun)
}

/// What a fault is to the groups of whom it hits.
const fn to_coordinator(kind: Kind) -> &'static str {
    match kind {
        Kind::Kill => KILL_OF_COORDINATOR,
        Kind::Pause => "pause of the coordinator",
        Kind::Partition => "the coordinator cut off",
        Kind::Loss | Kind::Connections => "a bad network of the coordinator",
        Kind::Power => "power cut of the coordinator",
        Kind::Full | Kind::Failing | Kind::Hang => "a bad disk of the coordinator",
        Kind::Restart => "restart of the coordinator",
        Kind::Reassign => "replicas of the coordinator moved",
    }
}

/// Lets time pass, and looks who still lives.
fn wait(world: &mut World, time: Duration) -> Result<()> {
    let until = Instant::now() + time;
    loop {
        world.look_for_dead()?;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        if world.stop.wait(left.min(LOOK_EVERY)) {
            return world.stop.check();
        }
    }
}
