//! Nodes that follow without a vote.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, Uuid};
use controller::QuorumEvent;
use openraft::raft::AppendEntriesRequest;
use storage::memory::MemoryDisk;

use super::nodes::{Cluster, Heard, marks, run, voter};
use crate::message::{self, Addressed, Request};
use crate::types::Vote;
use crate::{ChangeError, Next, ObserveError, Observer, ObserverStart, SnapshotEvery};

const FEW: SnapshotEvery = SnapshotEvery { bytes: u64::MAX, batches: 20, age: None };

fn open(id: i32, disk: &MemoryDisk) -> (Observer, Heard) {
    let heard = Heard::default();
    let disk = Arc::new(disk.clone());
    let opened = Observer::open(start(id, disk, "cluster", heard.tell()));
    (opened.expect("it is whole"), heard)
}

fn start(id: i32, disk: Arc<MemoryDisk>, cluster_id: &str, tell: crate::Tell) -> ObserverStart {
    ObserverStart {
        disk,
        log_dir: "data".into(),
        me: voter(id),
        may_vote: true,
        cluster_id: cluster_id.into(),
        snapshot_every: FEW,
        tell,
    }
}

/// Asks one node until it has no more.
async fn follow(observer: &mut Observer, cluster: &Cluster, of: i32) -> Result<(), ObserveError> {
    loop {
        let request = observer.next_request(&voter(of), Duration::ZERO)?;
        let answer = cluster.node(of).member.handle(request).await;
        if observer.on_answer(&answer)? == Next::CaughtUp {
            return Ok(());
        }
    }
}

#[test]
fn an_observer_is_told_the_same_and_goes_on_from_its_copy() {
    run(async {
        let cluster = Cluster::of([1, 2, 3]).await;
        for i in 0..10 {
            cluster.commit(&format!("m{i}")).await;
        }
        let (leader, epoch) = cluster.leader().await;
        let disk = MemoryDisk::new();
        let (mut observer, heard) = open(9, &disk);
        follow(&mut observer, &cluster, leader).await.expect("it is there");
        let first = heard.events.lock().clone();
        assert!(first.contains(&QuorumEvent::Following { epoch, leader: Some(BrokerId(leader)) }));
        let voters = cluster.node(leader).heard.clone();
        assert_eq!(heard.image(), voters.image());
        assert_eq!(super::nodes::committed(&first), super::nodes::committed(&voters.events.lock()));
        let status = cluster.node(leader).member.status();
        assert_eq!(status.observers.len(), 1);
        assert_eq!(
            (status.observers[0].id, status.observers[0].log_end),
            (BrokerId(9), Some(observer.end()))
        );
        observer.close().expect("the disk works");

        let (mut observer, heard) = open(9, &disk);
        assert_eq!(heard.image(), voters.image(), "nobody was asked");
        cluster.commit("after").await;
        follow(&mut observer, &cluster, leader).await.expect("it is there");
        assert_eq!(heard.marks().last().map(String::as_str), Some("after"));
        // Killed, it knows less, and nothing that is not so.
        drop(observer);
        let (mut observer, heard) = open(9, &disk.copy());
        assert!(voters.image().end() >= heard.image().end());
        follow(&mut observer, &cluster, leader).await.expect("it is there");
        assert_eq!(heard.image(), voters.image());
    });
}

