//! Who is sent away, and with which error.

use std::time::Duration;

use base::ErrorCode;
use wire::messages::heartbeat::HeartbeatRequest;
use wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use wire::messages::sync_group::SyncGroupRequest;

use super::stage::{Client, GROUP, Stage};
use crate::{Request, Response, ShardSettings};

#[test]
fn a_join_that_cannot_be_is_refused() {
    let mut stage = Stage::new();
    let protocol = JoinGroupRequestProtocol { name: "range", metadata: b"" };
    let good = JoinGroupRequest {
        group_id: GROUP,
        session_timeout_ms: 10_000,
        protocol_type: "consumer",
        protocols: vec![protocol.clone()],
        ..JoinGroupRequest::default()
    };
    let large = vec![0; 1 << 20];
    let too_large = JoinGroupRequestProtocol { name: "range", metadata: &large };
    let cases = [
        ("no group", JoinGroupRequest { group_id: "", ..good.clone() }, ErrorCode::InvalidGroupId),
        (
            "too short a session",
            JoinGroupRequest { session_timeout_ms: 5_999, ..good.clone() },
            ErrorCode::InvalidSessionTimeout,
        ),
        (
            "too long a session",
            JoinGroupRequest { session_timeout_ms: 1_800_001, ..good.clone() },
            ErrorCode::InvalidSessionTimeout,
        ),
        ("no such member", JoinGroupRequest { member_id: "x", ..good.clone() }, ErrorCode::UnknownMemberId),
        (
            "no protocol",
            JoinGroupRequest { protocols: vec![], ..good.clone() },
            ErrorCode::InconsistentGroupProtocol,
        ),
        (
            "no type of protocol",
            JoinGroupRequest { protocol_type: "", ..good.clone() },
            ErrorCode::InconsistentGroupProtocol,
        ),
        (
            "too much to say",
            JoinGroupRequest { protocols: vec![too_large], ..good.clone() },
            ErrorCode::InvalidRequest,
        ),
        (
            "too many protocols",
            JoinGroupRequest { protocols: vec![protocol; 17], ..good.clone() },
            ErrorCode::InvalidRequest,
        ),
        ("nothing wrong", good, ErrorCode::MemberIdRequired),
    ];
    for (name, request, expected) in cases {
        let ticket = stage.ask(9, "c", Request::JoinGroup(&request));
        let Some(Response::JoinGroup(told)) = stage.told(ticket) else { panic!("{name} waits") };
        assert_eq!((told.error, told.generation), (expected, -1), "{name}");
    }
    assert_eq!(stage.log, [], "nothing of it lasts");
    // The id that was given out is not waited for any longer than a session.
    assert_eq!(stage.shard.group_count(), 1);
    stage.pass(Duration::from_secs(10));
    assert_eq!(stage.shard.group_count(), 0);
}

#[test]
fn stale_generations_and_strangers_are_refused() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::new("a"), Client::new("b"));
    stage.settle(&mut [&mut a, &mut b]);
    let stranger = Client { id: "nobody".into(), generation: 1, ..Client::new("nobody") };
    let simple = Client::new("simple");
    let stale = Client { generation: 0, ..a.clone() };
    let ahead = Client { generation: 2, ..a.clone() };
    let cases = [
        ("a stranger", &stranger, ErrorCode::UnknownMemberId),
        ("an older generation", &stale, ErrorCode::IllegalGeneration),
        ("a generation to come", &ahead, ErrorCode::IllegalGeneration),
    ];
    for (name, client, expected) in cases {
        assert_eq!(stage.heartbeat(client), expected, "heartbeat of {name}");
        let ticket = stage.sync(client, &[]);
        assert_eq!(stage.synced(ticket), expected.name(), "sync of {name}");
        let ticket = stage.commit_as(client, &[("events", 0, 7)]);
        assert_eq!(stage.commit_told(ticket), Some(vec![expected]), "commit of {name}");
    }
    // Who is in no group must not commit for one that has members.
    let ticket = stage.commit_as(&simple, &[("events", 0, 7)]);
    assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::UnknownMemberId]));
    assert_eq!(stage.leave(&stranger), ErrorCode::UnknownMemberId);
    assert_eq!(stage.offset("events", 0), -1);

    // Between two generations members may still say how far they came, until the next has begun.
    let tickets = [stage.join(&mut a), {
        let ticket = stage.commit_as(&b, &[("events", 0, 7)]);
        assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::None]));
        stage.join(&mut b)
    }];
    stage.joined(tickets[0], &mut a);
    stage.joined(tickets[1], &mut b);
    let ticket = stage.commit_as(&b, &[("events", 0, 8)]);
    assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::RebalanceInProgress]));
    assert_eq!(stage.offset("events", 0), 7);
}

