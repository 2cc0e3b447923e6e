//! Topics, settings, offsets and the cluster, for tools.
//!
//! Everything goes to the broker that the client connected to, except what only a partition's leader
//! knows. Brokers pass on what their controller decides.

mod cluster;
mod configs;
mod describe;
mod offsets;
mod topics;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use base::BrokerId;

use crate::connection::{ConnectOptions, Connection};
use crate::error::ClientError;

pub use cluster::{BrokerAddress, ClusterDescription};
pub use configs::{ConfigChange, ConfigSource, Resource, Setting};
pub use describe::{Partition, Topic};
pub use offsets::At;
pub use topics::{CreatedTopic, NewTopic};

/// A client that manages a cluster.
#[derive(Debug)]
pub struct Admin {
    bootstrap: Connection,
    options: ConnectOptions,
    /// Connections to brokers that lead something that was asked about.
    leaders: BTreeMap<BrokerId, Connection>,
}

impl Admin {
    /// Connects to the first of some brokers (`host:port`, between commas) that answers.
    pub fn connect(bootstrap_servers: &str, options: ConnectOptions) -> Result<Self, ClientError> {
        let mut last = ClientError::Missing("a broker to connect to".to_owned());
        for address in bootstrap_servers.split(',').map(str::trim).filter(|address| !address.is_empty()) {
            match Connection::connect(address, options.clone()) {
                Ok(bootstrap) => return Ok(Self { bootstrap, options, leaders: BTreeMap::new() }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// How long the cluster may take over what it is asked, before it answers that it took too long: as
    /// long as the answer is waited for.
    fn timeout_ms(&self) -> i32 {
        i32::try_from(self.options.timeout.as_millis()).unwrap_or(i32::MAX)
    }

    /// The connection that answers most requests.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.bootstrap
    }

    /// The connection to a broker, made when it is first needed.
    fn leader(&mut self, id: BrokerId, brokers: &[BrokerAddress]) -> Result<&mut Connection, ClientError> {
        match self.leaders.entry(id) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let broker = brokers.iter().find(|broker| broker.id == id);
                let broker =
                    broker.ok_or_else(|| ClientError::Missing(format!("the address of broker {id}")))?;
                let connection = Connection::connect(&broker.address(), self.options.clone())?;
                Ok(place.insert(connection))
            }
        }
    }
}
