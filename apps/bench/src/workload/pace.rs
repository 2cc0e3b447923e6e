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
}

const EXPECTED: &str = "expected records a second, FROM:TO:SECONDS for a rate that changes, or max";

impl TryFrom<Value> for Pace {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match value {
            Value::String(text) if text == "max" => Ok(Self::Max),
            Value::String(text) => text.parse().map(Self::Rate).map_err(|_| EXPECTED.to_owned()),
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
            Pace::Rate(rate) => rate.constant_rate().map_or_else(|| Self::from(rate.to_string()), Self::from),
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.write_str("max"),
            Self::Rate(rate) => write!(f, "{rate}"),
        }
    }
}
