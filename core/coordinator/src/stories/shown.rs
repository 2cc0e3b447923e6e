//! What people ask of groups, and what they are shown.

use base::ErrorCode;

use super::stage::{Client, GROUP, Stage, name_of, subscription};
use crate::{Request, Response};

fn list(stage: &mut Stage, states: &[&str], types: &[&str]) -> Vec<String> {
    let ticket = stage.ask(5, "admin", Request::ListGroups { states, types });
    let Some(Response::ListGroups(told)) = stage.told(ticket) else { panic!("it waits") };
    let line =
        |it: &crate::ListedGroup| format!("{} {} {} {}", it.group, it.protocol_type, it.state, it.kind);
    told.groups.iter().map(line).collect()
}

fn delete(stage: &mut Stage, group: &str) -> ErrorCode {
    let ticket = stage.ask(2, "admin", Request::DeleteGroup(group));
    match stage.told(ticket) {
        Some(Response::DeleteGroup { error, .. }) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn g40_groups_are_listed_by_state_and_type() {
    let mut stage = Stage::new();
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    let ticket = stage.commit_in("alone", &Client::new("c"), &[("events", 0, 1)]);
    stage.told(ticket);
    assert_eq!(list(&mut stage, &[], &[]), ["alone  Empty classic", "readers consumer Stable classic"]);
    assert_eq!(list(&mut stage, &["stable", "Dead"], &[]), ["readers consumer Stable classic"]);
    assert_eq!(list(&mut stage, &["Empty"], &["Classic"]), ["alone  Empty classic"]);
    assert_eq!(list(&mut stage, &[], &["consumer"]), [""; 0]);
}

#[test]
fn g40_a_group_is_described_in_the_words_of_each_version() {
    let mut stage = Stage::new();
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    let ticket = stage.ask(6, "admin", Request::DescribeGroup(GROUP));
    let Some(Response::DescribeGroup(told)) = stage.told(ticket) else { panic!("it waits") };
    let wire = told.to_wire(6);
    assert_eq!((wire.error_code, wire.group_state, wire.protocol_data), (0, "Stable", "range"));
    assert_eq!(name_of(wire.members[0].member_id), "a");
    assert_eq!((wire.members[0].client_id, wire.members[0].client_host), ("a", "/10.0.0.1"));
    assert_eq!(wire.members[0].member_metadata, subscription(&["events"], &[]));

    let ticket = stage.ask(6, "admin", Request::DescribeGroup("no such"));
    let Some(Response::DescribeGroup(told)) = stage.told(ticket) else { panic!("it waits") };
    let wire = told.to_wire(6);
    assert_eq!(wire.error_code, ErrorCode::GroupIdNotFound.code());
    assert_eq!((wire.group_state, wire.error_message), ("Dead", Some("Group no such not found.")));
    let wire = told.to_wire(5);
    assert_eq!((wire.error_code, wire.group_state, wire.error_message), (0, "Dead", None));
}

#[test]
fn g40_a_group_is_deleted_once_nobody_is_in_it() {
    let mut stage = Stage::new();
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    let ticket = stage.commit_as(&a, &[("events", 0, 1), ("clicks", 1, 1)]);
    stage.told(ticket);
    assert_eq!(delete(&mut stage, GROUP), ErrorCode::NonEmptyGroup);
    stage.leave(&a);
    assert_eq!(delete(&mut stage, GROUP), ErrorCode::None);
    assert_eq!(delete(&mut stage, GROUP), ErrorCode::GroupIdNotFound);
    assert_eq!(delete(&mut stage, ""), ErrorCode::InvalidGroupId);
    assert_eq!((stage.shard.group_count(), stage.shard.offset_count()), (0, 0));
    assert_eq!(stage.offset("events", 0), -1);
    stage.check_replay();
}

#[test]
fn nobody_is_told_that_a_group_is_gone_before_it_is() {
    let mut stage = Stage::new();
    let ticket = stage.commit_as(&Client::new("alone"), &[("events", 0, 1)]);
    stage.told(ticket);
    stage.commits = false;
    let deleted = stage.ask(2, "admin", Request::DeleteGroup(GROUP));
    let read = stage.fetch("events", 0);
    assert!(stage.replies.is_empty());
    stage.commit();
    assert!(stage.told(deleted).is_some());
    let Some(Response::OffsetFetch(read)) = stage.told(read) else { panic!("it is answered") };
    assert_eq!(read.topics[0].partitions[0].offset, -1);
}

#[test]
fn a_group_with_many_offsets_is_deleted_in_several_writes() {
    let mut stage = Stage::new();
    super::stage::add_topic(&mut stage.image, "wide", 20_000, 5);
    let at: Vec<(&str, i32, i64)> = (0..20_000).map(|partition| ("wide", partition, 1)).collect();
    let ticket = stage.commit_as(&Client::new("alone"), &at);
    stage.told(ticket);
    assert_eq!(stage.shard.offset_count(), 20_000);
    assert_eq!(delete(&mut stage, GROUP), ErrorCode::None);
    assert_eq!((stage.shard.group_count(), stage.shard.offset_count()), (0, 0));
    stage.check_replay();
}

#[test]
fn groups_are_counted_a_slice_at_a_time() {
    let mut stage = Stage::new();
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    for (group, at) in
        [("one", &[("events", 0, 5), ("events", 3, 7), ("clicks", 1, 9)][..]), ("two", &[("clicks", 0, 1)])]
    {
        let ticket = stage.commit_in(group, &Client::new("alone"), at);
        assert!(stage.commit_told(ticket).is_some());
    }
    let mut told = Vec::new();
    let mut after: Option<std::sync::Arc<str>> = None;
    loop {
        // One group has more offsets than that, and is told of all the same.
        let slice = stage.shard.count_groups(after.as_deref(), 1);
        assert!(slice.len() <= 1, "{slice:?}");
        let Some(group) = slice.into_iter().next() else { break };
        let offsets = group.topics.iter().flat_map(|topic| {
            topic.offsets.iter().map(|(index, _, offset)| format!(" {}-{index}@{offset}", topic.name))
        });
        let offsets: String = offsets.collect();
        told.push(format!("{} {} {}{offsets}", group.group, group.kind, group.state));
        after = Some(group.group);
    }
    let one = "one classic Empty clicks-1@9 events-0@5 events-3@7";
    let expected = [one, &*format!("{GROUP} classic Stable"), "two classic Empty clicks-0@1"];
    assert_eq!(told, expected);
    assert_eq!(stage.shard.count_groups(None, 100).len(), 3, "as many as fit");
    stage.unload();
    assert_eq!(stage.shard.count_groups(None, 100), [], "another knows better");
}
