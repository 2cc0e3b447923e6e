//! Kafka's tools where nodes join, die and go: MetadataQuorumCommand gives and takes votes, LeaderElectionCommand
//! elects who may lack records, ClusterTool forgets a broker.

use std::fs;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use conformance::tools::Tools;
use tempfile::NamedTempFile;
use vltava_e2e::nodes::Nodes;

use crate::{is_well, votes};

/// What Kafka's tool reads of the node that is to get a vote: its number, its address, its directory.
fn properties(nodes: &mut Nodes, id: i32) -> Result<NamedTempFile> {
    let (address, voter) = (nodes.cluster_address(id)?, nodes.cluster_address(1)?);
    let mut file = NamedTempFile::new()?;
    write!(
        file,
        "process.roles=controller\n\
         node.id={id}\n\
         controller.quorum.bootstrap.servers={voter}\n\
         controller.listener.names=CONTROLLER\n\
         listeners=CONTROLLER://{address}\n\
         log.dirs={}\n",
        nodes.data_dir(id).display()
    )?;
    Ok(file)
}

/// The id of the directory in which a node has the metadata.
fn directory(nodes: &Nodes, id: i32) -> Result<String> {
    let properties = fs::read_to_string(nodes.data_dir(id).join("meta.properties"))?;
    let found = properties.lines().find_map(|line| line.strip_prefix("directory.id="));
    Ok(found.with_context(|| properties.clone())?.to_owned())
}

/// Node 4, which has joined, gets a vote and loses it again.
fn votes_come_and_go(nodes: &mut Nodes, tools: &mut Tools) -> Result<()> {
    let (bootstrap, directory) = (nodes.bootstrap(), directory(nodes, 4)?);
    let file = properties(nodes, 4)?;
    let path = file.path().to_str().context("its name is text")?;
    let mut run = |arguments: &[&str]| {
        let arguments = [&["--bootstrap-server", &bootstrap], arguments].concat();
        tools.run("MetadataQuorumCommand", &arguments, "")
    };
    let said = run(&["--command-config", path, "add-controller"])?.done()?;
    ensure!(said.contains(&format!("Added controller 4 with directory id {directory}")), "{said}");
    ensure!(votes(&nodes.status()?) == [1, 2, 3, 4]);
    run(&["--command-config", path, "add-controller"])?.fails_with("DuplicateVoterException")?;
    let remove = ["remove-controller", "--controller-id", "4", "--controller-directory-id", &directory];
    let said = run(&remove)?.done()?;
    ensure!(said.contains("controller 4 with directory id"), "{said}");
    ensure!(votes(&nodes.status()?) == [1, 2, 3]);
    run(&remove)?.fails_with("VoterNotFoundException")
}

/// Broker 4 dies, who alone has the second of two records; broker 3 has the first.
fn nobody_leads_until_somebody_asks_for_it(nodes: &mut Nodes, tools: &mut Tools) -> Result<()> {
    let mut run = |nodes: &Nodes, tool: &str, arguments: &[&str]| {
        tools.run(tool, &[&["--bootstrap-server", &nodes.bootstrap()], arguments].concat(), "")
    };
    let create = ["--create", "--topic", "doubtful", "--replica-assignment", "4:3"];
    run(nodes, "TopicCommand", &[&create[..], &["--config", "min.insync.replicas=1"]].concat())?.done()?;
    nodes.until("both have it", is_well)?;
    let write = |nodes: &Nodes, value: &str| {
        let mut file = NamedTempFile::new()?;
        file.write_all(value.as_bytes())?;
        let path = file.path().to_str().context("its name is text")?;
        nodes.says(&["produce", "doubtful", "--acks", "all", path]).map(drop)
    };
    write(nodes, "of both")?;
    let peers = nodes.peers(&[1, 2, 3])?;
    nodes.stop(3)?;
    write(nodes, "of one")?;
    nodes.kill(4)?;
    nodes.start(3, &[("cluster.peers", &peers)])?;
    nodes.until("nobody leads it", |status| status["partitions_without_leader"] == 1)?;
    let elect = |kind| ["--election-type", kind, "--topic", "doubtful", "--partition", "0"];
    run(nodes, "LeaderElectionCommand", &elect("preferred"))?.fails_with("PreferredLeaderNotAvailable")?;
    ensure!(nodes.partitions("doubtful")?[0]["leader"].is_null(), "nobody was to be elected");
    let said = run(nodes, "LeaderElectionCommand", &elect("unclean"))?.done()?;
    ensure!(said.contains("Successfully completed leader election (UNCLEAN)"), "{said}");
    nodes.until("somebody leads it", |status| status["partitions_without_leader"] == 0)?;
    ensure!(nodes.partitions("doubtful")?[0]["leader"] == 3);
    let read = nodes.says(&["consume", "doubtful", "-e", "-f", "%o %s\\n"])?;
    ensure!(read == "0 of both\n", "{read}");
    let elections = nodes.metrics(3)?.get("vltava_elections_unclean_total").copied();
    ensure!(elections == Some(1.0), "{elections:?} are counted");
    nodes.until_log(3, "this broker leads after an unclean election")
}

/// Broker 4 does not come back.
fn a_broker_is_forgotten(nodes: &Nodes, tools: &mut Tools) -> Result<()> {
    let bootstrap = nodes.bootstrap();
    let mut run = |arguments: &[&str]| {
        tools.run("ClusterTool", &[arguments, &["--bootstrap-server", &bootstrap]].concat(), "")
    };
    let endpoints = run(&["list-endpoints"])?.done()?;
    ensure!(endpoints.matches("unfenced").count() == 3, "{endpoints}");
    let said = run(&["unregister", "--id", "4"])?.done()?;
    ensure!(said.contains("Broker 4 is no longer registered"), "{said}");
    let status = nodes.status()?;
    let is_known = status["nodes"].as_array().context("it has nodes")?.iter().any(|it| it["id"] == 4);
    ensure!(!is_known, "{status:#}");
    run(&["unregister", "--id", "4"])?.fails_with("Broker ID 4 is not currently registered")
}

#[test]
fn kafkas_tools_look_after_votes_doubtful_leaders_and_brokers_that_are_gone() -> Result<()> {
    Nodes::found(&[1, 2, 3])?.told(|nodes| {
        nodes.join(4, &[1], &[])?;
        let tools = &mut Tools::start()?;
        votes_come_and_go(nodes, tools)?;
        nobody_leads_until_somebody_asks_for_it(nodes, tools)?;
        a_broker_is_forgotten(nodes, tools)
    })
}
