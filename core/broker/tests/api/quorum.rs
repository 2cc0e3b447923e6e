//! The quorum, its voters, features, and brokers that are gone for good.

use base::{BrokerId, ErrorCode, LeaderEpoch, Offset, TimestampMs, Uuid};
use controller::{
    Command, ControllerError, FeatureDirection, FeatureUpdate, NewVoter, QuorumCommand, QuorumReplica,
    QuorumReply, QuorumStatus, Reply, UnregisterBroker, UpdateFeatures,
};
use metadata::Endpoint;
use wire::messages::add_raft_voter::{AddRaftVoterRequest, Listener};
use wire::messages::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumRequestPartitionData, DescribeQuorumRequestTopicData,
};
use wire::messages::remove_raft_voter::RemoveRaftVoterRequest;
use wire::messages::unregister_broker::UnregisterBrokerRequest;
use wire::messages::unregister_controller::UnregisterControllerRequest;
use wire::messages::update_features::{FeatureUpdateKey, UpdateFeaturesRequest};

use crate::requests::hex;
use crate::world::{CLUSTER, World};

const DIRECTORY: Uuid = Uuid([1; 16]);

fn endpoint(port: u16) -> Endpoint {
    let (listener, host) = ("CONTROLLER".to_owned(), "127.0.0.1".to_owned());
    Endpoint { listener, host, port, security_protocol: 0 }
}

fn replica(id: i32, directory: Uuid) -> QuorumReplica {
    QuorumReplica {
        id: BrokerId(id),
        directory,
        log_end: Offset(0x17),
        fetched_at: Some(TimestampMs(0x01a2_00e4_1dc6)),
        caught_up_at: Some(TimestampMs(0x01a2_00e4_1dc6)),
        endpoint: Some(endpoint(29290)),
    }
}

/// As the Kafka was from which the bytes were captured: one node, with a static quorum.
fn alone() -> QuorumStatus {
    QuorumStatus {
        leader: BrokerId(1),
        leader_epoch: LeaderEpoch(1),
        high_watermark: Offset(0x17),
        voters: vec![replica(1, Uuid::ZERO)],
        observers: Vec::new(),
    }
}

fn about<'a>(topic: &'a str, partitions: &[i32]) -> DescribeQuorumRequestTopicData<'a> {
    let partitions = partitions.iter().map(|it| DescribeQuorumRequestPartitionData { partition_index: *it });
    DescribeQuorumRequestTopicData { topic_name: topic, partitions: partitions.collect() }
}

fn quorum() -> DescribeQuorumRequest<'static> {
    DescribeQuorumRequest { topics: vec![about("__cluster_metadata", &[0])] }
}

#[test]
fn the_quorum_is_described_as_kafka_does() {
    let expected = [
        (
            0,
            "0000000700000002135f5f636c75737465725f6d657461646174610200000000000000000001000000010000000000000017020000000100000000000000170001000000",
        ),
        (
            1,
            "0000000700000002135f5f636c75737465725f6d65746164617461020000000000000000000100000001000000000000001702000000010000000000000017000001a200e41dc6000001a200e41dc60001000000",
        ),
        (
            2,
            "000000070000000102135f5f636c75737465725f6d657461646174610200000000000001000000010000000100000000000000170200000001000000000000000000000000000000000000000000000017000001a200e41dc6000001a200e41dc6000100000200000001020b434f4e54524f4c4c45520a3132372e302e302e31726a000000",
        ),
    ];
    let mut world = World::new();
    for (version, bytes) in expected {
        world.script(Ok(Reply::Quorum(QuorumReply::Describe(alone()))));
        assert_eq!(hex(&world.request(version, &quorum()).bytes()), bytes, "v{version}");
    }
    assert_eq!(world.asked, vec![Command::Quorum(QuorumCommand::Describe); 3]);
}

