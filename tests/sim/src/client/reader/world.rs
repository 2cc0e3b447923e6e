//! One run: a clock, a consumer, what is written meanwhile, and what must be true of what is read.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{Effects, Now, Offset, PartitionIndex, TimestampMs, TopicName, TopicPartition};
use client_core::consumer::{ConsumeError, Consumer, ConsumerSettings, Effect, Isolation, Reset, Start};
use client_core::{Address, Backoff, Chance, LinksSettings};
use records::Scratch;

use super::brokers::{Brokers, Place, Said};
use super::follow::{Follow, Lent};
use super::history::Writing;
use super::inbox::{Found, Inbox};
use super::session::TOPICS;
use super::{Options, ReaderPlant};
use crate::client::EPOCH;
use crate::client::network::Network;
use crate::random::Random;
use crate::trace::Trace;
use crate::violation::Violation;

mod net; // what the consumer has done

/// So far does time go at once.
const STEP_MAX_US: u64 = 1_000_000;
/// How long everybody is well at the end of a run, in microseconds.
const HEALED_US: u64 = 200_000_000;

/// A run.
pub(in crate::client) struct World {
    options: Options,
    plant: Option<ReaderPlant>,
    random: Random,
    trace: Trace,
    now_us: u64,
    consumer: Consumer,
    effects: Effects<Effect>,
    network: Network,
    brokers: Brokers,
    inbox: Inbox,
    /// What is assigned.
    reading: BTreeMap<Place, Follow>,
    value_next: u64,
    found: Vec<Violation>,
    scratch: Scratch,
}

