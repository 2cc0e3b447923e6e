//! Our consumer on our node and on Apache Kafka: every record, once, in order, from wherever it is asked
//! to begin, whatever breaks on the way.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use base::{ErrorCode, Offset, TimestampMs};
use client::consumer::{ConsumeError, Consumer, OwnedRecord, Reset, Start};
use client::producer::{Producer, Record};
use client::{Compression, Scratch};
use conformance::{Node, Program, Setup};
use vltava_e2e::Chance;
use vltava_e2e::churn::{Churn, admin};
use vltava_e2e::process::{setup, with_node};
use vltava_e2e::proxy::Proxy;
use vltava_e2e::wait;

const TOPIC: &str = "orders";
const PARTITIONS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(30);
/// The timestamp of a record is this and its number.
const EPOCH: i64 = 1_600_000_000_000;

fn with_topic(node: &Node) -> Result<()> {
    Churn::default().create(&admin(&node.bootstrap())?, TOPIC, PARTITIONS, &[])
}

/// Writes records numbered from `from` on, one partition after the other.
fn write(bootstrap: &str, compression: Compression, numbers: std::ops::Range<u64>) -> Result<()> {
    let producer =
        Producer::builder(bootstrap).compression(compression, None).batch_bytes_max(1_024).build()?;
    for number in numbers {
        let value = format!("value of {number:0>width$}", width = (number % 200) as usize);
        let record = Record::to(TOPIC).partition((number % PARTITIONS as u64) as i32);
        let record = record.timestamp_ms(EPOCH + number as i64);
        producer.send_blocking(&record.value(&format!("{number} {value}")))?;
    }
    ensure!(producer.close_blocking(PATIENCE) == 0, "all was acknowledged");
    Ok(())
}

/// The records of each partition: offset, number.
type Read = BTreeMap<i32, Vec<(i64, u64)>>;

/// Reads until so many records came.
fn read(consumer: &mut Consumer, count: usize) -> Result<Read> {
    let (mut read, mut left) = (Read::new(), count);
    while left > 0 {
        let came =
            read_batch(consumer, &mut read).with_context(|| format!("{left} of {count} did not come"))?;
        left = left.checked_sub(came).context("more came than there is")?;
    }
    Ok(read)
}

/// Reads a batch; how many records that were.
fn read_batch(consumer: &mut Consumer, read: &mut Read) -> Result<usize> {
    let mut scratch = Scratch::default();
    let batch = consumer.next_batch_within(PATIENCE)?.context("no batch came")?;
    ensure!(batch.topic() == TOPIC, "{batch:?}");
    let (header, mut came) = (*batch.header(), 0);
    for record in batch.records(&mut scratch)? {
        let record = record?;
        let text = std::str::from_utf8(record.value.context("each has a value")?)?;
        let number: u64 = text.split(' ').next().unwrap_or_default().parse()?;
        ensure!(record.timestamp(&header).0 == EPOCH + number as i64, "{number}");
        read.entry(batch.partition().0).or_default().push((record.offset(&header).0, number));
        came += 1;
    }
    Ok(came)
}

/// What partitions hold of the records below a number, from offsets on.
fn expected(count: u64, from: impl Fn(i32) -> u64) -> Read {
    let of = |partition: i32| {
        let first = from(partition);
        let numbers = (partition as u64..count).step_by(PARTITIONS as usize).enumerate();
        let held = numbers
            .map(|(offset, number)| (offset as i64, number))
            .filter(|&(offset, _)| offset as u64 >= first);
        (partition, held.collect())
    };
    (0..PARTITIONS).map(of).filter(|(_, held): &(i32, Vec<_>)| !held.is_empty()).collect()
}

fn everything(start: Start) -> impl Iterator<Item = (&'static str, i32, Start)> {
    (0..PARTITIONS).map(move |partition| (TOPIC, partition, start))
}

