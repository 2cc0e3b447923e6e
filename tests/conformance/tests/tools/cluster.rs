//! What Kafka's tools do with several nodes: ReassignPartitionsCommand, LeaderElectionCommand,
//! MetadataQuorumCommand, FeatureCommand, ClusterTool, and TopicCommand where it shows replicas.

use std::io::Write;

use anyhow::{Context, Result, ensure};
use tempfile::NamedTempFile;

use crate::toolbox::{Toolbox, eventually, topic};

/// The one level of `metadata.version` that there is: that of Kafka 4.4.
const LEVEL: i16 = 33;

/// What a tool reads from a file.
fn file(contents: &str) -> Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    file.write_all(contents.as_bytes())?;
    Ok(file)
}

/// A topic of one partition on these brokers, with a few records.
fn topic_on(toolbox: &Toolbox, story: &str, brokers: &str) -> Result<String> {
    let name = topic(story);
    let arguments = ["--create", "--topic", &name, "--replica-assignment", brokers];
    toolbox.run("TopicCommand", &arguments)?.done()?;
    eventually(|| toolbox.write(&name, 0, &[1, 2, 3]))?;
    Ok(name)
}

/// Waits until TopicCommand's line of the partition has all of this.
fn shows(toolbox: &Toolbox, topic: &str, parts: &[&str]) -> Result<()> {
    eventually(|| {
        let described = toolbox.run("TopicCommand", &["--describe", "--topic", topic])?.done()?;
        ensure!(parts.iter().all(|part| described.contains(part)), "{parts:?} in {described}");
        Ok(())
    })
}

fn plan(topic: &str, replicas: &str) -> Result<NamedTempFile> {
    file(&format!(
        r#"{{"version":1,"partitions":[{{"topic":"{topic}","partition":0,"replicas":[{replicas}]}}]}}"#
    ))
}

fn path(file: &NamedTempFile) -> Result<&str> {
    file.path().to_str().context("its name is text")
}

pub(crate) fn topics_have_three_replicas(toolbox: &Toolbox) -> Result<()> {
    let name = topic("three-replicas");
    toolbox.run("TopicCommand", &["--create", "--topic", &name, "--partitions", "2"])?.done()?;
    shows(toolbox, &name, &["PartitionCount: 2", "ReplicationFactor: 3", "min.insync.replicas=2"])?;
    for troubled in
        ["--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"]
    {
        let said = toolbox.run("TopicCommand", &["--describe", "--topic", &name, troubled])?.done()?;
        ensure!(said.trim().is_empty(), "{troubled}: {said}");
    }
    Ok(())
}

