//! What a cluster says of itself, put together: brokers, what is on their disks, partitions.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use base::BrokerId;
use client::Admin;
use client::admin::{AdminError, ClusterDescription, Topic};
use client::plan::{Node, Placed};

/// See the module.
pub(in crate::cmd) struct Survey {
    pub(super) cluster: ClusterDescription,
    pub(super) topics: Vec<Topic>,
    pub(super) disks: BTreeMap<BrokerId, Disks>,
    /// Brokers that did not say what is on their disks.
    pub(super) failures: BTreeMap<BrokerId, AdminError>,
}

/// What a broker has on its disks.
#[derive(Default)]
pub(super) struct Disks {
    /// Bytes of its replicas, by topic and partition.
    pub(super) replicas: BTreeMap<(String, i32), u64>,
    /// Free bytes of all its directories, if it says so.
    pub(super) usable_bytes: Option<u64>,
    pub(super) failed_dirs: usize,
    /// Whether it gets no new replicas.
    pub(super) is_cordoned: bool,
}

impl Disks {
    pub(super) fn bytes(&self) -> u64 {
        self.replicas.values().sum()
    }
}

impl Survey {
    /// Asks who is there, and each broker that is up what it has.
    pub(in crate::cmd) fn take(admin: &Admin) -> Result<Self> {
        Self::take_soon(admin, admin.timeout())
    }

    /// [`Survey::take`]; a broker that does not say what it has is waited for so long at most.
    pub(super) fn take_soon(admin: &Admin, disks_max: Duration) -> Result<Self> {
        let cluster = admin.describe_cluster().wait()?;
        let topics = admin.list_topics().wait()?;
        let up: Vec<BrokerId> =
            cluster.brokers.iter().filter(|broker| !broker.is_fenced).map(|broker| broker.id).collect();
        let (disks, failures) = disks(&admin.within(disks_max.min(admin.timeout())), &up);
        Ok(Self { cluster, topics, disks, failures })
    }

    /// The brokers, as plans know them. Who did not say what is on its disks gets nothing, nor who is drained.
    pub(in crate::cmd) fn nodes(&self) -> Vec<Node> {
        let node = |broker: &client::admin::Broker| {
            let disks = self.disks.get(&broker.id);
            Node {
                id: broker.id,
                rack: broker.rack.clone(),
                is_up: !broker.is_fenced && disks.is_some_and(|disks| !disks.is_cordoned),
                bytes_usable: disks.and_then(|disks| disks.usable_bytes),
            }
        };
        self.cluster.brokers.iter().map(node).collect()
    }

    /// Whether a broker is drained: it gets no new replicas.
    pub(super) fn is_cordoned(&self, id: BrokerId) -> bool {
        self.disks.get(&id).is_some_and(|disks| disks.is_cordoned)
    }

    /// The partitions, as plans know them: as large as their largest replica.
    pub(in crate::cmd) fn placed(&self) -> Vec<Placed> {
        let of = |topic: &Topic| {
            let name = topic.name.clone();
            let place = move |partition: &client::admin::Partition| {
                let key = (name.clone(), partition.index.0);
                let sizes = partition.replicas.iter().filter_map(|id| self.disks.get(id)?.replicas.get(&key));
                let bytes = sizes.copied().max().unwrap_or(0);
                let (topic, replicas) = (key.0, partition.replicas.clone());
                Placed { topic, partition: partition.index, replicas, bytes }
            };
            topic.partitions.iter().map(place).collect::<Vec<_>>()
        };
        self.topics.iter().flat_map(of).collect()
    }
}

/// What these brokers have, of those that say so.
pub(super) fn disks(
    admin: &Admin,
    brokers: &[BrokerId],
) -> (BTreeMap<BrokerId, Disks>, BTreeMap<BrokerId, AdminError>) {
    let (mut found, mut failures) = (BTreeMap::new(), BTreeMap::new());
    for (id, said) in brokers.iter().zip(admin.describe_log_dirs(brokers.iter().copied()).wait()) {
        let dirs = match said {
            Ok(dirs) => dirs,
            Err(error) => {
                failures.insert(*id, error);
                continue;
            }
        };
        let mut disks = Disks::default();
        for dir in &dirs {
            disks.failed_dirs += usize::from(dir.error.is_some());
            disks.is_cordoned |= dir.is_cordoned;
            let usable = dir.usable_bytes.filter(|_| dir.error.is_none());
            disks.usable_bytes = disks.usable_bytes.into_iter().chain(usable).reduce(u64::saturating_add);
            let replicas = dir.replicas.iter().filter(|replica| !replica.is_future);
            disks.replicas.extend(replicas.map(|it| ((it.topic.clone(), it.partition.0), it.bytes)));
        }
        found.insert(*id, disks);
    }
    (found, failures)
}

/// Numbers of brokers between commas.
pub(super) fn ids(ids: &[BrokerId]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