fn reads_from_anywhere(node: &Node) -> Result<()> {
    with_topic(node)?;
    let mut count = 0;
    for compression in Compression::ALL {
        write(&node.bootstrap(), compression, count..count + 600)?;
        count += 600;
    }
    // Small answers, so that there are many of them.
    let builder = Consumer::builder(&node.bootstrap()).partition_bytes_max(8_192).prefetch_bytes_max(30_000);
    let mut consumer = builder.build()?;
    consumer.assign(everything(Start::Earliest));
    ensure!(consumer.next_batch_within(PATIENCE)?.is_some(), "something comes");
    // The bound, and an answer that was on its way when it was reached.
    ensure!(consumer.unread_bytes() <= 30_000 + 3 * 8_192, "{} bytes", consumer.unread_bytes());
    consumer.assign([]);
    consumer.assign(everything(Start::Earliest));
    ensure!(read(&mut consumer, count as usize)? == expected(count, |_| 0), "from the beginning");
    ensure!(consumer.try_next_batch()?.is_none(), "that was all");
    ensure!(consumer.unread_bytes() == 0, "all was read");

    // Offset 700 lies in the middle of a batch.
    for partition in 0..PARTITIONS {
        ensure!(consumer.seek(TOPIC, partition, Start::Offset(Offset(700))), "it is assigned");
    }
    wait::until("something is fetched", PATIENCE, || Ok((consumer.unread_bytes() > 0).then_some(())))?;
    for partition in 0..PARTITIONS {
        let position = consumer.position(TOPIC, partition);
        ensure!(position == Some(Offset(700)), "nothing was lent, and it is at {position:?}");
    }
    ensure!(read(&mut consumer, 900)? == expected(count, |_| 700), "from an offset");

    consumer.assign([]);
    consumer.assign(everything(Start::Time(TimestampMs(EPOCH + 1_501))));
    let first = |partition: i32| 1_500 / 3 + u64::from(partition == 0);
    let read_back = read(&mut consumer, expected(count, first).values().map(Vec::len).sum())?;
    ensure!(read_back == expected(count, first), "from a time");

    consumer.assign([]);
    consumer.assign(everything(Start::Latest));
    wait::until("the ends are known", PATIENCE, || {
        let are_known = (0..PARTITIONS).all(|partition| consumer.position(TOPIC, partition).is_some());
        Ok(are_known.then_some(()))
    })?;
    ensure!(consumer.try_next_batch()?.is_none(), "nothing is behind the end");
    write(&node.bootstrap(), Compression::None, count..count + 30)?;
    let end = |_| count / 3;
    ensure!(read(&mut consumer, 30)? == expected(count + 30, end), "from the end");

    // Whatever was fetched of it before, of a paused partition nothing comes.
    write(&node.bootstrap(), Compression::None, count + 30..count + 60)?;
    let mut before = Read::new();
    read_batch(&mut consumer, &mut before)?;
    ensure!(consumer.pause(TOPIC, 0), "it is assigned");
    let of_paused = before.remove(&0).unwrap_or_default().len();
    let others: usize = before.values().map(Vec::len).sum();
    ensure!(read(&mut consumer, 20 - others)?.keys().all(|&partition| partition != 0), "it is paused");
    ensure!(consumer.next_batch_within(Duration::from_millis(700))?.is_none(), "it is paused");
    ensure!(consumer.resume(TOPIC, 0) && !consumer.resume("nothing", 0), "it is assigned");
    let rest = read(&mut consumer, 10 - of_paused)?;
    ensure!(rest.is_empty() || rest.keys().eq([&0]), "{rest:?}");
    Ok(())
}

#[test]
fn our_node_is_read_from_anywhere() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| reads_from_anywhere(node))
}

#[test]
fn kafka_is_read_from_anywhere() -> Result<()> {
    with_node(Node::start(Setup::of(Program::Kafka))?, |node| reads_from_anywhere(node))
}

/// Reads all again and again while connections break, hang, and are held up.
fn reads_through_bad_connections(of: Setup) -> Result<()> {
    let (listener, port) = Proxy::listener()?;
    with_node(Node::start(Setup { advertised_port: Some(port), ..of })?, |node| {
        let proxy = Proxy::on(listener, node.address(), Chance::from_env("bad reads")?.draw())?;
        proxy.set_cruel(false);
        with_topic(node)?;
        write(&node.bootstrap(), Compression::None, 0..6_000)?;
        proxy.set_cruel(true);
        proxy.until_each(2, || {
            let builder = Consumer::builder(&proxy.address().to_string()).partition_bytes_max(4_096);
            let builder = builder.request_timeout(Duration::from_millis(500));
            let mut consumer = builder.fetch_wait_max(Duration::from_millis(100)).build()?;
            consumer.assign(everything(Start::Earliest));
            ensure!(read(&mut consumer, 6_000)? == expected(6_000, |_| 0), "after {:?}", proxy.happened());
            Ok(())
        })
    })
}

