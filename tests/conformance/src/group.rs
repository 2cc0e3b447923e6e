//! Members of groups as the stories see them: how one joins, what it is given, what it reads.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Settings of a server on which members come, go and crash quickly. No classic group waits for its first members.
pub const QUICK: &[(&str, &str)] = &[
    (DELAY, "0"),
    ("group.consumer.min.session.timeout.ms", "1000"),
    ("group.consumer.session.timeout.ms", "6000"),
    ("group.consumer.min.heartbeat.interval.ms", "100"),
    ("group.consumer.heartbeat.interval.ms", "500"),
];
const DELAY: &str = "group.initial.rebalance.delay.ms";

/// The same, but a classic group waits for its first members as it does by default.
pub fn patient() -> Vec<(&'static str, &'static str)> {
    QUICK.iter().copied().filter(|(name, _)| *name != DELAY).collect()
}

/// How long a member that says nothing is taken for alive: the shortest that a server allows of itself.
pub const SESSION: Duration = Duration::from_secs(6);
/// Between two heartbeats of a member.
pub const HEARTBEAT: Duration = Duration::from_millis(500);

/// Whose members agree on who gets what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// One of the members decides.
    Classic,
    /// The server does: KIP-848.
    Consumer,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
        })
    }
}

/// How a member joins.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Joining<'a> {
    /// The group.
    pub group: &'a str,
    /// What it subscribes to.
    pub topic: &'a str,
    /// Instead of the topic alone, all whose whole names this regular expression matches.
    pub pattern: Option<&'a str>,
    /// By which protocol.
    pub protocol: Protocol,
    /// `range`, `cooperative-sticky` or `uniform`.
    pub assignor: &'a str,
    /// The name of a static member.
    pub instance: Option<&'a str>,
    /// `earliest` or `latest`.
    pub reset: &'a str,
    session_ms: u64,
    heartbeat_ms: u64,
}

impl<'a> Joining<'a> {
    /// A dynamic member, under an assignor that takes all partitions at each change of a classic group.
    pub fn new(group: &'a str, topic: &'a str, protocol: Protocol) -> Self {
        Self {
            group,
            topic,
            pattern: None,
            protocol,
            assignor: if protocol == Protocol::Classic { "range" } else { "uniform" },
            instance: None,
            reset: "earliest",
            session_ms: SESSION.as_millis() as u64,
            heartbeat_ms: HEARTBEAT.as_millis() as u64,
        }
    }

    /// Under another assignor.
    #[must_use]
    pub fn assigned_by(mut self, assignor: &'a str) -> Self {
        self.assignor = assignor;
        self
    }

    /// With another session than [`SESSION`]; members of the consumer protocol have what their server says.
    #[must_use]
    pub fn with_session(mut self, session: Duration) -> Self {
        self.session_ms = session.as_millis() as u64;
        self
    }
}

/// What a member was told of partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// They are its own from here on.
    Assigned(BTreeSet<i32>),
    /// It gives them up.
    Revoked(BTreeSet<i32>),
    /// They may be another's already.
    Lost(BTreeSet<i32>),
}

/// A record that a member read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Read {
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
}

/// What a member has seen since it joined.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// In their order.
    pub events: Vec<Event>,
    /// In the order they were read.
    pub records: Vec<Read>,
}

impl Seen {
    /// The partitions that are its own.
    pub fn owns(&self) -> BTreeSet<i32> {
        self.events.iter().fold(BTreeSet::new(), |mut owned, event| {
            match event {
                Event::Assigned(partitions) => owned.extend(partitions),
                Event::Revoked(partitions) | Event::Lost(partitions) => {
                    owned.retain(|partition| !partitions.contains(partition));
                }
            }
            owned
        })
    }

    /// The partitions that were taken from it, ever.
    pub fn gave_up(&self) -> BTreeSet<i32> {
        let taken = self.events.iter().filter_map(|event| match event {
            Event::Assigned(_) => None,
            Event::Revoked(partitions) | Event::Lost(partitions) => Some(partitions),
        });
        taken.flatten().copied().collect()
    }

    /// How often partitions came or went. Some clients tell of changes that change nothing.
    pub fn changes(&self) -> usize {
        let is_change = |event: &&Event| match event {
            Event::Assigned(partitions) | Event::Revoked(partitions) | Event::Lost(partitions) => {
                !partitions.is_empty()
            }
        };
        self.events.iter().filter(is_change).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_member_owns_is_what_came_and_did_not_go() {
        let of = |partitions: &[i32]| partitions.iter().copied().collect::<BTreeSet<_>>();
        let events = vec![
            Event::Assigned(of(&[0, 1, 2])),
            Event::Revoked(of(&[1])),
            Event::Assigned(of(&[])),
            Event::Assigned(of(&[3])),
            Event::Lost(of(&[0])),
        ];
        let seen = Seen { events, records: Vec::new() };
        assert_eq!(seen.owns(), of(&[2, 3]));
        assert_eq!(seen.gave_up(), of(&[0, 1]));
        assert_eq!(seen.changes(), 4);
    }
}
