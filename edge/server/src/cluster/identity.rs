//! Who this node is to the others, and whom it speaks to.

use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use base::{BrokerId, Uuid};
use quorum::Voter;
use wire::cluster::{Hello, Purpose, Welcome};

/// This node, as it introduces itself.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) node: BrokerId,
    /// Whether it is a broker; else it only votes.
    pub(crate) is_broker: bool,
    /// The id of the directory that has its metadata, once that is open.
    directory: OnceLock<Uuid>,
    cluster_id: ArcSwapOption<String>,
    /// Who is to found the cluster with it, as long as nobody knows with which directories.
    founders: OnceLock<Vec<Voter>>,
}

/// A node that answered a greeting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Met {
    pub(crate) refusal: Option<String>,
    pub(crate) cluster_id: Option<String>,
    pub(crate) node: BrokerId,
    pub(crate) directory: Uuid,
    /// Whether it is a broker; else it only votes.
    pub(crate) is_broker: bool,
    /// Who votes in its cluster.
    pub(crate) voters: Vec<Voter>,
}

/// Why two nodes do not speak to each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(
        "node {node} belongs to cluster {theirs}, this one to {ours}: correct cluster.peers or cluster.join, or give one of them an \
         empty data directory"
    )]
    OtherCluster { node: BrokerId, theirs: String, ours: String },
    #[error("the node at {address} is {met}, not {expected}: correct cluster.peers")]
    OtherNode { address: String, met: BrokerId, expected: BrokerId },
    #[error("node {0} belongs to no cluster yet")]
    NoCluster(BrokerId),
    #[error("another node has the id {0} of this one, too: give each node its own node.id")]
    SameNode(BrokerId),
    #[error(
        "node {met} belongs to cluster {cluster}, in which node {node} has no vote: start node {node} with cluster.join in the \
         place of cluster.peers to have it join that one"
    )]
    NoVote { node: BrokerId, met: BrokerId, cluster: String },
    #[error("node {node} does not speak to this one: {why}")]
    Theirs { node: BrokerId, why: String },
}

impl Identity {
    /// A broker. `cluster_id` is `None` for a node that belongs to none yet.
    pub(crate) fn new(node: BrokerId, cluster_id: Option<String>) -> Self {
        let cluster_id = ArcSwapOption::new(cluster_id.map(Arc::new));
        let (directory, founders) = (OnceLock::new(), OnceLock::new());
        Self { node, is_broker: true, directory, cluster_id, founders }
    }

    /// It founds its cluster with these, and does not know yet with which directories they vote: that tells others
    /// that it has no log which could know more.
    pub(crate) fn founds_with(&self, peers: impl Iterator<Item = (BrokerId, String)>) {
        let unknown = |(id, address)| Voter { id, address, directory: Uuid::ZERO };
        let _ = self.founders.set(peers.map(unknown).collect());
    }

    /// Those it founds its cluster with, if it does; none has a directory.
    pub(crate) fn founders(&self) -> &[Voter] {
        self.founders.get().map_or(&[], Vec::as_slice)
    }

    /// Its directories are open.
    pub(crate) fn open_in(&self, directory: Uuid) {
        let _ = self.directory.set(directory);
    }

    /// [`Uuid::ZERO`] as long as it is not known.
    fn directory(&self) -> Uuid {
        self.directory.get().copied().unwrap_or(Uuid::ZERO)
    }

    /// The cluster it belongs to, if it does.
    pub(crate) fn cluster_id(&self) -> Option<Arc<String>> {
        self.cluster_id.load_full()
    }

    /// It belongs to this cluster from now on.
    pub(crate) fn join(&self, cluster_id: &str) {
        self.cluster_id.store(Some(Arc::new(cluster_id.to_owned())));
    }

    pub(crate) fn hello<'a>(&self, cluster_id: Option<&'a str>, purpose: Purpose) -> Hello<'a> {
        Hello { cluster_id, node: self.node, directory: self.directory(), purpose }
    }

    /// Whether to speak to a node that introduced itself.
    pub(crate) fn check_hello(&self, hello: &Hello<'_>) -> Result<(), Refusal> {
        let is_another = hello.directory != self.directory() && !hello.directory.is_zero();
        if hello.node == self.node && is_another {
            return Err(Refusal::SameNode(hello.node));
        }
        self.check_cluster(hello.node, hello.cluster_id)
    }

    /// Whether the node that answered is the one that was meant.
    pub(crate) fn check_welcome(&self, expected: BrokerId, address: &str, met: &Met) -> Result<(), Refusal> {
        if met.node != expected {
            let address = address.to_owned();
            return Err(Refusal::OtherNode { address, met: met.node, expected });
        }
        self.check_cluster(met.node, met.cluster_id.as_deref())?;
        // It may become one of another cluster.
        if met.cluster_id.is_none() && self.cluster_id().is_some() {
            return Err(Refusal::NoCluster(met.node));
        }
        match &met.refusal {
            Some(why) => Err(Refusal::Theirs { node: met.node, why: why.clone() }),
            None => Ok(()),
        }
    }

    fn check_cluster(&self, node: BrokerId, theirs: Option<&str>) -> Result<(), Refusal> {
        match (theirs, self.cluster_id()) {
            (Some(theirs), Some(ours)) if theirs != ours.as_str() => {
                Err(Refusal::OtherCluster { node, theirs: theirs.to_owned(), ours: ours.to_string() })
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn welcome<'a>(
        &self,
        cluster_id: Option<&'a str>,
        refusal: Option<&'a str>,
        voters: &'a [Voter],
    ) -> Welcome<'a> {
        let voters = voters.iter().map(|voter| (voter.id, voter.address.as_str(), voter.directory)).collect();
        let Self { node, is_broker, .. } = *self;
        Welcome { refusal, cluster_id, node, directory: self.directory(), is_broker, voters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(cluster_id: Option<&str>) -> Identity {
        let identity = Identity::new(BrokerId(1), cluster_id.map(str::to_owned));
        identity.open_in(Uuid([1; 16]));
        identity
    }

    fn met(node: i32, cluster_id: Option<&str>) -> Met {
        let cluster_id = cluster_id.map(str::to_owned);
        let (node, directory) = (BrokerId(node), Uuid([9; 16]));
        Met { refusal: None, cluster_id, node, directory, is_broker: true, voters: Vec::new() }
    }

    #[test]
    fn a_node_of_another_cluster_is_not_spoken_to() {
        let node = identity(Some("ours"));
        let check = |met: Met| node.check_welcome(BrokerId(2), "b:1", &met).map_err(|why| why.to_string());
        check(met(2, Some("ours"))).unwrap();
        assert_eq!(check(met(2, None)).unwrap_err(), "node 2 belongs to no cluster yet");
        let why = check(met(2, Some("theirs"))).unwrap_err();
        assert!(why.contains("node 2 belongs to cluster theirs, this one to ours"), "{why}");
        let why = check(met(3, Some("ours"))).unwrap_err();
        assert!(why.contains("the node at b:1 is 3, not 2"), "{why}");
        let refused = Met { refusal: Some("no".to_owned()), ..met(2, Some("ours")) };
        assert_eq!(check(refused).unwrap_err(), "node 2 does not speak to this one: no");
    }

    #[test]
    fn two_nodes_with_one_id_are_told() {
        let node = identity(None);
        let hello = Hello { directory: Uuid([9; 16]), ..node.hello(None, Purpose::Control) };
        assert_eq!(node.check_hello(&hello), Err(Refusal::SameNode(BrokerId(1))));
        node.check_hello(&node.hello(None, Purpose::Control)).unwrap();
    }
}
