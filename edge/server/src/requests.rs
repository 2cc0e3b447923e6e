//! What partitions of this node ask of the rest of it: to be fetched for, and other in-sync sets.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use broker::replication::PartitionKey;
use parking_lot::Mutex;
use replica::{AlterIsr, Lane};
use tokio::sync::Notify;

/// Rung for partitions of which a leader may be asked something else now.
#[derive(Default)]
pub(crate) struct FetchBell {
    keys: Mutex<BTreeSet<PartitionKey>>,
    ringing: Notify,
    /// Whether one of them is new to the leader: what it is asked already must not hold that up.
    is_urgent: AtomicBool,
    hurrying: Notify,
}

impl FetchBell {
    /// Has a partition looked at.
    pub(crate) fn ring(&self, key: PartitionKey) {
        self.keys.lock().insert(key);
        self.ringing.notify_one();
    }

    /// Has a partition looked at of which the leader was not asked yet.
    pub(crate) fn ring_urgently(&self, key: PartitionKey) {
        self.ring(key);
        self.is_urgent.store(true, Ordering::Release);
        self.hurrying.notify_one();
    }

    /// Waits until there is a partition to look at of which the leader was not asked yet.
    pub(crate) async fn hurried(&self) {
        while !self.is_urgent.load(Ordering::Acquire) {
            self.hurrying.notified().await;
        }
    }

    /// The partitions for which it rang since the last call.
    pub(crate) fn take(&self) -> BTreeSet<PartitionKey> {
        self.is_urgent.store(false, Ordering::Release);
        std::mem::take(&mut *self.keys.lock())
    }

    /// Waits until it rings. May be early, never late.
    pub(crate) async fn rung(&self) {
        self.ringing.notified().await;
    }
}

/// The bells of those who ask one leader, one of each lane.
#[derive(Default)]
pub(crate) struct LeaderBells {
    keeping_up: FetchBell,
    catching_up: FetchBell,
}

impl LeaderBells {
    pub(crate) fn of(&self, lane: Lane) -> &FetchBell {
        match lane {
            Lane::KeepingUp => &self.keeping_up,
            Lane::CatchingUp => &self.catching_up,
        }
    }

    /// Has a partition looked at in both lanes.
    pub(crate) fn ring_all(&self, key: PartitionKey) {
        Lane::ALL.into_iter().for_each(|lane| self.of(lane).ring(key));
    }
}

/// In-sync sets that leaders of this broker ask for.
#[derive(Default)]
pub(crate) struct Outbox {
    proposals: Mutex<Vec<(PartitionKey, AlterIsr)>>,
    told: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Outbox {
    /// Who is told that something is in it. Set once, at start.
    pub(crate) fn when_proposed(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _ = self.told.set(Box::new(tell));
    }

    /// A leader asks. There is one proposal of each partition under way, so there are no more than partitions.
    pub(crate) fn propose(&self, key: PartitionKey, proposal: AlterIsr) {
        self.proposals.lock().push((key, proposal));
        if let Some(tell) = self.told.get() {
            tell();
        }
    }

    /// What was asked for since the last call.
    pub(crate) fn take(&self) -> Vec<(PartitionKey, AlterIsr)> {
        std::mem::take(&mut *self.proposals.lock())
    }
}
