//! Consumers read from the replica in their rack (KIP-392), and go on when its broker dies.

use std::fmt::Write as _;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::consumer::{Consumer, Start};
use client::producer::{Acks, Producer, Record};
use conformance::home;
use conformance::tools::Tools;
use vltava_e2e::nodes::Nodes;
use vltava_e2e::wait;

use crate::is_well;

const IDS: [i32; 3] = [1, 2, 3];
const RACK_AWARE: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
/// Records of each part of the story: before consumers come, while they read, once their broker is dead.
const PART: u64 = 200;
const PARTS: u64 = 3;
/// Java on a busy machine takes some seconds to begin.
const READ_MAX: Duration = Duration::from_secs(60);

fn rack(id: i32) -> String {
    format!("rack-{id}")
}

fn write(producer: &Producer, part: u64) -> Result<()> {
    let send = |number: u64| {
        Ok(producer.send_blocking(&Record::to("orders").partition(0).value(&number.to_string()))?)
    };
    let sent: Result<Vec<_>> = (part * PART..(part + 1) * PART).map(send).collect();
    sent?.into_iter().try_for_each(|delivery| Ok(delivery.wait().map(drop)?))
}

/// librdkafka that reads: bootstrap servers, rack, how many. The one in kcat may be of those that go on asking a broker
/// that is gone for five minutes. It is not waited for at the end: now and then it takes most of a minute to go.
const LIBRDKAFKA: &str = "
import os, sys
from confluent_kafka import Consumer, TopicPartition
consumer = Consumer({'bootstrap.servers': sys.argv[1], 'client.rack': sys.argv[2], 'group.id': 'unused', 'log_level': 0})
consumer.assign([TopicPartition('orders', 0, 0)])
left = int(sys.argv[3])
while left:
    message = consumer.poll(1)
    if message and not message.error():
        print(message.value().decode(), flush=True)
        left -= 1
os._exit(0)
";

struct Librdkafka(Child);

impl Librdkafka {
    fn start(bootstrap: &str, rack: &str) -> Result<Self> {
        let mut command = Command::new(home::installed("python/bin/python")?);
        command.args(["-c", LIBRDKAFKA, bootstrap, rack, &(PARTS * PART).to_string()]);
        Ok(Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?))
    }

    /// What it has read once it has read all: few bytes, which its pipe holds.
    fn read(&mut self) -> Result<String> {
        wait::until("librdkafka has read all", READ_MAX, || Ok(self.0.try_wait()?))?;
        let mut read = String::new();
        self.0.stdout.take().context("it is a pipe")?.read_to_string(&mut read)?;
        Ok(read)
    }
}

impl Drop for Librdkafka {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Java's console consumer: what it has read once it has read all.
fn java_reads(bootstrap: &str, rack: &str) -> Result<String> {
    let (count, rack) = ((PARTS * PART).to_string(), format!("client.rack={rack}"));
    let place = ["--topic", "orders", "--partition", "0", "--offset", "earliest"];
    let end = ["--max-messages", &count, "--timeout-ms", "60000", "--command-property", &rack];
    let arguments = [&["--bootstrap-server", bootstrap], &place[..], &end].concat();
    let said = Tools::start()?.run("ConsoleConsumer", &arguments, "")?;
    ensure!(said.exit == 0, "{said}");
    Ok(said.out)
}

/// Our consumer: the numbers that it has read once it has read all.
fn ours_reads(bootstrap: &str, rack: &str) -> Result<String> {
    let mut consumer = Consumer::builder(bootstrap).rack(rack).build()?;
    consumer.assign([("orders", 0, Start::Earliest)]);
    let mut read = String::new();
    for _ in 0..PARTS * PART {
        let record = consumer.next_record_within(READ_MAX)?.context("a record comes")?;
        writeln!(read, "{}", str::from_utf8(&record.value.context("it has a value")?)?)?;
    }
    Ok(read)
}

fn number(nodes: &Nodes, id: i32, name: &str) -> Result<f64> {
    nodes.metrics(id)?.get(name).copied().with_context(|| format!("{id} has no {name}"))
}

/// Waits until a broker has given all three consumers all there is; the leader gave it to its two followers only.
fn all_have_read(nodes: &Nodes, near: i32, leader: i32) -> Result<()> {
    let (given, taken) = ("vltava_fetch_bytes_total", "vltava_produce_bytes_total");
    let all = number(nodes, leader, taken)?;
    wait::until("all have read all there is in their rack", READ_MAX, || {
        Ok((number(nodes, near, given)? >= 3.0 * all).then_some(()))
    })?;
    let by_leader = number(nodes, leader, given)?;
    ensure!(by_leader < 3.0 * all, "the leader gave {by_leader} bytes of {all} to two followers");
    Ok(())
}

#[test]
fn consumers_read_in_their_rack_and_go_on_when_its_broker_dies() -> Result<()> {
    Nodes::new()?.told(|nodes| {
        let peers = nodes.peers(&IDS)?;
        for id in IDS {
            let rack = rack(id);
            let set = [
                ("cluster.peers", &*peers),
                ("broker.rack", rack.as_str()),
                ("replica.selector.class", RACK_AWARE),
            ];
            nodes.spawn(id, &set)?;
        }
        IDS.into_iter().try_for_each(|id| nodes.wait_until_serving(id))?;
        nodes.says(&["topic", "create", "orders", "--partitions", "1"])?;
        nodes.until("all are in sync", is_well)?;
        let leader = nodes.partitions("orders")?[0]["leader"].as_i64().context("somebody leads")? as i32;
        let near = IDS.into_iter().find(|id| *id != leader).context("there are others")?;
        let (bootstrap, rack) = (nodes.bootstrap(), rack(near));
        let producer = Producer::builder(&bootstrap).acks(Acks::All).build()?;
        write(&producer, 0)?;
        let mut librdkafka = Librdkafka::start(&bootstrap, &rack)?;
        let (by_java, by_ours) = thread::scope(|scope| {
            let java = scope.spawn(|| java_reads(&bootstrap, &rack));
            let ours = scope.spawn(|| ours_reads(&bootstrap, &rack));
            all_have_read(nodes, near, leader)?;
            write(&producer, 1)?;
            all_have_read(nodes, near, leader)?;
            nodes.kill(near)?;
            write(&producer, 2)?;
            let [java, ours] =
                [java, ours].map(|it| it.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            anyhow::Ok((java?, ours?))
        })?;
        let wanted: String = (0..PARTS * PART).map(|number| format!("{number}\n")).collect();
        ensure!(by_java == wanted, "Java's consumer read {by_java}");
        ensure!(by_ours == wanted, "our consumer read {by_ours}");
        let by_librdkafka = librdkafka.read()?;
        ensure!(by_librdkafka == wanted, "librdkafka read {by_librdkafka}");
        Ok(())
    })
}
