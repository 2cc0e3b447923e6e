//! A producer of ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use client::producer::{DeliveryError, DeliveryReport, Producer, Record, Reported};
use e2e::Chance;

use super::{Shared, pause};
use crate::cluster::TOPIC;
use crate::history::{Event, History, Promises, Sent};
use crate::value;

/// Longer than the longest fault of a plan, shorter than what stands at its end.
const DELIVERY_MAX: Duration = Duration::from_secs(30);
/// Records that are sent at once.
const TOGETHER_MAX: u64 = 8;

/// Writes until it is to stop, to all partitions in turn.
pub(super) fn run(shared: &Shared, rate: u32, seed: u64) -> Result<()> {
    let mut chance = Chance::new(seed);
    while !shared.stop.is_set() {
        // A producer that failed for good is followed by another, as an application would do it.
        one_life(shared, rate, &mut chance)?;
    }
    Ok(())
}

fn one_life(shared: &Shared, rate: u32, chance: &mut Chance) -> Result<()> {
    let by = shared.producer("vltava", Promises::OnceInOrder);
    let failed = Arc::new(AtomicBool::new(false));
    let producer = build(shared, by, Arc::clone(&failed))?;
    let (mut number, mut partition) = (0, by as i32 % shared.partitions);
    while !failed.load(Ordering::Relaxed) {
        let count = 1 + chance.pick(0..TOGETHER_MAX);
        let sent = Sent { by, partition, first: number, count: count as u32 };
        shared.history.push(Event::Invoke(sent));
        send(&producer, shared, sent);
        number += count;
        partition = (partition + 1) % shared.partitions;
        if shared.stop.wait(pause(rate) * count as u32) {
            break;
        }
    }
    // What is not known by then is reported as not known.
    producer.close_blocking(if shared.interrupted.is_set() { Duration::ZERO } else { DELIVERY_MAX });
    Ok(())
}

fn build(shared: &Shared, by: u32, failed: Arc<AtomicBool>) -> Result<Producer> {
    let history = Arc::clone(&shared.history);
    let builder = Producer::builder(&shared.bootstrap)
        .client_id(&format!("torture-{by}"))
        .delivery_timeout(DELIVERY_MAX)
        .request_timeout(Duration::from_secs(5))
        .block_max(Duration::from_secs(5))
        .on_delivery(move |report| {
            if matches!(report.outcome, Err(DeliveryError::Failed { .. })) {
                failed.store(true, Ordering::Relaxed);
            }
            take_down(&history, by, report);
        });
    Ok(builder.build()?)
}

/// Sends values that are written down already; those that the producer does not take were never sent.
fn send(producer: &Producer, shared: &Shared, sent: Sent) {
    for index in 0..sent.count {
        let number = sent.first + u64::from(index);
        let value = value::bytes(sent.by, number);
        let record = Record::to(TOPIC).partition(sent.partition).value(&value).tag(number);
        if let Err(why) = producer.send_blocking(&record) {
            let rest = Sent { first: number, count: sent.count - index, ..sent };
            return shared.history.push(Event::Fail { sent: rest, why: why.to_string() });
        }
    }
}

/// What became of a batch.
fn take_down(history: &History, by: u32, report: &DeliveryReport<'_>) {
    for (at, sent) in runs(by, report.partition.0, report.records) {
        history.push(match &report.outcome {
            Ok(base) => Event::Ok { sent, offset: base.map(|base| base.0 + at as i64) },
            Err(why) if why.may_be_written() => Event::Info { sent, why: why.to_string() },
            Err(why) => Event::Fail { sent, why: why.to_string() },
        });
    }
}

/// Records whose numbers follow each other, with the place of the first in the batch.
fn runs(by: u32, partition: i32, records: &[Reported]) -> Vec<(usize, Sent)> {
    let mut runs: Vec<(usize, Sent)> = Vec::new();
    for (at, record) in records.iter().enumerate() {
        match runs.last_mut() {
            Some((_, run)) if run.first + u64::from(run.count) == record.tag => run.count += 1,
            _ => runs.push((at, Sent { by, partition, first: record.tag, count: 1 })),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_taken_together() {
        let records = [3, 4, 5, 9, 10, 4].map(|tag| Reported { tag, taken_ns: 0, value_bytes: 0 });
        let sent = |first, count| Sent { by: 7, partition: 2, first, count };
        assert_eq!(runs(7, 2, &records), [(0, sent(3, 3)), (3, sent(9, 2)), (5, sent(4, 1))]);
    }
}
