//! The threads of a run: each sends the records of one producer when they are due.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result};
use client::producer::{Producer, Record};
use hdrhistogram::Histogram;

use super::super::arrivals::{Punctuality, wait_until};
use super::super::keys::KeyStream;
use super::super::mark::Marker;
use super::super::stats::histogram;
use super::super::tally::Tally;
use super::show::Show;
use super::{Arguments, Draws};

/// What the threads of a run found out.
pub(super) struct Sent {
    /// How long each call of `send` took.
    pub(super) call: Histogram<u64>,
    pub(super) punctuality: Punctuality,
    /// How many records each producer took.
    pub(super) records: Vec<u64>,
}

/// Runs the producers, each in a thread of its own, and shows how it goes.
pub(super) fn send(
    arguments: &Arguments,
    producers: &[Producer],
    run: Option<u64>,
    tally: &Tally,
    show: &mut Show<'_>,
) -> Result<Sent> {
    let clock = &producers[0];
    std::thread::scope(|scope| {
        // Nothing is sent here: the last sender that goes says that all threads are done.
        let (working, all_done) = mpsc::channel::<()>();
        let spawn = |(producer, number)| {
            let working = working.clone();
            scope.spawn(move || {
                let _working = working;
                send_all(arguments, producer, number, run)
            })
        };
        let threads: Vec<_> = producers.iter().zip(0..).map(spawn).collect();
        drop(working);
        let interval = Duration::from_millis(arguments.reporting_interval);
        let look_again = show.progress.interval();
        let left = || tally.until_next_line(clock.elapsed(), interval).min(look_again);
        while let Err(RecvTimeoutError::Timeout) = all_done.recv_timeout(left()) {
            show.tick(tally, clock.elapsed(), interval)?;
        }
        let mut sent = Sent { call: histogram(), punctuality: Punctuality::default(), records: Vec::new() };
        for thread in threads {
            let of_thread = thread.join().map_err(|_| anyhow::anyhow!("a producer's thread panicked"))??;
            sent.call.add(&of_thread.call).context("histograms have the same bounds")?;
            sent.punctuality.add(&of_thread.punctuality);
            sent.records.extend(of_thread.records);
        }
        Ok(sent)
    })
}

/// Sends the records of one producer, and waits until their fate is known.
fn send_all(arguments: &Arguments, producer: &Producer, number: u16, run: Option<u64>) -> Result<Sent> {
    let (mut call, mut punctuality) = (histogram(), Punctuality::default());
    let mut payload = arguments.payload(number.into())?;
    let mut keys = KeyStream::new(arguments.keys, number.into(), arguments.chance(number, Draws::Keys));
    let mut marker = run.map(|run| Marker::new(run, number, payload.free_bytes()));
    let producers = u64::from(arguments.producers);
    let of_each = |records| records / producers + u64::from(u64::from(number) < records % producers);
    let (records, warm_up) = (of_each(arguments.num_records), of_each(arguments.warmup_records));
    let mut schedule = arguments.schedule(number);
    let started = producer.elapsed();
    for index in 0..records {
        let due = schedule.as_mut().map(|schedule| started.saturating_add(schedule.next()));
        if let Some(due) = due {
            wait_until(due, || producer.elapsed());
        }
        // Tag 0 is for a record that was due when its turn came.
        let mut record = Record::to(&arguments.topic).tag(due.map_or(0, |due| due.as_nanos() as u64));
        let key = keys.as_mut().map(KeyStream::next);
        if let Some(key) = key {
            record = record.key(key);
        }
        let value = payload.next();
        let header;
        match &mut marker {
            None => record = record.value(value),
            Some(marker) => {
                marker.mark(key, value);
                header = marker.header();
                record = record.value(marker.value()).headers(header.as_slice());
            }
        }
        // At full speed each look at the clock would be measured, too: every eighth call stands for all.
        if due.is_some() || index % 8 == 0 {
            let before = producer.elapsed();
            producer.send_blocking(&record)?;
            let after = producer.elapsed();
            if index >= warm_up {
                call.saturating_record((after - before).as_nanos() as u64);
                if let Some(due) = due {
                    punctuality.record(before.saturating_sub(due));
                }
            }
        } else {
            producer.send_blocking(&record)?;
        }
    }
    producer.flush_blocking();
    Ok(Sent { call, punctuality, records: vec![records] })
}
