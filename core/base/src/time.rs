//! Time as an argument.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01 UTC, as records carry them; -1 is "none".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimestampMs(pub i64);

impl TimestampMs {
    /// The protocol's "no timestamp".
    pub const NONE: Self = Self(-1);

    /// Whether it is a time at all.
    pub const fn is_some(self) -> bool {
        self.0 >= 0
    }

    /// The time that lies `by` later; stays at the end of the range.
    pub fn saturating_add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How much later this is than `earlier`, or zero.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for TimestampMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The two clocks a decision may need, read once by its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since an arbitrary start; never goes back. For deadlines.
    pub elapsed: Duration,
    /// Wall-clock time; may jump. For timestamps that people and records see.
    pub wall: TimestampMs,
}

impl Now {
    /// A moment `elapsed` after the start, at `wall` by the wall clock.
    pub const fn new(elapsed: Duration, wall: TimestampMs) -> Self {
        Self { elapsed, wall }
    }
}
