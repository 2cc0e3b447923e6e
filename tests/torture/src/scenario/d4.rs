//! D4: all processes are killed, again and again, and no power is lost: nothing may be lost in any mode.
//!
//! It passes with `os` as it does with `ack`: so kill -9 proves nothing about flushing.

use std::time::Duration;

use anyhow::Result;

use super::{Options, Scenario};
use crate::report::Report;
use crate::stop::Stop;
use crate::world::{Expect, World};

const RECORDS: u64 = 3_000;
const RECORDS_TIME_MAX: Duration = Duration::from_secs(60);
const ROUNDS: u32 = 3;

pub(super) fn run(options: &Options, stop: Stop) -> Result<Report> {
    World::start(options.setup(Scenario::D4, 3), stop)?.play(Expect::Nothing, kill_all)
}

fn kill_all(world: &mut World) -> Result<()> {
    world.load.begin(&world.setup.amount.clone())?;
    for _ in 0..ROUNDS {
        world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;
        for node in world.cluster.nodes_mut() {
            node.kill()?;
        }
        world.did("kill -9 of all");
        world.cluster.start_all()?;
        world.wait_until_whole(Duration::from_secs(120))?;
        world.did("all are back");
    }
    Ok(())
}
