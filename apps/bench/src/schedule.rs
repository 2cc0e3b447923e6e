//! When each record is due.
//!
//! An open load: records are due at times that do not depend on how fast they are taken, so that a cluster
//! that stalls is charged for all that waited.
//!
//! ```text
//!   records due so far ──▶ rate, summed up over time, the other way round ──▶ time
//!     fixed:   one after the other                      constant, or a ramp that ends in one
//!     Poisson: steps of chance, one on average
//! ```

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::chance::Chance;

/// How records follow each other at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Arrivals {
    /// At equal distances
    Fixed,
    /// By chance, independent of each other, as requests of many users are
    Poisson,
}

/// Records a second, over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    from: f64,
    to: f64,
    /// How long it takes to get there.
    seconds: f64,
}

impl Rate {
    /// The same all the time.
    pub const fn constant(rate: f64) -> Self {
        Self { from: rate, to: rate, seconds: 0.0 }
    }

    /// The rate, if it does not change.
    pub fn constant_rate(&self) -> Option<f64> {
        (self.seconds == 0.0).then_some(self.to)
    }

    fn divided(self, by: f64) -> Self {
        Self { from: self.from / by, to: self.to / by, ..self }
    }

    /// How many records are due so many seconds after the start.
    pub(crate) fn due_by(&self, seconds: f64) -> f64 {
        let growth = if self.seconds > 0.0 { (self.to - self.from) / self.seconds } else { 0.0 };
        let in_ramp = seconds.min(self.seconds);
        self.from * in_ramp + growth / 2.0 * in_ramp * in_ramp + self.to * (seconds - in_ramp)
    }

    /// When so many records are due, in seconds after the start.
    pub(crate) fn when(&self, records: f64) -> f64 {
        let in_ramp = (self.from + self.to) / 2.0 * self.seconds;
        if records >= in_ramp {
            return self.seconds + (records - in_ramp) / self.to;
        }
        let growth = (self.to - self.from) / self.seconds;
        if growth.abs() < f64::EPSILON {
            return records / self.from;
        }
        // Rounding may leave a little less than nothing.
        let root = (self.from * self.from + 2.0 * growth * records).max(0.0).sqrt();
        (root - self.from) / growth
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.constant_rate() {
            Some(rate) => write!(f, "{rate}"),
            None => write!(f, "{}:{}:{}", self.from, self.to, self.seconds),
        }
    }
}

/// `FROM:TO:SECONDS`.
impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Result<Vec<f64>, _> = text.split(':').map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[from, to, seconds])
                if from >= 0.0 && to > 0.0 && seconds >= 0.0 && (from + to + seconds).is_finite() =>
            {
                Ok(Self { from, to, seconds })
            }
            _ => Err("expected FROM:TO:SECONDS, with TO above 0, such as 1000:50000:60".to_owned()),
        }
    }
}

/// When the records of one sender are due.
#[derive(Debug)]
pub struct Schedule {
    rate: Rate,
    /// Records before the next, on average.
    passed: f64,
    chance: Option<Chance>,
}

impl Schedule {
    /// Of the sender with this number among `senders` that keep to a rate together.
    pub fn new(arrivals: Arrivals, rate: Rate, number: u64, senders: u64, chance: Chance) -> Self {
        // Fixed distances hold for all of them: each begins in its turn.
        let passed = number as f64 / senders as f64;
        let mut schedule = Self { rate: rate.divided(senders as f64), passed, chance: None };
        if arrivals == Arrivals::Poisson {
            schedule.chance = Some(chance);
            schedule.passed = 0.0;
            schedule.step();
        }
        schedule
    }

    /// When the next record is due after the start.
    pub fn next_due(&mut self) -> Duration {
        let due = self.rate.when(self.passed);
        self.step();
        Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX)
    }

    /// How many of those that are left are due from a time on and before another, after the start.
    pub(crate) fn left_within(&mut self, from: Duration, until: Duration) -> u64 {
        let mut left = 0;
        loop {
            match self.next_due() {
                due if due >= until => return left,
                due => left += u64::from(due >= from),
            }
        }
    }

    fn step(&mut self) {
        self.passed += self.chance.as_mut().map_or(1.0, |chance| -(1.0 - chance.unit()).ln());
    }
}

/// Whether records were sent when they were due.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Punctuality {
    due: u64,
    late: u64,
    late_max: Duration,
    unsent: u64,
}

/// Later than this is late. The system's timers are not better when it has other work.
const LATE: Duration = Duration::from_millis(1);

impl Punctuality {
    #[inline]
    /// One that was sent so long after it was due.
    pub fn record(&mut self, lateness: Duration) {
        self.due += 1;
        self.late += u64::from(lateness > LATE);
        self.late_max = self.late_max.max(lateness);
    }

    /// So many were due, and were not sent any more when the time was up.
    pub fn record_unsent(&mut self, records: u64) {
        self.unsent += records;
    }

    /// What another sender saw.
    pub fn add(&mut self, other: &Self) {
        self.due += other.due;
        self.late += other.late;
        self.late_max = self.late_max.max(other.late_max);
        self.unsent += other.unsent;
    }

    /// For programs; null if nothing was due at any time.
    pub fn json(&self) -> Value {
        if self.due == 0 {
            return Value::Null;
        }
        let late_max_ns = self.late_max.as_nanos() as u64;
        json!({ "due": self.due, "late": self.late, "late_max_ns": late_max_ns, "unsent": self.unsent })
    }

