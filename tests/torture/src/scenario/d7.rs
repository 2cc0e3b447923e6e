//! D7, hung disk: the disk of the controller takes nothing and says nothing, so nothing fails and nobody is dead.
//!
//! A broker that cannot write leads in name only, and its controller decides for all. So it has to say of itself that
//! others are to lead, and the cluster has to take commands meanwhile.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::{Options, Scenario};
use crate::report::Report;
use crate::stop::Stop;
use crate::world::{Expect, World};

const RECORDS: u64 = 2_000;
const RECORDS_TIME_MAX: Duration = Duration::from_secs(60);
/// A partition has to be waited for for five seconds until its disk is taken for one that hangs.
const OTHERS_LEAD_MAX: Duration = Duration::from_secs(20);
const DECIDED_MAX: Duration = Duration::from_secs(40);
const WHOLE_MAX: Duration = Duration::from_secs(120);

pub(super) fn run(options: &Options, stop: Stop) -> Result<Report> {
    World::start(options.setup(Scenario::D7, 3), stop)?.play(Expect::Nothing, hang_the_controllers_disk)
}

fn hang_the_controllers_disk(world: &mut World) -> Result<()> {
    world.load.begin(&world.setup.amount.clone())?;
    world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;
    let controller = world.cluster.controller().context("there is no controller")?;
    let led = world.led_by(&[controller]).len();
    if led == 0 {
        world.found(format!("b{controller} leads nothing: there is nothing to see"));
    }
    world.cluster.node(controller).hang_disk()?;
    world.did(format!("the disk of b{controller} hangs, who is the controller and leads {led} partitions"));
    let (began, stop) = (Instant::now(), world.stop.clone());
    let others_lead = stop.until(OTHERS_LEAD_MAX, || {
        let all = world.cluster.partitions().unwrap_or_default();
        !all.is_empty() && all.iter().all(|one| one.leader.is_some_and(|leader| leader.0 != controller))
    });
    stop.check()?;
    if others_lead {
        world.did(format!("others lead all partitions, {:.1} s later", began.elapsed().as_secs_f64()));
    } else {
        world.found(format!("b{controller} leads after {} s without a disk", began.elapsed().as_secs()));
    }
    world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;
    let began = Instant::now();
    if stop.until(DECIDED_MAX, || world.cluster.change_a_setting(1).is_ok()) {
        world.did(format!("a setting was changed in {:.1} s", began.elapsed().as_secs_f64()));
    } else {
        stop.check()?;
        world.found("no command was decided while the disk of the controller hung");
    }
    world.cluster.node(controller).let_disk_go_on()?;
    world.did(format!("the disk of b{controller} goes on"));
    world.wait_until_whole(WHOLE_MAX)?;
    world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)
}
