//! A producer and a consumer of `core/client-core`, each against brokers that fail, over a network that
//! delays, breaks and repeats.
//!
//! ```text
//!   producer ── frames ──▶ in-order link, cut at any byte of time ──▶ broker (a model of Kafka's rules)
//!      ▲                                                                    │
//!      └───────────────── answers, some of which never come ────────────────┘
//! ```
//!
//! A request that was on its way when its connection broke may arrive long after another connection
//! took its place, which is what makes retries dangerous.

mod broker; // what the producer talks to
mod network;
mod world; // start here

mod reader; // a consumer, and what it reads

mod invariants; // what must be true of both

use std::panic::{AssertUnwindSafe, catch_unwind};

use base::TimestampMs;

use crate::random::Random;
use crate::trace::Trace;
use crate::violation::{Violation, again};

pub use world::World;

/// A bug that is planted, to see whether it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientPlant {
    /// The broker does not remember what it has, as if the producer were not idempotent.
    BrokerForgets,
    /// The broker answers before it writes, and sometimes does not.
    BrokerLies,
    /// The broker takes batches in any order.
    BrokerIgnoresOrder,
    /// The client makes sense of an answer that is malformed.
    RubbishIsHeard,
    /// The broker leaves out a batch of what is read.
    BrokerSkips,
    /// The broker does not say which transactions were taken back.
    AbortedLeftOut,
    /// The broker sends what is undecided to a reader of committed records.
    OpenIsShown,
    /// The broker does not say that its log was cut.
    TruncationUnsaid,
    /// The reader is lent what came for before a seek.
    SeekForgotten,
    /// What was not lent when a partition was paused does not come again.
    PauseForgets,
    /// The consumer is not told that something was read.
    RoomForgotten,
}

impl ClientPlant {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::BrokerForgets,
        Self::BrokerLies,
        Self::BrokerIgnoresOrder,
        Self::RubbishIsHeard,
        Self::BrokerSkips,
        Self::AbortedLeftOut,
        Self::OpenIsShown,
        Self::TruncationUnsaid,
        Self::SeekForgotten,
        Self::PauseForgets,
        Self::RoomForgotten,
    ];

    /// The one with this name, as `Debug` prints it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plant| format!("{plant:?}").eq_ignore_ascii_case(name))
    }
}

/// What a seed chooses.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many records are sent.
    pub records: u64,
    /// How many brokers there are.
    pub brokers: i32,
    /// Partitions of each of the two topics.
    pub partitions: i32,
    /// Whether the producer is idempotent; then acks=all.
    pub idempotence: bool,
    /// Whether nobody answers what is written: `acks=0`, without idempotence.
    pub is_unanswered: bool,
    /// Requests in flight on a connection.
    pub in_flight_max: usize,
    /// Bytes of a batch.
    pub batch_bytes: usize,
    /// `max.message.bytes`: what a broker takes as one batch.
    pub message_bytes_max: usize,
    /// Bytes of buffer.memory.
    pub memory_bytes: usize,
    /// Chances in a thousand that a step breaks a connection, …
    pub break_per_thousand: u32,
    /// … that a request whose connection broke arrives all the same, late, …
    pub ghost_per_thousand: u32,
    /// … that a broker refuses a partition although it could take it, …
    pub refuse_per_thousand: u32,
    /// … that it writes and then says that it failed, …
    pub doubt_per_thousand: u32,
    /// … that a step moves a leader, …
    pub move_per_thousand: u32,
    /// … that a step adds a partition, …
    pub grow_per_thousand: u32,
    /// … and that an answer is rubbish.
    pub rubbish_per_thousand: u32,
    /// How long a frame takes at most, in microseconds.
    pub delay_us: u64,
    /// `delivery.timeout.ms`.
    pub delivery_timeout_ms: u64,
    /// `linger.ms`.
    pub linger_ms: u64,
    /// How records are compressed.
    pub compression: records::Compression,
}

impl Options {
    fn draw(seed: u64) -> Self {
        let mut random = Random::stream(seed, "client options");
        let random = &mut random;
        let trouble = |random: &mut Random, most: u32| random.pick(&[0, 0, most / 10, most]);
        let idempotence = random.chance(750);
        Self {
            is_unanswered: !idempotence && random.chance(300),
            records: random.pick(&[20, 100, 400]),
            brokers: random.pick(&[1, 2, 3]),
            partitions: random.pick(&[1, 2, 5]),
            idempotence,
            in_flight_max: random.pick(&[1, 2, 5]),
            batch_bytes: random.pick(&[512, 512, 1024, 16_384]),
            // 140 is less than some records need.
            message_bytes_max: random.pick(&[usize::MAX, usize::MAX, 140, 200, 300]),
            memory_bytes: random.pick(&[2_048, 16_384, 1 << 20]).max(16_384),
            break_per_thousand: trouble(random, 30),
            ghost_per_thousand: random.pick(&[0, 500, 1000]),
            refuse_per_thousand: trouble(random, 300),
            doubt_per_thousand: trouble(random, 200),
            move_per_thousand: trouble(random, 20),
            grow_per_thousand: trouble(random, 20),
            rubbish_per_thousand: trouble(random, 20),
            delay_us: random.pick(&[50, 1_000, 200_000]),
            delivery_timeout_ms: random.pick(&[500, 5_000, 120_000]),
            linger_ms: random.pick(&[0, 0, 5]),
            compression: random.pick(&[
                records::Compression::None,
                records::Compression::None,
                records::Compression::Lz4,
            ]),
        }
    }
}

/// What became of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The hash of everything that happened.
    pub hash: u64,
    /// How many events there were.
    pub events: u64,
    /// What was found wrong.
    pub violations: Vec<Violation>,
    tail: String,
    options: Options,
}

/// Runs a seed to its end, or to the first thing that is wrong: first its producer, then its consumer. A
/// panic is one of them.
pub fn run(seed: u64, plant: Option<ClientPlant>) -> Outcome {
    let options = Options::draw(seed);
    let trace = Trace::default();
    let mut violations = caught(|| World::new(seed, options.clone(), plant, trace.clone()).play());
    if violations.is_empty() {
        let plant = plant.and_then(reader::ReaderPlant::of);
        violations = caught(|| reader::World::new(seed, plant, trace.clone()).play());
    }
    let tail = if violations.is_empty() { String::new() } else { trace.tail(400) };
    Outcome { seed, hash: trace.hash(), events: trace.count(), violations, tail, options }
}

fn caught(play: impl FnOnce() -> Vec<Violation>) -> Vec<Violation> {
    catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().cloned();
        let what = what.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        vec![Violation { invariant: "panic", what: what.unwrap_or_default() }]
    })
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "client seed {} fails after {} events\n", self.seed, self.events)?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        writeln!(f, "\noptions: {:#?}\n\nlast events:\n{}", self.options, self.tail)?;
        f.write_str(&again("client", self.seed, None))
    }
}

/// The wall clock of a run begins here.
const EPOCH: TimestampMs = TimestampMs(1_700_000_000_000);
