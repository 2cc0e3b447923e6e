//! Nodes that found a cluster, or must not; and what they are given besides.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::Value;
use vltava_e2e::nodes::{Nodes, is_well};
use vltava_e2e::stream::{Stream, check};

#[test]
fn two_that_lost_their_disks_do_not_found_the_cluster_anew_beside_the_third() -> Result<()> {
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        nodes.says(&["topic", "create", "orders", "--partitions", "3"])?;
        nodes.until("all are in sync", is_well)?;
        let promised = Stream::during(&nodes.bootstrap(), "orders", Stream::goes_on)?;
        let peers = nodes.peers(&[1, 2, 3])?;
        let set = [("cluster.peers", peers.as_str())];
        let kept = |nodes: &Nodes, id| nodes.data_dir(id).with_extension("kept");
        for id in [1, 2] {
            nodes.kill(id)?;
            fs::rename(nodes.data_dir(id), kept(nodes, id))?;
        }
        for id in [1, 2] {
            nodes.spawn(id, &set)?;
        }
        for id in [1, 2] {
            nodes.until_log(id, "the disk with which this node votes on the metadata is gone")?;
        }
        // Nobody leads without the disks with which a majority voted.
        nodes.until_log(3, "a voter has another disk than the one that it votes with")?;
        for id in [1, 2] {
            ensure!(!nodes.log(id).contains("serving"), "{}", nodes.log(id));
            nodes.kill(id)?;
            fs::remove_dir_all(nodes.data_dir(id))?;
            fs::rename(kept(nodes, id), nodes.data_dir(id))?;
            nodes.spawn(id, &set)?;
        }
        for id in [1, 2] {
            nodes.wait_until_serving(id)?;
        }
        nodes.until("all are in sync", is_well)?;
        let read = nodes.says(&["consume", "orders", "-e", "-f", "%p %o %s\\n"])?;
        check(&promised, &read).map(drop)
    })
}

/// The leader looks at who is where only after a first election timeout: nobody may have to wait for that.
#[test]
fn who_loses_its_disk_right_after_the_founding_is_told_from_who_it_was() -> Result<()> {
    Nodes::new()?.told(|nodes| {
        let peers = nodes.peers(&[1, 2, 3])?;
        let set = [("cluster.peers", peers.as_str()), ("controller.quorum.election.timeout.ms", "20000")];
        for id in [1, 2, 3] {
            nodes.spawn(id, &set)?;
        }
        for id in [1, 2, 3] {
            nodes.wait_until_serving(id)?;
        }
        for id in [1, 2] {
            nodes.kill(id)?;
            fs::remove_dir_all(nodes.data_dir(id))?;
        }
        for id in [1, 2] {
            nodes.spawn(id, &set)?;
        }
        for id in [1, 2] {
            nodes.until_log(id, "the disk with which this node votes on the metadata is gone")?;
            ensure!(!nodes.log(id).contains("serving"), "{}", nodes.log(id));
        }
        Ok(())
    })
}

#[test]
fn a_voter_that_is_no_broker_is_not_waited_for_by_topics() -> Result<()> {
    Nodes::new()?.told(|nodes| {
        let peers = nodes.peers(&[1, 2, 3])?;
        let voter = [("cluster.peers", peers.as_str()), ("process.roles", "controller")];
        nodes.spawn(1, &voter[..1])?;
        nodes.spawn(2, &voter[..1])?;
        nodes.spawn(3, &voter)?;
        for id in [1, 2, 3] {
            nodes.wait_until_serving(id)?;
        }
        nodes.says(&["topic", "create", "orders"])?;
        let described: Value =
            serde_json::from_str(&nodes.says(&["topic", "describe", "orders", "--json"])?)?;
        let partitions = described["partitions"].as_array().or_else(|| described[0]["partitions"].as_array());
        let replicas = partitions.and_then(|all| all.first()).map(|it| it["replicas"].clone());
        let count = replicas.as_ref().and_then(Value::as_array).map(Vec::len);
        ensure!(count == Some(2), "{described:#}");
        Ok(())
    })
}

/// It knows its cluster: what the list names besides is of no concern any more.
#[test]
fn a_node_that_has_joined_starts_whatever_cluster_join_names() -> Result<()> {
    let mut others = Nodes::found(&[1])?;
    let foreign = others.cluster_address(1)?;
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        let listen = nodes.cluster_address(4)?;
        // The same in other words.
        let itself = listen.replace("127.0.0.1", "localhost");
        ensure!(itself != listen, "{listen}");
        let first = format!("{itself},{}", nodes.cluster_address(1)?);
        let set = |join| [("cluster.listen", listen.as_str()), ("cluster.join", join)];
        nodes.start(4, &set(&first))?;
        let is_up = |status: &Value| {
            let all = status["nodes"].as_array();
            all.is_some_and(|all| all.iter().any(|node| node["id"] == 4 && node["up"] == true))
        };
        nodes.until("4 is up", is_up)?;
        nodes.stop(4)?;
        nodes.start(4, &set(&format!("{itself},{foreign}")))?;
        nodes.until("4 is up", is_up)?;
        ensure!(nodes.log(4).contains("cluster.join is passed over"), "{}", nodes.log(4));
        Ok(())
    })
}
