//! DescribeCluster: asked of anyone.

use base::BrokerId;
use wire::messages::describe_cluster::DescribeClusterRequest;

use super::{Ask, Each, How, Name, Refusal, Response, Route};

/// The first version that tells of brokers that are fenced.
const FENCED_VERSION: i16 = 2;

/// A broker and where clients reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Its number.
    pub id: BrokerId,
    /// The host it advertises.
    pub host: String,
    /// The port it advertises.
    pub port: i32,
    /// The rack it says it is in.
    pub rack: Option<String>,
    /// Whether it is down, or not ready yet.
    pub is_fenced: bool,
}

/// A cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Its id.
    pub id: String,
    /// The broker that takes commands; `None` while there is none.
    pub controller: Option<BrokerId>,
    /// Its brokers, by number; from a cluster that does not tell of those that are fenced, those that are up.
    pub brokers: Vec<Broker>,
}

/// Says who is in the cluster.
#[derive(Debug)]
pub struct DescribeCluster;

impl Ask for DescribeCluster {
    type Item = ();
    type Said = ClusterDescription;
    type Request<'a> = DescribeClusterRequest;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, (): &'a ()) -> Name<'a> {
        Name::Whole("the cluster")
    }

    fn route<'a>(&self, (): &'a ()) -> Route<'a> {
        Route::Any
    }

    fn request<'a>(&'a self, _: &[&'a ()], how: &How<'_>) -> DescribeClusterRequest {
        let include_fenced_brokers = how.version >= FENCED_VERSION;
        DescribeClusterRequest { include_fenced_brokers, ..DescribeClusterRequest::default() }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        let cluster = Refusal::check(said.error_code, said.error_message).map(|()| {
            let mut brokers: Vec<Broker> = said
                .brokers
                .iter()
                .map(|broker| Broker {
                    id: BrokerId(broker.broker_id),
                    host: broker.host.to_owned(),
                    port: broker.port,
                    rack: broker.rack.map(str::to_owned),
                    is_fenced: broker.is_fenced,
                })
                .collect();
            brokers.sort_by_key(|broker| broker.id);
            let controller = (said.controller_id >= 0).then_some(BrokerId(said.controller_id));
            ClusterDescription { id: said.cluster_id.to_owned(), controller, brokers }
        });
        each(Name::All, cluster);
        said.throttle_time_ms
    }
}
