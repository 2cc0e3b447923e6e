//! What a seed chooses before its run begins.
//!
//! Every run draws which kinds of things happen and how strong they are, so that rare combinations
//! dominate some runs instead of drowning in all of them.

use std::time::Duration;

use records::{Compression, TimestampType};
use storage::LogSettings;

use crate::disk::PowerCut;
use crate::plant::Plant;
use crate::random::Random;

/// What a run may do at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is said by its name, and done by the function of that name")]
pub enum Action {
    Append,
    AppendStored,
    Repeat,
    Misbehave,
    EndTransaction,
    BeginEpoch,
    Flush,
    BeginFlush,
    EndFlush,
    Checkpoint,
    Truncate,
    StartOver,
    DeleteRecords,
    Retain,
    Rest,
    Close,
    Kill,
    CutPower,
    CutPowerSoon,
    KillSoon,
    Read,
    Fail,
    Rot,
    LoseFile,
    JumpClock,
    Look,
}

/// Every action, and the weight it has where it is enabled.
const ACTIONS: [(Action, u32); 26] = [
    (Action::Append, 400),
    (Action::AppendStored, 80),
    (Action::Repeat, 40),
    (Action::Misbehave, 20),
    (Action::EndTransaction, 40),
    (Action::BeginEpoch, 15),
    (Action::Flush, 60),
    (Action::BeginFlush, 30),
    (Action::EndFlush, 30),
    (Action::Checkpoint, 30),
    (Action::Truncate, 12),
    (Action::StartOver, 4),
    (Action::DeleteRecords, 12),
    (Action::Retain, 20),
    (Action::Rest, 15),
    (Action::Close, 10),
    (Action::Kill, 12),
    (Action::CutPower, 12),
    (Action::CutPowerSoon, 15),
    (Action::KillSoon, 15),
    (Action::Read, 20),
    (Action::Fail, 5),
    (Action::Rot, 6),
    (Action::LoseFile, 4),
    (Action::JumpClock, 10),
    (Action::Look, 40),
];

/// Actions that every run has.
const ALWAYS: [Action; 4] = [Action::Append, Action::Flush, Action::Look, Action::EndFlush];

/// The options of one run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many steps it takes.
    pub steps: u32,
    /// The weight of every action.
    pub weights: Vec<(Action, u32)>,
    /// How the log is set up.
    pub settings: LogSettings,
    /// Compressions that producers use.
    pub compressions: Vec<Compression>,
    /// How many idempotent producers there are; 0 for none.
    pub producers: u64,
    /// Chances in a thousand that an idempotent producer writes in a transaction.
    pub transactional_per_thousand: u32,
    /// The most records of a batch.
    pub records_max: u64,
    /// The most bytes of a record's value.
    pub value_bytes_max: u64,
    /// How far timestamps stray from the clock, in milliseconds.
    pub timestamp_spread_ms: u64,
    /// Chances in a thousand that a batch is flushed at once, as acks=all asks for.
    pub ack_per_thousand: u32,
    /// Whether readers are shown what is durable only.
    pub durable_reads: bool,
    /// Writeback nobody asked for, in a thousand operations.
    pub writeback_per_thousand: u32,
    /// How power cuts go.
    pub cut: PowerCut,
    /// Whether power, process or disk may fail again while a log is being recovered.
    pub trouble_while_recovering: bool,
    /// Whether a drive may lie about barriers.
    pub lies: bool,
    /// A bug that is planted, to see whether it is found.
    pub plant: Option<Plant>,
}

impl Options {
    /// What a seed chooses.
    pub fn draw(seed: u64, plant: Option<Plant>) -> Self {
        let mut random = Random::stream(seed, "options");
        let random = &mut random;
        let settings = draw_settings(random);
        let all = Compression::ALL;
        let compressions = match random.below(3) {
            0 => vec![Compression::None],
            1 => vec![random.pick(&all)],
            _ => all.to_vec(),
        };
        Self {
            steps: random.pick(&[20, 60, 60, 150, 300]),
            weights: draw_weights(random),
            settings,
            compressions,
            producers: random.pick(&[0, 1, 2, 4]),
            transactional_per_thousand: random.pick(&[0, 0, 300, 800]),
            records_max: random.pick(&[1, 3, 10, 40]),
            value_bytes_max: random.pick(&[0, 20, 100, 400]),
            timestamp_spread_ms: random.pick(&[0, 5, 1_000, 100_000_000]),
            ack_per_thousand: random.pick(&[0, 200, 1000]),
            durable_reads: random.chance(700),
            writeback_per_thousand: random.pick(&[0, 30, 300]),
            cut: PowerCut {
                kept_per_thousand: random.pick(&[0, 500, 500, 900, 1000]),
                torn: random.chance(500),
                rubbish: random.chance(200),
            },
            trouble_while_recovering: random.chance(300),
            lies: random.chance(150),
            plant,
        }
    }

    /// How much an action weighs; the place of the answer is that of the action in `weights`.
    pub fn pick(&self, random: &mut Random) -> Action {
        let weights: Vec<u32> = self.weights.iter().map(|&(_, weight)| weight).collect();
        self.weights[random.weighted(&weights)].0
    }
}

fn draw_weights(random: &mut Random) -> Vec<(Action, u32)> {
    let draw = |&(action, weight): &(Action, u32)| {
        let strength = random.pick(&[0, 1, 1, 4]);
        let strength = if ALWAYS.contains(&action) { strength.max(1) } else { strength };
        (action, weight * strength)
    };
    ACTIONS.iter().map(draw).collect()
}

fn draw_settings(random: &mut Random) -> LogSettings {
    let tiny = LogSettings::tiny();
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    LogSettings {
        segment_bytes: random.pick(&[1500, 4096, 4096, 16384]),
        segment_age_max: random.pick(&[Duration::from_millis(200), hours(1), tiny.segment_age_max]),
        index_interval_bytes: random.pick(&[0, 256, 1000]),
        retention_bytes: random.pick(&[None, Some(3_000), Some(12_000)]),
        retention_age: random.pick(&[None, Some(Duration::from_millis(300)), Some(hours(24))]),
        timestamp_type: random.pick(&[
            TimestampType::CreateTime,
            TimestampType::CreateTime,
            TimestampType::LogAppendTime,
        ]),
        ..tiny
    }
}
