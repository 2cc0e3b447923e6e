//! What clients are told where there are several brokers.

use std::collections::BTreeSet;

use base::{BrokerId, ErrorCode, Uuid};
use controller::RegisterBroker;
use metadata::Endpoint;
use records::BatchOptions;
use wire::messages::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic,
};
use wire::messages::create_topics::{CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest};
use wire::messages::describe_cluster::DescribeClusterRequest;
use wire::messages::describe_topic_partitions::{DescribeTopicPartitionsRequest, TopicRequest};
use wire::messages::produce::ProduceRequest;

use crate::requests::{fetch_of, metadata_of, produce};
use crate::world::{World, batch, registration};

/// Brokers 1, which is this one, 2 and 3, each at a port of its own and with an address for nodes besides.
fn world() -> World {
    let mut world = World::new();
    for id in [2, 3] {
        world.join(broker(id));
    }
    world
}

fn broker(id: i32) -> RegisterBroker {
    let mut it = registration(BrokerId(id), 7, false);
    it.endpoints[0].port = 9090 + id as u16;
    it.rack = Some(format!("rack-{id}"));
    let (listener, host) = (Endpoint::CLUSTER.to_owned(), "127.0.0.1".to_owned());
    it.cluster_address = Some(Endpoint { listener, host, port: 7090, security_protocol: 0 });
    it
}

fn ids(ids: &[i32]) -> Option<Vec<BrokerId>> {
    Some(ids.iter().map(|id| BrokerId(*id)).collect())
}

fn with_assignments<'a>(name: &'a str, assignments: &[&[i32]]) -> CreateTopicsRequest<'a> {
    let assignments = (0..).zip(assignments).map(|(partition_index, ids)| CreatableReplicaAssignment {
        partition_index,
        broker_ids: ids.to_vec(),
    });
    let topic = CreatableTopic {
        name,
        num_partitions: -1,
        replication_factor: -1,
        assignments: assignments.collect(),
        ..CreatableTopic::default()
    };
    CreateTopicsRequest { topics: vec![topic], ..CreateTopicsRequest::default() }
}

/// A topic whose partitions have these replicas.
fn create(world: &mut World, name: &str, assignments: &[&[i32]]) {
    world.ask(7, &with_assignments(name, assignments), |response| {
        let topic = &response.topics[0];
        assert_eq!(topic.error_code, 0, "{topic:?}");
        let made = (topic.num_partitions, topic.replication_factor);
        assert_eq!(made, (assignments.len() as i32, assignments[0].len() as i16));
    });
}

/// Code, leader, replicas, in-sync replicas and offline replicas of each partition.
type Told = (i16, i32, Vec<i32>, Vec<i32>, Vec<i32>);

fn told(world: &mut World, version: i16, topic: &str) -> Vec<Told> {
    world.ask(version, &metadata_of(topic, true), |response| {
        let parts = response.topics[0].partitions.iter();
        parts
            .map(|p| {
                let (replicas, isr) = (p.replica_nodes.clone(), p.isr_nodes.clone());
                (p.error_code, p.leader_id, replicas, isr, p.offline_replicas.clone())
            })
            .collect()
    })
}

#[test]
fn brokers_are_told_of_at_their_addresses_for_clients_unless_they_are_fenced() {
    let mut world = world();
    let brokers = |world: &mut World| {
        world.ask(12, &metadata_of("t", false), |response| {
            assert_eq!(response.controller_id, 1);
            response.brokers.iter().map(|it| (it.node_id, it.port)).collect::<BTreeSet<_>>()
        })
    };
    assert_eq!(brokers(&mut world), [(1, 9092), (2, 9092), (3, 9093)].into());
    world.fence(2);
    assert_eq!(brokers(&mut world), [(1, 9092), (3, 9093)].into());
}

