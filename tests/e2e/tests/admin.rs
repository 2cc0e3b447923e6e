//! Our admin against our node and against Apache Kafka: what it says is so, whatever breaks on the way.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base::{BrokerId, ErrorCode, Offset, TimestampMs, TopicId, Uuid};
use client::Admin;
use client::admin::{
    AdminError, At, ConfigChange, ConfigSource, MorePartitions, NewTopic, Partition, Resource, Topic,
};
use client::producer::{Producer, Record};
use conformance::{Node, Program, Setup};
use vltava_e2e::process::{go_on, halt_between_writes, setup, with_node};
use vltava_e2e::proxy::Proxy;
use vltava_e2e::wait;

const PATIENCE: Duration = Duration::from_secs(10);
/// When the first record was made; each next a second later.
const FIRST_MS: i64 = 1_700_000_000_000;

fn topic(name: &str, partitions: i32) -> NewTopic {
    NewTopic { partitions: Some(partitions), replication_factor: Some(1), ..NewTopic::named(name) }
}

fn code<T>(result: &Result<T, AdminError>) -> Option<ErrorCode> {
    result.as_ref().err().and_then(AdminError::code)
}

fn names(admin: &Admin) -> Result<BTreeSet<String>> {
    let topics = admin.list_topics().wait()?;
    Ok(topics.into_iter().filter(|topic| !topic.is_internal).map(|topic| topic.name).collect())
}

/// A broker hears of what the controller did a moment later.
fn described(admin: &Admin, name: &str, partitions: usize) -> Result<Topic> {
    wait::until("the topic is known", PATIENCE, || {
        let found = admin.describe_topic(name).wait().ok();
        let is_led = |partition: &Partition| partition.leader.is_some();
        Ok(found.filter(|topic| topic.partitions.len() == partitions && topic.partitions.iter().all(is_led)))
    })
}

fn does_everything(node: &Node) -> Result<()> {
    let admin = Admin::new(&node.bootstrap())?;
    topics_come_and_grow(&admin)?;
    settings_change(&admin)?;
    records_have_places_and_go(&admin, node)?;
    the_cluster_shows_itself(&admin)?;
    topics_go(&admin)
}

fn topics_come_and_grow(admin: &Admin) -> Result<()> {
    let trial = admin.dry_run().create_topic(topic("orders", 3)).wait()?;
    ensure!(trial.partitions == Some(3) && names(admin)?.is_empty(), "{trial:?}");
    let wanted = [topic("orders", 3), topic("a/b", 1), topic("payments", 1), NewTopic::named("by-default")];
    let made = admin.create_topics(wanted).wait();
    ensure!(made[0].as_ref().is_ok_and(|made| made.partitions == Some(3)), "{made:?}");
    ensure!(code(&made[1]) == Some(ErrorCode::InvalidTopicException), "{made:?}");
    ensure!(made[2].is_ok() && made[3].is_ok(), "{made:?}");
    let again = admin.create_topic(topic("orders", 3)).wait();
    ensure!(code(&again) == Some(ErrorCode::TopicAlreadyExists), "{again:?}");
    ensure!(again.is_err_and(|error| !error.may_have_been_done()), "every try was answered");

    let orders = described(admin, "orders", 3)?;
    ensure!(made[0].as_ref().is_ok_and(|made| made.id == Some(orders.id)), "{orders:?}");
    let by_id = admin.describe_topics_by_id([orders.id, TopicId(Uuid([7; 16]))]).wait();
    ensure!(by_id[0].as_ref() == Ok(&orders), "{by_id:?}");
    ensure!(code(&by_id[1]) == Some(ErrorCode::UnknownTopicId), "{by_id:?}");
    let began = Instant::now();
    let both = admin.describe_topics(["nobody's", "orders"]).wait();
    ensure!(both[0].is_err() && both[1].is_ok(), "{both:?}");
    ensure!(began.elapsed() < Duration::from_secs(2), "who asks what there is does not wait for it");

    admin.dry_run().grow_topic("orders", 5).wait()?;
    let more =
        |topic: &str, count| MorePartitions { topic: topic.to_owned(), count, assignments: Vec::new() };
    let grown = admin.create_partitions([more("orders", 4), more("payments", 1)]).wait();
    ensure!(grown[0].is_ok(), "{grown:?}");
    ensure!(code(&grown[1]) == Some(ErrorCode::InvalidPartitions), "{grown:?}");
    described(admin, "orders", 4).map(|_| ())
}

