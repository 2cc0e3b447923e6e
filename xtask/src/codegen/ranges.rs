//! Ranges of versions, and the conditions that tell them apart.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result};

/// Versions from `low` to `high`, both included; empty if `low` is above `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) low: i16,
    pub(crate) high: i16,
}

impl Range {
    pub(crate) const NONE: Self = Self { low: 0, high: -1 };

    pub(crate) fn is_empty(self) -> bool {
        self.low > self.high
    }

    pub(crate) fn contains(self, version: i16) -> bool {
        self.low <= version && version <= self.high
    }

    pub(crate) fn and(self, other: Self) -> Self {
        let both = Self { low: self.low.max(other.low), high: self.high.min(other.high) };
        if both.is_empty() { Self::NONE } else { both }
    }
}

impl FromStr for Range {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = |text: &str| text.parse::<i16>().with_context(|| format!("version {text:?}"));
        if text == "none" {
            return Ok(Self::NONE);
        }
        if let Some(low) = text.strip_suffix('+') {
            return Ok(Self { low: number(low)?, high: i16::MAX });
        }
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        Ok(Self { low: number(low)?, high: number(high)? })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { low, high } = self;
        match *high {
            _ if self.is_empty() => f.write_str("none"),
            i16::MAX => write!(f, "{low}+"),
            _ if low == high => write!(f, "{low}"),
            _ => write!(f, "{low}-{high}"),
        }
    }
}

/// When a version out of some range is in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    Never,
    /// The Rust expressions that are true if it is, and if it is not.
    If(String, String),
}

/// When a version of `context` is in `range`.
pub(crate) fn when(range: Range, context: Range) -> When {
    let inside = range.and(context);
    let (below, above) = (inside.low > context.low, inside.high < context.high);
    let Range { low, high } = inside;
    match (below, above) {
        _ if inside.is_empty() => When::Never,
        (false, false) => When::Always,
        _ if low == high => When::If(format!("version == {low}"), format!("version != {low}")),
        (true, false) => When::If(format!("version >= {low}"), format!("version < {low}")),
        (false, true) => When::If(format!("version <= {high}"), format!("version > {high}")),
        (true, true) => When::If(
            format!("({low}..={high}).contains(&version)"),
            format!("!({low}..={high}).contains(&version)"),
        ),
    }
}
