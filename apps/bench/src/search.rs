//! The highest rate that a system keeps up with, found by trying.
//!
//! ```text
//!   as fast as can be ─▶ about what there is to be had
//!   then a rate, kept or not ─▶ the middle between the highest that was kept and the lowest that was not ─▶ …
//!   the highest that was kept, for as long as a run takes ─▶ if it was not kept as long, a tenth below ─▶ …
//!   and then the middle between what was kept as long and what was not ─▶ …
//! ```
//!
//! Confluent's *peak stable throughput*: consumers keep up, and what is not read yet does not grow. What is
//! judged is the time in which records are due:
//!
//! ```text
//!   warm-up │ records are due ───────────────────────────▶│ the last of them come through
//!           │     how much the line of those that wait grows │└─ within the goal, they are in time
//! ```

use serde::{Deserialize, Serialize};

use crate::load::{Outcome, Second};
use crate::statistics::median;
use crate::workload::{Goal, Pace, Workload};

/// A rate that was tried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// Records a second that were due.
    pub rate: f64,
    /// Records a second that were acknowledged in time: of those that were due, in the time in which they were
    /// due, or behind it by no more than the latency that was asked for.
    pub written_per_sec: f64,
    /// How many more records were due and did not come through yet in the last third of that time than in the
    /// second, by the medians of their seconds: not read, or not acknowledged where nobody reads.
    pub backlog_growth: f64,
    /// Until 99 % of them came through, in nanoseconds; until they were acknowledged, where nobody knows when
    /// they were read.
    pub p99_ns: u64,
    /// Records that were given up.
    pub failed: u64,
}

/// So little may be missing of a rate: records that arrive by chance are not exactly as many.
const MISSING_MAX: f64 = 0.01;
/// A backlog that grows by less than so many seconds of records only sways. In a third of 15 s that is a rate of
/// a twenty-fifth too much.
const SWAY_SECONDS: f64 = 0.2;
/// More is hardly to be had than full speed gave, though there the senders are in the way of the brokers. What is kept
/// up with right below that is looked for above, as far again.
const ABOVE_FULL_SPEED: f64 = 1.25;
/// More probes than this are not made.
const PROBES_MAX: usize = 12;
/// What was kept for a while and then no more: the next run is at this share of it.
const LOWER: f64 = 0.9;
/// More runs than this are not made.
const RUNS_MAX: usize = 6;

impl Probe {
    /// What came of a workload that has a constant rate.
    pub fn of(workload: &Workload, outcome: &Outcome) -> Self {
        let rate = if let Pace::Rate(rate) = workload.rate { rate.constant_rate() } else { None };
        let (rate, goal) = (rate.unwrap_or_default(), workload.search.unwrap_or_default());
        let (read, written) = (outcome.read.as_ref(), outcome.written.as_ref());
        let timed = read.into_iter().chain(written).find(|flow| !flow.measured.response.is_empty());
        Self {
            rate,
            written_per_sec: in_time(workload, &goal, outcome) as f64 / workload.seconds,
            backlog_growth: backlog_growth(workload, rate, outcome),
            p99_ns: timed.map_or(u64::MAX, |flow| flow.measured.response.value_at_quantile(0.99)),
            failed: outcome.failed,
        }
    }

    /// Whether the system kept up.
    pub fn is_kept(&self, goal: &Goal) -> bool {
        self.missed(goal).is_none()
    }

    /// In what the system did not keep up, if in anything.
    pub fn missed(&self, goal: &Goal) -> Option<String> {
        if self.failed > 0 {
            return Some(format!("{} records were given up", self.failed));
        }
        if self.written_per_sec < self.rate * (1.0 - MISSING_MAX) {
            return Some(format!("{:.0} records/s were acknowledged in time", self.written_per_sec));
        }
        if self.backlog_growth > self.rate * SWAY_SECONDS {
            return Some(format!("the backlog grew by {:.0} records", self.backlog_growth));
        }
        (self.p99_ns as f64 > goal.p99_ms * 1e6).then(|| {
            format!("99 % took {:.0} ms, and not {} ms at most", self.p99_ns as f64 / 1e6, goal.p99_ms)
        })
    }
}

/// Whether records are read, and nobody knows when: they are too small for a time, or clocks are not known well
/// enough.
pub fn is_read_at_no_time(outcome: &Outcome) -> bool {
    outcome.read.as_ref().is_some_and(|read| read.measured.response.is_empty())
}

