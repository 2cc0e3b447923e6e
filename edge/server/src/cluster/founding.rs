//! How nodes that start for the first time agree on the id of their cluster, and then on who votes there with which
//! directory.
//!
//! ```text
//!   agree         which cluster is it?        the first peer makes its id up, the others take it
//!                 directories are opened: each node has one that it votes with, for good
//!   first_voters  who votes, with which?      the first peer puts all down that it has met, the others take that
//! ```
//!
//! Whoever meets a node that belongs to a cluster belongs to it, too, if it has a vote there. If nobody does, the peer
//! with the lowest id makes one up, once it has met a majority of the peers: a node that lost its disk and comes back
//! alone waits for those who know. Some that come back so together could pass for a new cluster; a peer that is not
//! met is therefore waited for, and who is known by another directory joins without a vote.
//!
//! **Invariant:** from the first entry of the log on a voter is known by its directory, or does not count yet. Who
//! comes back with an empty disk is told from who it was, however early that is.

use std::time::{Duration, Instant};

use base::Uuid;
use metadata::settings::ClusterPeer;
use quorum::Voter;
use tracing::info;

use super::identity::{Identity, Met, Refusal};
use super::joining::JoinError;
use super::link::ask_who;
use crate::random::random;

/// How often the others are asked.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// How often it is said that this node waits.
const SAY_EVERY: u32 = 100;

/// How long a majority waits for the others: one of them may have the cluster that these have forgotten.
const MAJORITY_WAITS: Duration = Duration::from_secs(5);

/// The cluster that a node belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Agreed {
    /// It made it up: there was none.
    Founds(String),
    /// It votes there.
    Votes(String),
    /// It voted there with a disk that it does not have any more, and has forgotten how.
    LostItsDisk(String),
}

/// What to do after a round of questions.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Join(Agreed),
    Found,
    Wait,
}

