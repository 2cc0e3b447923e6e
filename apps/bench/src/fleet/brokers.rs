//! What the coordinator sees of brokers, which workers do not: what they use where they run here, and what they
//! count themselves.

use super::message::Tick;
use crate::load::{Phase, Target, Watched};
use crate::metrics::Scraped;
use crate::resources::{Sources, Used};

/// Looks at them every second.
pub(super) struct Brokers<'a> {
    sources: Sources<'a>,
    used: Used,
    scraped: Scraped<'a>,
    /// From when on what they count is that of the steady state, in seconds after the start.
    steady_from: f64,
}

impl<'a> Brokers<'a> {
    pub(super) fn new(target: Target<'a>, phase: &Phase) -> Self {
        let sources = target.sources;
        let steady_from = match phase {
            Phase::Both => target.workload.warmup_seconds,
            Phase::Fill => f64::INFINITY,
            Phase::Drain(_) => 0.0,
        };
        let (used, scraped) = (Used::now(sources), Scraped::of(sources.metrics));
        let mut brokers = Self { sources, used, scraped, steady_from };
        brokers.scrape_if_steady(0.0);
        brokers
    }

    /// It starts now: what was used until then is not of the run.
    pub(super) fn begin(&mut self) {
        self.used = Used::now(self.sources);
    }

    /// Adds what they used to a second of all workers.
    pub(super) fn look(&mut self, mut tick: Tick) -> Tick {
        let now = Used::now(self.sources);
        let Used { brokers, host, .. } = now.since(&self.used);
        // Brokers that a run starts here listen on loopback, so workers of theirs are here, too. Of others there
        // is no machine that all are on.
        let host = host.filter(|_| brokers.is_some());
        tick.second.used = Used { brokers, host, ..tick.second.used };
        self.used = now;
        self.scrape_if_steady(tick.second.to);
        tick
    }

    fn scrape_if_steady(&mut self, after_start: f64) {
        if after_start >= self.steady_from {
            self.scraped.begin();
        }
    }

    /// Adds what they counted to what was seen.
    pub(super) fn end(self, watched: &mut Watched) {
        (watched.grown, watched.fault) = self.scraped.end();
    }
}
