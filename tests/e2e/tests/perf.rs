//! `vltava perf` against a broker that loses, duplicates or reorders records: the run must fail, and say how.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::Scratch;
use client::consumer::{Consumer, Start};
use client::producer::{Producer, Record};
use conformance::{Node, Program, Setup, home};
use serde_json::Value;
use vltava_e2e::churn::{Churn, admin};
use vltava_e2e::liar::{Liar, Lie};
use vltava_e2e::process::{setup, with_node};

/// Some dozens of batches for each partition.
const RECORDS: &str = "6000";
const LIES: [(Lie, &str); 3] =
    [(Lie::Lose, "lost"), (Lie::Duplicate, "duplicated"), (Lie::Reorder, "reordered")];

fn with_liar(story: impl FnOnce(&Node, &Liar) -> Result<()>) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let advertised_port = Some(listener.local_addr()?.port());
    with_node(Node::start(Setup { advertised_port, ..setup()? })?, |node| {
        story(node, &Liar::on(listener, node.address())?)
    })
}

fn topic(node: &Node, name: &str, partitions: i32) -> Result<()> {
    Churn::default().create(&admin(&node.bootstrap())?, name, partitions, &[])
}

fn perf(liar: &Liar, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(home::vltava()?);
    command.arg("perf").args(arguments).args(["--bootstrap-server", &liar.address().to_string()]);
    Ok(command.output()?)
}

/// Writes without idempotence: the broker's word is all there is.
fn write(liar: &Liar, topic: &str, more: &[&str]) -> Result<Output> {
    let plain = ["producer", "--topic", topic, "--num-records", RECORDS, "--verify", "--json"];
    let settings = ["--command-property", "enable.idempotence=false", "batch.size=2000"];
    perf(liar, &[&plain[..], more, &settings[..]].concat())
}

fn read_all(liar: &Liar, topic: &str) -> Result<Output> {
    let timeout = ["--timeout", "2000", "--verify", "--json"];
    perf(liar, &[&["consumer", "--topic", topic, "--num-records", RECORDS][..], &timeout].concat())
}

/// The run failed with this word, and no other.
fn fails_with(word: &str, output: &Output) -> Result<()> {
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.code() == Some(1), "it must fail: {out}{error}");
    let line = error.lines().find(|line| line.contains("verification failed: records "));
    let line = line.with_context(|| format!("it must say what is wrong: {error}"))?;
    for (_, other) in LIES {
        ensure!(line.contains(&format!(" {other}")) == (other == word), "{word}: {line}");
        let json = out.lines().last().unwrap_or_default();
        ensure!(json.contains(&format!("\"{other}\":0")) == (other != word), "{word}: {json}");
    }
    Ok(())
}

fn passes(output: &Output) -> Result<()> {
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{out}{error}");
    let json = out.lines().last().unwrap_or_default();
    let clean = format!(
        "\"verified\":{{\"records\":{RECORDS},\"lost\":0,\"duplicated\":0,\"reordered\":0,\"corrupt\":0,\"foreign\":0,\"unmarked\":0}}"
    );
    ensure!(json.contains(&clean), "{json}");
    Ok(())
}

#[test]
fn a_broker_that_lies_is_found_out() -> Result<()> {
    let ways: [(i32, &[&str], &[&str]); 3] = [
        (1, &["--record-size", "100"], &[]),
        (3, &["--record-size", "60", "--producers", "2", "--keys", "uniform:50"], &["compression.type=lz4"]),
        // Too small for a mark: it is in a header.
        (2, &["--payload-monotonic", "--producers", "3"], &["compression.type=zstd"]),
    ];
    with_liar(|node, liar| {
        for (way, (partitions, arguments, settings)) in ways.into_iter().enumerate() {
            let settings = [&["--command-property", "linger.ms=0"][..], settings].concat();
            let arguments = [arguments, &settings[..]].concat();
            let honest = format!("honest-{way}");
            topic(node, &honest, partitions)?;
            passes(&write(liar, &honest, &arguments)?).with_context(|| honest.clone())?;
            passes(&read_all(liar, &honest)?).with_context(|| honest.clone())?;
            for (lie, word) in LIES {
                let name = format!("{word}-{way}");
                topic(node, &name, partitions)?;
                let told = liar.told();
                liar.lie(lie, 5);
                let written = write(liar, &name, &arguments)?;
                ensure!(liar.told() == told + 1, "{name}: it was honest");
                fails_with(word, &written).with_context(|| format!("{name}, written"))?;
                // A reader that knows nothing of the writer finds it, too. Of a duplicate it reads fewer
                // other records than there are, and none of them is missing in between.
                fails_with(word, &read_all(liar, &name)?).with_context(|| format!("{name}, read"))?;
            }
        }
        Ok(())
    })
}

