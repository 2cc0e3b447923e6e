//! Runs seeds: `cargo run -p vltava-sim -- --seed 7`, `--seeds 0..1000`, `--seconds 60`, `--minutes 5`;
//! `--twice` to compare two runs of each, `--keep-going` to list all that fail, `--plant NAME` to plant a bug,
//! `--as-is` to leave a failure as large as it was found.
//!
//! That is the world of a log and its disk; `client` before all that stands for the one of a client and its
//! brokers, `cluster` for whole clusters, `groups` for those with groups of consumers.

use std::io::Write;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use vltava_sim::client::{self, ClientPlant};
use vltava_sim::cluster;
use vltava_sim::plant::Plant;
use vltava_sim::run;
use vltava_sim::violation::{Violation, again};

const USAGE: &str = "usage: vltava-sim [client|cluster|groups] \
[--seed N | --seeds A..B | --seconds S | --minutes M [--from N]] \
[--twice] [--keep-going] [--plant NAME] [--as-is]\n";

/// What is simulated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Log,
    Client,
    Cluster,
    Groups,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Log => "",
            Self::Client => "client",
            Self::Cluster => "cluster",
            Self::Groups => "groups",
        }
    }
}

struct Arguments {
    seeds: Range<u64>,
    time_max: Option<Duration>,
    twice: bool,
    keep_going: bool,
    /// By its name in the world that is run.
    plant: Option<String>,
    kind: Kind,
    /// Whether a failure is shown as it was found, and not made smaller first.
    as_is: bool,
}

/// What became of a run, in whichever world.
struct Outcome {
    seed: u64,
    hash: u64,
    events: u64,
    violations: Vec<Violation>,
    text: String,
}

impl Arguments {
    fn run(&self, seed: u64) -> Outcome {
        let plant = self.plant.as_deref();
        match self.kind {
            Kind::Log => {
                let ran = run::run(seed, plant.and_then(Plant::named));
                let text = text(&ran, &ran.violations);
                Outcome { seed, hash: ran.hash, events: ran.events, violations: ran.violations, text }
            }
            Kind::Client => {
                let ran = client::run(seed, plant.and_then(ClientPlant::named));
                let text = text(&ran, &ran.violations);
                Outcome { seed, hash: ran.hash, events: ran.events, violations: ran.violations, text }
            }
            Kind::Cluster | Kind::Groups => {
                let plant = plant.and_then(cluster::plant::Plant::named);
                let found = match self.kind {
                    Kind::Groups => cluster::run::run_groups(seed, plant),
                    _ => cluster::run::run(seed, plant),
                };
                let is_shrunk = !found.violations.is_empty() && !self.as_is && !self.keep_going;
                let ran = if is_shrunk { shrunk(&found) } else { found };
                let text = text(&ran, &ran.violations);
                Outcome { seed, hash: ran.hash, events: ran.events, violations: ran.violations, text }
            }
        }
    }
}

/// Looks for a smaller run that fails, and says before it does so what is known: nobody may wait for its end.
fn shrunk(found: &cluster::run::Outcome) -> cluster::run::Outcome {
    if let Some(first) = found.violations.first() {
        print(&format!("seed {}: {first}\n{}\nlooking for less that fails …\n", found.seed, found.again()));
    }
    cluster::run::shrink(found)
}

fn text(ran: &dyn std::fmt::Display, violations: &[Violation]) -> String {
    if violations.is_empty() { String::new() } else { ran.to_string() }
}

/// How long a seed runs before it is named: less than those wait who kill what does not end.
const SEED_TIME_MAX: Duration = Duration::from_secs(20);

