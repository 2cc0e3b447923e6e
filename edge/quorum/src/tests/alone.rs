//! A quorum of one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{BrokerId, LeaderEpoch, Now, Offset, TimestampMs};
use controller::QuorumEvent;
use metadata::Image;
use records::{BatchHeader, HEADER_BYTES};
use storage::Log;
use storage::disk::Disk;
use storage::memory::MemoryDisk;

use super::nodes::{Cluster, PATIENCE, mark, marks, run, voter};
use crate::{ChangeError, METADATA_TOPIC, OpenError, SnapshotEvery, Voter, batch, open};

const NOW: Now = Now::new(Duration::ZERO, TimestampMs(1));

fn dir() -> PathBuf {
    Path::new("data").join(format!("{METADATA_TOPIC}-0"))
}

#[test]
fn who_is_alone_leads_at_once() {
    run(async {
        let began = Instant::now();
        let cluster = Cluster::of([1]).await;
        let (id, epoch) = cluster.leader().await;
        cluster.commit("a").await;
        let took = began.elapsed();
        assert!(took < Duration::from_millis(200), "{took:?} to the first commit, without optimisation");
        assert_eq!((id, epoch), (1, LeaderEpoch(1)));
        let status = cluster.node(1).member.status();
        assert_eq!((status.leader, status.voters.len()), (Some(BrokerId(1)), 1));
        assert_eq!(status.voters[0].log_end, Some(status.high_watermark));
    });
}

#[test]
fn what_was_committed_is_there_after_a_restart_and_each_life_leads_an_epoch_of_its_own() {
    run(async {
        let mut cluster = Cluster::of([1]).await;
        for name in ["a", "b", "c"] {
            cluster.commit(name).await;
        }
        let image = cluster.node(1).heard.image();
        let disk = cluster.kill(1).await;
        cluster.start(1, disk).await.expect("every commit was whole");
        let (_, epoch) = cluster.leader().await;
        assert!(epoch > LeaderEpoch(1), "{epoch}");
        cluster.commit("d").await;
        assert_eq!(cluster.node(1).heard.marks(), ["a", "b", "c", "d"]);
        assert_ne!(cluster.node(1).heard.image(), image);
        let disk = cluster.stop(1).await;
        cluster.start(1, disk).await.expect("it was closed");
        let heard = cluster.node(1).heard.clone();
        let before: Vec<_> = heard
            .until("leading", |events| {
                let at = events.iter().position(|event| matches!(event, QuorumEvent::Elected { .. }))?;
                Some(marks(&events[..at]))
            })
            .await;
        assert_eq!(before, ["a", "b", "c", "d"], "who leads was told of all before");
    });
}

