//! Settings: described, changed, listed.

use base::ErrorCode;
use controller::ControllerError;
use wire::messages::alter_configs::{self, AlterConfigsRequest};
use wire::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use wire::messages::list_config_resources::ListConfigResourcesRequest;

use crate::requests::with_topic;
use crate::world::World;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const GROUP: i8 = 32;

fn describe<'a>(kind: i8, name: &'a str, keys: Option<Vec<&'a str>>) -> DescribeConfigsRequest<'a> {
    let resource =
        DescribeConfigsResource { resource_type: kind, resource_name: name, configuration_keys: keys };
    DescribeConfigsRequest { resources: vec![resource], ..DescribeConfigsRequest::default() }
}

fn set(world: &mut World, kind: i8, name: &str, setting: &str, value: Option<&str>) -> ErrorCode {
    let config = AlterableConfig { name: setting, config_operation: 0, value };
    let resource = AlterConfigsResource { resource_type: kind, resource_name: name, configs: vec![config] };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], validate_only: false };
    world.ask(1, &request, |response| ErrorCode::from_i16(response.responses[0].error_code).unwrap())
}

#[test]
fn g32_settings_that_tools_write_are_taken_and_told() {
    let mut world = World::new();
    let given =
        [("min.insync.replicas", "2"), ("flush.messages", "7"), ("flush.ms", "9"), ("preallocate", "true")];
    world.topic("t", 1, &given);
    for (name, value) in given {
        world.ask(4, &describe(TOPIC, "t", Some(vec![name])), |response| {
            let config = &response.results[0].configs[0];
            assert_eq!((config.name, config.value, config.config_source), (name, Some(value), 1));
        });
    }
}

#[test]
fn g33_a_setting_is_described_with_all_there_is_to_know() {
    let mut world = World::with(&[("log.retention.hours", "5")]);
    world.topic("t", 1, &[]);
    set(&mut world, BROKER, "", "log.retention.ms", Some("70000"));
    set(&mut world, TOPIC, "t", "retention.ms", Some("80000"));
    for asked in [false, true] {
        let request = DescribeConfigsRequest {
            include_synonyms: asked,
            include_documentation: asked,
            ..describe(TOPIC, "t", Some(vec!["retention.ms"]))
        };
        world.ask(4, &request, |response| {
            let config = &response.results[0].configs[0];
            let plain = (config.value, config.config_source, config.config_type, config.is_sensitive);
            assert_eq!(plain, (Some("80000"), 1, 5, false), "a long, set for the topic");
            assert!(!config.read_only);
            assert_eq!(config.documentation.is_some_and(|text| !text.is_empty()), asked);
            let synonyms = config.synonyms.iter().map(|s| (s.name, s.value, s.source));
            let all = [
                ("retention.ms", Some("80000"), 1),
                ("log.retention.ms", Some("70000"), 3),
                ("log.retention.hours", Some("5"), 4),
            ];
            let told: Vec<_> = synonyms.filter(|(_, _, source)| *source < 5).collect();
            assert_eq!(told, if asked { all.to_vec() } else { Vec::new() });
        });
    }
}

#[test]
fn an_empty_list_of_settings_means_all() {
    let mut world = with_topic();
    let count = |world: &mut World, keys| {
        world.ask(4, &describe(TOPIC, "t", keys), |response| response.results[0].configs.len())
    };
    let all = count(&mut world, None);
    assert!(all > 20);
    assert_eq!(count(&mut world, Some(Vec::new())), all);
    assert_eq!(count(&mut world, Some(vec!["retention.ms", "no.such"])), 1);
}

