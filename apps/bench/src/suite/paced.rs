//! A run at its rate, once that is known: what has to be tried first, and what came of that.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Suite;
use crate::ceiling;
use crate::driver::{System, Warmup};
use crate::load::{Outcome, Target, Window};
use crate::meter::Flow;
use crate::schedule::Rate;
use crate::search::{self, Probe, Search, Step};
use crate::tries::{Tries, WARMUP_IN_VAIN_MAX};
use crate::workload::{Goal, Pace, Workload};

/// How often full speed is tried at most.
const FULL_SPEED_TRIES_MAX: u16 = 4;
/// By what factor a run that was to be an overload may be above what was taken for full speed.
const FULL_SPEED_GAIN_MAX: f64 = 1.05;
/// Of what is stored to be read, so much is enough to warm up.
const WARMUP_RECORDS_MAX: u64 = 10_000_000;

/// Is told of each second when it is over, and what it is a second of; nothing if the rate was known.
pub(super) type ShowPart<'a> = dyn FnMut(&str, &Window<'_>) + 'a;

/// What came of a run whose rate had to be found first.
pub(super) struct Paced {
    pub(super) outcome: Outcome,
    pub(super) probes: Vec<Probe>,
    pub(super) rate: Option<f64>,
    /// Whether that was looked for, and is not kept up with.
    pub(super) is_rate_missed: bool,
    pub(super) full_speed_per_sec: Option<f64>,
    /// How fast each try was that warmed the brokers up.
    pub(super) warmup_speeds: Vec<f64>,
    /// What was wrong with the records of what was tried before.
    pub(super) wrong: Vec<String>,
    /// What is to be known of it.
    pub(super) notes: Vec<String>,
}

/// What is tried before the run that counts.
struct Trials<'a, 'b> {
    suite: &'a Suite<'a>,
    target: Target<'a>,
    show: &'a mut ShowPart<'b>,
    warmup_speeds: Vec<f64>,
    wrong: Vec<String>,
    notes: Vec<String>,
}

/// A whole run at a rate that was found, and whether that was kept up with.
struct Ran {
    rate: f64,
    outcome: Outcome,
    is_kept: bool,
}

impl Suite<'_> {
    /// Runs a workload at its rate, once that is known; on brokers that are `warm`, or not yet.
    pub(super) fn paced(&self, target: Target<'_>, warm: bool, show: &mut ShowPart<'_>) -> Result<Paced> {
        let workload = target.workload;
        let mut trials = Trials::new(self, target, show);
        trials.warm_up(warm)?;
        match (&workload.search, workload.rate) {
            (Some(goal), _) => trials.search(goal),
            (None, Pace::OfFullSpeed(share)) => trials.overload(share),
            (None, pace) => {
                let rate = if let Pace::Rate(rate) = pace { rate.constant_rate() } else { None };
                let outcome = trials.load("", workload)?;
                Ok(trials.done(outcome, Vec::new(), rate, None))
            }
        }
    }
}

impl<'a, 'b> Trials<'a, 'b> {
    const fn new(suite: &'a Suite<'a>, target: Target<'a>, show: &'a mut ShowPart<'b>) -> Self {
        Self { suite, target, show, warmup_speeds: Vec::new(), wrong: Vec::new(), notes: Vec::new() }
    }
}

impl Trials<'_, '_> {
    /// One run of a workload, whatever it is for.
    fn load(&mut self, part: &str, workload: &Workload) -> Result<Outcome> {
        let Self { suite, target, show, .. } = self;
        ensure!(!target.stop.load(Ordering::Relaxed), "it was interrupted");
        suite.load(Target { workload, ..*target }, &mut |window| show(part, window))
    }

    /// The same of something that is only tried: no figure comes of it, but records that it loses are lost.
    fn attempt(&mut self, part: &str, workload: &Workload) -> Result<Outcome> {
        let outcome = self.load(part, workload)?;
        self.check(&format!("{part}, which was tried first"), &outcome);
        Ok(outcome)
    }

    fn check(&mut self, what: &str, outcome: &Outcome) {
        if let Err(error) = outcome.verdict.clone().into_result() {
            self.wrong.push(format!("{what}: {error:#}"));
        }
    }

