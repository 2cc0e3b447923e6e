//! An experiment from its first point to its last: each run of each system on fresh brokers or, where a system takes long
//! to warm up, on brokers that are kept from one point to the next.

mod paced; // a run at its rate, once that is known
mod turns;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};

use crate::ceiling::{self, Ceilings, Done, Extent, Share};
use crate::driver::{Driver, System};
use crate::export::Export;
use crate::fleet::Fleet;
use crate::load::{self, Outcome, Show, Target, Window};
use crate::machine::{self, Machine};
use crate::report::{Growth, PointReport, Report, RunReport, SCHEMA, SystemReport};
use crate::resources::Sources;
use crate::system::{Cluster, Kafka, Site};
use crate::workload::{Experiment, Point, Workload};

use paced::Paced;
use turns::turns;

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
    /// What the machine can do at all, if that was measured: brokers that run on it are told as a share of that.
    pub ceilings: Option<&'a Ceilings>,
    /// How it was asked for.
    pub command: &'a str,
    /// Of the program that measures, and of brokers of its own.
    pub version: &'a str,
    /// Machines that do it; this one, if there are none.
    pub fleet: Option<&'a Fleet>,
    /// Where what is going on is shown.
    pub export: Option<&'a Export>,
    /// Set by whoever wants it to end early.
    pub stop: &'a AtomicBool,
}

/// After less than this a JVM still compiles most of what it does; it goes on for minutes.
const KAFKA_WARMUP_SECONDS: f64 = 10.0;

/// What is told while it goes on.
#[derive(Debug)]
pub enum Event<'a> {
    /// A run begins.
    Run {
        /// Its place among all of them, from 1 on.
        number: usize,
        /// Its place among those of its system at its point, from 1 on.
        run: usize,
        /// How many there are.
        of: usize,
        /// The values of its point.
        point: &'a Point,
        /// Whose run it is.
        driver: &'a Driver,
    },
    /// A second of it is over.
    Second {
        /// What it is a second of, where a rate is looked for; nothing of a run whose rate is known.
        part: &'a str,
        /// What came in it.
        window: &'a Window<'a>,
    },
    /// It is over.
    Done(&'a RunReport),
}

