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
    /// How long after that it has been silent for too long: less if somebody suspects it.
    patience: Duration,
    /// Heartbeats that are not answered yet, since something has to be committed before: it says no more until then.
    unanswered: u32,
    metadata_end: Offset,
    /// Up to where the others must know the metadata before it may stop.
    hands_over_until: Option<Offset>,
}

impl Session {
    /// When it ends; `None` if it does not before a heartbeat is answered.
    fn ends(&self) -> Option<Duration> {
        (self.unanswered == 0).then_some(self.heard + self.patience)
    }

    fn is_over(&self, now: Now) -> bool {
        self.ends().is_some_and(|ends| ends <= now.elapsed)
    }
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
            patience: self.timeout,
            unanswered: 0,
            metadata_end: Offset::ZERO,
            hands_over_until: None,
        };
        self.by_broker = brokers.map(|id| (id, session)).collect();
    }

    /// A whole session for everybody, of whom what is known stays known.
    pub(crate) fn extend_all(&mut self, now: Now) {
        for session in self.by_broker.values_mut() {
            session.heard = now.elapsed;
            session.patience = self.timeout;
        }
    }

    /// A broker was heard, and will be answered.
    pub(crate) fn heard(&mut self, broker: &Broker, now: Now, metadata_end: Offset) {
        let before = self.by_broker.get(&broker.id);
        let session = Session {
            heard: now.elapsed,
            patience: self.timeout,
            unanswered: before.map_or(0, |session| session.unanswered).saturating_add(1),
            metadata_end,
            hands_over_until: before.and_then(|session| session.hands_over_until),
        };
        self.by_broker.insert(broker.id, session);
    }

    /// A heartbeat is answered: from now on its broker can say more.
    pub(crate) fn answered(&mut self, id: BrokerId, now: Now) {
        if let Some(session) = self.by_broker.get_mut(&id) {
            session.unanswered = session.unanswered.saturating_sub(1);
            session.heard = now.elapsed;
        }
    }

    pub(crate) fn forget(&mut self, id: BrokerId) {
        self.by_broker.remove(&id);
    }

    /// Somebody cannot reach a broker: it must be heard soon.
    pub(crate) fn suspect(&mut self, id: BrokerId, now: Now, heartbeat_interval: Duration) -> Heard {
        let Some(session) = self.by_broker.get_mut(&id) else { return Heard::TooLongAgo };
        session.patience = session.patience.min(heartbeat_interval * HEARTBEATS_MISSED_IF_SUSPECTED);
        if session.is_over(now) { Heard::TooLongAgo } else { Heard::Lately }
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
        let (id, session) = self.by_broker.iter().find(|(_, session)| session.is_over(now))?;
        Some((*id, now.elapsed.saturating_sub(session.heard)))
    }

    /// When the next session ends.
    pub(crate) fn next_end(&self) -> Option<Duration> {
        self.by_broker.values().filter_map(Session::ends).min()
    }

    pub(crate) fn clear(&mut self) {
        self.by_broker.clear();
    }
}
