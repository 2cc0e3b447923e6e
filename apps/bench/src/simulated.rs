//! A whole load on a clock that is stepped: schedule, tag, meter and search against clusters whose every time
//! is known, to the histograms' three digits.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::chance::Chance;
use crate::histogram::{Quantiles, histogram};
use crate::load::{Outcome, Second, tag};
use crate::meter::{Counting, Counts, Flow, Measured, Meter};
use crate::schedule::{Arrivals, Punctuality, Rate, Schedule};
use crate::search::{Probe, Search, Step};
use crate::stamp::Stamp;
use crate::verify::Verdict;
use crate::workload::{Goal, Pace, Workload};

/// When it began; nothing begins at 0.
const STARTED: Duration = Duration::from_secs(77);
const BYTES: u64 = 100;

/// When a record is answered that left at a time.
type Cluster = Box<dyn FnMut(Duration) -> Duration>;

/// What a load came to, and each latency as it was.
struct Simulated {
    meter: Meter,
    responses: Vec<u64>,
    seconds: Vec<Second>,
}

/// Sends at a rate for so long. `answered` says when a record is that left at a time; whoever `waits` takes no
/// record before the one before it is answered.
fn simulate(
    (arrivals, rate): (Arrivals, f64),
    seconds: u64,
    waits: bool,
    mut answered: impl FnMut(Duration) -> Duration,
) -> Simulated {
    let mut schedule = Schedule::new(arrivals, Rate::constant(rate), 0, 1, Chance::new(1, 2));
    let meter = Meter::new(STARTED, Counting::Due);
    let (mut responses, mut free, mut number) = (Vec::new(), STARTED, 0);
    let mut windows: Vec<Second> = Vec::new();
    loop {
        let due = STARTED + schedule.next_due();
        if due >= STARTED + Duration::from_secs(seconds) {
            break;
        }
        let taken = if waits { due.max(free) } else { due };
        let at = answered(taken);
        free = at;
        assert!(meter.lock().record(tag::due(tag::pack(number, due), at), Some(taken), at, BYTES));
        number += 1;
        responses.push((at - due).as_nanos() as u64);
        // A run lasts until the last record came through, however long that is behind the last that was due.
        let in_second = (at - STARTED).as_secs() as usize;
        while windows.len() <= in_second {
            let from = windows.len() as f64;
            windows.push(Second { from, to: from + 1.0, ..Second::default() });
        }
        windows[in_second].written.add(Counts { records: 1, bytes: BYTES });
        windows[in_second].read.add(Counts { records: 1, bytes: BYTES });
    }
    responses.sort_unstable();
    // What is left under a second is part of no result.
    windows.pop();
    Simulated { meter, responses, seconds: windows }
}

/// A histogram says the upper end of a range that is a thousandth wide; a tag is 128 ns wide.
fn is_near(found: u64, exact: u64) -> bool {
    let (found, exact) = (found as f64, exact as f64);
    found >= exact * 0.999 && found <= exact * 1.001 + 128.0
}

#[test]
fn percentiles_are_exact_to_three_digits() {
    let chance = || Chance::new(5, 6);
    let (mut even, mut long, mut two) = (chance(), chance(), chance());
    let constant = |taken: Duration| taken + Duration::from_micros(750);
    let even = move |taken| taken + Duration::from_micros(100 + even.below(9_900));
    // Some of them take minutes.
    let long = move |taken| taken + Duration::from_secs_f64(1e-4 / (1.0 - long.unit()).powi(2)).min(WHILE);
    let two = move |taken| taken + Duration::from_millis(if two.below(1_000) == 0 { 900 } else { 1 });
    let clusters: [(&str, Cluster); 4] = [
        ("constant", Box::new(constant)),
        ("even", Box::new(even)),
        ("long", Box::new(long)),
        ("two", Box::new(two)),
    ];
    for (name, cluster) in clusters {
        let done = simulate((Arrivals::Poisson, 20_000.0), 10, false, cluster);
        let (exact, steady) = (&done.responses, done.meter.lock().steady().clone());
        let found = Quantiles::of(&steady.response).expect("there were records");
        assert_eq!(found.count as usize, exact.len(), "{name}: none is left out");
        let quantiles = [
            (0.5, found.p50),
            (0.75, found.p75),
            (0.9, found.p90),
            (0.95, found.p95),
            (0.99, found.p99),
            (0.999, found.p999),
            (0.9999, found.p9999),
            (0.99999, found.p99999),
            (1.0, found.max),
        ];
        for (quantile, found) in quantiles {
            let place = (quantile * exact.len() as f64).ceil() as usize;
            assert!(is_near(found, exact[place - 1]), "{name}, {quantile}: {found} for {}", exact[place - 1]);
        }
        let mean = exact.iter().sum::<u64>() / exact.len() as u64;
        assert!(is_near(found.mean as u64, mean), "{name}: {} for {mean}", found.mean);
    }
}