#[test]
fn snapshots_are_read_and_made() {
    run(async {
        let mut cluster = Cluster::empty([1]);
        cluster.every = FEW;
        cluster.start(1, MemoryDisk::new()).await.expect("a fresh disk");
        for i in 0..50 {
            cluster.commit(&format!("m{i:03}")).await;
        }
        let disk = MemoryDisk::new();
        let (mut observer, heard) = open(9, &disk);
        let store = cluster.node(1).member.store.clone();
        let began = std::time::Instant::now();
        while store.memory.lock().first == 0 {
            assert!(began.elapsed() < Duration::from_secs(10), "nothing is purged");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        follow(&mut observer, &cluster, 1).await.expect("it is there");
        assert!(heard.events.lock().iter().any(|event| matches!(event, QuorumEvent::Snapshot(_))));
        for i in 50..100 {
            cluster.commit(&format!("m{i:03}")).await;
            follow(&mut observer, &cluster, 1).await.expect("it is there");
        }
        let expected: Vec<_> = (0..100).map(|i| format!("m{i:03}")).collect();
        assert_eq!(heard.image().features().keys().cloned().collect::<Vec<_>>(), expected);
        let voter = cluster.node(1).heard.image();
        assert_eq!(heard.image(), voter);
        drop(observer);
        let (mut observer, heard) = open(9, &disk);
        assert!(matches!(heard.events.lock()[0], QuorumEvent::Snapshot(_)), "it made one of its own");
        follow(&mut observer, &cluster, 1).await.expect("it is there");
        assert_eq!(heard.image(), voter);
    });
}

#[test]
fn an_observer_becomes_a_voter_and_a_voter_an_observer() {
    run(async {
        let mut cluster = Cluster::of([1]).await;
        for i in 0..10 {
            cluster.commit(&format!("m{i}")).await;
        }
        let disk = MemoryDisk::new();
        let (mut observer, _) = open(2, &disk);
        follow(&mut observer, &cluster, 1).await.expect("it is there");
        let is_member =
            |disk: &MemoryDisk| crate::is_member(Arc::new(disk.clone()), Path::new("data"), &voter(2));
        assert_eq!(is_member(&disk), Ok(Some(false)));
        assert_eq!(is_member(&MemoryDisk::new()), Ok(None));
        observer.close().expect("the disk works");

        cluster.start(2, disk).await.expect("it is a copy");
        assert_eq!(cluster.node(2).heard.marks().len(), 10, "from its own disk");
        cluster.node(1).member.add_voter(voter(2), Duration::from_secs(10)).await.expect("it is there");
        cluster.commit("both").await;
        cluster.node(2).heard.marked("both").await;

        // It writes what nobody else gets, and is removed before it hears of that.
        let (leader, epoch) = cluster.leader().await;
        assert_eq!(leader, 1);
        cluster.node(1).member.transfer_leader(BrokerId(2)).await.expect("it is there");
        let (_, later) = cluster.leader_of(&[2], epoch).await;
        cluster.commit("second").await;
        cluster.node(1).heard.marked("second").await;
        cluster.switch.isolate(2);
        cluster.propose(2, later, "never committed");
        let store = cluster.node(2).member.store.clone();
        while !store.memory.lock().kept.iter().any(|kept| {
            kept.entry.log_id.leader_id.term == u64::from(later.0.cast_unsigned())
                && kept.end > cluster.node(1).heard.image().end()
        }) {
            tokio::task::yield_now().await;
        }
        let disk = cluster.kill(2).await;
        cluster.switch.heal();
        // What another cluster of two would have done: here the log is simply put to a use of its own.
        let (mut observer, heard) = open(2, &disk);
        assert_eq!(is_member(&disk), Ok(Some(true)));
        assert!(!heard.marks().contains(&"never committed".into()), "it is not known to be committed");
        follow(&mut observer, &cluster, 1).await.expect("what differs is cut, or was sent");
        assert!(!heard.marks().contains(&"never committed".into()));
        assert!(heard.image().end() <= cluster.node(1).heard.image().end());
        let _ = (marks(&heard.events.lock()), LeaderEpoch::NONE);
    });
}

#[test]
fn observers_are_refused_by_another_cluster_and_survive_nonsense() {
    run(async {
        let cluster = Cluster::of([1]).await;
        cluster.commit("a").await;
        let disk = Arc::new(MemoryDisk::new());
        let heard = Heard::default();
        let other = Observer::open(start(9, disk, "other", heard.tell()));
        let mut other = other.expect("a fresh disk");
        let refused = follow(&mut other, &cluster, 1).await;
        assert!(
            matches!(&refused, Err(ObserveError::Refused(why)) if why.contains("cluster")),
            "{refused:?}"
        );

        let (mut observer, heard) = open(8, &MemoryDisk::new());
        let request = observer.next_request(&voter(1), Duration::ZERO).expect("small");
        let answer = cluster.node(1).member.handle(request).await;
        for at in 0..answer.len() {
            let _ = observer.on_answer(&answer[..at]);
            let mut flipped = answer.to_vec();
            flipped[at] ^= 1 << (at % 8);
            let (mut victim, _) = open(7, &MemoryDisk::new());
            let _ = victim.on_answer(&flipped);
        }
        follow(&mut observer, &cluster, 1).await.expect("it is as it was");
        assert_eq!(heard.marks(), ["a"]);
    });
}

#[test]
fn who_has_all_waits_for_what_is_new() {
    run(async {
        let cluster = Cluster::of([1]).await;
        cluster.commit("a").await;
        let (mut observer, heard) = open(9, &MemoryDisk::new());
        follow(&mut observer, &cluster, 1).await.expect("it is there");
        assert_eq!(observer.leader(), Some(BrokerId(1)));
        let member = cluster.node(1).member.clone();
        let long = Duration::from_secs(9);
        let request = observer.next_request(&voter(1), long).expect("small");
        let began = std::time::Instant::now();
        let asked = tokio::spawn(async move { member.handle(request).await });
        tokio::task::yield_now().await;
        cluster.commit("b").await;
        let answer = asked.await.expect("it is answered");
        assert!(began.elapsed() < long, "it was told when there was something");
        assert_eq!(observer.on_answer(&answer), Ok(Next::More));
        assert_eq!(heard.marks(), ["a", "b"]);
        // It waits no longer than it is asked to.
        let request = observer.next_request(&voter(1), Duration::from_millis(20)).expect("small");
        let answer = cluster.node(1).member.handle(request).await;
        assert_eq!(observer.on_answer(&answer), Ok(Next::CaughtUp));
    });
}

#[test]
fn who_does_not_want_a_vote_gets_none() {
    run(async {
        let cluster = Cluster::of([1]).await;
        cluster.commit("a").await;
        let heard = Heard::default();
        let broker = ObserverStart {
            may_vote: false,
            ..start(9, Arc::new(MemoryDisk::new()), "cluster", heard.tell())
        };
        let mut broker = Observer::open(broker).expect("a fresh disk");
        follow(&mut broker, &cluster, 1).await.expect("it is there");
        let member = &cluster.node(1).member;
        let refused = member.add_voter(voter(9), Duration::from_secs(10)).await;
        assert_eq!(refused, Err(ChangeError::MayNotVote(BrokerId(9))));
        assert_eq!(member.status().observers[0].address, "node-9:1");
    });
}

#[test]
fn who_is_called_and_then_forgotten_goes_back_to_reading() {
    run(async {
        let mut cluster = Cluster::of([1]).await;
        cluster.commit("a").await;
        let (observer, _) = open(2, &MemoryDisk::new());
        let called = |directory| {
            let home = voter(1).home();
            let called = message::encode_request(
                &Addressed { cluster: "cluster".into(), from: 1, home, to: 2, directory },
                &Request::Append(AppendEntriesRequest {
                    vote: Vote::new_committed(1, 1),
                    prev_log_id: None,
                    entries: Vec::new(),
                    leader_commit: None,
                }),
            );
            called.expect("small")
        };
        let known = called(voter(2).directory);
        assert!(crate::is_call(&known, "cluster", &voter(2)));
        assert!(!crate::is_call(&known, "other", &voter(2)));
        assert!(!crate::is_call(&known, "cluster", &voter(3)));
        for other in [Uuid::ZERO, Uuid([9; 16])] {
            let is_call = crate::is_call(&called(other), "cluster", &voter(2));
            assert!(!is_call, "one with another disk may be meant");
        }
        let asks = observer.next_request(&voter(2), Duration::ZERO).expect("small");
        assert!(!crate::is_call(&asks, "cluster", &voter(2)));
        // Nobody adds it: it is told in a while.
        cluster.start(2, MemoryDisk::new()).await.expect("a fresh disk");
        let left = cluster.node(2).member.left();
        tokio::time::timeout(Duration::from_secs(20), left).await.expect("nobody speaks to it");
        let stays = cluster.node(1).member.left();
        assert!(tokio::time::timeout(Duration::from_secs(3), stays).await.is_err(), "who votes stays");
    });
}

#[test]
fn a_leader_that_no_majority_hears_does_not_keep_those_who_follow() {
    run(async {
        let cluster = Cluster::of([1, 2, 3]).await;
        cluster.commit("before").await;
        let (old, before) = cluster.leader().await;
        let (mut observer, heard) = open(9, &MemoryDisk::new());
        follow(&mut observer, &cluster, old).await.expect("it is there");
        // The voters do not reach it; who follows does.
        cluster.switch.isolate(old);
        let others: Vec<i32> = (1..=3).filter(|id| *id != old).collect();
        let (new, epoch) = cluster.leader_of(&others, before).await;
        let began = std::time::Instant::now();
        while observer.leader().is_some() {
            assert!(began.elapsed() < super::nodes::PATIENCE, "it says that it leads");
            // It keeps the question for a while, as it has nothing new.
            let request = observer.next_request(&voter(old), Duration::from_millis(50)).expect("it may ask");
            let answer = cluster.node(old).member.handle(request).await;
            observer.on_answer(&answer).expect("it answers");
        }
        follow(&mut observer, &cluster, new).await.expect("it is there");
        assert_eq!(observer.leader(), Some(BrokerId(new)));
        assert!(heard.events.lock().contains(&QuorumEvent::Following { epoch, leader: Some(BrokerId(new)) }));
    });
}