impl World {
    pub(in crate::client) fn new(seed: u64, plant: Option<ReaderPlant>, trace: Trace) -> Self {
        let options = Options::draw(seed);
        trace.event(format!("{options:?}"));
        let millis = Duration::from_millis;
        let settings = ConsumerSettings {
            isolation: match options.is_committed_only {
                true => Isolation::ReadCommitted,
                false => Isolation::ReadUncommitted,
            },
            reset: options.reset,
            fetch_bytes_max: options.fetch_bytes_max,
            partition_bytes_max: options.partition_bytes_max,
            prefetch_bytes_max: options.prefetch_bytes_max,
            rack: (options.nearby_per_thousand > 0).then(|| "here".into()),
            retry: Backoff { first: millis(20), max: millis(200) },
            metadata_age_max: millis(300_000),
            links: LinksSettings {
                request_timeout: millis(1_500),
                connect_timeout: millis(1_000),
                reconnect: Backoff { first: millis(10), max: millis(100) },
                ..LinksSettings::default()
            },
            ..ConsumerSettings::default()
        };
        let bootstrap =
            (0..options.brokers).map(|id| Address { host: format!("broker-{id}").into(), port: 9092 });
        Self {
            random: Random::stream(seed, "reader workload"),
            brokers: Brokers::new(seed, &options, plant),
            consumer: Consumer::new(settings, bootstrap.collect(), Chance::new(seed)),
            options,
            plant,
            trace,
            now_us: 0,
            effects: Effects::new(),
            network: Network::default(),
            inbox: Inbox::default(),
            reading: BTreeMap::new(),
            value_next: 0,
            found: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Plays to the end; what was wrong.
    pub(in crate::client) fn play(mut self) -> Vec<Violation> {
        self.assign();
        for _ in 0..self.options.steps {
            self.step();
            if !self.found.is_empty() {
                return self.found;
            }
        }
        self.end();
        self.found
    }

    /// Everybody is well again: all that is there is read, and what comes then.
    fn end(&mut self) {
        self.brokers.heal(self.time());
        let places: Vec<Place> = self.reading.keys().copied().collect();
        for &place in &places {
            self.consumer.set_paused(&of(place), false);
            self.reading.get_mut(&place).expect("it is assigned").is_paused = false;
        }
        // A place that is out of range may look like the end until the broker says so.
        let settled_us = self.now_us + 5_000_000;
        self.wait("all that is there is read", |world| {
            let is_known =
                |place: &Place| world.consumer.position(&of(*place)) == Some(Offset(world.end_of(*place)));
            places.iter().all(is_known) && world.inbox.bytes() == 0 && world.now_us > settled_us
        });
        let mut lasts = Vec::new();
        for &place in &places {
            lasts.push((place, self.value_next));
            self.write_to(place, None);
            let log = self.brokers.log(place);
            log.commit(log.end);
        }
        self.wait("what is written then is read", |world| {
            lasts.iter().all(|(place, value)| world.reading[place].last_value() >= Some(*value))
        });
        // What is read frees its room when more is asked for.
        self.read();
        if self.found.is_empty() && self.consumer.unread_bytes() > 0 {
            let what = format!("{} bytes are out", self.consumer.unread_bytes());
            self.violation("memory comes back", what);
        }
    }

    fn end_of(&self, place: Place) -> i64 {
        self.brokers.logs[&place].last().map_or(0, |log| log.end)
    }

    fn wait(&mut self, what: &'static str, is_done: impl Fn(&Self) -> bool) {
        let end_us = self.now_us + HEALED_US;
        self.step_consumer();
        while self.found.is_empty() && !is_done(self) {
            if self.now_us > end_us {
                let what = format!("{what}, but not within {} s: {:?}", HEALED_US / 1_000_000, self.reading);
                return self.violation("progress", what);
            }
            self.pass_time();
            // A reader that is never quick would not be done in time.
            for _ in 0..20 {
                self.read();
            }
        }
    }

    fn violation(&mut self, invariant: &'static str, what: String) {
        self.found.push(Violation { invariant, what });
    }

    fn now(&self) -> Now {
        Now::new(Duration::from_micros(self.now_us), self.time())
    }

    fn time(&self) -> TimestampMs {
        EPOCH.saturating_add(Duration::from_micros(self.now_us))
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..30 => self.write(),
            roll if roll < 30 + self.options.reads_percent => self.read(),
            _ => self.pass_time(),
        }
        self.trouble();
        self.change_mind();
        self.check_memory();
    }

    fn place(&mut self) -> Place {
        let topic = self.random.index(TOPICS.len());
        (topic, self.random.below(self.options.partitions as u64) as i32)
    }

    fn write(&mut self) {
        let (place, time) = (self.place(), self.time());
        let producer = (self.options.producers > 0 && self.random.chance(600))
            .then(|| 100 + self.random.below(self.options.producers) as i64);
        let ends = self.random.chance(300);
        match producer {
            Some(producer) if ends && self.brokers.log(place).is_open(producer) => {
                let commits = self.random.chance(500);
                self.brokers.log(place).end_transaction(producer, commits, time);
                self.trace.event(format!("{place:?}: {producer} ends a transaction: {commits}"));
            }
            producer => self.write_to(place, producer),
        }
        let is_all = self.random.chance(700);
        let log = self.brokers.log(place);
        let to = if is_all { log.end } else { log.high_watermark + 3 };
        log.commit(to.max(log.high_watermark));
    }

    fn write_to(&mut self, place: Place, producer: Option<i64>) {
        let records = self.random.between(1, 5);
        let writing = Writing {
            now_us: self.now_us,
            time: self.time(),
            value: self.value_next,
            records,
            bytes: self.random.below(self.options.value_bytes_max + 1) as usize,
            compression: self.random.pick(&[records::Compression::None, self.options.compression]),
            producer,
        };
        self.value_next += records;
        let log = self.brokers.log(place);
        self.trace.event(format!("{place:?} from {}: {writing:?}", log.end));
        log.write(writing);
    }

    fn trouble(&mut self) {
        let options = self.options.clone();
        let place = self.place();
        let broker = self.random.index(options.brokers as usize);
        if self.random.chance(options.move_per_thousand) {
            let what = self.brokers.move_leader(place);
            self.trace.event(what);
        }
        if self.random.chance(options.restart_per_thousand) {
            let what = self.brokers.restart(broker);
            self.trace.event(what);
            let wires = self.network.wires.values_mut();
            let now_us = self.now_us;
            wires.filter(|wire| wire.broker == broker as i32).for_each(|wire| wire.breaks_us = Some(now_us));
        }
        if self.random.chance(options.create_per_thousand) {
            self.trace.event(format!("{} is made anew", TOPICS[place.0]));
            self.brokers.create(place.0);
        }
        if self.random.chance(options.forget_per_thousand) {
            self.brokers.forget_session(broker);
        }
        if self.random.chance(options.delete_per_thousand) {
            let is_compacted = self.random.chance(500);
            let log = self.brokers.log(place);
            let batch = self.random.index(log.batches.len() + 1);
            if is_compacted {
                log.compact(batch)
            } else {
                log.retain_from(batch)
            }
            self.trace.event(format!("{place:?} begins at {}: {is_compacted}", log.start));
        }
        if self.random.chance(options.break_per_thousand) && !self.network.wires.is_empty() {
            let place = self.random.index(self.network.wires.len());
            let at = self.now_us + self.random.below(options.delay_us);
            let wire = self.network.wires.values_mut().nth(place).expect("it was counted");
            wire.breaks_us.get_or_insert(at);
        }
    }

    /// Reads something else, or no more, or again.
    fn change_mind(&mut self) {
        if self.random.chance(self.options.seek_per_thousand) {
            if self.random.chance(200) {
                self.assign();
            } else {
                let place = self.place();
                let start = self.start(place);
                self.seek(place, start);
            }
        }
        if self.random.chance(self.options.pause_per_thousand) {
            let place = self.place();
            let Some(follow) = self.reading.get_mut(&place) else { return };
            follow.is_paused = !follow.is_paused;
            self.trace.event(format!("{place:?} is paused: {}", follow.is_paused));
            if follow.is_paused {
                self.inbox.pause(&mut self.consumer, &of(place), self.plant);
            } else {
                self.consumer.set_paused(&of(place), false);
            }
            self.step_consumer();
        }
    }

    fn start(&mut self, place: Place) -> Start {
        let end = self.end_of(place) as u64;
        match self.random.below(4) {
            0 => Start::Earliest,
            1 => Start::Latest,
            2 => Start::Time(EPOCH.saturating_add(Duration::from_micros(self.random.below(self.now_us + 1)))),
            _ => Start::Offset(Offset(self.random.below(end + 2) as i64)),
        }
    }

    fn assign(&mut self) {
        let mut wanted = BTreeMap::new();
        let places: Vec<Place> = self.brokers.logs.keys().copied().collect();
        for place in places {
            if self.random.chance(700) {
                let start = self.start(place);
                wanted.insert(place, start);
            }
        }
        self.trace.event(format!("assigned: {wanted:?}"));
        let failing: Vec<Place> = self.inbox.failing(&self.consumer).map(place_of).collect();
        self.consumer.assign(wanted.iter().map(|(&place, &start)| (of(place), start)));
        let mut known = std::mem::take(&mut self.reading);
        for (place, start) in wanted {
            // What failed begins anew, although the reader has not heard of it yet.
            let goes_on = known.remove(&place).filter(|_| !failing.contains(&place));
            let follow = goes_on.unwrap_or_else(|| Follow::new(start, self.now_us));
            self.reading.insert(place, follow);
        }
        self.inbox.drop_stale(&mut self.consumer, self.plant);
        self.step_consumer();
    }

    fn seek(&mut self, place: Place, start: Start) {
        let Some(follow) = self.reading.get_mut(&place) else { return };
        self.trace.event(format!("{place:?} is sought to {start:?}"));
        follow.seek(start, self.now_us);
        self.go(place, start);
    }

    /// Tells the consumer where to go on.
    fn go(&mut self, place: Place, start: Start) {
        if !self.consumer.seek(&of(place), start) {
            self.violation("what is assigned can be sought", format!("{place:?}"));
        }
        if let (Start::Offset(wanted), known) = (start, self.consumer.position(&of(place)))
            && known != Some(wanted)
        {
            self.violation("a seek is a position", format!("{known:?} after {wanted}"));
        }
        self.inbox.drop_stale(&mut self.consumer, self.plant);
        self.step_consumer();
    }

    /// Reads a batch, if there is one.
    fn read(&mut self) {
        match self.inbox.next(&mut self.consumer, self.plant) {
            Found::Nothing => {}
            Found::Batch => self.lend(),
            Found::Failed(of, error) => self.on_failure(place_of(&of), &error),
        }
        self.step_consumer();
    }

    fn lend(&mut self) {
        let chunk = self.inbox.current.as_ref().expect("it went to a batch");
        let place = place_of(chunk.of());
        let batch = chunk.batch();
        let records = batch.records(&mut self.scratch);
        let mut lent = Vec::new();
        for record in records.expect("its checksum is right") {
            let record = record.expect("its checksum is right");
            let value =
                record.value.and_then(|value| value.first_chunk()).map(|value| u64::from_be_bytes(*value));
            let value = if batch.header().attributes.is_control() { None } else { value };
            lent.push(Lent {
                place,
                offset: record.offset(batch.header()).0,
                value: value.unwrap_or(u64::MAX),
            });
        }
        for lent in lent {
            self.trace.event(format!("{:>9} {lent:?}", self.now_us));
            let wrong = match self.reading.get_mut(&place) {
                Some(follow) if follow.is_paused => Some("of what is paused"),
                Some(follow) => {
                    self.found.extend(follow.lent(lent, &self.brokers).err());
                    None
                }
                None => Some("of what is not assigned"),
            };
            if let Some(wrong) = wrong {
                self.violation("only what is asked for is lent", format!("{lent:?} {wrong}"));
            }
        }
    }

    /// A partition cannot be read on: there must be a reason, and it is sought anew.
    fn on_failure(&mut self, place: Place, error: &ConsumeError) {
        self.trace.event(format!("{:>9} {place:?} fails: {error}", self.now_us));
        let said = self.brokers.said.get(&place).cloned().unwrap_or_default();
        let is_said = |wanted: &dyn Fn(Said) -> bool| said.iter().any(|(_, said)| wanted(*said));
        let is_true = match error {
            ConsumeError::OutOfRange(at) => {
                self.options.reset == Reset::None
                    && is_said(&|said| matches!(said, Said::OutOfRange(offset) if offset == at.0))
            }
            ConsumeError::Truncated { at, position } => {
                is_said(&|said| matches!(said, Said::Diverges(end) if end.min(position.0) == at.0))
            }
            ConsumeError::Corrupt { .. } => self.options.rot_per_thousand > 0,
            ConsumeError::NoOffset | ConsumeError::Group(_) | ConsumeError::Refused(_) => false,
        };
        if !is_true {
            self.violation("a failure has a reason", format!("{place:?}: {error}"));
        }
        if !self.reading.contains_key(&place) {
            return self.violation("only what is asked for fails", format!("{place:?}: {error}"));
        }
        match *error {
            ConsumeError::Truncated { at, .. } => self.seek(place, Start::Offset(at)),
            // Nothing of it was lent: the reader has not moved.
            ConsumeError::Corrupt { at, .. } => {
                self.reading.entry(place).and_modify(Follow::forget_history);
                self.go(place, Start::Offset(at));
            }
            ConsumeError::OutOfRange(_)
            | ConsumeError::NoOffset
            | ConsumeError::Group(_)
            | ConsumeError::Refused(_) => self.seek(place, Start::Earliest),
        }
    }

    fn check_memory(&mut self) {
        let unread = self.consumer.unread_bytes();
        if unread != self.inbox.bytes() {
            let what = format!("{unread} bytes are unread, {} wait", self.inbox.bytes());
            self.violation("what is unread is counted", what);
        }
        // A batch is sent whole, however large it is.
        let batch = 61 + 5 * (self.options.value_bytes_max as usize + 30);
        let answers = self.options.brokers as usize * batch.max(self.options.fetch_bytes_max as usize);
        if unread > self.options.prefetch_bytes_max + answers {
            self.violation("memory is bounded", format!("{unread} bytes wait"));
        }
    }

    fn step_consumer(&mut self) {
        let now = self.now();
        self.consumer.step(now, &mut self.effects);
        self.perform();
    }

    /// Something happens by itself: the next thing there is.
    fn pass_time(&mut self) {
        let deadline = self.consumer.deadline(self.now()).map(|at| at.as_micros() as u64 + 1);
        let next = [deadline, self.network.next_us()].into_iter().flatten().min();
        // Its user does not wait for it to have something to do.
        let next = next.unwrap_or(self.now_us + 1_000).min(self.now_us + STEP_MAX_US);
        self.now_us = next.max(self.now_us);
        self.brokers.now_us = self.now_us;
        if deadline.is_some_and(|at| at <= self.now_us) {
            self.step_consumer();
        }
        self.arrive();
    }
}

fn of(place: Place) -> TopicPartition {
    let topic = TopicName::new(TOPICS[place.0]).expect("it is legal");
    TopicPartition { topic, partition: PartitionIndex(place.1) }
}

fn place_of(of: &TopicPartition) -> Place {
    let topic = TOPICS.iter().position(|topic| *topic == of.topic.as_str());
    (topic.expect("no other is read"), of.partition.0)
}
