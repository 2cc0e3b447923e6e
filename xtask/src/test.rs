//! Everything that proves the project, in one command: prepare, build once, run ring after ring, sum up.
//!
//! ```text
//!   prepare ─▶ tidy, codegen ─▶ build ─▶ tests of the crates ─▶ simulation ─┬▶ conformance
//!                                        └──────── quick ──┘               └▶ e2e ─▶ torture
//!                                                                            the long rings
//! ```
//!
//! Test programs are built by one call of Cargo and started from here: a call per package would build
//! the dependencies again for each new set of features.

mod build;
mod fuzz;
mod node;
mod prepare;
mod report;
mod room;
mod run;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use build::Program;
pub(crate) use build::cargo;
use report::{Outcome, Report};

/// A ring of tests that takes minutes, starts processes or needs other people's software.
#[derive(Debug)]
pub(crate) struct LongRing {
    /// The package with its tests.
    package: &'static str,
    /// What the table calls it.
    name: &'static str,
    /// Longer than this, one of its programs hangs.
    time_max: Duration,
}

const CONFORMANCE: LongRing =
    LongRing { package: "vltava-conformance", name: "conformance", time_max: minutes(15) };
const E2E: LongRing = LongRing { package: "vltava-e2e", name: "e2e", time_max: minutes(30) };
const TORTURE: LongRing = LongRing { package: "vltava-torture", name: "torture", time_max: minutes(15) };

/// Two lanes at the same time, each ring of a lane after the one before it: most tests wait for others most of
/// their time, and those of the first lane take about as long as those of the second.
const LANES: [&[LongRing]; 2] = [&[CONFORMANCE], &[E2E, TORTURE]];

fn long_rings() -> impl Iterator<Item = &'static LongRing> {
    LANES.into_iter().flatten()
}

/// How long new seeds of the client's world are simulated; there are thousands in a second.
const CLIENT_SEEDS_TIME: Duration = Duration::from_secs(15);
/// How long new seeds of whole clusters are simulated.
const CLUSTER_SEEDS_TIME: Duration = Duration::from_secs(60);
/// How long new seeds of clusters with groups are simulated.
const GROUP_SEEDS_TIME: Duration = Duration::from_secs(45);
/// How long new seeds are simulated.
const SEEDS_TIME: Duration = Duration::from_secs(30);

/// Tests beside the code are done in seconds; a program that is not hangs.
const TESTS_TIME_MAX: Duration = minutes(10);

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

/// Which tests to run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rings {
    /// All of them.
    All,
    /// Those that need nothing but Rust.
    Quick,
    /// One of the long ones.
    One(&'static LongRing),
}

impl Rings {
    /// The long ring that is called so.
    pub(crate) fn named(name: &str) -> Option<Self> {
        long_rings().find(|ring| ring.name == name).map(Self::One)
    }
}

/// Runs the tests, prints what happened, and fails if any test did. Of a long ring, only the tests run
/// whose names have a word of `filter` in them.
pub(crate) fn run(root: &Path, rings: Rings, filter: &[&str]) -> Result<()> {
    let mut report = Report::default();
    if !matches!(rings, Rings::Quick) {
        room::check(root)?;
        prepare::install(root)?;
    }
    if !matches!(rings, Rings::One(_)) {
        checks(root, &mut report);
    }
    if let Some(programs) = built(root, rings, &mut report) {
        if !matches!(rings, Rings::One(_)) {
            beside_the_code(root, rings, &programs, &mut report);
        }
        match rings {
            Rings::All => {
                let started = Instant::now();
                report.add("fuzz targets compile", Outcome::of_check(fuzz::compile(root), started));
                report.add("simulation: seeds", run::seeds(root, SEEDS_TIME, &[]));
                report.add("simulation: client seeds", run::seeds(root, CLIENT_SEEDS_TIME, &["client"]));
                report.add("simulation: cluster seeds", run::seeds(root, CLUSTER_SEEDS_TIME, &["cluster"]));
                report.add("simulation: group seeds", run::seeds(root, GROUP_SEEDS_TIME, &["groups"]));
                lanes(root, &programs, filter, &mut report);
            }
            Rings::One(ring) => long(root, ring, &programs, filter, &mut report),
            Rings::Quick => {}
        }
    }
    report.print();
    report.verdict()
}

