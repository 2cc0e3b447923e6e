//! What a large group is to be, and what its threads share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Protocol;

/// Kafka's default of `heartbeat.interval.ms`.
const HEARTBEAT_INTERVAL_DEFAULT: Duration = Duration::from_secs(3);

/// What is done.
pub(super) struct Setup<'a> {
    pub(super) broker: &'a str,
    pub(super) topic: &'a str,
    pub(super) group: &'a str,
    pub(super) protocol: Protocol,
    /// How many members, and how many partitions the topic has.
    pub(super) members: usize,
    /// `session.timeout.ms`, in the classic protocol.
    pub(super) session: Duration,
    /// Whether all leave as soon as they are there.
    pub(super) only_joins: bool,
}

impl Setup<'_> {
    /// `heartbeat.interval.ms`: Kafka's default, or what it recommends for a shorter session; of the classic protocol.
    pub(super) fn heartbeat_interval(&self) -> Duration {
        (self.session / 3).min(HEARTBEAT_INTERVAL_DEFAULT)
    }

    /// How often a member is heard of: in KIP-848 by what brokers say by default.
    pub(super) fn heard_every(&self) -> Duration {
        if self.protocol == Protocol::Consumer { Duration::from_secs(5) } else { self.heartbeat_interval() }
    }
}

/// Something that several threads look at.
pub(super) struct Shared<T>(Arc<Mutex<T>>);

/// Something new of that kind.
pub(super) fn shared<T>(value: T) -> Shared<T> {
    Shared(Arc::new(Mutex::new(value)))
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Shared<T> {
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