/// One byte of one record is another, and the batch's own checksum agrees with it.
#[test]
fn a_record_that_is_not_what_was_sent_is_corrupt() -> Result<()> {
    with_liar(|node, liar| {
        topic(node, "sent", 1)?;
        topic(node, "stored", 1)?;
        passes(&write(liar, "sent", &["--record-size", "50"])?)?;
        let mut consumer = Consumer::builder(&node.bootstrap()).build()?;
        consumer.assign([("sent", 0, Start::Earliest)]);
        let producer = Producer::new(&node.bootstrap())?;
        let (mut scratch, mut read) = (Scratch::default(), 0);
        while read < RECORDS.parse::<u64>()? {
            let batch = consumer.next_batch_within(Duration::from_secs(10))?.context("there is more")?;
            for record in batch.records(&mut scratch)? {
                let mut value = record?.value.context("it has a value")?.to_vec();
                value[40] ^= u8::from(read == 77);
                producer.send_blocking(&Record::to("stored").value(&value))?;
                read += 1;
            }
        }
        ensure!(producer.close_blocking(Duration::from_secs(10)) == 0, "all of it is acknowledged");
        let output = read_all(liar, "stored")?;
        let error = String::from_utf8_lossy(&output.stderr);
        // The number of a record that cannot be trusted did not come.
        ensure!(error.contains("verification failed: records 1 lost, 1 corrupt: "), "{error}");
        ensure!(output.status.code() == Some(1), "{output:?}");
        Ok(())
    })
}

/// What comes twice to an idempotent producer's broker is there once.
#[test]
fn an_honest_broker_passes_what_it_got_twice() -> Result<()> {
    with_liar(|node, liar| {
        topic(node, "twice", 2)?;
        liar.lie(Lie::Duplicate, 5);
        let written = ["producer", "--topic", "twice", "--num-records", RECORDS, "--record-size", "100"];
        let settings = ["--verify", "--json", "--command-property", "batch.size=2000"];
        passes(&perf(liar, &[&written[..], &settings].concat())?)?;
        ensure!(liar.told() == 1, "it came twice");
        Ok(())
    })
}

#[test]
fn latency_of_records_that_are_lost_or_come_twice_is_none() -> Result<()> {
    with_liar(|node, liar| {
        topic(node, "t", 1)?;
        let arguments = ["e2e-latency", "--topic", "t", "--num-records", "20", "--record-size", "100"];
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("not-idempotent.properties");
        std::fs::write(&config, "enable.idempotence=false\n")?;
        let config = config.to_str().context("it is text")?;
        let more = ["--producer-acks", "all", "--command-config", config, "--timeout", "2000", "--json"];
        for (lie, word) in [(Lie::Lose, "lost"), (Lie::Duplicate, "duplicated")] {
            // In the midst of the run, and its last record.
            for after in [7, 19] {
                liar.lie(lie, after);
                let output = perf(liar, &[&arguments[..], &more].concat())?;
                fails_with(word, &output).with_context(|| format!("{word} after {after}"))?;
            }
        }
        let output = perf(liar, &[&arguments[..], &more].concat())?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    })
}

/// What a tool says of Apache Kafka in its last line; it must find nothing wrong.
fn measured(node: &Node, arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new(home::vltava()?);
    command.arg("perf").args(arguments).args(["--bootstrap-server", &node.bootstrap(), "--json"]);
    let output = command.output()?;
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{arguments:?}: {out}{error}");
    Ok(serde_json::from_str(out.lines().last().unwrap_or_default())?)
}

/// The tools measure Apache Kafka as they do a node of ours, and do not say that it is durable.
#[test]
fn kafka_is_measured_too() -> Result<()> {
    with_node(Node::start(Setup::of(Program::Kafka))?, |node| {
        topic(node, "t", 3)?;
        let write =
            ["producer", "--topic", "t", "--num-records", RECORDS, "--record-size", "100", "--verify"];
        let read = ["consumer", "--topic", "t", "--num-records", RECORDS, "--verify"];
        let latency = ["e2e-latency", "--topic", "t", "--num-records", "200", "--producer-acks", "all"];
        let latency = [&latency[..], &["--record-size", "100"]].concat();
        for arguments in [&write[..], &read, &latency] {
            let said = measured(node, arguments)?;
            ensure!(said["verified"]["lost"] == 0 && said["latency_ns"]["p50"].as_u64() > Some(0), "{said}");
            let mode = said["durability"]["mode"].as_str().unwrap_or_default();
            ensure!(!mode.contains("is on the medium"), "{said}");
        }
        Ok(())
    })
}
