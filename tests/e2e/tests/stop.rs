//! Orderly ends and refused starts, and what the HTTP port says in between.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base::PartitionIndex;
use conformance::Node;
use records::Compression;
use vltava_e2e::churn::{Churn, FOR_EVER, admin};
use vltava_e2e::http;
use vltava_e2e::ledger::{Depth, Place};
use vltava_e2e::load::{Load, Producer, connect};
use vltava_e2e::process::{Ended, Server, setup, with_node};
use vltava_e2e::wait;

const TOPIC: &str = "orders";
const STOP_MAX: Duration = Duration::from_secs(5);
/// Kafka's name for "the last stop was an orderly one".
const CLEAN_MARKER: &str = ".kafka_cleanshutdown";

#[test]
fn sigterm_under_load_loses_nothing_and_needs_no_scan() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        let mut churn = Churn::default();
        let mut connection = connect(&node.bootstrap())?;
        churn.create(&admin(&node.bootstrap())?, TOPIC, 2, &[FOR_EVER, ("segment.bytes", "1048576")])?;
        let at = |partition| Place { topic: TOPIC.to_owned(), partition: PartitionIndex(partition) };
        let producers = vec![
            Producer::idempotent(0, at(0), Compression::None, &mut connection)?,
            Producer::plain(1, at(0), Compression::Lz4),
            Producer::idempotent(2, at(1), Compression::Zstd, &mut connection)?,
            Producer::plain(3, at(1), Compression::None),
        ];
        drop(connection);
        let mut load = Load::new(producers, churn);
        let mut ledger = load.ledger();
        for round in 1..=3 {
            load.during(&node.bootstrap(), &mut ledger, &at(0), |progress| {
                progress.wait_for_batches(300)?;
                stop_in_time(node)
            })?;
            let marker = node.data_dir().context("a directory")?.join(CLEAN_MARKER);
            ensure!(marker.exists(), "round {round}: no {}", marker.display());
            node.start_again()?;
            ensure!(!marker.exists(), "round {round}: a node that runs did not stop");
            let said = opened_line(node).with_context(|| format!("round {round}"))?;
            ensure!(said.contains("scanned_bytes=0"), "round {round}: {said}");
            ensure!(said.contains("offline=0"), "round {round}: {said}");
            load.churn().check(&admin(&node.bootstrap())?)?;
            ledger.check(&mut connect(&node.bootstrap())?, Depth::All)?;
        }
        load.settle(&node.bootstrap(), &mut ledger)?;
        ledger.check(&mut connect(&node.bootstrap())?, Depth::All)
    })
}

fn stop_in_time(node: &mut Node) -> Result<()> {
    let began = Instant::now();
    let status = node.stop()?;
    ensure!(status.success(), "it ended with {status}");
    ensure!(began.elapsed() < STOP_MAX, "it took {:?} to stop", began.elapsed());
    Ok(())
}

/// What the node said when it had opened its logs, the last time.
fn opened_line(node: &Node) -> Result<String> {
    let text = node.log_tail();
    let line = text.lines().rev().find(|line| line.contains("logs opened"));
    Ok(line.with_context(|| format!("it does not say that it opened logs:\n{text}"))?.to_owned())
}

#[test]
fn idle_clients_do_not_delay_a_stop() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        let waiting = (0..20).map(|_| connect(&node.bootstrap())).collect::<Result<Vec<_>, _>>()?;
        let mut parked = connect(&node.bootstrap())?;
        let admin = admin(&node.bootstrap())?;
        Churn::default().create(&admin, TOPIC, 1, &[])?;
        let limits = client::raw::FetchLimits { wait_ms_max: 60_000, ..Default::default() };
        let fetch = client::raw::fetch_request(TOPIC, PartitionIndex(0), base::Offset::ZERO, limits);
        parked.send(&fetch, 12)?;
        stop_in_time(node)?;
        drop((waiting, parked));
        Ok(())
    })
}

#[test]
fn a_directory_has_one_process() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        let data_dir = node.data_dir().context("a directory")?.to_owned();
        let second = Server::on(&data_dir)?.run_to_end()?;
        says(&second, &[&data_dir.display().to_string(), &node.pid().context("it runs")?.to_string()])?;
        // The first one did not notice.
        connect(&node.bootstrap())?;
        ensure!(http::get(node.http_address(), "/health/ready")?.status == 200, "it is not ready");
        Ok(())
    })
}

#[test]
fn a_taken_port_is_named() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        let folder = tempfile::tempdir()?;
        let free = Server::on(&folder.path().join("data"))?;
        let kafka = Server { listen: node.address(), ..free.clone() }.run_to_end()?;
        says(&kafka, &[&node.address().to_string()])?;
        let http = Server { http_listen: node.http_address(), ..free }.run_to_end()?;
        says(&http, &[&node.http_address().to_string()])
    })
}

#[test]
fn wrong_settings_are_explained() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let free = Server::on(&data_dir)?;
    let set = |setting: &str| Server { set: vec![setting.to_owned()], ..free.clone() }.run_to_end();
    says(&set("num.partition=3")?, &["num.partition", "num.partitions"])?;
    says(&set("flush.policy=never")?, &["flush.policy", "never", "ack", "interval", "os"])?;
    says(&set("num.partitions=many")?, &["num.partitions", "many"])?;
    ensure!(!data_dir.exists(), "a node that cannot start made a directory");
    Ok(())
}

#[test]
fn a_directory_that_cannot_be_written_is_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("file");
    fs::write(&file, "not a directory")?;
    says(&Server::on(&file)?.run_to_end()?, &[&file.display().to_string()])?;
    let below = file.join("data");
    says(&Server::on(&below)?.run_to_end()?, &[&below.display().to_string()])
}

/// It failed, in words for people that name these things.
fn says(ended: &Ended, names: &[&str]) -> Result<()> {
    let Ended { status, said } = ended;
    ensure!(status.code() == Some(1), "it ended with {status} and said:\n{said}");
    for name in names {
        ensure!(said.contains(name), "it does not name {name}:\n{said}");
    }
    ensure!(!said.contains("panicked") && !said.contains("RUST_BACKTRACE"), "it panicked:\n{said}");
    Ok(())
}

#[test]
fn health_and_metrics_are_served() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        let address = node.http_address();
        for path in ["/health/live", "/health/ready"] {
            let page = http::get(address, path)?;
            ensure!(page.status == 200, "{path}: {page:?}");
        }
        ensure!(http::get(address, "/nothing")?.status == 404, "/nothing is there");
        let admin = admin(&node.bootstrap())?;
        // A name that has a meaning in the format of metrics must not break it.
        Churn::default().create(&admin, "a.b-c_d", 3, &[])?;
        let mut producer = connect(&node.bootstrap())?;
        let first = vltava_e2e::sample::Origin { producer: 0, number: 0 };
        let batch = vltava_e2e::sample::batch(first, 10, Compression::None, records::Producer::NONE);
        producer.produce("a.b-c_d", PartitionIndex(2), -1, &batch)?;
        let text = wait::until("metrics show the work", Duration::from_secs(5), || {
            let page = http::get(address, "/metrics")?;
            ensure!(page.status == 200, "{page:?}");
            Ok((page.body.contains("Produce") || page.body.contains("produce")).then_some(page.body))
        })?;
        let series = http::metrics(&text).with_context(|| text.clone())?;
        ensure!(series.len() > 10, "only {} series:\n{text}", series.len());
        stop_in_time(node)?;
        ensure!(http::get(address, "/health/live").is_err(), "a stopped node is alive");
        Ok(())
    })
}
