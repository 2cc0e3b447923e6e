//! Runs seeds: `cargo run -p vltava-sim -- --seed 7`, `--seeds 0..1000`, `--seconds 60`; `--twice` to
//! compare two runs of each, `--keep-going` to list all that fail, `--plant NAME` to plant a bug; `--client`
//! for the world of a client and its brokers instead of a log and its disk.

use std::io::Write;
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use vltava_sim::client::{self, ClientPlant};
use vltava_sim::plant::Plant;
use vltava_sim::run;
use vltava_sim::violation::Violation;

const USAGE: &str = "usage: vltava-sim [--seed N | --seeds A..B | --seconds S [--from N]] \
[--twice] [--keep-going] [--plant NAME] [--client]\n";

struct Arguments {
    seeds: Range<u64>,
    time_max: Option<Duration>,
    twice: bool,
    keep_going: bool,
    /// By its name in the world that is run.
    plant: Option<String>,
    /// The world of a client.
    client: bool,
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
        if self.client {
            let plant = self.plant.as_deref().and_then(ClientPlant::named);
            let ran = client::run(seed, plant);
            let text = if ran.violations.is_empty() { String::new() } else { ran.to_string() };
            return Outcome { seed, hash: ran.hash, events: ran.events, violations: ran.violations, text };
        }
        let ran = run::run(seed, self.plant.as_deref().and_then(Plant::named));
        let text = if ran.violations.is_empty() { String::new() } else { ran.to_string() };
        Outcome { seed, hash: ran.hash, events: ran.events, violations: ran.violations, text }
    }
}

fn main() -> ExitCode {
    let Some(arguments) = parse(std::env::args().skip(1)) else {
        print(USAGE);
        return ExitCode::from(2);
    };
    let begun = Instant::now();
    let (mut count, mut events, mut failed) = (0_u64, 0_u64, 0_u64);
    for seed in arguments.seeds.clone() {
        if arguments.time_max.is_some_and(|max| begun.elapsed() > max) {
            break;
        }
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
    print(&format!("{count} seeds, {events} events in {seconds:.1} s: {rate:.0} seeds per second\n"));
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

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments {
        seeds: 0..1000,
        time_max: None,
        twice: false,
        keep_going: false,
        plant: None,
        client: false,
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
            "--from" => arguments.seeds.start = words.next()?.parse().ok()?,
            "--twice" => arguments.twice = true,
            "--client" => arguments.client = true,
            "--keep-going" => arguments.keep_going = true,
            "--plant" => arguments.plant = Some(words.next()?),
            _ => return None,
        }
    }
    let is_known = |name: &String| match arguments.client {
        true => ClientPlant::named(name).is_some(),
        false => Plant::named(name).is_some(),
    };
    arguments.plant.as_ref().is_none_or(is_known).then_some(arguments)
}

fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
