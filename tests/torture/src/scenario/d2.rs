//! D2, one-node cut: what a majority of logs that are not flushed would lose.
//!
//! ```text
//!   1  b1 is cut off; b2 and b3 acknowledge
//!   2  b2 loses power; b3, who has everything, is cut off
//!   3  b1 is back and b2 starts: they are a majority, and have not what was acknowledged
//!   4  b3 is back
//! ```
//!
//! Lossy never, whatever the flush policy is. With flush.policy=os nobody leads in 3: b3 alone is in sync, and b2 is in
//! doubt. With ack b2 may lead, for it has everything.

use std::time::Duration;

use anyhow::{Result, ensure};
use client::admin::Partition;
use e2e::disk::Cut;

use super::{Options, Scenario};
use crate::fault::isolate;
use crate::report::Report;
use crate::stop::Stop;
use crate::system::Flush;
use crate::world::{Expect, World};

const RECORDS: u64 = 2_000;
const RECORDS_TIME_MAX: Duration = Duration::from_secs(60);
/// b1 and b2 have this long to do something wrong.
const WITHOUT_B3: Duration = Duration::from_secs(15);

pub(super) fn run(options: &Options, stop: Stop) -> Result<Report> {
    let setup = options.setup(Scenario::D2, 3);
    ensure!(setup.launch.nodes == 3, "d2 is played with three brokers");
    World::start(setup, stop)?.play(Expect::Nothing, cut_one)
}

fn cut_one(world: &mut World) -> Result<()> {
    world.load.begin(&world.setup.amount.clone())?;
    world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;

    let b1 = isolate(&mut world.cluster, 1, true)?;
    world.did("b1 is cut off");
    world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;
    let led = world.cluster.partitions()?;

    let b2 = world.cluster.node(2);
    b2.cut_power(Cut::Now)?;
    b2.kill()?;
    b2.restore_disk()?;
    let b3 = isolate(&mut world.cluster, 3, true)?;
    world.did("b2 lost power, b3 is cut off");

    let before = world.acknowledged();
    world.cluster.net.lift(b1)?;
    world.cluster.start_node(2)?;
    world.did("b1 is back, b2 starts");
    if world.setup.launch.flush == Flush::Os {
        look_who_leads(world, &led)?;
    } else {
        world.stop.wait(WITHOUT_B3);
    }
    world.stop.check()?;
    let without = world.acknowledged() - before;
    world.note(format!("{without} records were acknowledged without b3"));

    world.cluster.net.lift(b3)?;
    world.did("b3 is back");
    world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;
    Ok(())
}

/// Nobody is to lead who may lack what was acknowledged. That b1 or b2 led before, who was not told anything since still
/// says.
fn look_who_leads(world: &mut World, before: &[Partition]) -> Result<()> {
    ensure!(!before.is_empty(), "there are partitions");
    let mut wrong = None;
    let look = |world: &World| {
        let now = world.cluster.partitions().unwrap_or_default();
        let is_anew = |one: &Partition| {
            let then = before.iter().find(|then| then.index == one.index);
            then.is_some_and(|then| one.leader_epoch > then.leader_epoch)
        };
        now.into_iter().find(|one| one.leader.is_some_and(|leader| leader.0 != 3) && is_anew(one))
    };
    world.stop.clone().until(WITHOUT_B3, || {
        wrong = look(world);
        wrong.is_some()
    });
    match wrong.and_then(|one| Some((one.leader?, one.index))) {
        Some((leader, index)) => world.found(format!("b{leader} leads partition {index} without b3")),
        None => world.did("nobody leads without b3"),
    }
    Ok(())
}