/// Records that were acknowledged before the last one that is in time.
fn in_time(workload: &Workload, goal: &Goal, outcome: &Outcome) -> u64 {
    let Some(written) = &outcome.written else { return 0 };
    if written.seconds <= workload.seconds + goal.p99_ms / 1e3 {
        return written.measured.counts.records;
    }
    // What came as soon as it was asked for was in time, whenever it was due: no more than a few others were.
    written.measured.response.count_between(0, (goal.p99_ms * 1e6) as u64)
}

/// See [`Probe::backlog_growth`]. Medians, so that a broker that pauses once is not taken for one that falls
/// behind. Of a second in which records ceased to be due, its part until then counts: behind that the line only
/// becomes shorter.
fn backlog_growth(workload: &Workload, rate: f64, outcome: &Outcome) -> f64 {
    let end = workload.warmup_seconds + workload.seconds;
    let is_due = |second: &&Second| !second.is_warmup && second.from < end;
    let mut waiting = 0.0;
    let line = outcome.seconds.iter().filter(is_due).map(|second| {
        // Each subscription reads all of it.
        let through = match outcome.read {
            Some(_) => second.read.records as f64 / f64::from(outcome.subscriptions),
            None => second.written.records as f64,
        };
        let (length, all) = (second.to.min(end) - second.from, second.to - second.from);
        waiting += rate * length - through * length / all;
        waiting
    });
    let line: Vec<f64> = line.collect();
    let (first, second) = (line.len() / 3, line.len() * 2 / 3);
    median(&line[second..]) - median(&line[first..second])
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Try this many records a second.
    Try(f64),
    /// This is the highest rate that was kept, as near as was asked for; 0 if none was.
    Found(f64),
}

/// A search that goes on.
#[derive(Debug)]
pub struct Search {
    goal: Goal,
    kept: f64,
    not_kept: f64,
    /// Whether anything was tried that was not kept.
    has_missed: bool,
    probes: Vec<Probe>,
    runs: Runs,
}

/// What was kept, and was not, for as long as a run takes.
#[derive(Debug, Default)]
struct Runs {
    made: usize,
    kept: Option<f64>,
    not_kept: Option<f64>,
}

impl Search {
    /// Below what full speed gave.
    pub fn below(full_speed: f64, goal: Goal) -> Self {
        let not_kept = full_speed * ABOVE_FULL_SPEED;
        Self { goal, kept: 0.0, not_kept, has_missed: false, probes: Vec::new(), runs: Runs::default() }
    }

    /// What is to be done next.
    pub fn step(&mut self) -> Step {
        let is_last = self.probes.len() >= PROBES_MAX;
        if self.is_near() && !self.has_missed && !is_last {
            self.not_kept *= ABOVE_FULL_SPEED;
        }
        if self.is_near() || is_last {
            return Step::Found(self.kept);
        }
        // The first guess is a good one: a little below full speed.
        let share = if self.probes.is_empty() { 0.9 / ABOVE_FULL_SPEED } else { 0.5 };
        let rate = (self.kept + (self.not_kept - self.kept) * share).floor();
        // Less than one a second is no rate.
        if rate < 1.0 || rate <= self.kept { Step::Found(self.kept) } else { Step::Try(rate) }
    }

    fn is_near(&self) -> bool {
        self.not_kept - self.kept <= self.not_kept * self.goal.within
    }

    /// Whether an end was found to what is kept up with.
    pub const fn has_end(&self) -> bool {
        self.has_missed
    }

    /// A rate was tried.
    pub fn on_probe(&mut self, probe: Probe) {
        if probe.is_kept(&self.goal) {
            self.kept = self.kept.max(probe.rate);
        } else {
            (self.not_kept, self.has_missed) = (self.not_kept.min(probe.rate), true);
        }
        self.probes.push(probe);
    }

    /// A run was made at a rate that was kept while it was tried; the rate of the next run, if that one was not
    /// kept for as long, what is kept for as long is not known as near as was asked for, and enough were not made yet.
    pub fn on_run(&mut self, probe: Probe) -> Option<f64> {
        let Self { runs, goal, .. } = self;
        runs.made += 1;
        let rate = probe.rate;
        match probe.is_kept(goal) {
            true => runs.kept = Some(runs.kept.map_or(rate, |kept| kept.max(rate))),
            false => runs.not_kept = Some(runs.not_kept.map_or(rate, |not_kept| not_kept.min(rate))),
        }
        let next = match (runs.kept, runs.not_kept) {
            (None, Some(not_kept)) => Some(not_kept * LOWER),
            (Some(kept), Some(not_kept)) if not_kept - kept > not_kept * goal.within => {
                Some(kept + (not_kept - kept) / 2.0)
            }
            (..) => None,
        };
        self.probes.push(probe);
        next.filter(|_| self.runs.made < RUNS_MAX).map(f64::floor).filter(|rate| *rate >= 1.0)
    }

