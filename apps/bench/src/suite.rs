//! An experiment from its first point to its last: each run of each system on fresh brokers, in turns.
//!
//! ```text
//!   point 1   run 1: vltava, kafka   run 2: kafka, vltava   run 3: …     nobody always finds the machine
//!   point 2   …                                                          as the other left it
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::driver::{Driver, System};
use crate::load::{self, Outcome, Second, Target};
use crate::machine::Machine;
use crate::report::{PointReport, Report, RunReport, SCHEMA, SystemReport};
use crate::schedule::Rate;
use crate::search::{Probe, Search, Step};
use crate::system::{Cluster, Site};
use crate::workload::{Experiment, Goal, Pace, Point, Workload};

/// What is to be measured.
#[derive(Clone, Copy)]
pub struct Suite<'a> {
    /// What is done.
    pub experiment: &'a Experiment,
    /// To whom.
    pub drivers: &'a [Driver],
    /// How often, each.
    pub runs: usize,
    /// Where things are.
    pub site: &'a Site,
    /// How it was asked for.
    pub command: &'a str,
    /// Set by whoever wants it to end early.
    pub stop: &'a AtomicBool,
}

/// What is told while it goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// A run begins.
    Run {
        /// Its place among all of them, from 1 on.
        number: usize,
        /// How many there are.
        of: usize,
        /// The values of its point.
        point: &'a Point,
        /// Whose run it is.
        driver: &'a Driver,
    },
    /// A second of it is over.
    Second(&'a Second),
    /// It is over.
    Done(&'a RunReport),
}

impl Suite<'_> {
    /// Measures all of it.
    pub fn measure(&self, tell: &mut dyn FnMut(Event<'_>)) -> Result<Report> {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut notes = self.experiment.notes.clone();
        let of = self.experiment.points.len() * self.runs * self.drivers.len();
        let (mut number, mut points) = (0, Vec::new());
        for point in &self.experiment.points {
            let mut runs: Vec<Vec<RunReport>> = vec![Vec::new(); self.drivers.len()];
            for run in 0..self.runs {
                for at in in_turn(run, self.drivers.len()) {
                    let driver = &self.drivers[at];
                    number += 1;
                    tell(Event::Run { number, of, point, driver });
                    let done = self.run(point, driver, &mut notes, tell);
                    let done = done.with_context(|| format!("{} did not get through it", driver.name))?;
                    ensure!(!self.stop.load(Ordering::Relaxed), "it was interrupted");
                    tell(Event::Done(&done));
                    runs[at].push(done);
                }
            }
            points.push(self.point(point, runs));
        }
        let dir = std::path::absolute(&self.site.dir)?;
        let Experiment { name, about, published, is_quick, .. } = self.experiment.clone();
        Ok(Report {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            began_ms: u64::try_from(began.as_millis()).unwrap_or_default(),
            command: self.command.to_owned(),
            name,
            about,
            published,
            is_quick,
            notes,
            machine: Machine::here(dir.to_str()).json(),
            points,
        })
    }

    fn run(
        &self,
        point: &Point,
        driver: &Driver,
        notes: &mut Vec<String>,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<RunReport> {
        let workload = &point.workload;
        let brokers = workload.brokers.max(driver.replication_factor.unwrap_or(1));
        let cluster = Cluster::start(driver, brokers, self.site)?;
        let pids = cluster.pids();
        let target = Target { servers: cluster.servers(), pids: &pids, driver, workload, stop: self.stop };
        let mut show = |second: &Second| tell(Event::Second(second));
        let (outcome, probes) = match &workload.search {
            Some(goal) => searched(target, goal, &mut show)?,
            None => (load::run(target, &mut show)?, Vec::new()),
        };
        cluster.stop()?;
        let place = format!("{} {}", driver.name, point.label());
        let behind = outcome.punctuality.warning().map(|warning| format!("{}: {warning}", place.trim_end()));
        for note in outcome.notes.iter().cloned().chain(behind) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        Ok(RunReport::of(outcome, probes))
    }

    fn point(&self, point: &Point, runs: Vec<Vec<RunReport>>) -> PointReport {
        let system = |(driver, runs): (&Driver, Vec<RunReport>)| {
            SystemReport::of(driver.clone(), self.version(driver), runs)
        };
        let systems = self.drivers.iter().zip(runs).map(system).collect();
        PointReport { at: point.at.iter().cloned().collect(), workload: point.workload.clone(), systems }
    }

    fn version(&self, driver: &Driver) -> Option<String> {
        match driver.system {
            System::Vltava => Some(format!("vltava {}", env!("CARGO_PKG_VERSION"))),
            System::Kafka => {
                self.site.kafka.as_ref().map(|kafka| format!("Apache Kafka {}", kafka.version()))
            }
            System::Bootstrap => None,
        }
    }
}

/// Searches for the highest rate that is kept up with, and runs the workload at that.
fn searched(target: Target<'_>, goal: &Goal, show: &mut dyn FnMut(&Second)) -> Result<(Outcome, Vec<Probe>)> {
    let mut run = |rate: Pace, seconds: f64| {
        let workload = Workload { rate, seconds, ..target.workload.clone() };
        load::run(Target { workload: &workload, ..target }, show)
    };
    let full_speed = run(Pace::Max, goal.seconds)?;
    let written = full_speed.written.context("nothing was written at full speed")?;
    let mut search = Search::below(written.measured.counts.records as f64 / written.seconds, *goal);
    loop {
        ensure!(!target.stop.load(Ordering::Relaxed), "it was interrupted");
        match search.next() {
            Step::Try(rate) => {
                let outcome = run(Pace::Rate(Rate::constant(rate)), goal.seconds)?;
                search.on_probe(Probe::of(rate, &outcome));
            }
            Step::Found(rate) => {
                ensure!(rate > 0.0, "no rate was found that is kept up with");
                let outcome = run(Pace::Rate(Rate::constant(rate)), target.workload.seconds)?;
                return Ok((outcome, search.into_probes()));
            }
        }
    }
}

/// Whose turn it is in a run, one after the other.
fn in_turn(run: usize, systems: usize) -> Vec<usize> {
    let forward = 0..systems;
    if run.is_multiple_of(2) { forward.collect() } else { forward.rev().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_turn_around() {
        assert_eq!([in_turn(0, 3), in_turn(1, 3), in_turn(2, 3)], [[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
    }
}