/// Names a seed that does not end, since a run that hangs says nothing of itself.
fn watch(begun: &Receiver<u64>, kind: Kind, plant: Option<&str>) {
    let mut running = None;
    loop {
        match (begun.recv_timeout(SEED_TIME_MAX), running) {
            (Ok(seed), _) => running = Some(seed),
            (Err(RecvTimeoutError::Timeout), Some(seed)) => {
                let seconds = SEED_TIME_MAX.as_secs();
                print(&format!(
                    "seed {seed} has not ended in {seconds} s\n{}\n",
                    again(kind.name(), seed, plant)
                ));
                running = None;
            }
            (Err(RecvTimeoutError::Timeout), None) => {}
            (Err(RecvTimeoutError::Disconnected), _) => return,
        }
    }
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        print(USAGE);
        return ExitCode::from(2);
    };
    let (begins, begun) = channel();
    let (kind, plant) = (arguments.kind, arguments.plant.clone());
    thread::spawn(move || watch(&begun, kind, plant.as_deref()));
    let begun = Instant::now();
    let (mut count, mut events, mut failed) = (0_u64, 0_u64, 0_u64);
    for seed in arguments.seeds.clone() {
        if arguments.time_max.is_some_and(|max| begun.elapsed() > max) {
            break;
        }
        let _ = begins.send(seed);
        let outcome = arguments.run(seed);
        count += 1;
        events += outcome.events;
        if passes(&outcome, &arguments) {
            continue;
        }
        failed += 1;
        if !arguments.keep_going {
            print(&format!("{}\n({count} seeds in {:.1?})\n", outcome.text, begun.elapsed()));
            return ExitCode::FAILURE;
        }
        let first = outcome.violations.first().map(ToString::to_string).unwrap_or_default();
        print(&format!("{} {}\n", outcome.seed, first.chars().take(300).collect::<String>()));
    }
    let seconds = begun.elapsed().as_secs_f64();
    let rate = count as f64 / seconds;
    print(&format!(
        "{count} seeds, {events} events in {seconds:.1} s: {:.0} seeds per minute\n",
        rate * 60.0
    ));
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn passes(outcome: &Outcome, arguments: &Arguments) -> bool {
    if !outcome.violations.is_empty() {
        return false;
    }
    let same = !arguments.twice || arguments.run(outcome.seed).hash == outcome.hash;
    if !same {
        print(&format!("seed {} is not the same run twice\n", outcome.seed));
    }
    same
}

fn parse(words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut words = words.peekable();
    let kind = match words.peek().map(String::as_str) {
        Some("client") => Kind::Client,
        Some("cluster") => Kind::Cluster,
        Some("groups") => Kind::Groups,
        _ => Kind::Log,
    };
    if kind != Kind::Log {
        words.next();
    }
    let mut arguments = Arguments {
        seeds: 0..1000,
        time_max: None,
        twice: false,
        keep_going: false,
        plant: None,
        kind,
        as_is: false,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seed" => {
                let seed: u64 = words.next()?.parse().ok()?;
                arguments.seeds = seed..seed.checked_add(1)?;
            }
            "--seeds" => {
                let range = words.next()?;
                let (from, upto) = range.split_once("..")?;
                arguments.seeds = from.parse().ok()?..upto.parse().ok()?;
            }
            "--seconds" => {
                arguments.time_max = Some(Duration::from_secs(words.next()?.parse().ok()?));
                arguments.seeds.end = u64::MAX;
            }
            "--minutes" => {
                arguments.time_max = Some(Duration::from_secs(60 * words.next()?.parse::<u64>().ok()?));
                arguments.seeds.end = u64::MAX;
            }
            "--from" => arguments.seeds.start = words.next()?.parse().ok()?,
            "--twice" => arguments.twice = true,
            "--as-is" => arguments.as_is = true,
            "--keep-going" => arguments.keep_going = true,
            "--plant" => arguments.plant = Some(words.next()?),
            _ => return None,
        }
    }
    let is_known = |name: &String| match arguments.kind {
        Kind::Log => Plant::named(name).is_some(),
        Kind::Client => ClientPlant::named(name).is_some(),
        Kind::Cluster | Kind::Groups => cluster::plant::Plant::named(name).is_some(),
    };
    arguments.plant.as_ref().is_none_or(is_known).then_some(arguments)
}

fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
