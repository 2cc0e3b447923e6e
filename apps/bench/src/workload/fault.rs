//! What is done to brokers while a workload runs: `kill 2 at 20 for 5, restart 1 at 40`.
//!
//! It is a text and no list, so that a list of several is a sweep, as that of any field.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// What is done to brokers, in the order in which it begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Faults(Vec<Fault>);

/// What is done to one broker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fault {
    /// What.
    pub kind: Kind,
    /// To the how-manieth, from 1.
    pub broker: u16,
    /// When: seconds after the start, its warm-up included.
    pub at: f64,
    /// How many seconds it lasts.
    pub seconds: f64,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// kill -9; it is started again when its time is over.
    Kill,
    /// SIGSTOP; it goes on, and does not know how late it is.
    Pause,
    /// It is asked to end (SIGTERM), and is started again once it has and its time is over.
    Restart,
}

/// The start is known to whoever does it once its first second is over.
const AT_MIN: f64 = 2.0;
/// A day.
const SECONDS_MAX: f64 = 86_400.0;
const EXPECTED: &str = "expected `kill BROKER at SECOND for SECONDS`, `pause BROKER at SECOND for SECONDS` or \
                        `restart BROKER at SECOND`, with commas between several";

impl Faults {
    /// One after the other.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Fault> {
        self.0.iter()
    }

    /// Whether nothing is done.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails if a broker is hit that is not there, or while something is done to it already.
    pub fn check(&self, brokers: u16) -> Result<()> {
        for (place, fault) in self.0.iter().enumerate() {
            ensure!(
                (1..=brokers).contains(&fault.broker),
                "faults: {fault}: there are brokers 1 to {brokers}"
            );
            let is_hit_then =
                |before: &&Fault| before.broker == fault.broker && before.at + before.seconds >= fault.at;
            if let Some(before) = self.0[..place].iter().find(is_hit_then) {
                bail!("faults: {fault}: `{before}` is not over by then");
            }
        }
        Ok(())
    }
}

impl FromStr for Faults {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let mut faults = parts.map(str::parse).collect::<Result<Vec<Fault>>>()?;
        faults.sort_by(|one, other| one.at.total_cmp(&other.at));
        Ok(Self(faults))
    }
}

impl FromStr for Fault {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (kind, broker, at, seconds) = match words[..] {
            ["kill", broker, "at", at, "for", seconds] => (Kind::Kill, broker, at, seconds),
            ["pause", broker, "at", at, "for", seconds] => (Kind::Pause, broker, at, seconds),
            ["restart", broker, "at", at, "for", seconds] => (Kind::Restart, broker, at, seconds),
            ["restart", broker, "at", at] => (Kind::Restart, broker, at, "0"),
            _ => bail!("{text}: {EXPECTED}"),
        };
        let number = |text: &str| {
            let seconds = text.strip_suffix('s').unwrap_or(text).parse().ok();
            seconds.filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds))
        };
        let fault = Self {
            kind,
            broker: broker.parse().ok().with_context(|| format!("{text}: {broker} is no broker's number"))?,
            at: number(at).with_context(|| format!("{text}: {at} is no time in seconds"))?,
            seconds: number(seconds).with_context(|| format!("{text}: {seconds} is no time in seconds"))?,
        };
        ensure!(fault.at >= AT_MIN, "{text}: nothing is done in the first {AT_MIN} s");
        Ok(fault)
    }
}

impl TryFrom<String> for Faults {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse().map_err(|error| format!("{error:#}"))
    }
}

impl From<Faults> for String {
    fn from(faults: Faults) -> Self {
        faults.to_string()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, fault) in self.0.iter().enumerate() {
            let between = if place == 0 { "" } else { ", " };
            write!(f, "{between}{fault}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, broker, at, seconds } = self;
        write!(f, "{kind} {broker} at {at}")?;
        if *seconds > 0.0 { write!(f, " for {seconds}") } else { Ok(()) }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kill => "kill",
            Self::Pause => "pause",
            Self::Restart => "restart",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let read = text.parse::<Faults>().and_then(|faults| faults.check(3));
        read.map_or_else(|error| format!("{error:#}"), |()| format!("{text} was taken"))
    }

    #[test]
    fn what_is_written_is_read_in_the_order_of_its_times() {
        let faults: Faults =
            "restart 1 at 40, kill 2 at 20s for 5s, pause 3 at 7.5 for 0.5".parse().expect("they are three");
        faults.check(3).expect("there are so many brokers");
        let first = Fault { kind: Kind::Pause, broker: 3, at: 7.5, seconds: 0.5 };
        assert_eq!(faults.iter().next(), Some(&first));
        let text = "pause 3 at 7.5 for 0.5, kill 2 at 20 for 5, restart 1 at 40";
        assert_eq!(faults.to_string(), text);
        assert_eq!(text.parse::<Faults>().expect("it was written so"), faults);
        assert!("".parse::<Faults>().expect("nothing is done").is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, why) in [
            ("burn 1 at 5 for 2", "expected `kill BROKER"),
            ("kill 1 at 5", "expected `kill BROKER"),
            ("kill one at 5 for 2", "one is no broker's number"),
            ("kill 1 at -5 for 2", "-5 is no time in seconds"),
            ("kill 1 at 5 for NaN", "NaN is no time in seconds"),
            ("kill 1 at 1 for 2", "nothing is done in the first 2 s"),
            ("kill 4 at 5 for 2", "there are brokers 1 to 3"),
            ("kill 0 at 5 for 2", "there are brokers 1 to 3"),
            ("kill 1 at 5 for 2, pause 1 at 6 for 1", "`kill 1 at 5 for 2` is not over by then"),
        ] {
            assert!(refusal(text).contains(why), "{text}: {}", refusal(text));
        }
    }
}