#[test]
fn bad_connections_to_our_node_lose_and_double_nothing() -> Result<()> {
    reads_through_bad_connections(setup()?)
}

#[test]
fn bad_connections_to_kafka_lose_and_double_nothing() -> Result<()> {
    reads_through_bad_connections(Setup::of(Program::Kafka))
}

#[test]
fn an_offset_out_of_the_log_is_an_error_or_a_reset() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        with_topic(node)?;
        write(&node.bootstrap(), Compression::None, 0..30)?;
        let far = [(TOPIC, 0, Start::Offset(Offset(99)))];
        let mut strict = Consumer::builder(&node.bootstrap()).reset(Reset::None).build()?;
        strict.assign(far);
        match strict.next_batch_blocking() {
            Err(failure) => ensure!(failure.error == ConsumeError::OutOfRange(Offset(99)), "{failure}"),
            Ok(batch) => bail!("{batch:?}"),
        }
        // It goes on when it is told from where.
        strict.seek(TOPIC, 0, Start::Earliest);
        ensure!(read(&mut strict, 10)?.len() == 1, "one partition");
        // A failure of before a seek is not told after it. Two come in one answer: when one is told, the
        // other waits.
        let mut both = Consumer::builder(&node.bootstrap()).reset(Reset::None).build()?;
        both.assign([far[0], (TOPIC, 1, Start::Offset(Offset(99)))]);
        let Err(told) = both.next_batch_blocking() else { bail!("both are out of the log") };
        let other = 1 - told.partition.0;
        both.seek(TOPIC, other, Start::Earliest);
        ensure!(read(&mut both, 10)?.keys().eq([&other]), "the one that was sought");
        // What failed begins again where an assignment says, the first of two.
        strict.seek(TOPIC, 0, Start::Offset(Offset(99)));
        ensure!(strict.next_batch_within(PATIENCE).is_err(), "it is out of the log");
        ensure!(strict.pause(TOPIC, 0) && strict.resume(TOPIC, 0), "it is assigned");
        ensure!(strict.next_batch_within(Duration::from_millis(300))?.is_none(), "it failed");
        strict.assign([(TOPIC, 0, Start::Earliest), far[0]]);
        ensure!(read(&mut strict, 10)?.len() == 1, "one partition");
        // A name that no topic can have is refused, and is in nobody's way.
        let too_long = "t".repeat(40_000);
        strict.assign([(&*too_long, 0, Start::Earliest), (TOPIC, 1, Start::Earliest)]);
        let Err(refused) = strict.next_batch_blocking() else { bail!("it is told first") };
        ensure!(
            refused.error == ConsumeError::Refused(ErrorCode::InvalidTopicException),
            "{}",
            refused.error
        );
        ensure!(read(&mut strict, 10)?.keys().eq([&1]), "the other goes on");
        let mut lenient = Consumer::builder(&node.bootstrap()).reset(Reset::Earliest).build()?;
        lenient.assign(far);
        ensure!(read(&mut lenient, 10)?.len() == 1, "one partition");
        Ok(())
    })
}

/// Puts an owned record where [`read_batch`] puts those that it reads.
fn take(record: &OwnedRecord, read: &mut Read) -> Result<()> {
    let text = std::str::from_utf8(record.value.as_deref().context("each has a value")?)?;
    let number: u64 = text.split(' ').next().unwrap_or_default().parse()?;
    ensure!(&*record.topic == TOPIC && record.timestamp.0 == EPOCH + number as i64, "{record:?}");
    read.entry(record.partition.0).or_default().push((record.offset.0, number));
    Ok(())
}

