//! How long what a group committed is remembered (KIP-211).

use std::sync::Arc;
use std::time::Duration;

use base::{ErrorCode, Uuid};
use metadata::Topic;
use wire::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};

use super::consumers::Reader;
use super::stage::{Client, GROUP, Stage, add_topic, image};
use crate::{Count, Request, Response, ShardSettings};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// R13: offsets of a group that lives do not expire, however long nothing was committed.
#[test]
fn a_group_that_lives_keeps_its_offsets() {
    let mut stage = Stage::new();
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    let ticket = stage.commit_as(&a, &[("events", 0, 42), ("clicks", 0, 1)]);
    stage.told(ticket);
    for _ in 0..8 * 24 * 60 * 10 {
        stage.pass(Duration::from_secs(6));
        assert_eq!(stage.heartbeat(&a), ErrorCode::None);
    }
    assert_eq!(stage.offset("events", 0), 42, "eight days without a commit");
    assert_eq!(stage.offset("clicks", 0), -1, "it does not read this topic");
    // From when its last member has left, it has the whole time again.
    stage.leave(&a);
    stage.pass(6 * DAY);
    assert_eq!(stage.offset("events", 0), 42);
    stage.check_replay();
    stage.pass(DAY + Duration::from_secs(600));
    assert_eq!(stage.offset("events", 0), -1);
    assert_eq!(stage.shard.group_count(), 0, "nothing is left of it");
    assert!(stage.counts.contains(&Count::OffsetsExpired(1)));
    stage.check_replay();
}

#[test]
fn a_group_that_never_had_members_keeps_each_offset_since_its_commit() {
    let mut stage = Stage::new();
    let alone = Client::new("alone");
    let ticket = stage.commit_as(&alone, &[("events", 0, 1)]);
    stage.told(ticket);
    stage.pass(6 * DAY);
    let ticket = stage.commit_as(&alone, &[("events", 1, 2)]);
    stage.told(ticket);
    stage.pass(DAY + Duration::from_secs(600));
    assert_eq!((stage.offset("events", 0), stage.offset("events", 1)), (-1, 2));
    stage.pass(6 * DAY);
    assert_eq!(stage.shard.group_count(), 0);
}

/// One member read up to 42 of partition 0, and has left.
fn left_six_days_ago() -> Stage {
    let mut stage = Stage::new();
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    let ticket = stage.commit_as(&a, &[("events", 0, 42)]);
    stage.told(ticket);
    stage.leave(&a);
    stage.pass(6 * DAY);
    stage
}

/// Whoever reads without a group under the id of one that is empty may have begun after its last member left.
#[test]
fn what_is_committed_after_the_last_member_left_is_kept_since_then() {
    let mut stage = left_six_days_ago();
    let ticket = stage.commit_as(&Client::new("alone"), &[("events", 1, 7)]);
    stage.told(ticket);
    stage.pass(DAY + Duration::from_secs(600));
    assert_eq!((stage.offset("events", 0), stage.offset("events", 1)), (-1, 7));
    stage.pass(6 * DAY);
    assert_eq!(stage.shard.group_count(), 0);
}

#[test]
fn a_new_coordinator_goes_on_counting_where_the_last_one_was() {
    let mut stage = left_six_days_ago();
    stage.fail_over();
    stage.pass(DAY + Duration::from_secs(600));
    assert_eq!(stage.offset("events", 0), -1);
}

/// Somebody comes to a group of the new protocol in which nobody is, with the old one, and is not seen again.
#[test]
fn what_a_group_has_is_kept_as_long_whoever_has_asked_to_join() {
    let second = Duration::from_secs(1);
    let settings = ShardSettings {
        offsets_retention: 60 * second,
        offsets_retention_check_interval: second,
        ..ShardSettings::default()
    };
    let mut stage = Stage::with(settings);
    let mut a = Reader::new("a");
    stage.read(&mut a);
    let ticket = stage.commit_as(&a.client(), &[("events", 0, 42)]);
    stage.told(ticket);
    for _ in 0..50 {
        stage.pass(second);
        stage.read(&mut a);
    }
    a.epoch = -1;
    stage.read(&mut a);
    let nothing = Client { protocols: vec![], ..Client::new("b") };
    let ticket = stage.join_in(GROUP, &nothing);
    assert_eq!(stage.joined(ticket, &mut Client::new("b")), "INCONSISTENT_GROUP_PROTOCOL");
    assert_eq!(stage.describe(GROUP), "Dead ", "it is none of the classic protocol for that");
    let ticket = stage.join_in(GROUP, &Client::new("b"));
    assert_eq!(stage.joined(ticket, &mut Client::new("b")), "COORDINATOR_LOAD_IN_PROGRESS");
    assert_eq!(stage.describe(GROUP), "Empty ");
    stage.check_replay();
    stage.pass(50 * second);
    assert_eq!(stage.offset("events", 0), 42, "it was left 50 seconds ago");
    stage.pass(20 * second);
    assert_eq!((stage.offset("events", 0), stage.shard.group_count()), (-1, 0));
}

