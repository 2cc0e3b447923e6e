//! The senders of a run: each sends its records by a producer of its own, when they are due.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use client::producer::{DeliveryReport, Producer, Record, SendError};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{Run, Shift, Timing, tag};
use crate::ceiling::SCALED;
use crate::chance::Chance;
use crate::histogram::{histogram, whole};
use crate::keys::{KeyStream, Keys};
use crate::mark::{Form, MARK_BYTES, Marker, SHORT_MARK_BYTES, TIMED_MARK_BYTES};
use crate::meter::{Counting, Measured, Meter};
use crate::payload::Payload;
use crate::schedule::{Arrivals, Punctuality, Rate, Schedule, wait_until};
use crate::template::Template;
use crate::watch::Watch;
use crate::workload::{Pace, Workload};

/// All senders, ready to start.
pub(super) struct Sending<'a> {
    workload: &'a Workload,
    topics: &'a [String],
    run: u64,
    keys: Keys,
    timing: Timing,
    shift: Shift,
    stop: &'a AtomicBool,
    senders: Vec<Sender>,
}

struct Sender {
    number: u16,
    producer: Producer,
    payload: Mutex<Option<Payload>>,
    account: Arc<Account>,
}

/// What a producer tells of, on its own thread.
struct Account {
    meter: Arc<Meter>,
    /// Whether records are due at set times: of others, which are due when they are taken, there is no delay.
    has_schedule: bool,
    /// The number of the record that was sent last.
    latest: AtomicU64,
    given_up: Mutex<Vec<u64>>,
    failure: Mutex<Option<String>>,
}

/// What the senders came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// How long calls of `send` took.
    #[serde(with = "whole")]
    pub(super) call: Histogram<u64>,
    pub(super) punctuality: Punctuality,
    /// How many each sent, of all of the workload; nothing of those that are another machine's.
    pub(super) records: Vec<u64>,
    /// The numbers of those of each that were given up, in order.
    pub(super) given_up: Vec<Vec<u64>>,
    /// Those that were not taken, and have no numbers.
    pub(super) refused: u64,
    pub(super) first_failure: Option<String>,
    /// How long it took until a producer was closed, of all the longest.
    pub(super) close: Duration,
}

/// Longer than a record may be on its way: by then the fate of all is known.
pub(super) const CLOSE_MAX: Duration = Duration::from_secs(600);
/// Whoever waits until a record is due looks so often whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

impl Sent {
    /// Nobody sent anything yet.
    pub(crate) fn nothing(workload: &Workload) -> Self {
        let senders = usize::from(workload.producers);
        Self {
            call: histogram(),
            punctuality: Punctuality::default(),
            records: vec![0; senders],
            given_up: vec![Vec::new(); senders],
            refused: 0,
            first_failure: None,
            close: Duration::ZERO,
        }
    }

    /// Adds what others sent of the same workload.
    pub(crate) fn absorb(&mut self, other: Self) -> Result<()> {
        let senders = self.records.len();
        ensure!(
            other.records.len() == senders && other.given_up.len() == senders,
            "it has other senders than the workload"
        );
        self.call.add(&other.call).context("histograms have the same bounds")?;
        self.punctuality.add(&other.punctuality);
        self.refused += other.refused;
        self.close = self.close.max(other.close);
        self.first_failure = self.first_failure.take().or(other.first_failure);
        for (sender, (records, given_up)) in other.records.into_iter().zip(other.given_up).enumerate() {
            let is_others = records > 0 || !given_up.is_empty();
            ensure!(!is_others || self.records[sender] == 0, "sender {sender} was started twice");
            if is_others {
                self.records[sender] = records;
                self.given_up[sender] = given_up;
            }
        }
        Ok(())
    }

    /// Records that a broker said it has; with acks=0, those that were sent.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.records.iter().sum::<u64>() - self.given_up()
    }

    /// Records that were given up, or not taken at all.
    pub(super) fn failed(&self) -> u64 {
        self.given_up() + self.refused
    }

    /// Says it if no more was sent than that for want of room.
    pub(super) fn ended(&self, workload: &Workload) -> Option<String> {
        let all: u64 = self.records.iter().sum();
        workload.records_max.filter(|max| all >= *max).map(|max| {
            format!(
                "{SCALED}it ended with {max} records, those of the warm-up among them, before it was over: the disk has room \
                 for no more, or records_max allows no more"
            )
        })
    }

    fn given_up(&self) -> u64 {
        self.given_up.iter().map(|of_sender| of_sender.len() as u64).sum()
    }
}