const WHILE: Duration = Duration::from_secs(600);
const MS: u64 = 1_000_000;

/// Answers after a millisecond, and not at all for the fourth second.
fn stalling(taken: Duration) -> Duration {
    let (from, to) = (STARTED + Duration::from_secs(3), STARTED + Duration::from_secs(4));
    let begins = if (from..to).contains(&taken) { to } else { taken };
    begins + Duration::from_millis(1)
}

#[test]
fn a_stall_of_a_second_is_a_triangle_from_when_records_were_due() {
    // Ten thousand records: nine thousand wait for a millisecond, and the others from a second down to none.
    for waits in [false, true] {
        let done = simulate((Arrivals::Fixed, 1_000.0), 10, waits, stalling);
        let steady = done.meter.lock().steady().clone();
        let at = |quantile: f64| steady.response.value_at_quantile(quantile);
        assert_eq!(steady.response.len(), 10_000);
        if !waits {
            for (quantile, expected) in
                [(0.5, 1), (0.9, 1), (0.95, 501), (0.99, 901), (0.999, 991), (1.0, 1_001)]
            {
                assert!(is_near(at(quantile), expected * MS), "{quantile}: {} ms", at(quantile) / MS);
            }
            continue;
        }
        // Whoever waits for each answer has a line to work off behind the stall, which is charged, too; of
        // what was taken, only one record saw the stall.
        assert!(at(0.9) > 500 * MS, "{}", at(0.9));
        let service = &steady.service;
        assert!(is_near(service.value_at_quantile(0.9999), MS), "{}", service.value_at_quantile(0.9999));
        assert!(is_near(service.max(), 1_001 * MS), "{}", service.max());
    }
}

/// A cluster that takes so many records a second, one after the other.
fn of_capacity(capacity: f64) -> impl FnMut(Duration) -> Duration {
    let (each, mut free) = (Duration::from_secs_f64(1.0 / capacity), Duration::ZERO);
    move |taken| {
        free = free.max(taken) + each;
        free
    }
}

/// What a rate comes to; what was acknowledged was read, too.
fn outcome(rate: f64, seconds: u64, answered: impl FnMut(Duration) -> Duration) -> Outcome {
    let done = simulate((Arrivals::Fixed, rate), seconds, false, answered);
    let measured = done.meter.lock().steady().clone();
    let read: Flow = Flow::from(measured.clone(), STARTED);
    Outcome {
        written: Some(Flow::from(measured, STARTED)),
        read: Some(read),
        send_call: histogram(),
        punctuality: Punctuality::default(),
        seconds: done.seconds,
        rest: None,
        verdict: Verdict::default(),
        subscriptions: 1,
        failed: 0,
        first_failure: None,
        close: Duration::ZERO,
        grown: None,
        stamp: Stamp::default(),
        settings: Vec::new(),
        notes: Vec::new(),
        befell: Vec::new(),
        clocks: Vec::new(),
        log_bytes_per_record: None,
    }
}

/// What is tried in a search.
fn probing(rate: f64, goal: Goal) -> Workload {
    let (rate, seconds) = (Pace::Rate(Rate::constant(rate)), goal.seconds);
    Workload { rate, seconds, warmup_seconds: 0.0, search: Some(goal), ..Workload::default() }
}

