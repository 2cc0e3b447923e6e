//! Our producer and our consumer at the same time, on our node and on Apache Kafka, while connections go
//! wrong and the broker comes and goes: what one writes the other reads, once and in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::admin::At;
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
/// As many are sent before the writer looks at what became of the oldest.
const ROUND_RECORDS: u64 = 100;
/// How often the broker is killed or stopped.
const RESTARTS: usize = 2;
/// As many go by between two things that happen to the broker.
const STEP_RECORDS: u64 = 2_000;

/// Of each partition, the numbers by their offsets.
type Log = BTreeMap<i32, BTreeMap<i64, u64>>;

/// What became of what was sent.
#[derive(Debug, Default)]
struct Sent {
    /// Where what was acknowledged is.
    log: Log,
    /// What may be there or not, as the producer says.
    doubtful: BTreeSet<u64>,
}

/// What the threads tell each other.
#[derive(Debug, Default)]
struct Progress {
    is_over: AtomicBool,
    /// How many records there are in all, once that is known.
    all: AtomicU64,
    read: AtomicU64,
}

/// Sends numbered records until it is over.
fn write(bootstrap: &str, progress: &Progress) -> Result<Sent> {
    let builder = Producer::builder(bootstrap).request_timeout(ANSWER_MAX);
    let producer = builder.compression(Compression::Zstd, None).batch_bytes_max(2_048).build()?;
    let (mut in_flight, mut sent, mut next) = (VecDeque::new(), Sent::default(), 0);
    while !progress.is_over.load(Ordering::Relaxed) {
        for number in next..next + ROUND_RECORDS {
            let value = format!("{number} {}", "x".repeat((number % 300) as usize));
            let partition = (number % PARTITIONS as u64) as i32;
            let record = Record::to(TOPIC).partition(partition).value(&value);
            in_flight.push_back((number, producer.send_blocking(&record)?));
        }
        next += ROUND_RECORDS;
        settle(&mut in_flight, LEAD_RECORDS, &mut sent)?;
    }
    settle(&mut in_flight, 0, &mut sent)?;
    Ok(sent)
}

/// Waits until no more than so many records are without an answer.
fn settle(in_flight: &mut VecDeque<(u64, Delivery)>, rest: usize, sent: &mut Sent) -> Result<()> {
    while in_flight.len() > rest {
        let Some((number, delivery)) = in_flight.pop_front() else { break };
        let written = match delivery.wait() {
            // A broker that restarted may not know any more what it has.
            Err(error) if error.may_be_written() => {
                sent.doubtful.insert(number);
                continue;
            }
            written => written.with_context(|| format!("record {number}"))?,
        };
        let offset = written.offset.context("the broker said where")?;
        sent.log.entry(written.partition.0).or_default().insert(offset.0, number);
    }
    Ok(())
}

/// Reads until it has as many records as there are.
fn read(bootstrap: &str, progress: &Progress) -> Result<Log> {
    let builder = Consumer::builder(bootstrap).reset(Reset::None).request_timeout(ANSWER_MAX);
    let builder = builder.fetch_wait_max(ANSWER_MAX / 5).partition_bytes_max(8_192);
    let mut consumer = builder.build()?;
    consumer.assign((0..PARTITIONS).map(|partition| (TOPIC, partition, Start::Earliest)));
    let (mut log, mut scratch, mut count) = (Log::new(), Scratch::default(), 0);
    loop {
        let all = progress.all.load(Ordering::Relaxed);
        ensure!(count <= all, "{count} records came, and there are {all}");
        if count == all {
            break;
        }
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

/// On a broker that may leave so many records in doubt each time it restarts.
fn flows(of: Setup, doubtful_max: usize) -> Result<()> {
    let (listener, port) = Proxy::listener()?;
    with_node(Node::start(Setup { advertised_port: Some(port), ..of })?, |node| {
        let proxy = Proxy::on(listener, node.address(), Chance::from_env("stream")?.draw())?;
        proxy.set_cruel(false);
        Churn::default().create(&admin(&node.bootstrap())?, TOPIC, PARTITIONS, &[])?;
        proxy.set_cruel(true);
        let bootstrap = proxy.address().to_string();
        let progress = Progress { all: AtomicU64::new(u64::MAX), ..Progress::default() };
        thread::scope(|scope| {
            let writer = scope.spawn(|| write(&bootstrap, &progress));
            let reader = scope.spawn(|| read(&bootstrap, &progress));
            let lives = || !writer.is_finished() && !reader.is_finished();
            let told = happens(node, &proxy, &progress, lives);
            proxy.set_cruel(false);
            progress.is_over.store(true, Ordering::Relaxed);
            let written = writer.join().expect("the writer does not panic");
            // The reader need not wait for what does not come.
            let all = if written.is_ok() { records(node)? } else { 0 };
            progress.all.store(all, Ordering::Relaxed);
            let read = reader.join().expect("the reader does not panic");
            let (written, read) = (written.context("the writer")?, read.context("the reader")?);
            told?;
            let doubtful = written.doubtful.len();
            ensure!(doubtful <= RESTARTS * doubtful_max, "{doubtful} records are in doubt");
            check(&written, &read)
        })
    })
}

/// What was acknowledged is where the broker said, all is there once and in order, and nothing else is but
/// what may be.
fn check(written: &Sent, read: &Log) -> Result<()> {
    for (partition, log) in read {
        let is_in_order = log.values().is_sorted_by(|one, next| one < next);
        ensure!(is_in_order, "partition {partition}: something is there twice, or out of order");
    }
    let find = |partition, offset| read.get(&partition).and_then(|log: &BTreeMap<i64, u64>| log.get(&offset));
    let acknowledged =
        written.log.iter().flat_map(|(partition, log)| log.iter().map(move |at| (*partition, at)));
    let lost =
        acknowledged.clone().find(|&(partition, (&offset, number))| find(partition, offset) != Some(number));
    ensure!(lost.is_none(), "it was acknowledged and is not there: {lost:?}");
    let known: BTreeSet<u64> = acknowledged.map(|(_, (_, &number))| number).collect();
    let is_known = |number: &&u64| known.contains(*number) || written.doubtful.contains(*number);
    let strange = read.values().flat_map(BTreeMap::values).find(|number| !is_known(number));
    ensure!(strange.is_none(), "it is there and was not written: {strange:?}");
    Ok(())
}

/// How many records there are.
fn records(node: &Node) -> Result<u64> {
    let ends = admin(&node.bootstrap())?;
    let asked: Vec<_> = (0..PARTITIONS).map(|partition| (TOPIC, partition, At::Latest)).collect();
    let mut all = 0;
    for end in ends.list_offsets(asked).wait() {
        all += end?.offset.map_or(0, |offset| offset.0 as u64);
    }
    Ok(all)
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
    flows(setup()?, 0)
}

#[test]
fn what_is_written_to_kafka_is_read_whatever_happens() -> Result<()> {
    // After a restart it knows a producer's last batch only: of what was on its way nobody knows more.
    flows(Setup::of(Program::Kafka), LEAD_RECORDS + ROUND_RECORDS as usize)
}