/// As Kafka has it: it is each member that is not there, not the group.
#[test]
fn who_leaves_a_group_that_is_not_there_is_told_so_for_each() {
    let mut stage = Stage::new();
    let member = |member_id, group_instance_id| MemberIdentity { member_id, group_instance_id, reason: None };
    let members = vec![member("a", None), member("", Some("desk"))];
    let request = LeaveGroupRequest { group_id: GROUP, member_id: "old", members };
    let mut told = |version| {
        let ticket = stage.ask(version, "c", Request::LeaveGroup(&request));
        let Some(Response::LeaveGroup(left)) = stage.told(ticket) else { panic!("it waits") };
        let response = left.to_wire(version);
        let members = response.members.iter();
        let members =
            members.map(|it| (it.member_id.to_owned(), it.group_instance_id.is_some(), it.error_code));
        (response.error_code, members.collect::<Vec<_>>())
    };
    let unknown = ErrorCode::UnknownMemberId.code();
    assert_eq!(told(5), (0, vec![("a".into(), false, unknown), (String::new(), true, unknown)]));
    assert_eq!(told(2), (unknown, vec![]));
}

#[test]
fn a_sync_must_name_the_protocol_that_was_chosen() {
    let mut stage = Stage::new();
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    let good = SyncGroupRequest {
        group_id: GROUP,
        generation_id: a.generation,
        member_id: &a.id,
        protocol_type: Some("consumer"),
        protocol_name: Some("range"),
        ..SyncGroupRequest::default()
    };
    let other_type = SyncGroupRequest { protocol_type: Some("connect"), ..good.clone() };
    let other_name = SyncGroupRequest { protocol_name: Some("sticky"), ..good.clone() };
    let no_group = SyncGroupRequest { group_id: "", ..good.clone() };
    let cases = [
        (good.clone(), "part of a"),
        (other_type, "INCONSISTENT_GROUP_PROTOCOL"),
        (other_name, "INCONSISTENT_GROUP_PROTOCOL"),
        (no_group, "INVALID_GROUP_ID"),
        (SyncGroupRequest { group_id: "no such", ..good }, "UNKNOWN_MEMBER_ID"),
    ];
    for (request, expected) in cases {
        let ticket = stage.ask(5, "a", Request::SyncGroup(&request));
        assert_eq!(stage.synced(ticket), expected);
    }
}

#[test]
fn a_full_group_takes_nobody_more() {
    let mut stage = Stage::with(ShardSettings { members_max: 2, ..ShardSettings::default() });
    let (mut a, mut b, mut c) = (Client::new("a"), Client::new("b"), Client::new("c"));
    stage.settle(&mut [&mut a, &mut b]);
    let ticket = stage.join(&mut c);
    assert_eq!(stage.joined(ticket, &mut c), "GROUP_MAX_SIZE_REACHED");
    assert_eq!(stage.heartbeat(&a), ErrorCode::None, "the others do not notice");
    stage.leave(&b);
    let ticket = stage.join(&mut c);
    let last = stage.join(&mut a);
    assert_eq!(stage.joined(last, &mut a), "generation 2 range led by a: a c");
    assert_eq!(stage.joined(ticket, &mut c), "generation 2 range led by a");
}

#[test]
fn a_shard_that_does_not_lead_or_is_not_loaded_says_so() {
    let mut stage = Stage::new();
    let request = HeartbeatRequest { group_id: GROUP, ..HeartbeatRequest::default() };
    stage.unload();
    let ticket = stage.ask(4, "c", Request::Heartbeat(&request));
    assert_eq!(stage.told(ticket), Some(Response::Heartbeat(ErrorCode::NotCoordinator)));
    stage.shard.on_load_begin();
    let ticket = stage.ask(4, "c", Request::Heartbeat(&request));
    assert_eq!(stage.told(ticket), Some(Response::Heartbeat(ErrorCode::None)), "it is heard");
    let ticket = stage.commit_as(&Client::new("c"), &[("events", 0, 1), ("events", 1, 1)]);
    let told = stage.commit_told(ticket);
    assert_eq!(told, Some(vec![ErrorCode::CoordinatorLoadInProgress; 2]));
}
