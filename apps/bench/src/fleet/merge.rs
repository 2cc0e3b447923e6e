//! What came of all machines, put together as it comes.

use std::collections::VecDeque;

use anyhow::{Result, ensure};

use super::message::Tick;
use crate::histogram::Quantiles;
use crate::load::{Readers, Second, Sent, Watched};
use crate::meter::Measured;
use crate::verify::Piece;
use crate::workload::Workload;

/// What all machines came to.
pub(super) struct Merged {
    pub(super) sent: Sent,
    pub(super) readers: Readers,
    pub(super) written: Measured,
    pub(super) read: Measured,
    pub(super) watched: Watched,
}

/// What came so far.
pub(super) struct Gathering {
    merged: Merged,
    workers: Vec<OfWorker>,
}

#[derive(Default)]
struct OfWorker {
    /// Seconds of which another machine's are still missing.
    ticks: VecDeque<Tick>,
    /// Whether it has told what came behind its last whole second.
    is_at_end: bool,
    has_sent: bool,
    is_done: bool,
}

/// A machine that is so many seconds ahead of another tells of a time that is long over there.
const AHEAD_MAX: usize = 60;

impl Gathering {
    pub(super) fn new(workers: usize, run: u64, workload: &Workload) -> Self {
        let merged = Merged {
            sent: Sent::nothing(workload),
            readers: Readers::nothing(run, workload.subscriptions),
            written: Measured::default(),
            read: Measured::default(),
            watched: Watched::default(),
        };
        Self { merged, workers: (0..workers).map(|_| OfWorker::default()).collect() }
    }

    /// A second of one machine is over. Seconds of all, if it was what was missing to them: who is done has no more to
    /// say, and the others go on without it.
    pub(super) fn on_tick(&mut self, worker: usize, tick: Tick) -> Result<Vec<Tick>> {
        let of = &mut self.workers[worker];
        ensure!(of.ticks.len() < AHEAD_MAX, "another machine is {AHEAD_MAX} seconds behind it");
        of.is_at_end |= !tick.is_whole;
        of.ticks.push_back(tick);
        Ok(std::iter::from_fn(|| self.next_second()).collect())
    }

    fn next_second(&mut self) -> Option<Tick> {
        let is_known = |of: &OfWorker| of.is_at_end || !of.ticks.is_empty();
        let is_whole = |of: &OfWorker| of.ticks.front().is_some_and(|tick| tick.is_whole);
        if !self.workers.iter().all(is_known) || !self.workers.iter().any(is_whole) {
            return None;
        }
        let sum = added(self.workers.iter_mut().filter_map(|of| of.ticks.pop_front()))?;
        Some(Tick { is_whole: true, ..sum })
    }

    /// What no second of all was made of: some machines had more of them than others, by one or so.
    pub(super) fn take_rest(&mut self) -> Option<Tick> {
        let rest = added(self.workers.iter_mut().flat_map(|of| of.ticks.drain(..)))?;
        Some(Tick { is_whole: false, ..rest })
    }

    /// Adds a second of all to what comes of the run.
    pub(super) fn keep(&mut self, second: Second) {
        self.merged.watched.seconds.push(second);
    }

    /// Keeps what no second of all was made of.
    pub(super) fn keep_rest(&mut self, rest: Second) {
        self.merged.watched.rest = Some(rest);
    }

    /// Whether all have sent what they had to send, now that this one has.
    pub(super) fn on_sent(&mut self, worker: usize, sent: Sent) -> Result<bool> {
        let of = &mut self.workers[worker];
        ensure!(!of.has_sent, "it sent twice");
        of.has_sent = true;
        self.merged.sent.absorb(sent)?;
        Ok(self.workers.iter().all(|of| of.has_sent))
    }

    /// What all have sent so far.
    pub(super) const fn sent(&self) -> &Sent {
        &self.merged.sent
    }

    pub(super) fn on_seen(&mut self, subscription: u16, records: u64, piece: Piece) -> Result<()> {
        self.merged.readers.add_piece(subscription, piece, records)
    }

    /// Whether all are done, now that this one is.
    pub(super) fn on_done(&mut self, worker: usize, written: &Measured, read: &Measured) -> Result<bool> {
        let of = &mut self.workers[worker];
        ensure!(!of.is_done, "it was done twice");
        of.is_done = true;
        self.merged.written.add(written);
        self.merged.read.add(read);
        Ok(self.workers.iter().all(|of| of.is_done))
    }