    /// No more of it than the disk has room for, now that its rate is known.
    fn fitting(&mut self, workload: Workload) -> Result<Workload> {
        if self.target.driver.system == System::Bootstrap {
            return Ok(workload);
        }
        let room = ceiling::room_bytes(&self.suite.site.dir)?;
        let (workload, note) = workload.fitting(room, self.target.replicas());
        self.notes.extend(note);
        Ok(workload)
    }

    /// Records a second that are acknowledged when they are sent as fast as they are taken. Brokers become faster
    /// while they are new, some for minutes: it is tried until a try is not much better than those before.
    fn full_speed(&mut self, seconds: f64) -> Result<f64> {
        let workload = self.fitting(at_full_speed(self.target.workload, seconds))?;
        let mut tries = Tries::new(FULL_SPEED_TRIES_MAX, 1);
        while tries.goes_on() {
            let outcome = self.attempt("full speed", &workload)?;
            let written = outcome.written.context("nothing was written at full speed")?;
            tries.tried(written.records_per_sec());
        }
        Ok(tries.best())
    }

    /// Tries the workload until that makes brokers no faster, where their driver asks for that; once, for what it does
    /// otherwise than those before it, where they are warm.
    fn warm_up(&mut self, are_warm: bool) -> Result<()> {
        let Some(Warmup { tries_max, seconds }) = self.target.driver.warmup else { return Ok(()) };
        let tries_max = if are_warm { 1 } else { tries_max };
        let workload = self.target.workload;
        let tried = match (&workload.search, workload.rate) {
            (Some(_), _) | (None, Pace::OfFullSpeed(_)) => at_full_speed(workload, seconds),
            (None, _) => Workload { seconds, ..workload.clone() },
        };
        let records =
            workload.records.filter(|_| workload.stored).map(|records| records.min(WARMUP_RECORDS_MAX));
        let tried = self.fitting(Workload { records, warmup_seconds: 0.0, ..tried })?;
        let mut tries = Tries::new(tries_max, WARMUP_IN_VAIN_MAX);
        // What is read within a second warms nobody up.
        let read_for = std::mem::replace(&mut self.target.read_for, Duration::from_secs_f64(seconds));
        while tries.goes_on() {
            let part = format!("warm-up {} of {tries_max} at most", tries.count() + 1);
            let outcome = self.attempt(&part, &tried)?;
            tries.tried(speed(&tried, &outcome).context("nothing came through in a warm-up")?);
        }
        self.target.read_for = read_for;
        self.warmup_speeds = tries.into_found();
        Ok(())
    }

    fn at_rate(&mut self, rate: f64, seconds: f64) -> Result<Workload> {
        let rate = Pace::Rate(Rate::constant(rate));
        self.fitting(Workload { rate, seconds, ..self.target.workload.clone() })
    }

    /// Tries full speed, and runs the workload at a share of that.
    fn overload(mut self, share: f64) -> Result<Paced> {
        let seconds = self.target.workload.seconds;
        let full_speed = self.full_speed(seconds)?;
        let rate = full_speed * share;
        ensure!(
            rate >= 1.0,
            "{full_speed} records/s were taken at full speed: there is nothing to be overloaded"
        );
        let workload = self.at_rate(rate, seconds)?;
        // The brokers are warm, and what waits in line since a warm-up would be in the way of what counts.
        let outcome = self.load("", &Workload { warmup_seconds: 0.0, ..workload })?;
        let written = outcome.written.as_ref().map(Flow::records_per_sec);
        if let Some(written) = written.filter(|written| *written > full_speed * FULL_SPEED_GAIN_MAX) {
            self.notes.push(format!(
                "{written:.0} records/s were written, and {full_speed:.0} at what was taken for full speed: it was still \
                 becoming faster, so {rate:.0} records/s were less of an overload than is asked for"
            ));
        }
        Ok(self.done(outcome, Vec::new(), Some(rate), Some(full_speed)))
    }

