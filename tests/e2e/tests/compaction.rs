//! A topic of which each key's last value is kept: it shrinks while it is written, and whoever reads it from its
//! front finds the last value of each key, also after a crash.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::consumer::{Consumer, Reset, Start};
use client::producer::{Producer, Record};
use client::{Compression, Scratch};
use conformance::Node;
use vltava_e2e::churn::{Churn, admin};
use vltava_e2e::process::{setup, with_node};
use vltava_e2e::{http, wait};

const TOPIC: &str = "balances";
const PATIENCE: Duration = Duration::from_secs(60);
const KEYS: u64 = 500;
const ROUNDS: u64 = 40;
const VALUE_BYTES: usize = 300;

/// Writes each key once in each of the rounds. The value begins with the round.
fn write(bootstrap: &str, rounds: std::ops::Range<u64>) -> Result<()> {
    let builder = Producer::builder(bootstrap).compression(Compression::Lz4, None).batch_bytes_max(16_384);
    let producer = builder.build()?;
    for round in rounds {
        for key in 0..KEYS {
            // What changes from byte to byte does not shrink by compression alone.
            let mut state = round * KEYS + key;
            let noise = (0..VALUE_BYTES).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b' ' + (state >> 59) as u8 + (state >> 40) as u8 % 64)
            });
            let value = format!("{round} {}", noise.collect::<String>());
            let name = format!("key {key}");
            let record = Record::to(TOPIC).partition(0).key(&name).value(&value);
            producer.send_blocking(&record)?;
        }
    }
    ensure!(producer.close_blocking(PATIENCE) == 0, "all was acknowledged");
    Ok(())
}

/// Reads from the front up to `end`; how many records there were, and of each key the round of the last.
fn read(bootstrap: &str, end: i64) -> Result<(usize, BTreeMap<String, u64>)> {
    let mut consumer = Consumer::builder(bootstrap).reset(Reset::None).build()?;
    consumer.assign([(TOPIC, 0, Start::Earliest)]);
    let (mut count, mut last, mut scratch) = (0, BTreeMap::new(), Scratch::default());
    let mut before = -1;
    while before + 1 < end {
        let batch = consumer.next_batch_within(PATIENCE)?.context("no batch came")?;
        let header = *batch.header();
        for record in batch.records(&mut scratch)? {
            let record = record?;
            let offset = record.offset(&header).0;
            ensure!(offset > before, "{offset} comes after {before}");
            before = offset;
            let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
            let round = text(record.value).split(' ').next().unwrap_or_default().parse()?;
            last.insert(text(record.key), round);
            count += 1;
        }
    }
    Ok((count, last))
}

fn metric(node: &Node, name: &str) -> Result<f64> {
    let page = http::get(node.http_address(), "/metrics")?;
    http::metrics(&page.body)?.get(name).copied().with_context(|| name.to_owned())
}

#[test]
fn a_compacted_topic_shrinks_to_the_last_values() -> Result<()> {
    let node = Node::start(setup()?.set("log.cleaner.backoff.ms", "50"))?;
    with_node(node, |node| {
        let configs = [
            ("cleanup.policy", "compact"),
            ("segment.bytes", "1048576"),
            ("min.cleanable.dirty.ratio", "0.1"),
        ];
        Churn::default().create(&admin(&node.bootstrap())?, TOPIC, 1, &configs)?;
        write(&node.bootstrap(), 0..ROUNDS)?;
        let all = (KEYS * ROUNDS) as usize;
        let end = all as i64;
        let expected: BTreeMap<_, _> = (0..KEYS).map(|key| (format!("key {key}"), ROUNDS - 1)).collect();
        wait::until("little of the log is left", PATIENCE, || {
            let (count, last) = read(&node.bootstrap(), end)?;
            ensure!(last == expected, "of each key the last is there, whatever else is");
            Ok((count < all / 2).then_some(()))
        })?;
        ensure!(metric(node, "vltava_compaction_seconds_count")? > 0.0);
        let written = metric(node, "vltava_compaction_written_bytes_total")?;
        ensure!(written < metric(node, "vltava_compaction_replaced_bytes_total")?);
        ensure!(metric(node, "vltava_compaction_failures_total")? == 0.0);

        node.kill()?;
        node.start_again()?;
        let (count, last) = read(&node.bootstrap(), end)?;
        ensure!(last == expected && count < all / 2, "{count} of {all}");
        write(&node.bootstrap(), ROUNDS..ROUNDS + 1)?;
        let (_, last) = read(&node.bootstrap(), end + KEYS as i64)?;
        ensure!(last.values().all(|&round| round == ROUNDS), "the log goes on where it ended");
        Ok(())
    })
}
