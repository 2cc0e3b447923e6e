//! The threads of a run: each sends its records by one producer when they are due.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result};
use bench::histogram::histogram;
use bench::keys::KeyStream;
use bench::mark::{Form, Marked, Marker};
use bench::payload::Payload;
use bench::schedule::{Punctuality, Schedule, wait_until};
use bench::watch::Watch;
use client::producer::{Producer, Record, SendError};
use hdrhistogram::Histogram;

use super::super::tally::{Tag, Tally};
use super::show::Show;
use super::{Arguments, Draws};

/// What the threads of a run found out.
pub(super) struct Sent {
    /// How long each call of `send` took.
    pub(super) call: Histogram<u64>,
    pub(super) punctuality: Punctuality,
    /// How many records each thread was to send.
    pub(super) records: Vec<u64>,
    /// The numbers of those that were given up, in their order; only if they are to be verified.
    pub(super) given_up: Vec<Vec<u64>>,
}

/// One of the threads.
#[derive(Clone, Copy)]
struct Sender<'a> {
    producer: &'a Producer,
    /// The first thread of that producer, among all.
    first: u16,
    /// Among those of its producer.
    thread: u8,
}

impl Sender<'_> {
    fn number(self) -> u16 {
        self.first + u16::from(self.thread)
    }
}

/// Runs the threads of the producers, and shows how it goes.
pub(super) fn send(
    arguments: &Arguments,
    (producers, payloads): (&[Producer], Vec<Payload>),
    run: Option<u64>,
    tally: &Tally,
    show: &mut Show<'_>,
) -> Result<Sent> {
    let clock = &producers[0];
    std::thread::scope(|scope| {
        // Nothing is sent here: the last sender that goes says that all threads are done.
        let (working, all_done) = mpsc::channel::<()>();
        let senders = producers.iter().zip(0..).flat_map(|(producer, number)| {
            let first = arguments.first_sender(number);
            (0..arguments.threads).map(move |thread| Sender { producer, first, thread })
        });
        let spawn = |(sender, payload)| {
            let working = working.clone();
            scope.spawn(move || {
                let _working = working;
                send_all(arguments, sender, payload, (run, tally))
            })
        };
        let threads: Vec<_> = senders.zip(payloads).map(spawn).collect();
        drop(working);
        let interval = Duration::from_millis(arguments.reporting_interval);
        let look_again = show.progress.interval();
        let left = || tally.until_next_line(clock.elapsed(), interval).min(look_again);
        while let Err(RecvTimeoutError::Timeout) = all_done.recv_timeout(left()) {
            show.tick(tally, clock.elapsed(), interval)?;
        }
        let mut sent = Sent {
            call: histogram(),
            punctuality: Punctuality::default(),
            records: Vec::new(),
            given_up: Vec::new(),
        };
        for thread in threads {
            let of_thread = thread.join().map_err(|_| anyhow::anyhow!("a thread that sends panicked"))??;
            sent.call.add(&of_thread.call).context("histograms have the same bounds")?;
            sent.punctuality.add(&of_thread.punctuality);
            sent.records.extend(of_thread.records);
            sent.given_up.extend(of_thread.given_up);
        }
        Ok(sent)
    })
}

/// When the records of a thread are due, by its producer's clock: no two at the same time, so that a time
/// tells which of them it is of.
struct Dues {
    schedule: Schedule,
    started: Duration,
    last: Duration,
}

impl Dues {
    fn new(schedule: Schedule, started: Duration) -> Self {
        Self { schedule, started, last: Duration::ZERO }
    }

    fn next(&mut self) -> Duration {
        let due = self.started.saturating_add(self.schedule.next_due());
        self.last = due.max(self.last + Duration::from_nanos(1));
        self.last
    }

    /// The numbers of the records, of so many, that were due at these times, which are in order.
    fn numbers(mut self, dues: &[u64], records: u64) -> Vec<u64> {
        let mut wanted = dues.iter().peekable();
        let is_wanted = |_: &u64| {
            let due = self.next().as_nanos() as u64;
            wanted.next_if(|&&wanted| wanted == due).is_some()
        };
        (0..records).filter(is_wanted).collect()
    }
}

/// Sends the records of one thread, and waits until their fate is known.
fn send_all(
    arguments: &Arguments,
    sender: Sender<'_>,
    mut payload: Payload,
    (run, tally): (Option<u64>, &Tally),
) -> Result<Sent> {
    let (producer, number) = (sender.producer, sender.number());
    let mut keys = KeyStream::new(arguments.keys, number.into(), arguments.chance(number, Draws::Keys));
    let mut marker = run.map(|run| Marker::new(run, number, Form::of(payload.free_bytes())));
    let senders = u64::from(arguments.senders());
    let of_each = |records| records / senders + u64::from(u64::from(number) < records % senders);
    let (mut records, warm_up) = (of_each(arguments.num_records), of_each(arguments.warmup_records));
    let started = producer.elapsed();
    let dues = || arguments.schedule(number).map(|schedule| Dues::new(schedule, started));
    let mut schedule = dues();
    let mut watch = Watch::new(started);
    for index in 0..records {
        let due = schedule.as_mut().map(Dues::next);
        if let Some(due) = due.filter(|&due| due > watch.seen) {
            wait_until(due, || producer.elapsed());
        }
        let tag = Tag { thread: sender.thread, which: due.map_or(index, |due| due.as_nanos() as u64) }.pack();
        let mut record = Record::to(&arguments.topic).tag(tag);
        let key = keys.as_mut().map(KeyStream::next_key);
        if let Some(key) = key {
            record = record.key(key);
        }
        let value = payload.next_value();
        let marked = match &mut marker {
            None => Marked { value, header: None },
            Some(marker) => marker.mark(key, value, 0),
        };
        record = record.value(marked.value).headers(marked.header.as_slice());
        let sent = watch.send(producer, &record, (index, due, index >= warm_up));
        let Err(error) = sent else { continue };
        tally.fail(sender.first, [tag].into_iter(), &error);
        if !may_take_the_next(&error) {
            tally.fail_untaken(records - index - 1, &error);
            records = index + 1;
            break;
        }
    }
    producer.flush_blocking();
    let mut given_up = tally.given_up(number);
    if let Some(dues) = dues().filter(|_| !given_up.is_empty()) {
        given_up = dues.numbers(&given_up, records);
    }
    let Watch { call, punctuality, .. } = watch;
    Ok(Sent { call, punctuality, records: vec![records], given_up: vec![given_up] })
}

/// Whether the next record may be taken after this: what is wrong with the topic or the producer is wrong
/// with all of them, and would be waited for as long each time.
fn may_take_the_next(error: &SendError) -> bool {
    matches!(error, SendError::Full | SendError::TooLarge { .. })
}

#[cfg(test)]
mod tests {
    use bench::chance::Chance;
    use bench::schedule::{Arrivals, Rate};

    use super::*;

    #[test]
    fn a_time_tells_which_record_was_due() {
        for arrivals in [Arrivals::Fixed, Arrivals::Poisson] {
            // So fast that many are due at the same nanosecond.
            let schedule = || Schedule::new(arrivals, Rate::constant(3e9), 0, 1, Chance::new(9, 0));
            let dues = || Dues::new(schedule(), Duration::from_millis(5));
            let mut of_run = dues();
            let times: Vec<u64> = (0..1_000).map(|_| of_run.next().as_nanos() as u64).collect();
            let wanted = [0, 1, 17, 998, 999];
            assert_eq!(dues().numbers(&wanted.map(|number| times[number as usize]), 1_000), wanted);
        }
    }
}