    /// Runs the workload at a rate that was found, or at the highest below that it keeps up with for a whole run;
    /// where it keeps up with none, what is told is the last that was run.
    fn run_at(&mut self, found: f64, goal: &Goal, search: &mut Search) -> Result<Ran> {
        let mut rate = found;
        let mut best: Option<Ran> = None;
        loop {
            let workload = self.at_rate(rate, self.target.workload.seconds)?;
            let outcome = self.load(&format!("run at {rate:.0} records/s"), &workload)?;
            let probe = Probe::of(&workload, &outcome);
            let (missed, next) = (probe.missed(goal), search.on_run(probe));
            if let Some(missed) = &missed {
                self.notes.push(format!(
                    "{rate:.0} records/s was not kept up with for the {} s of a run: {missed} (tries of {} s had \
                     found {found:.0} records/s){}",
                    workload.seconds,
                    goal.seconds,
                    next.map_or(String::new(), |next| format!("; {next:.0} records/s was run next"))
                ));
            }
            let ran = Ran { rate, outcome, is_kept: missed.is_none() };
            let (told, other) = match best.take() {
                None => (ran, None),
                Some(before) if before.is_kept && !(ran.is_kept && rate > before.rate) => (before, Some(ran)),
                Some(before) => (ran, Some(before)),
            };
            if let Some(Ran { rate, outcome, .. }) = other {
                self.check(&format!("at {rate} records/s, which was run as well"), &outcome);
            }
            let Some(next) = next else { return Ok(told) };
            (rate, best) = (next, Some(told));
        }
    }

    /// Searches for the highest rate that is kept up with, and runs the workload at that.
    fn search(mut self, goal: &Goal) -> Result<Paced> {
        let full_speed = self.full_speed(goal.seconds)?;
        let mut search = Search::below(full_speed, *goal);
        let rate = loop {
            match search.step() {
                Step::Found(rate) => break rate,
                Step::Try(rate) => {
                    let workload = self.at_rate(rate, goal.seconds)?;
                    let outcome = self.attempt(&format!("try of {rate:.0} records/s"), &workload)?;
                    search.on_probe(Probe::of(&workload, &outcome));
                }
            }
        };
        ensure!(rate > 0.0, "no rate was found that is kept up with");
        if !search.has_end() {
            self.notes.push(format!(
                "{rate:.0} records/s is the most that was tried: no rate was found that is too high"
            ));
        }
        let Ran { rate, outcome, is_kept } = self.run_at(rate, goal, &mut search)?;
        if search::is_read_at_no_time(&outcome) {
            self.notes.push(format!(
                "that 99 % take {} ms at most was asked of acknowledgements: when records were read is not known",
                goal.p99_ms
            ));
        }
        let done = self.done(outcome, search.into_probes(), Some(rate), Some(full_speed));
        Ok(Paced { is_rate_missed: !is_kept, ..done })
    }

    fn done(
        self,
        outcome: Outcome,
        probes: Vec<Probe>,
        rate: Option<f64>,
        full_speed_per_sec: Option<f64>,
    ) -> Paced {
        let Self { warmup_speeds, wrong, notes, .. } = self;
        let is_rate_missed = false;
        Paced { outcome, probes, rate, is_rate_missed, full_speed_per_sec, warmup_speeds, wrong, notes }
    }
}

/// The same as fast as it is taken.
fn at_full_speed(workload: &Workload, seconds: f64) -> Workload {
    let mut workload = Workload { rate: Pace::Max, seconds, search: None, ..workload.clone() };
    // Whoever does not wait for room is not at full speed but busy with being refused.
    workload.producer.remove("max.block.ms");
    workload
}

/// How fast it was, the more the better: a rate; where that was set, how little time a record took. `None` if nothing
/// came through.
fn speed(workload: &Workload, outcome: &Outcome) -> Option<f64> {
    if !workload.is_rate_set() {
        return outcome.written.as_ref().or(outcome.read.as_ref()).map(Flow::records_per_sec);
    }
    let is_timed = |flow: &&Flow| !flow.measured.response.is_empty();
    let flow = outcome.read.as_ref().filter(is_timed).or(outcome.written.as_ref().filter(is_timed))?;
    Some(1e9 / flow.measured.response.mean().max(1.0))
}