impl Suite<'_> {
    /// Measures all of it.
    pub fn measure(&self, tell: &mut dyn FnMut(Event<'_>)) -> Result<Report> {
        let began = now();
        let mut notes = self.experiment.notes.clone();
        if self.drivers.iter().any(Driver::is_here) {
            notes.extend(Machine::here(None).congestion_control().and_then(of_pacing));
        }
        if self.drivers.iter().any(|driver| driver.system != System::Bootstrap) {
            std::fs::create_dir_all(&self.site.dir)?;
            let dir = std::path::absolute(&self.site.dir)?;
            notes.extend(Machine::here(dir.to_str()).file_system().and_then(|of| of_memory(of, &dir)));
        }
        let load_before = machine::load();
        if let Some(extent) = self.experiment.of_machine() {
            let report = self.measure_ceiling(extent, notes)?;
            return Ok(Report { load: load_before.zip(machine::load()), ..report });
        }
        let points = self.fitting(&mut notes)?;
        let (runs, is_interrupted) = self.measure_all(&points, &mut notes, tell)?;
        let points = points.iter().zip(runs).map(|(point, runs)| self.point(point, runs));
        let mut points: Vec<PointReport> = points.collect();
        points.retain(|point| !point.systems.is_empty());
        let report = self.report(began, notes, points)?;
        Ok(Report { load: load_before.zip(machine::load()), is_interrupted, ..report })
    }

    /// What came of all runs, by point and system, and whether it was interrupted before all were done, which is an error
    /// before there are any.
    fn measure_all(
        &self,
        points: &[Point],
        notes: &mut Vec<String>,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<(Vec<Vec<Vec<RunReport>>>, bool)> {
        let keeps = points.len() > 1 && self.drivers.iter().any(|driver| driver.warmup.is_some());
        let turns = turns(points.len(), self.runs, self.drivers.len(), keeps);
        let mut runs = vec![vec![Vec::new(); self.drivers.len()]; points.len()];
        let mut kept = None;
        for (number, turn) in turns.iter().enumerate() {
            let (point, driver) = (&points[turn.point], &self.drivers[turn.system]);
            tell(Event::Run { number: number + 1, run: turn.run + 1, of: turns.len(), point, driver });
            let goes_on = turns.get(number + 1).is_some_and(|next| next.system == turn.system);
            let keeps = keeps && goes_on && driver.warmup.is_some();
            let done = self.run((point, driver), (&mut kept, keeps), notes, tell);
            if self.stop.load(Ordering::Relaxed) {
                ensure!(number > 0, "it was interrupted");
                notes.push(format!("it was interrupted: {number} of {} runs were done", turns.len()));
                return Ok((runs, true));
            }
            // What was measured before is not lost with it; the command fails, as with records that are wrong.
            let done = done.unwrap_or_else(|error| RunReport {
                wrong: Some(format!("did not get through it: {error:#}")),
                ..RunReport::default()
            });
            tell(Event::Done(&done));
            runs[turn.point][turn.system].push(done);
        }
        Ok((runs, false))
    }

    /// The points, each as large as this machine's disk has room for, where that is what brokers are on.
    fn fitting(&self, notes: &mut Vec<String>) -> Result<Vec<Point>> {
        let mut points = self.experiment.points.clone();
        if self.drivers.iter().all(|driver| driver.system == System::Bootstrap) {
            return Ok(points);
        }
        std::fs::create_dir_all(&self.site.dir)?;
        let room = ceiling::room_bytes(&self.site.dir)?;
        let of_drivers = self.drivers.iter().filter_map(|driver| driver.replication_factor).max();
        for point in &mut points {
            let replicas = of_drivers.unwrap_or(0).max(point.workload.replication_factor);
            let (workload, note) = point.workload.fitting(room, replicas);
            point.workload = workload;
            let label = point.label();
            notes.extend(note.map(|note| format!("{label} {note}").trim_start().to_owned()));
        }
        Ok(points)
    }

    /// The machine alone, without brokers.
    fn measure_ceiling(&self, extent: Extent, mut notes: Vec<String>) -> Result<Report> {
        let began = now();
        std::fs::create_dir_all(&self.site.dir)?;
        let (extent, note) = extent.fitting(&self.site.dir)?;
        notes.extend(note);
        let ceilings = Ceilings::measure(&self.site.dir, extent, self.stop)?;
        let points = self.experiment.points.iter().map(|point| self.point(point, Vec::new()));
        Ok(Report { ceilings: Some(ceilings), ..self.report(began, notes, points.collect())? })
    }

    fn report(&self, began: Duration, notes: Vec<String>, points: Vec<PointReport>) -> Result<Report> {
        // What the data of brokers is on that others started, nobody here knows.
        let are_ours = self.drivers.iter().any(|driver| driver.system != System::Bootstrap);
        let is_here = are_ours || self.experiment.of_machine().is_some();
        let dir = is_here.then(|| std::path::absolute(&self.site.dir)).transpose()?;
        let mut machine = Machine::here(dir.as_ref().and_then(|dir| dir.to_str())).json();
        if let Some(fleet) = self.fleet {
            machine["workers"] = fleet.machines().into();
        }
        let Experiment { name, about, published, is_quick, .. } = self.experiment.clone();
        Ok(Report {
            schema: SCHEMA.to_owned(),
            version: self.version.to_owned(),
            began_ms: u64::try_from(began.as_millis()).unwrap_or_default(),
            command: self.command.to_owned(),
            name,
            about,
            published,
            is_quick,
            notes,
            machine,
            load: None,
            is_interrupted: false,
            ceilings: self.ceilings.copied(),
            points,
        })
    }

    /// One run, on the brokers that were kept from the point before if there are as many as it takes; they are kept again
    /// if `keeps` says so.
    fn run(
        &self,
        (point, driver): (&Point, &Driver),
        (kept, keeps): (&mut Option<Cluster>, bool),
        notes: &mut Vec<String>,
        tell: &mut dyn FnMut(Event<'_>),
    ) -> Result<RunReport> {
        let workload = &point.workload;
        let (mut cluster, are_brokers_kept) = self.brokers(workload, driver, kept)?;
        let (tallies, servers, metrics) =
            (cluster.tallies(), cluster.servers().to_owned(), cluster.metrics().to_owned());
        let dir = cluster.dir().map(Path::to_owned);
        let sources = Sources { brokers: &tallies, dir: dir.as_deref(), metrics: &metrics };
        let target = Target {
            servers: &servers,
            sources,
            driver,
            workload,
            stop: self.stop,
            read_for: Duration::ZERO,
        };
        let measured = cluster.under(&workload.faults, |began| {
            let mut show = |part: &str, window: &Window<'_>| {
                // What is tried before has no faults.
                let start = Instant::now().checked_sub(Duration::from_secs_f64(window.second.to));
                if let Some(start) = start.filter(|_| part.is_empty()) {
                    began.at(start);
                }
                if let Some(export) = self.export {
                    export.on_window(window);
                }
                tell(Event::Second { part, window });
            };
            self.paced(target, are_brokers_kept, &mut show)
        });
        let replicas = target.replicas();
        // Whoever ends it early wants nothing to stay behind; of what failed the logs do.
        let is_stopped = self.stop.load(Ordering::Relaxed);
        if keeps && measured.is_ok() && !is_stopped && workload.faults.is_empty() {
            *kept = Some(cluster);
        } else if measured.is_ok() || is_stopped {
            cluster.stop()?;
        }
        let (paced, faults) = measured?;
        self.note((point, driver), &paced, notes);
        let run = self.reported((workload, driver), replicas, paced);
        Ok(RunReport { are_brokers_kept, faults, ..run })
    }

    /// The brokers that were kept, and that they were, or others if those are not as many as it takes.
    fn brokers(
        &self,
        workload: &Workload,
        driver: &Driver,
        kept: &mut Option<Cluster>,
    ) -> Result<(Cluster, bool)> {
        let brokers = workload.brokers.max(driver.replication_factor.unwrap_or(1));
        if let Some(cluster) = kept.take() {
            if driver.system == System::Bootstrap || cluster.brokers() == brokers {
                self.site.ballast.as_ref().map_or(Ok(()), |ballast| ballast.fill())?;
                return Ok((cluster, true));
            }
            cluster.stop()?;
        }
        Ok((Cluster::start(driver, brokers, self.site)?, false))
    }

    /// Adds what is to be known of a run, and was not said before.
    fn note(&self, (point, driver): (&Point, &Driver), paced: &Paced, notes: &mut Vec<String>) {
        let place = format!("{} {}", driver.name, point.label());
        let befell = paced.notes.iter().chain(&paced.outcome.befell).cloned();
        let of_run = befell.chain(paced.outcome.punctuality.warning());
        let of_run = of_run.map(|note| format!("{}: {note}", place.trim_end()));
        let of_system =
            cold_start(driver, &point.workload).into_iter().chain(of_jvm(driver)).chain(driver.notes.clone());
        for note in paced.outcome.notes.iter().cloned().chain(of_run).chain(of_system) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }

    /// What came of a run, with what part that is of what the machine can do.
    fn reported(&self, (workload, driver): (&Workload, &Driver), replicas: u16, paced: Paced) -> RunReport {
        let Paced {
            outcome, probes, rate, is_rate_missed, full_speed_per_sec, warmup_speeds, mut wrong, ..
        } = paced;
        let log_bytes_per_record = outcome.log_bytes_per_record;
        let run = RunReport::of(outcome, probes, workload);
        wrong.extend(run.wrong.clone());
        let wrong = (!wrong.is_empty()).then(|| wrong.join("; "));
        let warmup_tries = u16::try_from(warmup_speeds.len()).unwrap_or(u16::MAX);
        let run =
            RunReport { rate, is_rate_missed, full_speed_per_sec, warmup_tries, warmup_speeds, wrong, ..run };
        if !driver.is_here() {
            return run;
        }
        let done = done(&run, workload, replicas, log_bytes_per_record);
        let share = self.ceilings.zip(done).and_then(|(limit, done)| Share::of(limit, &done));
        let memory = machine::memory_total_bytes().filter(|_| !run.is_compressed());
        let growth = memory.and_then(|memory| Growth::of(&run.seconds, replicas, memory));
        RunReport { share, growth, ..run }
    }

    /// One run, by whoever does it.
    fn load(&self, target: Target<'_>, show: &mut Show<'_>) -> Result<Outcome> {
        if let Some(export) = self.export {
            export.on_run(&target.workload.name, &target.driver.name);
        }
        let done = match self.fleet {
            Some(fleet) => fleet.run(target, show),
            None => load::run(target, show),
        };
        if let Some(export) = self.export {
            let may_give_up = target.workload.may_give_up;
            let is_good =
                |outcome: &Outcome| outcome.verdict.is_clean() && (outcome.failed == 0 || may_give_up);
            export.on_done(!done.as_ref().is_ok_and(is_good));
        }
        done
    }

    fn point(&self, point: &Point, runs: Vec<Vec<RunReport>>) -> PointReport {
        let system = |(driver, runs): (&Driver, Vec<RunReport>)| {
            SystemReport::of(driver.clone(), self.version_of(driver), runs)
        };
        // Of what was interrupted, some have not had a run.
        let done = self.drivers.iter().zip(runs).filter(|(_, runs)| !runs.is_empty());
        let systems = done.map(system).collect();
        PointReport { at: point.at.iter().cloned().collect(), workload: point.workload.clone(), systems }
    }

    fn version_of(&self, driver: &Driver) -> Option<String> {
        match driver.system {
            System::Vltava => Some(format!("vltava {}", self.version)),
            System::Kafka => self.site.kafka.as_ref().map(|kafka| kafka.version()),
            System::Bootstrap => driver.version.clone(),
        }
    }
}

/// What it means where a file system is no disk's.
fn of_memory(file_system: &str, dir: &Path) -> Option<String> {
    matches!(file_system, "tmpfs" | "ramfs").then(|| {
        format!(
            "{} is on {file_system}, which is memory: nothing of a disk is measured, and what is stored takes the memory of \
             brokers; --data-dir names a folder on a disk",
            dir.display()
        )
    })
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// What a short warm-up does to a system on a JVM.
fn cold_start(driver: &Driver, workload: &Workload) -> Option<String> {
    let (name, seconds) = (&driver.name, workload.warmup_seconds);
    let is_warm = driver.warmup.is_some() || !workload.stored && seconds >= KAFKA_WARMUP_SECONDS;
    if driver.system != System::Kafka || is_warm {
        return None;
    }
    let how = if workload.stored {
        "only written to before what is read is measured".to_owned()
    } else {
        format!("warmed up for {seconds} s before each run")
    };
    Some(format!(
        "{name} was {how}: it runs on a JVM, which compiles for longer, so that the first of its records measure that"
    ))
}

/// What Kafka runs with that is none of its settings.
fn of_jvm(driver: &Driver) -> Option<String> {
    let is_kafka = driver.system == System::Kafka;
    is_kafka.then(|| {
        format!("{} runs in a JVM with {}, as Kafka's scripts start it", driver.name, Kafka::options())
    })
}

/// Clients and brokers of one machine speak through loopback, on which there is nothing to be paced for.
fn of_pacing(congestion_control: &str) -> Option<String> {
    congestion_control.starts_with("bbr").then(|| {
        format!(
            "sockets send at a pace here ({congestion_control}), through loopback as well: that takes a timer for \
             every segment, whichever system it is; Linux's own default, cubic, sets none"
        )
    })
}

/// What a run did of what its machine limits; `None` of records one at a time, which wait most of the time, and
/// of compressed ones, which are smaller on their way than they are counted, if no log says how small.
fn done(
    run: &RunReport,
    workload: &Workload,
    replicas: u16,
    log_bytes_per_record: Option<f64>,
) -> Option<Done> {
    if workload.one_at_a_time || run.is_compressed() && log_bytes_per_record.is_none() {
        return None;
    }
    let (flow, replicas) = match (&run.written, &run.read) {
        (Some(written), _) => (written, f64::from(replicas)),
        (None, read) => (read.as_ref()?, 0.0),
    };
    // What several read is counted as often as it is read.
    let reads = match (&run.written, &run.read) {
        (Some(_), Some(_)) => f64::from(workload.subscriptions),
        (None, Some(_)) => 1.0,
        (_, None) => 0.0,
    };
    let (records, bytes) = (flow.records_per_sec * flow.seconds, flow.mb_per_sec * 1e6 * flow.seconds);
    let log_bytes = log_bytes_per_record.map(|of_each| of_each * records);
    let memory = machine::memory_total_bytes().unwrap_or(u64::MAX);
    let is_flushed = run.stamp.is_flushed || log_bytes.unwrap_or(bytes) * replicas > memory as f64;
    Some(Done { records, bytes, log_bytes, seconds: flow.seconds, replicas, reads, is_flushed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_jvm_does_to_a_result_is_told() {
        let cold = |driver: &str, warmup_seconds, stored| {
            let driver = Driver { warmup: None, ..Driver::find(driver).expect("it ships") };
            cold_start(&driver, &Workload { warmup_seconds, stored, ..Workload::default() })
        };
        let said = |note: Option<String>, what: &str| note.is_some_and(|note| note.starts_with(what));
        assert!(said(
            cold("kafka", 5.0, false),
            "kafka was warmed up for 5 s before each run: it runs on a JVM"
        ));
        assert!(said(
            cold("kafka", 10.0, true),
            "kafka was only written to before what is read is measured: it"
        ));
        assert_eq!((cold("kafka", 10.0, false), cold("vltava", 0.0, true)), (None, None));
        let of = |driver: &str| of_jvm(&Driver::find(driver).expect("it ships"));
        assert!(said(of_pacing("bbr"), "sockets send at a pace here (bbr)"));
        assert_eq!(of_pacing("cubic"), None);
        assert!(said(of_memory("tmpfs", Path::new("/tmp/x")), "/tmp/x is on tmpfs, which is memory"));
        assert_eq!(of_memory("ext4", Path::new("/tmp/x")), None);
        assert!(said(of("kafka"), "kafka runs in a JVM with -Xmx1g -Xms1g -server -XX:+UseG1GC "));
        assert_eq!(of("vltava"), None);
    }
}