/// The rate at which records are due at set times; `None` where they are sent as fast as can be.
const fn set_rate(workload: &Workload) -> Option<Rate> {
    match workload.rate {
        // What is only stored for others to read is stored as fast as can be.
        Pace::Rate(rate) if !workload.stored => Some(rate),
        _ => None,
    }
}

/// What counts for the throughput of a workload.
pub(super) const fn counting(workload: &Workload) -> Counting {
    if set_rate(workload).is_some() { Counting::Due } else { Counting::Came }
}

/// A sender's thread.
pub(super) type Handle<'scope> = ScopedJoinHandle<'scope, Result<Sent>>;

/// What chance is used for, so that one use does not change another.
enum Draws {
    Payload,
    Keys,
    Arrivals,
}

fn chance(workload: &Workload, sender: u16, draws: Draws) -> Chance {
    Chance::new(workload.seed, u64::from(sender) << 2 | draws as u64)
}

/// The values of a workload, for its first sender.
pub(super) fn payload(workload: &Workload) -> Result<Payload> {
    let chance = chance(workload, 0, Draws::Payload);
    let size = workload.record_bytes;
    match workload.payload.split_once(':') {
        None if workload.payload == "letters" => Ok(Payload::letters(size, chance)),
        None if workload.payload == "log-lines" => Payload::log_lines(chance),
        Some(("share", share)) => {
            let share = share.parse().ok().filter(|share| (0.0..=1.0).contains(share));
            let share = share.context("payload: share:NUMBER, where the number is from 0 to 1")?;
            Ok(Payload::compressible(size, share, chance))
        }
        Some(("file", path)) => {
            let payload = Payload::of_file(Path::new(path))?;
            let has = payload.free_bytes();
            ensure!(has == size, "record_bytes: {size}, and {path} has {has} bytes");
            Ok(payload)
        }
        Some(("lines", path)) => Payload::lines(Path::new(path), b"\n", chance),
        Some(("template", text)) => Ok(Payload::Template(Template::new(text, 0, chance)?)),
        _ => bail!(
            "payload: {} is neither letters, log-lines, share:NUMBER, file:PATH, lines:PATH nor template:TEXT",
            workload.payload
        ),
    }
}

impl<'a> Sending<'a> {
    /// Starts the producers; nothing is sent.
    pub(super) fn prepare(run: &Run<'a>, timing: Timing) -> Result<Self> {
        let workload = run.target.workload;
        let first = payload(workload)?;
        let mut senders = Vec::new();
        for number in (0..workload.producers).filter(|number| run.share.has((*number).into())) {
            let account = Arc::new(Account::new(timing.steady_from, counting(workload)));
            let told = account.clone();
            let producer =
                run.clients.producer()?.on_delivery(move |report| told.on_delivery(report)).build()?;
            // No two senders have the same numbers in what counts up.
            let payload = first.another(u64::from(number) << 40, chance(workload, number, Draws::Payload));
            senders.push(Sender { number, producer, payload: Mutex::new(Some(payload)), account });
        }
        Ok(Self {
            workload,
            topics: run.topics.names(),
            run: run.id,
            keys: workload.keys()?,
            timing,
            shift: run.shift,
            stop: run.target.stop,
            senders,
        })
    }

    pub(super) fn meters(&self) -> Vec<Arc<Meter>> {
        self.senders.iter().map(|sender| sender.account.meter.clone()).collect()
    }

    /// The steady state of all of them.
    pub(super) fn measured(&self) -> Measured {
        let mut sum = Measured::default();
        self.senders.iter().for_each(|sender| sum.add(sender.account.meter.lock().steady()));
        sum
    }