#[test]
fn observers_have_their_directories_and_addresses_too() {
    let mut world = World::new();
    let observer = QuorumReplica { endpoint: None, fetched_at: None, ..replica(4, DIRECTORY) };
    let status = QuorumStatus { voters: vec![replica(1, DIRECTORY)], observers: vec![observer], ..alone() };
    for version in 0..=2 {
        world.script(Ok(Reply::Quorum(QuorumReply::Describe(status.clone()))));
        world.ask(version, &quorum(), |response| {
            let observer = &response.topics[0].partitions[0].observers[0];
            let directory = if version >= 2 { DIRECTORY } else { Uuid::ZERO };
            assert_eq!((observer.replica_id, observer.replica_directory_id), (4, directory));
            assert_eq!(observer.last_fetch_timestamp, -1);
            let nodes: Vec<i32> = response.nodes.iter().map(|node| node.node_id).collect();
            assert_eq!(nodes, if version >= 2 { vec![1] } else { Vec::new() });
        });
    }
}

#[test]
fn there_is_nothing_else_to_ask_of_a_quorum() {
    let mut world = World::new();
    let mut ask = |version, topics| hex(&world.request(version, &DescribeQuorumRequest { topics }).bytes());
    let one = ask(1, vec![about("t", &[0])]);
    assert_eq!(one, "0000000700000002027402000000000003000000000000000000000000000000000101000000");
    let one = ask(2, vec![about("t", &[0])]);
    assert_eq!(
        one,
        "00000007000000010202740200000000000330546869732073657276657220646f6573206e6f7420686f7374207468697320746f7069632d706172746974696f6e2e00000000000000000000000000000000010100000100"
    );
    let two = ask(2, vec![about("__cluster_metadata", &[0, 1])]);
    assert_eq!(
        two,
        "000000070000000102135f5f636c75737465725f6d657461646174610300000000000330546869732073657276657220646f6573206e6f7420686f7374207468697320746f7069632d706172746974696f6e2e0000000000000000000000000000000001010000000001000330546869732073657276657220646f6573206e6f7420686f7374207468697320746f7069632d706172746974696f6e2e00000000000000000000000000000000010100000100"
    );
    assert_eq!(ask(2, Vec::new()), "0000000700000001010100");
    assert_eq!(world.asked, []);
}

#[test]
fn who_cannot_find_the_leader_says_so() {
    let mut world = World::new();
    world.script(Err(ControllerError::NotController { active: None }));
    world.ask(2, &quorum(), |response| {
        assert_eq!(response.error_code, ErrorCode::NotController.code());
        assert!(response.error_message.is_some() && response.topics.is_empty());
    });
}

fn voter<'a>(id: i32, directory: Uuid, listeners: &[(&'a str, u16)]) -> AddRaftVoterRequest<'a> {
    let listeners = listeners.iter().map(|(host, port)| Listener { name: "CONTROLLER", host, port: *port });
    AddRaftVoterRequest {
        cluster_id: None,
        voter_id: id,
        voter_directory_id: directory,
        listeners: listeners.collect(),
        ..AddRaftVoterRequest::default()
    }
}

#[test]
fn a_voter_is_added_at_its_first_listener() {
    let mut world = World::new();
    for version in 0..=1 {
        world.script(Ok(Reply::Quorum(QuorumReply::AddVoter)));
        let request = AddRaftVoterRequest {
            cluster_id: Some(CLUSTER),
            ..voter(4, DIRECTORY, &[("127.0.0.1", 9093), ("else", 1)])
        };
        let bytes = world.request(version, &request).bytes();
        assert_eq!(hex(&bytes), "00000007000000000000000000");
    }
    let added = NewVoter { id: BrokerId(4), directory: DIRECTORY, endpoint: endpoint(9093) };
    assert_eq!(world.asked, vec![Command::Quorum(QuorumCommand::AddVoter(added)); 2]);
}

