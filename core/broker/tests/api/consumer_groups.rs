//! Groups of the new protocol through their APIs, and their settings (KIP-848).

use std::time::Duration;

use base::ErrorCode;
use wire::messages::api_versions::ApiVersionsRequest;
use wire::messages::consumer_group_describe::ConsumerGroupDescribeRequest;
use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use wire::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::messages::find_coordinator::FindCoordinatorRequest;
use wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use wire::messages::list_config_resources::ListConfigResourcesRequest;
use wire::messages::list_groups::ListGroupsRequest;
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};

use crate::world::{World, read};

const GROUP: i8 = 32;

/// A world that has a topic and the topic of committed offsets.
fn world() -> World {
    let mut world = World::new();
    world.topic("orders", 2, &[]);
    let find = FindCoordinatorRequest { coordinator_keys: vec!["billing"], ..Default::default() };
    world.ask(4, &find, |response| assert_eq!(response.coordinators[0].error_code, 0));
    world
}

fn join<'a>() -> ConsumerGroupHeartbeatRequest<'a> {
    ConsumerGroupHeartbeatRequest {
        group_id: "billing",
        member_id: "reader",
        rebalance_timeout_ms: 60_000,
        subscribed_topic_regex: Some("ord.*"),
        topic_partitions: Some(vec![]),
        ..Default::default()
    }
}

/// `reader` joins, is told what to read, and is to be heard again soon, as its group has just changed (ADR 0024). It is
/// heard again after so many seconds, and after that every so many milliseconds.
fn joins(world: &mut World, seconds: u64) -> i32 {
    let shard = world.shard_of("billing");
    let parked = world.request(1, &join()).parked();
    assert_eq!(world.bell.rang(), 0, "it is not committed yet");
    shard.commit(world.now);
    assert_eq!(world.bell.rang(), 1);
    read::<ConsumerGroupHeartbeatRequest<'_>, _>(&world.look(parked).bytes(), 1, |response| {
        assert_eq!((response.error_code, response.member_epoch), (0, 1), "{response:?}");
        assert_eq!(response.member_id, Some("reader"));
        let assigned = &response.assignment.as_ref().expect("it is new").topic_partitions;
        assert_eq!(assigned[0].partitions, [0, 1]);
        assert_eq!(response.heartbeat_interval_ms, 300);
    });
    world.now.elapsed += Duration::from_secs(seconds);
    world.ask(1, &beat(), |response| {
        assert_eq!((response.error_code, response.member_epoch), (0, 1));
        assert_eq!(response.assignment, None, "nothing changed");
        response.heartbeat_interval_ms
    })
}

fn beat<'a>() -> ConsumerGroupHeartbeatRequest<'a> {
    ConsumerGroupHeartbeatRequest {
        group_id: "billing",
        member_id: "reader",
        member_epoch: 1,
        ..Default::default()
    }
}