    /// Starts their threads, each of which holds `working` while it works.
    pub(super) fn start<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        working: mpsc::Sender<()>,
    ) -> Vec<Handle<'scope>> {
        let start = |sender: &'scope Sender| {
            let working = working.clone();
            scope.spawn(move || {
                let _working = working;
                self.send_all(sender)
            })
        };
        self.senders.iter().map(start).collect()
    }

    /// The topics that a sender writes to: all of them have one that does.
    fn topics_of(&self, sender: u16) -> Vec<&'a str> {
        let senders = usize::from(self.workload.producers);
        let (topics, sender) = (self.topics.len(), usize::from(sender));
        let is_its = |at: usize| {
            if senders >= topics { at == sender % topics } else { at % senders == sender }
        };
        (0..topics).filter(|at| is_its(*at)).map(|at| &*self.topics[at]).collect()
    }

    fn schedule(&self, sender: u16) -> Option<Schedule> {
        let rate = set_rate(self.workload)?;
        let arrivals = if self.workload.arrivals == "poisson" { Arrivals::Poisson } else { Arrivals::Fixed };
        let chance = chance(self.workload, sender, Draws::Arrivals);
        Some(Schedule::new(arrivals, rate, sender.into(), self.workload.producers.into(), chance))
    }

    /// How many records of the steady state were not sent any more when the time was up: the one that was due then,
    /// and those behind it.
    fn unsent(&self, mut schedule: Schedule, due: Duration) -> u64 {
        let Timing { started, steady_from, until, .. } = self.timing;
        let Some(until) = until.filter(|until| due < *until) else { return 0 };
        let after_start = |time: Duration| time.saturating_sub(started);
        u64::from(due >= steady_from) + schedule.left_within(after_start(steady_from), after_start(until))
    }

    /// Waits until a record is due, or the time is up, or whoever stops it does.
    fn wait_until_due(&self, due: Duration, producer: &Producer) {
        let due = self.timing.until.map_or(due, |until| due.min(until));
        while !self.stop.load(Ordering::Relaxed) && producer.elapsed() < due {
            wait_until(due.min(producer.elapsed() + LOOK), || producer.elapsed());
        }
    }

    /// Sends the records of one sender, and waits until their fate is known.
    fn send_all(&self, sender: &Sender) -> Result<Sent> {
        let Sender { number, producer, account, .. } = sender;
        let payload = sender.payload.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut records = Records::new(self, *number, payload.context("it was started before")?);
        let topics = self.topics_of(*number);
        let mut schedule = self.schedule(*number);
        let mut watch = Watch::new(self.timing.started);
        let senders = u64::from(self.workload.producers);
        let part = |all: u64| all / senders + u64::from(u64::from(*number) < all % senders);
        let (quota, most) = (self.timing.records.map(part), self.workload.records_max.map(part));
        let (mut calls, mut sent, mut steady, mut refused) = (0, 0, 0, 0);
        let mut unsent_from = None;
        // That is a while after all is ready.
        wait_until(self.timing.started, || producer.elapsed());
        account.meter.lock().begin(producer.elapsed());
        let is_more = |steady: u64, sent: u64| {
            quota.is_none_or(|quota| steady < quota) && most.is_none_or(|most| sent < most)
        };
        while !self.stop.load(Ordering::Relaxed) && is_more(steady, sent) {
            let scheduled =
                schedule.as_mut().map(|schedule| self.timing.started.saturating_add(schedule.next_due()));
            if let Some(due) = scheduled.filter(|due| *due > watch.seen) {
                self.wait_until_due(due, producer);
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            let due = scheduled.unwrap_or(watch.seen);
            let reached = if self.workload.stop_on_time { watch.seen.max(due) } else { due };
            if self.timing.until.is_some_and(|until| reached >= until) {
                unsent_from = scheduled;
                break;
            }
            let is_steady = due >= self.timing.steady_from;
            steady += u64::from(is_steady);
            let tag = tag::pack(sent, due);
            account.latest.store(sent, Ordering::Relaxed);
            let topic = topics[(sent % topics.len() as u64) as usize];
            let done = records.next(topic, tag, self.shift.shared(due), |record| {
                watch.send(producer, record, (calls, scheduled, is_steady))
            });
            calls += 1;
            let Err(error) = done else {
                sent += 1;
                continue;
            };
            records.take_back();
            let may_fail = self.workload.may_give_up;
            // Whoever may not wait cannot know where its first records go.
            if !(may_fail && matches!(error, SendError::TopicNotKnownYet { .. })) {
                account.fail(1, &error);
                refused += 1;
            }
            let is_passing = may_take_the_next(&error) || may_fail && error.is_retriable();
            if !is_passing {
                break;
            }
        }
        let closing = producer.elapsed();
        producer.clone().close_blocking(CLOSE_MAX);
        let close = producer.elapsed().saturating_sub(closing);
        // They may be many: counted before, that would be a rest for the brokers that closing does not have.
        if let (Some(schedule), Some(due)) = (schedule, unsent_from) {
            watch.punctuality.record_unsent(self.unsent(schedule, due));
        }
        let nothing = Sent { refused, close, ..Sent::nothing(self.workload) };
        Ok(account.sent(watch, *number, nothing, sent))
    }
}

/// Whether the next record may be taken after this: what is wrong with the topic or the producer is wrong with
/// all of them, and would be waited for as long each time.
fn may_take_the_next(error: &SendError) -> bool {
    matches!(error, SendError::Full | SendError::TooLarge { .. })
}

/// The records of one sender, one after the other, with their marks.
pub(super) struct Records {
    payload: Payload,
    keys: Option<KeyStream>,
    marker: Option<Marker>,
}

