//! Who may commit and read offsets, and what tools are shown.

use base::{ErrorCode, PartitionIndex};

use super::super::*;
use super::stage::Stage;

#[test]
fn only_a_member_in_its_epoch_commits_what_it_has() {
    let mut stage = Stage::with(&[("t", 4)]);
    let code = |it: Result<CommitRight<'_>, ConsumerGroupError>| it.map(|_| ()).map_err(|error| error.code());
    assert_eq!(code(stage.group.validate_offset_commit("", None, -1, Some(10))), Ok(()), "nobody is there");
    stage.join("a", &["t"]);
    stage.join("b", &["t"]);
    stage.settle();
    let group = &stage.group;
    type Case = (&'static str, i32, Option<i16>, Result<(), ErrorCode>);
    let cases: &[Case] = &[
        ("a", 2, Some(9), Ok(())),
        ("a", 2, None, Ok(())),
        ("a", 3, Some(9), Err(ErrorCode::StaleMemberEpoch)),
        ("a", -1, Some(9), Err(ErrorCode::StaleMemberEpoch)),
        ("x", 2, Some(9), Err(ErrorCode::UnknownMemberId)),
        ("", -1, Some(9), Err(ErrorCode::UnknownMemberId)),
        ("", -1, None, Ok(())),
        ("a", 2, Some(8), Err(ErrorCode::UnsupportedVersion)),
    ];
    for (member, epoch, version, expected) in cases {
        let got = code(group.validate_offset_commit(member, None, *epoch, *version));
        assert_eq!(got, *expected, "{member} {epoch} {version:?}");
    }
    // An epoch late: what it had then and still has.
    let topic = Some(stage.image.topic("t").expect("it is there").id);
    let right = group.validate_offset_commit("a", None, 1, Some(9)).expect("it was in that epoch");
    assert_eq!(right.check(topic, PartitionIndex(0)), Ok(()));
    assert_eq!(
        right.check(topic, PartitionIndex(2)).map_err(|it| it.code()),
        Err(ErrorCode::StaleMemberEpoch)
    );
    assert!(right.check(None, PartitionIndex(0)).is_err());
    let right = group.validate_offset_commit("b", None, 1, Some(9)).expect("there was such an epoch");
    assert!(right.check(topic, PartitionIndex(2)).is_err(), "it did not have it in that epoch");
}

#[test]
fn offsets_are_read_by_tools_and_by_members_in_their_epoch() {
    let mut stage = Stage::with(&[("t", 1)]);
    stage.join("a", &["t"]);
    let read = |member, epoch| stage.group.validate_offset_fetch(member, epoch).map_err(|error| error.code());
    assert_eq!(read(None, -1), Ok(()));
    assert_eq!(read(Some("a"), 1), Ok(()));
    assert_eq!(read(Some("a"), 0), Err(ErrorCode::StaleMemberEpoch));
    assert_eq!(read(Some("x"), 1), Err(ErrorCode::UnknownMemberId));
    assert_eq!(read(None, 1), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn a_group_is_shown_as_it_is() {
    let mut stage = Stage::with(&[("t", 2)]);
    assert_eq!(stage.group.state(), GroupState::Dead);
    stage.join("a", &["t"]);
    stage.client("b", &["t"]).instance = Some("two".into());
    stage.beat("b");
    stage.slow_beat("a");
    let described = stage.group.describe(&stage.image, &stage.settings);
    let sent = described.to_response();
    assert_eq!((sent.group_state, sent.group_epoch, sent.assignment_epoch), ("Reconciling", 2, 2));
    assert_eq!((sent.group_id, sent.assignor_name), ("g", "uniform"));
    let shown: Vec<_> = sent
        .members
        .iter()
        .map(|member| {
            let of = |it: &wire::messages::consumer_group_describe::Assignment<'_>| {
                it.topic_partitions
                    .iter()
                    .map(|of| format!("{}{:?}", of.topic_name, of.partitions))
                    .collect::<String>()
            };
            let (id, epoch) = (member.member_id, member.member_epoch);
            format!(
                "{id}@{epoch} {} of {} type {}",
                of(&member.assignment),
                of(&member.target_assignment),
                member.member_type
            )
        })
        .collect();
    assert_eq!(shown, ["a@1 t[0] of t[0] type 1", "b@2  of t[1] type 1"]);
    assert_eq!(sent.members[1].instance_id, Some("two"));
    assert_eq!(sent.members[0].subscribed_topic_names, ["t"]);
}

#[test]
fn a_group_has_its_own_settings_within_bounds() {
    let configs = [
        ("consumer.session.timeout.ms", "50000"),
        ("consumer.heartbeat.interval.ms", "1"),
        ("consumer.assignment.interval.ms", "nonsense"),
    ];
    let configs = configs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let settings = ConsumerGroupSettings::default().for_group(&configs);
    assert_eq!(settings.session_timeout, Duration::from_secs(50));
    assert_eq!(settings.heartbeat_interval, Duration::from_secs(5), "no less than the broker allows");
    assert_eq!(settings.assignment_interval, Duration::from_secs(1));
    assert_eq!(MigrationPolicy::from_name("UPGRADE"), Some(MigrationPolicy::Upgrade));
}
