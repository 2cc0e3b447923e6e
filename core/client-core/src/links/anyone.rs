//! Whom to ask what any broker can answer.

use base::{Effects, Now};

use super::{Links, NetEffect, Open, Peer, PeerState};

impl<T> Links<T> {
    /// A peer that anything can be asked of now: the one with the fewest answers due, and none that lives where the
    /// doubted one does if there is any elsewhere. Without one, a connection to the next that may know the cluster is
    /// begun, unless one is coming; until it stands, the doubted one is asked. Who wants to be left alone for a while is
    /// waited for. Those that are silent are not asked, and not waited for; nor is one that lives where another is
    /// silent, if there is any elsewhere.
    pub fn want_any(
        &mut self,
        doubted: Option<Peer>,
        now: Now,
        effects: &mut Effects<NetEffect>,
    ) -> Option<Peer> {
        let avoided = self.avoided(now);
        let is_muted = |state: &PeerState<T>| state.open.as_ref().is_some_and(|open| !open.is_usable(now));
        let doubted = doubted.and_then(|peer| self.peers.get(&peer)).filter(|state| !is_muted(state));
        let doubted: Vec<Peer> = self.at(|state| doubted.is_some_and(|it| state.address == it.address));
        let open = self.peers.iter().filter_map(|(&peer, state)| Some((peer, state.open.as_ref()?)));
        let heard = open.filter(|(peer, open)| !avoided.contains(peer) && !open.is_silent(now));
        let (worse, heard): (Vec<_>, Vec<_>) = heard.partition(|(peer, _)| doubted.contains(peer));
        if let Some(peer) = least_busy(&heard, now) {
            return Some(peer);
        }
        let worse_peer = least_busy(&worse, now);
        if heard.is_empty() {
            let avoided = if worse.is_empty() { avoided } else { [avoided, doubted].concat() };
            self.connect_to_next(&avoided, now, effects);
        }
        worse_peer
    }

    fn connect_to_next(&mut self, avoided: &[Peer], now: Now, effects: &mut Effects<NetEffect>) {
        let peers: Vec<Peer> = self.peers.keys().copied().filter(|peer| !avoided.contains(peer)).collect();
        for _ in 0..peers.len() {
            self.bootstrap_next += 1;
            let peer = peers[self.bootstrap_next % peers.len()];
            if self.peers[&peer].open.is_some() {
                continue;
            }
            self.want(peer, now, effects);
            if self.peers[&peer].open.is_some() {
                break;
            }
        }
    }

    /// Peers at addresses from which nothing is heard; none if that is so of all.
    fn avoided(&self, now: Now) -> Vec<Peer> {
        let is_silent = |state: &&PeerState<T>| state.open.as_ref().is_some_and(|open| open.is_silent(now));
        let silent: Vec<_> = self.peers.values().filter(is_silent).map(|state| &state.address).collect();
        let avoided = self.at(|state| silent.contains(&&state.address));
        if avoided.len() == self.peers.len() { Vec::new() } else { avoided }
    }

    fn at(&self, is_there: impl Fn(&PeerState<T>) -> bool) -> Vec<Peer> {
        self.peers.iter().filter(|(_, state)| is_there(state)).map(|(&peer, _)| peer).collect()
    }
}

/// Of those that can be asked now.
fn least_busy<T>(peers: &[(Peer, &Open<T>)], now: Now) -> Option<Peer> {
    let usable = peers.iter().filter(|(_, open)| open.is_usable(now));
    usable.map(|&(peer, open)| (open.link.in_flight(), peer)).min().map(|(_, peer)| peer)
}
