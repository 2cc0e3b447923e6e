//! Leaders that are elected and partitions that move.

use base::{BrokerId, ErrorCode, PartitionIndex};
use controller::{
    AlterReassignments, Command, ControllerError, ElectLeaders, Elected, ElectionKind, Reassignment, Reply,
};
use metadata::{MetadataRecord, PartitionChange};
use wire::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use wire::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use wire::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics,
};

use crate::requests::hex;
use crate::world::World;

fn elect<'a>(election_type: i8, partitions: Option<&[(&'a str, &[i32])]>) -> ElectLeadersRequest<'a> {
    let of =
        |(topic, partitions): &(&'a str, &[i32])| TopicPartitions { topic, partitions: partitions.to_vec() };
    ElectLeadersRequest {
        election_type,
        topic_partitions: partitions.map(|them| them.iter().map(of).collect()),
        ..ElectLeadersRequest::default()
    }
}

fn elected(topic: &str, partition: i32, outcome: Result<(), ControllerError>) -> Elected {
    Elected { topic: topic.to_owned(), partition: PartitionIndex(partition), outcome }
}

#[test]
fn leaders_are_elected_as_kafka_does() {
    let mut world = World::new();
    let unknown = |topic: &str, index| ControllerError::UnknownPartition {
        topic: topic.to_owned(),
        partition: PartitionIndex(index),
    };
    let said = vec![
        elected("t", 0, Err(ControllerError::ElectionNotNeeded)),
        elected("t", 9, Err(unknown("t", 9))),
        elected("nope", 0, Err(ControllerError::UnknownTopic("nope".into()))),
    ];
    world.script(Ok(Reply::ElectLeaders(said)));
    let request = elect(0, Some(&[("t", &[0, 9]), ("nope", &[0])]));
    world.ask(2, &request, |response| {
        assert_eq!(response.error_code, 0);
        let results: Vec<_> = response
            .replica_election_results
            .iter()
            .flat_map(|topic| {
                topic.partition_result.iter().map(|it| (topic.topic, it.partition_id, it.error_code))
            })
            .collect();
        assert_eq!(results, [("t", 0, 84), ("t", 9, 3), ("nope", 0, 3)]);
    });
    let partitions = [("t", 0), ("t", 9), ("nope", 0)];
    let partitions = partitions.iter().map(|(topic, index)| ((*topic).to_owned(), PartitionIndex(*index)));
    let expected = ElectLeaders { kind: ElectionKind::Preferred, partitions: Some(partitions.collect()) };
    assert_eq!(world.asked, [Command::ElectLeaders(expected)]);
    let one = elect(1, Some(&[("t", &[0])]));
    for (version, bytes) in [
        (
            0,
            "00000007000000000000000100017400000001000000000054002f4c656164657220656c656374696f6e206e6f74206e656564656420666f7220746f70696320706172746974696f6e2e",
        ),
        (
            1,
            "000000070000000000000000000100017400000001000000000054002f4c656164657220656c656374696f6e206e6f74206e656564656420666f7220746f70696320706172746974696f6e2e",
        ),
    ] {
        world.script(Ok(Reply::ElectLeaders(vec![elected("t", 0, Err(ControllerError::ElectionNotNeeded))])));
        let request = if version == 0 { elect(0, Some(&[("t", &[0])])) } else { one.clone() };
        assert_eq!(hex(&world.request(version, &request).bytes()), bytes, "v{version}");
    }
    let Some(Command::ElectLeaders(asked)) = world.asked.last() else { panic!("{:?}", world.asked) };
    assert_eq!(asked.kind, ElectionKind::Unclean);
}