#[test]
fn records_are_taken_one_by_one_and_in_turn_with_batches() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        with_topic(node)?;
        write(&node.bootstrap(), Compression::Zstd, 0..600)?;
        // What is sought is asked for when the answer that is due has come.
        let builder = Consumer::builder(&node.bootstrap()).fetch_wait_max(Duration::from_millis(10));
        let mut consumer = builder.build()?;
        consumer.assign(everything(Start::Earliest));
        let (mut all, mut left, mut turn) = (Read::new(), 600, 0);
        while left > 0 {
            turn += 1;
            let mut last = None;
            for record in consumer.records_blocking().take((turn % 7).min(left)) {
                let record = record?;
                take(&record, &mut all)?;
                left -= 1;
                last = Some(record);
            }
            // Whatever comes in the middle of a batch, what is left of it comes next.
            match (turn % 4, last) {
                (0, _) if left > 0 => left -= read_batch(&mut consumer, &mut all)?,
                (1, Some(last)) => {
                    let partition = last.partition.0;
                    ensure!(consumer.pause(TOPIC, partition) && consumer.resume(TOPIC, partition), "it is");
                }
                (2, Some(last)) => {
                    let next = Start::Offset(Offset(last.offset.0 + 1));
                    ensure!(consumer.seek(TOPIC, last.partition.0, next), "it is assigned");
                }
                _ => {}
            }
        }
        ensure!(all == expected(600, |_| 0), "all of it, once, in order");
        let none = consumer.next_record_within(Duration::from_millis(50))?;
        ensure!(none.is_none(), "that was all");
        Ok(())
    })
}

#[test]
fn a_killed_node_is_read_on_when_it_comes_back() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        with_topic(node)?;
        let mut consumer = Consumer::builder(&node.bootstrap()).build()?;
        consumer.assign(everything(Start::Earliest));
        let mut all = Read::new();
        for round in 0..4 {
            write(&node.bootstrap(), Compression::Lz4, round * 300..(round + 1) * 300)?;
            node.kill()?;
            node.start_again()?;
            for (partition, records) in read(&mut consumer, 300)? {
                all.entry(partition).or_default().extend(records);
            }
        }
        ensure!(all == expected(1_200, |_| 0), "all of it, once, in order");
        Ok(())
    })
}

#[test]
fn a_seek_makes_room_for_what_is_sought() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        with_topic(node)?;
        write(&node.bootstrap(), Compression::None, 0..3_000)?;
        let builder = Consumer::builder(&node.bootstrap());
        let mut consumer = builder.partition_bytes_max(8_192).prefetch_bytes_max(30_000).build()?;
        for _ in 0..5 {
            consumer.assign([]);
            consumer.assign(everything(Start::Earliest));
            wait::until("as much is fetched as may be", PATIENCE, || {
                Ok((consumer.unread_bytes() >= 30_000).then_some(()))
            })?;
            for partition in 0..PARTITIONS {
                ensure!(consumer.seek(TOPIC, partition, Start::Offset(Offset(900))), "it is assigned");
            }
            ensure!(read(&mut consumer, 300)? == expected(3_000, |_| 900), "from an offset");
        }
        ensure!(consumer.next_batch_within(Duration::from_millis(50))?.is_none(), "that was all");
        Ok(())
    })
}

fn reads_a_topic_that_is_created_anew(on: Setup) -> Result<()> {
    with_node(Node::start(on)?, |node| created_anew(node))
}

fn created_anew(node: &Node) -> Result<()> {
    with_topic(node)?;
    write(&node.bootstrap(), Compression::None, 0..300)?;
    let mut consumer = Consumer::builder(&node.bootstrap()).reset(Reset::Earliest).build()?;
    consumer.assign(everything(Start::Earliest));
    ensure!(read(&mut consumer, 300)? == expected(300, |_| 0), "the first topic");
    admin(&node.bootstrap())?.delete_topic(TOPIC).wait()?;
    // The name is free when the last of the topic is gone.
    wait::until("the topic can be created anew", PATIENCE, || Ok(with_topic(node).ok()))?;
    write(&node.bootstrap(), Compression::None, 0..30)?;
    ensure!(read(&mut consumer, 30)? == expected(30, |_| 0), "the second topic");
    Ok(())
}

