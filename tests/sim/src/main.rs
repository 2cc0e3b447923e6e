//! Runs seeds: `cargo run -p vltava-sim -- --seed 7`, `--seeds 0..1000`, `--seconds 60`; `--twice` to
//! compare two runs of each, `--keep-going` to list all that fail, `--plant NAME` to plant a bug.

use std::io::Write;
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use vltava_sim::plant::Plant;
use vltava_sim::run::{Outcome, run};

const USAGE: &str = "usage: vltava-sim [--seed N | --seeds A..B | --seconds S [--from N]] \
[--twice] [--keep-going] [--plant NAME]\n";

struct Arguments {
    seeds: Range<u64>,
    time_max: Option<Duration>,
    twice: bool,
    keep_going: bool,
    plant: Option<Plant>,
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
        let outcome = run(seed, arguments.plant);
        count += 1;
        events += outcome.events;
        if passes(&outcome, &arguments) {
            continue;
        }
        failed += 1;
        if !arguments.keep_going {
            print(&format!("{outcome}\n({count} seeds in {:.1?})\n", begun.elapsed()));
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
    let same = !arguments.twice || run(outcome.seed, arguments.plant).hash == outcome.hash;
    if !same {
        print(&format!("seed {} is not the same run twice\n", outcome.seed));
    }
    same
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments =
        Arguments { seeds: 0..1000, time_max: None, twice: false, keep_going: false, plant: None };
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
            "--keep-going" => arguments.keep_going = true,
            "--plant" => arguments.plant = Some(Plant::named(&words.next()?)?),
            _ => return None,
        }
    }
    Some(arguments)
}

fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}
