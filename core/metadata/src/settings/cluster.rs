//! Who belongs to the cluster, and what each does in it, as the settings write it.

use std::fmt;

use base::BrokerId;

/// The setting that says what a node is for.
pub(super) const ROLES: &str = "process.roles";

/// Where nodes of the cluster reach one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterAddress {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A node that votes when the cluster begins: `1@10.0.0.1:19092`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterPeer {
    /// Its `node.id`.
    pub id: BrokerId,
    /// Where the others reach it.
    pub address: ClusterAddress,
}

/// What a node does in its cluster: `process.roles`. At least one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// It has partitions, and serves clients.
    pub broker: bool,
    /// It votes on the metadata, or may be asked to.
    pub controller: bool,
}

impl Roles {
    pub(super) const NAMES: [&'static str; 2] = ["broker", "controller"];

    /// Reads `broker`, `controller`, or both.
    pub(super) fn parse(parts: &[String]) -> Result<Self, String> {
        let has = |name: &str| parts.iter().any(|part| part == name);
        let roles = Self { broker: has("broker"), controller: has("controller") };
        match roles {
            Self { broker: false, controller: false } => {
                Err("a node is a broker, a controller, or both".into())
            }
            _ => Ok(roles),
        }
    }
}

/// An example, for those who wrote something else.
const EXAMPLE: &str = "1@10.0.0.1:19092,2@10.0.0.2:19092,3@10.0.0.3:19092";

impl ClusterAddress {
    /// Reads `host:port`, or `[host]:port`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not host:port, as 10.0.0.1:19092");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(wrong)?,
            None if host.contains(':') || host.is_empty() => return Err(wrong()),
            None => host,
        };
        let port = port.trim().parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        Ok(Self { host: host.to_owned(), port })
    }

    /// Whether only this machine reaches it.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        address.map_or_else(|_| self.host == "localhost", |address| address.is_loopback())
    }

    /// Whether it is every address of a machine, which is one to listen on and none to connect to.
    pub fn is_unspecified(&self) -> bool {
        self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_unspecified())
    }
}

impl fmt::Display for ClusterAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for ClusterPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.id, self.address)
    }
}

/// Reads a list of addresses.
pub(super) fn parse_addresses(parts: &[String]) -> Result<Vec<ClusterAddress>, String> {
    parts.iter().map(|part| ClusterAddress::parse(part)).collect()
}

/// Reads a list of peers, each with an id and an address of its own.
pub(super) fn parse_peers(parts: &[String]) -> Result<Vec<ClusterPeer>, String> {
    let mut peers: Vec<ClusterPeer> = Vec::new();
    for part in parts {
        let (id, address) =
            part.split_once('@').ok_or_else(|| format!("{part} is not id@host:port, as {EXAMPLE}"))?;
        let id = id.trim().parse().ok().filter(|id| *id >= 0);
        let id =
            id.map(BrokerId).ok_or_else(|| format!("{part} does not begin with a node.id, as {EXAMPLE}"))?;
        let address = ClusterAddress::parse(address.trim())?;
        if peers.iter().any(|peer| peer.id == id) {
            return Err(format!("node {id} is named twice"));
        }
        if let Some(other) = peers.iter().find(|peer| peer.address == address) {
            return Err(format!("nodes {} and {id} cannot both listen on {address}", other.id));
        }
        peers.push(ClusterPeer { id, address });
    }
    peers.sort_by_key(|peer| peer.id);
    Ok(peers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<ClusterPeer>, String> {
        parse_peers(&text.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn peers_are_read_in_any_order() {
        let peers = parse("3@c:3,1@10.0.0.1:19092,2@[::1]:2").unwrap();
        let told: Vec<String> = peers.iter().map(|peer| format!("{}={}", peer.id, peer.address)).collect();
        assert_eq!(told, ["1=10.0.0.1:19092", "2=[::1]:2", "3=c:3"]);
        assert_eq!(
            peers.iter().map(|peer| peer.address.is_loopback()).collect::<Vec<_>>(),
            [false, true, false]
        );
    }

    #[test]
    fn what_is_wrong_with_them_is_said() {
        for (text, why) in [
            ("10.0.0.1:19092", "is not id@host:port"),
            ("a@b:1", "does not begin with a node.id"),
            ("-1@b:1", "does not begin with a node.id"),
            ("1@b", "b is not host:port"),
            ("1@b:0", "b:0 is not host:port"),
            ("1@b:1,1@c:1", "node 1 is named twice"),
            ("1@b:1,2@b:1", "nodes 1 and 2 cannot both listen on b:1"),
        ] {
            let told = parse(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}
