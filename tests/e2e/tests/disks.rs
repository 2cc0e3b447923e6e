//! Disks and nodes that are lost for good, while records are written and read: from the empty disk, or the machine
//! that is no more, to replicas that are all in sync.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vltava_e2e::nodes::{Nodes, is_well};
use vltava_e2e::stream::{Stream, check};
use vltava_e2e::wait;

const NODES: [i32; 3] = [1, 2, 3];

/// One of the nodes of a status.
fn node(status: &Value, id: i32) -> Option<&Value> {
    status["nodes"].as_array()?.iter().find(|node| node["id"] == id)
}

fn voters(status: &Value) -> Vec<i64> {
    status["quorum"]["voters"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect()
}

/// Each of three nodes leads a third of six partitions.
fn is_balanced(status: &Value) -> bool {
    let leads = NODES.iter().map(|id| node(status, *id).and_then(|node| node["leads"].as_i64()));
    is_well(status) && leads.eq([Some(2); 3])
}

/// Everything that was promised is there.
fn check_all(nodes: &Nodes, promised: &vltava_e2e::stream::Promised) -> Result<()> {
    let read = nodes.says(&["consume", "orders", "-e", "-f", "%p %o %s\\n"])?;
    let found = check(promised, &read)?;
    eprintln!("disks: {} records acknowledged, {found} found", promised.len());
    Ok(())
}

#[test]
fn a_node_comes_back_with_an_empty_disk() -> Result<()> {
    let mut nodes = Nodes::new()?;
    let peers = nodes.peers(&NODES)?;
    let set = [("cluster.peers", peers.as_str()), ("leader.imbalance.check.interval.seconds", "1")];
    for id in NODES {
        nodes.spawn(id, &set)?;
    }
    NODES.iter().try_for_each(|id| nodes.wait_until_serving(*id))?;
    nodes.told(|nodes| {
        nodes.says(&["topic", "create", "orders", "--partitions", "6"])?;
        let promised = Stream::during(&nodes.bootstrap(), "orders", |stream| {
            stream.goes_on()?;
            // The one that leads the quorum, too.
            let leader = nodes.status()?["quorum"]["leader"].as_i64().context("somebody leads")? as i32;
            nodes.kill(leader)?;
            fs::remove_dir_all(nodes.data_dir(leader))?;
            stream.goes_on()?;
            nodes.start(leader, &set)?;
            nodes.until_log(leader, "the disk with which this node votes on the metadata is gone")?;
            let status = nodes.until("all are in sync, and leaders are where they were", is_balanced)?;
            ensure!(node(&status, leader).is_some_and(|node| node["quorum"] == "follows"), "{status:#}");
            ensure!(voters(&status) == [1, 2, 3], "{status:#}");
            let said = nodes.says(&["cluster", "status"])?;
            ensure!(said.contains("has lost the disk that it votes with"), "{said}");
            stream.goes_on()?;
            // It says so after each start, and goes on.
            nodes.kill(leader)?;
            nodes.start(leader, &set)?;
            nodes.until_log(leader, "the disk with which this node votes on the metadata is gone")?;
            nodes.until("all are in sync", is_well)?;
            let said = nodes.says(&["cluster", "add", &leader.to_string(), "--yes"])?;
            ensure!(said.contains("which it has lost"), "{said}");
            let has_vote = |status: &Value| {
                voters(status) == [1, 2, 3]
                    && node(status, leader).is_some_and(|node| node["quorum"] != "follows")
            };
            nodes.until("it votes", has_vote)?;
            // With its vote there is a majority without another.
            let other = leader % 3 + 1;
            nodes.kill(other)?;
            stream.goes_on()?;
            nodes.says(&["topic", "create", "after"])?;
            nodes.start(other, &set)?;
            nodes.until("all are in sync", is_well)?;
            stream.goes_on()
        })?;
        check_all(nodes, &promised)
    })
}

#[test]
fn one_of_two_disks_of_a_node_is_replaced() -> Result<()> {
    let mut nodes = Nodes::new()?;
    let second = nodes.second_disk(3);
    nodes.start_together(&NODES)?;
    nodes.told(|nodes| {
        let peers = nodes.peers(&NODES)?;
        nodes.says(&["topic", "create", "orders", "--partitions", "6"])?;
        nodes.says(&["topic", "create", "alone", "--partitions", "6", "--replication-factor", "1"])?;
        let promised = Stream::during(&nodes.bootstrap(), "orders", |stream| {
            stream.goes_on()?;
            nodes.stop(3)?;
            let lost = partitions(&second)?;
            let shared = lost.iter().filter(|name| name.starts_with("orders-")).count();
            ensure!(shared > 0 && shared < 6, "{lost:?}");
            fs::remove_dir_all(&second)?;
            stream.goes_on()?;
            nodes.start(3, &[("cluster.peers", &peers)])?;
            let alone = lost.len() - shared;
            nodes.until("all that others have is in sync", |status| {
                status["partitions_not_in_sync"] == alone && status["partitions_without_leader"] == alone
            })?;
            ensure!(!partitions(&second)?.is_empty(), "what was lost is there again");
            let log = nodes.log(3);
            ensure!(log.matches("the leader fills an empty one").count() == shared, "{log}");
            ensure!(log.matches("partition is offline").count() == alone, "{log}");
            stream.goes_on()?;
            // What was filled is as good as any.
            nodes.kill(1)?;
            stream.goes_on()?;
            nodes.start(1, &[("cluster.peers", &peers)])?;
            stream.goes_on()
        })?;
        check_all(nodes, &promised)
    })
}

/// The logs in a directory.
fn partitions(dir: &Path) -> Result<Vec<String>> {
    let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<String>>>()?;
    names.retain(|name| name.starts_with("orders-") || name.starts_with("alone-"));
    Ok(names)
}

#[test]
fn a_node_that_is_lost_for_good_is_removed_and_another_takes_its_place() -> Result<()> {
    Nodes::found(&NODES)?.told(|nodes| {
        nodes.says(&["topic", "create", "orders", "--partitions", "6"])?;
        let promised = Stream::during(&nodes.bootstrap(), "orders", |stream| {
            stream.goes_on()?;
            nodes.kill(3)?;
            nodes.until("3 is down", |status| node(status, 3).is_some_and(|node| node["up"] == false))?;
            let said = nodes.says(&["cluster", "remove", "3", "--yes"])?;
            ensure!(said.contains("6 partitions have a replica less") && said.contains("is gone"), "{said}");
            let status = nodes.status()?;
            ensure!(voters(&status) == [1, 2] && node(&status, 3).is_none(), "{status:#}");
            stream.goes_on()?;
            // An empty machine takes its number, and has all that it had.
            fs::remove_dir_all(nodes.data_dir(3))?;
            nodes.join(3, &[1, 2], &[])?;
            nodes.until("all are in sync", is_well)?;
            nodes.says(&["cluster", "add", "3", "--yes"])?;
            stream.goes_on()?;
            // It loses its disk once more, and joins as it did before.
            nodes.kill(3)?;
            fs::remove_dir_all(nodes.data_dir(3))?;
            nodes.join(3, &[1, 2], &[])?;
            nodes.until("all are in sync", is_well)?;
            let said = nodes.says(&["cluster", "add", "3", "--yes"])?;
            ensure!(said.contains("which it has lost"), "{said}");
            stream.goes_on()?;
            // The next one that is lost is replaced by one of another number.
            nodes.kill(2)?;
            nodes.until("2 is down", |status| node(status, 2).is_some_and(|node| node["up"] == false))?;
            nodes.says(&["cluster", "remove", "2", "--yes"])?;
            nodes.join(4, &[1, 3], &[])?;
            let said = nodes.says(&["cluster", "remove", "2", "--yes"])?;
            ensure!(said.contains("move its partitions"), "{said}");
            nodes.until("all are in sync", is_well)?;
            nodes.says(&["cluster", "add", "4", "--yes"])?;
            ensure!(voters(&nodes.status()?) == [1, 3, 4]);
            stream.goes_on()
        })?;
        check_all(nodes, &promised)
    })
}

/// The file with the first records of a partition on a node.
fn first_segment(nodes: &Nodes, id: i32, partition: &str) -> PathBuf {
    nodes.data_dir(id).join(partition).join("00000000000000000000.log")
}

/// Where the first record of a log is: behind the header of its batch.
const FIRST_RECORD: u64 = 61;

/// Flips a bit in the first record of a partition on a node.
fn rot(nodes: &Nodes, id: i32, partition: &str) -> Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(first_segment(nodes, id, partition))?;
    let (mut byte, at) = ([0], SeekFrom::Start(FIRST_RECORD));
    file.seek(at)?;
    file.read_exact(&mut byte)?;
    file.seek(at)?;
    file.write_all(&[byte[0] ^ 1])?;
    Ok(file.sync_all()?)
}

