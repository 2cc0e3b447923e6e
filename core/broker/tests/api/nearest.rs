//! Readers in racks, and the replicas that are near them (KIP-392).

use base::{BrokerId, ErrorCode, Uuid};
use controller::RegisterBroker;
use records::BatchOptions;
use vltava_broker::call::Peer;
use wire::messages::fetch::FetchRequest;

use crate::requests::{fetch_of, produced};
use crate::world::{World, batch, registration};

const RACK_AWARE: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";

/// The node in rack `a` leads; brokers 2 and 3 in rack `b` follow, and 2 is in sync. One record is there.
fn world(selector: &str) -> World {
    let mut world = World::with(&[("broker.rack", "a"), ("replica.selector.class", selector)]);
    world.topic("t", 1, &[("flush.policy", "os")]);
    for id in [2, 3] {
        world.join(RegisterBroker { rack: Some("b".into()), ..registration(BrokerId(id), 7, false) });
    }
    in_sync(&mut world, &[1, 2]);
    assert_eq!(produced(&mut world, "t", &batch(&["x"], &BatchOptions::default())), (ErrorCode::None, 0));
    world
}

fn in_sync(world: &mut World, isr: &[i32]) {
    let ids = |ids: &[i32]| Some(ids.iter().map(|id| BrokerId(*id)).collect());
    world.change("t", 0, |change| (change.replicas, change.isr) = (ids(&[1, 2, 3]), ids(isr)));
}

/// A follower asks its leader for what comes at an offset, and has what is from `start` on.
fn follow(world: &mut World, id: i32, start: i64, from: i64) {
    let mut request = FetchRequest { replica_id: id, ..fetch_of("t", Uuid::ZERO, from) };
    request.topics[0].partitions[0].log_start_offset = start;
    world.session.peer = Peer::Node(BrokerId(id));
    world.ask(12, &request, |response| {
        let part = &response.responses[0].partitions[0];
        assert_eq!((part.error_code, part.preferred_read_replica), (0, -1), "followers follow the leader");
    });
    world.session.peer = Peer::Client;
}

/// Whom a reader is sent to, and whether it got records all the same.
fn read(world: &mut World, version: i16, rack_id: &str, from: i64) -> (i32, bool) {
    let request = FetchRequest { rack_id, ..fetch_of("t", Uuid::ZERO, from) };
    world.ask(version, &request, |response| {
        let part = &response.responses[0].partitions[0];
        assert_eq!(part.error_code, 0);
        let has_records = part.records.as_ref().is_some_and(|records| !records.is_empty());
        (part.preferred_read_replica, has_records)
    })
}

#[test]
fn a_reader_is_sent_to_a_replica_in_its_rack_that_has_what_it_wants() {
    let mut world = world(RACK_AWARE);
    assert_eq!(read(&mut world, 12, "b", 0), (-1, false), "nobody has said yet how far it is");
    follow(&mut world, 2, 0, 0);
    follow(&mut world, 3, 0, 1);
    assert_eq!(read(&mut world, 12, "b", 0), (2, false), "3 has more, and is not in sync");
    assert_eq!(read(&mut world, 11, "b", 0), (2, false));
    assert_eq!(read(&mut world, 12, "b", 1), (-1, false), "2 does not have that yet");
    in_sync(&mut world, &[1, 2, 3]);
    assert_eq!(read(&mut world, 12, "b", 0), (3, false), "it has more");
    follow(&mut world, 2, 0, 1);
    for near_nobody in ["", "a", "c"] {
        assert_eq!(read(&mut world, 12, near_nobody, 0), (-1, true), "{near_nobody:?}");
    }
    assert_eq!(read(&mut world, 10, "", 0), (-1, true), "it cannot say where it is");
}

#[test]
fn nobody_is_sent_to_who_could_not_serve_it() {
    let mut world = world(RACK_AWARE);
    follow(&mut world, 2, 1, 1);
    assert_eq!(read(&mut world, 12, "b", 0), (-1, true), "its log starts behind that");
    follow(&mut world, 2, 0, 1);
    assert_eq!(read(&mut world, 12, "b", 0), (2, false));
    world.fence(2);
    assert_eq!(read(&mut world, 12, "b", 0), (-1, true), "it is not alive");
}

#[test]
fn without_a_selector_everybody_reads_from_the_leader() {
    for selector in ["", "org.apache.kafka.common.replica.LeaderSelector"] {
        let mut world = world(selector);
        follow(&mut world, 2, 0, 1);
        assert_eq!(read(&mut world, 12, "b", 0), (-1, true));
    }
}

#[test]
fn g11_a_session_is_told_each_time_whom_to_read_from() {
    let mut world = world(RACK_AWARE);
    follow(&mut world, 2, 0, 1);
    let mut request = FetchRequest { rack_id: "b", max_wait_ms: 500, ..fetch_of("t", Uuid::ZERO, 0) };
    request.session_epoch = 0;
    request.session_id = world.ask(12, &request, |response| {
        assert_eq!(response.responses[0].partitions[0].preferred_read_replica, 2);
        response.session_id
    });
    assert_ne!(request.session_id, 0);
    request.topics.clear();
    for session_epoch in 1..4 {
        request.session_epoch = session_epoch;
        world.ask(12, &request, |response| {
            let part = &response.responses[0].partitions[0];
            assert_eq!((part.preferred_read_replica, part.high_watermark), (2, 1));
        });
    }
}

#[test]
fn a_replica_near_a_reader_says_so_when_it_does_not_have_it_yet() {
    let mut world = world(RACK_AWARE);
    let id = BrokerId(2);
    world.change("t", 0, |change| change.leader = Some(id));
    let ask = |world: &mut World, version, from| {
        let request =
            FetchRequest { rack_id: if version > 10 { "a" } else { "" }, ..fetch_of("t", Uuid::ZERO, from) };
        world.ask(version, &request, |response| response.responses[0].partitions[0].error_code)
    };
    assert_eq!(ask(&mut world, 12, 2), ErrorCode::OffsetNotAvailable.code());
    assert_eq!(ask(&mut world, 12, 1), 0, "it waits for what comes there");
    assert_eq!(ask(&mut world, 10, 0), ErrorCode::NotLeaderOrFollower.code(), "it must ask the leader");
}
