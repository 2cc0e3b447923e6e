//! Our producer against our node and against Apache Kafka: everything arrives, once, in order, where
//! Java would have put it, whatever breaks on the way.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base::{Offset, PartitionIndex};
use client::producer::{Acks, Delivery, Producer, Record, SendError, Unplaced, partition_for_key};
use client::raw::FetchLimits;
use client::{ConnectOptions, Connection};
use conformance::{Node, Program, Setup};
use records::{Compression, Header, Scratch, TimestampType};
use vltava_e2e::Chance;
use vltava_e2e::churn::{Churn, admin};
use vltava_e2e::process::{go_on, halt_between_writes, setup, with_node};
use vltava_e2e::proxy::Proxy;
use vltava_e2e::wait;

const TOPIC: &str = "orders";
const PLACED: &str = "placed";
const PARTITIONS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// A record as it was read back.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Read {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn with_topic(node: &Node) -> Result<()> {
    Churn::default().create(&admin(&node.bootstrap())?, TOPIC, PARTITIONS, &[])
}

fn read_all(address: &str, partition: i32) -> Result<Vec<Read>> {
    let mut connection = Connection::connect(address, ConnectOptions::default())?;
    let (mut read, mut from, mut scratch) = (Vec::new(), 0, Scratch::default());
    loop {
        let limits = FetchLimits { wait_ms_max: 0, ..FetchLimits::default() };
        let fetched = connection.fetch(TOPIC, PartitionIndex(partition), Offset(from), limits)?;
        if fetched.high_watermark.0 <= from {
            return Ok(read);
        }
        for batch in records::batches(&fetched.records).map_while(Result::ok) {
            let header = *batch.header();
            ensure!(header.attributes.timestamp_type() == TimestampType::CreateTime, "{header:?}");
            for record in batch.records(&mut scratch)? {
                let record = record?;
                let header_of = |header: Header<'_>| (header.key.to_vec(), header.value.map(<[u8]>::to_vec));
                read.push(Read {
                    offset: record.offset(&header).0,
                    timestamp: record.timestamp(&header).0,
                    key: record.key.map(<[u8]>::to_vec),
                    value: record.value.map(<[u8]>::to_vec),
                    headers: record.headers.map(header_of).collect(),
                });
            }
            from = header.next_offset().0;
        }
    }
}

fn read_so_many(address: &str, partition: i32, count: usize) -> Result<Vec<Read>> {
    wait::until("all of it is there", Duration::from_secs(10), || {
        Ok(Some(read_all(address, partition)?).filter(|read| read.len() >= count))
    })
}

/// The value of a record: its number, and more bytes the higher it is.
fn value_of(number: u64) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(8 + (number % 300) as usize, number as u8);
    value
}

fn number_of(read: &Read) -> Result<u64> {
    let value =
        read.value.as_ref().and_then(|value| value.first_chunk()).context("a record without a number")?;
    Ok(u64::from_be_bytes(*value))
}

/// Every way to write: each compression, acks and idempotence; with keys, headers, nulls and timestamps.
fn writes_in_every_way(node: &Node) -> Result<()> {
    with_topic(node)?;
    let mut number = 0;
    let mut expected: Vec<Vec<Read>> = vec![Vec::new(); PARTITIONS as usize];
    for compression in Compression::ALL {
        for (acks, idempotence) in
            [(Acks::All, true), (Acks::All, false), (Acks::Leader, false), (Acks::None, false)]
        {
            let builder = Producer::builder(&node.bootstrap()).acks(acks).idempotence(idempotence);
            let producer = builder.compression(compression, None).batch_bytes_max(4_096).build()?;
            let sent = (0..200).map(|_| {
                number += 1;
                send(&producer, number)
            });
            let sent = sent.collect::<Result<Vec<_>, _>>()?;
            for (mut read, delivery) in sent {
                let written = delivery.wait().with_context(|| format!("{compression:?} {acks:?}"))?;
                ensure!(written.offset.is_some() == (acks != Acks::None), "{written:?}");
                ensure!(written.timestamp.0 == read.timestamp, "{written:?}");
                let log = &mut expected[written.partition.0 as usize];
                read.offset = log.len() as i64;
                ensure!(written.offset.is_none_or(|offset| offset.0 == read.offset), "{written:?} {read:?}");
                if let Some(key) = &read.key {
                    ensure!(
                        partition_for_key(key, PARTITIONS as usize) as i32 == written.partition.0,
                        "{written:?}"
                    );
                }
                log.push(read);
            }
            ensure!(producer.close_blocking(Duration::from_secs(10)) == 0, "all was acknowledged");
            if acks == Acks::None {
                // Nobody said when they were written.
                (0..PARTITIONS).zip(&expected).try_for_each(|(partition, expected)| {
                    read_so_many(&node.bootstrap(), partition, expected.len()).map(|_| ())
                })?;
            }
        }
    }
    for (partition, expected) in (0..PARTITIONS).zip(&expected) {
        let read = read_so_many(&node.bootstrap(), partition, expected.len())?;
        let wrong = read.iter().zip(expected).find(|(read, expected)| read != expected);
        ensure!(wrong.is_none(), "{wrong:?}");
        ensure!(read.len() == expected.len(), "{} records instead of {}", read.len(), expected.len());
    }
    Ok(())
}

