//! The waits that producers and consumers have in common, by Kafka's names.

use std::time::Duration;

use client_core::{Backoff, LinksSettings};

/// A client's own waits.
pub(crate) struct Waits<'a> {
    pub(crate) retry: &'a mut Backoff,
    pub(crate) metadata_age_max: &'a mut Duration,
    pub(crate) links: &'a mut LinksSettings,
}

impl<'a> Waits<'a> {
    /// The wait with this name.
    pub(crate) fn named(self, name: &str) -> Option<&'a mut Duration> {
        Some(match name {
            "metadata.max.age.ms" => self.metadata_age_max,
            "retry.backoff.ms" => &mut self.retry.first,
            "retry.backoff.max.ms" => &mut self.retry.max,
            "reconnect.backoff.ms" => &mut self.links.reconnect.first,
            "reconnect.backoff.max.ms" => &mut self.links.reconnect.max,
            "socket.connection.setup.timeout.ms" => &mut self.links.connect_timeout,
            _ => return None,
        })
    }
}

/// Whether each can be waited for: a client that waits for nothing tries again without end, and keeps a
/// processor busy.
pub(crate) fn are_in_bounds(retry: &Backoff, metadata_age_max: Duration, links: &LinksSettings) -> bool {
    const BOUNDS: std::ops::RangeInclusive<Duration> =
        Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
    let waits = [retry.first, retry.max, metadata_age_max, links.reconnect.first, links.reconnect.max];
    waits.iter().chain([&links.connect_timeout]).all(|wait| BOUNDS.contains(wait))
}

/// What is said of one that is not.
pub(crate) const OUT_OF_BOUNDS: &str =
    "metadata.max.age.ms, the backoffs and socket.connection.setup.timeout.ms must be 1 ms to a day";
