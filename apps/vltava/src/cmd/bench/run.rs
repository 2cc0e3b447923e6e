//! `vltava bench run`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bench::ballast::Ballast;
use bench::ceiling::{Ceilings, Extent};
use bench::driver::{Driver, System};
use bench::files;
use bench::fleet::Fleet;
use bench::hlog::Runs;
use bench::preset::{Family, Preset};
use bench::report::{Grid, Report, Summary, limits};
use bench::suite::{Event, Suite};
use bench::system::{Kafka, Site};
use bench::workload::Experiment;

use super::live::Live;
use super::worker::{TokenArguments, export};
use crate::cmd::VERSION;
use crate::interrupt;
use crate::output::say;

/// Run a benchmark, or a workload of yours
///
/// Without --driver or --bootstrap-server it starts brokers of this program, on fresh data for each run. Every
/// record is read back and checked: one that is lost, duplicated, reordered or corrupt fails the run, and so
/// does a broker that ends by itself.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// A benchmark that `vltava bench list` lists, or a file: a workload, of ours or of the OpenMessaging Benchmark.
    /// linkedin, liveramp and confluent are all that begin so, one after the other
    name: String,
    /// Run its short form: smaller than what was published, and said to be
    #[arg(long)]
    quick: bool,
    /// What it runs against: vltava, vltava-durable, kafka, or a file, of ours or of the OpenMessaging Benchmark
    #[arg(long, value_name = "NAME", conflicts_with = "bootstrap_server")]
    driver: Option<String>,
    /// Run it against a cluster that is there
    #[arg(long, value_name = "HOST:PORT")]
    bootstrap_server: Option<String>,
    /// What results say of which version the cluster at --bootstrap-server is: it does not say it itself
    #[arg(long, value_name = "TEXT", requires = "bootstrap_server")]
    cluster_version: Option<String>,
    /// Where the brokers of a cluster that is there tell Prometheus what they count: their processor time, memory and
    /// flushes become part of the result
    #[arg(long, value_name = "URL,…", value_delimiter = ',')]
    broker_metrics: Vec<String>,
    /// Another driver, or several, whose runs take turns with those of the first
    #[arg(long, value_name = "NAME")]
    against: Vec<String>,
    /// How often each is run. A verdict takes four
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Write the result into this directory: JSON, a page with charts, Markdown, CSV, histograms and results as the
    /// OpenMessaging Benchmark has them
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A folder with Apache Kafka's jars in libs/, as its distribution has it; without one, Maven fetches them once
    #[arg(long, value_name = "DIR", env = "KAFKA_HOME")]
    kafka: Option<PathBuf>,
    /// Where brokers keep their data meanwhile; the system's folder for temporary files unless said
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The first port that brokers may take
    #[arg(long, default_value_t = 20_000, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1024..=60_000))]
    port: u16,
    /// Machines that make the load together, each with a `vltava bench worker`
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',')]
    workers: Vec<String>,
    #[command(flatten)]
    token: TokenArguments,
    /// Show numbers for Prometheus at this address, as /metrics, while it goes on
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Do not measure first what this machine can do at all, which takes a few seconds
    #[arg(long)]
    no_ceilings: bool,
    /// Fill free memory with the cache of a file before brokers are started, as on a machine that has run for a
    /// while. A virtual machine may have given it back to its host, and pays for it again page by page
    #[arg(long)]
    fill_memory: bool,
    /// Answer with JSON, for programs: a line for each benchmark
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  vltava bench run linkedin-1p-rf1 --quick --out results
  vltava bench run linkedin --quick --against kafka --out results
  vltava bench run quick
  vltava bench run linkedin-record-size --quick --against kafka --runs 5
  vltava bench run liveramp-acks --bootstrap-server broker-1:9092 --broker-metrics http://broker-1:9644/metrics
  vltava bench run confluent-throughput --bootstrap-server broker-1:9092 --workers load-1:7411,load-2:7411 --token-file token
  vltava bench run omb/workload.yaml --driver omb/driver.yaml";

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    let family = Family::find(&arguments.name)?;
    let experiments = arguments.experiments(family.as_ref())?;
    let drivers = arguments.drivers()?;
    let site = arguments.site(&drivers)?;
    let command = std::env::args().skip(1).fold("vltava".to_owned(), |said, word| format!("{said} {word}"));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    interrupt::on_first(move || stopped.store(true, Ordering::Relaxed))?;
    let fleet = arguments.fleet()?;
    let export = export(arguments.metrics.as_deref())?;
    let ceilings = arguments.ceilings(&experiments, &drivers, &site, &stop)?;
    let measure = |experiment: &Experiment| {
        let suite = Suite {
            experiment,
            drivers: &drivers,
            runs: arguments.runs.into(),
            site: &site,
            ceilings: ceilings.as_ref(),
            command: &command,
            version: VERSION,
            fleet: fleet.as_ref(),
            export: export.as_deref(),
            stop: &stop,
        };
        suite.measure_shown(arguments.out.as_deref())
    };
    let done = match family {
        None => experiments.iter().try_for_each(|experiment| {
            let report = measure(experiment)?;
            arguments.show(&report, out)?;
            ensure!(!report.is_interrupted, "it was interrupted");
            Ok(())
        }),
        Some(family) => arguments.run_all(&family, &experiments, measure, &stop, out),
    };
    if arguments.data_dir.is_none() {
        // Others may be at work in it.
        let _ = std::fs::remove_dir(&site.dir);
    }
    done
}

