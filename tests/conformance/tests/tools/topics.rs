//! Topics and what the cluster says of itself: TopicCommand, LogDirsCommand, ClusterTool, BrokerApiVersionsCommand.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::toolbox::{Toolbox, eventually, topic};

pub(crate) fn topic_command(toolbox: &Toolbox) -> Result<()> {
    let name = topic("topic-command");
    let run = |arguments: &[&str]| toolbox.run("TopicCommand", &[&["--topic", &name], arguments].concat());
    let create = ["--create", "--partitions", "2", "--replication-factor", "1"];
    let created = run(&[&create[..], &["--config", "segment.bytes=1048576"]].concat())?.done()?;
    ensure!(created.contains(&format!("Created topic {name}.")), "{created}");
    eventually(|| {
        let described = run(&["--describe"])?.done()?;
        ensure!(
            described.contains("PartitionCount: 2") && described.contains("ReplicationFactor: 1"),
            "{described}"
        );
        ensure!(described.contains("segment.bytes=1048576"), "{described}");
        ensure!(
            described.matches("Leader: ").count() == 2 && !described.contains("Leader: none"),
            "{described}"
        );
        Ok(())
    })?;
    let listed = run(&["--list"])?.done()?;
    ensure!(listed.lines().any(|line| line == name), "{listed}");
    let troubled = run(&["--describe", "--under-replicated-partitions"])?.done()?;
    ensure!(troubled.trim().is_empty(), "{troubled}");

    run(&create)?.fails_with("already exists")?;
    run(&[&create[..], &["--if-not-exists"]].concat())?.done()?;
    toolbox
        .run("TopicCommand", &["--create", "--topic", "no spaces", "--partitions", "1"])?
        .fails_with("InvalidTopicException")?;
    let refused = topic("topic-command-refused");
    toolbox
        .run("TopicCommand", &["--create", "--topic", &refused, "--replication-factor", "9"])?
        .fails_with("InvalidReplicationFactorException")?;

    run(&["--alter", "--partitions", "4"])?.done()?;
    eventually(|| {
        let described = run(&["--describe"])?.done()?;
        ensure!(described.contains("PartitionCount: 4"), "{described}");
        Ok(())
    })?;
    run(&["--alter", "--partitions", "3"])?.fails_with("InvalidPartitionsException")?;

    run(&["--delete"])?.done()?;
    eventually(|| run(&["--describe"])?.fails_with("does not exist"))?;
    let listed = toolbox.run("TopicCommand", &["--list"])?.done()?;
    ensure!(listed.lines().all(|line| line != name), "{listed}");
    run(&["--delete"])?.fails_with("does not exist")
}

pub(crate) fn log_dirs_command(toolbox: &Toolbox) -> Result<()> {
    let topic = toolbox.create("log-dirs", 2)?;
    toolbox.write(&topic, 0, &[1, 2, 3])?;
    let said = toolbox.run("LogDirsCommand", &["--describe", "--topic-list", &topic])?.done()?;
    let json = said.lines().find(|line| line.starts_with('{')).context(said.clone())?;
    let told: Value = serde_json::from_str(json)?;
    let mut sizes = Vec::new();
    let brokers = told["brokers"].as_array().context(said.clone())?;
    for log_dir in brokers.iter().filter_map(|broker| broker["logDirs"].as_array()).flatten() {
        ensure!(log_dir["error"].is_null(), "{log_dir}");
        for partition in log_dir["partitions"].as_array().context(said.clone())? {
            let size = partition["size"].as_i64().context(said.clone())?;
            sizes.push((partition["partition"].as_str().unwrap_or_default().to_owned(), size > 0));
        }
    }
    sizes.sort();
    ensure!(sizes == [(format!("{topic}-0"), true), (format!("{topic}-1"), false)], "{sizes:?}: {said}");
    Ok(())
}

pub(crate) fn cluster_tool(toolbox: &Toolbox) -> Result<()> {
    let bootstrap = toolbox.suite.bootstrap()?;
    let ask = |what| toolbox.run_alone("ClusterTool", &[what, "--bootstrap-server", &bootstrap], "")?.done();
    let cluster_id = ask("cluster-id")?;
    ensure!(cluster_id.trim().strip_prefix("Cluster ID: ").is_some_and(|id| id.len() == 22), "{cluster_id}");
    let endpoints = ask("list-endpoints")?;
    let port = bootstrap.rsplit(':').next().unwrap_or_default();
    ensure!(endpoints.contains(port) && endpoints.contains("unfenced"), "{endpoints}");
    let versions = toolbox.run("BrokerApiVersionsCommand", &[])?.done()?;
    for api in ["Produce(0): 0 to 13", "Fetch(1): 4 to 18", "Metadata(3): 0 to 13"] {
        ensure!(versions.contains(api), "{api} is not in {versions}");
    }
    Ok(())
}
