//! Who votes.

use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Uuid};
use openraft::raft::{AppendEntriesRequest, VoteRequest};
use storage::memory::MemoryDisk;

use super::nodes::{Cluster, Heard, run, until, voter};
use crate::message::{self, Addressed, Answered, Request};
use crate::types::Vote;
use crate::{ChangeError, Next, Observer, ObserverStart, SnapshotEvery, Voter};

const LONG: Duration = Duration::from_secs(10);

fn voters(cluster: &Cluster, id: i32) -> Vec<i32> {
    cluster.node(id).member.status().voters.iter().map(|voter| voter.id.0).collect()
}

#[test]
fn from_one_to_three_and_back() {
    run(async {
        let mut cluster = Cluster::empty([1]);
        cluster.every = SnapshotEvery { bytes: u64::MAX, batches: 20, age: None };
        cluster.start(1, MemoryDisk::new()).await.expect("a fresh disk");
        for i in 0..50 {
            cluster.commit(&format!("m{i:02}")).await;
        }
        for id in [2, 3] {
            cluster.start(id, MemoryDisk::new()).await.expect("a fresh disk");
            cluster.node(1).member.add_voter(voter(id), LONG).await.expect("it is there");
            cluster.node(id).heard.marked("m49").await;
        }
        assert_eq!(voters(&cluster, 1), [1, 2, 3]);
        assert_eq!(
            cluster.node(1).member.add_voter(voter(3), LONG).await,
            Err(ChangeError::AlreadyVoter(BrokerId(3)))
        );
        // One may be lost now.
        let disk = cluster.kill(2).await;
        cluster.commit("with two").await;
        cluster.node(3).heard.marked("with two").await;
        cluster.node(1).member.remove_voter(BrokerId(2)).await.expect("two of three are there");
        assert_eq!(voters(&cluster, 1), [1, 3]);
        // It comes back, and is told that it is none of them.
        cluster.start(2, disk).await.expect("it is whole");
        let (_, epoch) = cluster.leader_of(&[1, 3], base::LeaderEpoch::NONE).await;
        tokio::time::timeout(LONG, cluster.node(2).member.left()).await.expect("somebody says so");
        assert_eq!(cluster.leader_of(&[1, 3], base::LeaderEpoch::NONE).await.1, epoch, "it disturbed nobody");
        cluster.stop(2).await;
        // The leader goes, and the other leads.
        cluster.node(1).member.remove_voter(BrokerId(1)).await.expect("both are there");
        let (leader, epoch) = cluster.leader_of(&[3], base::LeaderEpoch(1)).await;
        cluster.propose(leader, epoch, "alone");
        cluster.node(3).heard.marked("alone").await;
        cluster
            .node(1)
            .heard
            .until("following", |events| super::nodes::led(events).is_none().then_some(()))
            .await;
        tokio::time::timeout(LONG, cluster.node(1).member.left()).await.expect("it knows");
        assert_eq!(voters(&cluster, 3), [3]);
        assert_eq!(
            cluster.node(3).member.remove_voter(BrokerId(3)).await,
            Err(ChangeError::LastVoter(BrokerId(3)))
        );
        cluster.check_agreement();
    });
}

#[test]
fn a_voter_that_does_not_come_changes_nothing() {
    run(async {
        let cluster = Cluster::of([1]).await;
        cluster.commit("before").await;
        let added = cluster.node(1).member.add_voter(voter(2), Duration::from_millis(300)).await;
        assert!(matches!(added, Err(ChangeError::TooSlow { .. })), "{added:?}");
        assert_eq!(voters(&cluster, 1), [1]);
        assert_eq!(cluster.node(1).member.status().observers, []);
        cluster.commit("after").await;
    });
}

#[test]
fn nobody_is_removed_without_whom_the_quorum_would_stand_still() {
    run(async {
        let mut cluster = Cluster::of([1, 2, 3]).await;
        cluster.commit("before").await;
        let (leader, _) = cluster.leader().await;
        let others: Vec<i32> = [1, 2, 3].into_iter().filter(|id| *id != leader).collect();
        let (dead, other) = (others[0], others[1]);
        cluster.kill(dead).await;
        let (member, long) = (&cluster.node(leader).member, cluster.timing.election_timeout * 3);
        let is_silent = || member.heard.lock().get(&(dead as u64)).is_none_or(|it| it.at.elapsed() > long);
        until(member, "it is silent", is_silent).await;
        for id in [other, leader] {
            let removed = cluster.node(leader).member.remove_voter(BrokerId(id)).await;
            let refused = ChangeError::NoMajority { id: BrokerId(id), needed: 2, silent: vec![dead] };
            assert_eq!(removed, Err(refused));
        }
        cluster.commit("as before").await;
        for id in [dead, other] {
            cluster.node(leader).member.remove_voter(BrokerId(id)).await.expect("those who stay are there");
        }
        cluster.commit("alone").await;
        assert_eq!(voters(&cluster, leader), [leader]);
    });
}