fn settings_change(admin: &Admin) -> Result<()> {
    let orders = || Resource::Topic("orders".to_owned());
    let set = |name: &str, value: &str| ConfigChange::Set(name.to_owned(), value.to_owned());
    let changes = [
        (orders(), vec![set("retention.ms", "3600000"), set("cleanup.policy", "delete")]),
        (Resource::Topic("payments".to_owned()), vec![set("no.such.setting", "1")]),
    ];
    let done = admin.alter_configs(changes).wait();
    ensure!(done[0].is_ok() && code(&done[1]) == Some(ErrorCode::InvalidConfig), "{done:?}");
    admin.dry_run().alter_config(orders(), vec![set("retention.ms", "5")]).wait()?;
    let list = ConfigChange::Append("cleanup.policy".to_owned(), "compact".to_owned());
    admin.alter_config(orders(), vec![list]).wait()?;
    wait::until("the settings are known", PATIENCE, || {
        let settings = admin.describe_config(orders()).wait()?;
        let of = |name: &str| settings.iter().find(|setting| setting.name == name);
        let retention = of("retention.ms").context("no retention.ms")?;
        let policy = of("cleanup.policy").context("no cleanup.policy")?.value.clone().unwrap_or_default();
        let is_set = retention.value.as_deref() == Some("3600000") && retention.source == ConfigSource::Topic;
        Ok((is_set && policy.contains("compact") && policy.contains("delete")).then_some(()))
    })?;
    admin.alter_config(orders(), vec![ConfigChange::Delete("cleanup.policy".to_owned())]).wait()?;

    let me = admin.describe_cluster().wait()?.brokers.first().context("a broker")?.id;
    let wanted = [Resource::Broker(me), Resource::AllBrokers, Resource::BrokerLogger(me)];
    let settings = admin.describe_configs(wanted).wait();
    ensure!(settings.iter().all(Result::is_ok), "{settings:?}");
    ensure!(settings[0].as_ref().is_ok_and(|settings| settings.len() > 10), "{settings:?}");
    Ok(())
}

fn records_have_places_and_go(admin: &Admin, node: &Node) -> Result<()> {
    let producer = Producer::new(&node.bootstrap())?;
    for number in 0..10 {
        // The eighth is the newest.
        let time = FIRST_MS + if number == 7 { 100_000 } else { number * 1_000 };
        let record = Record::to("orders").partition(0).timestamp_ms(time).value("x");
        producer.send_blocking(&record)?.wait()?;
    }
    let time = |seconds: i64| At::Time(TimestampMs(FIRST_MS + seconds * 1_000));
    let places = [
        (At::Earliest, Some(0)),
        (At::Latest, Some(10)),
        (At::MaxTimestamp, Some(7)),
        (time(3), Some(3)),
        (time(500), None),
    ];
    for (at, expected) in places {
        let found = admin.list_offsets([("orders", 0, at), ("orders", 1, at), ("payments", 0, at)]).wait();
        let offset = found[0].clone()?.offset;
        ensure!(offset == expected.map(Offset), "{at:?}: {found:?}");
        ensure!(found.iter().all(Result::is_ok), "{at:?}: {found:?}");
    }
    let deleted = admin
        .delete_records([
            ("orders", 0, Some(Offset(4))),
            ("orders", 1, Some(Offset(1))),
            ("payments", 0, None),
        ])
        .wait();
    ensure!(deleted[0] == Ok(Offset(4)) && deleted[2] == Ok(Offset(0)), "{deleted:?}");
    ensure!(code(&deleted[1]) == Some(ErrorCode::OffsetOutOfRange), "{deleted:?}");
    let found = admin.list_offsets([("orders", 0, At::Earliest)]).wait();
    ensure!(found[0].clone()?.offset == Some(Offset(4)), "{found:?}");
    // Unlike a topic that is described, one that is asked for may only be new.
    let began = Instant::now();
    let nobodys = admin.list_offsets([("nobodys", 0, At::Latest)]).wait();
    ensure!(code(&nobodys[0]) == Some(ErrorCode::UnknownTopicOrPartition), "{nobodys:?}");
    ensure!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    Ok(())
}

