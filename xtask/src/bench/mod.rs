//! Measures our node and our clients beside Apache Kafka's, turn by turn, and writes down what came of it.
//!
//! ```text
//!   options ─▶ part by part: for each run, for each side in turn
//!                 start on fresh data ─▶ load ─▶ measure ─▶ remove
//!              ─▶ figures ─▶ report: page and values
//! ```
//!
//! **Invariant:** whatever ends it, no process and no data of a measurement stay behind.

// One file for both, since a tool uses no crate of ours.
#[path = "../../../apps/bench/src/ballast.rs"]
#[expect(unreachable_pub, reason = "it is public where others use it")]
mod ballast;
mod broker;
mod catchup;
mod clients; // what is measured with ours and with others
mod failover;
mod figures;
mod groups;
mod hlog;
mod latency;
mod leftovers;
mod lifecycle; // then what is measured
mod load;
mod machine;
mod options; // start here
mod pressure;
mod process;
mod replicated;
mod report;
mod requests;
mod speed;
mod throughput;
mod wire;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use crate::test::cargo;
use ballast::Ballast;
use broker::{Side, Site};
use figures::Section;
use leftovers::Leftovers;
use machine::Stamp;
use options::{Options, Page, Part, USAGE};
use report::Report;

/// Everything a measurement needs.
struct Bench {
    options: Options,
    root: PathBuf,
    site: Site,
    began: Instant,
    estimate: Duration,
    ballast: Ballast,
}

/// Runs the words after `bench`.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<()> {
    match words {
        ["broker", words @ ..] => page(root, Page::Broker, words),
        ["client", words @ ..] => page(root, Page::Client, words),
        ["cluster", words @ ..] => page(root, Page::Cluster, words),
        ["groups", words @ ..] => page(root, Page::Groups, words),
        ["leftovers"] => leftovers::keep(),
        _ => bail!("{USAGE}"),
    }
}

fn page(root: &Path, page: Page, words: &[&str]) -> Result<()> {
    let options = Options::parse(root, page, words)?;
    let vltava = match &options.binary {
        Some(binary) => binary.clone(),
        None => build(root, &["--profile", "dist", "--package", "vltava"])?.join("dist").join("vltava"),
    };
    ensure!(vltava.is_file(), "{} is not there", vltava.display());
    let load = match page {
        Page::Broker => None,
        Page::Client | Page::Cluster | Page::Groups => {
            let target = build(root, &["--release", "--manifest-path", "xtask/load/Cargo.toml"])?;
            Some(target.join("release").join("vltava-bench-load"))
        }
    };
    let leftovers = Leftovers::keeper()?;
    let dir = options.dir.join(format!("vltava-bench-{}", std::process::id()));
    leftovers.directory(&dir)?;
    let torture = torture(root, &options)?;
    let (built, kafka) = (options.binary.is_none(), options.kafka.clone());
    let site = Site { leftovers, vltava, built, kafka, load, torture, dir };
    let estimate = estimate(&options);
    let ballast = Ballast::create(&site.dir)?;
    let bench = Bench { options, root: root.to_owned(), site, began: Instant::now(), estimate, ballast };
    println!("about {:.0} minutes on the reference machine when it is quiet", estimate.as_secs_f64() / 60.0);
    measure(root, &bench)
}

/// The program that does things to clusters, if it is needed.
fn torture(root: &Path, options: &Options) -> Result<Option<PathBuf>> {
    if !options.wants(Part::Failover) {
        return Ok(None);
    }
    let binary = match &options.torture {
        Some(binary) => binary.clone(),
        None => build(root, &["--release", "--package", "vltava-torture"])?.join("release").join("torture"),
    };
    ensure!(binary.is_file(), "{} is not there", binary.display());
    Ok(Some(binary))
}

/// Builds what these words name; the folder that holds it, by profile.
fn build(root: &Path, words: &[&str]) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = root.join(target);
    let status = cargo(root).arg("build").args(words).arg("--target-dir").arg(&target).status()?;
    ensure!(status.success(), "it does not build: cargo build {}", words.join(" "));
    Ok(target)
}

/// Measures some parts, which come of the same turns.
type Measured = fn(&Bench) -> Result<Vec<Section>>;

const PARTS_OF_BROKER: &[(&[Part], Measured)] = &[
    (&[Part::Produce, Part::Consume], throughput::in_and_out),
    (&[Part::Durable], throughput::durable),
    (&[Part::Start], lifecycle::start),
    (&[Part::Partitions], lifecycle::partitions),
    (&[Part::Recovery], lifecycle::recovery),
];

const PARTS_OF_CLIENT: &[(&[Part], Measured)] = &[
    (&[Part::Produce], speed::produce),
    (&[Part::Consume], speed::consume),
    (&[Part::Durable], speed::durable),
    (&[Part::Latency], latency::latency),
    (&[Part::Send, Part::Overload], pressure::pressure),
];