#[test]
fn g17_a_node_that_is_fenced_names_another_one() {
    let mut world = world();
    let controller = |world: &mut World| {
        let named = world.ask(12, &metadata_of("t", false), |response| response.controller_id);
        let request = DescribeClusterRequest { endpoint_type: 1, ..DescribeClusterRequest::default() };
        world.ask(2, &request, |response| assert_eq!(response.controller_id, named));
        named
    };
    assert_eq!(controller(&mut world), 1);
    world.fence(1);
    assert_eq!(controller(&mut world), 2);
    world.fence(2);
    world.fence(3);
    assert_eq!(controller(&mut world), -1);
}

#[test]
fn fenced_brokers_are_described_to_those_who_ask_for_them() {
    let mut world = world();
    world.fence(2);
    for (include_fenced_brokers, expected) in [(false, vec![1, 3]), (true, vec![1, -2, 3])] {
        let request =
            DescribeClusterRequest { endpoint_type: 1, include_fenced_brokers, ..Default::default() };
        world.ask(2, &request, |response| {
            let brokers = response.brokers.iter();
            let told: Vec<i32> =
                brokers.map(|it| if it.is_fenced { -it.broker_id } else { it.broker_id }).collect();
            assert_eq!(told, expected);
        });
    }
    let plain = DescribeClusterRequest { endpoint_type: 1, ..DescribeClusterRequest::default() };
    for version in 0..=1 {
        let told = world.ask(version, &plain, |response| response.brokers.len());
        assert_eq!(told, 2);
    }
}

#[test]
fn a_partition_is_told_of_with_who_is_missing() {
    let mut world = world();
    create(&mut world, "t", &[&[2, 1, 3], &[3, 2, 1]]);
    let whole = told(&mut world, 12, "t");
    assert_eq!(whole[0], (0, 2, vec![2, 1, 3], vec![2, 1, 3], Vec::new()));
    assert_eq!(whole[1], (0, 3, vec![3, 2, 1], vec![3, 2, 1], Vec::new()));
    world.fence(3);
    world.change("t", 0, |change| change.isr = ids(&[2, 1]));
    let told_now = told(&mut world, 12, "t");
    assert_eq!(told_now[0], (0, 2, vec![2, 1, 3], vec![2, 1], vec![3]));
    let (code, leader, ..) = told_now[1];
    assert_eq!((code, leader), (ErrorCode::LeaderNotAvailable.code(), -1), "who leads is not told of");
    let oldest = told(&mut world, 0, "t");
    assert_eq!(oldest[0], (ErrorCode::ReplicaNotAvailable.code(), 2, vec![2, 1], vec![2, 1], Vec::new()));
}

#[test]
fn a_replica_in_a_directory_that_was_lost_is_offline() {
    let mut world = world();
    create(&mut world, "t", &[&[2, 1]]);
    let directories = |first: [u8; 16]| Some(vec![Uuid(first), Uuid([8; 16])]);
    world.change("t", 0, |change| change.directories = directories([8; 16]));
    assert_eq!(told(&mut world, 12, "t")[0].4, [] as [i32; 0]);
    world.change("t", 0, |change| change.directories = directories([5; 16]));
    assert_eq!(told(&mut world, 12, "t")[0].4, [2]);
    world.change("t", 0, |change| change.directories = directories(1u128.to_be_bytes()));
    assert_eq!(told(&mut world, 12, "t")[0].4, [] as [i32; 0], "it has not chosen one yet");
}

#[test]
fn eligible_replicas_are_told_of_page_by_page() {
    let mut world = world();
    create(&mut world, "t", &[&[1, 2, 3]]);
    world.change("t", 0, |change| {
        change.isr = ids(&[1]);
        change.eligible = ids(&[2]);
        change.last_known_eligible = ids(&[3]);
    });
    let topics = vec![TopicRequest { name: "t" }];
    let request = DescribeTopicPartitionsRequest { topics, response_partition_limit: 10, cursor: None };
    world.ask(0, &request, |response| {
        let part = &response.topics[0].partitions[0];
        assert_eq!((&*part.replica_nodes, &*part.isr_nodes), (&[1, 2, 3][..], &[1][..]));
        assert_eq!(part.eligible_leader_replicas.as_deref(), Some(&[2][..]));
        assert_eq!(part.last_known_elr.as_deref(), Some(&[3][..]));
        assert_eq!(part.offline_replicas, [] as [i32; 0]);
    });
}

