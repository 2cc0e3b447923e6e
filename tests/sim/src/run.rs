//! Running seeds.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::invariants;
use crate::options::Options;
use crate::plant::Plant;
use crate::trace::Trace;
use crate::violation::{Violation, again};
use crate::world::World;

/// What became of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The hash of everything that happened.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
    /// What was found wrong, first things first.
    pub violations: Vec<Violation>,
    /// The last events.
    pub tail: String,
    /// What the seed chose.
    pub options: Options,
}

/// How many of the last events a failing run prints.
const EVENTS_SHOWN: usize = 400;

thread_local! {
    /// The world's trace and what a panic said, kept where a panic cannot take them along.
    static TRACE: RefCell<Trace> = RefCell::default();
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    static RUNNING: RefCell<bool> = const { RefCell::new(false) };
}

/// Runs a seed to its end, or to the first thing that is wrong. A panic is one of them.
pub fn run(seed: u64, plant: Option<Plant>) -> Outcome {
    keep_panics();
    let options = Options::draw(seed, plant);
    TRACE.set(Trace::default());
    RUNNING.set(true);
    let done = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, options.clone(), invariants::judge_restart);
        TRACE.set(world.trace.clone());
        play(&mut world)
    }));
    RUNNING.set(false);
    let violations = done.unwrap_or_else(|_| {
        let what = PANIC.take().unwrap_or_default();
        vec![Violation { invariant: "panic", what }]
    });
    let trace = TRACE.take();
    let (hash, events) = (trace.hash(), trace.count());
    let tail = if violations.is_empty() { String::new() } else { trace.tail(EVENTS_SHOWN) };
    Outcome { seed, hash, events, violations, tail, options }
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

fn play(world: &mut World) -> Vec<Violation> {
    for _ in 0..world.options.steps {
        world.step();
        let found = invariants::check(world);
        if !found.is_empty() || world.over {
            return found;
        }
    }
    world.finish();
    invariants::check(world)
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {} fails after {} events\n", self.seed, self.events)?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        writeln!(f, "\noptions: {:#?}\n\nlast events:\n{}", self.options, self.tail)?;
        let plant = self.options.plant.map(|plant| format!("{plant:?}"));
        f.write_str(&again("", self.seed, plant.as_deref()))
    }
}
