//! A coordinator is lost, in each state of its group, and another one loads the log.

use std::time::Duration;

use base::ErrorCode;

use super::stage::{Client, GROUP, Stage};
use crate::record::group_metadata::MemberMetadata;
use crate::record::{GroupMetadataValue, OffsetCommitValue};
use crate::{GroupRecord, Record, Response};

#[test]
fn in_stable_the_members_go_on() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::new("a"), Client::fixed("b", "two"));
    stage.settle(&mut [&mut a, &mut b]);
    let ticket = stage.commit_as(&a, &[("events", 0, 42)]);
    stage.told(ticket);
    stage.fail_over();
    assert_eq!(stage.describe(GROUP), "Stable range a=\"part of a\" two=\"part of b\"");
    assert_eq!(stage.heartbeat(&a), ErrorCode::None);
    let ticket = stage.sync(&b, &[]);
    assert_eq!(stage.synced(ticket), "part of b");
    assert_eq!(stage.offset("events", 0), 42);
    // Sessions begin anew: who is not heard is missed.
    stage.pass(Duration::from_secs(9));
    assert_eq!(stage.heartbeat(&a), ErrorCode::None);
    stage.pass(Duration::from_secs(1));
    assert_eq!(stage.heartbeat(&b), ErrorCode::UnknownMemberId);
}

#[test]
fn in_empty_with_the_generation() {
    let mut stage = Stage::new();
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    stage.leave(&a);
    stage.fail_over();
    assert_eq!(stage.describe(GROUP), "Empty ");
    let mut a = a.again();
    stage.settle(&mut [&mut a]);
    assert_eq!(a.generation, 3, "1, then nobody, then this one");
}

#[test]
fn while_members_join_they_are_told_and_join_again() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::new("a"), Client::new("b"));
    stage.settle(&mut [&mut a]);
    let waits = stage.join(&mut b);
    stage.unload();
    assert_eq!(stage.joined(waits, &mut b), "NOT_COORDINATOR");
    stage.fail_over();
    // b only had an id, of which nothing was written.
    let ticket = stage.join(&mut b);
    assert_eq!(stage.joined(ticket, &mut b), "UNKNOWN_MEMBER_ID");
    let mut b = b.again();
    let waits = stage.join(&mut b);
    let ticket = stage.join(&mut a);
    assert_eq!(stage.joined(ticket, &mut a), "generation 2 range led by a: a b");
    assert_eq!(stage.joined(waits, &mut b), "generation 2 range led by a");
}

#[test]
fn while_the_leader_assigns_nobody_has_anything_of_it() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::new("a"), Client::new("b"));
    stage.settle(&mut [&mut a, &mut b]);
    let tickets = [stage.join(&mut a), stage.join(&mut b)];
    stage.joined(tickets[0], &mut a);
    stage.joined(tickets[1], &mut b);
    assert_eq!((a.generation, b.generation), (2, 2));
    let waits = stage.sync(&b, &[]);
    // The assignment is appended, but not committed, and lost with the coordinator.
    stage.commits = false;
    let lost = stage.sync(&a, &[(&a, "new 1"), (&b, "new 2")]);
    assert_eq!((stage.synced(lost), stage.synced(waits)), ("waits".into(), "waits".into()));
    stage.fail_over();
    stage.commits = true;
    assert_eq!(stage.describe(GROUP), "Stable range a=\"part of a\" b=\"part of b\"");
    let ticket = stage.sync(&b, &[]);
    assert_eq!(stage.synced(ticket), "ILLEGAL_GENERATION");
    let tickets = [stage.join(&mut a), stage.join(&mut b)];
    assert_eq!(stage.joined(tickets[0], &mut a), "generation 2 range led by a: a b");
    assert_eq!(stage.joined(tickets[1], &mut b), "generation 2 range led by a");
}