/// A suite whose progress is shown, and its histograms written into a folder if there is one.
trait Shown {
    fn measure_shown(&self, folder: Option<&Path>) -> Result<Report>;
}

impl Shown for Suite<'_> {
    fn measure_shown(&self, folder: Option<&Path>) -> Result<Report> {
        let mut live = Live::begin();
        let folder = folder.filter(|_| self.experiment.of_machine().is_none());
        let mut histograms = folder.map(|folder| Runs::create(folder, &self.experiment.name)).transpose()?;
        let mut logged = Ok(());
        let report = self.measure(&mut |event: Event<'_>| {
            live.tell(&event);
            if let (Some(histograms), Ok(())) = (&mut histograms, &logged) {
                logged = histograms.tell(&event);
            }
        });
        live.end();
        // A disk that is full costs the histograms and not the result.
        let finish = |runs: Runs| runs.finish(report.as_ref().ok());
        if let Err(error) = logged.and_then(|()| histograms.map_or(Ok(()), finish)) {
            say(format_args!("note: histograms are not written: {error:#}"));
        }
        report
    }
}

/// Tells of a report: its tables, or all of it for programs.
fn tell(report: &Report, is_json: bool, out: &mut dyn Write) -> Result<()> {
    if is_json {
        writeln!(out, "{}", serde_json::to_string(report)?)?;
        return Ok(());
    }
    let mut tables = vec![report.table(), report.verdicts(), report.deeds()];
    // What a machine can do is the result where nothing else was asked.
    tables.extend(report.ceilings.iter().filter(|_| report.table().is_empty()).map(limits));
    let texts: Vec<String> = tables.iter().filter(|table| !table.is_empty()).map(Grid::text).collect();
    write!(out, "{}", texts.join("\n"))?;
    if let Some(published) = &report.published {
        writeln!(out, "\npublished: {} ({})", published.result, published.source)?;
    }
    if report.is_quick {
        writeln!(out, "short form: smaller than what was published")?;
    }
    Ok(())
}

impl Arguments {
    /// Writes down what came of a benchmark; fails if its records are not what was sent.
    fn show(&self, report: &Report, out: &mut dyn Write) -> Result<()> {
        tell(report, self.json, out)?;
        out.flush()?;
        for note in report.remarks() {
            say(format_args!("note: {note}"));
        }
        if let Some(folder) = &self.out {
            for path in files::write(report, folder)? {
                say(format_args!("written: {}", path.display()));
            }
        }
        match &report.wrong()[..] {
            [] => Ok(()),
            wrong => bail!("{}", wrong.join("; ")),
        }
    }

    /// All of a family, one after the other: one that fails does not keep the others from being measured.
    fn run_all(
        &self,
        family: &Family,
        experiments: &[Experiment],
        measure: impl Fn(&Experiment) -> Result<Report>,
        stop: &AtomicBool,
        out: &mut dyn Write,
    ) -> Result<()> {
        let mut summary = Summary::of(&family.name, &family.about);
        for (number, experiment) in (1..).zip(experiments) {
            say(format_args!("{number} of {}: {}", experiments.len(), experiment.name));
            let done = measure(experiment).and_then(|report| {
                if !report.is_interrupted {
                    summary.add(&report);
                }
                self.show(&report, out)
            });
            // Its files have all that was done; the summary is of all.
            ensure!(!stop.load(Ordering::Relaxed), "it was interrupted");
            if let Err(error) = done {
                say(format_args!("{}: {error:#}", experiment.name));
                summary.add_failure(&experiment.name, &format!("{error:#}"));
            }
            if !self.json {
                writeln!(out)?;
            }
        }
        if !self.json {
            write!(out, "{}", summary.text())?;
        }
        if let Some(folder) = &self.out {
            for path in files::write_summary(&summary, folder)? {
                say(format_args!("written: {}", path.display()));
            }
        }
        out.flush()?;
        match summary.failures() {
            [] => Ok(()),
            failures => {
                let names: Vec<&str> = failures.iter().map(|(name, _)| &**name).collect();
                bail!("{} of {} failed: {}", names.len(), experiments.len(), names.join(", "))
            }
        }
    }

