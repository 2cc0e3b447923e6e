//! D3, last replica standing (KIP-966): the only replica that is in sync loses what it had not flushed.
//!
//! ```text
//!   1  b1 is cut off, then b2: of the replicas only b3 is in sync; b4 and b5 are there to be a majority
//!   2  b3 loses power
//!   3  b1 and b2 are back, b3 starts
//! ```
//!
//! Whoever has b3 lead again, for it is the only one in sync, has b1 and b2 cut what b3 forgot.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::disk::Cut;

use super::{Options, Scenario};
use crate::fault::isolate;
use crate::report::Report;
use crate::stop::Stop;
use crate::world::{Expect, World};

const RECORDS: u64 = 2_000;
const RECORDS_TIME_MAX: Duration = Duration::from_secs(60);
/// Kafka's default until a silent broker is fenced is nine seconds.
const FENCED_MAX: Duration = Duration::from_secs(20);

pub(super) fn run(options: &Options, stop: Stop) -> Result<Report> {
    let mut setup = options.setup(Scenario::D3, 5);
    ensure!(setup.launch.nodes == 5, "d3 is played with five brokers");
    // b3 leads from the beginning, so that what it has not flushed is what was acknowledged.
    setup.replicas = vec![3, 1, 2];
    World::start(setup, stop)?.play(Expect::Nothing, cut_the_last)
}

fn cut_the_last(world: &mut World) -> Result<()> {
    world.load.begin(&world.setup.amount.clone())?;
    world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;

    let b1 = isolate(&mut world.cluster, 1, true)?;
    world.did("b1 is cut off");
    wait_until_in_sync(world, &[2, 3])?;
    world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;
    let b2 = isolate(&mut world.cluster, 2, true)?;
    world.did("b2 is cut off");
    wait_until_in_sync(world, &[3])?;

    let b3 = world.cluster.node(3);
    b3.cut_power(Cut::Now)?;
    b3.kill()?;
    b3.restore_disk()?;
    world.did("b3 lost power");
    world.cluster.net.lift(b1)?;
    world.cluster.net.lift(b2)?;
    world.cluster.start_node(3)?;
    world.did("b1 and b2 are back, b3 starts");
    world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;
    Ok(())
}

fn wait_until_in_sync(world: &mut World, only: &[i32]) -> Result<()> {
    let is_so = |world: &World| {
        let all = world.cluster.partitions().unwrap_or_default();
        let of = |one: &client::admin::Partition| {
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
