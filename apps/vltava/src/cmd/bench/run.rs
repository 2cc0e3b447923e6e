//! `vltava bench run`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail, ensure};
use bench::driver::{Driver, System};
use bench::preset::Preset;
use bench::suite::{Event, Suite};
use bench::system::{Kafka, Site};
use bench::workload::Experiment;

use super::live::Live;
use crate::interrupt;

/// Run a benchmark, or a workload of yours
///
/// Without --driver or --bootstrap-server it starts brokers of this program, on fresh data for each run. Every
/// record is read back and checked: one that is lost, duplicated, reordered or corrupt fails the run.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// A benchmark that `vltava bench list` lists, or a file: a workload, of ours or of the OpenMessaging Benchmark
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
    /// Another driver, or several, whose runs take turns with those of the first
    #[arg(long, value_name = "NAME")]
    against: Vec<String>,
    /// How often each is run. A verdict takes four
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Write the result into this directory, as JSON and as Markdown
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A folder with Apache Kafka's jars in libs/, as its distribution has it
    #[arg(long, value_name = "DIR", env = "KAFKA_HOME")]
    kafka: Option<PathBuf>,
    /// Where brokers keep their data meanwhile; the system's folder for temporary files unless said
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The first port that brokers may take
    #[arg(long, default_value_t = 20_000, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1024..=60_000))]
    port: u16,
    /// Answer with JSON, for programs
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  vltava bench run linkedin-1p-rf1 --quick --out results
  vltava bench run linkedin-record-size --quick --against kafka --kafka ~/kafka --runs 5
  vltava bench run liveramp-acks --bootstrap-server broker-1:9092
  vltava bench run omb/workload.yaml --driver omb/driver.yaml";

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    let experiment = arguments.experiment()?;
    let drivers = arguments.drivers()?;
    let site = arguments.site(&drivers)?;
    let command = std::env::args().skip(1).fold("vltava".to_owned(), |said, word| format!("{said} {word}"));
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    interrupt::on_first(move || stopped.store(true, Ordering::Relaxed))?;
    let suite = Suite {
        experiment: &experiment,
        drivers: &drivers,
        runs: arguments.runs.into(),
        site: &site,
        command: &command,
        stop: &stop,
    };
    let mut live = Live::begin();
    let report = suite.measure(&mut |event: Event<'_>| live.tell(&event));
    live.end();
    let report = report?;
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string(&report)?)?;
    } else {
        write!(out, "{}", report.table().text())?;
        let verdicts = report.verdicts();
        if !verdicts.is_empty() {
            write!(out, "\n{}", verdicts.text())?;
        }
        if let Some(published) = &report.published {
            writeln!(out, "\npublished: {} ({})", published.result, published.source)?;
        }
        if report.is_quick {
            writeln!(out, "short form: smaller than what was published")?;
        }
    }
    for note in &report.notes {
        eprintln!("note: {note}");
    }
    if let Some(folder) = &arguments.out {
        report.write(folder)?;
        eprintln!("written: {0}/{1}.json, {0}/{1}.md", folder.display(), report.name);
    }
    out.flush()?;
    match &report.wrong()[..] {
        [] => Ok(()),
        wrong => bail!("{}", wrong.join("; ")),
    }
}

impl Arguments {
    fn experiment(&self) -> Result<Experiment> {
        let is_path = self.name.contains('/') || self.name.ends_with(".yaml") || self.name.ends_with(".yml");
        match is_path {
            true => Experiment::open(Path::new(&self.name), self.quick),
            false => Preset::find(&self.name)?.experiment(self.quick),
        }
    }

    fn drivers(&self) -> Result<Vec<Driver>> {
        let first = match &self.bootstrap_server {
            Some(servers) => {
                crate::reach::reach(servers, std::time::Duration::from_secs(5))?;
                Driver::at(servers)
            }
            None => Driver::find(self.driver.as_deref().unwrap_or("vltava"))?,
        };
        let mut drivers = vec![first];
        for name in &self.against {
            let other = Driver::find(name)?;
            ensure!(drivers.iter().all(|driver| driver.name != other.name), "{} is there twice", other.name);
            drivers.push(other);
        }
        Ok(drivers)
    }

    fn site(&self, drivers: &[Driver]) -> Result<Site> {
        // Where it is may be said once for all runs, also for those that do not need it.
        let needs_kafka = drivers.iter().any(|driver| driver.system == System::Kafka);
        let kafka = self.kafka.as_deref().filter(|_| needs_kafka);
        Ok(Site {
            vltava: std::env::current_exe().context("cannot find this program again")?,
            kafka: kafka.map(Kafka::find).transpose()?,
            dir: self.data_dir.clone().unwrap_or_else(|| std::env::temp_dir().join("vltava-bench")),
            port: self.port,
        })
    }
}
