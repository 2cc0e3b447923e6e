//! Who is in the cluster.

use base::BrokerId;
use wire::messages::describe_cluster::DescribeClusterRequest;

use super::Admin;
use crate::error::ClientError;

/// A broker and where clients reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    /// Its number.
    pub id: BrokerId,
    /// The host it advertises.
    pub host: String,
    /// The port it advertises.
    pub port: i32,
    /// The rack it says it is in.
    pub rack: Option<String>,
}

impl BrokerAddress {
    /// Host and port, as they are connected to.
    pub fn address(&self) -> String {
        if self.host.contains(':') {
            return format!("[{}]:{}", self.host, self.port);
        }
        format!("{}:{}", self.host, self.port)
    }
}

/// A cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Its id.
    pub id: String,
    /// The broker that takes commands; `None` while there is none.
    pub controller: Option<BrokerId>,
    /// Its brokers, by number.
    pub brokers: Vec<BrokerAddress>,
}

impl Admin {
    /// Describes the cluster.
    pub fn describe_cluster(&mut self) -> Result<ClusterDescription, ClientError> {
        let answer = self.bootstrap.ask(&DescribeClusterRequest::default())?;
        let cluster = answer.read()?;
        ClientError::check(|| "the cluster".to_owned(), cluster.error_code, cluster.error_message)?;
        let mut brokers: Vec<BrokerAddress> = cluster
            .brokers
            .iter()
            .map(|broker| BrokerAddress {
                id: BrokerId(broker.broker_id),
                host: broker.host.to_owned(),
                port: broker.port,
                rack: broker.rack.map(str::to_owned),
            })
            .collect();
        brokers.sort_by_key(|broker| broker.id);
        let controller = (cluster.controller_id >= 0).then_some(BrokerId(cluster.controller_id));
        Ok(ClusterDescription { id: cluster.cluster_id.to_owned(), controller, brokers })
    }
}
