//! One record at a time: sent, acknowledged, read, and then the next.
//!
//! On one thread, so that nothing is measured but the way there and back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::Scratch;
use client::consumer::{Consumer, Start};

use super::send::{CLOSE_MAX, Records, payload};
use super::{Outcome, Run, Show, Timing, Watched};
use crate::histogram::histogram;
use crate::mark::MARK_BYTES;
use crate::meter::{Counting, Flow, Meter};
use crate::schedule::Punctuality;
use crate::stamp::Stamp;
use crate::verify::{Checker, ReadAt};

/// A record that is not read by then is lost.
const READ_MAX: Duration = Duration::from_secs(60);
/// Nothing is sent behind the last record: what still comes then was sent twice.
const LATE_MAX: Duration = Duration::from_secs(1);

/// From when a record is sent: until it is acknowledged, and until it is read.
struct Meters {
    acknowledged: Arc<Meter>,
    read: Arc<Meter>,
}

impl Meters {
    fn new(timing: Timing) -> Self {
        let [acknowledged, read] = [(); 2].map(|()| {
            let meter = Meter::new(timing.steady_from, Counting::Due);
            meter.lock().begin(timing.started);
            Arc::new(meter)
        });
        Self { acknowledged, read }
    }
}

pub(super) fn run(run: &Run<'_>, show: &mut Show<'_>) -> Result<Outcome> {
    let workload = run.target.workload;
    let producer = run.clients.producer()?.build()?;
    let mut reader = Reader::new(run)?;
    let payload = payload(workload)?;
    ensure!(
        payload.free_bytes() == 0 || payload.free_bytes() >= MARK_BYTES,
        "one_at_a_time: records have {MARK_BYTES} bytes at least, by which they are known"
    );
    let mut records = Records::of(workload, workload.keys()?, run.id, 0, payload);
    let topic = run.topics.names().first().context("it has a topic")?;
    let (timing, scraped) = run.timing();
    let meters = Meters::new(timing);
    let of_both = (vec![meters.acknowledged.clone()], vec![meters.read.clone()]);
    let mut call = histogram();
    let (mut sent, mut steady) = (0, 0);
    let mut watch = run.watch((timing, scraped), of_both);
    while !run.target.stop.load(Ordering::Relaxed) && timing.records.is_none_or(|records| steady < records) {
        let due = run.clock.now();
        if timing.until.is_some_and(|until| due >= until) {
            break;
        }
        let delivery = records.next(topic, 0, due, |record| producer.send_blocking(record))?;
        let taken = run.clock.now();
        delivery.wait().with_context(|| format!("record {sent}"))?;
        let acknowledged = run.clock.now();
        sent += 1;
        let bytes = reader.read(sent, READ_MAX).with_context(|| format!("record {}", sent - 1))?;
        let read = run.clock.now();
        meters.acknowledged.lock().record(due, Some(taken), acknowledged, bytes);
        meters.read.lock().record(due, None, read, bytes);
        if due >= timing.steady_from {
            steady += 1;
            call.saturating_record((taken - due).as_nanos() as u64);
        }
        watch.look_if_due(read, show);
    }
    watch.rest(run.clock.now(), show);
    let Watched { seconds, rest, grown, fault } = watch.end();
    let closing = run.clock.now();
    producer.close_blocking(CLOSE_MAX);
    let close = run.clock.now().saturating_sub(closing);
    reader.read_late()?;
    let written = meters.acknowledged.lock().steady().clone();
    let read = meters.read.lock().steady().clone();
    Ok(Outcome {
        written: Some(Flow::from(written, timing.steady_from)),
        read: Some(Flow::from(read, timing.steady_from)),
        send_call: call,
        punctuality: Punctuality::default(),
        seconds,
        rest,
        verdict: reader.checker.verdict_on(&[sent], &[]).of_own_topics(),
        subscriptions: 1,
        failed: 0,
        first_failure: None,
        close,
        grown,
        stamp: Stamp::default(),
        settings: run.clients.properties(),
        notes: run.clients.notes(),
        befell: fault.into_iter().collect(),
        clocks: Vec::new(),
        log_bytes_per_record: None,
    })
}

/// Reads all partitions, and checks every record.
struct Reader<'a> {
    run: &'a Run<'a>,
    consumer: Consumer,
    scratch: Scratch,
    checker: Checker,
    /// Of the values that came.
    bytes: u64,
}

impl<'a> Reader<'a> {
    fn new(run: &'a Run<'a>) -> Result<Self> {
        let mut consumer = run.clients.consumer()?.build()?;
        let places = (0..run.topics.places()).map(|place| run.topics.at(place));
        consumer.assign(places.map(|(topic, partition)| (topic, partition, Start::Earliest)));
        let (scratch, checker) = (Scratch::default(), Checker::new(Some(run.id)));
        Ok(Self { run, consumer, scratch, checker, bytes: 0 })
    }

    /// Reads until so many records came; how many bytes the values have that were read for that.
    fn read(&mut self, records: u64, timeout: Duration) -> Result<u64> {
        let before = self.bytes;
        while self.checker.so_far().arrived() < records {
            ensure!(self.read_batch(timeout)?, "it was not read for {timeout:?}");
            self.checker.so_far().clone().into_result()?;
        }
        Ok(self.bytes - before)
    }

    fn read_late(&mut self) -> Result<()> {
        while self.read_batch(LATE_MAX)? {}
        Ok(())
    }

    /// False if none comes in time.
    fn read_batch(&mut self, timeout: Duration) -> Result<bool> {
        let Some(batch) = self.consumer.next_batch_within(timeout)? else { return Ok(false) };
        let place = self.run.topics.place(batch.topic(), batch.partition().0);
        let place = place.context("it was not asked for")?;
        let (header, topic, partition) = (*batch.header(), batch.topic(), batch.partition());
        for record in batch.records(&mut self.scratch)? {
            let record = record?;
            self.bytes += record.value.map_or(0, |value| value.len() as u64);
            self.checker
                .check(ReadAt { place, topic, partition, offset: record.offset(&header) }, &record)?;
        }
        Ok(true)
    }
}
