//! A classic group becomes one of the new protocol while it is read, and the other way.

use base::ErrorCode;
use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use wire::messages::consumer_protocol_assignment::{self, ConsumerProtocolAssignment};
use wire::messages::consumer_protocol_subscription::{self, ConsumerProtocolSubscription};
use wire::{Decoder, Encoder, Message};

use super::super::*;
use super::stage::{GROUP, Stage};

/// What a member that wants `t` says, and what it has.
fn subscription(version: i16, owned: &[i32]) -> Vec<u8> {
    let owned = consumer_protocol_subscription::TopicPartition { topic: "t", partitions: owned.to_vec() };
    let message = ConsumerProtocolSubscription {
        topics: vec!["t"],
        owned_partitions: vec![owned],
        generation_id: 6,
        ..ConsumerProtocolSubscription::default()
    };
    let mut e = Encoder::new();
    e.i16(version);
    message.encode(&mut e, version.min(3)).expect("short");
    e.into_bytes()
}

fn assignment(partitions: &[i32]) -> Vec<u8> {
    let of = consumer_protocol_assignment::TopicPartition { topic: "t", partitions: partitions.to_vec() };
    let mut e = Encoder::new();
    e.i16(0);
    let message = ConsumerProtocolAssignment { assigned_partitions: vec![of], user_data: None };
    message.encode(&mut e, 0).expect("short");
    e.into_bytes()
}

fn read(blob: &[u8]) -> Vec<i32> {
    let mut d = Decoder::new(blob);
    let version = d.i16().expect("a version");
    let it = ConsumerProtocolAssignment::decode(&mut d, version).expect("an assignment");
    it.assigned_partitions.into_iter().flat_map(|of| of.partitions).collect()
}

fn member(id: &str, owned: &[i32]) -> ClassicMember {
    ClassicMember {
        id: id.into(),
        client_id: "c".into(),
        client_host: "/h".into(),
        rebalance_timeout_ms: 10_000,
        session_timeout_ms: 20_000,
        protocols: vec![
            ("cooperative-sticky".into(), subscription(1, owned)),
            ("range".into(), subscription(1, owned)),
        ],
        assignment: assignment(owned),
        ..ClassicMember::default()
    }
}

fn classic() -> ClassicGroup {
    let members = vec![member("a", &[0, 1]), member("b", &[2, 3])];
    ClassicGroup { generation: 7, protocol: "cooperative-sticky".into(), members }
}

/// The group after `n` of the new protocol joined the classic one.
fn upgraded() -> Stage {
    let mut stage = Stage::with(&[("t", 4)]);
    upgrade(&mut stage, &classic());
    stage
}

fn upgrade(stage: &mut Stage, classic: &ClassicGroup) {
    upgrade_by(stage, classic, None);
}

