//! Groups through their APIs, from the search for a coordinator to the last member that leaves.

use std::sync::Arc;
use std::time::Duration;

use base::{ErrorCode, Now};
use controller::{ControllerError, Reply};
use metadata::ConfigResource;
use vltava_broker::groups::OFFSETS_TOPIC;
use wire::messages::delete_groups::DeleteGroupsRequest;
use wire::messages::describe_groups::DescribeGroupsRequest;
use wire::messages::find_coordinator::FindCoordinatorRequest;
use wire::messages::heartbeat::HeartbeatRequest;
use wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use wire::messages::list_groups::ListGroupsRequest;
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse,
};
use wire::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};

use crate::requests::metadata_of;
use crate::world::{Reaction, World, batch, read};

/// A world that has a topic and the topic of committed offsets, as the first member makes it.
fn world() -> World {
    let mut world = World::new();
    world.topic("orders", 2, &[]);
    let find = FindCoordinatorRequest { coordinator_keys: vec!["billing"], ..Default::default() };
    world.ask(4, &find, |response| {
        let found = &response.coordinators[0];
        assert_eq!((found.error_code, found.node_id, found.port), (0, 1, 9092), "{response:?}");
    });
    world
}

fn join<'a>(member_id: &'a str) -> JoinGroupRequest<'a> {
    JoinGroupRequest {
        group_id: "billing",
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        member_id,
        protocol_type: "consumer",
        protocols: vec![JoinGroupRequestProtocol { name: "range", metadata: b"what it reads" }],
        ..Default::default()
    }
}

/// A member that is alone in its group and has its assignment: its id.
fn alone(world: &mut World) -> String {
    let member = world.ask(9, &join(""), |response| {
        assert_eq!(response.error_code, ErrorCode::MemberIdRequired.code());
        response.member_id.to_owned()
    });
    let shard = world.shard_of("billing");
    let parked = world.request(9, &join(&member)).parked();
    world.now = shard.wait(world.now, world.image());
    assert_eq!(world.bell.rang(), 1, "the answer is there");
    read::<JoinGroupRequest<'_>, _>(&world.look(parked).bytes(), 9, |response| {
        assert_eq!((response.error_code, response.generation_id), (0, 1), "{response:?}");
        assert_eq!((response.leader, response.members.len()), (&*member, 1));
        assert_eq!((response.protocol_name, response.protocol_type), (Some("range"), Some("consumer")));
    });
    let assignments = vec![SyncGroupRequestAssignment { member_id: &member, assignment: b"both" }];
    let sync = SyncGroupRequest {
        group_id: "billing",
        generation_id: 1,
        member_id: &member,
        protocol_type: Some("consumer"),
        protocol_name: Some("range"),
        assignments,
        ..Default::default()
    };
    let parked = world.request(5, &sync).parked();
    assert_eq!(world.bell.rang(), 0, "it is not committed yet");
    shard.commit(world.now);
    assert_eq!(world.bell.rang(), 1);
    read::<SyncGroupRequest<'_>, _>(&world.look(parked).bytes(), 5, |response| {
        assert_eq!((response.error_code, response.assignment), (0, b"both".as_slice()));
    });
    member
}

