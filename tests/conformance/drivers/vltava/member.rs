//! A member of a group: a thread of its own polls it, and does between two records what it is asked.

use std::collections::BTreeSet;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base::{Offset, TopicPartition};
use client::consumer::{
    Assignor, Consumer, ConsumerBuilder, GroupProtocol, RebalanceListener, Reset, Revoked,
};
use serde_json::{Value, json};
use vltava_conformance::group::{Event, Read, Seen};

use super::{PATIENCE, field};

/// A poll ends as soon, so that what is asked of a member need not wait longer.
const POLL_MAX: Duration = Duration::from_millis(100);

/// One that was told to join.
pub(super) struct Member {
    seen: Shared,
    asks: Sender<Ask>,
    topic: String,
}

enum Ask {
    Commit { offsets: Vec<(i32, Offset)>, done: Sender<Result<()>> },
    Leave { done: Sender<Result<()>> },
}

/// What it has seen, and the error that ended it.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<(Seen, Option<String>)>>);

impl Shared {
    fn held(&self) -> MutexGuard<'_, (Seen, Option<String>)> {
        self.0.lock().expect("nobody panics with it")
    }

    fn tell(&self, event: fn(BTreeSet<i32>) -> Event, partitions: &[TopicPartition]) {
        let partitions = partitions.iter().map(|of| of.partition.0).collect();
        self.held().0.events.push(event(partitions));
    }
}

impl RebalanceListener for Shared {
    fn assigned(&mut self, partitions: &[TopicPartition]) {
        self.tell(Event::Assigned, partitions);
    }

    fn revoked(&mut self, revoked: &mut Revoked<'_>) {
        self.tell(Event::Revoked, revoked.partitions());
    }

    fn lost(&mut self, partitions: &[TopicPartition]) {
        self.tell(Event::Lost, partitions);
    }
}

impl Member {
    /// Joins as the command says; answers at once.
    pub(super) fn join(builder: ConsumerBuilder, command: &Value) -> Result<Self> {
        let builder = joining(builder, command)?;
        let topic: String = field(command, "topic")?;
        let (seen, (asks, asked)) = (Shared::default(), mpsc::channel());
        let mut consumer = builder.build()?;
        consumer.set_rebalance_listener(seen.clone());
        match command["pattern"].as_str() {
            Some(pattern) => consumer.subscribe_pattern(pattern)?,
            None => consumer.subscribe([&*topic])?,
        }
        let told = seen.clone();
        let of = topic.clone();
        thread::spawn(move || {
            if let Err(error) = poll(consumer, &of, &told, &asked) {
                told.held().1 = Some(format!("{error:#}"));
            }
        });
        Ok(Self { seen, asks, topic })
    }

    /// All that it has seen, unless it has failed.
    pub(super) fn seen(&self) -> Result<Value> {
        let held = self.seen.held();
        match &held.1 {
            Some(error) => bail!("the member of {} failed: {error}", self.topic),
            None => Ok(serde_json::to_value(&held.0)?),
        }
    }

    /// Commits the offsets of the command.
    pub(super) fn commit(&self, command: &Value) -> Result<Value> {
        let offsets: Vec<Option<i64>> = field(command, "offsets")?;
        let offsets = (0..).zip(offsets).filter_map(|(index, offset)| Some((index, Offset(offset?))));
        let offsets = offsets.collect();
        self.ask(|done| Ask::Commit { offsets, done })
    }

    /// Leaves in good order.
    pub(super) fn leave(&self) -> Result<Value> {
        self.ask(|done| Ask::Leave { done })
    }

    fn ask(&self, ask: impl FnOnce(Sender<Result<()>>) -> Ask) -> Result<Value> {
        self.seen()?;
        let (done, is_done) = mpsc::channel();
        self.asks.send(ask(done)).ok().context("the member has left")?;
        is_done.recv_timeout(PATIENCE).context("the member says nothing")??;
        Ok(json!({}))
    }
}

/// The settings of a member of which the server has none.
fn joining(builder: ConsumerBuilder, command: &Value) -> Result<ConsumerBuilder> {
    let builder = builder.group_id(&field::<String>(command, "group")?).auto_commit(None);
    let builder = match command["reset"].as_str() {
        Some("earliest") => builder.reset(Reset::Earliest),
        Some("latest") => builder.reset(Reset::Latest),
        other => bail!("reset {other:?}"),
    };
    let builder = match command["instance"].as_str() {
        Some(instance) => builder.group_instance_id(instance),
        None => builder,
    };
    let assignor: String = field(command, "assignor")?;
    if command["protocol"].as_str() == Some("consumer") {
        return Ok(builder.group_protocol(GroupProtocol::Consumer).remote_assignor(&assignor));
    }
    let assignor = match &*assignor {
        "range" => Assignor::Range,
        "cooperative-sticky" => Assignor::CooperativeSticky,
        other => bail!("assignor {other:?}"),
    };
    let millis = |name| Ok::<_, anyhow::Error>(Duration::from_millis(field(command, name)?));
    Ok(builder
        .group_protocol(GroupProtocol::Classic)
        .assignors([assignor])
        .session_timeout(millis("session_ms")?)
        .heartbeat_interval(millis("heartbeat_ms")?))
}

fn poll(mut consumer: Consumer, topic: &str, seen: &Shared, asked: &Receiver<Ask>) -> Result<()> {
    loop {
        if let Some(record) = consumer.next_record_within(POLL_MAX)? {
            let read = Read { partition: record.partition.0, offset: record.offset.0 };
            seen.held().0.records.push(read);
        }
        match asked.try_recv() {
            Ok(Ask::Commit { offsets, done }) => {
                let offsets = offsets.into_iter().map(|(partition, offset)| (topic, partition, offset));
                let committed = consumer.commit_offsets(offsets).wait();
                let _ = done.send(committed.map_err(Into::into));
            }
            Ok(Ask::Leave { done }) => {
                let _ = done.send(consumer.close(PATIENCE).map_err(Into::into));
                return Ok(());
            }
            Err(mpsc::TryRecvError::Empty) => {}
            Err(mpsc::TryRecvError::Disconnected) => return Ok(()),
        }
    }
}