/// The same, and `n` is a static member.
fn upgrade_by(stage: &mut Stage, classic: &ClassicGroup, instance_id: Option<&str>) {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: GROUP,
        member_id: "n",
        instance_id,
        rebalance_timeout_ms: 10_000,
        subscribed_topic_names: Some(vec!["t"]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let caller = Caller { version: 1, client_id: "c", client_host: "/h", random: 1 };
    let context = Context { now: stage.now(), image: &stage.image, settings: &stage.settings };
    let (group, decision) =
        ConsumerGroup::upgrade(GROUP, classic, &request, &caller, &context).expect("it may");
    assert_eq!(decision.reply.member_epoch, 8);
    stage.group = group;
    stage.append(&decision.records);
    stage.reload();
}

fn join(stage: &mut Stage, member: &ClassicMember) -> ClassicJoined {
    let context = Context { now: stage.now(), image: &stage.image, settings: &stage.settings };
    let joined = stage.group.join_classic(&ClassicJoin { member, random: 9 }, &context).expect("it joins");
    stage.append(&joined.records);
    joined
}

fn sync(stage: &mut Stage, id: &str, generation: i32) -> Result<Vec<i32>, ErrorCode> {
    let context = Context { now: stage.now(), image: &stage.image, settings: &stage.settings };
    stage.group.sync_classic(id, generation, &context).map(|blob| read(&blob))
}

fn beat(stage: &mut Stage, id: &str, generation: i32) -> Result<(), ErrorCode> {
    let context = Context { now: stage.now(), image: &stage.image, settings: &stage.settings };
    stage.group.heartbeat_classic(id, generation, &context)
}

#[test]
fn a_classic_group_goes_on_where_it_was() {
    let mut stage = upgraded();
    assert_eq!(stage.shown(), "Reconciling 8/8 | a@7 t[0,1] | b@7 t[2,3] | n@8 …");
    assert_eq!(beat(&mut stage, "a", 6), Err(ErrorCode::IllegalGeneration));
    assert_eq!(beat(&mut stage, "n", 8), Err(ErrorCode::UnknownMemberId), "it is of the new protocol");
    assert_eq!(beat(&mut stage, "b", 7), Err(ErrorCode::RebalanceInProgress));
    // Cooperative: it says what it has, is told to give one back, does so, and joins again.
    let joined = join(&mut stage, &member("b", &[2, 3]));
    assert_eq!((joined.generation, joined.protocol.as_str()), (7, "cooperative-sticky"));
    assert_eq!(sync(&mut stage, "b", 7).map(|of| of.len()), Ok(1));
    assert_eq!(beat(&mut stage, "b", 7), Err(ErrorCode::RebalanceInProgress));
    let rest = sync(&mut stage, "b", 7).expect("it is a member");
    let joined = join(&mut stage, &member("b", &rest));
    assert_eq!(joined.generation, 8);
    assert_eq!(beat(&mut stage, "b", 8), Ok(()));
    join(&mut stage, &member("a", &[0, 1]));
    assert_eq!(beat(&mut stage, "a", 8), Ok(()));
    stage.client("n", &["t"]).epoch = 8;
    assert_eq!(stage.beat("n").len(), "n@8 t[3]".len());
    assert_eq!(stage.group.state(), GroupState::Stable, "{}", stage.shown());
    let commit = stage.group.validate_offset_commit("a", None, 7, Some(7)).map(|_| ());
    assert_eq!(commit.map_err(|error| error.code()), Err(ErrorCode::IllegalGeneration));
}

/// In a rebalance of the classic group nothing is assigned, and a static member that speaks the new protocol in its next
/// life wants nothing else than it did before.
#[test]
fn what_was_assigned_to_nobody_is_assigned_when_a_static_member_changes_the_protocol() {
    let mut stage = Stage::with(&[("t", 4)]);
    let mut group = classic();
    group.members = vec![member("a", &[]), member("b", &[])];
    group.members[1].instance_id = Some("one".into());
    upgrade_by(&mut stage, &group, Some("one"));
    assert_eq!(stage.shown(), "Reconciling 8/8 | a@7 | n@8 t[0,2]");
    assert_eq!(beat(&mut stage, "a", 7), Err(ErrorCode::RebalanceInProgress));
    assert_eq!(join(&mut stage, &member("a", &[])).generation, 8);
    assert_eq!(sync(&mut stage, "a", 8), Ok(vec![1, 3]));
}

/// Between two steps of a cooperative rebalance, what a member is to give back is nobody's by what was assigned.
#[test]
fn what_a_classic_member_still_has_is_its_own_whatever_was_assigned() {
    let mut stage = Stage::with(&[("t", 4)]);
    let mut group = classic();
    // a is to give back 1, and b says from long ago that it has all.
    group.members[0].assignment = assignment(&[0]);
    group.members[1].protocols = vec![("cooperative-sticky".into(), subscription(1, &[0, 1, 2, 3]))];
    group.members[0].protocols = vec![("cooperative-sticky".into(), subscription(2, &[0, 1]))];
    upgrade(&mut stage, &group);
    assert_eq!(stage.shown(), "Reconciling 8/8 | a@7 t[0,1] | b@7 t[2,3] | n@8 …");
}

#[test]
fn a_member_that_rebalances_eagerly_has_nothing_when_it_joins() {
    let mut stage = upgraded();
    let mut eager = member("b", &[]);
    eager.protocols = vec![("range".into(), subscription(0, &[]))];
    let joined = join(&mut stage, &eager);
    assert_eq!((joined.generation, sync(&mut stage, "b", 8).map(|of| of.len())), (8, Ok(1)));
    assert_eq!(beat(&mut stage, "b", 8), Ok(()));
}

#[test]
fn a_group_is_classic_again_when_the_last_of_the_new_protocol_left() {
    let mut stage = upgraded();
    stage.client("n", &["t"]);
    stage.leave("n", EPOCH_LEAVE).expect("it is there");
    let group = stage.downgraded.take().expect("it is a classic one");
    assert_eq!((group.generation, group.protocol.as_str()), (8, "cooperative-sticky"));
    let shown: Vec<_> = group.members.iter().map(|it| (it.id.as_str(), read(&it.assignment).len())).collect();
    assert_eq!(shown, [("a", 2), ("b", 2)], "what they may still read");
    assert_eq!(stage.group.state, State::default(), "and this one is gone");
    // The same if it is silent.
    let mut stage = upgraded();
    join(&mut stage, &member("a", &[]));
    join(&mut stage, &member("b", &[]));
    for _ in 0..4 {
        stage.wait(10_000);
        assert_eq!((beat(&mut stage, "a", 8), beat(&mut stage, "b", 8)), (Ok(()), Ok(())));
    }
    stage.wait(10_000);
    assert!(stage.downgraded.is_some());
    assert_eq!(stage.group.state(), GroupState::Dead);
}

#[test]
fn whoever_does_not_want_it_keeps_the_protocol() {
    let mut stage = upgraded();
    stage.settings.migration = MigrationPolicy::Upgrade;
    stage.client("n", &["t"]);
    stage.leave("n", EPOCH_LEAVE).expect("it is there");
    assert_eq!(stage.downgraded, None);
    assert_eq!(stage.group.members().count(), 2);

    let mut broken = classic();
    broken.members[1].assignment = vec![0, 0, 9, 9, 9, 9];
    let request = ConsumerGroupHeartbeatRequest {
        group_id: GROUP,
        member_id: "n",
        rebalance_timeout_ms: 1,
        subscribed_topic_names: Some(vec!["t"]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let caller = Caller { version: 1, client_id: "c", client_host: "/h", random: 1 };
    let refused = |group: &ClassicGroup, settings: &ConsumerGroupSettings| {
        let context = Context { now: stage.now(), image: &stage.image, settings };
        ConsumerGroup::upgrade(GROUP, group, &request, &caller, &context).expect_err("it may not")
    };
    let defaults = ConsumerGroupSettings::default();
    assert_eq!(refused(&broken, &defaults), MigrationError::Unreadable("b".into()));
    let disabled = ConsumerGroupSettings { migration: MigrationPolicy::Disabled, ..defaults.clone() };
    assert_eq!(refused(&classic(), &disabled), MigrationError::NotAllowed(GROUP.into()));
    let small = ConsumerGroupSettings { size_max: 1, ..defaults };
    assert_eq!(refused(&classic(), &small).code(), ErrorCode::GroupMaxSizeReached);
}

/// Nobody of the new protocol is there to see it, and no member leads.
#[test]
fn a_group_of_classic_members_alone_sees_what_else_there_is_to_read() {
    let mut stage = upgraded();
    stage.settings.migration = MigrationPolicy::Upgrade;
    stage.client("n", &["t"]);
    stage.leave("n", EPOCH_LEAVE).expect("it is there");
    let join_both = |stage: &mut Stage| {
        [("a", &[0, 1]), ("b", &[2, 3])].map(|(id, owned)| join(stage, &member(id, owned)).generation)
    };
    assert_eq!(join_both(&mut stage), [9, 9]);
    stage.create("u", 4);
    assert_eq!((beat(&mut stage, "a", 9), beat(&mut stage, "b", 9)), (Ok(()), Ok(())), "nobody reads it");
    stage.create("t", 6);
    assert_eq!(beat(&mut stage, "a", 9), Err(ErrorCode::RebalanceInProgress));
    assert_eq!(join_both(&mut stage), [10, 10]);
    let has = ["a", "b"].map(|id| sync(&mut stage, id, 10).map(|of| of.len()));
    assert_eq!(has, [Ok(3), Ok(3)]);
    assert_eq!((beat(&mut stage, "a", 10), beat(&mut stage, "b", 10)), (Ok(()), Ok(())));
}

#[test]
fn who_was_taken_out_lets_go_of_what_it_had_before_it_comes_back() {
    let mut stage = upgraded();
    let context = Context { now: stage.now(), image: &stage.image, settings: &stage.settings };
    let left = stage.group.leave_classic(&[("b", None)], &context);
    stage.append(&left.records);
    let reads_on = member("b", &[2, 3]);
    let context = Context { now: stage.now(), image: &stage.image, settings: &stage.settings };
    let refused = stage.group.join_classic(&ClassicJoin { member: &reads_on, random: 9 }, &context);
    assert_eq!(refused.map_err(|error| error.code()), Err(ErrorCode::UnknownMemberId));
    // An id that was just given out is not known, either.
    assert_eq!(join(&mut stage, &member("c", &[])).member_id, "c");
}

#[test]
fn a_static_member_comes_back_in_the_classic_protocol() {
    let mut stage = upgraded();
    let mut one = member("", &[]);
    one.instance_id = Some("one".into());
    let first = join(&mut stage, &one).member_id;
    assert_eq!(stage.group.members().count(), 4);
    // Its process began anew and knows no id; the one before is told so.
    let context = Context { now: stage.now(), image: &stage.image, settings: &stage.settings };
    let joined =
        stage.group.join_classic(&ClassicJoin { member: &one, random: 10 }, &context).expect("it joins");
    stage.append(&joined.records);
    assert_ne!(joined.member_id, first);
    assert_eq!(stage.group.members().count(), 4);
    let old = ClassicMember { id: first, ..one.clone() };
    let context = Context { now: stage.now(), image: &stage.image, settings: &stage.settings };
    let refused = stage.group.join_classic(&ClassicJoin { member: &old, random: 11 }, &context);
    assert_eq!(refused.map_err(|error| error.code()), Err(ErrorCode::FencedInstanceId));
    let stranger =
        ClassicMember { protocols: vec![("sticky".into(), subscription(1, &[]))], ..member("s", &[]) };
    let refused = stage.group.join_classic(&ClassicJoin { member: &stranger, random: 12 }, &context);
    assert_eq!(refused.map_err(|error| error.code()), Err(ErrorCode::InconsistentGroupProtocol));
    // It may leave by its instance alone.
    let left = stage.group.leave_classic(&[("", Some("one")), ("who", None)], &context);
    assert_eq!(left.told[0].as_deref(), Ok(&*joined.member_id));
    assert_eq!(left.told[1].as_ref().map_err(|error| error.code()), Err(ErrorCode::UnknownMemberId));
    stage.append(&left.records);
    assert_eq!(stage.group.members().count(), 3);
    stage.reload();
}

#[test]
fn a_member_that_does_not_join_again_is_out_when_it_had_its_time() {
    let mut stage = upgraded();
    for _ in 0..4 {
        assert_eq!(beat(&mut stage, "a", 7), Err(ErrorCode::RebalanceInProgress));
        join(&mut stage, &member("b", &[2]));
        assert_eq!(stage.wait(2000), []);
    }
    assert_eq!(beat(&mut stage, "a", 7), Err(ErrorCode::RebalanceInProgress));
    assert_eq!(stage.wait(2000), [Fenced { member: "a".into(), because: FencedBecause::Slow }]);
    assert_eq!(beat(&mut stage, "a", 7), Err(ErrorCode::UnknownMemberId));
}