fn commit<'a>(member_id: &'a str, generation: i32, offset: i64) -> OffsetCommitRequest<'a> {
    OffsetCommitRequest {
        group_id: "billing",
        generation_id_or_member_epoch: generation,
        member_id,
        topics: vec![OffsetCommitRequestTopic {
            name: "orders",
            partitions: vec![OffsetCommitRequestPartition {
                partition_index: 1,
                committed_offset: offset,
                committed_leader_epoch: 3,
                committed_metadata: Some("noted"),
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn who_comes_while_the_log_is_read_is_answered_when_it_is() {
    let mut world = world();
    let shard = world.shard_of("billing");
    let joined = |answer: Reaction| {
        let bytes = answer.bytes();
        read::<JoinGroupRequest<'_>, _>(&bytes, 9, |response| {
            ErrorCode::from_i16(response.error_code).unwrap()
        })
    };
    let heartbeat = HeartbeatRequest { group_id: "billing", generation_id: 1, ..Default::default() };
    let asked = OffsetFetchRequestGroup { group_id: "billing", topics: Some(vec![]), ..Default::default() };
    let fetch = OffsetFetchRequest { groups: vec![asked], ..Default::default() };
    shard.begin_load(world.now);
    let (joins, fetches) = (world.request(9, &join("")).parked(), world.request(8, &fetch).parked());
    let code = world.ask(4, &heartbeat, |response| response.error_code);
    assert_eq!(code, ErrorCode::None.code(), "clients expect nothing else of one that leads the group");
    let sync = SyncGroupRequest { group_id: "billing", generation_id: 1, ..Default::default() };
    let code = world.ask(5, &sync, |response| response.error_code);
    assert_eq!(code, ErrorCode::RebalanceInProgress.code(), "it joins anew, and waits there");
    let joins = world.look(joins).parked();
    shard.end_load(world.now);
    assert_eq!(world.bell.rang(), 1);
    assert_eq!(joined(world.look(joins)), ErrorCode::MemberIdRequired);
    read::<OffsetFetchRequest<'_>, _>(&world.look(fetches).bytes(), 8, |response| {
        assert_eq!(response.groups[0].error_code, 0);
    });
    // A long log is told of.
    shard.begin_load(world.now);
    let joins = world.request(9, &join("")).parked();
    let is_over = Duration::from_secs(1);
    assert_eq!(joins.deadline(), world.now.elapsed + is_over);
    world.now = Now::new(world.now.elapsed + is_over, world.now.wall);
    assert_eq!(joined(world.look(joins)), ErrorCode::CoordinatorLoadInProgress);
    // And so is that another broker leads by now.
    let joins = world.request(9, &join("")).parked();
    shard.unload(world.now);
    assert_eq!(world.bell.rang(), 1);
    assert_eq!(joined(world.look(joins)), ErrorCode::NotCoordinator);
}

/// Three groups of three shards, one of which nobody wrote to, are told in one answer, in the order of the question. It
/// waits for what the one says to be committed.
#[test]
fn several_groups_are_told_what_they_committed_in_one_answer() {
    let mut world = world();
    let shards = ["billing", "shipping", "nobody"].map(|group| world.shard_of(group));
    assert!(!Arc::ptr_eq(&shards[0], &shards[1]) && !Arc::ptr_eq(&shards[1], &shards[2]));
    for (group_id, offset) in [("billing", 7), ("shipping", 9)] {
        world.request(9, &OffsetCommitRequest { group_id, ..commit("", -1, offset) }).parked();
    }
    shards[0].commit(world.now);
    let group = |group_id| {
        let topic =
            OffsetFetchRequestTopics { name: "orders", partition_indexes: vec![0, 1], ..Default::default() };
        OffsetFetchRequestGroup { group_id, topics: Some(vec![topic]), ..Default::default() }
    };
    let request = OffsetFetchRequest {
        groups: vec![group("shipping"), group("nobody"), group("billing")],
        ..Default::default()
    };
    let parked = world.request(9, &request).parked();
    let parked = world.look(parked).parked();
    shards[1].commit(world.now);
    read::<OffsetFetchRequest<'_>, _>(&world.look(parked).bytes(), 9, |response| {
        let told = response.groups.iter().map(|group| {
            let offsets = group.topics[0].partitions.iter().map(|it| it.committed_offset).collect();
            (group.group_id, group.error_code, offsets)
        });
        let told: Vec<(&str, i16, Vec<i64>)> = told.collect();
        let expected =
            [("shipping", 0, vec![-1, 9]), ("nobody", 0, vec![-1, -1]), ("billing", 0, vec![-1, 7])];
        assert_eq!(told, expected);
    });
}

/// Kafka answers `UNKNOWN_SERVER_ERROR` to what is more than `max.message.bytes` of its topic.
#[test]
fn a_commit_may_be_larger_than_what_others_may_write() {
    let mut world = world();
    world.topic("wide", 300, &[]);
    let noted = "n".repeat(4_096);
    let partition = |partition_index| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 7,
        committed_leader_epoch: -1,
        committed_metadata: Some(&noted),
    };
    let partitions = (0..300).map(partition).collect();
    let topic = OffsetCommitRequestTopic { name: "wide", partitions, ..Default::default() };
    let request = OffsetCommitRequest { topics: vec![topic], ..commit("", -1, 7) };
    let parked = world.request(9, &request).parked();
    world.shard_of("billing").commit(world.now);
    read::<OffsetCommitRequest<'_>, _>(&world.look(parked).bytes(), 9, |response| {
        let codes: Vec<i16> = response.topics[0].partitions.iter().map(|it| it.error_code).collect();
        assert_eq!(codes, [0; 300]);
    });
}