#[test]
fn an_election_of_all_tells_of_those_that_changed() {
    let mut world = World::new();
    world.script(Ok(Reply::ElectLeaders(vec![elected("t", 1, Ok(()))])));
    world.ask(2, &elect(0, None), |response| {
        let [topic] = response.replica_election_results.as_slice() else { panic!("{response:?}") };
        let [result] = topic.partition_result.as_slice() else { panic!("{response:?}") };
        assert_eq!((topic.topic, result.partition_id, result.error_code), ("t", 1, 0));
        assert_eq!(result.error_message, None);
    });
    let Some(Command::ElectLeaders(asked)) = world.asked.pop() else { panic!("{:?}", world.asked) };
    assert_eq!(asked.partitions, None);
    let nothing = world.request(2, &elect(0, Some(&[]))).bytes();
    assert_eq!(hex(&nothing), "00000007000000000000000100");
    assert_eq!(world.asked, [], "of none there is nothing to elect");
}

#[test]
fn an_election_that_is_refused_as_a_whole_is_refused_for_each() {
    let mut world = World::new();
    let bytes = world.request(2, &elect(7, Some(&[("t", &[0])]))).bytes();
    assert_eq!(
        hex(&bytes),
        "000000070000000000002a0202740200000000002a18556e6b6e6f776e20656c656374696f6e20747970652037000000"
    );
    for version in 0..=2 {
        world.script(Err(ControllerError::NotController { active: None }));
        world.ask(version, &elect(0, Some(&[("t", &[0, 1])])), |response| {
            let code = ErrorCode::NotController.code();
            assert_eq!(response.error_code, if version == 0 { 0 } else { code });
            let results = &response.replica_election_results[0].partition_result;
            assert!(results.len() == 2 && results.iter().all(|it| it.error_code == code));
        });
    }
}

fn moved(partition_index: i32, replicas: Option<&[i32]>) -> ReassignablePartition {
    ReassignablePartition { partition_index, replicas: replicas.map(<[i32]>::to_vec) }
}

fn alter<'a>(topics: &[(&'a str, &[ReassignablePartition])]) -> AlterPartitionReassignmentsRequest<'a> {
    let topics =
        topics.iter().map(|(name, partitions)| ReassignableTopic { name, partitions: partitions.to_vec() });
    AlterPartitionReassignmentsRequest { topics: topics.collect(), ..Default::default() }
}

#[test]
fn partitions_are_moved_and_called_back() {
    let mut world = World::new();
    let request = alter(&[("t", &[moved(0, Some(&[2, 1])), moved(1, None)]), ("u", &[moved(0, Some(&[3]))])]);
    let refused = ControllerError::InvalidReplicaAssignment(
        "The manual partition assignment includes broker 9, but no such broker is registered.".into(),
    );
    world.script(Ok(Reply::AlterReassignments(vec![
        Ok(()),
        Err(ControllerError::NoReassignmentInProgress),
        Err(refused),
    ])));
    world.ask(
        1,
        &AlterPartitionReassignmentsRequest { allow_replication_factor_change: false, ..request },
        |response| {
            assert_eq!((response.error_code, response.error_message), (0, None));
            assert!(!response.allow_replication_factor_change);
            let codes = response.responses.iter().flat_map(|topic| {
                topic.partitions.iter().map(|it| (topic.name, it.partition_index, it.error_code))
            });
            assert_eq!(codes.collect::<Vec<_>>(), [("t", 0, 0), ("t", 1, 85), ("u", 0, 39)]);
            assert_eq!(response.responses[0].partitions[0].error_message, None);
        },
    );
    let part = |topic: &str, index, replicas: Option<Vec<i32>>| Reassignment {
        topic: topic.to_owned(),
        partition: PartitionIndex(index),
        replicas: replicas.map(|ids| ids.into_iter().map(BrokerId).collect()),
    };
    let expected = AlterReassignments {
        partitions: vec![part("t", 0, Some(vec![2, 1])), part("t", 1, None), part("u", 0, Some(vec![3]))],
        allow_replication_factor_change: false,
    };
    assert_eq!(world.asked, [Command::AlterReassignments(expected)]);
}

