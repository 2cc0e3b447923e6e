//! Before anything is opened: the directories are this process's, and it is known which cluster they
//! belong to.

use std::sync::{Arc, OnceLock};

use base::Uuid;
use metadata::settings::{BrokerSettings, ClusterAddress};
use net::{IoThreads, Listener, ListenerLimits, StopSwitch};
use tracing::warn;

use super::resolve;
use crate::cluster::founding;
use crate::cluster::identity::Identity;
use crate::cluster::joining::{self, JoinError};
use crate::cluster_service::{self, ClusterService};
use crate::directories::Locked;
use crate::error::ServerError;
use crate::random::random;

/// A node that has its directories to itself and knows its cluster.
pub(crate) struct Founded {
    pub(crate) locked: Locked,
    pub(crate) cluster_id: String,
    pub(crate) cluster: Option<ClusterListener>,
    pub(crate) identity: Arc<Identity>,
}

/// The listener for nodes, which answers who this one is from the beginning.
pub(crate) struct ClusterListener {
    pub(crate) service: Arc<OnceLock<ClusterService>>,
    pub(crate) stop: StopSwitch,
    pub(crate) task: tokio::task::JoinHandle<()>,
}

/// Finds out which cluster the directories belong to; waits for the other nodes if that takes them.
pub(crate) async fn found(settings: &BrokerSettings) -> Result<Founded, ServerError> {
    let locked = Locked::lock(settings).map_err(Box::new)?;
    let identity = Arc::new(Identity::new(settings.node_id, locked.cluster_id.clone()));
    let cluster = match &settings.cluster_listen {
        Some(at) => Some(listen_to_nodes(at, &identity)?),
        None => None,
    };
    let joins = !settings.cluster_join.is_empty();
    let cluster_id = match &locked.cluster_id {
        Some(id) => {
            joining::check(&identity, settings).await?;
            id.clone()
        }
        None if joins => joining::find(&identity, settings).await?,
        None if !settings.roles.controller => {
            let why = "process.roles is broker, and this node has no data: name nodes of its cluster in cluster.join";
            return Err(JoinError(why.to_owned()).into());
        }
        None if settings.cluster_peers.len() > 1 => founding::agree(&identity, &settings.cluster_peers).await,
        None => Uuid::from_random(random()).to_string(),
    };
    Ok(Founded { locked, cluster_id, cluster, identity })
}

fn listen_to_nodes(at: &ClusterAddress, identity: &Arc<Identity>) -> Result<ClusterListener, ServerError> {
    let bound = resolve(&at.host, at.port)?;
    if !bound.ip().is_loopback() {
        warn!(address = %bound, "nodes speak with each other without encryption: keep this network to them");
    }
    let limits = ListenerLimits { connections_per_ip_max: usize::MAX, ..ListenerLimits::default() };
    let listener = Listener::bind(bound, ListenerLimits { accepts_per_ip_per_second: 0, ..limits });
    let listener = listener.map_err(|why| {
        ServerError::Listener(format!(
            "{why}; other nodes connect there: stop the program that uses the address, or choose another one with \
             cluster.peers or cluster.listen"
        ))
    })?;
    // The quorum must not wait for records: it has a thread of its own.
    let io = Arc::new(IoThreads::start(1)?);
    let service = Arc::new(OnceLock::new());
    let stop = StopSwitch::new();
    let (known, watch, identity) = (Arc::clone(&service), stop.watch(), Arc::clone(identity));
    let task = tokio::spawn(listener.serve(io, stop.watch(), move |connection| {
        cluster_service::serve(Arc::clone(&identity), Arc::clone(&known), connection, watch.clone())
    }));
    Ok(ClusterListener { service, stop, task })
}