#[test]
fn a_coordinator_is_found_and_its_topic_made() {
    let mut world = World::new();
    let find = FindCoordinatorRequest { key: "billing", ..Default::default() };
    world.ask(3, &find, |response| {
        assert_eq!((response.error_code, response.node_id, response.host), (0, 1, "127.0.0.1"));
    });
    let topic = world.image().topic(OFFSETS_TOPIC).expect("it was made");
    assert_eq!(topic.partitions().len(), 50);
    // Whatever is chosen for others: what is committed is kept, and on media before it counts.
    let set = world.image().configs(&ConfigResource::Topic(topic.name.clone()));
    for (name, value) in [("cleanup.policy", "compact"), ("flush.policy", "ack")] {
        assert_eq!(set.get(name).map(String::as_str), Some(value), "{name}");
    }
    let several = FindCoordinatorRequest { coordinator_keys: vec!["a", "b", "a"], ..Default::default() };
    world.ask(6, &several, |response| {
        let keys: Vec<_> = response.coordinators.iter().map(|it| (it.key, it.error_code)).collect();
        assert_eq!(keys, [("a", 0), ("b", 0)], "each once");
    });
    for kind in [1, 2] {
        let other =
            FindCoordinatorRequest { key_type: kind, coordinator_keys: vec!["x"], ..Default::default() };
        world.ask(6, &other, |response| {
            let code = ErrorCode::CoordinatorNotAvailable.code();
            assert_eq!((response.coordinators[0].error_code, response.coordinators[0].node_id), (code, -1));
        });
    }
}

/// Somebody may ask for the topic by its name before anybody looks for a coordinator.
#[test]
fn the_topic_of_committed_offsets_is_the_same_if_it_is_made_on_demand() {
    let mut found = World::with(&[("num.partitions", "3"), ("offsets.topic.num.partitions", "7")]);
    found.ask(3, &FindCoordinatorRequest { key: "billing", ..Default::default() }, |_| ());
    let mut asked = World::with(&[("num.partitions", "3"), ("offsets.topic.num.partitions", "7")]);
    asked.request(9, &metadata_of(OFFSETS_TOPIC, true)).bytes();
    let made = |world: &World| {
        let topic = world.image().topic(OFFSETS_TOPIC).expect("it was made");
        let set = world.image().configs(&ConfigResource::Topic(topic.name.clone()));
        (topic.partitions().len(), set.clone())
    };
    assert_eq!(made(&asked), made(&found));
    assert_eq!(made(&asked).0, 7);
}

/// Two ask for the first time: the second is told that the topic is there before its broker has heard of it.
#[test]
fn who_was_not_the_first_waits_until_the_topic_is_known_here() {
    let exists = || Ok(Reply::CreateTopics(vec![Err(ControllerError::TopicExists(OFFSETS_TOPIC.into()))]));
    let find = FindCoordinatorRequest { key: "billing", ..Default::default() };
    let mut world = World::new();
    world.script(exists());
    let parked = world.request(3, &find).parked();
    let parked = world.look(parked).parked();
    assert!(parked.deadline() > world.now.elapsed);
    world.request(3, &find).bytes();
    let answer = world.look(parked).bytes();
    read::<FindCoordinatorRequest<'_>, _>(&answer, 3, |response| {
        assert_eq!((response.error_code, response.node_id), (0, 1))
    });

    // If it never comes, the client is not kept for ever.
    let mut world = World::new();
    world.script(exists());
    let mut parked = world.request(3, &find).parked();
    let began = world.now.elapsed;
    let answer = loop {
        world.now.elapsed = parked.deadline();
        match world.look(parked) {
            Reaction::Parked(waits) => parked = waits,
            answered => break answered.bytes(),
        }
    };
    assert_eq!(world.now.elapsed - began, Duration::from_secs(1));
    let code = ErrorCode::CoordinatorNotAvailable.code();
    read::<FindCoordinatorRequest<'_>, _>(&answer, 3, |response| {
        assert_eq!((response.error_code, response.node_id), (code, -1))
    });
}

