//! Whom to ask what any broker can answer.

use base::{Effects, Now};

use super::{Links, NetEffect, Open, Peer, PeerState};
use crate::cluster::Address;

/// Who was asked so often in vain is doubted, and asked again as soon as all others are, too: a leader that dies has a
/// successor sooner.
pub(crate) const DOUBTED_AFTER: u32 = 4;
/// If so many say nothing better, nobody else is connected to for it: a client does not go to all of a large cluster.
const DOUBTED_MAX: usize = 3;

impl<T> Links<T> {
    /// A peer that anything can be asked of now: one that is not doubted, or as little as any, and the one with the
    /// fewest answers due of those. A connection to the next that may know the cluster is begun if nobody can be asked
    /// who is doubted as little, unless one is coming. Those that are silent are not asked, and not waited for; nor is
    /// one that lives where another is silent, if there is any elsewhere.
    pub fn want_any(
        &mut self,
        in_vain: &[(Peer, u32)],
        now: Now,
        effects: &mut Effects<NetEffect>,
    ) -> Option<Peer> {
        let mut avoided = self.avoided(now);
        let doubts = |state: &PeerState<T>| self.doubts(&state.address, in_vain);
        let others = self.peers.iter().filter(|(peer, _)| !avoided.contains(peer));
        let open = others.filter_map(|(&peer, state)| Some((peer, doubts(state), state.open.as_ref()?)));
        let heard: Vec<(Peer, u32, &Open<T>)> = open.filter(|(.., open)| !open.is_silent(now)).collect();
        let usable = heard.iter().filter(|(.., open)| open.is_usable(now));
        let best = usable.map(|&(peer, doubts, open)| (doubts, open.link.in_flight(), peer)).min();
        // Who wants to be left alone keeps nobody from asking another, who lives elsewhere.
        let is_muted = |state: &&PeerState<T>| state.open.as_ref().is_some_and(|open| open.is_muted(now));
        let muted: Vec<_> = self.peers.values().filter(is_muted).map(|state| &state.address).collect();
        let muted = self.at(|state| muted.contains(&&state.address));
        let waited_for = heard.iter().filter(|(.., open)| !open.is_muted(now));
        let least = waited_for.map(|&(_, doubts, _)| doubts).min();
        if let Some(least) = least {
            let is_enough = in_vain.len() > DOUBTED_MAX;
            avoided.extend(self.at(|state| is_enough || doubts(state) >= least));
        }
        avoided.extend(muted);
        self.connect_to_next(&avoided, now, effects);
        best.map(|(.., peer)| peer)
    }

    /// How much who lives there is doubted.
    fn doubts(&self, address: &Address, in_vain: &[(Peer, u32)]) -> u32 {
        let lives_there = |peer: &Peer| self.peers.get(peer).is_some_and(|state| state.address == *address);
        let times: u32 = in_vain.iter().filter(|(peer, _)| lives_there(peer)).map(|(_, times)| times).sum();
        times / DOUBTED_AFTER
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