#[test]
fn the_search_finds_the_knee_of_a_queue() {
    // However late a latency is that is allowed, a line that grows is not kept up with.
    for (capacity, full_speed, within, p99_ms) in [
        (10_000.0, 10_000.0, 0.02, 50.0),
        (10_000.0, 9_000.0, 0.05, 50.0),
        (3_000.0, 8_000.0, 0.05, 50.0),
        (3_000.0, 3_000.0, 0.02, 60_000.0),
    ] {
        let goal = Goal { seconds: 10.0, within, p99_ms };
        let mut search = Search::below(full_speed, goal);
        let found = loop {
            match search.step() {
                Step::Found(rate) => break rate,
                Step::Try(rate) => {
                    let outcome = outcome(rate, 10, of_capacity(capacity));
                    search.on_probe(Probe::of(&probing(rate, goal), &outcome));
                }
            }
        };
        // A fifth of a second only sways, from the middle of a third to that of the next.
        let sway = if p99_ms > 1_000.0 { 0.2 / 3.0 } else { 0.01 };
        let share = found / capacity;
        assert!((1.0 - within - 0.01..=1.0 + sway).contains(&share), "{found} of {capacity}: {search:?}");
    }
}

#[test]
fn what_comes_behind_the_end_but_within_the_goal_is_in_time() {
    let kept = |rate: f64, goal: Goal, answered: Cluster| {
        Probe::of(&probing(rate, goal), &outcome(rate, goal.seconds as u64, answered)).missed(&goal)
    };
    let goal = |p99_ms| Goal { seconds: 8.0, p99_ms, ..Goal::default() };
    let late = |ms| -> Cluster { Box::new(move |taken| taken + Duration::from_millis(ms)) };
    // At 1 000 a second, 400 ms are 400 records that come through behind the end; ten of 8 000 that take three
    // seconds are no hundredth part of them.
    assert_eq!(kept(1_000.0, goal(1_000.0), late(400)), None);
    assert!(kept(1_000.0, goal(300.0), late(400)).is_some_and(|missed| missed.contains("acknowledged in")));
    let mut number = 0;
    let straggling = move |taken: Duration| {
        number += 1;
        taken + Duration::from_millis(if number > 7_990 { 3_000 } else { 5 })
    };
    assert_eq!(kept(1_000.0, goal(1_000.0), Box::new(straggling)), None);
    // A tenth more than it takes, with all the time of the world behind the end to catch up.
    let queue: Cluster = Box::new(of_capacity(1_000.0));
    let missed = kept(1_100.0, goal(60_000.0), queue).unwrap_or_default();
    assert!(missed.contains("the backlog grew"), "{missed}");
}

#[test]
fn what_is_read_at_no_time_is_held_against_its_acknowledgement() {
    let goal = Goal { seconds: 5.0, p99_ms: 100.0, ..Goal::default() };
    let slow = |taken: Duration| taken + Duration::from_millis(300);
    let mut outcome = outcome(1_000.0, 5, slow);
    outcome.read.as_mut().expect("it is read").measured.response.reset();
    assert!(crate::search::is_read_at_no_time(&outcome));
    let probe = Probe::of(&probing(1_000.0, goal), &outcome);
    assert!(probe.p99_ns >= 299 * MS && !probe.is_kept(&goal), "{probe:?}");
}

#[test]
fn meters_of_many_add_up_without_loss() {
    let mut chance = Chance::new(8, 9);
    let (mut all, mut sum): (Histogram<u64>, _) = (histogram(), Measured::default());
    for _ in 0..8 {
        let meter = Meter::new(Duration::ZERO, Counting::Due);
        for _ in 0..1_000 {
            let bits = 10 + chance.below(30);
            let nanos = 1 + chance.below(1 << bits);
            meter.lock().record(STARTED, Some(STARTED), STARTED + Duration::from_nanos(nanos), BYTES);
            all.saturating_record(nanos);
        }
        sum.add(meter.lock().steady());
    }
    assert_eq!((&sum.response, &sum.service), (&all, &all), "histograms are added, and never averaged");
    assert_eq!(sum.counts, Counts { records: 8_000, bytes: 8_000 * BYTES });
}