#[test]
fn a_member_joins_commits_and_leaves() {
    let mut world = world();
    let member = alone(&mut world);
    let shard = world.shard_of("billing");
    let heartbeat =
        HeartbeatRequest { group_id: "billing", generation_id: 1, member_id: &member, ..Default::default() };
    world.ask(4, &heartbeat, |response| assert_eq!(response.error_code, 0));
    world.ask(9, &commit(&member, 0, 5), |response| {
        let code = response.topics[0].partitions[0].error_code;
        assert_eq!(code, ErrorCode::IllegalGeneration.code());
    });

    let parked = world.request(9, &commit(&member, 1, 42)).parked();
    let all = OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup { group_id: "billing", topics: None, ..Default::default() }],
        ..Default::default()
    };
    let reading = world.request(9, &all).parked();
    shard.commit(world.now);
    read::<OffsetCommitRequest<'_>, _>(&world.look(parked).bytes(), 9, |response| {
        assert_eq!(response.topics[0].partitions[0].error_code, 0);
    });
    read::<OffsetFetchRequest<'_>, _>(&world.look(reading).bytes(), 9, |response| {
        let fetched = &response.groups[0].topics[0];
        let offset = &fetched.partitions[0];
        assert_eq!((fetched.name, offset.partition_index, offset.committed_offset), ("orders", 1, 42));
        assert_eq!((offset.committed_leader_epoch, offset.metadata), (3, Some("noted")));
    });
    let older = OffsetFetchRequest {
        group_id: "billing",
        topics: Some(vec![OffsetFetchRequestTopic { name: "orders", partition_indexes: vec![0, 1] }]),
        ..Default::default()
    };
    world.ask(5, &older, |response| {
        let offsets: Vec<_> = response.topics[0].partitions.iter().map(|it| it.committed_offset).collect();
        assert_eq!((offsets, response.error_code), (vec![-1, 42], 0));
    });

    let describe =
        DescribeGroupsRequest { groups: vec!["billing", "nobody"], include_authorized_operations: true };
    world.ask(6, &describe, |response| {
        let [billing, nobody] = &response.groups[..] else { panic!("{response:?}") };
        assert_eq!(
            (billing.group_state, billing.protocol_data, billing.members.len()),
            ("Stable", "range", 1)
        );
        assert_eq!((billing.members[0].client_id, billing.authorized_operations), ("test", 3400));
        assert_eq!(nobody.error_code, ErrorCode::GroupIdNotFound.code());
    });
    let states = ListGroupsRequest { states_filter: vec!["stable"], ..Default::default() };
    world.ask(5, &states, |response| {
        let [listed] = &response.groups[..] else { panic!("{response:?}") };
        assert_eq!(
            (listed.group_id, listed.group_state, listed.group_type),
            ("billing", "Stable", "classic")
        );
    });
    let delete = DeleteGroupsRequest { groups_names: vec!["billing"] };
    world.ask(2, &delete, |response| {
        assert_eq!(response.results[0].error_code, ErrorCode::NonEmptyGroup.code());
    });
    let leave = LeaveGroupRequest {
        group_id: "billing",
        members: vec![MemberIdentity { member_id: &member, ..Default::default() }],
        ..Default::default()
    };
    world
        .ask(5, &leave, |response| assert_eq!((response.error_code, response.members[0].error_code), (0, 0)));
    world.ask(4, &heartbeat, |response| {
        assert_eq!(response.error_code, ErrorCode::UnknownMemberId.code());
    });
}

#[test]
fn who_waits_is_told_when_the_group_is_led_elsewhere() {
    let mut world = world();
    let member = alone(&mut world);
    let shard = world.shard_of("billing");
    let parked = world.request(9, &commit(&member, 1, 42)).parked();
    shard.unload(world.now);
    assert_eq!(world.bell.rang(), 1);
    read::<OffsetCommitRequest<'_>, _>(&world.look(parked).bytes(), 9, |response| {
        assert_eq!(response.topics[0].partitions[0].error_code, ErrorCode::NotCoordinator.code());
    });
    let one = OffsetFetchRequestTopics { name: "orders", partition_indexes: vec![1], ..Default::default() };
    let groups =
        vec![OffsetFetchRequestGroup { group_id: "billing", topics: Some(vec![one]), ..Default::default() }];
    world.ask(9, &OffsetFetchRequest { groups, ..Default::default() }, |response| {
        assert_eq!(response.groups[0].error_code, ErrorCode::NotCoordinator.code());
    });
}