fn the_cluster_shows_itself(admin: &Admin) -> Result<()> {
    let cluster = admin.describe_cluster().wait()?;
    ensure!(!cluster.id.is_empty() && cluster.controller.is_some(), "{cluster:?}");
    let dirs = admin.describe_all_log_dirs().wait()?;
    ensure!(dirs.len() == cluster.brokers.len(), "{dirs:?}");
    let dirs = dirs.into_iter().next().context("a broker")?.1?;
    let dir = dirs.first().context("a directory")?;
    let orders = dirs.iter().flat_map(|dir| &dir.replicas).filter(|replica| replica.topic == "orders");
    ensure!(orders.clone().count() == 4 && orders.clone().any(|replica| replica.bytes > 0), "{dirs:?}");
    ensure!(dir.error.is_none() && dir.usable_bytes < dir.total_bytes, "{dir:?}");
    let both = admin.describe_log_dirs([BrokerId(4_711), cluster.brokers[0].id]).wait();
    ensure!(matches!(&both[0], Err(AdminError::NoSuchBroker { .. })) && both[1].is_ok(), "{both:?}");
    Ok(())
}

fn topics_go(admin: &Admin) -> Result<()> {
    let orders = described(admin, "orders", 4)?;
    let trial = admin.dry_run().delete_topic("orders").wait();
    ensure!(matches!(trial, Err(AdminError::NoTrial { .. })), "{trial:?}");
    let gone = admin.delete_topics(["nobodys", "payments", "payments"]).wait();
    ensure!(code(&gone[0]) == Some(ErrorCode::UnknownTopicOrPartition) && gone[1].is_ok(), "{gone:?}");
    ensure!(matches!(&gone[2], Err(AdminError::Twice { .. })), "{gone:?}");
    let gone = admin.delete_topics_by_id([orders.id, TopicId(Uuid([7; 16]))]).wait();
    ensure!(gone[0].is_ok() && code(&gone[1]) == Some(ErrorCode::UnknownTopicId), "{gone:?}");
    wait::until("only one is left", PATIENCE, || {
        Ok((names(admin)? == BTreeSet::from(["by-default".to_owned()])).then_some(()))
    })
}

#[test]
fn our_node_does_what_it_is_asked() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| does_everything(node))
}

#[test]
fn kafka_does_what_it_is_asked() -> Result<()> {
    with_node(Node::start(Setup::of(Program::Kafka))?, |node| does_everything(node))
}

/// One server is not there, one takes connections and says nothing, one is well.
fn finds_the_one_that_answers(node: &Node) -> Result<()> {
    let nobody = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let servers = format!("{nobody},{},{}", silent.local_addr()?, node.bootstrap());
    let admin = Admin::builder(&servers).request_timeout(Duration::from_millis(500)).build()?;
    for _ in 0..3 {
        admin.describe_cluster().wait()?;
        admin.list_topics().wait()?;
    }
    // And nobody at all is an error that says who was tried, in time.
    let admin = Admin::new(&nobody.to_string())?.within(Duration::from_millis(400));
    let began = Instant::now();
    let error = admin.create_topic(topic("orders", 1)).wait().err().context("somebody answered")?;
    ensure!((400..3_000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    ensure!(!error.may_have_been_done() && error.is_retriable(), "{error}");
    ensure!(error.to_string().contains(&format!("cannot connect to {nobody}")), "{error}");
    Ok(())
}

#[test]
fn a_server_that_is_not_there_is_passed_by() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| finds_the_one_that_answers(node))
}

/// Calls that are under way when the node goes are done when it is back.
fn outlives_a_restart(node: &mut Node) -> Result<()> {
    let admin = Admin::new(&node.bootstrap())?;
    admin.create_topic(topic("before", 2)).wait()?;
    described(&admin, "before", 2)?;
    // It takes what is asked and does not come to doing it.
    halt_between_writes(process(node)?)?;
    let (begun, begins) = mpsc::channel();
    thread::scope(|scope| -> Result<()> {
        let create = scope.spawn(|| {
            let call = admin.create_topic(topic("after", 3));
            begun.send(()).map_err(|_| anyhow::anyhow!("nobody listens"))?;
            Ok::<_, anyhow::Error>(call.wait()?)
        });
        let list =
            scope.spawn(|| admin.list_offsets([("before", 0, At::Latest), ("before", 1, At::Latest)]).wait());
        begins.recv()?;
        node.kill()?;
        node.start_again()?;
        let made = create.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        ensure!(made.partitions == Some(3), "{made:?}");
        let found = list.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ensure!(found.iter().all(Result::is_ok), "{found:?}");
        Ok(())
    })
}

