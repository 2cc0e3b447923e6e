//! Changes that came to no end, because whoever made them lost its power or was not waited for.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, Uuid};
use storage::memory::MemoryDisk;

use super::nodes::{Cluster, run, until, voter};
use crate::types::Membership;
use crate::{ChangeError, Member, Voter};

const LONG: Duration = Duration::from_secs(10);

fn members(member: &Member) -> Membership {
    member.store.memory.lock().members.clone()
}

/// Makes a change as far as this is so of the members, and no further.
async fn break_off(
    member: &Member,
    change: impl Future<Output = Result<(), ChangeError>>,
    is_enough: impl Fn(&Membership) -> bool,
) {
    let mut change = pin!(change);
    poll_fn(|context| {
        if is_enough(&members(member)) {
            return Poll::Ready(());
        }
        match change.as_mut().poll(context) {
            Poll::Ready(made) => panic!("it came to an end: {made:?}"),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
}

async fn of_five() -> (Cluster, i32) {
    let cluster = Cluster::of(1..=5).await;
    cluster.commit("before").await;
    let (leader, _) = cluster.leader().await;
    (cluster, leader)
}

/// The set of voters before, and the one after, of which neither is given up.
fn is_between(members: &Membership) -> bool {
    members.get_joint_config().len() > 1
}

#[test]
fn a_node_that_got_no_vote_is_given_one_with_another_disk() {
    run(async {
        let mut cluster = Cluster::of([1, 2, 3]).await;
        cluster.commit("before").await;
        let (leader, _) = cluster.leader().await;
        cluster.start(4, MemoryDisk::new()).await.expect("a fresh disk");
        let member = cluster.node(leader).member.clone();
        break_off(&member, member.add_voter(voter(4), LONG), |it| it.get_node(&4).is_some()).await;
        cluster.node(4).heard.marked("before").await;
        let follows = || member.status().observers.first().is_some_and(|it| it.log_end.is_some());
        until(&member, "it is known to follow", follows).await;

        cluster.kill(4).await;
        let me = Voter { directory: Uuid([99; 16]), ..voter(4) };
        let disk = MemoryDisk::new();
        let start = cluster.start_as(me.clone(), disk.clone(), Arc::new(disk), Vec::new());
        start.await.expect("a fresh disk");
        member.add_voter(me, LONG).await.expect("it is there");
        cluster.node(4).heard.marked("before").await;
        cluster.commit("after").await;
        cluster.node(4).heard.marked("after").await;
        assert_eq!(cluster.leader().await.0, leader, "it leads on");
        cluster.check_agreement();
    });
}

#[test]
fn a_leader_that_is_half_removed_removes_another() {
    run(async {
        let (cluster, leader) = of_five().await;
        let member = cluster.node(leader).member.clone();
        break_off(&member, member.remove_voter(BrokerId(leader)), is_between).await;
        cluster.commit("between").await;
        let other = if leader == 1 { 2 } else { 1 };
        // It may do so, or be gone before.
        let _ = member.remove_voter(BrokerId(other)).await;
        let rest: Vec<i32> = (1..=5).filter(|id| *id != leader).collect();
        let (next, _) = cluster.leader_of(&rest, LeaderEpoch::NONE).await;
        let leads = cluster.node(next).member.clone();
        if leads.is_voter(BrokerId(other)) {
            leads.remove_voter(BrokerId(other)).await.expect("they are there");
        }
        cluster.commit("after").await;
        let voters: Vec<i32> = leads.voters().iter().map(|voter| voter.id.0).collect();
        assert!(voters.len() == 3 && !voters.contains(&leader) && !voters.contains(&other), "{voters:?}");
        for (id, node) in &cluster.nodes {
            assert_eq!(*node.member.store.stopped().borrow(), None, "node {id}");
        }
        cluster.check_agreement();
    });
}

/// Until then both sets of voters need a majority: once one of five is half removed and dead, two more may not go.
#[test]
fn a_change_that_was_broken_off_comes_to_its_end_by_itself() {
    run(async {
        let (cluster, leader) = of_five().await;
        let member = cluster.node(leader).member.clone();
        let other = if leader == 1 { 2 } else { 1 };
        break_off(&member, member.remove_voter(BrokerId(other)), is_between).await;
        let (_, epoch) = cluster.leader().await;
        member.hand_over().await.expect("they are there");
        let (next, _) = cluster.leader_of(&[1, 2, 3, 4, 5], epoch).await;
        let leads = cluster.node(next).member.clone();
        until(&leads, "it comes to its end", || !is_between(&members(&leads))).await;
        let voters: BTreeSet<u64> = members(&leads).voter_ids().collect();
        assert!(!voters.contains(&u64::try_from(other).expect("an id")) && voters.len() == 4, "{voters:?}");
    });
}