#[test]
fn every_broker_is_described_without_what_is_set_for_one() {
    let mut world = World::new();
    let node = world.node().to_string();
    set(&mut world, BROKER, "", "log.retention.ms", Some("70000"));
    set(&mut world, BROKER, &node, "log.retention.ms", Some("80000"));
    for (name, value, source) in [("", "70000", 3), (node.as_str(), "80000", 2)] {
        world.ask(4, &describe(BROKER, name, Some(vec!["log.retention.ms"])), |response| {
            let config = &response.results[0].configs[0];
            assert_eq!((config.value, config.config_source), (Some(value), source), "broker {name:?}");
        });
    }
    set(&mut world, BROKER, &node, "log.retention.bytes", Some("1"));
    world.ask(4, &describe(BROKER, "", None), |response| assert_eq!(response.results[0].configs.len(), 1));
}

#[test]
fn loggers_are_those_of_this_broker() {
    let mut world = World::new();
    let node = world.node().to_string();
    for (name, code) in [
        (node.as_str(), ErrorCode::None),
        ("", ErrorCode::InvalidRequest),
        ("77", ErrorCode::InvalidRequest),
        ("x", ErrorCode::InvalidRequest),
    ] {
        world.ask(4, &describe(BROKER_LOGGER, name, None), |response| {
            assert_eq!(response.results[0].error_code, code.code(), "{name:?}");
        });
    }
}

#[test]
fn null_is_no_value() {
    let mut world = with_topic();
    assert_eq!(set(&mut world, TOPIC, "t", "retention.ms", None), ErrorCode::InvalidRequest);
    let request = replacing(vec![to(TOPIC, "t", &[("retention.ms", None)])]);
    world.ask(2, &request, |response| {
        let told = &response.responses[0];
        assert_eq!(told.error_code, ErrorCode::InvalidRequest.code());
        assert_eq!(told.error_message, Some("Null value not supported for : retention.ms"));
    });
}

/// All that is to be set for a resource.
fn to<'a>(
    resource_type: i8,
    resource_name: &'a str,
    configs: &[(&'a str, Option<&'a str>)],
) -> alter_configs::AlterConfigsResource<'a> {
    let configs = configs.iter().map(|&(name, value)| alter_configs::AlterableConfig { name, value });
    alter_configs::AlterConfigsResource { resource_type, resource_name, configs: configs.collect() }
}