#[test]
fn who_was_alone_can_be_found_once_it_listens() {
    run(async {
        let mut cluster = Cluster::empty([1]);
        let (disk, alone) = (MemoryDisk::new(), Voter { address: String::new(), ..voter(1) });
        let start = cluster.start_as(alone.clone(), disk.clone(), Arc::new(disk), vec![alone]);
        start.await.expect("a fresh disk");
        cluster.commit("a").await;
        assert_eq!(cluster.node(1).member.voters()[0].address, "");
        let disk = cluster.stop(1).await;
        cluster.start(1, disk).await.expect("it is whole");
        cluster.leader().await;
        let began = Instant::now();
        while cluster.node(1).member.voters()[0] != voter(1) {
            assert!(began.elapsed() < Duration::from_secs(10), "it is not put down where it listens");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cluster.start(2, MemoryDisk::new()).await.expect("a fresh disk");
        // It may be busy still with putting down where it listens.
        let added = loop {
            let added = cluster.node(1).member.add_voter(voter(2), Duration::from_secs(10)).await;
            if added != Err(ChangeError::InProgress) || began.elapsed() > PATIENCE {
                break added;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        added.expect("it is there");
    });
}

#[test]
fn snapshots_take_the_place_of_what_came_before() {
    run(async {
        let mut cluster = Cluster::empty([1]);
        cluster.every = SnapshotEvery { bytes: u64::MAX, batches: 20, age: None };
        cluster.start(1, MemoryDisk::new()).await.expect("a fresh disk");
        for i in 0..100 {
            cluster.commit(&format!("m{i:03}")).await;
        }
        let node = cluster.node(1);
        let began = Instant::now();
        while node.member.store.memory.lock().kept.len() > 60 {
            assert!(began.elapsed() < Duration::from_secs(10), "nothing is purged");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let names = node.disk.list(&dir()).expect("it is there");
        let checkpoints = names.iter().filter(|entry| entry.name.ends_with(".checkpoint")).count();
        assert_eq!(checkpoints, 1, "{names:?}");
        let image = node.heard.image();
        let disk = cluster.kill(1).await;
        cluster.start(1, disk.copy()).await.expect("it is whole");
        cluster.leader().await;
        let heard = cluster.node(1).heard.clone();
        assert!(matches!(heard.events.lock()[0], QuorumEvent::Snapshot(_)));
        assert_eq!(heard.image().features(), image.features());
        cluster.commit("after").await;
        cluster.kill(1).await;

        // Without its snapshot the log is not all there, and neither with half of one.
        let names = disk.list(&dir()).expect("it is there");
        let snapshot = names.iter().find(|entry| entry.name.ends_with(".checkpoint")).expect("there is one");
        let path = dir().join(&snapshot.name);
        let bytes = disk.contents(&path).unwrap_or_default();
        for damaged in [None, Some(bytes[..bytes.len() / 2].to_vec())] {
            let copy = disk.copy();
            match damaged {
                None => copy.remove_file(&path).expect("a disk in memory"),
                Some(bytes) => copy.put(&path, bytes),
            }
            let refused = cluster.start(1, copy).await;
            assert!(matches!(refused, Err(OpenError::SnapshotLost { .. })), "{refused:?}");
        }
    });
}

#[test]
fn without_its_vote_a_node_does_not_start() {
    run(async {
        let mut cluster = Cluster::of([1]).await;
        cluster.commit("a").await;
        let disk = cluster.kill(1).await;
        let vote = dir().join("quorum-state");
        let lost = disk.copy();
        lost.remove_file(&vote).expect("a disk in memory");
        assert!(matches!(cluster.start(1, lost).await, Err(OpenError::VoteLost { .. })));
        let torn = disk.copy();
        torn.put(&vote, b"{\"leaderId\":1,".to_vec());
        assert!(matches!(cluster.start(1, torn).await, Err(OpenError::VoteLost { .. })));
        assert!(
            disk.contents(&vote).is_some_and(|bytes| bytes.starts_with(b"{\"leaderId\":1,\"leaderEpoch\":1"))
        );
    });
}

#[test]
fn the_first_error_of_the_disk_stops_it() {
    run(async {
        let cluster = Cluster::of([1]).await;
        cluster.commit("a").await;
        let (_, epoch) = cluster.leader().await;
        let node = cluster.node(1);
        node.disk.fail_once("sync", 0);
        cluster.propose(1, epoch, "b");
        let stopped = node.member.stopped().await;
        assert!(stopped.to_string().contains("told to fail"), "{stopped}");
        cluster.propose(1, epoch, "c");
        assert_eq!(node.heard.marks(), ["a"]);
    });
}

#[test]
fn the_log_of_a_node_that_was_alone_before_there_was_a_quorum_is_taken_over() {
    let disk = MemoryDisk::new();
    let names = ["a", "b", "c"];
    let mut image = Image::default();
    let mut bytes = Vec::new();
    for (base, name) in (0..).zip(names) {
        // It counted its lives as epochs, and one record a commit.
        let epoch = LeaderEpoch(i32::from(base > 0));
        bytes.extend(batch_of(Offset(base), epoch, name));
        image = image.after(&[mark(name)], Offset(base + 1)).0;
    }
    let kept = Log::create(Arc::new(disk.clone()), dir(), open::METADATA_TOPIC_ID, open::settings(), NOW);
    drop(kept.expect("a fresh disk"));
    disk.put(&dir().join("00000000000000000000.log"), bytes);
    run(async move {
        let mut cluster = Cluster::empty([1]);
        cluster.start(1, disk).await.expect("it is whole");
        let (_, epoch) = cluster.leader().await;
        assert!(epoch > LeaderEpoch(0));
        let heard = cluster.node(1).heard.clone();
        let QuorumEvent::Snapshot(first) = heard.events.lock()[0].clone() else { panic!("no snapshot") };
        assert_eq!(first, image);
        cluster.commit("after").await;
        let disk = cluster.kill(1).await;
        cluster.start(1, disk).await.expect("it is whole");
        cluster.leader().await;
        assert_eq!(cluster.node(1).heard.marks().last().map(String::as_str), Some("after"));
        assert_eq!(cluster.node(1).member.status().voters.len(), 1);
    });
}

/// A mark as a batch at its place.
fn batch_of(base: Offset, epoch: LeaderEpoch, name: &str) -> Vec<u8> {
    let mut bytes = batch::propose(&[mark(name)], TimestampMs(1)).expect("it is small").to_vec();
    let mut header = BatchHeader::parse(&bytes).expect("it was just made");
    header.place(base, epoch);
    bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    bytes
}
