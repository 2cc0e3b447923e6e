//! How this node introduces itself: to the controller as a broker, to the quorum as a voter.

use std::net::SocketAddr;

use base::Uuid;
use broker::directories::LastStop;
use controller::RegisterBroker;
use metadata::settings::{BrokerSettings, ClusterAddress, SecurityProtocol};
use metadata::{Endpoint, FEATURES};
use quorum::Voter;

use crate::directories::Directories;
use crate::log_dir::LogDirectory;
use crate::random::random;

/// How this broker introduces itself to the controller.
pub(crate) fn of(
    settings: &BrokerSettings,
    cluster_id: &str,
    directories: &Directories,
    bound: Option<SocketAddr>,
    cluster_at: Option<&ClusterAddress>,
) -> RegisterBroker {
    let LastStop { after_crash, previous_epoch, in_doubt } = directories.last_stop();
    let cluster_address = cluster_at.map(|at| Endpoint {
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
        features: FEATURES.iter().map(|(name, min, max)| ((*name).to_owned(), *min, *max)).collect(),
        rack: settings.rack.clone(),
        log_dirs: directories.all.iter().map(|directory| directory.dir.id).collect(),
        after_crash,
        previous_epoch,
        in_doubt,
        is_voter: settings.roles.controller,
    }
}

/// Where clients are told to connect.
fn endpoints(settings: &BrokerSettings, bound: Option<SocketAddr>) -> Vec<Endpoint> {
    let listeners = settings.advertised_listeners().iter();
    listeners
        .map(|listener| Endpoint {
            listener: listener.name.clone(),
            host: match listener.host.as_str() {
                "" | "0.0.0.0" | "::" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
                host => host.to_owned(),
            },
            port: bound.filter(|_| listener.port == 0).map_or(listener.port, |bound| bound.port()),
            security_protocol: listener.protocol.code(),
        })
        .collect()
}

/// This node as a voter.
pub(crate) fn voter(
    settings: &BrokerSettings,
    home: &LogDirectory,
    cluster_at: Option<&ClusterAddress>,
) -> Voter {
    let address = cluster_at.map(ToString::to_string).unwrap_or_default();
    Voter { id: settings.node_id, address, directory: home.id }
}