fn replacing(resources: Vec<alter_configs::AlterConfigsResource<'_>>) -> AlterConfigsRequest<'_> {
    AlterConfigsRequest { resources, validate_only: false }
}

/// A setting's value, if it is set for the resource itself.
fn is_set(world: &mut World, kind: i8, name: &str, setting: &str) -> Option<String> {
    world.ask(4, &describe(kind, name, Some(vec![setting])), |response| {
        let config = response.results[0].configs.first();
        let own = config.filter(|config| [1, 3].contains(&config.config_source));
        own.map(|config| config.value.unwrap().to_owned())
    })
}

#[test]
fn who_replaces_all_settings_takes_back_those_that_are_not_named() {
    for version in 0..=2 {
        let mut world = with_topic();
        for (kind, name, setting, kept) in
            [(TOPIC, "t", "retention.ms", "segment.ms"), (BROKER, "", "log.retention.ms", "log.roll.ms")]
        {
            let told = |world: &mut World| [setting, kept].map(|setting| is_set(world, kind, name, setting));
            let both = ["70000", "80000"].map(|value| Some(value.to_owned()));
            assert_eq!(set(&mut world, kind, name, setting, Some("70000")), ErrorCode::None);
            assert_eq!(set(&mut world, kind, name, kept, Some("80000")), ErrorCode::None);
            assert_eq!(told(&mut world), both);
            let one = replacing(vec![to(kind, name, &[(kept, Some("90000"))])]);
            let only_asked = AlterConfigsRequest { validate_only: true, ..one.clone() };
            let none = replacing(vec![to(kind, name, &[])]);
            let later = [None, Some("90000".to_owned())];
            for (request, after) in [(only_asked, both), (one, later), (none, [None, None])] {
                world.ask(version, &request, |response| {
                    let of = &response.responses[0];
                    let told = (of.error_code, of.error_message, of.resource_type, of.resource_name);
                    assert_eq!(told, (0, None, kind, name), "v{version}");
                });
                assert_eq!(told(&mut world), after, "v{version} {name:?}");
            }
        }
    }
}

#[test]
fn each_resource_is_answered_for_itself_in_the_order_asked_for() {
    let mut world = World::new();
    let names = ["t", "u", "v", "w", "x"];
    names.iter().for_each(|name| world.topic(name, 1, &[]));
    let good: &[_] = &[("retention.ms", Some("70000"))];
    let (ok, invalid, unknown) =
        (ErrorCode::None, ErrorCode::InvalidRequest, ErrorCode::UnknownTopicOrPartition);
    // The last is whether the controller is asked at all.
    let cases: [(i8, &str, &[_], ErrorCode, bool); 13] = [
        (99, "t", good, invalid, false),
        (TOPIC, "t", good, ok, true),
        (TOPIC, "a b", good, ErrorCode::InvalidTopicException, false),
        (TOPIC, "nope", good, unknown, true),
        (BROKER, "77", good, invalid, false),
        (BROKER, "x", good, invalid, false),
        (BROKER_LOGGER, "1", good, invalid, false),
        (GROUP, "", good, invalid, false),
        (TOPIC, "u", &[good[0], ("no.such", Some("1"))], ErrorCode::InvalidConfig, true),
        (TOPIC, "v", &[("retention.ms", Some("x"))], ErrorCode::InvalidConfig, true),
        (TOPIC, "w", good, invalid, true),
        (TOPIC, "x", &[good[0], good[0]], invalid, true),
        (TOPIC, "w", good, invalid, true),
    ];
    let request = replacing(cases.iter().map(|(kind, name, configs, ..)| to(*kind, name, configs)).collect());
    let told = |world: &mut World| {
        world.ask(2, &request, |response| {
            let all = response.responses.iter();
            let all = all.map(|it| {
                let code = ErrorCode::from_i16(it.error_code).unwrap();
                assert_eq!(it.error_message.is_none(), code.is_none(), "{it:?}");
                (it.resource_type, it.resource_name.to_owned(), code)
            });
            all.collect::<Vec<_>>()
        })
    };
    let decided = cases.map(|(kind, name, _, code, _)| (kind, name.to_owned(), code));
    assert_eq!(told(&mut world), decided);
    let after = names.map(|name| is_set(&mut world, TOPIC, name, "retention.ms"));
    assert_eq!(after, [Some("70000".to_owned()), None, None, None, None]);
    world.script(Err(ControllerError::NotController { active: None }));
    let undecided = cases.map(|(kind, name, _, code, is_asked)| {
        (kind, name.to_owned(), if is_asked { ErrorCode::NotController } else { code })
    });
    assert_eq!(told(&mut world), undecided);
}

#[test]
fn what_has_settings_is_listed_by_kind() {
    let mut world = with_topic();
    let node = world.node().to_string();
    let list = |world: &mut World, version, kinds: &[i8]| {
        let request = ListConfigResourcesRequest { resource_types: kinds.to_vec() };
        world.ask(version, &request, |response| {
            let found = response.config_resources.iter();
            let found: Vec<_> = found.map(|r| (r.resource_type, r.resource_name.to_owned())).collect();
            (response.error_code, found)
        })
    };
    assert_eq!(list(&mut world, 0, &[]), (0, vec![]), "v0 knows client metrics alone");
    let topic = (TOPIC, "t".to_owned());
    assert_eq!(list(&mut world, 1, &[TOPIC]), (0, vec![topic.clone()]));
    let all = vec![topic, (BROKER, node.clone()), (BROKER_LOGGER, node)];
    assert_eq!(list(&mut world, 1, &[]), (0, all));
    assert_eq!(list(&mut world, 1, &[99]).0, ErrorCode::UnsupportedVersion.code());
}
