//! What coordinator and workers tell each other. Both are of one version: there is nothing to agree on.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::load::{Ends, Job, Second, Sent, Window};
use crate::meter::Measured;
use crate::verify::Piece;

/// Of the messages below.
pub(super) const FORM: u32 = 5;

/// From the coordinator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", content = "of", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Order {
    /// The first.
    Hello { form: u32, version: String, token: Option<String> },
    /// What does the clock say?
    Ping { number: u32 },
    /// The coordinator lives.
    Alive,
    /// What will be to be done.
    Prepare(Box<Job>),
    /// When, by the worker's clock, and what is to be added to that for the coordinator's.
    Start { at: Duration, shift_ns: i64 },
    /// Where everything ends.
    End { ends: Ends },
    /// No more is to be sent than was.
    Stop,
    /// The run failed elsewhere: nobody wants to know what comes of it.
    Abandon,
}

/// From a worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", content = "of", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Answer {
    /// To the first: who it is, and on what machine.
    Welcome { version: String, machine: Value },
    /// To the first, and the last.
    Refused { why: String },
    /// What the clock says.
    Pong { number: u32, at: Duration },
    /// The worker lives.
    Alive,
    /// It can begin.
    Ready,
    /// A second of its share is over.
    Second(Box<Tick>),
    /// Its senders are done.
    Sent(Box<Sent>),
    /// Some of the records that it read, for one subscription.
    Seen { subscription: u16, records: u64, piece: Box<Piece> },
    /// It is done, and has told all.
    Done { written: Box<Measured>, read: Box<Measured> },
    /// It cannot, or could not.
    Failed { why: String },
    /// What it was to abandon has ended; what it says from here on is of what it is asked next.
    Abandoned,
}

/// A second of one machine, with what can be added to that of others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Tick {
    pub(super) second: Second,
    pub(super) written: Measured,
    pub(super) read: Measured,
    pub(super) is_whole: bool,
}

impl Tick {
    /// What a worker tells of one of its seconds.
    pub(super) fn of(window: &Window<'_>) -> Self {
        let Window { second, written, read, is_whole } = *window;
        let second = Second { used: second.used.elsewhere(), ..second.clone() };
        Self { second, written: written.clone(), read: read.clone(), is_whole }
    }

    pub(super) fn window(&self) -> Window<'_> {
        let Self { second, written, read, is_whole } = self;
        Window { second, written, read, is_whole: *is_whole }
    }
}
