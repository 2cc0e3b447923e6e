//! Places and distances in a log.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// The place of a record in its partition: 0 for the first, dense from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Offset(pub i64);

/// A distance between two places. `Offset + Offset` does not compile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OffsetDelta(pub u32);

/// Which leadership wrote a batch; grows by one with each change of leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaderEpoch(pub i32);

impl Offset {
    /// The first place of a log.
    pub const ZERO: Self = Self(0);
    /// The protocol's "no offset".
    pub const NONE: Self = Self(-1);

    /// The place right after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// How far this is after `earlier`; `None` if it is before, or further than a delta can say.
    pub fn checked_since(self, earlier: Self) -> Option<OffsetDelta> {
        u32::try_from(self.0.checked_sub(earlier.0)?).ok().map(OffsetDelta)
    }
}

impl LeaderEpoch {
    /// The protocol's "no epoch".
    pub const NONE: Self = Self(-1);
    /// The epoch of a partition's first leader.
    pub const FIRST: Self = Self(0);
}

impl Add<OffsetDelta> for Offset {
    type Output = Self;

    fn add(self, delta: OffsetDelta) -> Self {
        Self(self.0 + i64::from(delta.0))
    }
}

impl Sub for Offset {
    type Output = i64;

    /// The signed distance from `other` to here.
    fn sub(self, other: Self) -> i64 {
        self.0 - other.0
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for OffsetDelta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
