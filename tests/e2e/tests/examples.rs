//! The examples of our client do what they say, on our node.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use client::admin::At;
use client::consumer::{Consumer, Start};
use client::producer::{Producer, Record};
use client::{Header, Scratch};
use conformance::{Node, home};
use vltava_e2e::churn::{Churn, admin};
use vltava_e2e::process::{setup, with_node};

const PATIENCE: Duration = Duration::from_secs(30);

/// Runs an example to its end; what it printed.
fn run(name: &str, arguments: &[&str]) -> Result<Vec<String>> {
    let program = home::build().join("examples").join(name);
    ensure!(program.exists(), "{} is missing: run cargo build --examples", program.display());
    let mut command = Command::new(program);
    let done = command.args(arguments).stdin(Stdio::null()).output().context(name.to_owned())?;
    ensure!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(String::from_utf8(done.stdout)?.lines().map(str::to_owned).collect())
}

#[test]
fn examples_write_read_and_copy() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        let bootstrap = node.bootstrap();
        Churn::default().create(&admin(&bootstrap)?, "orders", 2, &[])?;
        let said = run("produce", &[&bootstrap, "orders"])?;
        // A thousand in two partitions, by customer.
        let last = |line: &String| line.rsplit(' ').next().and_then(|offset| offset.parse::<u64>().ok());
        let counts: Vec<u64> = said.iter().filter_map(last).map(|offset| offset + 1).collect();
        ensure!(counts.iter().sum::<u64>() == 1_000, "{said:?}");
        let mut orders = Vec::new();
        for (partition, count) in counts.into_iter().enumerate() {
            let lines = run("consume", &[&bootstrap, "orders", &partition.to_string()])?;
            ensure!(lines.len() as u64 == count, "{} lines of {count} records", lines.len());
            for (offset, line) in lines.iter().enumerate() {
                let parts = line.split(": ").collect::<Vec<_>>();
                let [at, customer, order] = parts[..] else { bail!("{line}") };
                ensure!(at == offset.to_string() && customer.starts_with("customer "), "{line}");
                orders.push(order.to_owned());
            }
        }
        orders.sort();
        orders.dedup();
        ensure!(orders.len() == 1_000, "{} orders", orders.len());
        reads_on(&bootstrap)?;
        copies(&bootstrap)
    })
}

/// The second member of a group begins where the first one left.
fn reads_on(bootstrap: &str) -> Result<()> {
    let mut read = BTreeSet::new();
    for _ in 0..2 {
        let said = run("group", &[bootstrap, "billing", "orders", "500"])?;
        ensure!(said.first().is_some_and(|line| line == "given: orders-0 orders-1"), "{said:?}");
        for line in said.iter().filter(|line| line.starts_with("orders-")) {
            ensure!(read.insert(line.clone()), "{line} is read twice");
        }
    }
    ensure!(read.len() == 1_000, "{} records", read.len());
    Ok(())
}

/// The copy of a topic, which the example makes, is read as the topic is, nulls, headers and times included.
fn copies(bootstrap: &str) -> Result<()> {
    let producer = Producer::new(bootstrap)?;
    let headers = [Header { key: b"h", value: None }, Header { key: b"h", value: Some(b"") }];
    let record = Record::to("orders").partition(1);
    for record in [
        record,
        record.key("").value(""),
        record.key("only a key").headers(&headers),
        record.value(&[0, 0xff]).timestamp_ms(1_600_000_000_000),
    ] {
        producer.send_blocking(&record)?.wait()?;
    }
    ensure!(run("copy_topic", &[bootstrap, "orders", "orders-copy"])? == ["1004 records copied"]);
    let (original, copy) = (read(bootstrap, "orders")?, read(bootstrap, "orders-copy")?);
    ensure!(original.len() == 1_004, "{} records", original.len());
    ensure!(original == copy, "{original:?}\n{copy:?}");
    let failed = run("copy_topic", &[bootstrap, "nothing", "orders-copy"]);
    ensure!(failed.is_err(), "there is nothing to copy");
    Ok(())
}

/// Everything in a topic of two partitions.
fn read(bootstrap: &str, topic: &str) -> Result<BTreeSet<String>> {
    let mut consumer = Consumer::builder(bootstrap).build()?;
    consumer.assign((0..2).map(|partition| (topic, partition, Start::Earliest)));
    let mut left = BTreeMap::new();
    let ends = admin(bootstrap)?.list_offsets((0..2).map(|partition| (topic, partition, At::Latest))).wait();
    for (partition, end) in ends.into_iter().enumerate() {
        left.insert(partition as i32, end?.offset.context("there is an end")?);
    }
    left.retain(|_, end| end.0 > 0);
    let (mut all, mut scratch) = (BTreeSet::new(), Scratch::default());
    while !left.is_empty() {
        let batch = consumer.next_batch_within(PATIENCE)?.with_context(|| format!("not read: {left:?}"))?;
        let (header, partition) = (*batch.header(), batch.partition());
        for record in batch.records(&mut scratch)? {
            let record = record?;
            let headers: Vec<_> = record.headers.collect();
            let (offset, time) = (record.offset(&header), record.timestamp(&header));
            let (key, value) = (record.key, record.value);
            all.insert(format!("{partition} {offset:?} {time:?} {key:?} {value:?} {headers:?}"));
        }
        left.retain(|index, end| *index != partition.0 || header.next_offset() < *end);
    }
    Ok(all)
}
