//! What a small request may cost: its answer is not many times as large.

use base::ErrorCode;
use vltava_broker::call::CloseReason;
use wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig, CreateTopicsRequest};
use wire::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};

use crate::requests::metadata_of;
use crate::world::World;

#[test]
fn a_topic_named_again_and_again_is_told_of_once() {
    let mut world = World::new();
    world.topic("t", 100, &[]);
    let once = world.request(12, &metadata_of("t", false)).bytes().len();
    let topic = MetadataRequestTopic { name: Some("t"), ..MetadataRequestTopic::default() };
    let request = MetadataRequest { topics: Some(vec![topic; 50_000]), ..metadata_of("t", false) };
    assert_eq!(world.request(12, &request).bytes().len(), once);
}

#[test]
fn settings_asked_for_again_and_again_are_told_once() {
    let mut world = World::new();
    world.topic("t", 1, &[]);
    let resource = DescribeConfigsResource { resource_type: 2, resource_name: "t", configuration_keys: None };
    let request = |count| DescribeConfigsRequest {
        resources: vec![resource.clone(); count],
        include_documentation: true,
        include_synonyms: true,
    };
    let once = world.request(4, &request(1)).bytes().len();
    assert_eq!(world.request(4, &request(50_000)).bytes().len(), once);
}

#[test]
fn the_settings_of_very_many_topics_are_told_in_parts() {
    const SETTING: &str = "leader.replication.throttled.replicas";
    let mut world = World::new();
    let names: Vec<String> = (0..1_200).map(|i| format!("t{i}")).collect();
    let long = format!("0:1{}", " ".repeat(30_000));
    let topics = names.iter().map(|name| CreatableTopic {
        name,
        num_partitions: 1,
        replication_factor: 1,
        configs: vec![CreatableTopicConfig { name: SETTING, value: Some(&long) }],
        ..CreatableTopic::default()
    });
    let create = CreateTopicsRequest { topics: topics.collect(), ..CreateTopicsRequest::default() };
    world.ask(4, &create, |response| assert!(response.topics.iter().all(|topic| topic.error_code == 0)));
    let resources = names.iter().map(|resource_name| DescribeConfigsResource {
        resource_type: 2,
        resource_name,
        configuration_keys: Some(vec![SETTING]),
    });
    let request =
        DescribeConfigsRequest { resources: resources.collect(), ..DescribeConfigsRequest::default() };
    world.ask(4, &request, |response| {
        assert_eq!(response.results.len(), names.len());
        let told = response.results.iter().position(|result| result.error_code != 0).unwrap();
        assert!(told > 1_000, "{told}");
        let rest = &response.results[told..];
        assert!(
            rest.iter().all(|r| r.error_code == ErrorCode::InvalidRequest.code() && r.configs.is_empty())
        );
    });
}

#[test]
fn a_request_that_names_too_much_closes_its_connection() {
    let mut world = World::new();
    let parts = vec![FetchPartition::default(); 100_000];
    let topic = FetchTopic { topic: "t", partitions: parts, ..FetchTopic::default() };
    let fetch = FetchRequest { topics: vec![topic], ..FetchRequest::default() };
    let topic = ListOffsetsTopic { name: "t", partitions: vec![ListOffsetsPartition::default(); 100_000] };
    let offsets = ListOffsetsRequest { topics: vec![topic], ..ListOffsetsRequest::default() };
    for reaction in [world.request(4, &fetch), world.request(7, &offsets)] {
        assert!(matches!(reaction.closed(), CloseReason::TooMany { count: 100_001, .. }));
    }
}

#[test]
fn an_answer_repeats_only_the_beginning_of_what_a_client_wrote() {
    let mut world = World::new();
    world.topic("t", 1, &[]);
    let long = "x".repeat(32_700);
    let resource =
        DescribeConfigsResource { resource_type: 4, resource_name: &long, configuration_keys: None };
    let describe = DescribeConfigsRequest { resources: vec![resource], ..DescribeConfigsRequest::default() };
    world.ask(1, &describe, |response| {
        assert_eq!(response.results[0].error_code, ErrorCode::InvalidRequest.code());
        assert!(response.results[0].error_message.unwrap().len() < 2_000);
    });
    let config = AlterableConfig { name: &long, config_operation: 0, value: Some("1") };
    let resource = AlterConfigsResource { resource_type: 2, resource_name: "t", configs: vec![config] };
    let alter = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
    world.ask(0, &alter, |response| {
        assert_eq!(response.responses[0].error_code, ErrorCode::InvalidConfig.code());
        assert!(response.responses[0].error_message.unwrap().len() < 2_000);
    });
}
