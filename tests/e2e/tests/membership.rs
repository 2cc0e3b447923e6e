//! Nodes join, get a vote, lose it and go, while records are written and read.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base::BrokerId;
use client::admin::QuorumMember;
use serde_json::Value;
use vltava_e2e::churn::admin;
use vltava_e2e::nodes::{Nodes, is_well};
use vltava_e2e::stream::{Stream, check};
use vltava_e2e::wait;

/// One of the nodes of a status.
fn node(status: &Value, id: i32) -> Option<&Value> {
    status["nodes"].as_array()?.iter().find(|node| node["id"] == id)
}

fn numbers(list: &Value) -> Vec<i64> {
    list.as_array().into_iter().flatten().filter_map(Value::as_i64).collect()
}

fn votes(status: &Value) -> Vec<i64> {
    numbers(&status["quorum"]["voters"])
}

/// Who has the replicas of a topic.
fn replicas(nodes: &Nodes, topic: &str) -> Result<Vec<Vec<i64>>> {
    let described: Value = serde_json::from_str(&nodes.says(&["topic", "describe", topic, "--json"])?)?;
    let partitions = described["partitions"].as_array().or_else(|| described[0]["partitions"].as_array());
    let partitions = partitions.ok_or_else(|| anyhow::anyhow!("{described:#}"))?;
    Ok(partitions.iter().map(|partition| numbers(&partition["replicas"])).collect())
}

#[test]
fn a_node_joins_and_takes_the_place_of_the_first() -> Result<()> {
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        nodes.says(&["topic", "create", "orders", "--partitions", "6"])?;
        let promised = Stream::during(&nodes.bootstrap(), "orders", |stream| {
            stream.goes_on()?;
            // Of those that it is told of, one is not there.
            nodes.join(4, &[9, 2], &[])?;
            let status = nodes.until("4 follows", |status| {
                node(status, 4).is_some_and(|node| node["quorum"] == "follows" && node["up"] == true)
            })?;
            ensure!(votes(&status) == [1, 2, 3], "{status:#}");
            nodes.says(&["cluster", "add", "4", "--yes"])?;
            ensure!(votes(&nodes.status()?) == [1, 2, 3, 4]);
            nodes.says(&["cluster", "rebalance", "--yes"])?;
            stream.goes_on()?;
            // It is the first that leads, as long as nothing happens; whoever does, hands the lead over.
            let leader = nodes.status()?["quorum"]["leader"].as_i64().unwrap_or_default() as i32;
            nodes.says(&["cluster", "remove", &leader.to_string(), "--yes"])?;
            let status = nodes.status()?;
            ensure!(!votes(&status).contains(&i64::from(leader)), "{status:#}");
            ensure!(status["quorum"]["leader"] != leader, "{status:#}");
            nodes.until_log(leader, "no vote on the metadata any more")?;
            stream.goes_on()?;
            nodes.stop(leader)?;
            let said = nodes.says(&["cluster", "remove", &leader.to_string(), "--yes"])?;
            ensure!(said.contains("is gone"), "{said}");
            ensure!(node(&nodes.status()?, leader).is_none(), "it is forgotten");
            // It has joined: from here on it finds the others by itself.
            nodes.stop(4)?;
            let listen = nodes.cluster_address(4)?;
            nodes.start(4, &[("cluster.listen", &listen)])?;
            nodes.until("all are in sync", is_well)?;
            ensure!(votes(&nodes.status()?).contains(&4));
            stream.goes_on()?;
            let leader = nodes.status()?["quorum"]["leader"].as_i64().unwrap_or_default() as i32;
            nodes.kill(leader)?;
            stream.goes_on()
        })?;
        let read = nodes.says(&["consume", "orders", "-e", "-f", "%p %o %s\\n"])?;
        let found = check(&promised, &read)?;
        eprintln!("membership: {} records acknowledged, {found} found", promised.len());
        Ok(())
    })
}

/// Where those who vote listen, as the cluster has it, for those who do not know where to look.
fn voter_addresses(nodes: &Nodes) -> Result<Vec<(i32, String)>> {
    let quorum = admin(&nodes.bootstrap())?.describe_quorum().wait()?;
    let address = |voter: &QuorumMember| {
        let (_, host, port) = voter.endpoint.clone().unwrap_or_default();
        (voter.id.0, format!("{host}:{port}"))
    };
    Ok(quorum.voters.iter().map(address).collect())
}