#[test]
fn a_move_is_answered_as_kafka_does() {
    let mut world = World::new();
    let invalid = |why: &str| Err(ControllerError::InvalidReplicaAssignment(why.into()));
    world.script(Ok(Reply::AlterReassignments(vec![
        invalid("The manual partition assignment includes the broker 1 more than once."),
        invalid("The manual partition assignment includes an empty replica list."),
    ])));
    let request = alter(&[("t", &[moved(0, Some(&[1, 1])), moved(1, Some(&[]))])]);
    let request = AlterPartitionReassignmentsRequest { allow_replication_factor_change: false, ..request };
    let bytes = world.request(1, &request).bytes();
    assert_eq!(
        hex(&bytes),
        "000000070000000000000000000202740300000000002746546865206d616e75616c20706172746974696f6e2061737369676e6d656e7420696e636c75646573207468652062726f6b65722031206d6f7265207468616e206f6e63652e0000000001002740546865206d616e75616c20706172746974696f6e2061737369676e6d656e7420696e636c7564657320616e20656d707479207265706c696361206c6973742e000000"
    );
}

#[test]
fn a_move_that_is_refused_as_a_whole_is_refused_for_each() {
    let mut world = World::new();
    world.script(Err(ControllerError::Busy));
    world.ask(0, &alter(&[("t", &[moved(0, None), moved(1, None)])]), |response| {
        let code = ErrorCode::RequestTimedOut.code();
        assert_eq!(response.error_code, code);
        assert!(response.error_message.is_some());
        let parts = &response.responses[0].partitions;
        assert!(parts.len() == 2 && parts.iter().all(|it| it.error_code == code));
    });
}

#[test]
fn what_is_on_its_way_is_listed() {
    let mut world = World::new();
    world.register(2, 7, false);
    world.topic("t", 3, &[]);
    world.topic("u", 1, &[]);
    let list = |world: &mut World, topics: Option<Vec<(&str, Vec<i32>)>>| {
        let topics = topics.map(|topics| {
            let of = |(name, partition_indexes)| ListPartitionReassignmentsTopics { name, partition_indexes };
            topics.into_iter().map(of).collect()
        });
        let request = ListPartitionReassignmentsRequest { topics, ..Default::default() };
        world.ask(0, &request, |response| {
            assert_eq!((response.error_code, response.error_message), (0, None));
            let of = |topic: &str, ids: &[i32]| format!("{topic}{ids:?}");
            response
                .topics
                .iter()
                .flat_map(|topic| {
                    topic.partitions.iter().map(|it| {
                        let name = format!("{}-{} ", topic.name, it.partition_index);
                        of(&name, &it.replicas)
                            + &of(" +", &it.adding_replicas)
                            + &of(" -", &it.removing_replicas)
                    })
                })
                .collect::<Vec<_>>()
        })
    };
    let nothing = world.request(0, &ListPartitionReassignmentsRequest::default()).bytes();
    assert_eq!(hex(&nothing), "0000000700000000000000000100");
    let node = world.node().0;
    for (topic, index, adding, removing) in [("t", 2, vec![2], vec![]), ("u", 0, vec![2], vec![node])] {
        let id = world.image().topic(topic).unwrap().id;
        let ids = |ids: Vec<i32>| Some(ids.into_iter().map(BrokerId).collect());
        world.replay(MetadataRecord::PartitionChange(PartitionChange {
            replicas: ids(vec![2, node]),
            adding: ids(adding),
            removing: ids(removing),
            ..PartitionChange::of(id, PartitionIndex(index))
        }));
    }
    let t = format!("t-2 [2, {node}] +[2] -[]");
    let u = format!("u-0 [2, {node}] +[2] -[{node}]");
    assert_eq!(list(&mut world, None), [t.clone(), u.clone()]);
    let named = vec![("u", vec![0, 0, 5]), ("nope", vec![0]), ("t", vec![0, 1]), ("u", vec![0])];
    assert_eq!(list(&mut world, Some(named)), [u]);
    assert_eq!(list(&mut world, Some(vec![("t", vec![2])])), [t]);
    assert_eq!(list(&mut world, Some(Vec::new())), [] as [String; 0]);
}