fn send(producer: &Producer, number: u64) -> Result<(Read, Delivery)> {
    let key = (!number.is_multiple_of(3)).then(|| format!("key-{}", number % 17).into_bytes());
    let value = (!number.is_multiple_of(7)).then(|| value_of(number));
    let headers = [Header { key: b"a", value: Some(b"1") }, Header { key: b"b", value: None }];
    let headers = &headers[..(number % 3) as usize];
    let timestamp = 1_600_000_000_000 + number as i64;
    let mut record = Record::to(TOPIC).headers(headers).timestamp_ms(timestamp);
    if let Some(key) = &key {
        record = record.key(key);
    } else {
        record = record.partition((number % PARTITIONS as u64) as i32);
    }
    if let Some(value) = &value {
        record = record.value(value);
    }
    let delivery = producer.send_blocking(&record)?;
    let headers =
        headers.iter().map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec))).collect();
    Ok((Read { offset: -1, timestamp, key, value, headers }, delivery))
}

/// Said, chosen by one's own rule, by the key, or by what waits: in this order.
fn goes_where_it_should(node: &Node) -> Result<()> {
    Churn::default().create(&admin(&node.bootstrap())?, PLACED, PARTITIONS, &[])?;
    let by_length =
        |record: &Unplaced<'_>| Some(record.value?.len() as i32).filter(|_| record.topic == PLACED);
    let builder = Producer::builder(&node.bootstrap()).partitioner(by_length);
    let producer = builder.batch_bytes_max(1_024).build()?;
    let sent =
        |record: Record<'_>| Ok::<_, anyhow::Error>(producer.send_blocking(&record)?.wait()?.partition.0);
    ensure!(sent(Record::to(PLACED).key("k").value("xx"))? == 2, "its length is 2");
    ensure!(sent(Record::to(PLACED).key("k").value("xx").partition(1))? == 1, "it is said");
    let by_key = partition_for_key(b"k", PARTITIONS as usize) as i32;
    ensure!(sent(Record::to(PLACED).key("k"))? == by_key, "only its key is left to go by");
    let refused = producer.send_blocking(&Record::to(PLACED).value("xxxx"));
    ensure!(matches!(refused, Err(SendError::Partition { count: 3, .. })), "{refused:?}");
    // A thousand batches without keys: as many for each partition, but for chance.
    let mut counts = [0; PARTITIONS as usize];
    let keyless = Producer::builder(&node.bootstrap()).batch_bytes_max(1_024).build()?;
    let value = [7; 100];
    let send = |_| keyless.send_blocking(&Record::to(PLACED).value(&value));
    for delivery in (0..10_000).map(send).collect::<Result<Vec<_>, _>>()? {
        counts[delivery.wait()?.partition.0 as usize] += 1;
    }
    ensure!(counts.iter().all(|count| (2_300..4_400).contains(count)), "{counts:?}");
    Ok(())
}

#[test]
fn our_node_is_written_to_in_every_way() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        writes_in_every_way(node).and_then(|()| goes_where_it_should(node))
    })
}