#[test]
fn records_that_rot_are_replaced_by_those_of_others() -> Result<()> {
    let mut nodes = Nodes::new()?;
    let peers = nodes.peers(&NODES)?;
    // What lies below a recovery point a start does not look at: there is none meanwhile, however long this takes.
    let set = [("cluster.peers", &*peers), ("log.flush.offset.checkpoint.interval.ms", "600000")];
    NODES.iter().try_for_each(|id| nodes.spawn(*id, &set))?;
    NODES.iter().try_for_each(|id| nodes.wait_until_serving(*id))?;
    nodes.told(|nodes| {
        nodes.says(&["topic", "create", "orders", "--partitions", "3"])?;
        let promised = Stream::during(&nodes.bootstrap(), "orders", |stream| {
            stream.goes_on()?;
            let described: Value =
                serde_json::from_str(&nodes.says(&["topic", "describe", "orders", "--json"])?)?;
            let leader = described[0]["partitions"][0]["leader"].as_i64().context("somebody leads")? as i32;
            rot(nodes, leader, "orders-0")?;
            // Whoever reads from the front comes no further, and some times later he does.
            let read = || nodes.says(&["consume", "orders", "-e", "-f", "%p %o %s\\n"]);
            let said = read().expect_err("the first batch is damaged").to_string();
            ensure!(said.contains("orders-0: offset 0: the batch says its checksum is"), "{said}");
            wait::until("another leads", Duration::from_secs(60), || Ok(read().ok()))?;
            nodes.until_log(
                leader,
                "stored records are damaged or cannot be read: this replica is given up",
            )?;
            nodes.until("all are in sync", is_well)?;
            ensure!(nodes.metrics(leader)?.get("vltava_log_damages_total").is_some_and(|count| *count > 0.0));
            let mut names = fs::read_dir(nodes.data_dir(leader))?;
            let is_kept = |name: &str| name.starts_with("orders-0.") && name.ends_with("-stray");
            ensure!(
                names.any(|entry| entry.is_ok_and(|entry| is_kept(&entry.file_name().to_string_lossy()))),
                "what was damaged is kept"
            );
            stream.goes_on()?;
            // A start after a crash finds it by itself.
            let other = leader % 3 + 1;
            nodes.kill(other)?;
            rot(nodes, other, "orders-0")?;
            nodes.start(other, &set)?;
            nodes.until("all are in sync", is_well)?;
            for id in NODES.into_iter().filter(|id| *id != other) {
                nodes.kill(id)?;
                nodes.start(id, &set)?;
                nodes.until("all are in sync", is_well)?;
            }
            stream.goes_on()
        })?;
        check_all(nodes, &promised)
    })
}
