//! D1, rack cut: all brokers lose power within milliseconds.
//!
//! With flush.policy=ack nothing may be lost. With `os` something must be, or the cut was no cut.

use std::time::{Duration, Instant};

use anyhow::Result;
use e2e::disk::Cut;

use super::{Options, Scenario};
use crate::report::Report;
use crate::stop::Stop;
use crate::system::Flush;
use crate::world::{Expect, World};

/// Acknowledged before the cut.
const RECORDS: u64 = 6_000;
const RECORDS_TIME_MAX: Duration = Duration::from_secs(60);
/// What was written just before it is what is not flushed.
const ROUNDS: u32 = 3;

pub(super) fn run(options: &Options, stop: Stop) -> Result<Report> {
    let mut setup = options.setup(Scenario::D1, 3);
    setup.amount.rate = setup.amount.rate.max(1000);
    let expect = match options.flush {
        Flush::Ack => Expect::Nothing,
        Flush::Os => Expect::Loss,
    };
    World::start(setup, stop)?.play(expect, cut_the_rack)
}

fn cut_the_rack(world: &mut World) -> Result<()> {
    world.load.begin(&world.setup.amount.clone())?;
    for _ in 0..ROUNDS {
        world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;
        let began = Instant::now();
        for node in world.cluster.nodes_mut() {
            node.cut_power(Cut::Now)?;
        }
        let within = began.elapsed();
        for node in world.cluster.nodes_mut() {
            node.kill()?;
        }
        for node in world.cluster.nodes_mut() {
            node.restore_disk()?;
        }
        world.did(format!("power cut of all within {:.1} ms, kill -9", within.as_secs_f64() * 1000.0));
        world.cluster.start_all()?;
        world.wait_until_whole(Duration::from_secs(120))?;
        world.did("all are back");
    }
    Ok(())
}
