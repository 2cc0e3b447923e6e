//! Measures our node beside Apache Kafka, turn by turn, and writes down what came of it.
//!
//! ```text
//!   options ─▶ part by part: for each run, for each side in turn
//!                 start on fresh data ─▶ load ─▶ measure ─▶ remove
//!              ─▶ figures ─▶ report: page and values
//! ```
//!
//! **Invariant:** whatever ends it, no process and no data of a measurement stay behind.

mod broker;
mod figures;
mod leftovers;
mod lifecycle; // then what is measured
mod load;
mod machine;
mod options; // start here
mod process;
mod report;
mod requests;
mod throughput;
mod wire;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::test::cargo;
use broker::{Side, Site};
use figures::Section;
use leftovers::Leftovers;
use load::Consumer;
use machine::Stamp;
use options::{Options, Part, USAGE};
use report::Report;

/// Everything a measurement needs.
struct Bench {
    options: Options,
    site: Site,
    consumer: Consumer,
    began: Instant,
    estimate: Duration,
}

/// Runs the words after `bench`.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    match words {
        ["broker", words @ ..] => broker(root, words),
        ["leftovers"] => leftovers::keep(),
        _ => bail!("{USAGE}"),
    }
}

fn broker(root: &Path, words: &[&str]) -> Result<()> {
    let options = Options::parse(root, words)?;
    let vltava = match &options.binary {
        Some(binary) => binary.clone(),
        None => build(root)?,
    };
    ensure!(vltava.is_file(), "{} is not there", vltava.display());
    let leftovers = Leftovers::keeper()?;
    let dir = options.dir.join(format!("vltava-bench-{}", std::process::id()));
    leftovers.directory(&dir)?;
    let site = Site { leftovers, vltava, built: options.binary.is_none(), kafka: options.kafka.clone(), dir };
    let consumer = Consumer::compile(&site, root)?;
    let estimate = estimate(&options);
    let bench = Bench { options, site, consumer, began: Instant::now(), estimate };
    println!("about {:.0} minutes on the reference machine when it is quiet", estimate.as_secs_f64() / 60.0);
    measure(root, &bench)
}

/// The binary as it is shipped.
fn build(root: &Path) -> Result<PathBuf> {
    let status = cargo(root).args(["build", "--profile", "dist", "--package", "vltava"]).status()?;
    ensure!(status.success(), "the binary does not build");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(root.join(target).join("dist").join("vltava"))
}

/// Measures every part that is wanted. Each is written down as soon as it is complete, and one that
/// fails does not take the others with it.
fn measure(root: &Path, bench: &Bench) -> Result<()> {
    type Measured = fn(&Bench) -> Result<Vec<Section>>;
    let parts: [(&[Part], Measured); 5] = [
        (&[Part::Produce, Part::Consume], throughput::in_and_out),
        (&[Part::Durable], throughput::durable),
        (&[Part::Start], lifecycle::start),
        (&[Part::Partitions], lifecycle::partitions),
        (&[Part::Recovery], lifecycle::recovery),
    ];
    let mut report = Report::read(&bench.options.out)?;
    let mut failed = 0;
    for (parts, measured) in parts {
        let wanted: Vec<Part> = parts.iter().copied().filter(|part| bench.options.wants(*part)).collect();
        let Some(first) = wanted.first() else { continue };
        let stamp = Stamp::begin(root, &bench.site, bench.options.runs)?;
        match measured(bench) {
            Ok(sections) => {
                put(bench, &mut report, sections, stamp)?;
                report.write(&bench.options.out)?;
            }
            Err(error) => {
                eprintln!("error: {}: {error:#}", first.word());
                failed += 1;
            }
        }
    }
    println!("\n{}\n{}", report.goals(), bench.options.out.display());
    ensure!(failed == 0, "not everything could be measured");
    Ok(())
}

fn put(bench: &Bench, report: &mut Report, sections: Vec<Section>, stamp: Stamp) -> Result<()> {
    let stamp = stamp.end()?;
    for mut section in sections {
        section.stamp = Stamp { command: bench.options.command(section.part), ..stamp.clone() };
        report.put(section);
    }
    Ok(())
}

impl Bench {
    /// Lets each side have its turn in each run; the order turns around from run to run, so that
    /// neither always finds the machine as the other left it.
    fn alternate(&self, sides: &[Side], mut turn: impl FnMut(usize, Side) -> Result<()>) -> Result<()> {
        for run in 0..self.options.runs {
            let mut sides = sides.to_vec();
            if run % 2 == 1 {
                sides.reverse();
            }
            for side in sides {
                turn(run, side)?;
            }
        }
        Ok(())
    }

    /// The same, with Kafka in the first run only: for what takes it minutes.
    fn alternate_with_kafka_once(
        &self,
        sides: &[Side],
        mut turn: impl FnMut(usize, Side) -> Result<()>,
    ) -> Result<()> {
        self.alternate(
            sides,
            |run, side| {
                if side == Side::Kafka && run > 0 { Ok(()) } else { turn(run, side) }
            },
        )
    }

    /// A line on how it goes.
    fn say(&self, part: Part, run: usize, side: Side, what: &str) {
        let minutes = |time: Duration| format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60);
        println!(
            "[{} of ~{}] {} {}/{} {}: {what}",
            minutes(self.began.elapsed()),
            minutes(self.estimate),
            part.word(),
            run + 1,
            self.options.runs,
            side.column()
        );
    }
}

/// How long it takes on the reference machine when that is quiet, by what was seen there.
fn estimate(options: &Options) -> Duration {
    let runs = options.runs as f64;
    let million = options.records as f64 / 1e6;
    let gib = options.log_mib as f64 / 1024.0;
    let thousand = f64::from(options.partitions) / 1000.0;
    let seconds = |part: Part| match part {
        Part::Produce => runs * (20.0 + 2.0 * 0.8 * million),
        Part::Consume => runs * (5.0 + 2.0 * 0.25 * million),
        Part::Durable => runs * (25.0 + 3.0 * 0.9 * million),
        Part::Start => runs * 17.0,
        Part::Partitions => {
            let kafka = if options.kafka_partitions { 15.0 + 45.0 * thousand } else { 0.0 };
            runs * (10.0 + 2.5 * thousand) + kafka
        }
        Part::Recovery => runs * (10.0 + 2.0 * 2.0 * gib) + 15.0 + 3.0 * gib,
    };
    Duration::from_secs_f64(options.only.iter().map(|part| seconds(*part)).sum())
}
