//! A consumer of `core/client-core` against brokers that fail: what it lends is the log, from where it was
//! told to read.
//!
//! ```text
//!   writers ──▶ logs, cut, deleted, made anew ──▶ brokers ──▶ in-order link ──▶ consumer ──▶ reader
//!                      │                                                                      │
//!                      └──────────── all that was ever written ◀── compared ─────────────────┘
//! ```

mod brokers; // what the consumer talks to
mod fetch;
mod follow; // what must be true of what is lent
mod history;
mod inbox;
mod session;
mod world; // start here

use super::{ClientPlant, Random};

pub(super) use world::World;

/// A bug that is planted in what is around the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReaderPlant {
    BrokerSkips,
    AbortedLeftOut,
    OpenIsShown,
    TruncationUnsaid,
    SeekForgotten,
    PauseForgets,
    RoomForgotten,
}

impl ReaderPlant {
    pub(super) const fn of(plant: ClientPlant) -> Option<Self> {
        Some(match plant {
            ClientPlant::BrokerSkips => Self::BrokerSkips,
            ClientPlant::AbortedLeftOut => Self::AbortedLeftOut,
            ClientPlant::OpenIsShown => Self::OpenIsShown,
            ClientPlant::TruncationUnsaid => Self::TruncationUnsaid,
            ClientPlant::SeekForgotten => Self::SeekForgotten,
            ClientPlant::PauseForgets => Self::PauseForgets,
            ClientPlant::RoomForgotten => Self::RoomForgotten,
            ClientPlant::BrokerForgets
            | ClientPlant::BrokerLies
            | ClientPlant::BrokerIgnoresOrder
            | ClientPlant::RubbishIsHeard => return None,
        })
    }
}

/// What a seed chooses.
#[derive(Debug, Clone)]
pub(super) struct Options {
    /// How many steps are taken before everybody is well.
    pub(super) steps: u32,
    pub(super) brokers: i32,
    /// Partitions of each of the two topics.
    pub(super) partitions: i32,
    /// How many producers write in transactions.
    pub(super) producers: u64,
    pub(super) is_committed_only: bool,
    pub(super) reset: client_core::consumer::Reset,
    pub(super) fetch_version_max: i16,
    pub(super) fetch_bytes_max: i32,
    pub(super) partition_bytes_max: i32,
    pub(super) prefetch_bytes_max: usize,
    /// Of a record's value.
    pub(super) value_bytes_max: u64,
    pub(super) compression: records::Compression,
    /// Chances in a thousand: of a step, …
    pub(super) break_per_thousand: u32,
    pub(super) move_per_thousand: u32,
    pub(super) restart_per_thousand: u32,
    pub(super) create_per_thousand: u32,
    pub(super) forget_per_thousand: u32,
    pub(super) delete_per_thousand: u32,
    pub(super) seek_per_thousand: u32,
    pub(super) pause_per_thousand: u32,
    /// … of a move that loses what was committed, …
    pub(super) unclean_per_thousand: u32,
    /// … of a partition in an answer, …
    pub(super) refuse_per_thousand: u32,
    pub(super) rot_per_thousand: u32,
    /// (here the leader sends the reader to a replica nearby; at zero the reader does not say where it is)
    pub(super) nearby_per_thousand: u32,
    /// … and of an answer.
    pub(super) throttle_per_thousand: u32,
    pub(super) rubbish_per_thousand: u32,
    /// How many of a hundred steps read, as far as there is something.
    pub(super) reads_percent: u64,
    /// How long a frame takes at most, in microseconds.
    pub(super) delay_us: u64,
}

impl Options {
    pub(super) fn draw(seed: u64) -> Self {
        let mut random = Random::stream(seed, "reader options");
        let random = &mut random;
        let trouble = |random: &mut Random, most: u32| random.pick(&[0, 0, most / 10, most]);
        let producers = random.pick(&[0, 0, 1, 3]);
        Self {
            steps: random.pick(&[100, 400, 1500]),
            brokers: random.pick(&[1, 2, 3]),
            partitions: random.pick(&[1, 2, 4]),
            producers,
            is_committed_only: random.chance(500),
            reset: random.pick(&[
                client_core::consumer::Reset::Earliest,
                client_core::consumer::Reset::Latest,
                client_core::consumer::Reset::None,
            ]),
            fetch_version_max: random.pick(&[4, 11, 12, 13, 18, 18]),
            fetch_bytes_max: random.pick(&[300, 2_000, 1 << 20]),
            partition_bytes_max: random.pick(&[150, 1_000, 1 << 20]),
            prefetch_bytes_max: random.pick(&[1, 1_000, 1 << 20]),
            value_bytes_max: random.pick(&[0, 30, 300]),
            compression: random.pick(&[records::Compression::None, records::Compression::Lz4]),
            break_per_thousand: trouble(random, 30),
            move_per_thousand: trouble(random, 30),
            restart_per_thousand: trouble(random, 10),
            create_per_thousand: trouble(random, 10),
            forget_per_thousand: trouble(random, 50),
            delete_per_thousand: trouble(random, 50),
            seek_per_thousand: trouble(random, 100),
            pause_per_thousand: trouble(random, 100),
            unclean_per_thousand: if producers == 0 { trouble(random, 700) } else { 0 },
            refuse_per_thousand: trouble(random, 200),
            rot_per_thousand: trouble(random, 100),
            nearby_per_thousand: trouble(&mut Random::stream(seed, "reader's rack"), 500),
            throttle_per_thousand: trouble(random, 200),
            rubbish_per_thousand: trouble(random, 20),
            reads_percent: random.pick(&[3, 20, 50]),
            delay_us: random.pick(&[50, 1_000, 200_000]),
        }
    }
}