#[test]
fn who_has_just_begun_to_lead_waits_for_those_who_stay() {
    run(async {
        let cluster = Cluster::of([1, 2, 3]).await;
        cluster.commit("before").await;
        let (leader, _) = cluster.leader().await;
        let next = if leader == 1 { 2 } else { 1 };
        cluster.node(leader).member.transfer_leader(BrokerId(next)).await.expect("it is there");
        let (next, _) = cluster.leader_of(&[next], base::LeaderEpoch(1)).await;
        cluster.node(next).member.remove_voter(BrokerId(leader)).await.expect("two of three stay");
        assert!(!voters(&cluster, next).contains(&leader));
    });
}

#[test]
fn only_the_leader_changes_anything() {
    run(async {
        let cluster = Cluster::of([1, 2, 3]).await;
        cluster.commit("before").await;
        let (leader, _) = cluster.leader().await;
        let other = if leader == 1 { 2 } else { 1 };
        cluster.node(other).heard.marked("before").await;
        let hint = ChangeError::NotLeader { leader: Some(BrokerId(leader)) };
        assert_eq!(cluster.node(other).member.remove_voter(BrokerId(3)).await, Err(hint.clone()));
        assert_eq!(cluster.node(other).member.transfer_leader(BrokerId(other)).await, Err(hint));
        let gone = cluster.node(leader).member.remove_voter(BrokerId(9)).await;
        assert_eq!(gone, Err(ChangeError::NotVoter(BrokerId(9))));
    });
}

#[test]
fn where_a_voter_was_moved_to_is_put_down() {
    run(async {
        let mut cluster = Cluster::of([1, 2, 3]).await;
        cluster.commit("before").await;
        let (leader, _) = cluster.leader().await;
        let moved = [1, 2, 3].into_iter().find(|id| *id != leader).expect("three nodes");
        let disk = cluster.stop(moved).await;
        cluster.commit("without it").await;
        let me = Voter { address: "elsewhere:1".into(), ..voter(moved) };
        let start = cluster.start_as(me, disk.clone(), Arc::new(disk), Vec::new());
        start.await.expect("it is whole");
        cluster.node(moved).heard.marked("without it").await;
        for id in [1, 2, 3] {
            let member = &cluster.node(id).member;
            let is_moved = |voter: &Voter| voter.id.0 == moved && voter.address == "elsewhere:1";
            until(member, "it is known where it is", || member.voters().iter().any(is_moved)).await;
        }
        assert_eq!(voters(&cluster, leader), [1, 2, 3]);
        cluster.commit("with it").await;
        cluster.check_agreement();
    });
}

#[test]
fn a_voter_with_an_empty_disk_is_not_who_it_was() {
    run(async {
        let (mut cluster, leader, [wiped, second]) = killed_one().await;
        let disk = MemoryDisk::new();
        let me = Voter { directory: Uuid([99; 16]), ..voter(wiped) };
        let voters = cluster.voters.clone();
        let start = cluster.start_as(me.clone(), disk.clone(), Arc::new(disk), voters);
        start.await.expect("a fresh disk");
        cluster.commit("with two").await;
        assert!(cluster.node(wiped).heard.marks().is_empty());

        // Without the second there is no majority: the new one does not count, whoever it says it is.
        let kept = cluster.kill(second).await;
        let (id, epoch) = cluster.leader_of(&[leader], base::LeaderEpoch::NONE).await;
        cluster.propose(id, epoch, "not yet");
        let marked = cluster.node(leader).heard.marked("not yet");
        tokio::time::timeout(Duration::from_secs(2), marked).await.expect_err("one of two that count");
        assert_eq!(cluster.node(wiped).heard.led(), None);

        cluster.start(second, kept).await.expect("it is whole");
        cluster.commit("two again").await;
        let (leader, _) = cluster.leader_of(&[leader, second], base::LeaderEpoch::NONE).await;
        let member = cluster.node(leader).member.clone();
        member.remove_voter(BrokerId(wiped)).await.expect("two of three are there");
        member.add_voter(me, LONG).await.expect("it is there");
        cluster.node(wiped).heard.marked("with two").await;
        assert_eq!(voters_of(&member), [1, 2, 3]);
        cluster.check_agreement();
    });
}

