//! How an empty node finds the cluster that it is to join, and a joined one those who vote.

use std::io;
use std::time::Duration;

use metadata::settings::{BrokerSettings, ClusterAddress};
use quorum::Voter;
use tracing::info;

use super::identity::{Identity, Met, Refusal};
use super::link::ask_who;

/// Why the cluster that this node is to join does not take it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct JoinError(pub(crate) String);

/// How often the others are asked.
const ASK_EVERY: Duration = Duration::from_millis(100);

/// How often it is said that this node waits, in rounds.
const SAY_EVERY: u32 = 100;

/// Waits until a node of `cluster.join` tells which cluster it belongs to.
pub(crate) async fn find(identity: &Identity, settings: &BrokerSettings) -> Result<String, JoinError> {
    let mut rounds = 0u32;
    loop {
        let met = ask_all(identity, &settings.cluster_join).await;
        if let Some(id) = cluster_of(identity, settings, &met)? {
            info!(cluster = id, "joining a cluster");
            return Ok(id);
        }
        if rounds.is_multiple_of(SAY_EVERY) {
            let unmet = met.iter().filter(|(_, met)| met.is_err());
            let why: Vec<String> = unmet
                .map(|(at, met)| {
                    format!("{at} ({})", met.as_ref().err().map(ToString::to_string).unwrap_or_default())
                })
                .collect();
            info!(not_met = why.join(", "), "waiting for a node of cluster.join that belongs to a cluster");
        }
        rounds = rounds.wrapping_add(1);
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Makes sure that the nodes of `cluster.join` which can be met belong to this node's cluster.
pub(crate) async fn check(identity: &Identity, settings: &BrokerSettings) -> Result<(), JoinError> {
    let met = ask_all(identity, &settings.cluster_join).await;
    cluster_of(identity, settings, &met).map(drop)
}

/// Those who vote, as the nodes at these addresses tell; who was met is where it was met.
pub(crate) async fn voters(identity: &Identity, addresses: &[ClusterAddress]) -> Vec<Voter> {
    voters_of(identity, ask_all(identity, addresses).await)
}

fn voters_of(identity: &Identity, answers: Answers) -> Vec<Voter> {
    let mut voters: Vec<Voter> = Vec::new();
    let mut met_at = Vec::new();
    for (address, met) in answers {
        let Ok(met) = met else { continue };
        if met.cluster_id.as_ref() != identity.cluster_id().as_deref() {
            continue;
        }
        for voter in met.voters {
            if !voters.iter().any(|known| known.id == voter.id) {
                voters.push(voter);
            }
        }
        met_at.push((met.node, address));
    }
    for (id, address) in met_at {
        voters.iter_mut().filter(|voter| voter.id == id).for_each(|voter| voter.address.clone_from(&address));
    }
    voters
}

type Answers = Vec<(String, io::Result<Met>)>;

async fn ask_all(identity: &Identity, addresses: &[ClusterAddress]) -> Answers {
    let mut asked = tokio::task::JoinSet::new();
    for address in addresses {
        let cluster_id = identity.cluster_id().map(|id| id.to_string());
        let hello = Identity::new(identity.node, cluster_id);
        let address = address.to_string();
        asked.spawn(async move {
            let met = ask_who(&hello, &address).await;
            (address, met)
        });
    }
    let mut answers: Answers = asked.join_all().await;
    answers.sort_by(|(one, _), (other, _)| one.cmp(other));
    answers
}

/// The cluster that those who were met belong to.
fn cluster_of(
    identity: &Identity,
    settings: &BrokerSettings,
    met: &Answers,
) -> Result<Option<String>, JoinError> {
    let own = settings.cluster_address().map(ToString::to_string);
    let mut found = None;
    for (address, met) in met {
        // A list for all nodes may name this one, too.
        let Ok(met) = met else { continue };
        if Some(address) == own.as_ref() || is_itself(identity, met) {
            continue;
        }
        if met.node == identity.node {
            return Err(JoinError(Refusal::SameNode(met.node).to_string()));
        }
        let theirs = met.cluster_id.clone();
        match (identity.cluster_id(), theirs) {
            (Some(ours), Some(theirs)) if *ours != theirs => {
                let refusal = Refusal::OtherCluster { node: met.node, theirs, ours: ours.to_string() };
                return Err(JoinError(refusal.to_string()));
            }
            (_, theirs) => found = found.or(theirs),
        }
        let votes = met.voters.iter().find(|voter| voter.id == identity.node);
        if let Some(voter) =
            votes.filter(|voter| identity.cluster_id().is_none() && Some(&voter.address) != own.as_ref())
        {
            return Err(JoinError(format!(
                "node {} of that cluster votes at {}: give this node another node.id, or remove that one first with \
                 `vltava cluster remove {}`",
                voter.id, voter.address, voter.id
            )));
        }
    }
    Ok(found)
}

/// Whether a node has met itself, at an address that it did not know for its own: one that is about to start has no
/// directory open, and belongs to no other cluster.
fn is_itself(identity: &Identity, met: &Met) -> bool {
    let is_of_the_same = met.cluster_id.as_ref() == identity.cluster_id().as_deref();
    met.node == identity.node && met.directory.is_zero() && is_of_the_same
}

#[cfg(test)]
mod tests {
    use base::{BrokerId, Uuid};

    use super::*;

    fn settings() -> BrokerSettings {
        let given = [("node.id", "4"), ("cluster.listen", "d:1"), ("cluster.join", "a:1,d:1")];
        BrokerSettings::parse(given).unwrap()
    }

    fn met(node: i32, cluster_id: Option<&str>, voters: &[i32]) -> io::Result<Met> {
        let voter =
            |id: &i32| Voter { id: BrokerId(*id), address: format!("n{id}:1"), directory: Uuid::ZERO };
        Ok(Met {
            refusal: None,
            cluster_id: cluster_id.map(str::to_owned),
            node: BrokerId(node),
            directory: Uuid([9; 16]),
            is_broker: true,
            voters: voters.iter().map(voter).collect(),
        })
    }

    fn of(ours: Option<&str>, met: Vec<(&str, io::Result<Met>)>) -> Result<Option<String>, String> {
        let identity = Identity::new(BrokerId(4), ours.map(str::to_owned));
        let met = met.into_iter().map(|(at, met)| (at.to_owned(), met)).collect();
        cluster_of(&identity, &settings(), &met).map_err(|why| why.to_string())
    }

    #[test]
    fn whoever_belongs_to_a_cluster_tells_which() {
        let nobody = || Err(io::ErrorKind::ConnectionRefused.into());
        assert_eq!(of(None, vec![("a:1", nobody())]), Ok(None));
        assert_eq!(of(None, vec![("a:1", met(1, None, &[]))]), Ok(None), "it waits for its own cluster");
        assert_eq!(of(None, vec![("a:1", met(1, Some("c"), &[1, 2]))]), Ok(Some("c".to_owned())));
        assert_eq!(of(Some("c"), vec![("a:1", met(1, Some("c"), &[1, 2]))]), Ok(Some("c".to_owned())));
        assert_eq!(of(None, vec![("d:1", met(4, None, &[]))]), Ok(None), "that is this node");
    }

    /// The list may name it in other words than its own settings do.
    #[test]
    fn a_node_knows_itself_at_any_address() {
        for cluster in [None, Some("c")] {
            let itself = Met { directory: Uuid::ZERO, ..met(4, cluster, &[]).unwrap() };
            let others = || ("b:1", met(2, Some("c"), &[1, 2]));
            assert_eq!(of(cluster, vec![("d.net:1", Ok(itself)), others()]), Ok(Some("c".to_owned())));
        }
    }

    #[test]
    fn who_votes_is_where_it_was_met() {
        let identity = Identity::new(BrokerId(4), Some("c".to_owned()));
        let answers = vec![
            ("a:1".to_owned(), met(1, Some("c"), &[1, 2, 3])),
            ("b:1".to_owned(), met(2, Some("c"), &[1, 2, 3])),
            ("s:1".to_owned(), met(3, Some("another"), &[5])),
        ];
        let voters = voters_of(&identity, answers);
        let known: Vec<(i32, &str)> = voters.iter().map(|it| (it.id.0, it.address.as_str())).collect();
        assert_eq!(known, [(1, "a:1"), (2, "b:1"), (3, "n3:1")]);
    }

    #[test]
    fn who_cannot_join_is_told_why() {
        let why = of(Some("mine"), vec![("a:1", met(1, Some("theirs"), &[]))]).unwrap_err();
        assert!(why.contains("node 1 belongs to cluster theirs, this one to mine"), "{why}");
        let why = of(None, vec![("a:1", met(4, Some("c"), &[]))]).unwrap_err();
        assert!(why.contains("another node has the id 4"), "{why}");
        let why = of(None, vec![("a:1", met(1, Some("c"), &[1, 4]))]).unwrap_err();
        assert!(why.contains("node 4 of that cluster votes at n4:1"), "{why}");
    }
}
