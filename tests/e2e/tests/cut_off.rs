//! A coordinator that is cut off from all others, and may have been replaced by one of them, keeps what it knows of a
//! group to itself: whoever asks it what is committed asks on, or gives up. A client that took its silence for
//! "nothing is committed" would begin where `auto.offset.reset` says, which reads everything again, or skips it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base::Offset;
use client::Admin;
use client::admin::OffsetAndMetadata;
use conformance::driver::Driver;
use conformance::matrix::{self, Client, Feature};
use vltava_e2e::churn::admin;
use vltava_e2e::nodes::{Nodes, is_well};
use vltava_e2e::wait;

const IDS: [i32; 3] = [1, 2, 3];
const TOPIC: &str = "orders";
/// What each group has committed of the only partition.
const COMMITTED: i64 = 5;
/// Enough that each client finds a group of its own that one node keeps.
const NAMES: usize = 40;
/// It may be back, and later: others are the coordinator by now.
const REFUSED: [&str; 2] = [
    "vltava_errors_total{error=\"COORDINATOR_LOAD_IN_PROGRESS\"}",
    "vltava_errors_total{error=\"NOT_COORDINATOR\"}",
];
/// Longer than any client takes to tell what it was told.
const TOLD_MAX: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than a coordinator keeps a question in the hope that it hears of the others.
const ANSWER_MAX: Duration = Duration::from_secs(4);

/// For each client the name of a group that this node keeps.
fn groups_of(admin: &Admin, coordinator: i32, clients: &[Client]) -> Result<Vec<String>> {
    let of = |client: &Client| {
        let names: Vec<String> = (0..NAMES).map(|number| format!("{}-{number}", client.name)).collect();
        let found = admin.find_coordinators(names.clone()).wait();
        let at = found.iter().position(|found| found.as_ref().is_ok_and(|found| found.id.0 == coordinator));
        Ok(names[at.with_context(|| format!("node {coordinator} keeps none of {found:?}"))?].clone())
    };
    clients.iter().map(of).collect()
}

fn commit(admin: &Admin, group: &str) -> Result<()> {
    let offset = OffsetAndMetadata::at(Offset(COMMITTED));
    let committed = admin.alter_group_offsets(group, [(TOPIC, 0, offset)]).wait();
    Ok(committed.into_iter().collect::<Result<_, _>>()?)
}

/// Asks a node what a group has committed, for a moment: whether it says that it cannot know.
fn refuses(nodes: &Nodes, (id, node): (i32, &str), group: &str) -> Result<bool> {
    let before = refusals(nodes, id)?;
    let admin = Admin::builder(node).timeout(ANSWER_MAX).build()?;
    let told = admin.list_group_offsets([group]).wait().remove(0);
    Ok(told.is_err() && refusals(nodes, id)? > before)
}

/// How often a node has refused.
fn refusals(nodes: &Nodes, id: i32) -> Result<f64> {
    let metrics = nodes.metrics(id)?;
    Ok(REFUSED.iter().filter_map(|refused| metrics.get(*refused)).sum())
}

/// A client asks a node that is cut off, is refused, and has nothing to tell, or gives up.
fn is_told_nothing(nodes: &Nodes, (id, node): (i32, &str), client: &Client, group: &str) -> Result<()> {
    let mut driver = Driver::start(client, node)?;
    let before = refusals(nodes, id)?;
    driver.ask_committed(group, TOPIC, 1)?;
    let (mut gave_up, mut refused_at) = (None, None);
    let asked = wait::until("it is refused", PATIENCE, || {
        if refused_at.is_none() && refusals(nodes, id)? > before {
            refused_at = Some(Instant::now());
        }
        match driver.told_committed()? {
            Some(Ok(told)) => bail!("it was told {told:?}"),
            // It went to one of the dead, and no further.
            Some(Err(_)) if refused_at.is_none() => driver.ask_committed(group, TOPIC, 1)?,
            Some(Err(error)) => gave_up = Some(error),
            None => {}
        }
        let is_over = |at: Instant| gave_up.is_some() || at.elapsed() > TOLD_MAX;
        Ok(refused_at.is_some_and(is_over).then_some(()))
    });
    driver.kill()?;
    asked.with_context(|| client.name.clone())?;
    eprintln!("{}: {}", client.name, gave_up.as_deref().unwrap_or("asks on"));
    Ok(())
}

#[test]
fn who_is_cut_off_does_not_say_that_nothing_is_committed() -> Result<()> {
    let mut clients = matrix::clients()?;
    clients.retain(|client| client.can(Feature::Groups));
    Nodes::found(&IDS)?.told(|nodes| {
        nodes.says(&["topic", "create", TOPIC, "--partitions", "1"])?;
        let [alone, others @ ..] = IDS;
        let address = nodes.address(alone)?;
        let node = (alone, address.as_str());
        let everyone = admin(&nodes.bootstrap())?;
        let groups = groups_of(&everyone, alone, &clients)?;
        groups.iter().try_for_each(|group| commit(&everyone, group))?;
        nodes.until("all is well", is_well)?;
        others.iter().try_for_each(|id| nodes.kill(*id))?;
        wait::until("it knows that it is alone", PATIENCE, || {
            Ok(refuses(nodes, node, &groups[0])?.then_some(()))
        })?;
        clients
            .iter()
            .zip(&groups)
            .try_for_each(|(client, group)| is_told_nothing(nodes, node, client, group))?;
        let peers = nodes.peers(&IDS)?;
        others.iter().try_for_each(|id| nodes.spawn(*id, &[("cluster.peers", &peers)]))?;
        others.iter().try_for_each(|id| nodes.wait_until_serving(*id))?;
        nodes.until("all is well again", is_well)?;
        for group in &groups {
            let told = everyone.list_group_offsets([group]).wait().remove(0)?;
            let told: Vec<i64> = told.values().map(|committed| committed.offset.0).collect();
            ensure!(told == [COMMITTED], "{group} has {told:?} committed");
        }
        Ok(())
    })
}
