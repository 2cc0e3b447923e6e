//! D6, cut after a vote: a controller loses power right after it gave its vote, and must not give it again.
//!
//! ```text
//!   1  the leader of the metadata quorum is killed; another is elected, with the third one's vote
//!   2  the third loses power as soon as that is known; the new leader is cut off
//!   3  the third and the old leader start, and elect one of themselves: in a later epoch
//!   4  all are back
//! ```
//!
//! A vote that was not flushed before it was given is forgotten in 2, and 3 may come to the same epoch.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::disk::Cut;

use super::{Options, Scenario};
use crate::cluster::QuorumLeader;
use crate::fault::isolate;
use crate::report::Report;
use crate::stop::Stop;
use crate::world::{Expect, World};

const RECORDS: u64 = 1_000;
const RECORDS_TIME_MAX: Duration = Duration::from_secs(60);
const ELECTED_MAX: Duration = Duration::from_secs(30);
const WHOLE_MAX: Duration = Duration::from_secs(120);
const ROUNDS: u32 = 4;

/// Who led in which epoch.
type Leaders = BTreeMap<i32, i32>;

pub(super) fn run(options: &Options, stop: Stop) -> Result<Report> {
    let setup = options.setup(Scenario::D6, 3);
    ensure!(setup.launch.nodes == 3, "d6 is played with three brokers");
    World::start(setup, stop)?.play(Expect::Nothing, |world| {
        world.load.begin(&world.setup.amount.clone())?;
        let mut leaders = Leaders::new();
        (0..ROUNDS).try_for_each(|_| cut_after_the_vote(world, &mut leaders))
    })
}

fn cut_after_the_vote(world: &mut World, leaders: &mut Leaders) -> Result<()> {
    world.wait_for_acknowledged(RECORDS, RECORDS_TIME_MAX)?;
    let old = elected(world, leaders, &[1, 2, 3], None)?;
    world.cluster.node(old.id).kill()?;
    let others: Vec<i32> = (1..=3).filter(|id| *id != old.id).collect();
    let new = elected(world, leaders, &others, Some(old))?;
    let voter = others.into_iter().find(|id| *id != new.id).context("a leader elected itself alone")?;

    let node = world.cluster.node(voter);
    node.cut_power(Cut::Now)?;
    node.kill()?;
    node.restore_disk()?;
    let rules = isolate(&mut world.cluster, new.id, true)?;
    world.did(format!(
        "kill -9 b{}, the controller; b{} was elected in epoch {}; its voter b{voter} lost power",
        old.id, new.id, new.epoch
    ));
    world.cluster.start_node(voter)?;
    world.cluster.start_node(old.id)?;
    let third = elected(world, leaders, &[voter, old.id], Some(new))?;
    world.did(format!("without b{} they elected b{} in epoch {}", new.id, third.id, third.epoch));
    world.cluster.net.lift(rules)?;
    world.wait_until_whole(WHOLE_MAX)?;
    Ok(())
}

/// Waits until one of these says that another leads than before, and compares that with what was said of its
/// epoch before.
fn elected(
    world: &mut World,
    leaders: &mut Leaders,
    of: &[i32],
    before: Option<QuorumLeader>,
) -> Result<QuorumLeader> {
    let is_news =
        |leader: &QuorumLeader| before.is_none_or(|before| *leader != before && leader.epoch >= before.epoch);
    let mut found = None;
    let stop = world.stop.clone();
    stop.until(ELECTED_MAX, || {
        let said = of.iter().filter_map(|id| world.cluster.quorum_leader(*id));
        found = said.filter(is_news).max_by_key(|leader| leader.epoch);
        found.is_some()
    });
    stop.check()?;
    let found =
        found.with_context(|| format!("nobody new leads the quorum, say {of:?}, after {before:?}"))?;
    let first = *leaders.entry(found.epoch).or_insert(found.id);
    if first != found.id {
        world.found(format!("two led the quorum in epoch {}: b{first} and b{}", found.epoch, found.id));
    }
    Ok(found)
}