#[test]
fn a_reader_joins_is_described_commits_and_is_refused_what_is_not_its_own() {
    let mut world = world();
    assert_eq!(joins(&mut world, 5), 5_000);
    let stranger = ConsumerGroupHeartbeatRequest { member_id: "stranger", ..beat() };
    world.ask(1, &stranger, |response| {
        assert_eq!(response.error_code, ErrorCode::UnknownMemberId.code());
        assert_eq!(response.error_message, Some("Member stranger is not a member of group billing."));
    });
    let commit = |epoch| OffsetCommitRequest {
        group_id: "billing",
        generation_id_or_member_epoch: epoch,
        member_id: "reader",
        topics: vec![OffsetCommitRequestTopic {
            name: "orders",
            partitions: vec![OffsetCommitRequestPartition { partition_index: 1, ..Default::default() }],
            ..Default::default()
        }],
        ..Default::default()
    };
    world.ask(9, &commit(2), |response| {
        let code = response.topics[0].partitions[0].error_code;
        assert_eq!(code, ErrorCode::StaleMemberEpoch.code());
    });
    world.ask(8, &commit(1), |response| {
        let code = response.topics[0].partitions[0].error_code;
        assert_eq!(code, ErrorCode::UnsupportedVersion.code(), "a version before member epochs");
    });
    let asks = ConsumerGroupDescribeRequest {
        group_ids: vec!["billing", "nobody"],
        include_authorized_operations: true,
    };
    world.ask(1, &asks, |response| {
        let [billing, nobody] = &response.groups[..] else { panic!("{response:?}") };
        assert_eq!(
            (billing.group_state, billing.group_epoch, billing.assignor_name),
            ("Stable", 1, "uniform")
        );
        assert_eq!(billing.authorized_operations, 3400);
        let [reader] = &billing.members[..] else { panic!("{billing:?}") };
        assert_eq!((reader.member_id, reader.client_id, reader.member_type), ("reader", "test", 1));
        assert_eq!(reader.subscribed_topic_regex, Some("ord.*"));
        let assigned = &reader.assignment.topic_partitions[0];
        assert_eq!((assigned.topic_name, &assigned.partitions[..]), ("orders", &[0, 1][..]));
        assert_eq!((nobody.group_id, nobody.error_code), ("nobody", ErrorCode::GroupIdNotFound.code()));
    });
    let types = ListGroupsRequest { types_filter: vec!["consumer"], ..Default::default() };
    world.ask(5, &types, |response| {
        let [listed] = &response.groups[..] else { panic!("{response:?}") };
        let told = (listed.group_id, listed.group_state, listed.group_type, listed.protocol_type);
        assert_eq!(told, ("billing", "Stable", "consumer", "consumer"));
    });
}

fn set(world: &mut World, group: &str, name: &str, value: &str) -> (ErrorCode, Option<String>) {
    let config = AlterableConfig { name, config_operation: 0, value: Some(value) };
    let resource = AlterConfigsResource { resource_type: GROUP, resource_name: group, configs: vec![config] };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
    world.ask(1, &request, |response| {
        let said = &response.responses[0];
        (ErrorCode::from_i16(said.error_code).unwrap(), said.error_message.map(str::to_owned))
    })
}

#[test]
fn a_groups_own_settings_are_set_told_listed_and_kept_to() {
    let mut world = world();
    let interval = "consumer.heartbeat.interval.ms";
    assert_eq!(set(&mut world, "billing", interval, "7000"), (ErrorCode::None, None));
    let (code, words) = set(&mut world, "billing", interval, "1");
    assert_eq!(code, ErrorCode::InvalidConfig);
    let why = "must be greater than or equal to group.consumer.min.heartbeat.interval.ms";
    assert_eq!(words, Some(format!("{interval} {why}")));
    assert_eq!(set(&mut world, "", interval, "7000").0, ErrorCode::InvalidRequest);
    assert_eq!(set(&mut world, "billing", "retention.ms", "7000").0, ErrorCode::InvalidConfig);

    let resource =
        DescribeConfigsResource { resource_type: GROUP, resource_name: "billing", configuration_keys: None };
    world.ask(4, &DescribeConfigsRequest { resources: vec![resource], ..Default::default() }, |response| {
        let told = response.results[0].configs.iter().map(|it| (it.name, it.value, it.config_source));
        let all = [
            ("consumer.assignment.interval.ms", Some("1000"), 5),
            (interval, Some("7000"), 8),
            ("consumer.session.timeout.ms", Some("45000"), 5),
        ];
        assert_eq!(told.collect::<Vec<_>>(), all);
    });
    world.ask(1, &ListConfigResourcesRequest { resource_types: vec![GROUP] }, |response| {
        let names: Vec<_> = response.config_resources.iter().map(|it| it.resource_name).collect();
        assert_eq!(names, ["billing"]);
    });
    assert_eq!(joins(&mut world, 7), 7_000);
}

#[test]
fn clients_are_told_that_the_new_protocol_is_spoken() {
    let mut world = World::new();
    let request = ApiVersionsRequest {
        client_software_name: "test",
        client_software_version: "1",
        ..ApiVersionsRequest::default()
    };
    world.ask(4, &request, |response| {
        let supported = response.supported_features.iter().find(|it| it.name == "group.version");
        assert_eq!(supported.map(|it| (it.min_version, it.max_version)), Some((1, 1)));
        let finalized = response.finalized_features.iter().find(|it| it.name == "group.version");
        assert!(finalized.is_none_or(|it| it.max_version_level == 1), "{response:?}");
    });
}