const PARTS_OF_CLUSTER: &[(&[Part], Measured)] = &[
    (&[Part::Produce, Part::Consume], replicated::in_and_out),
    (&[Part::ThreeProducers], replicated::three_producers),
    (&[Part::Failover], failover::failover),
    (&[Part::CatchUp], catchup::catch_up),
];

const PARTS_OF_GROUPS: &[(&[Part], Measured)] = &[
    (&[Part::Join], groups::join),
    (&[Part::Members], groups::members),
    (&[Part::Commits], groups::commits),
    (&[Part::Lag], groups::lag),
    (&[Part::Load], groups::load),
];

/// Measures every part that is wanted. Each is written down as soon as it is complete, and one that
/// fails does not take the others with it.
fn measure(root: &Path, bench: &Bench) -> Result<()> {
    let parts = match bench.options.page {
        Page::Broker => PARTS_OF_BROKER,
        Page::Client => PARTS_OF_CLIENT,
        Page::Cluster => PARTS_OF_CLUSTER,
        Page::Groups => PARTS_OF_GROUPS,
    };
    let mut report = Report::read(bench.options.page, &bench.options.out)?;
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
        let command = bench.options.command(section.part);
        // It has rounds within its one run.
        let runs = if section.part == Part::Failover { 1 } else { stamp.runs };
        section.stamp = Stamp { command, runs, ..stamp.clone() };
        report.put(section);
    }
    Ok(())
}

impl Bench {
    /// Lets each side have its turn in each run; the order turns around from run to run, so that
    /// neither always finds the machine as the other left it.
    fn alternate<T: Copy>(&self, sides: &[T], mut turn: impl FnMut(usize, T) -> Result<()>) -> Result<()> {
        for run in 0..self.options.runs {
            in_turn(run, sides, |side| turn(run, side))?;
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
    fn say(&self, part: Part, run: usize, column: &str, what: &str) {
        let minutes = |time: Duration| format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60);
        println!(
            "[{} of ~{}] {} {}/{} {column}: {what}",
            minutes(self.began.elapsed()),
            minutes(self.estimate),
            part.word(),
            run + 1,
            self.options.runs
        );
    }
}

/// One run of them, in an order that turns around from run to run.
fn in_turn<T: Copy>(run: usize, sides: &[T], mut turn: impl FnMut(T) -> Result<()>) -> Result<()> {
    let mut sides = sides.to_vec();
    if run % 2 == 1 {
        sides.reverse();
    }
    sides.into_iter().try_for_each(&mut turn)
}

/// How long it takes on the reference machine when that is quiet, by what was seen there.
fn estimate(options: &Options) -> Duration {
    let runs = options.runs as f64;
    let million = options.records as f64 / 1e6;
    let gib = options.log_mib as f64 / 1024.0;
    let thousand = f64::from(options.partitions) / 1000.0;
    let is_client = options.page == Page::Client;
    let seconds = |part: Part| match part {
        _ if options.page == Page::Cluster => seconds_of_cluster(options, part),
        Part::Produce | Part::Durable if is_client => runs * (7.0 * 10.0 + 3.5 * million),
        Part::Consume if is_client => runs * (40.0 + 2.5 * million),
        Part::Latency => runs * (30.0 + 6.0 * options.latency_records as f64 / 4_000.0),
        // Both come of the same turns.
        Part::Send | Part::Overload => runs * (12.0 + 0.6 * million),
        Part::Produce => runs * (20.0 + 2.0 * 0.8 * million),
        Part::Consume => runs * (5.0 + 2.0 * 0.25 * million),
        Part::Durable => runs * (25.0 + 3.0 * 0.9 * million),
        Part::Start => runs * 17.0,
        Part::Partitions => {
            let kafka = if options.kafka_partitions { 15.0 + 45.0 * thousand } else { 0.0 };
            runs * (10.0 + 2.5 * thousand) + kafka
        }
        Part::Recovery => runs * (10.0 + 2.0 * 2.0 * gib) + 15.0 + 3.0 * gib,
        Part::Join => runs * 50.0,
        Part::Members => runs * (250.0 + 0.2 * f64::from(options.members)),
        Part::Commits => runs * 190.0,
        Part::Lag => runs * (10.0 + 3.0 * thousand / 2.0) + 20.0 + 10.0 * thousand,
        Part::Load => runs * (45.0 + 45.0 * options.offsets as f64 / 1e6),
        Part::ThreeProducers | Part::Failover | Part::CatchUp => 0.0,
    };
    Duration::from_secs_f64(options.only.iter().map(|part| seconds(*part)).sum())
}

fn seconds_of_cluster(options: &Options, part: Part) -> f64 {
    let runs = options.runs as f64;
    let million = options.records as f64 / 1e6;
    match part {
        Part::Produce | Part::ThreeProducers => runs * (75.0 + 8.0 * million),
        Part::Consume => runs * (30.0 + 4.5 * million),
        Part::Failover => 200.0 + 31.0 * f64::from(options.rounds),
        Part::CatchUp => runs * (165.0 + 70.0 * options.missed_mib as f64 / 1024.0),
        _ => 0.0,
    }
}