#[test]
fn a_voter_that_cannot_be_is_refused_before_anybody_hears_of_it() {
    let mut world = World::new();
    let bad = "000000070000000000002a2f41646420766f7465722072657175657374206469646e277420696e636c75646520612076616c696420766f74657200";
    assert_eq!(hex(&world.request(1, &voter(-1, DIRECTORY, &[("h", 1)])).bytes()), bad);
    assert_eq!(hex(&world.request(1, &voter(2, Uuid::ZERO, &[("h", 1)])).bytes()), bad);
    let long = "h".repeat(256);
    let elsewhere = AddRaftVoterRequest { cluster_id: Some("nope"), ..voter(2, DIRECTORY, &[("h", 1)]) };
    for (request, code) in [
        (voter(2, DIRECTORY, &[]), ErrorCode::InvalidRequest),
        (voter(2, DIRECTORY, &[("", 1)]), ErrorCode::InvalidRequest),
        (voter(2, DIRECTORY, &[("h", 0)]), ErrorCode::InvalidRequest),
        (voter(2, DIRECTORY, &[(&long, 1)]), ErrorCode::InvalidRequest),
        (elsewhere, ErrorCode::InconsistentClusterId),
    ] {
        world.ask(0, &request, |response| {
            assert_eq!(response.error_code, code.code(), "{response:?}");
            assert!(response.error_message.is_some());
        });
    }
    assert_eq!(world.asked, []);
    world.script(Err(ControllerError::DuplicateVoter("it votes".into())));
    world.ask(1, &voter(2, DIRECTORY, &[("h", 1)]), |response| {
        assert_eq!((response.error_code, response.error_message), (126, Some("it votes")));
    });
}

#[test]
fn a_voter_loses_its_vote() {
    let mut world = World::new();
    let request = |voter_id, voter_directory_id, cluster_id| RemoveRaftVoterRequest {
        cluster_id,
        voter_id,
        voter_directory_id,
    };
    let bad = "000000070000000000002a3252656d6f766520766f7465722072657175657374206469646e277420696e636c75646520612076616c696420766f74657200";
    assert_eq!(hex(&world.request(0, &request(-1, DIRECTORY, None)).bytes()), bad);
    world.ask(0, &request(2, DIRECTORY, Some("nope")), |response| assert_eq!(response.error_code, 104));
    assert_eq!(world.asked, []);
    // Whose directory nobody knows has none; who has one is not named without it, as the quorum tells.
    world.script(Err(ControllerError::InvalidRequest(controller::NO_VALID_VOTER.into())));
    assert_eq!(hex(&world.request(0, &request(2, Uuid::ZERO, None)).bytes()), bad);
    let unnamed = QuorumCommand::RemoveVoter { id: BrokerId(2), directory: Uuid::ZERO };
    assert_eq!(std::mem::take(&mut world.asked), [Command::Quorum(unnamed)]);
    world.script(Ok(Reply::Quorum(QuorumReply::RemoveVoter)));
    world.ask(0, &request(2, DIRECTORY, Some(CLUSTER)), |response| assert_eq!(response.error_code, 0));
    world.script(Err(ControllerError::VoterNotFound("it does not".into())));
    world.ask(0, &request(2, DIRECTORY, None), |response| assert_eq!(response.error_code, 127));
    let removed = QuorumCommand::RemoveVoter { id: BrokerId(2), directory: DIRECTORY };
    assert_eq!(world.asked, vec![Command::Quorum(removed); 2]);
}

#[test]
fn nothing_is_kept_of_a_controller_that_could_be_forgotten() {
    let mut world = World::new();
    let status = QuorumStatus { voters: vec![replica(1, DIRECTORY), replica(2, DIRECTORY)], ..alone() };
    for (controller_id, code) in [
        (1, ErrorCode::InvalidRequest),
        (2, ErrorCode::InvalidRequest),
        (9, ErrorCode::ControllerIdNotRegistered),
        (-1, ErrorCode::ControllerIdNotRegistered),
    ] {
        world.script(Ok(Reply::Quorum(QuorumReply::Describe(status.clone()))));
        world.ask(0, &UnregisterControllerRequest { controller_id }, |response| {
            assert_eq!(response.error_code, code.code(), "{controller_id}");
        });
    }
}

#[test]
fn a_broker_that_is_gone_is_forgotten() {
    let mut world = World::new();
    let bytes = world.request(0, &UnregisterBrokerRequest { broker_id: 9 }).bytes();
    assert_eq!(
        hex(&bytes),
        "00000007000000000000662842726f6b65722049442039206973206e6f742063757272656e746c79207265676973746572656400"
    );
    world.register(2, 7, false);
    let bytes = world.request(0, &UnregisterBrokerRequest { broker_id: 2 }).bytes();
    assert_eq!(hex(&bytes), "00000007000000000000000100");
    assert!(world.image().broker(BrokerId(2)).is_none());
    world.script(Ok(Reply::UnregisterBroker));
    world.request(0, &UnregisterBrokerRequest { broker_id: 5 }).bytes();
    assert_eq!(world.asked, [Command::UnregisterBroker(UnregisterBroker { id: BrokerId(5) })]);
}