/// Asks for what is committed a broker that hears no controller from now on; what it says in the end.
fn await_offsets(world: &mut World, version: i16, asks: &OffsetFetchRequest<'_>) -> Vec<u8> {
    world.lose_touch();
    let mut parked = world.request(version, asks).parked();
    let began = world.now.elapsed;
    loop {
        world.now.elapsed = parked.deadline();
        match world.look(parked) {
            Reaction::Parked(waits) => parked = waits,
            answered => {
                assert_eq!(world.now.elapsed - began, Duration::from_secs(3));
                break answered.bytes();
            }
        }
    }
}

/// librdkafka asks once, and its member stands still if it is told NOT_COORDINATOR, or anything else after it was given
/// another partition meanwhile.
#[test]
fn who_may_have_a_successor_does_not_say_what_is_committed() {
    let mut world = world();
    let member = alone(&mut world);
    let shard = world.shard_of("billing");
    let parked = world.request(9, &commit(&member, 1, 42)).parked();
    shard.commit(world.now);
    world.look(parked).bytes();
    let all = OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup { group_id: "billing", topics: None, ..Default::default() }],
        ..Default::default()
    };
    let is_told = |response: OffsetFetchResponse<'_>| {
        assert_eq!(response.groups[0].topics[0].partitions[0].committed_offset, 42);
    };
    world.ask(9, &all, is_told);
    // By now another broker may have taken a later commit.
    world.lose_touch();
    let waits = world.request(9, &all).parked();
    let waits = world.look(waits).parked();
    world.find_touch();
    read::<OffsetFetchRequest<'_>, _>(&world.look(waits).bytes(), 9, is_told);

    let code = ErrorCode::CoordinatorLoadInProgress.code();
    read::<OffsetFetchRequest<'_>, _>(&await_offsets(&mut world, 9, &all), 9, |response| {
        assert_eq!((response.groups[0].error_code, response.groups[0].topics.len()), (code, 0));
    });
    let older = OffsetFetchRequest { group_id: "billing", topics: None, ..Default::default() };
    read::<OffsetFetchRequest<'_>, _>(&await_offsets(&mut world, 5, &older), 5, |response| {
        assert_eq!(response.error_code, code);
    });
    // Some clients look at partitions only: what has no error there and no offset, they take for not committed.
    let topics = vec![OffsetFetchRequestTopic { name: "orders", partition_indexes: vec![1] }];
    let named = OffsetFetchRequest { group_id: "billing", topics: Some(topics), ..Default::default() };
    for version in [1, 2, 3, 5, 7] {
        let answer = await_offsets(&mut world, version, &named);
        read::<OffsetFetchRequest<'_>, _>(&answer, version, |response| {
            let told = response.topics.first().and_then(|topic| topic.partitions.first());
            assert_eq!(told.map(|partition| partition.error_code), Some(code), "version {version}");
        });
    }
    // Some clients ask nobody else as long as they are told to wait.
    world.now.elapsed += Duration::from_secs(10);
    world.ask(9, &all, |response| {
        assert_eq!(response.groups[0].error_code, ErrorCode::NotCoordinator.code());
    });

    // Once it knows that another is the coordinator, nobody waits on.
    world.lose_touch();
    let waits = world.request(9, &all).parked();
    world.lose_shards();
    read::<OffsetFetchRequest<'_>, _>(&world.look(waits).bytes(), 9, |response| {
        assert_eq!(response.groups[0].error_code, ErrorCode::NotCoordinator.code());
    });
}

#[test]
fn who_is_gone_is_not_waited_for() {
    let mut world = world();
    let member = alone(&mut world);
    let parked = world.request(9, &commit(&member, 1, 42)).parked();
    world.abandon(parked);
    world.shard_of("billing").commit(world.now);
    assert_eq!(world.bell.rang(), 0, "nobody is left to be woken");
}

#[test]
fn clients_do_not_write_what_brokers_keep() {
    let mut world = world();
    let records = batch(&["a"], &Default::default());
    let data = PartitionProduceData { index: 0, records: Some(wire::Records::Bytes(&records)) };
    let topic = TopicProduceData { name: OFFSETS_TOPIC, partition_data: vec![data], ..Default::default() };
    let produce = ProduceRequest { acks: 1, timeout_ms: 100, topic_data: vec![topic], ..Default::default() };
    world.ask(9, &produce, |response| {
        let code = response.responses[0].partition_responses[0].error_code;
        assert_eq!(code, ErrorCode::InvalidTopicException.code());
    });
}