#[test]
fn g38_the_leader_is_told_with_its_address_and_rack() {
    let mut world = world();
    create(&mut world, "t", &[&[3, 2]]);
    let records = batch(&["x"], &BatchOptions::default());
    let topic_id = world.image().topic("t").unwrap().id.0;
    let expected = vec![(3, "127.0.0.1".to_owned(), 9093, Some("rack-3".to_owned()))];
    let request = produce("t", Uuid::ZERO, &records, 1);
    let sent = world.ask(10, &request, |response| {
        let part = &response.responses[0].partition_responses[0];
        assert_eq!(part.error_code, ErrorCode::NotLeaderOrFollower.code());
        assert_eq!((part.current_leader.leader_id, part.current_leader.leader_epoch), (3, 0));
        let nodes = response.node_endpoints.iter();
        nodes
            .map(|it| (it.node_id, it.host.to_owned(), it.port, it.rack.map(str::to_owned)))
            .collect::<Vec<_>>()
    });
    assert_eq!(sent, expected);
    let fetched = world.ask(16, &fetch_of("", topic_id, 0), |response| {
        let part = &response.responses[0].partitions[0];
        assert_eq!((part.current_leader.leader_id, part.current_leader.leader_epoch), (3, 0));
        let nodes = response.node_endpoints.iter();
        nodes
            .map(|it| (it.node_id, it.host.to_owned(), it.port, it.rack.map(str::to_owned)))
            .collect::<Vec<_>>()
    });
    assert_eq!(fetched, expected);
    let before: ProduceRequest<'_> = produce("t", Uuid::ZERO, &records, 1);
    world.ask(9, &before, |response| assert_eq!(response.node_endpoints.len(), 0, "v9 has no place for it"));
}

#[test]
fn replicas_are_where_they_were_asked_for() {
    let mut world = world();
    create(&mut world, "t", &[&[3, 1], &[1, 2]]);
    let request = |assignments: Option<Vec<Vec<i32>>>, count| {
        let assignments = assignments.map(|them| {
            them.into_iter().map(|broker_ids| CreatePartitionsAssignment { broker_ids }).collect()
        });
        let topics = vec![CreatePartitionsTopic { name: "t", count, assignments }];
        CreatePartitionsRequest { topics, ..CreatePartitionsRequest::default() }
    };
    for (assignments, code) in [
        (vec![vec![2, 3], vec![3, 2]], ErrorCode::InvalidReplicaAssignment),
        (vec![vec![2, 2]], ErrorCode::InvalidReplicaAssignment),
        (vec![vec![2, 9]], ErrorCode::InvalidReplicaAssignment),
        (vec![vec![2]], ErrorCode::InvalidReplicaAssignment),
        (vec![vec![2, 3]], ErrorCode::None),
    ] {
        world.ask(3, &request(Some(assignments.clone()), 3), |response| {
            assert_eq!(response.results[0].error_code, code.code(), "{assignments:?} {response:?}");
        });
    }
    let replicas: Vec<Vec<i32>> = told(&mut world, 12, "t").into_iter().map(|it| it.2).collect();
    assert_eq!(replicas, [vec![3, 1], vec![1, 2], vec![2, 3]]);
    for assignments in [&[&[1, 1][..]][..], &[&[1, 9]], &[&[1, 2], &[1]], &[&[]]] {
        let refused = world.ask(7, &with_assignments("u", assignments), |it| it.topics[0].error_code);
        assert_eq!(refused, ErrorCode::InvalidReplicaAssignment.code(), "{assignments:?}");
    }
}

#[test]
fn three_brokers_make_topics_that_survive_one() {
    let mut world = world();
    world.topic("t", 2, &[]);
    for (_, _, replicas, isr, _) in told(&mut world, 12, "t") {
        let distinct: BTreeSet<i32> = replicas.iter().copied().collect();
        assert_eq!((replicas.len(), distinct.len(), isr.len()), (3, 3, 3));
    }
}