/// Runs the fuzz targets, or those with a word of `filter` in their names.
pub(crate) fn fuzz(root: &Path, filter: &[&str]) -> Result<()> {
    let mut report = Report::default();
    fuzz::run(root, filter, &mut report);
    report.print();
    report.verdict()
}

fn beside_the_code(root: &Path, rings: Rings, programs: &[Program], report: &mut Report) {
    let is_long = |program: &&Program| long_rings().any(|ring| ring.package == program.package);
    for program in programs.iter().filter(|program| !is_long(program)) {
        let outcome = run::program(root, program, &[], &[], (TESTS_TIME_MAX, run::Output::OnFailure));
        report.add(program.title(), outcome);
    }
    let has_binary = !matches!(rings, Rings::Quick);
    report.add("examples in documentation", run::doc_tests(root, has_binary, TESTS_TIME_MAX));
}

fn lanes(root: &Path, programs: &[Program], filter: &[&str], report: &mut Report) {
    let lane = |rings: &'static [LongRing]| {
        let mut report = Report::default();
        rings.iter().for_each(|ring| long(root, ring, programs, filter, &mut report));
        report
    };
    let lane = &lane;
    let reports = std::thread::scope(|scope| {
        let begun = LANES.map(|rings| scope.spawn(move || lane(rings)));
        begun.map(std::thread::ScopedJoinHandle::join)
    });
    for done in reports {
        match done {
            Ok(done) => report.append(done),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn long(root: &Path, ring: &LongRing, programs: &[Program], filter: &[&str], report: &mut Report) {
    let started = Instant::now();
    let mut count = 0;
    for program in programs.iter().filter(|program| program.package == ring.package) {
        let mut tell = |title: String, environment: &[(&str, &str)]| {
            let outcome = run::program(
                root,
                program,
                filter,
                environment,
                (ring.time_max, run::Output::Live(ring.name)),
            );
            count += outcome.passed + outcome.failed;
            report.add(title, outcome);
        };
        let title = format!("{}: {}", ring.name, program.target);
        tell(title.clone(), &[]);
        // Clients must not be able to tell a cluster from one node.
        if ring.name == "conformance" && ["clients", "groups"].contains(&program.target.as_str()) {
            tell(format!("{title}, on three nodes"), &[("CONFORMANCE_NODE", "cluster")]);
        }
    }
    if count == 0 {
        // A name that was mistyped must not look like a test that passed.
        let none = Err(anyhow!("no test ran: none has `{}` in its name", filter.join("` or `")));
        report.add(ring.name, Outcome::of_step(none, started));
    }
}

/// What can be said without building anything.
fn checks(root: &Path, report: &mut Report) {
    let started = Instant::now();
    let tidy = crate::tidy::run(root);
    report.add("tidy", Outcome::of_check(tidy, started));
    let started = Instant::now();
    let codegen = crate::codegen::run(root, &["--check"]);
    report.add("codegen --check", Outcome::of_check(codegen, started));
    let started = Instant::now();
    report.add("lock of the fuzz targets", Outcome::of_check(fuzz::check_lock(root), started));
}

/// Builds the binary as users run it, the simulator, and every test program; `None` if something does not compile.
fn built(root: &Path, rings: Rings, report: &mut Report) -> Option<Vec<Program>> {
    if !matches!(rings, Rings::Quick) {
        let started = Instant::now();
        let binary = build::release(root);
        let stands = binary.is_ok();
        report.add("build --release", Outcome::of_step(binary, started));
        if !stands {
            return None;
        }
    }
    let started = Instant::now();
    match build::tests(root) {
        Ok(programs) => {
            report.add("build tests", Outcome::of_step(Ok(()), started));
            Some(programs)
        }
        Err(error) => {
            report.add("build tests", Outcome::of_step(Err(error), started));
            None
        }
    }
}
