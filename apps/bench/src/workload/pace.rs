//! How fast records are to be sent.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schedule::Rate;

/// How fast records are to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum Pace {
    /// As fast as they are taken.
    Max,
    /// When they are due, however fast they are taken.
    Rate(Rate),
    /// A share of what is taken as fast as can be, which is tried first: 1.5 is half as much again.
    OfFullSpeed(f64),
}

const EXPECTED: &str =
    "expected records a second, FROM:TO:SECONDS for a rate that changes, 150% of full speed, or max";

impl TryFrom<Value> for Pace {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) if text == "max" => Ok(Self::Max),
            Value::String(text) => match text.strip_suffix('%') {
                Some(percent) => {
                    let percent = percent.parse().ok().filter(|percent| (1.0..=10_000.0).contains(percent));
                    percent.map(|percent: f64| Self::OfFullSpeed(percent / 100.0))
                }
                None => text.parse().ok().map(Self::Rate),
            }
            .ok_or_else(|| EXPECTED.to_owned()),
            Value::Number(number) => {
                let rate = number.as_f64().filter(|rate| *rate > 0.0 && rate.is_finite());
                rate.map(|rate| Self::Rate(Rate::constant(rate))).ok_or_else(|| EXPECTED.to_owned())
            }
            _ => Err(EXPECTED.to_owned()),
        }
    }
}

impl From<Pace> for Value {
    fn from(pace: Pace) -> Self {
        match pace {
            Pace::Max => Self::from("max"),
            Pace::OfFullSpeed(_) => Self::from(pace.to_string()),
            Pace::Rate(rate) => rate.constant_rate().map_or_else(|| Self::from(rate.to_string()), Self::from),
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.write_str("max"),
            Self::Rate(rate) => write!(f, "{rate}"),
            // A hundredth part of a percent is as near as anybody wants it.
            Self::OfFullSpeed(share) => write!(f, "{}%", (share * 1e4).round() / 1e2),
        }
    }
}
