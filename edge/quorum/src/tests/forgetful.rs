//! What a whole quorum loses with one disk that forgets.
//!
//! ```text
//!   a vote:   3 votes for 2 ─ power cut ─ 3 is asked by 1, in the same epoch
//!   entries:  1 is away, 2 and 3 commit ─ power cut of 2, 3 is cut off ─ 1 and 2 go on
//! ```
//!
//! Each happens twice: on disks that keep what was synced, where nothing is lost, and on such that do not, where it is
//! seen.

use std::collections::{BTreeMap, BTreeSet};

use base::LeaderEpoch;
use openraft::raft::VoteRequest;

use super::fragile::{Forgets, FragileDisk};
use super::nodes::{Cluster, history, run, voter};
use crate::message::{self, Addressed, Answer, Answered, Request};
use crate::types::{Vote, log_id};

/// Whether node 3 votes for a node that stands in an epoch.
async fn votes_for(cluster: &Cluster, term: u64, candidate: i32) -> bool {
    let stands = VoteRequest::new(Vote::new(term, candidate.unsigned_abs().into()), Some(log_id(0, 0)));
    let who = Addressed {
        cluster: "cluster".into(),
        from: candidate.unsigned_abs().into(),
        home: voter(candidate).home(),
        to: 3,
        directory: voter(3).directory,
    };
    let bytes = message::encode_request(&who, &Request::Vote(stands)).expect("small");
    let answer = cluster.node(3).member.handle(bytes).await;
    match message::decode_answer(&answer).expect("it is an answer").1 {
        Answered::Well(Answer::Vote(vote)) => vote.vote_granted,
        other => panic!("{other:?}"),
    }
}

/// Who leads an epoch in which one node after the other stands, with the vote of a third that loses its power between.
async fn leaders_of_an_epoch(forgets: Forgets) -> BTreeSet<i32> {
    const TERM: u64 = 7;
    let mut cluster = Cluster::empty([1, 2, 3]);
    let mut disk = FragileDisk::new(usize::MAX);
    let founders = cluster.voters.clone();
    cluster.start_on(&disk, voter(3), founders).await.expect("a fresh disk");
    let mut leaders = BTreeSet::new();
    for candidate in [2, 1] {
        disk.forget(forgets);
        // With its own that is a majority.
        if votes_for(&cluster, TERM, candidate).await {
            leaders.insert(candidate);
        }
        cluster.cut_power(3, &disk).await;
        disk = disk.survivors(|| 0);
        cluster.start_on(&disk, voter(3), Vec::new()).await.expect("it is whole");
    }
    leaders
}

#[test]
fn who_voted_and_lost_its_power_does_not_vote_again() {
    run(async {
        assert_eq!(leaders_of_an_epoch(Forgets::Nothing).await, [2].into());
        assert_eq!(leaders_of_an_epoch(Forgets::Entries).await, [2].into());
    });
}

/// Were votes not synced, an epoch would have two leaders, and the test above would tell.
#[test]
fn who_forgets_its_vote_gives_an_epoch_two_leaders() {
    run(async {
        assert_eq!(leaders_of_an_epoch(Forgets::Votes).await, [1, 2].into());
    });
}

/// What was acknowledged and is not there any more, and whether nodes were told different things.
struct Outcome {
    missing: Vec<&'static str>,
    history: Result<(), String>,
}

/// One of three is away while the others commit; one of these loses its power, and goes on with who was away, without
/// the other.
async fn goes_on_with_who_was_away(forgets: Forgets) -> Outcome {
    let mut cluster = Cluster::empty([1, 2, 3]);
    let mut disks = BTreeMap::new();
    for id in [1, 2, 3] {
        let (disk, founders) = (FragileDisk::new(usize::MAX), cluster.voters.clone());
        cluster.start_on(&disk, voter(id), founders).await.expect("a fresh disk");
        disks.insert(id, disk);
    }
    cluster.commit("before").await;
    for node in cluster.nodes.values() {
        node.heard.marked("before").await;
    }
    let (leader, _) = cluster.leader().await;
    let away = if leader == 1 { 2 } else { 1 };
    let [cut, left] = [1, 2, 3].into_iter().filter(|id| *id != away).collect::<Vec<_>>()[..] else {
        unreachable!("three without one")
    };
    disks.values().for_each(|disk| disk.forget(forgets));
    cluster.switch.isolate(away);
    // Both have to have it.
    cluster.commit("kept").await;
    let (_, epoch) = cluster.leader_of(&[cut, left], LeaderEpoch::NONE).await;

    cluster.cut_power(cut, &disks[&cut]).await;
    cluster.switch.part(left, &[cut]);
    cluster.switch.join(away, cut);
    let disk = disks[&cut].survivors(|| 0);
    cluster.start_on(&disk, voter(cut), Vec::new()).await.expect("it is whole");
    let (next, later) = cluster.leader_of(&[away, cut], epoch).await;
    cluster.propose(next, later, "after");
    let heard = &cluster.node(next).heard;
    heard.marked("after").await;
    let marks = heard.marks();
    let missing =
        ["before", "kept", "after"].into_iter().filter(|name| !marks.iter().any(|mark| mark == name));
    let told = history(cluster.nodes.iter().map(|(id, node)| (*id, &node.heard)));
    Outcome { missing: missing.collect(), history: told.map(drop) }
}

#[test]
fn what_two_of_three_committed_outlives_the_power_of_one_and_the_loss_of_the_other() {
    run(async {
        let Outcome { missing, history } = goes_on_with_who_was_away(Forgets::Nothing).await;
        assert!(missing.is_empty(), "{missing:?}");
        history.expect("all were told the same");
    });
}

/// Were entries not synced, what was acknowledged would be lost, and the test above would tell.
#[test]
fn who_forgets_entries_loses_what_was_acknowledged() {
    run(async {
        let Outcome { missing, history } = goes_on_with_who_was_away(Forgets::Entries).await;
        assert_eq!(missing, ["kept"]);
        history.expect_err("one was told of it, and another of something else in its place");
    });
}
