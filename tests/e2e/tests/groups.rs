//! Our consumer as a member of a group on our node and on Apache Kafka, by either protocol: members come and go, the
//! broker restarts, and what the group reads it reads once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base::{ErrorCode, Offset, TopicPartition};
use client::admin::{Admin, AdminError, OffsetAndMetadata};
use client::consumer::{
    Assignor, Consumer, ConsumerBuilder, GroupProtocol, RebalanceListener, Reset, Revoked,
};
use client::producer::{Producer, Record};
use client::{ConnectOptions, Connection};
use conformance::{Node, Program, Setup};
use vltava_e2e::churn::{Churn, admin};
use vltava_e2e::process::{setup, with_node};
use vltava_e2e::wait;
use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;

const TOPIC: &str = "orders";
const GROUP: &str = "billing";
const PARTITIONS: i32 = 6;
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const ROUND_RECORDS: u64 = 600;
/// The shortest session that a member of the new protocol has.
const SESSION: Duration = Duration::from_secs(45);

/// Who has which partition, as the members' owners were told, and what all of them read.
#[derive(Debug, Default)]
struct Group {
    owners: BTreeMap<TopicPartition, String>,
    /// Of each record, who read it.
    read: BTreeMap<u64, Vec<String>>,
    wrong: Option<String>,
}

#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Group>>);

impl Shared {
    fn held(&self) -> MutexGuard<'_, Group> {
        self.0.lock().expect("nobody panics with it")
    }
}

/// Writes down what a member is told.
struct Listener {
    name: String,
    group: Shared,
}

impl RebalanceListener for Listener {
    fn assigned(&mut self, partitions: &[TopicPartition]) {
        let mut group = self.group.held();
        for of in partitions {
            if let Some(other) = group.owners.insert(of.clone(), self.name.clone()) {
                group.wrong = Some(format!("{of} went to {} while {other} had it", self.name));
            }
        }
    }

    fn revoked(&mut self, revoked: &mut Revoked<'_>) {
        // What is not committed by itself, either.
        revoked.commit();
        self.drop_all(revoked.partitions());
    }

    fn lost(&mut self, partitions: &[TopicPartition]) {
        self.drop_all(partitions);
    }
}

impl Listener {
    fn drop_all(&self, partitions: &[TopicPartition]) {
        let mut group = self.group.held();
        for of in partitions {
            group.owners.remove(of);
        }
    }
}

/// A member with a thread that reads until it is told to go.
struct Member {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<()>>,
}

impl Member {
    fn start(builder: ConsumerBuilder, name: &str, group: &Shared) -> Result<Self> {
        let mut consumer = builder.reset(Reset::Earliest).build()?;
        consumer.set_rebalance_listener(Listener { name: name.to_owned(), group: group.clone() });
        // All that are called so, or this one: it comes to the same.
        match name.len() % 2 {
            0 => consumer.subscribe_pattern("ord.*")?,
            _ => consumer.subscribe([TOPIC])?,
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, name, group) = (is_over.clone(), name.to_owned(), group.clone());
        let thread = thread::spawn(move || read(consumer, &name, &group, &over));
        Ok(Self { is_over, thread })
    }

    fn stop(self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("a member does not panic")
    }
}

fn read(mut consumer: Consumer, name: &str, group: &Shared, is_over: &AtomicBool) -> Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        let Some(record) = consumer.next_record_within(LOOK_AGAIN)? else { continue };
        let text = std::str::from_utf8(record.value.as_deref().context("each has a value")?)?;
        group.held().read.entry(text.parse()?).or_default().push(name.to_owned());
    }
    consumer.close(PATIENCE).context("it leaves")
}

/// Sends as many more records.
fn send(producer: &Producer, next: &mut u64) -> Result<()> {
    for number in *next..*next + ROUND_RECORDS {
        let partition = (number % PARTITIONS as u64) as i32;
        let value = number.to_string();
        drop(producer.send_blocking(&Record::to(TOPIC).partition(partition).value(&value))?);
    }
    producer.flush_blocking();
    *next += ROUND_RECORDS;
    Ok(())
}