/// Waits until the cluster has it that its voters are where they are.
fn until_known(nodes: &mut Nodes, ids: &[i32]) -> Result<()> {
    let are: Result<Vec<_>> = ids.iter().map(|id| Ok((*id, nodes.cluster_address(*id)?))).collect();
    let are = are?;
    let mut last = None;
    let known = wait::until("the voters are known to have moved", Duration::from_secs(30), || {
        last = Some(voter_addresses(nodes));
        Ok(last.as_ref().is_some_and(|known| known.as_ref().is_ok_and(|known| *known == are)).then_some(()))
    });
    known.with_context(|| format!("they are {are:?}, the cluster has {last:?}"))
}

#[test]
fn nodes_that_all_moved_find_each_other_and_take_no_stranger_for_one_of_them() -> Result<()> {
    let mut strangers = None;
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        nodes.says(&["topic", "create", "orders", "--partitions", "3"])?;
        nodes.join(4, &[1, 2, 3], &[("process.roles", "broker")])?;
        let promised = Stream::during(&nodes.bootstrap(), "orders", Stream::goes_on)?;
        for id in [4, 1, 2, 3] {
            nodes.stop(id)?;
        }
        // Where they were there is another cluster, whose nodes have the same numbers.
        let others = strangers.insert(nodes.move_all()?);
        others.start_together(&[1, 2, 3])?;
        nodes.start_together(&[1, 2, 3])?;
        // Of those who vote it knows where they were, and of one where it is now.
        nodes.join(4, &[3], &[("process.roles", "broker")])?;
        nodes.until("all are in sync", is_well)?;
        until_known(nodes, &[1, 2, 3])?;
        let read = nodes.says(&["consume", "orders", "-e", "-f", "%p %o %s\\n"])?;
        check(&promised, &read)?;
        let topics = others.says(&["topic", "list"])?;
        ensure!(!topics.contains("orders"), "{topics}");
        Ok(())
    })
}

#[test]
fn a_node_that_moved_alone_is_found_by_those_who_know_its_old_place() -> Result<()> {
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        nodes.says(&["topic", "create", "orders", "--partitions", "3"])?;
        let old = nodes.peers(&[1, 2, 3])?;
        nodes.join(4, &[1, 3], &[("process.roles", "broker")])?;
        let promised = Stream::during(&nodes.bootstrap(), "orders", |stream| {
            stream.goes_on()?;
            nodes.stop(3)?;
            nodes.move_one(3)?;
            let new = nodes.peers(&[1, 2, 3])?;
            nodes.start(3, &[("cluster.peers", &new)])?;
            nodes.until("all are in sync", is_well)?;
            until_known(nodes, &[1, 2, 3])?;
            // One that knows the old place only finds it where the metadata say that it is; without it there
            // would be no majority.
            nodes.kill(1)?;
            nodes.start(1, &[("cluster.peers", &old)])?;
            nodes.until("all are in sync", is_well)?;
            nodes.kill(2)?;
            stream.goes_on()?;
            let listen = nodes.cluster_address(4)?;
            nodes.kill(4)?;
            nodes.start(4, &[("process.roles", "broker"), ("cluster.listen", &listen)])?;
            nodes.start(2, &[("cluster.peers", &old)])?;
            nodes.until("all are in sync", is_well)?;
            stream.goes_on()
        })?;
        let read = nodes.says(&["consume", "orders", "-e", "-f", "%p %o %s\\n"])?;
        check(&promised, &read).map(drop)
    })
}