    /// All that were tried, in order.
    pub fn into_probes(self) -> Vec<Probe> {
        self.probes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system that takes so many records a second, and keeps them waiting the longer the nearer it is to that.
    fn tried(rate: f64, knee: f64, service_ns: f64) -> Probe {
        let load = rate / knee;
        Probe {
            rate,
            written_per_sec: rate.min(knee),
            backlog_growth: (rate - knee).max(0.0) * 10.0,
            p99_ns: if load < 1.0 { (service_ns / (1.0 - load)) as u64 } else { u64::MAX },
            failed: 0,
        }
    }

    fn found(full_speed: f64, knee: f64, service_ns: f64, goal: Goal) -> (f64, usize) {
        let mut search = Search::below(full_speed, goal);
        loop {
            match search.step() {
                Step::Try(rate) => search.on_probe(tried(rate, knee, service_ns)),
                Step::Found(rate) => return (rate, search.into_probes().len()),
            }
        }
    }

    #[test]
    fn a_known_knee_is_found() {
        let goal = Goal::default();
        for (full_speed, knee) in
            [(1e6, 1e6), (1e6, 6e5), (1e6, 1.1e6), (1e6, 1.6e6), (5e4, 4.2e4), (1e6, 5e4)]
        {
            let (rate, probes) = found(full_speed, knee, 1e4, goal);
            let error = (rate - knee).abs() / knee;
            assert!(rate <= knee && error <= 0.06, "{rate} of {knee} after {probes}");
            assert!(probes <= PROBES_MAX, "{probes}");
        }
        assert!(found(1e6, 9e5, 1e4, Goal { within: 0.01, ..goal }).0 >= 8.9e5);
    }

    #[test]
    fn a_search_that_finds_no_end_says_so() {
        let mut search = Search::below(1e6, Goal::default());
        let mut tries = 0;
        while let Step::Try(rate) = search.step() {
            search.on_probe(tried(rate, 1e12, 1.0));
            tries += 1;
        }
        assert!(!search.has_end() && tries == PROBES_MAX, "{tries}");
    }

    #[test]
    fn a_latency_may_end_it_before_the_knee() {
        // A p99 of 50 ms is reached at nine tenths of the knee.
        let goal = Goal { p99_ms: 50.0, within: 0.02, ..Goal::default() };
        let (rate, _) = found(1e6, 1e6, 5e6, goal);
        assert!((8.7e5..=9.0e5).contains(&rate), "{rate}");
    }

    /// What is found by runs that begin at 900 000 records/s, and how many are made.
    fn run(knee: f64) -> (f64, usize) {
        let mut search = Search::below(1e6, Goal::default());
        let (mut rate, mut kept, mut made) = (9e5, 0.0_f64, 0);
        loop {
            let probe = tried(rate, knee, 1e4);
            if probe.is_kept(&Goal::default()) {
                kept = kept.max(rate);
            }
            made += 1;
            match search.on_run(probe) {
                Some(next) => rate = next,
                None => return (kept, made),
            }
        }
    }

    #[test]
    fn what_is_kept_for_a_while_is_not_found_to_be_kept() {
        assert_eq!(run(1e6), (9e5, 1));
        assert_eq!(run(1.0), (0.0, RUNS_MAX));
    }

    #[test]
    fn what_is_kept_for_a_whole_run_is_found_as_near_as_is_asked_for() {
        let within = Goal::default().within;
        for knee in [8.95e5, 8.5e5, 8.2e5, 7.5e5] {
            let (rate, made) = run(knee);
            assert!(rate <= knee && rate >= knee * (1.0 - within), "{rate} of {knee} after {made}");
            assert!(made <= RUNS_MAX, "{made}");
        }
    }

    #[test]
    fn what_never_keeps_up_is_found_to() {
        let (rate, probes) = found(1e6, 1.0, 1e4, Goal::default());
        assert_eq!((rate, probes), (0.0, PROBES_MAX));
        let (rate, probes) = found(500.0, 0.5, 1e4, Goal::default());
        assert!(rate == 0.0 && probes < PROBES_MAX, "it does not try nothing: {rate} after {probes}");
        assert_eq!(Search::below(0.0, Goal::default()).step(), Step::Found(0.0));
        let failing = Probe { failed: 1, ..tried(10.0, 100.0, 1.0) };
        assert!(!failing.is_kept(&Goal::default()));
    }
}