/// Waits until all was read, and the partitions are shared among so many.
fn settled(group: &Shared, next: u64, members: usize) -> Result<()> {
    let what = format!("{members} members share the topic and read {next} records");
    let settled = wait::until(&what, PATIENCE, || {
        let group = group.held();
        ensure!(group.wrong.is_none(), "{:?}", group.wrong);
        let mut owners: Vec<&String> = group.owners.values().collect();
        owners.sort();
        owners.dedup();
        let is_shared = owners.len() == members && group.owners.len() == PARTITIONS as usize;
        Ok((is_shared && group.read.len() as u64 == next).then_some(()))
    });
    settled.with_context(|| {
        let group = group.held();
        format!("{} of {next} are read; {:?}", group.read.len(), group.owners)
    })
}

/// What an admin sees of a group of two, which all is in order with.
fn is_seen(admin: &Admin, is_classic: bool) -> Result<()> {
    let listed = admin.list_groups().wait()?;
    let stable = listed.iter().find(|group| group.group_id == GROUP).context("it is listed")?;
    ensure!(stable.state == "Stable", "{stable:?}");
    let described = admin.describe_groups([GROUP, "nobody"]).wait();
    let [Ok(group), Err(nobody)] = &described[..] else { anyhow::bail!("{described:?}") };
    ensure!(nobody.code() == Some(ErrorCode::GroupIdNotFound), "{nobody}");
    ensure!(group.epochs.is_none() == is_classic && group.members.len() == 2, "{group:?}");
    let assigned: usize = group.members.iter().map(|member| member.assignment.len()).sum();
    ensure!(assigned == PARTITIONS as usize, "{group:?}");
    let refused = admin.delete_groups([GROUP]).wait();
    let code = refused[0].as_ref().err().and_then(AdminError::code);
    ensure!(code == Some(ErrorCode::NonEmptyGroup), "{refused:?}");
    Ok(())
}

/// Without members it can be set back, and forgotten.
fn is_managed(admin: &Admin, each: Offset) -> Result<()> {
    let mut committed = admin.list_group_offsets([GROUP]).wait().remove(0)?;
    ensure!(committed.len() == PARTITIONS as usize, "{committed:?}");
    ensure!(committed.values().all(|it| it.offset == each), "{committed:?}");
    let back = [(TOPIC, 0, OffsetAndMetadata::at(Offset(7)))];
    admin.alter_group_offsets(GROUP, back).wait().remove(0)?;
    admin.delete_group_offsets(GROUP, [(TOPIC, 1)]).wait().remove(0)?;
    let after = admin.list_group_offsets([GROUP]).wait().remove(0)?;
    committed.retain(|of, _| of.partition.0 != 1);
    let back = committed.iter_mut().find(|(of, _)| of.partition.0 == 0);
    *back.context("it was committed")?.1 = OffsetAndMetadata::at(Offset(7));
    ensure!(after == committed, "{after:?}");
    admin.delete_groups([GROUP]).wait().remove(0)?;
    ensure!(admin.list_groups().wait()?.is_empty(), "it is gone");
    Ok(())
}

fn lives(setup: Setup, choose: impl Fn(ConsumerBuilder) -> ConsumerBuilder, is_classic: bool) -> Result<()> {
    with_node(Node::start(setup.set("group.initial.rebalance.delay.ms", "0"))?, |node| {
        let bootstrap = node.bootstrap();
        Churn::default().create(&admin(&bootstrap)?, TOPIC, PARTITIONS, &[])?;
        let producer = Producer::new(&bootstrap)?;
        let (group, mut next) = (Shared::default(), 0);
        let builder = || choose(Consumer::builder(&bootstrap).group_id(GROUP));
        send(&producer, &mut next)?;
        let first = Member::start(builder(), "a", &group)?;
        settled(&group, next, 1).context("one")?;
        let second = Member::start(builder(), "bb", &group)?;
        let third = Member::start(builder(), "ccc", &group)?;
        send(&producer, &mut next)?;
        settled(&group, next, 3).context("three")?;
        first.stop()?;
        send(&producer, &mut next)?;
        settled(&group, next, 2).context("one left")?;
        node.stop()?;
        node.start_again()?;
        send(&producer, &mut next)?;
        settled(&group, next, 2).context("the broker came back")?;
        let admin = admin(&bootstrap)?;
        is_seen(&admin, is_classic)?;
        second.stop()?;
        third.stop()?;
        let again = group.held().read.values().filter(|who| who.len() > 1).count();
        ensure!(again == 0, "{again} records were read twice");
        // All of it is committed.
        let consumer = builder().build()?;
        let committed = consumer.committed((0..PARTITIONS).map(|index| (TOPIC, index))).wait()?;
        let each = Offset((next / PARTITIONS as u64) as i64);
        let is_all = committed.values().all(|it| it.as_ref().is_some_and(|it| it.offset == each));
        ensure!(is_all && committed.len() == PARTITIONS as usize, "{committed:?}");
        is_managed(&admin, each)
    })
}