#[test]
fn nothing_comes_back_to_a_drained_broker() -> Result<()> {
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        nodes.says(&["topic", "create", "before", "--partitions", "4", "--replication-factor", "2"])?;
        let said = nodes.says(&["cluster", "drain", "3", "--yes"])?;
        ensure!(said.contains("no new replica is placed there"), "{said}");
        let peers = nodes.peers(&[1, 2, 3])?;
        nodes.stop(3)?;
        nodes.start(3, &[("cluster.peers", &peers)])?;
        for topic in ["made", "grown"] {
            nodes.says(&["topic", "create", topic, "--partitions", "6"])?;
        }
        nodes.says(&["cluster", "rebalance", "--yes"])?;
        for topic in ["before", "made", "grown"] {
            let replicas = replicas(nodes, topic)?;
            ensure!(replicas.iter().flatten().all(|id| *id != 3), "{topic}: {replicas:?}");
        }
        let status = nodes.status()?;
        ensure!(node(&status, 3).is_some_and(|node| node["drained"] == true), "{status:#}");
        let said = nodes.says(&["cluster", "add", "3", "--dry-run"])?;
        ensure!(
            said == "node 3 votes, and is drained: new replicas are to be placed there again\n",
            "{said}"
        );
        let said = nodes.refuses(&["cluster", "add", "3"])?;
        ensure!(said.contains("--yes"), "nobody is there to be asked: {said}");
        let status = nodes.status()?;
        ensure!(node(&status, 3).is_some_and(|node| node["drained"] == true), "{status:#}");
        let said = nodes.says(&["cluster", "add", "3", "--yes"])?;
        ensure!(said.ends_with("node 3 gets new replicas again\n"), "{said}");
        nodes.says(&["topic", "create", "after", "--partitions", "6"])?;
        let replicas = replicas(nodes, "after")?;
        ensure!(replicas.iter().all(|of| of.contains(&3)), "{replicas:?}");
        // Who is gone for good is not waited for, although the others were founded with it.
        nodes.says(&["topic", "alter", "after", "--replication-factor", "2", "--yes"])?;
        nodes.says(&["cluster", "remove", "3", "--yes"])?;
        nodes.stop(3)?;
        nodes.says(&["cluster", "remove", "3", "--yes"])?;
        nodes.says(&["topic", "create", "two"])?;
        let replicas = self::replicas(nodes, "two")?;
        ensure!(replicas.iter().all(|of| of.len() == 2), "{replicas:?}");
        Ok(())
    })
}

#[test]
fn who_only_tries_or_is_not_asked_changes_nothing() -> Result<()> {
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        nodes.says(&["topic", "create", "two", "--partitions", "3", "--replication-factor", "2"])?;
        let before = (replicas(nodes, "two")?, nodes.says(&["topic", "describe", "two", "--json"])?);
        let trial = |arguments: &[&str], plan: &str| {
            let said = nodes.says(&[arguments, &["--dry-run"]].concat())?;
            ensure!(said.contains(plan), "{arguments:?}: {said}");
            let said = nodes.refuses(arguments)?;
            ensure!(said.contains("--yes"), "{arguments:?}: {said}");
            Ok::<_, anyhow::Error>(())
        };
        trial(&["topic", "alter", "two", "--replication-factor", "3"], "3 partitions, nothing to copy")?;
        trial(&["cluster", "drain", "3"], "partition")?;
        trial(&["cluster", "remove", "3"], "move its partitions to the others, take its vote")?;
        // Whoever is not asked about one part of it has had no other part done.
        let both = ["topic", "alter", "two", "--replication-factor", "3", "--config", "retention.ms=1000"];
        ensure!(nodes.refuses(&both)?.contains("--yes"));
        let more = ["topic", "alter", "two", "--replication-factor", "3", "--partitions", "4"];
        ensure!(nodes.refuses(&more)?.contains("--yes"));

        let after = (replicas(nodes, "two")?, nodes.says(&["topic", "describe", "two", "--json"])?);
        ensure!(before == after, "{before:?} {after:?}");
        let status = nodes.status()?;
        ensure!(node(&status, 3).is_some_and(|node| node["drained"] == false), "{status:#}");

        nodes.says(&[&both[..], &["--partitions", "4", "--yes"]].concat())?;
        let replicas = replicas(nodes, "two")?;
        ensure!(replicas.len() == 4 && replicas.iter().all(|of| of.len() == 3), "{replicas:?}");
        ensure!(nodes.status()?["quorum"]["voters"] == status["quorum"]["voters"]);
        Ok(())
    })
}

/// The names in a directory that begin so.
fn named(dir: &Path, beginning: &str) -> Result<Vec<String>> {
    let names = std::fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<String>>>()?;
    names.retain(|name| name.starts_with(beginning));
    Ok(names)
}

