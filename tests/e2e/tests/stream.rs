//! Our producer and our consumer at the same time, on our node and on Apache Kafka, while connections go
//! wrong and the broker comes and goes: what one writes the other reads, once and in order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::consumer::{Consumer, Reset, Start};
use client::producer::{Delivery, Producer, Record};
use client::{Compression, Scratch};
use conformance::{Node, Program, Setup};
use vltava_e2e::Chance;
use vltava_e2e::churn::{Churn, admin};
use vltava_e2e::process::{setup, with_node};
use vltava_e2e::proxy::Proxy;
use vltava_e2e::wait;

const TOPIC: &str = "orders";
const PARTITIONS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);
/// So long a client waits for an answer before it says it again: less than the proxy can hold it back.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// Between two looks at whether there is anything more to come.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The writer is ahead of the broker by some requests, so that what happens to it happens in their middle.
const LEAD_RECORDS: usize = 1_000;
/// As many go by between two things that happen to the broker.
const STEP_RECORDS: u64 = 2_000;

/// Of each partition, the numbers by their offsets.
type Log = BTreeMap<i32, BTreeMap<i64, u64>>;

/// What the threads tell each other.
#[derive(Debug, Default)]
struct Progress {
    is_over: AtomicBool,
    /// How many records were sent in all, once that is known.
    sent: AtomicU64,
    read: AtomicU64,
}

/// Sends numbered records until it is over; where each of them is.
fn write(bootstrap: &str, progress: &Progress) -> Result<Log> {
    let builder = Producer::builder(bootstrap).request_timeout(ANSWER_MAX);
    let producer = builder.compression(Compression::Zstd, None).batch_bytes_max(2_048).build()?;
    let (mut in_flight, mut log, mut next) = (VecDeque::new(), Log::new(), 0);
    while !progress.is_over.load(Ordering::Relaxed) {
        for number in next..next + 100 {
            let value = format!("{number} {}", "x".repeat((number % 300) as usize));
            let partition = (number % PARTITIONS as u64) as i32;
            let record = Record::to(TOPIC).partition(partition).value(&value);
            in_flight.push_back((number, producer.send_blocking(&record)?));
        }
        next += 100;
        settle(&mut in_flight, LEAD_RECORDS, &mut log)?;
    }
    settle(&mut in_flight, 0, &mut log)?;
    progress.sent.store(next, Ordering::Relaxed);
    Ok(log)
}

/// Waits until no more than so many records are without an answer.
fn settle(in_flight: &mut VecDeque<(u64, Delivery)>, rest: usize, log: &mut Log) -> Result<()> {
    while in_flight.len() > rest {
        let Some((number, delivery)) = in_flight.pop_front() else { break };
        let written = delivery.wait().with_context(|| format!("record {number}"))?;
        let offset = written.offset.context("the broker said where")?;
        log.entry(written.partition.0).or_default().insert(offset.0, number);
    }
    Ok(())
}

/// Reads until it has as many records as were sent.
fn read(bootstrap: &str, progress: &Progress) -> Result<Log> {
    let builder = Consumer::builder(bootstrap).reset(Reset::None).request_timeout(ANSWER_MAX);
    let builder = builder.fetch_wait_max(ANSWER_MAX / 5).partition_bytes_max(8_192);
    let mut consumer = builder.build()?;
    consumer.assign((0..PARTITIONS).map(|partition| (TOPIC, partition, Start::Earliest)));
    let (mut log, mut scratch, mut count) = (Log::new(), Scratch::default(), 0);
    while progress.sent.load(Ordering::Relaxed) != count {
        // Once all is written, nothing comes any more when the last has been read.
        let Some(batch) = consumer.next_batch_within(LOOK_AGAIN)? else { continue };
        let (header, partition) = (*batch.header(), batch.partition().0);
        let log = log.entry(partition).or_default();
        for record in batch.records(&mut scratch)? {
            let record = record?;
            let (offset, due) = (record.offset(&header).0, log.len() as i64);
            ensure!(offset == due, "{partition}: offset {offset} comes where {due} is due");
            let text = std::str::from_utf8(record.value.context("each has a value")?)?;
            log.insert(offset, text.split(' ').next().unwrap_or_default().parse()?);
            count += 1;
        }
        progress.read.store(count, Ordering::Relaxed);
    }
    Ok(log)
}

fn flows(of: Setup) -> Result<()> {
    let (listener, port) = Proxy::listener()?;
    with_node(Node::start(Setup { advertised_port: Some(port), ..of })?, |node| {
        let proxy = Proxy::on(listener, node.address(), Chance::from_env("stream")?.draw())?;
        proxy.set_cruel(false);
        Churn::default().create(&admin(&node.bootstrap())?, TOPIC, PARTITIONS, &[])?;
        proxy.set_cruel(true);
        let bootstrap = proxy.address().to_string();
        let progress = Progress { sent: AtomicU64::new(u64::MAX), ..Progress::default() };
        thread::scope(|scope| {
            let writer = scope.spawn(|| write(&bootstrap, &progress));
            let reader = scope.spawn(|| read(&bootstrap, &progress));
            let lives = || !writer.is_finished() && !reader.is_finished();
            let told = happens(node, &proxy, &progress, lives);
            proxy.set_cruel(false);
            progress.is_over.store(true, Ordering::Relaxed);
            let written = writer.join().expect("the writer does not panic");
            if written.is_err() {
                // The reader need not wait for what does not come.
                progress.sent.store(progress.read.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            let read = reader.join().expect("the reader does not panic");
            let (written, read) = (written.context("the writer")?, read.context("the reader")?);
            told?;
            ensure!(written.values().all(|log| log.values().is_sorted()), "it is out of order");
            ensure!(read == written, "what was read is not what was written");
            Ok(())
        })
    })
}

/// Every fault, and a broker that is killed and one that is stopped, in the middle of it.
fn happens(node: &mut Node, proxy: &Proxy, progress: &Progress, lives: impl Fn() -> bool) -> Result<()> {
    let step = || {
        let from = progress.read.load(Ordering::Relaxed);
        wait::until("records are read", PATIENCE, || {
            ensure!(lives(), "the writer or the reader has ended");
            Ok((progress.read.load(Ordering::Relaxed) >= from + STEP_RECORDS).then_some(()))
        })
    };
    proxy.until_each(1, step)?;
    node.kill()?;
    node.start_again()?;
    step()?;
    node.stop()?;
    node.start_again()?;
    step()?;
    proxy.until_each(2, step)
}

#[test]
fn what_is_written_to_our_node_is_read_whatever_happens() -> Result<()> {
    flows(setup()?)
}

#[test]
fn what_is_written_to_kafka_is_read_whatever_happens() -> Result<()> {
    flows(Setup::of(Program::Kafka))
}
