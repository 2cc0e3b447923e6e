//! The seconds of a run: what all senders and readers counted in each of them.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::{Clock, Run, Second, Timing};
use crate::histogram::Quantiles;
use crate::meter::{Measured, Meter};
use crate::metrics::{Grown, Scraped};
use crate::resources::{Sources, Used};

/// From one window to the next.
const WINDOW: Duration = Duration::from_secs(1);

/// What came in a second, with all that was counted.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    /// In short.
    pub second: &'a Second,
    /// What senders counted.
    pub written: &'a Measured,
    /// What readers counted.
    pub read: &'a Measured,
    /// False of what is left when all are done, which is shorter and part of no curve.
    pub is_whole: bool,
}

/// Is told of each second when it is over.
pub type Show<'a> = dyn FnMut(&Window<'_>) + 'a;

/// What was seen of a run from its first second to its last.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Whole ones.
    pub(crate) seconds: Vec<Second>,
    /// What was left behind the last of them, which is shorter.
    pub(crate) rest: Option<Second>,
    /// What the brokers counted in the steady state, where they were asked.
    pub(crate) grown: Option<Grown>,
    /// Why that is not known.
    pub(crate) fault: Option<String>,
}

/// Looks at the meters every second.
pub(super) struct Watch<'a> {
    timing: Timing,
    sources: Sources<'a>,
    used: Used,
    scraped: Scraped<'a>,
    of_senders: Vec<Arc<Meter>>,
    of_readers: Vec<Arc<Meter>>,
    last: Duration,
    seconds: Vec<Second>,
    rest: Option<Second>,
}

impl<'a> Watch<'a> {
    /// Looks from now on, when a run starts; at what brokers count, if nobody has, once its steady state begins.
    pub(super) fn new(
        run: &Run<'a>,
        (timing, scraped): (Timing, Scraped<'a>),
        (of_senders, of_readers): (Vec<Arc<Meter>>, Vec<Arc<Meter>>),
    ) -> Self {
        let sources = run.target.sources;
        let used = Used::now(sources);
        let last = timing.started;
        let (seconds, rest) = (Vec::new(), None);
        let mut watch = Self { timing, sources, used, scraped, of_senders, of_readers, last, seconds, rest };
        watch.scrape_if_steady();
        watch
    }

    fn scrape_if_steady(&mut self) {
        if self.last >= self.timing.steady_from {
            self.scraped.begin();
        }
    }

    /// Looks until something comes, or nobody holds the other end any more.
    pub(super) fn until<T>(
        &mut self,
        other: &mpsc::Receiver<T>,
        clock: &Clock,
        show: &mut Show<'_>,
    ) -> Option<T> {
        loop {
            let left = (self.last + WINDOW).saturating_sub(clock.now());
            match other.recv_timeout(left) {
                Ok(came) => return Some(came),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.look(clock.now(), show),
            }
        }
    }

    /// Looks if a second has gone by.
    pub(super) fn look_if_due(&mut self, now: Duration, show: &mut Show<'_>) {
        if now >= self.last + WINDOW {
            self.look(now, show);
        }
    }

    fn look(&mut self, now: Duration, show: &mut Show<'_>) {
        let second = self.take(now, true, show);
        self.seconds.push(second);
        self.scrape_if_steady();
    }

    /// Shows what came since the last second was over.
    pub(super) fn rest(&mut self, now: Duration, show: &mut Show<'_>) {
        self.rest = Some(self.take(now, false, show));
    }

    /// What was seen, with what the brokers counted from the first look in the steady state until now.
    pub(super) fn end(self) -> Watched {
        let (grown, fault) = self.scraped.end();
        Watched { seconds: self.seconds, rest: self.rest, grown, fault }
    }

    fn take(&mut self, now: Duration, is_whole: bool, show: &mut Show<'_>) -> Second {
        let sum = |meters: &[Arc<Meter>]| {
            let mut sum = Measured::default();
            meters.iter().for_each(|meter| meter.lock().take_window(&mut sum));
            sum
        };
        let (written, read) = (sum(&self.of_senders), sum(&self.of_readers));
        let used = Used::now(self.sources);
        let after_start = |time: Duration| time.saturating_sub(self.timing.started).as_secs_f64();
        let second = Second {
            from: after_start(self.last),
            to: after_start(now),
            is_warmup: self.last < self.timing.steady_from,
            written: written.counts,
            read: read.counts,
            response_ns: Quantiles::of(&written.response),
            wire_ns: Quantiles::of(&written.wire),
            delay_ns: Quantiles::of(&written.delay),
            end_to_end_ns: Quantiles::of(&read.response),
            used: used.since(&self.used),
        };
        self.used = used;
        self.last = now;
        show(&Window { second: &second, written: &written, read: &read, is_whole });
        second
    }
}
