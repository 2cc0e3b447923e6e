//! What all calls of an admin share: connections, and what is known of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Effects, ErrorCode, Now};
use wire::messages::metadata::MetadataResponse;

use super::coordinators::Coordinators;
use super::{AdminSettings, Asked, Cause, Route};
use crate::chance::Chance;
use crate::cluster::{Address, Cluster};
use crate::inquiry::Inquiry;
use crate::links::{Links, NetEffect, Peer};

#[derive(Debug)]
pub(super) struct World {
    pub(super) settings: AdminSettings,
    pub(super) links: Links<Asked>,
    pub(super) net: Effects<NetEffect>,
    pub(super) cluster: Cluster,
    controller: Option<BrokerId>,
    pub(super) coordinators: Coordinators,
    pub(super) metadata: Inquiry,
    /// When somebody last said who does what.
    pub(super) told_at: Duration,
    pub(super) chance: Chance,
    /// What went wrong last with a connection, for people, and when.
    pub(super) trouble: Option<(Duration, String)>,
}

impl World {
    pub(super) fn new(settings: AdminSettings, bootstrap: Vec<Address>, mut chance: Chance) -> Self {
        let links = Links::new(settings.links.clone(), bootstrap, Chance::new(chance.next_u64()));
        Self {
            settings,
            links,
            net: Effects::new(),
            cluster: Cluster::default(),
            controller: None,
            coordinators: Coordinators::default(),
            metadata: Inquiry::default(),
            told_at: Duration::ZERO,
            chance,
            trouble: None,
        }
    }

    /// Whom a route leads to; if that is not known, it is going to be asked.
    pub(super) fn find(&mut self, route: Route<'_>, now: Now) -> Result<Peer, Cause> {
        let found = match route {
            Route::Any => {
                let any = self.links.want_any(&[], now, &mut self.net);
                return any.ok_or(Cause::NotReached);
            }
            Route::Broker(id) => Ok(id),
            Route::Coordinator(group) => match self.coordinators.of(group) {
                Some(id) if self.links.knows(Peer::Broker(id)) => return Ok(Peer::Broker(id)),
                _ => {
                    self.coordinators.want(group);
                    return Err(Cause::NoCoordinator);
                }
            },
            Route::Controller if self.cluster.brokers().is_empty() => Err(Cause::NotReached),
            Route::Controller => self.controller.ok_or(Cause::NoController),
            Route::Leader(topic, index) => match self.cluster.topic(topic) {
                None => Err(Cause::NotReached),
                Some(topic) => {
                    let index = usize::try_from(index.0).ok();
                    let part = index.and_then(|index| topic.partitions.get(index));
                    part.and_then(|part| part.broker).ok_or(Cause::NoLeader)
                }
            },
        };
        let peer = found.map(Peer::Broker);
        if !peer.as_ref().is_ok_and(|&peer| self.links.knows(peer)) {
            self.metadata.is_wanted = true;
        }
        peer
    }

    /// The broker that a route leads to, as far as that is known.
    pub(super) fn known(&self, route: Route<'_>) -> Option<BrokerId> {
        match route {
            Route::Any => None,
            Route::Coordinator(group) => self.coordinators.of(group),
            Route::Broker(id) => Some(id),
            Route::Controller => self.controller,
            Route::Leader(topic, index) => {
                let index = usize::try_from(index.0).ok();
                let part = self
                    .cluster
                    .topic(topic)
                    .zip(index)
                    .and_then(|(topic, index)| topic.partitions.get(index));
                part.and_then(|part| part.broker)
            }
        }
    }

    /// Whether metadata has said what this route needs.
    pub(super) fn is_found(&self, route: Route<'_>) -> bool {
        // It is not metadata that says it.
        if matches!(route, Route::Any | Route::Coordinator(_)) {
            return true;
        }
        // A broker that nobody says the address of is as good as none.
        self.known(route).is_some_and(|id| self.cluster.brokers().contains_key(&id))
    }

    pub(super) fn ask_metadata(&mut self, topics: &BTreeSet<&str>, now: Now) {
        // Whoever looks at a topic that is not there is to hear so, not to make it.
        let names = topics.iter().copied();
        let (in_vain, about) = (self.metadata.in_vain(now), (Asked::Metadata, now));
        match self.links.ask_about_topics(names, false, in_vain, about, &mut self.net) {
            Ok(asked) => self.metadata.asked(asked, now),
            Err(_) => self.metadata.failed(&self.settings.retry, now, &mut self.chance),
        }
    }

    /// Learns from an answer; which topics it does not tell of.
    pub(super) fn learn(&mut self, said: &MetadataResponse<'_>, now: Now) -> BTreeMap<Arc<str>, ErrorCode> {
        self.told_at = now.elapsed;
        self.controller = Some(BrokerId(said.controller_id)).filter(|id| id.0 >= 0);
        self.cluster.absorb(said).into_iter().collect()
    }

    /// Takes over where the brokers are; what was asked of those that moved.
    pub(super) fn learn_brokers(&mut self) -> Vec<(Peer, Vec<Asked>)> {
        self.links.set_brokers(self.cluster.brokers(), &mut self.net)
    }
}
