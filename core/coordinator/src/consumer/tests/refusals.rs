//! What is refused, with which code and which words.

use base::ErrorCode;
use wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatRequestTopicPartitions,
};

use super::super::*;
use super::stage::{GROUP, Stage};

type Request = ConsumerGroupHeartbeatRequest<'static>;

fn join(member_id: &'static str) -> Request {
    ConsumerGroupHeartbeatRequest {
        group_id: GROUP,
        member_id,
        rebalance_timeout_ms: 10_000,
        subscribed_topic_names: Some(vec!["t"]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    }
}

fn beat(member_id: &'static str, member_epoch: i32) -> Request {
    ConsumerGroupHeartbeatRequest { group_id: GROUP, member_id, member_epoch, ..Default::default() }
}

#[test]
fn a_request_that_is_wrong_is_told_why() {
    let cases: &[(Request, &str)] = &[
        (Request { group_id: " ", ..join("a") }, "GroupId can't be empty."),
        (join(""), "MemberId can't be empty."),
        (Request { instance_id: Some(""), ..join("a") }, "InstanceId can't be empty."),
        (Request { rack_id: Some(" "), ..join("a") }, "RackId can't be empty."),
        (
            Request { rebalance_timeout_ms: -1, ..join("a") },
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (Request { topic_partitions: None, ..join("a") }, "TopicPartitions must be empty when (re-)joining."),
        (
            Request { subscribed_topic_names: None, ..join("a") },
            "SubscribedTopicNames or SubscribedTopicRegex must be set in first request.",
        ),
        (beat("a", -2), "InstanceId can't be null."),
        (beat("a", -3), "MemberEpoch is invalid."),
    ];
    let mut stage = Stage::with(&[("t", 1)]);
    for (request, words) in cases {
        let error = stage.request(request).expect_err(words);
        assert_eq!((error.code(), error.to_string().as_str()), (ErrorCode::InvalidRequest, *words));
    }
    assert!(stage.written.is_empty());
}

#[test]
fn who_is_not_there_or_not_as_it_says_is_told_so() {
    let mut stage = Stage::with(&[("t", 4)]);
    let refused = |stage: &mut Stage, request: Request| {
        let error = stage.request(&request).expect_err("it is refused");
        (error.code(), error.to_string())
    };
    assert_eq!(
        refused(&mut stage, beat("a", 1)),
        (ErrorCode::UnknownMemberId, "Member a is not a member of group g.".into()),
        "of whatever group: it joins again"
    );
    assert_eq!(
        refused(&mut stage, beat("a", -1)),
        (ErrorCode::GroupIdNotFound, "Consumer group g not found.".into())
    );
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    stage.settle();
    assert_eq!(
        refused(&mut stage, beat("x", 1)),
        (ErrorCode::UnknownMemberId, "Member x is not a member of group g.".into())
    );
    assert_eq!(
        refused(&mut stage, Request { instance_id: Some("i"), ..beat("a", 1) }),
        (ErrorCode::UnknownMemberId, "Instance id i is unknown.".into())
    );
    let (code, words) = refused(&mut stage, beat("a", 3));
    assert_eq!(code, ErrorCode::FencedMemberEpoch);
    assert_eq!(
        words,
        "The consumer group member has a greater member epoch (3) than the one known by the group coordinator (2). The member must abandon all its partitions and rejoin."
    );
    // The epoch before, but it does not say what it has, or has what it should not.
    let (code, words) = refused(&mut stage, beat("a", 1));
    assert_eq!(code, ErrorCode::FencedMemberEpoch);
    assert!(words.contains("a smaller member epoch (1)"), "{words}");
    let topic_id = stage.image.topic("t").expect("it is there").id.0;
    let too_much = ConsumerGroupHeartbeatRequestTopicPartitions { topic_id, partitions: vec![0, 1, 2] };
    let request = Request { topic_partitions: Some(vec![too_much]), ..beat("a", 1) };
    assert_eq!(refused(&mut stage, request).0, ErrorCode::FencedMemberEpoch);
}

#[test]
fn g28_what_cannot_be_had_is_refused() {
    let mut stage = Stage::with(&[("t", 4)]);
    stage.settings.size_max = 1;
    let refused = |stage: &mut Stage, request: Request| {
        let error = stage.request(&request).expect_err("it is refused");
        (error.code(), error.to_string())
    };
    assert_eq!(
        refused(&mut stage, Request { server_assignor: Some("best"), ..join("a") }),
        (
            ErrorCode::UnsupportedAssignor,
            "ServerAssignor best is not supported. Supported assignors: uniform, range.".into()
        )
    );
    for regex in ["(", "a)(b", "(?P<n", "\\", "[z-a]", "(a{1000}){1000}", "(?=x)"] {
        let request =
            Request { subscribed_topic_regex: Some(regex), subscribed_topic_names: None, ..join("a") };
        let (code, words) = refused(&mut stage, request);
        assert_eq!(code, ErrorCode::InvalidRegularExpression, "{regex}");
        assert!(
            words.starts_with(&format!("SubscribedTopicRegex `{regex}` is not a valid regular expression: "))
        );
    }
    let long: &'static str = "x".repeat((1 << 20) + 1).leak();
    let request = Request { subscribed_topic_names: Some(vec![long]), ..join("a") };
    assert_eq!(refused(&mut stage, request).0, ErrorCode::InvalidRequest);
    assert!(stage.written.is_empty());
    stage.join("a", &["t"]);
    assert_eq!(
        refused(&mut stage, join("b")),
        (
            ErrorCode::GroupMaxSizeReached,
            "The consumer group has reached its maximum capacity of 1 members.".into()
        )
    );
    assert_eq!(stage.join("a", &["t"]), "a@1 t[0,1,2,3]", "whoever is in it may stay");
    assert_eq!(stage.group.delete(), Err(ConsumerGroupError::NotEmpty));
}

#[test]
fn a_group_has_so_many_patterns_and_no_more() {
    let mut stage = Stage::with(&[("t", 1)]);
    for number in 0..subscription::REGEXES_MAX {
        let name = format!("m{number:02}");
        stage.client(&name, &[]).regex = Some(format!("t{{{number}}}"));
        stage.beat(&name);
    }
    let known = stage.group.soft.patterns.known().len();
    let request = |member, epoch, regex| Request {
        member_epoch: epoch,
        subscribed_topic_regex: Some(regex),
        subscribed_topic_names: None,
        ..join(member)
    };
    let error = stage.request(&request("one.more", 0, "u.*")).expect_err("there are as many as there may be");
    assert_eq!(error.code(), ErrorCode::InvalidRegularExpression);
    assert!(error.to_string().contains("have 32 different SubscribedTopicRegex already"), "{error}");
    assert_eq!(stage.group.soft.patterns.known().len(), known, "what is refused is not kept");
    // One that is there may be shared, and who has one of its own may have another instead.
    stage.request(&request("one.more", 0, "t{1}")).expect("others have it");
    let epoch = stage.group.member("m00").expect("it is there").current.epoch;
    stage.request(&request("m00", epoch, "u.*")).expect("it is one for another");
    assert!(stage.group.soft.patterns.known().contains(&"u.*"));
    assert_eq!(stage.group.soft.patterns.known().len(), known);
}

#[test]
fn a_member_without_an_id_is_given_one() {
    let mut stage = Stage::with(&[("t", 1)]);
    let caller = Caller { version: 0, client_id: "c", client_host: "/h", random: 7 };
    let context = Context { now: stage.now(), image: &stage.image, settings: &stage.settings };
    let decision = stage.group.heartbeat(&join(""), &caller, &context).expect("it joins");
    assert_eq!(decision.reply.member_id, base::Uuid::from_random(7).to_string());
    assert_eq!(decision.rebalance, Some(RebalanceCause::Joined));
}

#[test]
fn g28_what_is_left_out_is_as_it_was() {
    let mut stage = Stage::with(&[("t", 1)]);
    stage.client("a", &["t"]).rack = Some("a".into());
    stage.beat("a");
    let before = stage.group.member("a").expect("it is there").clone();
    stage.request(&beat("a", 1)).expect("it is there");
    assert_eq!(stage.group.member("a"), Some(&before));
    stage.request(&Request { rebalance_timeout_ms: 7, ..beat("a", 1) }).expect("it is there");
    let after = stage.group.member("a").expect("it is there");
    assert_eq!(after.metadata.rebalance_timeout_ms, 7);
    assert_eq!((&after.metadata.topics, &after.current), (&before.metadata.topics, &before.current));
    assert_eq!(stage.group.state(), GroupState::Stable, "that is no reason for another epoch");
}

#[test]
fn a_group_without_members_is_deleted_with_all_it_was() {
    let mut stage = Stage::with(&[("t", 1)]);
    stage.client("a", &["t"]).regex = Some("t.*".into());
    stage.beat("a");
    stage.leave("a", EPOCH_LEAVE).expect("it is there");
    let records = stage.group.delete().expect("it is empty");
    stage.append(&records);
    assert_eq!(stage.group.state, State::default());
    assert_eq!(stage.group.state(), GroupState::Dead);
}