#[test]
fn what_was_taken_from_a_broker_that_was_away_goes_and_what_nobody_knows_is_set_aside() -> Result<()> {
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        let three = ["--partitions", "2", "--replication-factor", "3"];
        for topic in ["gone", "kept", "dropped"] {
            nodes.says(&[&["topic", "create", topic], &three[..]].concat())?;
        }
        nodes.says(&["topic", "create", "moved", "--partitions", "6", "--replication-factor", "2"])?;
        let promised = Stream::during(&nodes.bootstrap(), "kept", Stream::goes_on)?;
        let (peers, data) = (nodes.peers(&[1, 2, 3])?, nodes.data_dir(3));
        for (deleted, is_orderly) in [("gone", true), ("dropped", false)] {
            match is_orderly {
                true => nodes.stop(3)?,
                false => nodes.kill(3)?,
            }
            nodes.says(&["topic", "delete", deleted, "--yes"])?;
            if is_orderly {
                let admin = admin(&nodes.bootstrap())?;
                let others = || vec![BrokerId(1), BrokerId(2)];
                for begun in admin.reassign((0..6).map(|index| ("moved", index, others()))).wait() {
                    begun?;
                }
                wait::until("it has moved", Duration::from_secs(30), || {
                    let replicas = replicas(nodes, "moved")?;
                    Ok(replicas.iter().all(|of| !of.contains(&3)).then_some(()))
                })?;
            }
            ensure!(named(&data, &format!("{deleted}-"))?.len() == 2, "it was away");
            // One of which the cluster never knew.
            let stray = data.join("unknown-0");
            std::fs::create_dir(&stray)?;
            std::fs::write(
                stray.join("partition.metadata"),
                "version: 0\ntopic_id: AQEBAQEBAQEBAQEBAQEBAQ\n",
            )?;
            std::fs::write(stray.join("00000000000000000000.log"), deleted)?;
            nodes.start(3, &[("cluster.peers", &peers)])?;
            nodes.until("all are in sync", is_well)?;
            wait::until("what was deleted is gone", Duration::from_secs(30), || {
                Ok(named(&data, &format!("{deleted}-"))?.is_empty().then_some(()))
            })?;
            wait::until("what was moved is gone", Duration::from_secs(30), || {
                Ok(named(&data, "moved-")?.is_empty().then_some(()))
            })?;
            ensure!(!stray.exists(), "it is left");
        }
        let strays = named(&data, "unknown-0.")?;
        ensure!(strays.len() == 2 && strays.iter().all(|name| name.ends_with("-stray")), "{strays:?}");
        let records =
            |name: &String| std::fs::read_to_string(data.join(name).join("00000000000000000000.log"));
        let mut records = strays.iter().map(records).collect::<std::io::Result<Vec<_>>>()?;
        records.sort();
        ensure!(records == ["dropped", "gone"], "{records:?}");
        ensure!(nodes.log(3).contains("set aside the log of a partition"), "{}", nodes.log(3));
        let read = nodes.says(&["consume", "kept", "-e", "-f", "%p %o %s\\n"])?;
        check(&promised, &read).map(drop)
    })
}

#[test]
fn who_was_to_join_never_founds_the_cluster_anew() -> Result<()> {
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        nodes.join(4, &[1], &[])?;
        nodes.kill(4)?;
        // As a crash leaves it that comes before the first of the metadata: all it has is whose it is.
        for entry in std::fs::read_dir(nodes.data_dir(4))? {
            let path = entry?.path();
            match path.file_name().and_then(|name| name.to_str()) {
                Some("meta.properties") => {}
                _ if path.is_dir() => std::fs::remove_dir_all(path)?,
                _ => std::fs::remove_file(path)?,
            }
        }
        let listen = nodes.cluster_address(4)?;
        let said = nodes.refused(4, &[("cluster.listen", &listen)])?;
        ensure!(said.contains("began to join cluster") && said.contains("cluster.join"), "{said}");
        let said = nodes.refused(4, &[])?;
        ensure!(said.contains("began to join cluster"), "{said}");
        nodes.join(4, &[1], &[])?;
        let status = nodes.status()?;
        ensure!(votes(&status) == [1, 2, 3], "{status:#}");
        ensure!(node(&status, 4).is_some_and(|node| node["quorum"] == "follows"), "{status:#}");
        Ok(())
    })
}

/// What all these nodes count together.
fn sum(nodes: &Nodes, ids: &[i32], name: &str) -> Result<f64> {
    ids.iter()
        .map(|id| nodes.metrics(*id)?.get(name).copied().with_context(|| format!("{id} has no {name}")))
        .sum()
}

fn until_sum(nodes: &Nodes, ids: &[i32], name: &str, is: f64) -> Result<()> {
    let mut last = None;
    let waited = wait::until(name, Duration::from_secs(30), || {
        last = Some(sum(nodes, ids, name)?);
        Ok((last == Some(is)).then_some(()))
    });
    waited.with_context(|| format!("{name} is {last:?} and should be {is}"))
}

