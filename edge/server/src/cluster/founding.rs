//! How nodes that start for the first time agree on the id of their cluster.
//!
//! Whoever meets a node that belongs to a cluster belongs to it, too. If nobody does, the peer with the
//! lowest id makes one up, once it has met a majority of the peers: a node that lost its disk and comes back
//! alone waits for those who know.

use std::time::Duration;

use base::Uuid;
use metadata::settings::ClusterPeer;
use tracing::info;

use super::identity::{Identity, Met};
use super::link::ask_who;
use crate::random::random;

/// How often the others are asked.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// How often it is said that this node waits.
const SAY_EVERY: u32 = 100;

/// What to do after a round of questions.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Join(String),
    Found,
    Wait,
}

/// Waits until it is known which cluster this node belongs to.
pub(crate) async fn agree(identity: &Identity, peers: &[ClusterPeer]) -> String {
    let mut rounds = 0u32;
    loop {
        let others = peers.iter().filter(|peer| peer.id != identity.node);
        let mut asked = tokio::task::JoinSet::new();
        let mut met = Vec::new();
        for peer in others {
            let (address, id) = (peer.address.to_string(), peer.id);
            let hello = Identity::new(identity.node, None);
            asked.spawn(async move { ask_who(&hello, &address).await.ok().filter(|met| met.node == id) });
        }
        while let Some(answer) = asked.join_next().await {
            met.extend(answer.ok().flatten());
        }
        match verdict(identity, peers, &met) {
            Verdict::Join(id) => return id,
            Verdict::Found => return Uuid::from_random(random()).to_string(),
            Verdict::Wait => {}
        }
        if rounds.is_multiple_of(SAY_EVERY) {
            let waits_for: Vec<String> = peers
                .iter()
                .filter(|peer| peer.id != identity.node && !met.iter().any(|met| met.node == peer.id))
                .map(|peer| peer.to_string())
                .collect();
            info!(not_met = waits_for.join(", "), "waiting for the other nodes of cluster.peers");
        }
        rounds = rounds.wrapping_add(1);
        tokio::time::sleep(ASK_EVERY).await;
    }
}

fn verdict(identity: &Identity, peers: &[ClusterPeer], met: &[Met]) -> Verdict {
    if let Some(id) = met.iter().find_map(|met| met.cluster_id.clone()) {
        return Verdict::Join(id);
    }
    let is_first = peers.iter().map(|peer| peer.id).min() == Some(identity.node);
    if is_first && met.len() + 1 > peers.len() / 2 { Verdict::Found } else { Verdict::Wait }
}

#[cfg(test)]
mod tests {
    use base::BrokerId;
    use metadata::settings::BrokerSettings;

    use super::*;

    fn met(node: i32, cluster_id: Option<&str>) -> Met {
        let cluster_id = cluster_id.map(str::to_owned);
        Met { refusal: None, cluster_id, node: BrokerId(node), directory: Uuid::ZERO, voters: Vec::new() }
    }

    #[test]
    fn the_first_of_a_majority_founds_and_the_others_join() {
        let given = [("node.id", "1"), ("cluster.peers", "1@a:1,2@b:1,3@c:1")];
        let peers = BrokerSettings::parse(given).unwrap().cluster_peers;
        let of = |node: i32, met: &[Met]| verdict(&Identity::new(BrokerId(node), None), &peers, met);
        assert_eq!(of(1, &[]), Verdict::Wait);
        assert_eq!(of(1, &[met(3, None)]), Verdict::Found);
        assert_eq!(of(2, &[met(1, None), met(3, None)]), Verdict::Wait, "that is for the first to do");
        assert_eq!(of(2, &[met(1, None), met(3, Some("c"))]), Verdict::Join("c".to_owned()));
        assert_eq!(of(1, &[met(2, Some("c"))]), Verdict::Join("c".to_owned()));
    }
}
