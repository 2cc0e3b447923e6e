//! How this node introduces itself: to the controller as a broker, to the quorum as a voter.

use std::net::SocketAddr;
use std::sync::Arc;

use base::Uuid;
use controller::RegisterBroker;
use metadata::Endpoint;
use metadata::settings::{BrokerSettings, ClusterPeer, SecurityProtocol};
use quorum::{Member, MemberStart, SnapshotEvery, Timing, Voter};

use super::found::ClusterListener;
use crate::cluster::links::Links;
use crate::cluster::network::QuorumNetwork;
use crate::control::{Control, News};
use crate::directories::Directories;
use crate::error::ServerError;
use crate::log_dir::LogDirectory;
use crate::random::random;

/// How this broker introduces itself to the controller.
pub(crate) fn of(
    settings: &BrokerSettings,
    cluster_id: &str,
    directories: &Directories,
    bound: SocketAddr,
    cluster: Option<&ClusterListener>,
) -> RegisterBroker {
    let (after_crash, previous_epoch, in_doubt) = directories.last_stop();
    let cluster_address = cluster.and(settings.cluster_listen.as_ref()).map(|at| Endpoint {
        listener: Endpoint::CLUSTER.to_owned(),
        host: at.host.clone(),
        port: at.port,
        security_protocol: SecurityProtocol::Plaintext.code(),
    });
    RegisterBroker {
        id: settings.node_id,
        incarnation: Uuid::from_random(random()),
        cluster_id: cluster_id.to_owned(),
        endpoints: endpoints(settings, bound),
        cluster_address,
        features: Vec::new(),
        rack: settings.rack.clone(),
        log_dirs: directories.all.iter().map(|directory| directory.dir.id).collect(),
        after_crash,
        previous_epoch,
        in_doubt,
        is_voter: true,
    }
}

/// Where clients are told to connect.
fn endpoints(settings: &BrokerSettings, bound: SocketAddr) -> Vec<Endpoint> {
    let listeners = settings.advertised_listeners().iter();
    listeners
        .map(|listener| Endpoint {
            listener: listener.name.clone(),
            host: match listener.host.as_str() {
                "" | "0.0.0.0" | "::" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
                host => host.to_owned(),
            },
            port: if listener.port == 0 { bound.port() } else { listener.port },
            security_protocol: listener.protocol.code(),
        })
        .collect()
}

/// This node as a voter.
pub(crate) fn voter(
    settings: &BrokerSettings,
    home: &LogDirectory,
    listener: Option<&ClusterListener>,
) -> Voter {
    let address = listener.map_or_else(String::new, |listener| listener.address.clone());
    Voter { id: settings.node_id, address, directory: home.id }
}

/// Opens the metadata log of this node, and has it take its place among the others.
pub(crate) fn join_quorum(
    settings: &BrokerSettings,
    cluster_id: &str,
    (home, me): (&Arc<LogDirectory>, Voter),
    cluster: &tokio::runtime::Handle,
    links: &Arc<Links>,
    control: &Control,
) -> Result<Arc<Member>, ServerError> {
    let voter = |peer: &ClusterPeer| Voter {
        id: peer.id,
        address: peer.address.to_string(),
        directory: if peer.id == settings.node_id { home.id } else { Uuid::ZERO },
    };
    let voters: Vec<Voter> = match settings.cluster_peers.as_slice() {
        [] => vec![me.clone()],
        peers => peers.iter().map(voter).collect(),
    };
    let news = control.clone();
    let start = MemberStart {
        disk: Arc::clone(&home.disk),
        log_dir: std::path::PathBuf::new(),
        me,
        cluster_id: cluster_id.to_owned(),
        voters,
        network: Arc::new(QuorumNetwork(Arc::clone(links))),
        timing: Timing::default(),
        snapshot_every: SnapshotEvery::default(),
        tell: Box::new(move |event| news.tell(News::Quorum(event))),
    };
    // Within another runtime nothing can be waited for.
    let member = std::thread::scope(|scope| scope.spawn(|| cluster.block_on(Member::start(start))).join());
    let member = member.map_err(|_| ServerError::Control("the metadata quorum failed".to_owned()))?;
    let member = Arc::new(member.map_err(Box::new)?);
    // Not to keep the directory of a node that has ended.
    let (watched, home, news) = (Arc::clone(&member), Arc::downgrade(home), control.clone());
    cluster.spawn(async move {
        let why = watched.stopped().await.to_string();
        // If it was the disk, the others are to know before this node ends.
        if let Some(home) = home.upgrade() {
            home.look_at_disk();
        }
        news.tell(News::QuorumFailed(why));
    });
    Ok(member)
}