fn features<'a>(updates: &[(&'a str, i16, i8)], validate_only: bool) -> UpdateFeaturesRequest<'a> {
    let updates = updates.iter().map(|(feature, level, upgrade_type)| FeatureUpdateKey {
        feature,
        max_version_level: *level,
        upgrade_type: *upgrade_type,
        ..FeatureUpdateKey::default()
    });
    UpdateFeaturesRequest { feature_updates: updates.collect(), validate_only, ..Default::default() }
}

#[test]
fn features_go_up_and_down() {
    use FeatureDirection::{SafeDowngrade, UnsafeDowngrade, Upgrade};
    let mut world = World::new();
    for (upgrade_type, direction) in [(1, Upgrade), (2, SafeDowngrade), (3, UnsafeDowngrade)] {
        world.script(Ok(Reply::UpdateFeatures(vec![Ok(())])));
        let request = features(&[("transaction.version", 2, upgrade_type)], true);
        assert_eq!(hex(&world.request(2, &request).bytes()), "00000007000000000000000000");
        let update = FeatureUpdate { name: "transaction.version".into(), level: 2, direction };
        let expected = UpdateFeatures { updates: vec![update], validate_only: true };
        assert_eq!(world.asked.pop(), Some(Command::UpdateFeatures(expected)));
    }
    for (allow_downgrade, direction) in [(false, Upgrade), (true, SafeDowngrade)] {
        world.script(Ok(Reply::UpdateFeatures(vec![Ok(())])));
        let mut request = features(&[("transaction.version", 2, 1)], false);
        request.feature_updates[0].allow_downgrade = allow_downgrade;
        let bytes = world.request(0, &request).bytes();
        assert_eq!(
            hex(&bytes),
            "00000007000000000000000002147472616e73616374696f6e2e76657273696f6e0000054e4f4e450000"
        );
        let Some(Command::UpdateFeatures(asked)) = world.asked.pop() else { panic!() };
        assert_eq!(asked.updates[0].direction, direction);
    }
}

#[test]
fn one_feature_that_cannot_be_changed_stops_all() {
    let mut world = World::new();
    let why = "Invalid update version 1 for feature nope. Local controller 1 does not support this feature.";
    let request = features(&[("transaction.version", 2, 1), ("nope", 1, 1)], false);
    let bytes = "000000070000000000005faa0154686520757064617465206661696c656420666f7220616c6c2066656174757265732073696e63652074686520666f6c6c6f77696e6720666561747572652068616420616e206572726f723a20496e76616c6964207570646174652076657273696f6e203120666f722066656174757265206e6f70652e204c6f63616c20636f6e74726f6c6c6572203120646f6573206e6f7420737570706f7274207468697320666561747572652e";
    for (version, end) in [(1, "0100"), (2, "00")] {
        let refused = Err(ControllerError::InvalidFeature(why.into()));
        world.script(Ok(Reply::UpdateFeatures(vec![Ok(()), refused])));
        assert_eq!(hex(&world.request(version, &request).bytes()), format!("{bytes}{end}"));
    }
    let bytes = world.request(2, &features(&[("transaction.version", 1, 9)], false)).bytes();
    assert_eq!(
        hex(&bytes),
        "000000070000000000005fbf0154686520757064617465206661696c656420666f7220616c6c2066656174757265732073696e63652074686520666f6c6c6f77696e6720666561747572652068616420616e206572726f723a20496e76616c6964207570646174652076657273696f6e203120666f722066656174757265207472616e73616374696f6e2e76657273696f6e2e2054686520636f6e74726f6c6c657220646f6573206e6f7420737570706f72742074686520676976656e207570677261646520747970652e00"
    );
    world.script(Err(ControllerError::Busy));
    world.ask(2, &features(&[("a", 1, 1)], false), |response| {
        assert_eq!(response.error_code, ErrorCode::RequestTimedOut.code());
    });
}
