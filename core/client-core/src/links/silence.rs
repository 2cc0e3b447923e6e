//! Peers that owe an answer for so long that there may be nobody any more.
//!
//! Their connections stand, and their answers would be waited for as long as `request.timeout.ms` says. Others know
//! sooner whether somebody else does by now what they did.

use std::time::Duration;

use base::Now;

use super::{ConnectionId, Links, Open, Peer};
use crate::link::Link;

/// How long a broker may owe an answer that was due before others are asked about it. One that waits for its
/// followers answers sooner as long as all is well.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long after an answer others are asked again: as long as nobody knows better.
pub(crate) const ASK_EVERY: Duration = Duration::from_millis(250);

impl<T> Links<T> {
    /// Connections whose peers are silent: they owe an answer, or are brokers that do not let themselves be greeted.
    pub(crate) fn silent(&self, now: Now) -> Vec<(ConnectionId, Peer)> {
        let open = self.peers.iter().filter_map(|(&peer, state)| Some((peer, state.open.as_ref()?)));
        let is_of_use =
            |peer: Peer, open: &Open<T>| open.link.is_greeted() || matches!(peer, Peer::Broker(_));
        let silent = open.filter(|&(peer, open)| is_of_use(peer, open) && open.is_silent(now));
        silent.map(|(peer, open)| (open.id, peer)).collect()
    }

    /// While a peer is silent: when others can be asked again, who said something at `told_at`.
    pub(crate) fn ask_others_at(&self, told_at: Duration, now: Now) -> Option<Duration> {
        let at = Some(told_at + ASK_EVERY).filter(|&at| at > now.elapsed);
        at.filter(|_| !self.silent(now).is_empty())
    }

    /// Whether somebody who is not silent owes an answer to such a question.
    pub(crate) fn is_owed(&self, now: Now, is_such: impl Fn(&T) -> bool) -> bool {
        let silent = self.silent(now);
        let others = self.peers.keys().filter(|&&peer| !silent.iter().any(|&(_, it)| it == peer));
        others.flat_map(|&peer| self.asked(peer)).any(is_such)
    }

    /// What a peer was asked and has not answered.
    pub(crate) fn asked(&self, peer: Peer) -> impl Iterator<Item = &T> {
        self.link(peer).into_iter().flat_map(Link::asked)
    }
}

impl<T> Open<T> {
    /// When its peer is one of those, or has been waited for as long at first.
    pub(super) fn silent_at(&self) -> Option<Duration> {
        // For its oldest answer, or for the first word.
        let from = if self.link.is_greeted() { self.link.waits_from()? } else { self.since };
        Some(from.saturating_add(PATIENCE))
    }

    pub(super) fn is_silent(&self, now: Now) -> bool {
        self.silent_at().is_some_and(|at| at <= now.elapsed)
    }
}