#[test]
fn kafka_is_written_to_in_every_way() -> Result<()> {
    let kafka = Node::start(Setup::of(Program::Kafka))?;
    with_node(kafka, |node| writes_in_every_way(node).and_then(|()| goes_where_it_should(node)))
}

/// Sends numbered records until the story is over; each with its last word.
struct Stream {
    producer: Producer,
    deliveries: Vec<(u64, Delivery)>,
    next: u64,
}

fn impatient(bootstrap: &str, compression: Compression) -> Result<Producer> {
    let builder = Producer::builder(bootstrap).request_timeout(Duration::from_millis(500));
    let builder = builder.compression(compression, None);
    Ok(builder.batch_bytes_max(2_048).request_bytes_max(16_384).build()?)
}

impl Stream {
    fn new(bootstrap: &str) -> Result<Self> {
        let producer = impatient(bootstrap, Compression::None)?;
        Ok(Self { producer, deliveries: Vec::new(), next: 0 })
    }

    fn send(&mut self, count: u64) -> Result<()> {
        for number in self.next..self.next + count {
            let value = value_of(number);
            let delivery = self.producer.send_blocking(&Record::to(TOPIC).value(&value))?;
            self.deliveries.push((number, delivery));
        }
        self.next += count;
        Ok(())
    }

    /// Everything was acknowledged, is there once, where the broker said, in the order of sending.
    fn check(self, bootstrap: &str) -> Result<()> {
        let mut expected: BTreeMap<i32, BTreeMap<i64, u64>> = BTreeMap::new();
        for (number, delivery) in self.deliveries {
            let written = delivery.wait().with_context(|| format!("record {number}"))?;
            let offset = written.offset.context("the broker said where")?;
            expected.entry(written.partition.0).or_default().insert(offset.0, number);
        }
        let count: usize = expected.values().map(BTreeMap::len).sum();
        ensure!(count as u64 == self.next, "{count} offsets for {} records", self.next);
        for partition in 0..PARTITIONS {
            let expected = expected.remove(&partition).unwrap_or_default();
            ensure!(expected.values().is_sorted(), "partition {partition} is out of order");
            let read = read_all(bootstrap, partition)?;
            let read = read.iter().map(|read| Ok((read.offset, number_of(read)?)));
            let read = read.collect::<Result<BTreeMap<_, _>>>()?;
            ensure!(
                read == expected,
                "partition {partition}: {} records instead of {}",
                read.len(),
                expected.len()
            );
        }
        Ok(())
    }
}

/// Connections break, hang, are held up and said twice. Another producer goes on now and then, each with
/// another compression.
fn survives_bad_connections(of: Setup) -> Result<()> {
    let (listener, port) = Proxy::listener()?;
    with_node(Node::start(Setup { advertised_port: Some(port), ..of })?, |node| {
        let proxy = Proxy::on(listener, node.address(), Chance::from_env("bad connections")?.draw())?;
        proxy.set_cruel(false);
        with_topic(node)?;
        proxy.set_cruel(true);
        let bootstrap = proxy.address().to_string();
        let mut stream = Stream::new(&bootstrap)?;
        let mut compressions = Compression::ALL.iter().cycle();
        proxy.until_each(3, || {
            let compression = compressions.next().context("there is no last one")?;
            stream.producer = impatient(&bootstrap, *compression)?;
            for _ in 0..4 {
                stream.send(500)?;
                stream.producer.flush_blocking();
            }
            Ok(())
        })?;
        proxy.set_cruel(false);
        stream.check(&node.bootstrap())
    })
}

#[test]
fn bad_connections_to_our_node_cost_and_double_nothing() -> Result<()> {
    survives_bad_connections(setup()?)
}

#[test]
fn bad_connections_to_kafka_cost_and_double_nothing() -> Result<()> {
    survives_bad_connections(Setup::of(Program::Kafka))
}