pub(crate) fn reassign_partitions_command(toolbox: &Toolbox) -> Result<()> {
    let name = topic_on(toolbox, "reassign", "1:2")?;
    let topics = file(&format!(r#"{{"version":1,"topics":[{{"topic":"{name}"}}]}}"#))?;
    let run = |arguments: &[&str]| toolbox.run("ReassignPartitionsCommand", arguments)?.done();
    let proposed =
        run(&["--generate", "--topics-to-move-json-file", path(&topics)?, "--broker-list", "2,3"])?;
    ensure!(proposed.contains("Proposed partition reassignment configuration"), "{proposed}");
    let plan = plan(&name, "3,1,2")?;
    for throttle in [&[][..], &["--throttle", "10000000"]] {
        let execute = ["--execute", "--additional", "--reassignment-json-file", path(&plan)?];
        let said = run(&[&execute[..], throttle].concat())?;
        ensure!(said.contains("Successfully started partition reassignment"), "{said}");
        eventually(|| {
            let said = run(&["--verify", "--reassignment-json-file", path(&plan)?])?;
            ensure!(said.contains("is completed"), "{said}");
            Ok(())
        })?;
        shows(toolbox, &name, &["Replicas: 3,1,2"])?;
    }
    let listed = run(&["--list"])?;
    ensure!(!listed.contains(&name), "{listed}");
    let configs = ["--describe", "--entity-type", "topics", "--entity-name", &name];
    let configs = toolbox.run("ConfigCommand", &configs)?.done()?;
    ensure!(!configs.contains("throttled.replicas="), "verify takes the throttle away: {configs}");
    is_taken_back(toolbox)
}

/// A limit is the broker's: this would hold up another story that moves something.
fn is_taken_back(toolbox: &Toolbox) -> Result<()> {
    let name = topic_on(toolbox, "cancelled", "1:2")?;
    // More than a follower is answered at a time, so that it is held back before it has all.
    let much = ["--topic", &name, "--num-records", "8000", "--record-size", "1000", "--throughput", "-1"];
    toolbox.run("ProducerPerformance", &[&much[..], &["--command-property", "acks=all"]].concat())?.done()?;
    let plan = plan(&name, "2,3")?;
    let run = |action: &str, more: &[&str]| {
        let file = path(&plan)?;
        let arguments = [&[action, "--reassignment-json-file", file], more].concat();
        toolbox.run("ReassignPartitionsCommand", &arguments)?.done()
    };
    run("--execute", &["--additional", "--throttle", "1"])?;
    shows(toolbox, &name, &["Adding Replicas: 3", "Removing Replicas: 1"])?;
    let said = run("--cancel", &[])?;
    ensure!(said.contains("Successfully cancelled"), "{said}");
    // Those that it had, in the order of where it was to go: so Kafka leaves it, too.
    shows(toolbox, &name, &["ReplicationFactor: 2", "Replicas: 2,1", "Isr: 1,2"])
}

pub(crate) fn leader_election_command(toolbox: &Toolbox) -> Result<()> {
    let name = topic_on(toolbox, "election", "1:2:3")?;
    shows(toolbox, &name, &["Isr: 1,2,3"])?;
    let plan = plan(&name, "3,2,1")?;
    let execute = ["--execute", "--additional", "--reassignment-json-file", path(&plan)?];
    toolbox.run("ReassignPartitionsCommand", &execute)?.done()?;
    shows(toolbox, &name, &["Replicas: 3,2,1"])?;
    let elect = ["--election-type", "preferred", "--topic", &name, "--partition", "0"];
    let said = toolbox.run("LeaderElectionCommand", &elect)?.done()?;
    ensure!(
        said.contains("Successfully completed leader election") || said.contains("Valid replica already"),
        "{said}"
    );
    shows(toolbox, &name, &["Leader: 3"])?;
    let said = toolbox.run("LeaderElectionCommand", &elect)?.done()?;
    ensure!(said.contains("Valid replica already elected"), "{said}");
    let all = ["--election-type", "preferred", "--all-topic-partitions"];
    // A partition of another story may be on its way just now.
    eventually(|| toolbox.run("LeaderElectionCommand", &all)?.done().map(drop))?;
    let nowhere = ["--election-type", "preferred", "--topic", "nowhere", "--partition", "0"];
    toolbox.run("LeaderElectionCommand", &nowhere)?.fails_with("UnknownTopicOrPartition")
}

pub(crate) fn metadata_quorum_command(toolbox: &Toolbox) -> Result<()> {
    let status = toolbox.run("MetadataQuorumCommand", &["describe", "--status"])?.done()?;
    for word in ["ClusterId:", "LeaderId:", "LeaderEpoch:", "HighWatermark:", "CurrentVoters:"] {
        ensure!(status.contains(word), "{word} is not in {status}");
    }
    for node in [1, 2, 3] {
        ensure!(status.contains(&format!("\"id\": {node}")), "{node} does not vote: {status}");
    }
    let replication = toolbox.run("MetadataQuorumCommand", &["describe", "--replication"])?.done()?;
    ensure!(replication.matches("Leader").count() == 1, "{replication}");
    ensure!(replication.matches("Follower").count() == 2, "{replication}");
    Ok(())
}

pub(crate) fn feature_command(toolbox: &Toolbox) -> Result<()> {
    let described = toolbox.run("FeatureCommand", &["describe"])?.done()?;
    ensure!(described.contains("Feature: metadata.version"), "{described}");
    let run = |action: &str, feature: &str| toolbox.run("FeatureCommand", &[action, "--feature", feature]);
    let said = run("upgrade", &format!("metadata.version={LEVEL}"))?.done()?;
    ensure!(said.contains(&format!("metadata.version was upgraded to {LEVEL}")), "{said}");
    let no_other = format!("The controller supports only version {LEVEL}");
    run("upgrade", "metadata.version=999")?.fails_with("metadata.version")?;
    run("downgrade", "metadata.version=7")?.fails_with(&no_other)?;
    run("disable", "metadata.version")?.fails_with(&no_other)
}

pub(crate) fn cluster_tool(toolbox: &Toolbox) -> Result<()> {
    let bootstrap = toolbox.suite.bootstrap()?;
    let run = |arguments: &[&str]| {
        toolbox.run_alone("ClusterTool", &[arguments, &["--bootstrap-server", &bootstrap]].concat(), "")
    };
    let endpoints = run(&["list-endpoints"])?.done()?;
    ensure!(endpoints.matches("unfenced").count() == 3, "{endpoints}");
    run(&["unregister", "--id", "9"])?.fails_with("Broker ID 9 is not currently registered")
}
