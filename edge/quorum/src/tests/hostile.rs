//! What nobody should send.

use base::{LeaderEpoch, Offset};
use bytes::Bytes;
use openraft::raft::{AppendEntriesRequest, VoteRequest};

use super::nodes::{Cluster, directory, run, voter};
use crate::message::{self, Addressed, Answered, Request};
use crate::read_request::ReadRequest;
use crate::types::{Entry, Types, Vote, log_id};

fn from(node: u64) -> Addressed {
    let home = voter(i32::try_from(node).expect("small")).home();
    Addressed { cluster: "cluster".into(), from: node, home, to: 1, directory: directory(1) }
}

async fn ask(cluster: &Cluster, who: &Addressed, request: &Request) -> Answered {
    let bytes = message::encode_request(who, request).expect("small");
    let answer = cluster.node(1).member.handle(bytes).await;
    message::decode_answer(&answer).expect("it is an answer").1
}

fn stood(term: u64, node: u64) -> Request {
    Request::Vote(VoteRequest::new(Vote::new(term, node), None))
}

#[test]
fn strangers_are_refused() {
    run(async {
        let cluster = Cluster::of([1]).await;
        cluster.commit("before").await;
        let (_, epoch) = cluster.leader().await;
        for who in [
            Addressed { cluster: "another".into(), ..from(2) },
            Addressed { to: 2, ..from(2) },
            Addressed { from: 1, ..from(2) },
            from(2),
        ] {
            let answer = ask(&cluster, &who, &stood(1_000_000, who.from)).await;
            assert!(!matches!(answer, Answered::Well(_)), "{who:?}: {answer:?}");
        }
        cluster.commit("after").await;
        assert_eq!(cluster.leader().await, (1, epoch));
    });
}

#[test]
fn no_bytes_stop_a_node() {
    run(async {
        let cluster = Cluster::of([1, 2, 3]).await;
        cluster.commit("before").await;
        for node in cluster.nodes.values() {
            node.heard.marked("before").await;
        }
        let entries: Vec<Entry> = cluster.node(1).member.store.memory.lock().range(0..100, usize::MAX);
        let last = entries.last().map(|entry| entry.log_id);
        let vote = Vote::new_committed(1, 2);
        let requests = [
            stood(2, 2),
            Request::PreVote(VoteRequest::new(Vote::new(2, 2), last)),
            Request::Append(AppendEntriesRequest::<Types> {
                vote,
                prev_log_id: None,
                entries: entries.clone(),
                leader_commit: last,
            }),
            Request::Read(ReadRequest {
                from: Offset::ZERO,
                epoch: LeaderEpoch(0),
                bytes_max: 1_000,
                wait_max_ms: 1,
                may_vote: true,
            }),
            Request::Snapshot(message::SnapshotPart {
                vote,
                id: crate::snapshot::SnapshotId { offset: Offset(9), epoch: LeaderEpoch(1) },
                position: 0,
                total: 3,
                bytes: Bytes::from_static(b"abc"),
            }),
        ];
        // Of an elected node that sends nonsense an honest one may lose its place, but not its mind.
        for request in &requests[1..] {
            let bytes = message::encode_request(&from(9), request).expect("small");
            for len in 0..bytes.len() {
                cluster.node(1).member.handle(bytes.slice(..len)).await;
            }
            for at in 0..bytes.len() {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= 1 << (at % 8);
                cluster.node(1).member.handle(flipped.into()).await;
                let _ = message::decode_answer(&bytes[at..]);
            }
        }
        cluster.commit("after").await;
        cluster
            .node(1)
            .heard
            .until("it goes on", |events| {
                super::nodes::marks(events).iter().any(|mark| mark.starts_with("after")).then_some(())
            })
            .await;
        cluster.check_agreement();
    });
}

#[test]
fn what_contradicts_the_committed_is_refused() {
    run(async {
        let cluster = Cluster::of([1, 2, 3]).await;
        cluster.commit("before").await;
        for node in cluster.nodes.values() {
            node.heard.marked("before").await;
        }
        let committed = cluster.node(1).member.store.memory.lock().committed.expect("something is");
        let other = log_id(committed.leader_id.term + 5, committed.index);
        let append = AppendEntriesRequest::<Types> {
            vote: Vote::new_committed(other.leader_id.term, 2),
            prev_log_id: Some(other),
            entries: Vec::new(),
            leader_commit: Some(other),
        };
        let answer = ask(&cluster, &from(2), &Request::Append(append)).await;
        assert!(matches!(&answer, Answered::Refused(why) if why.contains("contradicts")), "{answer:?}");
        cluster.commit("after").await;
    });
}
