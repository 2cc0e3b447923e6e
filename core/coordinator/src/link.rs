//! Over which connection a member speaks, and how often it is heard.
//!
//! Who ends a connection and does not come back has most likely ended itself: a process that is gone has its
//! connections closed, and one that lives connects again for its next heartbeat. So a member whose connection is closed
//! is waited for until it has missed two heartbeats, and not for the rest of its session (ADR 0025).
//!
//! It is soft: another coordinator knows a member's connection once it has heard it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::request::{ConnectionId, Speaker, Speech};

/// The heartbeats by which a member has to be back: the next one, and one more in case that is lost or late.
const HEARTBEATS: u32 = 2;

/// How long it takes to find the coordinator and to connect, beside the time until it is tried.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(1);

/// Times between heartbeats that are remembered: the longest of them is what a member is believed to keep to.
const GAPS: usize = 3;

/// A session has time for so many heartbeats at least, if a client keeps to what Kafka recommends.
const HEARTBEATS_OF_SESSION: u32 = 3;

/// A shorter interval is none that a client keeps to.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Links that are kept beside those of members that are there, before the others are looked for.
const STALE_MAX: usize = 16;

/// The links of a group's members.
#[derive(Debug, Default)]
pub(crate) struct Links(BTreeMap<Box<str>, Link>);

/// See the module.
#[derive(Debug)]
pub(crate) struct Link {
    /// Where it was heard last.
    connection: ConnectionId,
    /// When its last heartbeat came, since it joined.
    beat: Option<Duration>,
    gaps: [Duration; GAPS],
    /// How many there were; the newest ones are kept.
    gap_count: usize,
}

impl Links {
    /// A member was heard. Last, how many members there are, and whether somebody is one.
    pub(crate) fn heard(
        &mut self,
        now: Duration,
        connection: ConnectionId,
        said: &Speaker<'_>,
        (count, is_there): (usize, impl Fn(&str) -> bool),
    ) {
        if let Some(link) = self.0.get_mut(said.member) {
            return link.heard(now, connection, said.by);
        }
        if self.0.len() >= count + STALE_MAX {
            self.0.retain(|id, _| is_there(id));
        }
        let mut link = Link { connection, beat: None, gaps: [Duration::ZERO; GAPS], gap_count: 0 };
        link.heard(now, connection, said.by);
        self.0.insert(said.member.into(), link);
    }

    /// The link of a member that was heard last over this connection, which is closed.
    pub(crate) fn closed(&self, connection: ConnectionId, member: &str) -> Option<&Link> {
        self.0.get(member).filter(|link| link.connection == connection)
    }
}

impl Link {
    fn heard(&mut self, now: Duration, connection: ConnectionId, by: Speech) {
        self.connection = connection;
        match by {
            Speech::Joins => self.beat = None,
            Speech::Heartbeat => {
                if let Some(before) = self.beat.replace(now) {
                    self.gaps[self.gap_count % GAPS] = now.saturating_sub(before);
                    self.gap_count += 1;
                }
            }
            Speech::Other => {}
        }
    }

    /// How long it is from one heartbeat to the next; if that was not seen, what Kafka tells clients to keep to with
    /// such a session.
    pub(crate) fn interval_within(&self, session_timeout: Duration) -> Duration {
        let longest = self.gaps.iter().max().copied().filter(|_| self.gap_count > 0);
        longest.unwrap_or(session_timeout / HEARTBEATS_OF_SESSION)
    }
}

/// How long a member whose connection is closed is waited for, by its interval.
pub(crate) fn patience(interval: Duration) -> Duration {
    interval.max(INTERVAL_MIN).saturating_mul(HEARTBEATS) + CONNECT_TIME_MAX
}
