//! Which nodes there are, on which ports, with which settings.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// So many processes fit a machine on which things are tried.
pub(super) const NODES_MAX: i64 = 16;
/// From a node's port to that of its health and metrics: 9092 has 9644, as a single node has it.
const HTTP_ABOVE: u16 = 552;
/// From a node's port to the one on which nodes speak to each other.
const CLUSTER_ABOVE: u16 = 10_000;
/// The last port of the last node is a port.
pub(super) const PORT_MAX: i64 = 65_536 - CLUSTER_ABOVE as i64 - NODES_MAX;

/// What is different on each node: nobody can set it for all.
const CHOSEN: [&str; 8] = [
    "node.id",
    "broker.id",
    "cluster.peers",
    "cluster.listen",
    "listeners",
    "http.listen",
    "log.dirs",
    "log.dir",
];

/// A cluster on loopback.
pub(super) struct Plan {
    nodes: u16,
    port: u16,
    settings: Vec<(String, String)>,
    place: PathBuf,
}

/// How one node is started.
pub(super) struct Setup {
    pub(super) id: u16,
    pub(super) address: String,
    pub(super) http_address: String,
    pub(super) data_dir: PathBuf,
    pub(super) log: PathBuf,
    pub(super) settings: Vec<(String, String)>,
}

impl Plan {
    /// Fails if a setting is not for all nodes, or somebody has one of the ports.
    pub(super) fn new(nodes: u16, port: u16, settings: Vec<(String, String)>, place: &Path) -> Result<Self> {
        if let Some((name, _)) = settings.iter().find(|(name, _)| CHOSEN.contains(&name.as_str())) {
            bail!(
                "{name} is another on each node: `vltava dev` chooses it. --nodes, --port and --data-dir have a say in it"
            );
        }
        let plan = Self { nodes, port, settings, place: place.to_owned() };
        for at in 0..nodes {
            for port in [port, port + HTTP_ABOVE, port + CLUSTER_ABOVE] {
                let port = port + at;
                TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| {
                    format!("cannot listen on 127.0.0.1:{port}: choose other ports with --port")
                })?;
            }
        }
        Ok(plan)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = Setup> + '_ {
        (0..self.nodes).map(|at| self.node(at))
    }

    fn node(&self, at: u16) -> Setup {
        let id = at + 1;
        let mut settings = vec![("node.id".to_owned(), id.to_string())];
        // A node alone needs no peers, and is then what `vltava server` starts.
        if self.nodes > 1 {
            let peer = |at| format!("{}@{}", at + 1, loopback(self.port + CLUSTER_ABOVE + at));
            let peers: Vec<String> = (0..self.nodes).map(peer).collect();
            settings.push(("cluster.peers".to_owned(), peers.join(",")));
        }
        settings.extend(self.settings.iter().cloned());
        Setup {
            id,
            address: loopback(self.port + at),
            http_address: loopback(self.port + HTTP_ABOVE + at),
            data_dir: self.place.join(format!("node-{id}")),
            log: self.place.join(format!("node-{id}.log")),
            settings,
        }
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn place(&self) -> &Path {
        &self.place
    }

    pub(super) fn first(&self) -> String {
        loopback(self.port)
    }

    pub(super) fn console(&self) -> String {
        format!("http://{}", loopback(self.port + HTTP_ABOVE))
    }

    pub(super) fn bootstrap_servers(&self) -> String {
        let addresses: Vec<String> = (0..self.nodes).map(|at| loopback(self.port + at)).collect();
        addresses.join(",")
    }
}

fn loopback(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(nodes: u16, port: u16) -> Plan {
        Plan { nodes, port, settings: vec![("a".to_owned(), "b".to_owned())], place: "/p".into() }
    }

    #[test]
    fn each_node_has_its_ports_and_all_have_the_same_peers() {
        let plan = plan(3, 9092);
        assert_eq!(plan.bootstrap_servers(), "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094");
        let last = plan.nodes().last().expect("there are three");
        assert_eq!((last.id, &*last.address, &*last.http_address), (3, "127.0.0.1:9094", "127.0.0.1:9646"));
        let peers = "1@127.0.0.1:19092,2@127.0.0.1:19093,3@127.0.0.1:19094";
        let settings: Vec<(&str, &str)> =
            last.settings.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(settings, [("node.id", "3"), ("cluster.peers", peers), ("a", "b")]);
    }

    #[test]
    fn the_highest_port_is_one() {
        let port = u16::try_from(PORT_MAX).expect("it is a port");
        let last = plan(16, port).nodes().last().expect("there are sixteen");
        let (_, peers) = &last.settings[1];
        assert!(peers.ends_with("@127.0.0.1:65535"), "{peers}");
    }

    #[test]
    fn what_is_another_on_each_node_is_not_set_for_all() {
        let settings = vec![("node.id".to_owned(), "3".to_owned())];
        let said = Plan::new(3, 9092, settings, Path::new("/p")).err().map(|error| error.to_string());
        assert!(said.is_some_and(|said| said.starts_with("node.id is another on each node")));
    }

    #[test]
    fn a_port_that_somebody_has_is_named() {
        let (taken, port) = (1..u16::MAX)
            .find_map(|_| {
                let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
                let port = taken.local_addr().ok()?.port();
                (i64::from(port) <= PORT_MAX).then_some((taken, port))
            })
            .expect("some port is low enough");
        let said = Plan::new(1, port, Vec::new(), Path::new("/p")).err().map(|error| error.to_string());
        assert_eq!(said, Some(format!("cannot listen on 127.0.0.1:{port}: choose other ports with --port")));
        drop(taken);
    }
}