    pub(super) fn into_merged(self) -> Merged {
        self.merged
    }
}

/// One second of several machines: counts and histograms are added, and then asked.
fn added(ticks: impl Iterator<Item = Tick>) -> Option<Tick> {
    ticks.reduce(|mut sum, tick| {
        sum.written.add(&tick.written);
        sum.read.add(&tick.read);
        let (one, other) = (&sum.second, &tick.second);
        let used = one.used.beside(other.used);
        sum.second = Second {
            from: one.from.min(other.from),
            to: one.to.max(other.to),
            is_warmup: one.is_warmup || other.is_warmup,
            written: sum.written.counts,
            read: sum.read.counts,
            response_ns: Quantiles::of(&sum.written.response),
            wire_ns: Quantiles::of(&sum.written.wire),
            delay_ns: Quantiles::of(&sum.written.delay),
            end_to_end_ns: Quantiles::of(&sum.read.response),
            used,
        };
        sum
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::meter::Counts;

    fn tick(from: f64, records: u64, latency_ns: u64, is_whole: bool) -> Tick {
        let mut written =
            Measured { counts: Counts { records, bytes: records * 100 }, ..Measured::default() };
        written.response.saturating_record_n(latency_ns, records);
        let second = Second { from, to: from + 1.0, written: written.counts, ..Second::default() };
        Tick { second, written, read: Measured::default(), is_whole }
    }

    #[test]
    fn a_second_is_told_once_all_have_told_it() {
        let workload = Workload { producers: 2, ..Workload::default() };
        let mut gathering = Gathering::new(2, 7, &workload);
        let mut seconds = |worker, tick| gathering.on_tick(worker, tick).expect("it is in order");
        assert!(seconds(0, tick(0.0, 99, 1_000, true)).is_empty());
        assert!(seconds(0, tick(1.0, 99, 1_000, true)).is_empty());
        let first = seconds(1, tick(0.0, 1, 9_000_000, true));
        let first = &first.first().expect("it is the last").second;
        assert_eq!(first.written, Counts { records: 100, bytes: 10_000 });
        let quantiles = first.response_ns.as_ref().expect("some were counted");
        // The slowest of a hundred: an average of two machines' quantiles would say something else.
        assert!(quantiles.p99 < 1_100 && quantiles.max >= 9_000_000, "{quantiles:?}");
        assert!(seconds(0, tick(2.0, 7, 1_000, true)).is_empty());
        let records = |ticks: Vec<Tick>| -> Vec<(u64, bool)> {
            ticks.iter().map(|tick| (tick.second.written.records, tick.is_whole)).collect()
        };
        assert_eq!(records(seconds(1, tick(1.0, 5, 1_000, false))), [(104, true), (7, true)], "it is done");
        for second in 3..100 {
            assert_eq!(records(seconds(0, tick(f64::from(second), 8, 1_000, true))), [(8, true)]);
        }
        assert!(seconds(0, tick(100.0, 3, 1_000, false)).is_empty());
        let rest = gathering.take_rest().expect("one is left");
        assert_eq!((rest.second.written.records, rest.is_whole), (3, false));
        assert!(gathering.take_rest().is_none());
    }

    #[test]
    fn what_all_did_is_one_run() {
        let workload = Workload { producers: 3, ..Workload::default() };
        let mut gathering = Gathering::new(2, 7, &workload);
        let done = |records| Measured {
            counts: Counts { records, bytes: 0 },
            last: Duration::from_secs(records),
            ..Measured::default()
        };
        let sent = || Sent::nothing(&workload);
        assert!(!gathering.on_sent(1, sent()).expect("it is in order"));
        assert!(gathering.on_sent(1, sent()).is_err(), "it did before");
        assert!(gathering.on_sent(0, sent()).expect("it is in order"));
        assert!(gathering.on_sent(0, Sent::nothing(&Workload::default())).is_err(), "of another workload");
        assert!(!gathering.on_done(0, &done(3), &done(1)).expect("it is in order"));
        assert!(gathering.on_done(1, &done(5), &done(0)).expect("it is in order"));
        let merged = gathering.into_merged();
        assert_eq!((merged.written.counts.records, merged.written.last), (8, Duration::from_secs(5)));
        assert_eq!(merged.read.counts.records, 1);
    }
}