fn kafka() -> Setup {
    Setup::of(Program::Kafka)
}

fn classic(builder: ConsumerBuilder) -> ConsumerBuilder {
    builder.group_protocol(GroupProtocol::Classic)
}

fn cooperative(builder: ConsumerBuilder) -> ConsumerBuilder {
    classic(builder).assignors([Assignor::CooperativeSticky])
}

fn consumer(builder: ConsumerBuilder) -> ConsumerBuilder {
    builder.auto_commit(None)
}

/// A member that joins, is heard once more, and says nothing from then on.
fn silent(bootstrap: &str, member_id: &str) -> Result<Connection> {
    let mut connection = Connection::connect(bootstrap, ConnectOptions::default())?;
    let mut request = ConsumerGroupHeartbeatRequest {
        group_id: GROUP,
        member_id,
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec![TOPIC]),
        topic_partitions: Some(Vec::new()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    for _ in 0..2 {
        let answer = connection.call(&request, 1)?;
        let said = answer.read()?;
        ensure!(said.error_code == 0, "{said:?}");
        request.member_epoch = said.member_epoch;
    }
    Ok(connection)
}

/// Waits until somebody who reads has so many partitions in a group of so many.
fn shared(admin: &Admin, group: &Shared, (partitions, members): (usize, usize)) -> Result<()> {
    wait::until(&format!("{partitions} partitions with {members} members"), PATIENCE, || {
        // It is not there before the first has joined.
        let Ok(described) = admin.describe_groups([GROUP]).wait().remove(0) else { return Ok(None) };
        let is_so = group.held().owners.len() == partitions && described.members.len() == members;
        Ok(is_so.then_some(()))
    })
}

/// ADR 0025.
#[test]
fn who_hangs_up_is_missed_before_its_session_ends_and_who_is_only_silent_is_not() -> Result<()> {
    let setup = setup()?
        .set("group.consumer.min.heartbeat.interval.ms", "500")
        .set("group.consumer.heartbeat.interval.ms", "500");
    with_node(Node::start(setup)?, |node| {
        let bootstrap = node.bootstrap();
        let admin = admin(&bootstrap)?;
        Churn::default().create(&admin, TOPIC, PARTITIONS, &[])?;
        let group = Shared::default();
        let reader = Member::start(Consumer::builder(&bootstrap).group_id(GROUP), "reader", &group)?;
        shared(&admin, &group, (6, 1)).context("alone")?;
        let since = Instant::now();
        let (first, second) = (silent(&bootstrap, "first")?, silent(&bootstrap, "second")?);
        shared(&admin, &group, (2, 3)).context("with two that say nothing")?;
        drop(first);
        shared(&admin, &group, (3, 2)).context("one of them hung up")?;
        drop(second);
        shared(&admin, &group, (6, 1)).context("both hung up")?;
        let took = since.elapsed();
        ensure!(took < SESSION, "nobody was missed before the session ended: {took:?}");
        reader.stop()
    })
}

#[test]
fn a_classic_group_reads_each_record_once() -> Result<()> {
    lives(setup()?, classic, true)
}

#[test]
fn a_classic_group_on_kafka_reads_each_record_once() -> Result<()> {
    lives(kafka(), classic, true)
}

#[test]
fn a_cooperative_group_reads_each_record_once() -> Result<()> {
    lives(setup()?, cooperative, true)
}

#[test]
fn a_cooperative_group_on_kafka_reads_each_record_once() -> Result<()> {
    lives(kafka(), cooperative, true)
}

#[test]
fn a_consumer_group_reads_each_record_once() -> Result<()> {
    lives(setup()?, consumer, false)
}

#[test]
fn a_consumer_group_on_kafka_reads_each_record_once() -> Result<()> {
    lives(kafka(), consumer, false)
}
