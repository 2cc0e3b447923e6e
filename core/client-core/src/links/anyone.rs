//! Whom to ask what any broker can answer.

use base::{Effects, Now};

use super::{Links, NetEffect, Open, Peer, PeerState};

impl<T> Links<T> {
    /// A peer that anything can be asked of now: the one with the fewest answers due. Without one, a
    /// connection to the next that may know the cluster is begun, unless one is coming. Those that are silent
    /// are not asked, and not waited for; nor is one that lives where another is silent, if there is any
    /// elsewhere.
    pub fn want_any(&mut self, now: Now, effects: &mut Effects<NetEffect>) -> Option<Peer> {
        let avoided = self.avoided(now);
        let others = self.peers.iter().filter(|(peer, _)| !avoided.contains(peer));
        let open = others.filter_map(|(&peer, state)| Some((peer, state.open.as_ref()?)));
        let heard = open.filter(|(_, open)| !open.is_silent(now));
        let heard: Vec<(Peer, &Open<T>)> = heard.collect();
        let is_usable = |open: &Open<T>| open.link.is_greeted() && open.muted_until <= now.elapsed;
        let usable = heard.iter().filter(|(_, open)| is_usable(open));
        if let Some((_, peer)) = usable.map(|&(peer, open)| (open.link.in_flight(), peer)).min() {
            return Some(peer);
        }
        if heard.is_empty() {
            self.connect_to_next(&avoided, now, effects);
        }
        None
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
        let avoided = self.peers.iter().filter(|(_, state)| silent.contains(&&state.address));
        let avoided: Vec<Peer> = avoided.map(|(&peer, _)| peer).collect();
        if avoided.len() == self.peers.len() { Vec::new() } else { avoided }
    }
}