    /// For people, if there is something to be said.
    pub fn warning(&self) -> Option<String> {
        (self.late > 0).then(|| {
            let unsent = match self.unsent {
                0 => String::new(),
                unsent => format!("; {unsent} more were due, and were not sent any more when the time was up"),
            };
            format!(
                "the load fell behind: {} of {} records were sent more than {} ms after they were due, at most \
                 {:.1} ms; latencies count that wait{unsent}",
                self.late,
                self.due,
                LATE.as_millis(),
                self.late_max.as_secs_f64() * 1e3
            )
        })
    }
}

/// Waits until a time by a clock, about as exactly as the system wakes a thread.
///
/// It sleeps also if that is sooner than a thread can be woken: what is due meanwhile goes out together then, some tens
/// of microseconds late, and that is counted. A thread that looked at the clock instead would take a whole processor, on
/// one machine that of a broker.
pub fn wait_until(due: Duration, clock: impl Fn() -> Duration) {
    /// So much later than asked for a thread is woken.
    const WOKEN_LATE: Duration = Duration::from_micros(10);
    const SLEEP_MIN: Duration = Duration::from_micros(50);
    while let Some(left) = due.checked_sub(clock()).filter(|left| !left.is_zero()) {
        wake_in_time();
        thread::sleep(left.saturating_sub(WOKEN_LATE).max(SLEEP_MIN));
    }
}

/// Has the system wake this thread when it asks for, and not when it has others to wake, too.
fn wake_in_time() {
    thread_local! {
        // Where it cannot be had, threads are woken fifty microseconds later.
        static ASKED: () = {
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        };
    }
    ASKED.with(|()| {});
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(arrivals: Arrivals, rate: Rate, number: u64, senders: u64, records: usize) -> Vec<f64> {
        let mut schedule = Schedule::new(arrivals, rate, number, senders, Chance::new(3, number));
        (0..records).map(|_| schedule.next_due().as_secs_f64()).collect()
    }

    #[test]
    fn a_rate_is_kept_by_all_senders_together() {
        let rate = Rate::constant(10.0);
        assert_eq!(due(Arrivals::Fixed, rate, 0, 1, 3), [0.0, 0.1, 0.2]);
        let (first, second) = (due(Arrivals::Fixed, rate, 0, 2, 2), due(Arrivals::Fixed, rate, 1, 2, 2));
        assert_eq!([first[0], second[0], first[1], second[1]], [0.0, 0.1, 0.2, 0.3]);
    }

    #[test]
    fn chance_keeps_the_rate_on_average() {
        let times = due(Arrivals::Poisson, Rate::constant(1_000.0), 0, 2, 100_000);
        assert!((195.0..205.0).contains(&times[99_999]), "{}", times[99_999]);
        // What tells it from a fixed rate: the gaps scatter as much as they are long.
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((0.95..1.05).contains(&(variance.sqrt() / mean)), "{variance} {mean}");
    }

    #[test]
    fn a_ramp_grows_and_stays() {
        let rate: Rate = "0:100:10".parse().expect("it is a ramp");
        // The area below the ramp: 500 records in ten seconds, a quarter of them in the first half.
        for (records, seconds) in [(0.0, 0.0), (125.0, 5.0), (500.0, 10.0), (600.0, 11.0)] {
            assert!((rate.when(records) - seconds).abs() < 1e-9, "{records}: {}", rate.when(records));
        }
        let down: Rate = "100:50:10".parse().expect("it may also fall");
        assert!((down.when(750.0) - 10.0).abs() < 1e-9 && (down.when(800.0) - 11.0).abs() < 1e-9);
        let flat: Rate = "50:50:10".parse().expect("or neither");
        assert!((flat.when(100.0) - 2.0).abs() < 1e-9);
        for rate in [rate, down, flat, Rate::constant(7.0)] {
            for seconds in [0.0, 4.0, 10.0, 13.0] {
                let there_and_back = rate.when(rate.due_by(seconds));
                assert!((there_and_back - seconds).abs() < 1e-9, "{rate}, {seconds}: {there_and_back}");
            }
        }
        for wrong in ["", "1:2", "1:0:5", "-1:5:5", "a:b:c", "1:inf:3"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn nobody_is_woken_before_the_time() {
        let began = std::time::Instant::now();
        for due in [0, 3, 40, 2_000, 2_005].map(Duration::from_micros) {
            wait_until(due, || began.elapsed());
            assert!(began.elapsed() >= due);
        }
    }

    #[test]
    fn lateness_is_told() {
        let mut punctuality = Punctuality::default();
        punctuality.record(Duration::from_micros(900));
        assert_eq!(punctuality.warning(), None);
        punctuality.record(Duration::from_millis(7));
        assert!(punctuality.warning().is_some_and(|warning| warning.contains("1 of 2 records")));
        assert_eq!(punctuality.json()["late_max_ns"], 7_000_000);
        let mut schedule = Schedule::new(Arrivals::Fixed, Rate::constant(10.0), 0, 1, Chance::new(1, 0));
        while schedule.next_due() < Duration::from_secs(2) {}
        // Sent up to 2 s, and the time is up at 5: those of the steady state, from 3 on, are told.
        let unsent = schedule.left_within(Duration::from_secs(3), Duration::from_secs(5));
        punctuality.record_unsent(unsent);
        assert_eq!(punctuality.json()["unsent"], 20);
        assert!(punctuality.warning().is_some_and(|warning| warning.contains("; 20 more were due")));
    }
}