impl Records {
    fn new(sending: &Sending<'_>, number: u16, payload: Payload) -> Self {
        Self::of(sending.workload, sending.keys, sending.run, number, payload)
    }

    /// Those of one of the senders of a run.
    pub(super) fn of(workload: &Workload, keys: Keys, run: u64, number: u16, payload: Payload) -> Self {
        Self {
            keys: KeyStream::new(keys, number.into(), chance(workload, number, Draws::Keys)),
            marker: form(workload).map(|form| Marker::new(run, number, form)),
            payload,
        }
    }

    /// Makes the next one and has it sent.
    #[inline]
    pub(super) fn next<T>(
        &mut self,
        topic: &str,
        tag: u64,
        due: Duration,
        send: impl FnOnce(&Record<'_>) -> T,
    ) -> T {
        let mut record = Record::to(topic).tag(tag);
        let key = self.keys.as_mut().map(KeyStream::next_key);
        if let Some(key) = key {
            record = record.key(key);
        }
        let value = self.payload.next_value();
        let Some(marker) = &mut self.marker else { return send(&record.value(value)) };
        let marked = marker.mark(key, value, due.as_nanos() as u64);
        send(&record.value(marked.value).headers(marked.header.as_slice()))
    }

    /// The record that was made last was not taken: the next one gets its number.
    fn take_back(&mut self) {
        if let Some(marker) = &mut self.marker {
            marker.take_back();
        }
    }
}

/// How the records of a workload are marked, if they have room for it. No payload is made for that: its file may be
/// another machine's. A mark in a header would make of small records others than were asked for; of those of a kilobyte
/// it makes four in a hundred.
pub(super) fn form(workload: &Workload) -> Option<Form> {
    if !workload.is_filled() {
        return Some(Form::Header { is_timed: true });
    }
    match workload.record_bytes {
        TIMED_MARK_BYTES.. => Some(Form::Value { is_timed: true }),
        MARK_BYTES.. => Some(Form::Value { is_timed: false }),
        // There are no more than 256 senders.
        SHORT_MARK_BYTES.. => Some(Form::Short),
        _ => None,
    }
}

impl Account {
    fn new(steady_from: Duration, counting: Counting) -> Self {
        Self {
            meter: Arc::new(Meter::new(steady_from, counting)),
            has_schedule: counting == Counting::Due,
            latest: AtomicU64::new(0),
            given_up: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// Runs on the producer's thread, once for each batch.
    fn on_delivery(&self, report: &DeliveryReport<'_>) {
        if let Err(error) = report.outcome {
            let latest = self.latest.load(Ordering::Relaxed);
            return self.give_up(report.records.iter().map(|record| tag::number(record.tag, latest)), error);
        }
        let (mut meter, mut steady) = (self.meter.lock(), 0);
        for record in report.records {
            let (due, taken) = (tag::due(record.tag, report.at), Duration::from_nanos(record.taken_ns));
            let is_steady = meter.record(due, Some(taken), report.at, record.value_bytes.into());
            steady += u64::from(is_steady);
            if self.has_schedule {
                meter.record_delay(taken.saturating_sub(due), is_steady);
            }
        }
        if let Some(left) = report.left_at {
            meter.record_left(left, report.at, report.records.len() as u64, steady);
        }
    }

    fn give_up(&self, numbers: impl IntoIterator<Item = u64>, why: &dyn std::error::Error) {
        let mut given_up = self.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        let before = given_up.len();
        given_up.extend(numbers);
        let more = given_up.len() - before;
        drop(given_up);
        self.fail(more as u64, why);
    }

    /// Records were given up, or not taken.
    fn fail(&self, records: u64, why: &dyn std::error::Error) {
        self.meter.lock().fail(records);
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert_with(|| why.to_string());
    }

    fn sent(&self, watch: Watch, number: u16, nothing: Sent, records: u64) -> Sent {
        let mut given_up = std::mem::take(&mut *self.given_up.lock().unwrap_or_else(PoisonError::into_inner));
        given_up.sort_unstable();
        let Watch { call, punctuality, .. } = watch;
        let first_failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut sent = Sent { call, punctuality, first_failure, ..nothing };
        sent.records[usize::from(number)] = records;
        sent.given_up[usize::from(number)] = given_up;
        sent
    }
}

/// Waits for all of them.
pub(super) fn join(handles: Vec<Handle<'_>>, workload: &Workload) -> Result<Sent> {
    let mut all = Sent::nothing(workload);
    for handle in handles {
        all.absorb(handle.join().map_err(|_| anyhow!("a thread that sends panicked"))??)?;
    }
    Ok(all)
}
