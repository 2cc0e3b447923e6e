//! The limits of this node on how fast replicas are filled that lack something.

use std::sync::atomic::{AtomicBool, Ordering};

use broker::replication::Throttle;
use metadata::settings::BrokerSettings;
use parking_lot::Mutex;

use crate::partition::PartitionCell;

/// See the module. Nearly always nobody limits anything: then nothing is locked.
#[derive(Default)]
pub(crate) struct Throttles {
    /// What this node gives away.
    pub(crate) leader: Mutex<Throttle>,
    /// What it takes in.
    pub(crate) follower: Mutex<Throttle>,
    limits_leader: AtomicBool,
    limits_follower: AtomicBool,
}

impl Throttles {
    /// The settings of this broker may have changed.
    pub(crate) fn set(&self, settings: &BrokerSettings) {
        let (gives, takes) = (settings.leader_throttled_rate, settings.follower_throttled_rate);
        self.leader.lock().set_rate(gives);
        self.follower.lock().set_rate(takes);
        self.limits_leader.store(gives.is_some(), Ordering::Relaxed);
        self.limits_follower.store(takes.is_some(), Ordering::Relaxed);
    }

    /// Whether there is a limit on what this node gives away.
    pub(crate) fn limits_leader(&self) -> bool {
        self.limits_leader.load(Ordering::Relaxed)
    }

    /// Whether a replica of this node is held back, or would be: one that is in sync is not.
    pub(crate) fn hold_back(&self, cell: &PartitionCell) -> bool {
        self.limits_follower.load(Ordering::Relaxed) && cell.is_throttled()
    }
}