/// Three of whom one has been killed: who leads, who was killed, and the other.
async fn killed_one() -> (Cluster, i32, [i32; 2]) {
    let mut cluster = Cluster::of([1, 2, 3]).await;
    cluster.commit("before").await;
    let (leader, _) = cluster.leader().await;
    let others: Vec<i32> = [1, 2, 3].into_iter().filter(|id| *id != leader).collect();
    let [killed, second] = others[..] else { panic!("three nodes") };
    cluster.kill(killed).await;
    (cluster, leader, [killed, second])
}

/// Two know each other's disks, and not the third's. It counts once it is heard of, and not before.
#[test]
fn a_voter_whose_disk_nobody_knows_counts_once_it_is_put_down() {
    run(async {
        let mut cluster = Cluster::empty([1, 2]);
        cluster.voters.push(Voter { directory: Uuid::ZERO, ..voter(3) });
        let founders = cluster.voters.clone();
        let start = |id| {
            let (disk, voters) = (MemoryDisk::new(), founders.clone());
            let voters = if id == 3 { Vec::new() } else { voters };
            (voter(id), disk.clone(), Arc::new(disk), voters)
        };
        for id in [2, 3] {
            let (me, memory, disk, voters) = start(id);
            cluster.start_as(me, memory, disk, voters).await.expect("a fresh disk");
        }
        // It may have voted with another disk, of which nobody here knows: it gives no vote, and takes no entry.
        let stands = Request::Vote(VoteRequest::new(Vote::new(7, 2), None));
        let calls = Request::Append(AppendEntriesRequest {
            vote: Vote::new_committed(7, 2),
            prev_log_id: None,
            entries: Vec::new(),
            leader_commit: None,
        });
        for request in [stands, calls] {
            let asked = |directory| Addressed {
                cluster: "cluster".into(),
                from: 2,
                home: voter(2).home(),
                to: 3,
                directory,
            };
            let bytes = message::encode_request(&asked(Uuid::ZERO), &request).expect("small");
            let answer = cluster.node(3).member.handle(bytes).await;
            let (home, answered) = message::decode_answer(&answer).expect("it is an answer");
            assert_eq!(home.directory, voter(3).directory, "it says who it is");
            assert!(
                matches!(&answered, Answered::Refused(why) if why.contains("nobody has put down")),
                "{answered:?}"
            );
        }
        let (me, memory, disk, voters) = start(1);
        cluster.start_as(me, memory, disk, voters).await.expect("a fresh disk");
        cluster.commit("before").await;
        until_noted(&cluster).await;
        cluster.kill(2).await;
        cluster.commit("with the third").await;
        cluster.node(3).heard.marked("with the third").await;
        cluster.check_agreement();
    });
}

/// Waits until all know the directories of all.
async fn until_noted(cluster: &Cluster) {
    for id in [1, 2, 3] {
        let member = &cluster.node(id).member;
        let noted =
            || member.store.memory.lock().members.nodes().all(|(_, home)| home.directory != Uuid::ZERO);
        until(member, "the directories are noted", noted).await;
    }
}

