//! Peers that owe an answer for so long that there may be nobody any more.

use std::time::Duration;

use base::Now;

use super::{ConnectionId, Links, Open, Peer};
use crate::link::Link;

impl<T> Links<T> {
    /// From now on a peer is silent that has owed an answer for so long: there may be nobody any more.
    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Connections whose peers are silent, and when that was found out at the earliest.
    pub(crate) fn silent(&self) -> impl Iterator<Item = (Duration, ConnectionId, Peer)> {
        self.peers.iter().filter_map(|(&peer, state)| {
            let open = state.open.as_ref()?;
            Some((open.asked_at(&self.settings)?.saturating_add(self.patience), open.id, peer))
        })
    }

    /// Whether somebody who is not silent owes an answer to such a question.
    pub(crate) fn is_owed(&self, now: Now, is_such: impl Fn(&T) -> bool) -> bool {
        let silent: Vec<Peer> =
            self.silent().filter(|&(since, ..)| since <= now.elapsed).map(|(.., peer)| peer).collect();
        let others = self.peers.keys().filter(|peer| !silent.contains(peer));
        others.flat_map(|&peer| self.asked(peer)).any(is_such)
    }

    /// What a peer was asked and has not answered.
    pub(crate) fn asked(&self, peer: Peer) -> impl Iterator<Item = &T> {
        self.link(peer).into_iter().flat_map(Link::asked)
    }

    /// Whether a connection is one of those, or takes as long to come about.
    pub(super) fn is_silent(&self, open: &Open<T>, now: Now) -> bool {
        let since = if open.link.is_greeted() { open.asked_at(&self.settings) } else { Some(open.since) };
        since.is_some_and(|at| at.saturating_add(self.patience) <= now.elapsed)
    }
}