/// A static member that starts again while others join is told its new id once the next coordinator knows it, too:
/// that one would take it for a life that is over.
#[test]
fn a_static_member_that_starts_again_in_a_rebalance_is_not_fenced() {
    for leaves_first in [false, true] {
        let mut stage = Stage::new();
        let (mut a, mut b) = (Client::new("a"), Client::fixed("b", "two"));
        stage.settle(&mut [&mut a, &mut b]);
        let mut c = Client { version: 3, ..Client::new("c") };
        let waits = stage.join(&mut c);
        assert_eq!(stage.joined(waits, &mut c), "waits");
        if leaves_first {
            stage.leave(&b);
        }
        let mut b = b.again();
        stage.commits = false;
        let ticket = stage.join_in(GROUP, &b);
        assert_eq!(stage.joined(ticket, &mut b), "waits", "its id is not committed");
        stage.commit();
        let Some(Response::JoinGroup(told)) = stage.told(ticket) else { panic!("it is committed") };
        assert_eq!(told.error, ErrorCode::MemberIdRequired);
        b.id = told.member_id;
        stage.commits = true;
        let tickets = [stage.join(&mut b), stage.join(&mut a)];
        assert_eq!(stage.joined(tickets[0], &mut b), "generation 2 range led by a");
        stage.joined(tickets[1], &mut a);
        stage.fail_over();
        // What was assigned in the generation that was written is as it was.
        assert_eq!(stage.describe(GROUP), "Stable range a=\"part of a\" two=\"part of b\"");
        let ticket = stage.sync(&b, &[]);
        assert_eq!(stage.synced(ticket), "ILLEGAL_GENERATION");
        let tickets = [stage.join(&mut a), stage.join(&mut b)];
        assert_eq!(stage.joined(tickets[0], &mut a), "generation 2 range led by a: a two");
        assert_eq!(stage.joined(tickets[1], &mut b), "generation 2 range led by a");
        stage.check_replay();
    }
}

#[test]
fn what_is_on_its_way_when_the_leadership_ends_is_answered() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::new("a"), Client::new("b"));
    let tickets = [stage.join(&mut a), stage.join(&mut b)];
    stage.pass(Duration::from_secs(1));
    stage.joined(tickets[0], &mut a);
    stage.joined(tickets[1], &mut b);
    let syncs = stage.sync(&b, &[]);
    stage.commits = false;
    let commit = stage.commit_in("alone", &Client::new("alone"), &[("events", 0, 1)]);
    stage.unload();
    assert_eq!(stage.synced(syncs), "NOT_COORDINATOR");
    assert_eq!(stage.commit_told(commit), Some(vec![ErrorCode::NotCoordinator]));
    assert_eq!(stage.shard.deadline(), None);
}

#[test]
fn what_is_in_the_log_but_not_committed_is_not_shown_by_the_next_either() {
    let mut stage = Stage::new();
    stage.commits = false;
    stage.commit_as(&Client::new("alone"), &[("events", 0, 1)]);
    // The next leader has it in its log, and does not know yet whether it is committed.
    stage.replies.clear();
    stage.load();
    let read = stage.fetch("events", 0);
    assert_eq!(stage.told(read), None);
    stage.commit();
    assert_eq!(stage.offset("events", 0), 1);
}

#[test]
fn what_another_program_wrote_is_taken_for_what_it_is() {
    let mut stage = Stage::new();
    let value = GroupMetadataValue {
        protocol_type: "consumer".into(),
        generation: i32::MAX,
        leader: Some("nobody".into()),
        members: vec![MemberMetadata { member_id: "m-1".into(), ..MemberMetadata::default() }],
        ..GroupMetadataValue::default()
    };
    let commit = |topic| {
        let value = Some(OffsetCommitValue::default());
        GroupRecord::OffsetCommit { group: "strange", topic, partition: -7, value }.encode()
    };
    stage.log = vec![
        GroupRecord::GroupMetadata { group: GROUP, value: Some(value) }.encode(),
        Record { key: vec![0, 11, 1, 2], value: Some(vec![3]) },
        commit("not/a/topic"),
        GroupRecord::GroupMetadata { group: "never was", value: None }.encode(),
    ];
    stage.committed = stage.log.len();
    stage.load();
    assert_eq!((stage.shard.group_count(), stage.shard.offset_count()), (1, 0));
    // Its member says of itself that it is silent after no time at all; the last generation is followed by the first.
    stage.pass_ms(1);
    assert_eq!(stage.describe(GROUP), "Empty ");
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    assert_eq!(a.generation, 1);
    stage.check_replay();
}