#[test]
fn a_voter_with_an_empty_disk_follows_until_the_disk_is_given_its_vote() {
    run(async {
        let (mut cluster, leader, [wiped, second]) = killed_one().await;
        let me = Voter { directory: Uuid([99; 16]), ..voter(wiped) };
        let (disk, voters) = (MemoryDisk::new(), cluster.voters.clone());
        let start = cluster.start_as(me.clone(), disk.clone(), Arc::new(disk), voters);
        start.await.expect("a fresh disk");
        tokio::time::timeout(LONG, cluster.node(wiped).member.left()).await.expect("it is told");
        let disk = cluster.stop(wiped).await;

        // It follows, beside who it was.
        let heard = Heard::default();
        let observer = Observer::open(ObserverStart {
            disk: Arc::new(disk.clone()),
            log_dir: "data".into(),
            me: me.clone(),
            may_vote: true,
            cluster_id: "cluster".into(),
            snapshot_every: SnapshotEvery::default(),
            tell: heard.tell(),
        });
        let mut observer = observer.expect("it is whole");
        let member = cluster.node(leader).member.clone();
        loop {
            let request = observer.next_request(&voter(leader), Duration::ZERO).expect("small");
            let answer = member.handle(request).await;
            if observer.on_answer(&answer).expect("it is of use") == Next::CaughtUp {
                break;
            }
        }
        assert_eq!(heard.image(), cluster.node(leader).heard.image());
        let status = member.status();
        let of = |all: &[crate::ReplicaStatus]| {
            let found = all.iter().find(|it| it.id.0 == wiped);
            found.map(|it| it.directory)
        };
        assert_eq!(of(&status.voters), Some(voter(wiped).directory));
        assert_eq!(of(&status.observers), Some(me.directory));
        observer.close().expect("the disk works");
        let is_member =
            |me: &Voter| crate::is_member(Arc::new(disk.clone()), std::path::Path::new("data"), me);
        assert_eq!((is_member(&me), is_member(&voter(wiped))), (Ok(Some(false)), Ok(Some(true))));

        // With its vote it is one of a majority again.
        member.remove_voter(BrokerId(wiped)).await.expect("two of three are there");
        let start = cluster.start_as(me.clone(), disk.clone(), Arc::new(disk.clone()), Vec::new());
        start.await.expect("it is a copy");
        member.add_voter(me, LONG).await.expect("it is there");
        cluster.kill(second).await;
        cluster.commit("with the new disk").await;
        cluster.node(wiped).heard.marked("with the new disk").await;
        cluster.check_agreement();
    });
}

#[test]
fn who_was_away_learns_from_a_snapshot_who_votes() {
    run(async {
        let mut cluster = Cluster::empty([1, 2, 3]);
        cluster.every = SnapshotEvery { bytes: u64::MAX, batches: 20, age: None };
        for id in [1, 2, 3] {
            cluster.start(id, MemoryDisk::new()).await.expect("a fresh disk");
        }
        cluster.commit("before").await;
        let (leader, _) = cluster.leader().await;
        let away = if leader == 1 { 2 } else { 1 };
        cluster.node(away).heard.marked("before").await;
        let disk = cluster.kill(away).await;
        cluster.start(4, MemoryDisk::new()).await.expect("a fresh disk");
        cluster.node(leader).member.add_voter(voter(4), LONG).await.expect("it is there");
        for i in 0..60 {
            cluster.commit(&format!("m{i:02}")).await;
        }
        let member = cluster.node(leader).member.clone();
        until(&member, "it is in a snapshot only", || member.store.memory.lock().first > 30).await;
        cluster.start(away, disk).await.expect("it is whole");
        cluster.node(away).heard.marked("m59").await;
        assert_eq!(voters(&cluster, away), [1, 2, 3, 4]);
        let disk = cluster.kill(away).await;
        cluster.start(away, disk).await.expect("it is whole");
        assert_eq!(voters(&cluster, away), [1, 2, 3, 4]);
    });
}

#[test]
fn who_was_away_follows_a_leader_that_has_got_another_disk() {
    run(async {
        let mut cluster = Cluster::of([1, 2, 3, 4]).await;
        cluster.commit("before").await;
        let (leader, _) = cluster.leader().await;
        let others: Vec<i32> = (1..=4).filter(|id| *id != leader).collect();
        let [away, wiped, _] = others[..] else { panic!("four nodes") };
        cluster.node(away).heard.marked("before").await;
        let disk = cluster.kill(away).await;
        let member = cluster.node(leader).member.clone();
        member.remove_voter(BrokerId(wiped)).await.expect("three of four are there");
        cluster.kill(wiped).await;
        let me = Voter { directory: Uuid([99; 16]), ..voter(wiped) };
        let empty = MemoryDisk::new();
        let start = cluster.start_as(me.clone(), empty.clone(), Arc::new(empty), Vec::new());
        start.await.expect("a fresh disk");
        member.add_voter(me, LONG).await.expect("it is there");
        member.transfer_leader(BrokerId(wiped)).await.expect("it is there");
        cluster.commit("after").await;
        cluster.start(away, disk).await.expect("it is whole");
        cluster.node(away).heard.marked("after").await;
        cluster.check_agreement();
    });
}

fn voters_of(member: &crate::Member) -> Vec<i32> {
    member.status().voters.iter().map(|voter| voter.id.0).collect()
}
