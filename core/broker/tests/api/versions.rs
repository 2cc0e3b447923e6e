//! Which APIs and versions there are, and how a client finds out.

use vltava_broker::api::APIS;
use vltava_broker::call::CloseReason;
use wire::messages::api_versions::ApiVersionsRequest;
use wire::{ApiKey, DecodeError};

use crate::requests::{hex, with_topic};
use crate::world::{CLUSTER, World};

#[test]
fn g01_api_versions_too_new_is_answered_in_v0_with_its_own_range() {
    let mut world = World::new();
    let frame = [0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0];
    let bytes = world.send(&frame).bytes();
    assert_eq!(hex(&bytes), "00000007".to_owned() + "0023" + "00000001" + "0012" + "0000" + "0005");
}

#[test]
fn g02_the_header_of_the_api_versions_answer_has_no_tags() {
    let mut world = World::new();
    let request = ApiVersionsRequest {
        client_software_name: "test",
        client_software_version: "1.0",
        ..ApiVersionsRequest::default()
    };
    for version in 0..=5 {
        let bytes = world.request(version, &request).bytes();
        assert_eq!(hex(&bytes[..6]), "000000070000", "v{version}: correlation id, then the error code");
    }
}

#[test]
fn g03_client_software_is_a_word() {
    let mut world = World::new();
    for (name, version, code) in
        [("a-b.c", "1.0", 0), ("", "1", 42), ("-a", "1", 42), ("a b", "1", 42), ("a", "", 42)]
    {
        let request = ApiVersionsRequest {
            client_software_name: name,
            client_software_version: version,
            ..ApiVersionsRequest::default()
        };
        world.ask(3, &request, |response| assert_eq!(response.error_code, code, "{name:?} {version:?}"));
    }
}

#[test]
fn g04_a_client_of_another_cluster_is_told_to_start_over() {
    let mut world = World::new();
    let node = world.node().0;
    for (cluster_id, node_id, code) in [
        (None, -1, 0),
        (Some(CLUSTER), node, 0),
        (Some("other"), -1, 129),
        (Some(CLUSTER), node + 1, 129),
        (None, 1, 42),
    ] {
        let request = ApiVersionsRequest {
            client_software_name: "test",
            client_software_version: "1",
            cluster_id,
            node_id,
        };
        world.ask(5, &request, |response| assert_eq!(response.error_code, code, "{cluster_id:?} {node_id}"));
    }
}

#[test]
fn g06_produce_is_advertised_from_0_and_served_from_3() {
    let mut world = World::new();
    world.ask(0, &ApiVersionsRequest::default(), |response| {
        let produce = response.api_keys.iter().find(|api| api.api_key == 0).unwrap();
        assert_eq!((produce.min_version, produce.max_version), (0, 13));
    });
    for version in 0..3u8 {
        world.send(&[0, 0, 0, version, 0, 0, 0, 7, 0xff, 0xff, 0, 0]).closed();
    }
}

#[test]
fn g07_what_is_not_served_closes_the_connection() {
    let mut world = World::new();
    let unknown = |key| CloseReason::Malformed(DecodeError::UnknownKey { key });
    let of_controllers = |key| CloseReason::UnknownApi { key };
    let unserved = |key, version| CloseReason::UnsupportedVersion { key, version };
    for (key, version, why) in [
        (4, 0, unknown(4)),
        (255, 0, unknown(255)),
        (52, 0, of_controllers(52)),
        (3, 14, unserved(ApiKey::Metadata, 14)),
        (11, 10, unserved(ApiKey::JoinGroup, 10)),
        (1, 3, unserved(ApiKey::Fetch, 3)),
    ] {
        let reason = world.send(&[0, key, 0, version, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0]).closed();
        assert_eq!(reason, why);
    }
    world.send(&[]).closed();
    world.send(&[0, 3]).closed();
}

#[test]
fn g36_librdkafka_finds_all_apis_of_groups_together() {
    use wire::messages::find_coordinator::FindCoordinatorRequest;
    let mut world = World::new();
    // Without one of these it reads no groups, and without FindCoordinator it compresses nothing with lz4.
    let wanted = [(8, 2), (9, 1), (10, 0), (11, 0), (12, 0), (13, 0), (14, 0)];
    world.ask(0, &ApiVersionsRequest::default(), |response| {
        for (key, version) in wanted {
            let found = response.api_keys.iter().find(|api| api.api_key == key).unwrap();
            assert!((found.min_version..=found.max_version).contains(&version), "{found:?}");
        }
    });
    for version in 0..=6 {
        let mut request = FindCoordinatorRequest::default();
        if version >= 4 {
            request.coordinator_keys = vec!["g"];
        } else {
            request.key = "g";
        }
        world.ask(version, &request, |response| {
            let found = response.coordinators.first();
            let (code, node) =
                found.map_or((response.error_code, response.node_id), |it| (it.error_code, it.node_id));
            assert_eq!((code, node), (0, 1), "v{version}");
        });
    }
}

#[test]
fn g05_old_clients_are_told_of_no_feature_that_begins_at_0() {
    let mut world = World::new();
    let request = ApiVersionsRequest {
        client_software_name: "test",
        client_software_version: "1",
        ..ApiVersionsRequest::default()
    };
    for version in 0..=3 {
        world.ask(version, &request, |response| {
            assert!(response.supported_features.iter().all(|feature| feature.min_version > 0), "v{version}");
        });
    }
}

#[test]
fn g39_each_api_is_served_in_the_versions_of_one_release_of_kafka() {
    let mut world = World::new();
    world.ask(0, &ApiVersionsRequest::default(), |response| {
        assert_eq!(response.api_keys.len(), APIS.len());
        for (told, api) in response.api_keys.iter().zip(APIS) {
            let kafka = api.key.versions();
            let from = if told.api_key == 0 { 0 } else { *kafka.start() };
            let all = (api.key.code(), from, *kafka.end());
            assert_eq!((told.api_key, told.min_version, told.max_version), all, "{}", api.key);
            assert_eq!(api.served, kafka, "{}", api.key);
        }
    });
}

#[test]
fn every_api_refuses_a_body_that_ends_early() {
    for api in APIS {
        for version in api.served.clone() {
            let mut frame = vec![0, api.key.code() as u8, 0, version as u8, 0, 0, 0, 7, 0xff, 0xff];
            frame.extend(api.key.is_flexible(version).then_some(0));
            // These have no body, and what follows a body is ignored.
            let has_none = [ApiKey::ApiVersions, ApiKey::ListGroups];
            let is_empty = has_none.contains(&api.key) && version < 3;
            for body in [[].as_slice(), &[0x7f]] {
                let mut world = with_topic();
                let reaction = world.send(&[frame.as_slice(), body].concat());
                if is_empty {
                    reaction.bytes();
                } else {
                    let reason = reaction.closed();
                    assert!(matches!(reason, CloseReason::Malformed(_)), "{} v{version}: {reason}", api.key);
                }
            }
        }
    }
}
