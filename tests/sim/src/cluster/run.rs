//! Running seeds.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::time::{Duration, Instant};

use super::options::Options;
use super::plant::Plant;
use super::world::World;
use crate::trace::{Trace, hash};
use crate::violation::{Violation, again};

/// What became of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The hash of everything that happened.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
    /// Simulated time, in microseconds.
    pub elapsed_us: u64,
    /// What was found wrong, first things first.
    pub violations: Vec<Violation>,
    /// The last events.
    pub tail: String,
    /// What the seed chose.
    pub options: Options,
    /// What was planted.
    pub plant: Option<Plant>,
}

/// How many of the last events a failing run prints.
const EVENTS_SHOWN: usize = 400;

/// How long a smaller run is looked for: less than those wait who run seeds and kill what does not end.
const SHRINK_TIME_MAX: Duration = Duration::from_secs(30);

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static RUNNING: RefCell<bool> = const { RefCell::new(false) };
}

/// Runs a seed to its end, or to the first thing that is wrong. A panic is one of them.
pub fn run(seed: u64, plant: Option<Plant>) -> Outcome {
    run_with(seed, options(seed, plant), plant)
}

/// What a seed chooses; for a run that is to find a bug that needs several faults in a row, where these meet more
/// often than by chance.
fn options(seed: u64, plant: Option<Plant>) -> Options {
    let drawn = Options::draw(seed);
    match plant {
        Some(Plant::CutToCommitted) => drawn.of_many_leaders(),
        Some(Plant::DoubtUnsaid) => drawn.of_the_last_standing(),
        Some(Plant::BrokerEpochGuessed) => drawn.of_who_comes_back(),
        Some(Plant::DamageKept) => drawn.of_rotting_disks(),
        _ => drawn,
    }
}

/// Runs a seed of clusters with groups, as [`run`] does.
pub fn run_groups(seed: u64, plant: Option<Plant>) -> Outcome {
    let drawn = Options::draw_groups(seed);
    let options = match plant {
        Some(Plant::OutOfTouchSpeaks) => drawn.of_cut_off_coordinators().of_members_missed_late(),
        Some(Plant::UnreadIsLeft) => drawn.of_failing_reads(),
        _ => drawn,
    };
    run_with(seed, options, plant)
}

/// Runs a seed with other options than it would choose.
pub fn run_with(seed: u64, options: Options, plant: Option<Plant>) -> Outcome {
    keep_panics();
    let trace = Trace::default();
    RUNNING.set(true);
    let done = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, options.clone(), plant, trace.clone());
        world.play();
        (std::mem::take(&mut world.found), world.disk_trace.hash(), world.now_us)
    }));
    RUNNING.set(false);
    let (violations, disks, elapsed_us) = done.unwrap_or_else(|_| {
        let what = PANIC.take().unwrap_or_default();
        (vec![Violation { invariant: "panic", what }], 0, 0)
    });
    let tail = if violations.is_empty() { String::new() } else { trace.tail(EVENTS_SHOWN) };
    let hash = hash(trace.hash(), &disks.to_be_bytes());
    Outcome { seed, hash, events: trace.count(), elapsed_us, violations, tail, options, plant }
}

/// The same failure with less trouble: kinds of trouble are left out one at a time, then time and load are
/// halved, as long as the run still fails for the same reason and there is time.
pub fn shrink(outcome: &Outcome) -> Outcome {
    let begun = Instant::now();
    let mut least = outcome.clone();
    let is_same = |run: &Outcome| {
        let of = |run: &Outcome| run.violations.first().map(|violation| violation.invariant);
        of(run) == of(outcome)
    };
    let candidate = |change: &dyn Fn(&mut Options), least: &mut Outcome| {
        if begun.elapsed() > SHRINK_TIME_MAX {
            return false;
        }
        let mut options = least.options.clone();
        change(&mut options);
        let run = run_with(outcome.seed, options, outcome.plant);
        let is_less = is_same(&run) && run.events < least.events;
        if is_less {
            *least = run;
        }
        is_less
    };
    for (trouble, _) in outcome.options.troubles.clone() {
        candidate(&|options| options.troubles.retain(|(kind, _)| *kind != trouble), &mut least);
    }
    for change in [
        |options: &mut Options| {
            options.topics.truncate(if options.groups.is_empty() { 1 } else { usize::MAX })
        },
        |options: &mut Options| options.groups.truncate(1),
        |options: &mut Options| options.groups.iter_mut().for_each(|group| group.restless_per_thousand = 0),
        |options: &mut Options| options.groups.iter_mut().for_each(|group| group.members = 1),
        |options: &mut Options| options.compact_every_us = 0,
        |options: &mut Options| options.topics.iter_mut().for_each(|topic| topic.partitions = 1),
        |options: &mut Options| options.producers = 1,
        |options: &mut Options| options.careless = 0,
        |options: &mut Options| options.readers = 0,
        |options: &mut Options| options.deleters = 0,
        |options: &mut Options| options.nodes = 3,
    ] {
        candidate(&change, &mut least);
    }
    while candidate(&|options| options.troubled_us = options.troubled_us * 3 / 4, &mut least) {}
    while candidate(&|options| options.send_every_us *= 2, &mut least) {}
    least
}

/// Keeps what panics of a run say for its outcome; others are printed as ever.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| match RUNNING.with_borrow(|running| *running) {
            true => PANIC.set(Some(panic.to_string())),
            false => print(panic),
        }));
    });
}

impl Outcome {
    fn world(&self) -> &'static str {
        if self.options.groups.is_empty() { "cluster" } else { "groups" }
    }

    /// What is to be run to see it once more.
    pub fn again(&self) -> String {
        let plant = self.plant.map(|plant| format!("{plant:?}"));
        again(self.world(), self.seed, plant.as_deref())
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let world = self.world();
        writeln!(f, "{world} seed {} fails after {} events\n", self.seed, self.events)?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        writeln!(f, "\noptions: {:#?}\n\nlast events:\n{}", self.options, self.tail)?;
        write!(f, "{}", self.again())
    }
}
