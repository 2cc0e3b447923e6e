//! When each broker was heard last, and how far it is.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{BrokerId, Now, Offset};
use metadata::Broker;

/// Heartbeats that may be missed in a row when somebody suspects a broker: one may have been on its way
/// when the connection broke.
const HEARTBEATS_MISSED_IF_SUSPECTED: u32 = 2;

/// The sessions of all brokers that are not fenced.
#[derive(Debug)]
pub(crate) struct Sessions {
    timeout: Duration,
    by_broker: BTreeMap<BrokerId, Session>,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    heard: Duration,
    ends: Duration,
    metadata_end: Offset,
    /// Up to where the others must know the metadata before it may stop.
    hands_over_until: Option<Offset>,
}

/// Whether a broker was heard lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    Lately,
    TooLongAgo,
}

impl Sessions {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { timeout, by_broker: BTreeMap::new() }
    }

    /// A whole session for each of these, of whom nothing is known.
    pub(crate) fn begin(&mut self, brokers: impl Iterator<Item = BrokerId>, now: Now) {
        let session = Session {
            heard: now.elapsed,
            ends: now.elapsed + self.timeout,
            metadata_end: Offset::ZERO,
            hands_over_until: None,
        };
        self.by_broker = brokers.map(|id| (id, session)).collect();
    }

    /// A whole session for everybody, of whom what is known stays known.
    pub(crate) fn extend_all(&mut self, now: Now) {
        for session in self.by_broker.values_mut() {
            session.heard = now.elapsed;
            session.ends = now.elapsed + self.timeout;
        }
    }

    pub(crate) fn heard(&mut self, broker: &Broker, now: Now, metadata_end: Offset) {
        let hands_over_until = self.by_broker.get(&broker.id).and_then(|session| session.hands_over_until);
        let ends = now.elapsed + self.timeout;
        let session = Session { heard: now.elapsed, ends, metadata_end, hands_over_until };
        self.by_broker.insert(broker.id, session);
    }

    pub(crate) fn forget(&mut self, id: BrokerId) {
        self.by_broker.remove(&id);
    }

    /// Somebody cannot reach a broker: it must be heard soon.
    pub(crate) fn suspect(&mut self, id: BrokerId, now: Now, heartbeat_interval: Duration) -> Heard {
        let Some(session) = self.by_broker.get_mut(&id) else { return Heard::TooLongAgo };
        session.ends = session.ends.min(session.heard + heartbeat_interval * HEARTBEATS_MISSED_IF_SUSPECTED);
        if session.ends <= now.elapsed { Heard::TooLongAgo } else { Heard::Lately }
    }

    pub(crate) fn hands_over_until(&mut self, id: BrokerId, end: Offset) {
        if let Some(session) = self.by_broker.get_mut(&id) {
            session.hands_over_until = Some(end);
        }
    }

    /// Whether these brokers know all that was decided for a broker to be able to stop.
    pub(crate) fn all_know(&self, stopping: BrokerId, mut others: impl Iterator<Item = BrokerId>) -> bool {
        let until = self.by_broker.get(&stopping).and_then(|session| session.hands_over_until);
        let knows = |id: BrokerId| self.by_broker.get(&id).map_or(Offset::ZERO, |it| it.metadata_end);
        until.is_none_or(|until| others.all(|id| knows(id) >= until))
    }

    /// A broker whose session has ended, and how long it was not heard.
    pub(crate) fn expired(&self, now: Now) -> Option<(BrokerId, Duration)> {
        let (id, session) = self.by_broker.iter().find(|(_, session)| session.ends <= now.elapsed)?;
        Some((*id, now.elapsed.saturating_sub(session.heard)))
    }

    /// When the next session ends.
    pub(crate) fn next_end(&self) -> Option<Duration> {
        self.by_broker.values().map(|session| session.ends).min()
    }

    pub(crate) fn clear(&mut self) {
        self.by_broker.clear();
    }
}
