//! A quorum of three.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::{BrokerId, LeaderEpoch};
use controller::QuorumEvent;
use storage::memory::MemoryDisk;

use super::nodes::{Cluster, run};
use crate::SnapshotEvery;

fn others(of: i32) -> Vec<i32> {
    [1, 2, 3].into_iter().filter(|id| *id != of).collect()
}

#[test]
fn one_leads_and_all_are_told_the_same() {
    run(async {
        let cluster = Cluster::of([1, 2, 3]).await;
        let (leader, epoch) = cluster.leader().await;
        for i in 0..50 {
            cluster.propose(leader, epoch, &format!("m{i:02}"));
        }
        for node in cluster.nodes.values() {
            node.heard.marked("m49").await;
            let marks = node.heard.marks();
            assert!(marks.is_sorted() && marks.len() == 50, "in the order they were proposed: {marks:?}");
        }
        cluster.check_agreement();
        for id in others(leader) {
            let heard = &cluster.node(id).heard;
            let said = QuorumEvent::Following { epoch, leader: Some(BrokerId(leader)) };
            heard.until("who leads", |events| events.contains(&said).then_some(())).await;
        }
        let status = cluster.node(leader).member.status();
        assert_eq!((status.leader, status.epoch), (Some(BrokerId(leader)), epoch));
        // What the others have is known once they have said so.
        let ends = || cluster.node(leader).member.status().voters.into_iter().map(|voter| voter.log_end);
        let began = Instant::now();
        while !ends().all(|end| end == Some(status.high_watermark)) {
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", ends().collect::<Vec<_>>());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn who_comes_back_while_the_same_one_leads_is_told_who() {
    run(async {
        let mut cluster = Cluster::of([1, 2, 3]).await;
        cluster.commit("before").await;
        let (leader, epoch) = cluster.leader().await;
        for id in others(leader) {
            cluster.node(id).heard.marked("before").await;
            let disk = cluster.kill(id).await;
            cluster.start(id, disk).await.expect("it is whole");
            let said = QuorumEvent::Following { epoch, leader: Some(BrokerId(leader)) };
            let heard = &cluster.node(id).heard;
            heard.until("who leads", |events| events.contains(&said).then_some(())).await;
        }
        assert_eq!(cluster.leader().await, (leader, epoch), "nobody else was elected");
    });
}

#[test]
fn the_loss_of_the_leader_is_settled_and_it_comes_back() {
    run(async {
        let mut cluster = Cluster::of([1, 2, 3]).await;
        cluster.commit("before").await;
        let mut worst = Duration::ZERO;
        for round in 0..5 {
            let (leader, epoch) = cluster.leader().await;
            for node in cluster.nodes.values() {
                let last = cluster.node(leader).heard.marks().last().cloned().expect("there is one");
                node.heard.marked(&last).await;
            }
            let began = Instant::now();
            cluster.switch.isolate(leader);
            let (_, later) = cluster.leader_of(&others(leader), epoch).await;
            worst = worst.max(began.elapsed());
            assert!(later > epoch);
            let disk = cluster.kill(leader).await;
            cluster.switch.heal();
            cluster.commit(&format!("round {round}")).await;
            cluster.start(leader, disk).await.expect("it is whole");
            cluster.node(leader).heard.marked(&format!("round {round}")).await;
            cluster.check_agreement();
        }
        assert!(worst < Duration::from_millis(2_500), "{worst:?}, on a machine that others use, too");
    });
}

#[test]
fn what_a_deposed_leader_proposes_is_never_committed() {
    run(async {
        let cluster = Cluster::of([1, 2, 3]).await;
        cluster.commit("before").await;
        let (leader, epoch) = cluster.leader().await;
        for id in others(leader) {
            cluster.node(id).heard.marked("before").await;
        }
        cluster.switch.isolate(leader);
        cluster.propose(leader, epoch, "lost");
        let (next, later) = cluster.leader_of(&others(leader), epoch).await;
        cluster.propose(next, later, "kept");
        cluster.node(next).heard.marked("kept").await;
        cluster.propose(leader, epoch, "lost, too");
        cluster.switch.heal();
        cluster.node(leader).heard.marked("kept").await;
        assert_eq!(cluster.node(leader).heard.led(), None, "it was told that it follows");
        cluster.propose(leader, epoch, "and this");
        cluster.propose(next, epoch, "nor in an epoch of another");
        cluster.commit("last").await;
        for node in cluster.nodes.values() {
            node.heard.marked("last").await;
            let marks = node.heard.marks();
            assert_eq!(marks, ["before", "kept", "last"], "node {}", node.id);
        }
        cluster.check_agreement();
    });
}

#[test]
fn messages_are_lost_and_come_out_of_order() {
    run(async {
        let cluster = Cluster::of([1, 2, 3]).await;
        cluster.leader().await;
        cluster.switch.loss.store(10, Ordering::Relaxed);
        cluster.switch.delay_ms.store(40, Ordering::Relaxed);
        for i in 0..30 {
            cluster.commit(&format!("m{i}")).await;
        }
        cluster.switch.loss.store(0, Ordering::Relaxed);
        cluster.switch.delay_ms.store(0, Ordering::Relaxed);
        cluster.commit("end").await;
        for node in cluster.nodes.values() {
            node.heard
                .until("the end", |events| {
                    super::nodes::marks(events).iter().any(|mark| mark.starts_with("end")).then_some(())
                })
                .await;
        }
        cluster.check_agreement();
    });
}

#[test]
fn a_node_that_was_cut_off_disturbs_nobody() {
    run(async {
        let cluster = Cluster::of([1, 2, 3]).await;
        cluster.commit("before").await;
        let (leader, epoch) = cluster.leader().await;
        let cut = others(leader)[0];
        cluster.switch.isolate(cut);
        // Long enough to stand for election several times over.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        cluster.switch.heal();
        cluster.commit("after").await;
        cluster.node(cut).heard.marked("after").await;
        assert_eq!(cluster.leader().await, (leader, epoch), "it goes on as before");
    });
}

#[test]
fn all_come_back_from_their_disks() {
    run(async {
        let mut cluster = Cluster::of([1, 2, 3]).await;
        for i in 0..10 {
            cluster.commit(&format!("m{i}")).await;
        }
        let (_, epoch) = cluster.leader().await;
        let mut disks = Vec::new();
        for id in [1, 2, 3] {
            disks.push((id, cluster.kill(id).await));
        }
        for (id, disk) in disks {
            cluster.start(id, disk).await.expect("it is whole");
        }
        let (_, later) = cluster.leader().await;
        assert!(later > epoch);
        cluster.commit("after").await;
        let expected: Vec<_> = (0..10).map(|i| format!("m{i}")).chain(["after".into()]).collect();
        for node in cluster.nodes.values() {
            node.heard.marked("after").await;
            assert_eq!(node.heard.marks(), expected);
        }
        cluster.check_agreement();
    });
}

#[test]
fn who_was_away_for_long_gets_a_snapshot() {
    run(async {
        let mut cluster = Cluster::empty([1, 2, 3]);
        cluster.every = SnapshotEvery { bytes: u64::MAX, batches: 20, age: None };
        for id in [1, 2, 3] {
            cluster.start(id, MemoryDisk::new()).await.expect("a fresh disk");
        }
        cluster.commit("m000").await;
        let (leader, _) = cluster.leader().await;
        let away = others(leader)[0];
        let disk = cluster.kill(away).await;
        for i in 1..100 {
            cluster.commit(&format!("m{i:03}")).await;
        }
        let (leader, _) = cluster.leader().await;
        let began = Instant::now();
        while cluster.node(leader).member.store.memory.lock().first < 60 {
            assert!(began.elapsed() < Duration::from_secs(10), "nothing is purged");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cluster.start(away, disk).await.expect("it is whole");
        let heard = cluster.node(away).heard.clone();
        heard.marked("m099").await;
        assert!(heard.events.lock().iter().any(|event| matches!(event, QuorumEvent::Snapshot(_))));
        cluster.commit("after").await;
        heard.marked("after").await;
        let image = cluster.node(leader).heard.image();
        assert_eq!(heard.image().features(), image.features());
        // It stands on its own from then on.
        let disk = cluster.kill(away).await;
        cluster.start(away, disk).await.expect("it is whole");
        cluster.commit("again").await;
        cluster.node(away).heard.marked("again").await;
        cluster.check_agreement();
    });
}

#[test]
fn the_lead_is_handed_over() {
    run(async {
        let cluster = Cluster::of([1, 2, 3]).await;
        cluster.commit("before").await;
        let (leader, epoch) = cluster.leader().await;
        let next = others(leader)[0];
        cluster.node(leader).member.transfer_leader(BrokerId(next)).await.expect("it is there");
        let (now, later) = cluster.leader_of(&[1, 2, 3], epoch).await;
        assert_eq!(now, next);
        assert!(later > epoch && later > LeaderEpoch::NONE);
        cluster.commit("after").await;
    });
}

/// How long a leader may be silent where nobody is told that it is gone.
const SILENCE: Duration = Duration::from_secs(6);

/// Three nodes that have patience.
async fn patient() -> Cluster {
    let mut cluster = Cluster::empty([1, 2, 3]);
    cluster.timing.election_timeout = SILENCE;
    for id in [3, 2, 1] {
        cluster.start(id, MemoryDisk::new()).await.expect("a fresh disk");
    }
    cluster.commit("before").await;
    cluster
}

#[test]
fn the_successor_of_a_leader_that_is_gone_is_elected_at_once() {
    run(async {
        let mut cluster = patient().await;
        let (leader, epoch) = cluster.leader().await;
        cluster.kill(leader).await;
        let began = Instant::now();
        let told = |id: i32| {
            let member = cluster.node(id).member.clone();
            tokio::spawn(async move { member.on_leader_gone(BrokerId(leader)).await })
        };
        let others = others(leader);
        let told = [told(others[0]), told(others[1])];
        let (_, later) = cluster.leader_of(&others, epoch).await;
        // Before, they would not even have taken it for silent.
        assert!(later > epoch && began.elapsed() < SILENCE / 2, "{:?}", began.elapsed());
        for told in told {
            told.await.expect("it does not panic");
        }
        cluster.commit("after").await;
        cluster.check_agreement();
    });
}

#[test]
fn a_leader_that_one_voter_takes_for_gone_leads_on() {
    run(async {
        let cluster = patient().await;
        let (leader, epoch) = cluster.leader().await;
        let [wrong, other] = others(leader)[..] else { unreachable!("three without one") };
        cluster.node(wrong).member.on_leader_gone(BrokerId(leader)).await;
        // Nor does one go that never led.
        cluster.node(other).member.on_leader_gone(BrokerId(wrong)).await;
        cluster.commit("after").await;
        assert_eq!(cluster.leader().await, (leader, epoch));
    });
}

#[test]
fn a_leader_that_reaches_one_voter_of_four_lets_it_elect_another() {
    run(async {
        let cluster = Cluster::of([1, 2, 3, 4]).await;
        cluster.commit("before").await;
        let (leader, epoch) = cluster.leader().await;
        let others: Vec<i32> = (1..=4).filter(|id| *id != leader).collect();
        cluster.switch.part(leader, &others[1..]);
        let (_, later) = cluster.leader_of(&others, epoch).await;
        assert!(later > epoch);
        cluster.switch.heal();
        cluster.commit("after").await;
        for node in cluster.nodes.values() {
            node.heard.marked("after").await;
        }
        cluster.check_agreement();
    });
}