/// Waits until it is known which cluster this node belongs to.
pub(crate) async fn agree(identity: &Identity, peers: &[ClusterPeer]) -> Result<Agreed, JoinError> {
    let began = Instant::now();
    let mut rounds = 0u32;
    loop {
        let met = ask_all(identity, peers).await;
        let has_waited = began.elapsed() >= MAJORITY_WAITS;
        match verdict(identity, peers, &met, has_waited)? {
            Verdict::Join(agreed) => return Ok(agreed),
            Verdict::Found => return Ok(Agreed::Founds(Uuid::from_random(random()).to_string())),
            Verdict::Wait => {}
        }
        if rounds.is_multiple_of(SAY_EVERY) {
            let not_met = but_for(identity, peers, |peer| met.iter().any(|met| met.node == peer.id));
            info!(not_met, "waiting for the other nodes of cluster.peers");
        }
        rounds = rounds.wrapping_add(1);
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Those of the others who answer, and are whom the list says.
async fn ask_all(identity: &Identity, peers: &[ClusterPeer]) -> Vec<Met> {
    let mut asked = tokio::task::JoinSet::new();
    for peer in peers.iter().filter(|peer| peer.id != identity.node) {
        let (address, id) = (peer.address.to_string(), peer.id);
        let hello = Identity::new(identity.node, None);
        asked.spawn(async move { ask_who(&hello, &address).await.ok().filter(|met| met.node == id) });
    }
    asked.join_all().await.into_iter().flatten().collect()
}

/// The others but for some, in words.
fn but_for(identity: &Identity, peers: &[ClusterPeer], is_well: impl Fn(&ClusterPeer) -> bool) -> String {
    let awaited = peers.iter().filter(|peer| peer.id != identity.node && !is_well(peer));
    awaited.map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn verdict(
    identity: &Identity,
    peers: &[ClusterPeer],
    met: &[Met],
    has_waited: bool,
) -> Result<Verdict, JoinError> {
    if let Some(why) = met.iter().find_map(|met| met.refusal.clone()) {
        return Err(JoinError(why));
    }
    let belongs = |met: &&Met| met.cluster_id.is_some();
    // Who knows this node by a disk knows more than who has just founded the cluster.
    let knows = |met: &&Met| {
        let own = met.voters.iter().find(|voter| voter.id == identity.node);
        (own.is_some_and(|voter| !voter.directory.is_zero()), !met.voters.is_empty())
    };
    if let Some(there) = met.iter().filter(belongs).max_by_key(knows) {
        let cluster = there.cluster_id.clone().unwrap_or_default();
        return match there.voters.iter().find(|voter| voter.id == identity.node) {
            Some(voter) if voter.directory.is_zero() => Ok(Verdict::Join(Agreed::Votes(cluster))),
            Some(_) => Ok(Verdict::Join(Agreed::LostItsDisk(cluster))),
            // Before its log is open nobody knows who votes there.
            None if there.voters.is_empty() => Ok(Verdict::Wait),
            None => {
                let why = Refusal::NoVote { node: identity.node, met: there.node, cluster };
                Err(JoinError(why.to_string()))
            }
        };
    }
    let is_first = peers.iter().map(|peer| peer.id).min() == Some(identity.node);
    let there = met.len() + 1;
    let is_enough = there >= peers.len() || (has_waited && there > peers.len() / 2);
    Ok(if is_first && is_enough { Verdict::Found } else { Verdict::Wait })
}

/// A node of a cluster that has no log yet, as far as it knows.
pub(crate) struct Founding<'a> {
    /// With its directory and its cluster.
    pub(crate) identity: &'a Identity,
    pub(crate) peers: &'a [ClusterPeer],
    /// Itself.
    pub(crate) me: &'a Voter,
    /// Whether this node made the cluster's id up, in this life: nobody has voted in it before.
    pub(crate) made_it_up: bool,
    /// Since when it waits for the others.
    pub(crate) began: Instant,
}

impl Founding<'_> {
    /// Waits until it is known who votes first: the same for all whose directory is known. Nobody if this node's is
    /// not: it is heard of by and by.
    pub(crate) async fn first_voters(&self) -> Result<Vec<Voter>, JoinError> {
        let Self { identity, peers, me, .. } = *self;
        if peers.len() <= 1 {
            return Ok(vec![me.clone()]);
        }
        identity.founds_with(peers.iter().map(|peer| (peer.id, peer.address.to_string())));
        let mut rounds = 0u32;
        loop {
            let met = ask_all(identity, peers).await;
            if let Some(voters) = self.voters(&met, self.began.elapsed() >= MAJORITY_WAITS)? {
                return Ok(voters);
            }
            if rounds % SAY_EVERY == SAY_EVERY - 1 {
                let founds =
                    |peer: &ClusterPeer| met.iter().any(|met| met.node == peer.id && self.founds(met));
                let waits_for = but_for(identity, peers, founds);
                info!(
                    waits_for,
                    "waiting for the other nodes of cluster.peers: it is not put down yet who votes with which disk"
                );
            }
            rounds = rounds.wrapping_add(1);
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Who votes first, if what those say who were met is enough to know.
    fn voters(&self, met: &[Met], has_waited: bool) -> Result<Option<Vec<Voter>>, JoinError> {
        let Self { identity, peers, me, .. } = *self;
        if let Some(why) = met.iter().find_map(|met| met.refusal.clone()) {
            return Err(JoinError(why));
        }
        let ours = identity.cluster_id();
        let is_other = |met: &&Met| met.cluster_id.is_some() && met.cluster_id.as_ref() != ours.as_deref();
        if let Some(other) = met.iter().find(is_other) {
            let (theirs, ours) = (other.cluster_id.clone(), ours.map(|ours| ours.to_string()));
            let (theirs, ours) = (theirs.unwrap_or_default(), ours.unwrap_or_default());
            return Err(JoinError(Refusal::OtherCluster { node: other.node, theirs, ours }.to_string()));
        }
        let knows = |met: &&Met| met.voters.iter().any(|voter| !voter.directory.is_zero());
        if let Some(there) = met.iter().find(knows) {
            let Some(voter) = there.voters.iter().find(|voter| voter.id == me.id) else {
                let cluster = there.cluster_id.clone().unwrap_or_default();
                let why = Refusal::NoVote { node: me.id, met: there.node, cluster };
                return Err(JoinError(why.to_string()));
            };
            return Ok(Some(if voter.directory == me.directory { there.voters.clone() } else { Vec::new() }));
        }
        // Each of them may have been told who votes before it lost what it knew: then they are all asked.
        let founding = met.iter().filter(|met| self.founds(met)).count() + 1;
        let is_majority = self.made_it_up && has_waited && founding > met.len() && founding > peers.len() / 2;
        let is_first = peers.iter().map(|peer| peer.id).min() == Some(me.id);
        let is_enough = founding == peers.len() || is_majority;
        Ok((is_first && is_enough).then(|| peers.iter().map(|peer| self.voter(peer, met)).collect()))
    }

    /// Whether a node has no log, and a directory that it will vote with.
    fn founds(&self, met: &Met) -> bool {
        // Whoever is about to open a log says nothing of who votes.
        !met.voters.is_empty() && !met.directory.is_zero()
    }

    fn voter(&self, peer: &ClusterPeer, met: &[Met]) -> Voter {
        if peer.id == self.me.id {
            return self.me.clone();
        }
        let there = met.iter().find(|met| met.node == peer.id && self.founds(met));
        let directory = there.map_or(Uuid::ZERO, |met| met.directory);
        Voter { id: peer.id, address: peer.address.to_string(), directory }
    }
}

#[cfg(test)]
mod tests {
    use base::BrokerId;
    use metadata::settings::BrokerSettings;

    use super::*;

    fn met(node: i32, cluster_id: Option<&str>, voters: &[i32]) -> Met {
        // From 10 on they are known by their disks.
        let voter = |id: &i32| Voter {
            id: BrokerId(id % 10),
            address: format!("n{id}:1"),
            directory: if *id < 10 { Uuid::ZERO } else { Uuid([9; 16]) },
        };
        Met {
            refusal: None,
            cluster_id: cluster_id.map(str::to_owned),
            node: BrokerId(node),
            directory: Uuid::ZERO,
            is_broker: true,
            voters: voters.iter().map(voter).collect(),
        }
    }

    /// What a node makes of those it has met, at first and after a while.
    fn of(node: i32, met: &[Met]) -> [Result<Verdict, String>; 2] {
        let given = [("node.id", "1"), ("cluster.peers", "1@a:1,2@b:1,3@c:1")];
        let peers = BrokerSettings::parse(given).unwrap().cluster_peers;
        let identity = Identity::new(BrokerId(node), None);
        [false, true].map(|waited| verdict(&identity, &peers, met, waited).map_err(|why| why.to_string()))
    }

    fn joins(cluster: &str) -> [Result<Verdict, String>; 2] {
        [(); 2].map(|()| Ok(Verdict::Join(Agreed::Votes(cluster.to_owned()))))
    }

    const WAITS: [Result<Verdict, String>; 2] = [Ok(Verdict::Wait), Ok(Verdict::Wait)];

    #[test]
    fn the_first_of_all_or_after_a_while_of_a_majority_founds_and_the_others_join() {
        assert_eq!(of(1, &[]), WAITS);
        assert_eq!(of(1, &[met(2, None, &[]), met(3, None, &[])]), [Ok(Verdict::Found), Ok(Verdict::Found)]);
        let missed = [Ok(Verdict::Wait), Ok(Verdict::Found)];
        assert_eq!(of(1, &[met(3, None, &[])]), missed, "2 may have data");
        assert_eq!(of(2, &[met(1, None, &[]), met(3, None, &[])]), WAITS, "that is for the first to do");
        assert_eq!(of(2, &[met(1, None, &[]), met(3, Some("c"), &[1, 2, 3])]), joins("c"));
        assert_eq!(of(1, &[met(2, Some("c"), &[1, 2, 3])]), joins("c"));
    }

    #[test]
    fn who_meets_a_node_with_data_founds_nothing_beside_it() {
        let opening = met(3, Some("c"), &[]);
        assert_eq!(of(1, &[met(2, None, &[]), opening.clone()]), WAITS, "it does not know yet who votes");
        assert_eq!(of(1, &[met(2, Some("c"), &[1, 2, 3]), opening]), joins("c"));
        let lost = [(); 2].map(|()| Ok(Verdict::Join(Agreed::LostItsDisk("c".to_owned()))));
        assert_eq!(of(1, &[met(2, None, &[]), met(3, Some("c"), &[11, 12, 13])]), lost);
        let founded_anew = met(2, Some("c"), &[1, 2, 3]);
        assert_eq!(of(1, &[met(3, Some("c"), &[11, 12, 13]), founded_anew]), lost);
        let refuses = Met { refusal: Some("no".to_owned()), ..met(3, Some("c"), &[1, 2, 3]) };
        assert_eq!(of(1, &[met(2, None, &[]), refuses]), ["no", "no"].map(|why| Err(why.to_owned())));
        for said in of(1, &[met(2, None, &[]), met(3, Some("c"), &[3, 4, 5])]) {
            let why = said.unwrap_err();
            assert!(why.contains("in which node 1 has no vote"), "{why}");
        }
    }

    /// Who votes first, each with the first byte of its directory; `None` while it is not known.
    type First = Result<Option<Vec<(i32, u8)>>, String>;

    /// What node `node` with directory 3 makes of those it has met, who say this.
    fn first(node: i32, made_it_up: bool, met: &[Met]) -> [First; 2] {
        let given = [("node.id", "1"), ("cluster.peers", "1@a:1,2@b:1,3@c:1")];
        let peers = BrokerSettings::parse(given).unwrap().cluster_peers;
        let identity = Identity::new(BrokerId(node), Some("c".to_owned()));
        let me = Voter { id: BrokerId(node), address: String::new(), directory: Uuid([3; 16]) };
        let founding =
            Founding { identity: &identity, peers: &peers, me: &me, made_it_up, began: Instant::now() };
        [false, true].map(|has_waited| {
            let voters = founding.voters(met, has_waited).map_err(|why| why.to_string())?;
            let pair = |voter: Voter| (voter.id.0, voter.directory.0[0]);
            Ok(voters.map(|voters| voters.into_iter().map(pair).collect()))
        })
    }

    #[test]
    fn the_first_puts_down_with_which_disks_they_vote() {
        let founds = |node, disk| Met { directory: Uuid([disk; 16]), ..met(node, Some("c"), &[1, 2, 3]) };
        let (two, three) = (founds(2, 7), founds(3, 8));
        let both = [two.clone(), three.clone()];
        let waits = [Ok(None), Ok(None)];
        let all = Some(vec![(1, 3), (2, 7), (3, 8)]);
        assert_eq!(first(1, true, &both), [Ok(all.clone()), Ok(all.clone())]);
        assert_eq!(first(1, false, &both), [Ok(all.clone()), Ok(all)], "nobody has a log");
        assert_eq!(first(2, true, &[founds(1, 7), three.clone()]), waits, "that is for the first to do");
        // A majority may begin without the third, but for one that may have been told who votes before.
        assert_eq!(
            first(1, true, std::slice::from_ref(&two)),
            [Ok(None), Ok(Some(vec![(1, 3), (2, 7), (3, 0)]))]
        );
        assert_eq!(first(1, false, std::slice::from_ref(&two)), waits);
        // Who is there already, and not that far yet, is waited for.
        for late in [met(3, None, &[]), Met { voters: Vec::new(), ..three.clone() }] {
            assert_eq!(first(1, true, &[two.clone(), late]), waits);
        }
    }

    #[test]
    fn the_others_take_what_the_first_put_down() {
        let disk = |id: i32| Uuid([if id == 2 { 3 } else { 7 }; 16]);
        let mut founded = met(1, Some("c"), &[1, 2, 3]);
        founded.voters.iter_mut().for_each(|voter| voter.directory = disk(voter.id.0));
        let taken = Some(vec![(1, 7), (2, 3), (3, 7)]);
        assert_eq!(first(2, false, std::slice::from_ref(&founded)), [Ok(taken.clone()), Ok(taken)]);
        // Another disk, or none, is meant: this node does not count by it.
        assert_eq!(first(3, false, std::slice::from_ref(&founded)), [Ok(Some(vec![])), Ok(Some(vec![]))]);
        founded.voters.iter_mut().for_each(|voter| voter.directory = Uuid([u8::from(voter.id.0 == 1); 16]));
        assert_eq!(first(2, false, &[founded]), [Ok(Some(vec![])), Ok(Some(vec![]))]);
        for said in first(1, true, &[met(3, Some("another"), &[1, 2, 3])]) {
            let why = said.unwrap_err();
            assert!(why.contains("belongs to cluster another"), "{why}");
        }
    }
}