#[test]
fn a_restart_of_our_node_is_waited_for() -> Result<()> {
    with_node(Node::start(setup()?)?, outlives_a_restart)
}

#[test]
fn a_restart_of_kafka_is_waited_for() -> Result<()> {
    with_node(Node::start(Setup::of(Program::Kafka))?, outlives_a_restart)
}

/// A node that hangs costs the time that was given, and a command to it may have been carried out.
#[test]
fn a_node_that_hangs_costs_the_time_that_was_given() -> Result<()> {
    with_node(Node::start(setup()?)?, |node| {
        let admin = Admin::new(&node.bootstrap())?;
        admin.describe_cluster().wait()?;
        // So that it knows whom to send commands.
        admin.create_topic(topic("first", 1)).wait()?;
        halt_between_writes(process(node)?)?;
        let within = Duration::from_millis(500);
        let began = Instant::now();
        let create = admin.within(within).create_topic(topic("second", 1)).wait();
        let list = admin.within(within).list_topics().wait();
        let trial = admin.within(within).dry_run().create_topic(topic("third", 1)).wait();
        ensure!((1_500..5_000).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        go_on(process(node)?)?;
        let create = create.err().context("a stopped node answered")?;
        ensure!(matches!(create, AdminError::TimedOut { .. }) && create.may_have_been_done(), "{create}");
        for error in [list.map(|_| ()), trial.map(|_| ())].map(|result| result.err()) {
            let error = error.context("a stopped node answered")?;
            ensure!(matches!(error, AdminError::TimedOut { .. }) && !error.may_have_been_done(), "{error}");
        }
        // It had been sent, and the node does what it was sent.
        described(&admin, "second", 1).map(|_| ())
    })
}

fn process(node: &Node) -> Result<u32> {
    node.pid().context("the node runs")
}

/// Whatever goes wrong, what a result says of a topic is so. A request that arrives late or twice may make a
/// topic anew that was deleted, but it is another.
fn tells_the_truth(of: Setup) -> Result<()> {
    let (listener, port) = Proxy::listener()?;
    with_node(Node::start(Setup { advertised_port: Some(port), ..of })?, |node| {
        let chance = vltava_e2e::Chance::from_env("an admin behind bad connections")?.draw();
        let proxy = Proxy::on(listener, node.address(), chance)?;
        let (mut there, mut gone, mut tried) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        proxy.until_each(2, || {
            let name = format!("topic-{}", tried.len());
            tried.insert(name.clone());
            // Its connections have another fate than those before.
            let admin = Admin::builder(&proxy.address().to_string());
            let admin = admin.request_timeout(Duration::from_millis(500)).build()?;
            let made = match admin.create_topic(topic(&name, 1)).wait() {
                Ok(made) => made.id.context("it has an id")?,
                Err(error) if error.may_have_been_done() => return Ok(()),
                Err(error) => bail!("{error}"),
            };
            if tried.len() % 2 == 0 {
                there.insert(made);
                return Ok(());
            }
            match admin.delete_topics_by_id([made]).wait().remove(0) {
                Ok(()) => drop(gone.insert(made)),
                Err(error) if error.may_have_been_done() => {}
                Err(error) => bail!("{error}"),
            }
            Ok(())
        })?;
        proxy.set_cruel(false);
        ensure!(!there.is_empty() && !gone.is_empty(), "there: {there:?}; gone: {gone:?}");
        let admin = Admin::new(&node.bootstrap())?;
        wait::until("what was said is so", PATIENCE, || {
            let found = admin.list_topics().wait()?;
            ensure!(found.iter().all(|topic| tried.contains(&topic.name)), "{found:?}");
            let found: BTreeSet<TopicId> = found.iter().map(|topic| topic.id).collect();
            Ok((there.is_subset(&found) && gone.is_disjoint(&found)).then_some(()))
        })
        .with_context(|| format!("there: {there:?}; gone: {gone:?}"))
    })
}

#[test]
fn what_is_said_of_our_node_is_so_whatever_breaks() -> Result<()> {
    tells_the_truth(setup()?)
}

#[test]
fn what_is_said_of_kafka_is_so_whatever_breaks() -> Result<()> {
    tells_the_truth(Setup::of(Program::Kafka))
}
