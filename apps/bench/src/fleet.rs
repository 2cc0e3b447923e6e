//! One load from several machines: a worker on each, and a coordinator that has them do it together.
//!
//! ```text
//!   coordinator                              worker, one on each machine
//!     hello, with the token        ──▶         one coordinator at a time
//!     ping, many times             ◀─▶         what its clock says                      offset ± error
//!     prepare: its share           ──▶ ready   it finds the topics
//!     start at its time T          ──▶         ── each second ─▶ counts, histograms     shown as one
//!                                  ◀── sent    what its senders came to
//!     where everything ends        ──▶         its readers read up to there
//!                                  ◀── seen    which records it read, bit by bit
//!                                  ◀── done    histograms                               added, never averaged
//!     ping, many times             ◀─▶                                                  drift
//! ```
//!
//! Senders and readers are shared out by number. A record that one machine sent and another read is checked as if
//! one had done both: what they saw is put together before anybody says what is missing.
//!
//! Times that two machines tell each other are those of the coordinator's clock; how far they may be wrong is
//! known, and what is less than that is not told.
//!
//! **Invariant:** a worker that dies, hangs or is wrong fails the run; a coordinator that goes away ends the
//! worker's part of it; nobody is made to keep more than a message at a time of what somebody else sends.

mod clock; // decides: how far clocks are apart
mod merge; // decides: what came of all of them

mod frame;
mod message;

mod brokers;
mod coordinator;
mod worker;

pub(crate) use clock::worst_pair;
pub use coordinator::Fleet;
pub use worker::{Listening, Worker};

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// What coordinator and workers both know, so that nobody else has a worker do anything.
#[derive(Clone, Default)]
pub struct Token(String);

/// Fewer letters can be guessed.
const TOKEN_BYTES_MIN: usize = 16;
const TOKEN_BYTES_MAX: usize = 1024;

impl Token {
    /// From a file, without the blanks around it.
    pub fn open(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::new(&text).with_context(|| path.display().to_string())
    }

    /// A text, without the blanks around it.
    pub fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        let fits = (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len());
        ensure!(fits, "a token has from {TOKEN_BYTES_MIN} to {TOKEN_BYTES_MAX} bytes");
        Ok(Self(text.to_owned()))
    }

    /// Whether there is one.
    pub const fn is_set(&self) -> bool {
        !self.0.is_empty()
    }

    /// In a time that does not depend on where they differ.
    fn is(&self, other: &str) -> bool {
        let (mine, other) = (self.0.as_bytes(), other.as_bytes());
        mine.len() == other.len() && mine.iter().zip(other).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_set() { "Token(…)" } else { "Token()" })
    }
}

#[cfg(test)]
mod tests;