    fn experiments(&self, family: Option<&Family>) -> Result<Vec<Experiment>> {
        let Some(family) = family else { return Ok(vec![self.experiment()?]) };
        let is_quick = self.quick || family.is_quick;
        family.members.iter().map(|preset| preset.experiment(is_quick)).collect()
    }

    /// What the machine can do, if brokers will run on it and somebody wants to know.
    fn ceilings(
        &self,
        experiments: &[Experiment],
        drivers: &[Driver],
        site: &Site,
        stop: &AtomicBool,
    ) -> Result<Option<Ceilings>> {
        let asks_brokers = |experiment: &Experiment| experiment.of_machine().is_none();
        let are_here = drivers.iter().any(Driver::is_here);
        if self.no_ceilings || !are_here || !experiments.iter().any(asks_brokers) {
            return Ok(None);
        }
        std::fs::create_dir_all(&site.dir).with_context(|| format!("cannot make {}", site.dir.display()))?;
        if let Some(ballast) = &site.ballast {
            ballast.fill()?;
        }
        let measured = Extent::default()
            .fitting(&site.dir)
            .and_then(|(extent, _)| Ceilings::measure(&site.dir, extent, stop));
        ensure!(!stop.load(Ordering::Relaxed), "it was interrupted");
        // Benchmarks say something without it.
        Ok(measured
            .inspect_err(|error| say(format_args!("note: what this machine can do is not known: {error:#}")))
            .ok())
    }

    fn experiment(&self) -> Result<Experiment> {
        match super::is_path(&self.name) {
            true => Experiment::open(Path::new(&self.name), self.quick),
            false => Preset::find(&self.name)?.experiment(self.quick),
        }
    }

    fn drivers(&self) -> Result<Vec<Driver>> {
        let mut first = match &self.bootstrap_server {
            Some(servers) => Driver { version: self.cluster_version.clone(), ..Driver::at(servers) },
            None => Driver::find(self.driver.as_deref().unwrap_or("vltava"))?,
        };
        if !self.broker_metrics.is_empty() {
            first = first.counting_at(&self.broker_metrics).context("--broker-metrics")?;
        }
        let mut drivers = vec![first];
        for name in &self.against {
            let other = Driver::find(name)?;
            ensure!(drivers.iter().all(|driver| driver.name != other.name), "{} is there twice", other.name);
            drivers.push(other);
        }
        for driver in drivers.iter().filter(|driver| driver.system == System::Bootstrap) {
            crate::reach::reach(&driver.bootstrap_servers, Duration::from_secs(5))?;
        }
        Ok(drivers)
    }

    fn fleet(&self) -> Result<Option<Fleet>> {
        if self.workers.is_empty() {
            return Ok(None);
        }
        let fleet = Fleet::connect(&self.workers, &self.token.token()?)?;
        say(format_args!("{} workers make the load", fleet.workers()));
        Ok(Some(fleet))
    }

    fn site(&self, drivers: &[Driver]) -> Result<Site> {
        // Where it is may be said once for all runs, also for those that do not need it.
        let needs_kafka = drivers.iter().any(|driver| driver.system == System::Kafka);
        let kafka = match &self.kafka {
            _ if !needs_kafka => None,
            Some(folder) => Some(Kafka::find(folder)?),
            None => Some(Kafka::fetched()?),
        };
        let dir = self.data_dir.clone().unwrap_or_else(|| std::env::temp_dir().join("vltava-bench"));
        Ok(Site {
            ballast: self.ballast(&dir)?,
            vltava: std::env::current_exe().context("cannot find this program again")?,
            kafka,
            dir,
            port: self.port,
        })
    }

    fn ballast(&self, dir: &Path) -> Result<Option<Arc<Ballast>>> {
        if !self.fill_memory {
            return Ok(None);
        }
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Some(Arc::new(Ballast::create(dir)?)))
    }
}