#[test]
fn a_topic_that_our_node_creates_anew_is_read_from_its_beginning() -> Result<()> {
    reads_a_topic_that_is_created_anew(setup()?)
}

#[test]
fn a_topic_that_kafka_creates_anew_is_read_from_its_beginning() -> Result<()> {
    reads_a_topic_that_is_created_anew(Setup::of(Program::Kafka))
}

/// Where the group goes on, partition by partition.
fn committed(consumer: &Consumer) -> Result<Vec<Option<i64>>> {
    let all = (0..PARTITIONS).map(|partition| (TOPIC, partition));
    let found = consumer.committed(all).wait()?;
    Ok(found.into_values().map(|found| found.map(|it| it.offset.0)).collect())
}

fn commits_what_it_reads_by_hand(node: &Node) -> Result<()> {
    with_topic(node)?;
    write(&node.bootstrap(), Compression::None, 0..300)?;
    let reader = |interval| Consumer::builder(&node.bootstrap()).group_id("billing").auto_commit(interval);
    let witness = reader(None).build()?;
    let mut consumer = reader(Some(Duration::from_millis(50))).build()?;
    consumer.assign(everything(Start::Earliest));
    read(&mut consumer, 300)?;
    wait::until("a commit from time to time", PATIENCE, || {
        // What it has in its hands counts as read when more is asked for.
        ensure!(consumer.next_batch_within(Duration::from_millis(10))?.is_none(), "there is no more");
        Ok((committed(&witness)? == [Some(100); 3]).then_some(()))
    })?;
    consumer.close(PATIENCE)?;
    let seldom = Some(Duration::from_secs(1_000));
    let (mut given_up, mut closed, mut dropped) =
        (reader(seldom).build()?, reader(seldom).build()?, reader(seldom).build()?);
    given_up.assign([(TOPIC, 0, Start::Offset(Offset(7)))]);
    given_up.assign([(TOPIC, 1, Start::Offset(Offset(8)))]);
    given_up.unsubscribe();
    ensure!(given_up.assignment().is_empty(), "{:?} is still read", given_up.assignment());
    wait::until("a commit of what is given up", PATIENCE, || {
        Ok((committed(&witness)? == [Some(7), Some(8), Some(100)]).then_some(()))
    })?;
    closed.assign([(TOPIC, 1, Start::Offset(Offset(9)))]);
    closed.close(PATIENCE)?;
    ensure!(committed(&witness)? == [Some(7), Some(9), Some(100)], "{:?}", committed(&witness)?);
    // It has a second: whom to tell it knows already.
    committed(&dropped)?;
    dropped.assign([(TOPIC, 2, Start::Offset(Offset(10)))]);
    drop(dropped);
    wait::until("a commit of what was dropped", PATIENCE, || {
        Ok((committed(&witness)? == [Some(7), Some(9), Some(10)]).then_some(()))
    })?;
    let mut in_hand = reader(seldom).build()?;
    committed(&in_hand)?;
    in_hand.assign([(TOPIC, 0, Start::Offset(Offset(20)))]);
    ensure!(in_hand.next_batch_within(PATIENCE)?.is_some(), "there are some");
    drop(in_hand);
    let after = committed(&witness)?;
    ensure!(after == [Some(20), Some(9), Some(10)], "nobody said that a batch was done with: {after:?}");
    let mut in_hand = reader(seldom).build()?;
    committed(&in_hand)?;
    in_hand.assign([(TOPIC, 0, Start::Offset(Offset(20)))]);
    for offset in 20..30 {
        let record = in_hand.next_record_within(PATIENCE)?.context("there are some")?;
        ensure!(record.offset == Offset(offset), "{record:?}");
    }
    drop(in_hand);
    let after = committed(&witness)?;
    ensure!(after == [Some(29), Some(9), Some(10)], "nor that the last record was: {after:?}");
    Ok(())
}

#[test]
fn what_is_read_by_hand_is_committed_by_itself() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| commits_what_it_reads_by_hand(node))
}

#[test]
fn what_is_read_by_hand_is_committed_by_itself_on_kafka() -> Result<()> {
    with_node(Node::start(Setup::of(Program::Kafka))?, |node| commits_what_it_reads_by_hand(node))
}
