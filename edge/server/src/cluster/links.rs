//! The ways to all other nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::BrokerId;
use metadata::Image;
use parking_lot::Mutex;

use super::identity::Identity;
use super::link::{Link, Source};

/// See the module. Bounded by the nodes that the settings and the metadata name.
pub(crate) struct Links {
    pub(crate) identity: Arc<Identity>,
    links: Mutex<BTreeMap<BrokerId, Arc<Link>>>,
}

impl Links {
    pub(crate) fn new(identity: Arc<Identity>) -> Self {
        Self { identity, links: Mutex::default() }
    }

    /// The way to a node that listens at an address, as somebody says.
    pub(crate) fn to(&self, node: BrokerId, source: Source, address: &str) -> Arc<Link> {
        let mut links = self.links.lock();
        let link = links.entry(node).or_insert_with(|| Arc::new(Link::new(Arc::clone(&self.identity), node)));
        link.note(source, address);
        Arc::clone(link)
    }

    /// Brokers listen where they say when they register.
    pub(crate) fn note_brokers(&self, image: &Image, ids: &BTreeSet<BrokerId>) {
        for id in ids.iter().filter(|id| **id != self.identity.node) {
            if let Some(at) = image.broker(*id).and_then(|broker| broker.cluster_address()) {
                self.to(*id, Source::Registered, &at.address());
            }
        }
    }

    /// The way to a node of which it is known where it listens.
    pub(crate) fn get(&self, node: BrokerId) -> Option<Arc<Link>> {
        self.links.lock().get(&node).map(Arc::clone)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Link>> {
        self.links.lock().values().map(Arc::clone).collect()
    }
}
