//! Several brokers that are one cluster, each of them a controller, too.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use super::{
    Broker, CONTROLLER_ABOVE, Side, Site, data, down, free_addresses, next_number, signal, up, words,
};
use crate::bench::requests::{PATIENCE, await_brokers};
use crate::bench::wire::Asker;

/// How many brokers a cluster has, and each of its partitions replicas.
pub(in crate::bench) const NODES: u16 = 3;

/// A cluster with its data.
pub(in crate::bench) struct Cluster<'a> {
    site: &'a Site,
    side: Side,
    home: PathBuf,
    /// Those that Kafka's script started, for as long as they are known to be there.
    group: Option<u32>,
    /// Its brokers, by their numbers.
    pub(in crate::bench) brokers: Vec<Broker<'a>>,
}

impl<'a> Cluster<'a> {
    /// Starts one without data and waits until all of it knows all of it.
    pub(in crate::bench) fn start(site: &'a Site, side: Side) -> Result<Self> {
        let addresses = free_addresses(NODES)?;
        let cluster = match side {
            Side::Vltava(policy) => Self::start_ours(site, policy, &addresses)?,
            Side::Kafka => Self::start_kafka(site, &addresses)?,
        };
        for broker in &cluster.brokers {
            let (mut asker, _) = broker.answers(Instant::now())?;
            await_brokers(&mut asker, NODES.into())?;
        }
        Ok(cluster)
    }

    fn start_ours(site: &'a Site, policy: &'static str, addresses: &[SocketAddr]) -> Result<Self> {
        let home = site.dir.join(format!("vltava-{}", next_number()));
        std::fs::create_dir(&home)?;
        let side = Side::Vltava(policy);
        let peer = |(index, address): (usize, &SocketAddr)| {
            format!("{}@{}:{}", index + 1, address.ip(), address.port() + CONTROLLER_ABOVE)
        };
        let peers: Vec<String> = addresses.iter().enumerate().map(peer).collect();
        let peers = format!("cluster.peers={}", peers.join(","));
        let mut cluster = Self { site, side, home, group: None, brokers: Vec::new() };
        for (number, address) in (1..).zip(addresses) {
            let settings = [format!("flush.policy={policy}"), format!("node.id={number}"), peers.clone()];
            let home = cluster.home.clone();
            let words = words(site, &data(&home, number), *address, &settings);
            cluster.brokers.push(Broker::spawned(site, (side, number), home, words, *address)?);
        }
        Ok(cluster)
    }

    fn start_kafka(site: &'a Site, addresses: &[SocketAddr]) -> Result<Self> {
        let home = site.dir.join(format!("kafka-{}", next_number()));
        let group = Some(up(site, &home, addresses[0], addresses.len())?);
        let mut cluster = Self { site, side: Side::Kafka, home, group, brokers: Vec::new() };
        for (number, address) in (1..).zip(addresses) {
            cluster.brokers.push(Broker::theirs(site, cluster.home.clone(), number, *address)?);
        }
        Ok(cluster)
    }

    /// Where clients begin.
    pub(in crate::bench) fn address(&self) -> SocketAddr {
        self.brokers[0].address
    }

    /// Its processes.
    pub(in crate::bench) fn pids(&self) -> Vec<u32> {
        self.brokers.iter().map(Broker::pid).collect()
    }

    /// A connection to each of its brokers.
    pub(in crate::bench) fn askers(&self) -> Result<Vec<Asker>> {
        self.brokers.iter().map(|broker| Asker::connect(broker.address, PATIENCE)).collect()
    }

    /// Stops it and removes what it wrote.
    pub(in crate::bench) fn remove(mut self) -> Result<()> {
        if self.side == Side::Kafka {
            down(self.site, &self.home)?;
            self.group.take().map_or(Ok(()), |group| self.site.leftovers.ended(group))?;
        } else {
            // As Kafka's script ends Kafka: all at once.
            for pid in self.pids() {
                signal("TERM", &pid.to_string());
            }
        }
        self.brokers.iter_mut().try_for_each(Broker::await_end)?;
        self.brokers[0].remove_data()?;
        self.brokers.iter_mut().for_each(|broker| broker.removed = true);
        Ok(())
    }
}
