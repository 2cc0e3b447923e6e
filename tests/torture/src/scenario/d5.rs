//! D5, failing disk: the kernel takes writes that it cannot bring to the medium, and says so once.
//!
//! b1's disk is a sparse image on a file system of memory that is too small for it. When that is full, a
//! flush fails, and the next one after it says that all is well: whoever believes it acknowledges what is
//! not there. Then the disk is given room, mended, and read again.
//!
//! What was flushed before may be gone as well: a page at the end of a log is written again with each
//! batch, and the write that fails takes with it what the page had. So a node alone cannot keep its word, and
//! is only asked to acknowledge nothing more; with others, nothing may be lost.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::{Options, Scenario};
use crate::cluster::Cluster;
use crate::report::Report;
use crate::stop::Stop;
use crate::world::{Expect, World};

/// What b1's disk really has, and what it says it has.
const REAL_BYTES: u64 = 48 << 20;
/// When it is mended.
const MENDED_BYTES: u64 = 1 << 30;
/// Until it fails under load.
const FAILS_MAX: Duration = Duration::from_secs(90);
/// The last of it is taken by the next few flushes.
const NOTICED_AFTER_MAX: Duration = Duration::from_secs(2);
/// After it failed, the load goes on.
const GOES_ON: Duration = Duration::from_secs(10);

pub(super) fn run(options: &Options, stop: Stop) -> Result<Report> {
    let mut setup = options.setup(Scenario::D5, 3);
    setup.amount.rate = setup.amount.rate.max(2000);
    let began = Instant::now();
    let cluster = Cluster::start_with_small_disk(setup.launch.clone(), setup.disk_bytes, 1, REAL_BYTES)?;
    let expect = if setup.launch.nodes == 1 { Expect::Anything } else { Expect::Nothing };
    World::with_cluster(setup, stop, cluster, began)?.play(expect, fill_the_small_disk)
}

fn fill_the_small_disk(world: &mut World) -> Result<()> {
    world.cluster.node(1).may_end = true;
    world.load.begin(&world.setup.amount.clone())?;
    let room = world.cluster.node(1).small_disk_room()?;
    let stop = world.stop.clone();
    let full =
        stop.until(FAILS_MAX, || world.cluster.node(1).small_disk_room().is_ok_and(|left| left < 64 << 10));
    stop.check()?;
    if full {
        world.did(format!("b1's disk has nothing left of {} MiB", room >> 20));
    } else {
        world.found("b1's disk was not filled: there is nothing to see");
    }
    stop.wait(NOTICED_AFTER_MAX);
    let before = world.acknowledged();
    stop.wait(GOES_ON);
    let after = world.acknowledged() - before;
    world.note(format!("{after} records were acknowledged with a failed disk in the cluster"));
    if after > 0 && world.setup.launch.nodes == 1 {
        world.found(format!("{after} records were acknowledged although the only disk had failed"));
    }
    world.look_for_dead()?;
    let said = fs::read_to_string(world.cluster.node(1).log())?;
    let errors = said.lines().filter(|line| line.contains("ERROR") || line.contains("error")).count();
    world.note(format!("b1 logged {errors} lines about errors"));
    let node = world.cluster.node(1);
    node.kill()?;
    node.give_small_disk(MENDED_BYTES)?;
    node.repair_disk()?;
    world.cluster.start_node(1)?;
    world.did("b1's disk has room again and is mended");
    Ok(())
}
