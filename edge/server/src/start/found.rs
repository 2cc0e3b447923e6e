//! Before anything is served: the directories are this process's, it is known which cluster they belong to, and
//! with which of them each node votes that founds it.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use base::Uuid;
use metadata::settings::{BrokerSettings, ClusterAddress};
use net::{IoThreads, Listener, ListenerLimits, StopSwitch};
use quorum::Voter;
use telemetry::Metrics;
use tracing::warn;

use super::{registration, resolve};
use crate::cluster::founding::{self, Agreed, Founding};
use crate::cluster::identity::Identity;
use crate::cluster::joining::{self, JoinError};
use crate::cluster_service::{self, ClusterService};
use crate::directories::{Directories, Locked};
use crate::error::ServerError;
use crate::random::random;

/// A node that has its directories to itself and knows its cluster.
pub(crate) struct Founded {
    /// With `cluster.join`, if it joins one although it was to found it.
    pub(crate) settings: BrokerSettings,
    pub(crate) directories: Directories,
    pub(crate) cluster_id: String,
    pub(crate) cluster: Option<ClusterListener>,
    pub(crate) identity: Arc<Identity>,
    /// Itself as a voter.
    pub(crate) me: Voter,
    /// Whether its log names it a member of the quorum; `None` without a log.
    pub(crate) is_member: Option<bool>,
    /// Who votes first, should there be no log.
    pub(crate) founders: Vec<Voter>,
}

/// The listener for nodes, which answers who this one is from the beginning.
pub(crate) struct ClusterListener {
    pub(crate) service: Arc<OnceLock<ClusterService>>,
    pub(crate) stop: StopSwitch,
    pub(crate) task: tokio::task::JoinHandle<()>,
}

/// Finds out which cluster the directories belong to, and who founds it; waits for the other nodes if that takes
/// them.
pub(crate) async fn found(
    mut settings: BrokerSettings,
    metrics: Arc<Metrics>,
) -> Result<Founded, ServerError> {
    let began = Instant::now();
    let locked = Locked::lock(&settings).map_err(Box::new)?;
    let mut identity = Identity::new(settings.node_id, locked.cluster_id.clone());
    identity.is_broker = settings.roles.broker;
    let identity = Arc::new(identity);
    let cluster = match &settings.cluster_listen {
        Some(at) => Some(listen_to_nodes(at, &identity)?),
        None => None,
    };
    if locked.has_joined && cluster.is_none() {
        warn!(
            "this node has joined a cluster, and does not listen to its nodes: set cluster.listen, unless it is alone by now"
        );
    }
    let joins = !settings.cluster_join.is_empty();
    if locked.is_joining && !joins {
        join_peers(&mut settings);
    }
    let mut made_it_up = false;
    let cluster_id = match &locked.cluster_id {
        Some(id) => {
            match joining::check(&identity, &settings).await {
                Err(why) if locked.has_joined => warn!(
                    %why,
                    "cluster.join is passed over: this node has joined its cluster before, and knows its nodes by itself"
                ),
                checked => checked?,
            }
            id.clone()
        }
        None if joins => joining::find(&identity, &settings).await?,
        None if !settings.roles.controller => {
            let why = "process.roles is broker, and this node has no data: name nodes of its cluster in cluster.join";
            return Err(JoinError(why.to_owned()).into());
        }
        None if settings.cluster_peers.len() > 1 => {
            match founding::agree(&identity, &settings.cluster_peers).await? {
                Agreed::Founds(cluster) => {
                    made_it_up = true;
                    cluster
                }
                Agreed::Votes(cluster) => cluster,
                Agreed::LostItsDisk(cluster) => {
                    join_peers(&mut settings);
                    cluster
                }
            }
        }
        None => Uuid::from_random(random()).to_string(),
    };
    let directories = Directories::open(locked, &cluster_id, &settings, &metrics).map_err(Box::new)?;
    let home = &directories.all[directories.home].dir;
    identity.open_in(home.id);
    identity.join(&cluster_id);
    let me = registration::voter(&settings, home, cluster.as_ref().and(settings.cluster_address()));
    let is_member = quorum::is_member(Arc::clone(&home.disk), Path::new(""), &me).map_err(Box::new)?;
    let joins = !settings.cluster_join.is_empty() || home.marks.lock().properties().joins;
    let is_founder = is_member.is_none() && settings.roles.controller && !joins;
    let founding =
        Founding { identity: &identity, peers: &settings.cluster_peers, me: &me, made_it_up, began };
    let founders = if is_founder { founding.first_voters().await? } else { Vec::new() };
    Ok(Founded { settings, directories, cluster_id, cluster, identity, me, is_member, founders })
}

/// The others of `cluster.peers` are whom this node joins: with the disk that it voted with went how it voted, so it
/// must not found the cluster with them.
fn join_peers(settings: &mut BrokerSettings) {
    let others = settings.cluster_peers.iter().filter(|peer| peer.id != settings.node_id);
    settings.cluster_join = others.map(|peer| peer.address.clone()).collect();
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