/// The topic is deleted and made anew under a producer that goes on: it writes to the one that there is.
fn goes_on_in_a_topic_made_anew(of: Setup) -> Result<()> {
    with_node(Node::start(of)?, |node| {
        with_topic(node)?;
        let mut stream = Stream::new(&node.bootstrap())?;
        stream.send(300)?;
        stream.producer.flush_blocking();
        admin(&node.bootstrap())?.delete_topic(TOPIC).wait()?;
        // The name is free when the last of the topic is gone.
        wait::until("the topic can be made anew", PATIENCE, || Ok(with_topic(node).ok()))?;
        for (number, delivery) in stream.deliveries.drain(..) {
            delivery.wait().with_context(|| format!("record {number} of the first topic"))?;
        }
        stream.next = 0;
        stream.send(300)?;
        stream.check(&node.bootstrap())
    })
}

#[test]
fn a_topic_that_our_node_makes_anew_is_written_to() -> Result<()> {
    goes_on_in_a_topic_made_anew(setup()?)
}

#[test]
fn a_topic_that_kafka_makes_anew_is_written_to() -> Result<()> {
    goes_on_in_a_topic_made_anew(Setup::of(Program::Kafka))
}

/// The broker is killed or stopped, and comes back, while records are on their way.
#[test]
fn restarts_of_our_node_cost_and_double_nothing() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        with_topic(node)?;
        let mut stream = Stream::new(&node.bootstrap())?;
        for round in 0..6 {
            stream.send(5_000)?;
            if round % 2 == 0 {
                node.kill()?
            } else {
                node.stop().map(|_| ())?
            }
            stream.send(1_000)?;
            node.start_again()?;
        }
        stream.producer.flush_blocking();
        stream.check(&node.bootstrap())
    })
}

/// Nobody answers: `send` gives up in its time, memory stays in its bound, and `close` comes back.
#[test]
fn a_node_that_hangs_costs_bounded_time_and_memory() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        with_topic(node)?;
        let builder =
            Producer::builder(&node.bootstrap()).memory_bytes_max(1 << 20).batch_bytes_max(16 << 10);
        let producer = builder.block_max(Duration::from_millis(300)).build()?;
        // A name that no topic can have is refused at once, and asked for by nobody.
        let refused = producer.try_send(&Record::to("no/topic").value("x"));
        ensure!(matches!(refused, Err(SendError::Topic { .. })), "{refused:?}");
        producer.send_blocking(&Record::to(TOPIC).value("first"))?.wait()?;
        halt_between_writes(process(node)?)?;
        let value = [7; 1_000];
        let mut taken = 0;
        let full = loop {
            ensure!(producer.memory_used_bytes() <= 1 << 20, "{} bytes", producer.memory_used_bytes());
            match producer.try_send(&Record::to(TOPIC).value(&value)) {
                Ok(_) => taken += 1,
                Err(error) => break error,
            }
        };
        ensure!(full == SendError::Full && taken > 500, "{full} after {taken}");
        // That one record finds no room does not mean that the next does not: it may be for a batch that has some.
        let (refused, took) = loop {
            let began = Instant::now();
            match producer.send_blocking(&Record::to(TOPIC).value(&value)) {
                Ok(_) => taken += 1,
                Err(error) => break (error, began.elapsed()),
            }
            ensure!(taken * value.len() <= 1 << 20, "{taken} were taken");
        };
        ensure!(refused == SendError::Full && (300..2_000).contains(&took.as_millis()), "{refused} {took:?}");
        let began = Instant::now();
        let given_up = producer.close_blocking(Duration::from_millis(500));
        ensure!(given_up == taken, "{given_up} of {taken}");
        ensure!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        go_on(process(node)?)
    })
}

fn process(node: &Node) -> Result<u32> {
    node.pid().context("the node runs")
}

/// Nobody is there at all.
#[test]
fn an_address_where_nobody_answers_is_an_error_in_time() -> Result<()> {
    let nobody: SocketAddr = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let producer = Producer::builder(&nobody.to_string()).block_max(Duration::from_millis(200)).build()?;
    let began = Instant::now();
    let error = producer.send_blocking(&Record::to(TOPIC).value("x")).err();
    ensure!(matches!(error, Some(SendError::TopicNotKnownYet { .. })), "{error:?}");
    ensure!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    ensure!(producer.close_blocking(Duration::from_secs(1)) == 0, "nothing was taken");
    Ok(())
}