#[test]
fn expiry_goes_through_many_groups_in_slices() {
    let mut stage = Stage::new();
    let at: Vec<(&str, i32, i64)> = (0..8).map(|partition| ("events", partition, 1)).collect();
    for group in 0..1_500 {
        let ticket = stage.commit_in(&format!("group {group}"), &Client::new("c"), &at);
        stage.told(ticket);
    }
    assert_eq!((stage.shard.group_count(), stage.shard.offset_count()), (1_500, 12_000));
    stage.pass(7 * DAY + Duration::from_secs(600));
    assert_eq!((stage.shard.group_count(), stage.shard.offset_count()), (0, 0));
    stage.check_replay();
}

#[test]
fn a_topic_that_is_deleted_takes_its_offsets_along() {
    let mut stage = Stage::new();
    let alone = Client::new("alone");
    let ticket = stage.commit_as(&alone, &[("events", 0, 42), ("clicks", 0, 1)]);
    stage.told(ticket);
    let events: Arc<Topic> = stage.image.topic("events").expect("it is there").clone();
    // It is made again under the same name, and nobody has read of it.
    stage.image = image(&[("clicks", 2)]);
    add_topic(&mut stage.image, "events", 8, 0x77);
    assert_eq!(stage.offset("events", 0), -1, "even before the tombstones are written");
    let ticket = stage.commit_as(&alone, &[("events", 1, 5)]);
    stage.told(ticket);

    let (now, mut out) = (stage.at(), base::Effects::new());
    stage.shard.on_topics_deleted(now, &[events], &mut out);
    stage.perform(out);
    assert_eq!(stage.shard.offset_count(), 2);
    assert_eq!((stage.offset("events", 1), stage.offset("clicks", 0)), (5, 1));
    assert_ne!(stage.image.topic("events").expect("it is there").id.0, Uuid([b'e'; 16]));
    stage.check_replay();
    assert_eq!(stage.describe(GROUP), "Empty ");
}

/// A group that is made anew does not show at once that what it had is deleted: that can still be lost.
#[test]
fn what_is_deleted_is_shown_once_that_is_committed_whoever_joins_meanwhile() {
    let mut stage = Stage::new();
    let ticket = stage.commit_as(&Client::new("alone"), &[("events", 0, 42)]);
    stage.told(ticket);
    stage.commits = false;
    let deleted = stage.ask(2, "admin", Request::DeleteGroup(GROUP));
    stage.join(&mut Client::new("a"));
    let read = stage.fetch("events", 0);
    assert_eq!((stage.told(deleted), stage.told(read)), (None, None));
    stage.fail_over();
    stage.commits = true;
    assert_eq!(stage.offset("events", 0), 42, "it was not deleted");

    // The group is there as long as somebody may come back to it, and is gone before the tombstone is committed.
    stage.join_in(GROUP, &Client::new("b"));
    stage.commits = false;
    let topic = OffsetDeleteRequestTopic {
        name: "events",
        partitions: vec![OffsetDeleteRequestPartition { partition_index: 0 }],
    };
    let request = OffsetDeleteRequest { group_id: GROUP, topics: vec![topic] };
    stage.ask(0, "admin", Request::OffsetDelete(&request));
    stage.refuses = Some(ErrorCode::NotEnoughReplicas);
    stage.pass(Duration::from_secs(10));
    assert_eq!(stage.shard.group_count(), 0);
    let read = stage.fetch("events", 0);
    assert_eq!(stage.told(read), None);
    stage.commit();
    let Some(Response::OffsetFetch(read)) = stage.told(read) else { panic!("it is committed") };
    assert_eq!(read.topics[0].partitions[0].offset, -1);
}

#[test]
fn a_group_to_which_somebody_comes_back_with_its_id_is_not_forgotten() {
    let mut stage = Stage::new();
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    let ticket = stage.commit_as(&a, &[("events", 0, 42)]);
    stage.told(ticket);
    stage.leave(&a);
    // All of it is old when it is looked at next. Shortly before, somebody is given an id.
    stage.pass(7 * DAY);
    let due = stage.shard.deadline().expect("it is looked at from time to time");
    stage.pass(due - stage.now - Duration::from_secs(1));
    let mut b = Client::new("b");
    let ticket = stage.join_in(GROUP, &b);
    let Some(Response::JoinGroup(first)) = stage.told(ticket) else { panic!("it is answered at once") };
    assert_eq!(first.error, ErrorCode::MemberIdRequired);
    b.id = first.member_id;
    stage.pass(Duration::from_secs(2));
    assert_eq!(stage.offset("events", 0), -1, "what is old is forgotten");
    let ticket = stage.join_in(GROUP, &b);
    stage.pass_ms(3_000);
    assert_eq!(stage.joined(ticket, &mut b), "generation 3 range led by b: b");
    stage.check_replay();
}