#[test]
fn who_looks_at_the_numbers_sees_a_broker_go_and_come_back() -> Result<()> {
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        let all = [1, 2, 3];
        nodes.says(&["topic", "create", "orders", "--partitions", "6"])?;
        nodes.says(&["topic", "create", "alone", "--partitions", "3", "--replication-factor", "1"])?;
        nodes.until("all are in sync", is_well)?;
        until_sum(nodes, &all, "vltava_partitions_led", 9.0)?;
        until_sum(nodes, &all, "vltava_partitions_under_replicated", 0.0)?;
        until_sum(nodes, &all, "vltava_controller_active", 1.0)?;
        until_sum(nodes, &all, "vltava_partitions_at_min_isr", 3.0)?;
        until_sum(nodes, &[1], "vltava_cluster_brokers{state=\"active\"}", 3.0)?;
        let promised = Stream::during(&nodes.bootstrap(), "orders", |stream| {
            stream.goes_on()?;
            let peers = nodes.peers(&all)?;
            nodes.kill(3)?;
            let left = [1, 2];
            until_sum(nodes, &left, "vltava_partitions_under_replicated", 6.0)?;
            until_sum(nodes, &left, "vltava_partitions_under_min_isr", 0.0)?;
            until_sum(nodes, &left, "vltava_controller_active", 1.0)?;
            for id in left {
                until_sum(nodes, &[id], "vltava_cluster_brokers{state=\"fenced\"}", 1.0)?;
                until_sum(nodes, &[id], "vltava_cluster_partitions_without_leader", 1.0)?;
            }
            ensure!(sum(nodes, &left, "vltava_isr_shrinks_total")? > 0.0, "somebody left");
            let expands = sum(nodes, &left, "vltava_isr_expands_total")?;
            stream.goes_on()?;
            wait::until("leaders see how far it is behind", Duration::from_secs(30), || {
                Ok((sum(nodes, &left, "vltava_leader_lag_records_max")? > 0.0).then_some(()))
            })?;
            nodes.start(3, &[("cluster.peers", &peers)])?;
            nodes.until("all are in sync", is_well)?;
            until_sum(nodes, &all, "vltava_partitions_under_replicated", 0.0)?;
            until_sum(nodes, &all, "vltava_cluster_partitions_without_leader", 0.0)?;
            ensure!(sum(nodes, &left, "vltava_isr_expands_total")? > expands, "somebody came back");
            ensure!(sum(nodes, &all, "vltava_elections_unclean_total")? == 0.0, "nobody asked for any");
            ensure!(sum(nodes, &all, "vltava_elections_last_known_total")? == 0.0, "somebody was in sync");
            stream.goes_on()
        })?;
        let read = nodes.says(&["consume", "orders", "-e", "-f", "%p %o %s\\n"])?;
        check(&promised, &read).map(drop)
    })
}

#[test]
fn who_does_not_belong_is_told_and_disturbs_nobody() -> Result<()> {
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        nodes.join(4, &[1], &[("process.roles", "broker")])?;
        let (join, listen) = (nodes.cluster_address(1)?, nodes.cluster_address(9)?);
        let joins = [("cluster.join", join.as_str()), ("cluster.listen", listen.as_str())];
        // One that has the data of another cluster.
        nodes.start(9, &[])?;
        nodes.stop(9)?;
        let said = nodes.refused(9, &joins)?;
        ensure!(said.contains("belongs to cluster") && said.contains("empty data directory"), "{said}");
        // One that has the number of a voter.
        let as_voter = [joins[0], joins[1], ("node.id", "2")];
        let said = nodes.refused(8, &as_voter)?;
        ensure!(said.contains("node 2 of that cluster votes at"), "{said}");
        // One that has the number of a broker which lives: it waits, and that one lives on.
        let as_broker = [joins[0], joins[1], ("node.id", "4")];
        nodes.spawn(8, &as_broker)?;
        nodes.until_log(8, "does not take this broker in")?;
        let status = nodes.status()?;
        ensure!(node(&status, 4).is_some_and(|node| node["up"] == true), "{status:#}");
        // Once that one is gone for good, it comes in.
        nodes.kill(4)?;
        nodes.wait_until_serving(8)?;
        // One that nobody could reach: it serves clients on this machine only, and has no route to those it is to join.
        let said = nodes.refused(7, &[("cluster.join", "255.255.255.255:19092")])?;
        ensure!(said.contains("cluster.listen is not set"), "{said}");
        Ok(())
    })
}
