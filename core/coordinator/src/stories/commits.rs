//! How far a group came: committed, read back, and never shown before it is safe.

use std::time::Duration;

use base::{ErrorCode, Uuid};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};

use super::stage::{Client, GROUP, Stage, image};
use crate::{Count, FetchedGroup, Request, Response, ShardSettings, Ticket};

fn fetched(stage: &mut Stage, version: i16, request: &OffsetFetchRequestGroup<'_>) -> FetchedGroup {
    let ticket = stage.ask(version, "somebody", Request::OffsetFetch(request));
    match stage.told(ticket) {
        Some(Response::OffsetFetch(fetched)) => fetched,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_member_commits_and_its_next_life_goes_on_there() {
    let mut stage = Stage::new();
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    let ticket = stage.commit_as(&a, &[("events", 0, 42), ("events", 1, 7), ("clicks", 0, 1)]);
    assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::None; 3]));
    assert!(stage.counts.contains(&Count::OffsetsCommitted(3)));
    stage.leave(&a);
    let mut a = a.again();
    stage.settle(&mut [&mut a]);
    assert_eq!(stage.offset("events", 0), 42);
    assert_eq!(stage.offset("events", 1), 7);
    assert_eq!(stage.offset("events", 2), -1, "nobody committed there");
    stage.check_replay();
}

#[test]
fn whoever_has_no_group_keeps_offsets_all_the_same() {
    let mut stage = Stage::new();
    let ticket = stage.commit_as(&Client::new("alone"), &[("events", 0, 5)]);
    assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::None]));
    assert_eq!(stage.describe(GROUP), "Empty ");
    // With a generation it would be a member, of a group that is not there.
    let late = Client { id: "x".into(), generation: 3, ..Client::new("late") };
    let ticket = stage.commit_in("no such group", &late, &[("events", 0, 5)]);
    assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::GroupIdNotFound]));
    stage.check_replay();
}

#[test]
fn what_is_wrong_with_one_partition_is_its_own_affair() {
    let mut stage = Stage::new();
    let long = "x".repeat(4_097);
    let partition = |partition_index, metadata| OffsetCommitRequestPartition {
        partition_index,
        committed_offset: 1,
        committed_leader_epoch: 3,
        committed_metadata: metadata,
    };
    let topic = |name, topic_id: u8, partitions| OffsetCommitRequestTopic {
        name,
        topic_id: Uuid([topic_id; 16]),
        partitions,
    };
    let partitions = vec![partition(0, Some("mine")), partition(1, Some(&*long)), partition(8, None)];
    let request = |topics| OffsetCommitRequest { group_id: GROUP, topics, ..OffsetCommitRequest::default() };
    let by_name = request(vec![topic("events", 0, partitions), topic("gone", 0, vec![partition(0, None)])]);
    let ticket = stage.ask(9, "c", Request::OffsetCommit(&by_name));
    let told = stage.commit_told(ticket).expect("it is answered");
    let expected = [
        ErrorCode::None,
        ErrorCode::OffsetMetadataTooLarge,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::UnknownTopicOrPartition,
    ];
    assert_eq!(told, expected);
    let by_id =
        request(vec![topic("", b'c', vec![partition(1, None)]), topic("", 9, vec![partition(0, None)])]);
    let ticket = stage.ask(10, "c", Request::OffsetCommit(&by_id));
    assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::None, ErrorCode::UnknownTopicId]));

    // Read back: all of them, by name or by id.
    let all = OffsetFetchRequestGroup { group_id: GROUP, member_id: None, member_epoch: -1, topics: None };
    let told = fetched(&mut stage, 8, &all);
    let lines: Vec<String> = told
        .topics
        .iter()
        .flat_map(|topic| {
            let name = &topic.name;
            topic.partitions.iter().map(move |it| {
                format!("{name}-{} {}@{} {:?}", it.partition, it.offset, it.leader_epoch, it.metadata)
            })
        })
        .collect();
    assert_eq!(lines, ["clicks-1 1@3 \"\"", "events-0 1@3 \"mine\""]);
    let topics = [(b'e', 0), (9, 0)].map(|(id, partition)| OffsetFetchRequestTopics {
        name: "",
        topic_id: Uuid([id; 16]),
        partition_indexes: vec![partition],
    });
    let some = OffsetFetchRequestGroup { topics: Some(topics.to_vec()), ..all };
    let told = fetched(&mut stage, 10, &some);
    let told: Vec<_> =
        told.topics.iter().map(|it| (it.partitions[0].offset, it.partitions[0].error)).collect();
    assert_eq!(told, [(1, ErrorCode::None), (-1, ErrorCode::UnknownTopicId)]);
}

#[test]
fn nobody_is_told_before_it_is_committed() {
    let mut stage = Stage::new();
    let alone = Client::new("alone");
    stage.commits = false;
    let first = stage.commit_as(&alone, &[("events", 0, 1)]);
    let second = stage.commit_as(&alone, &[("events", 0, 2)]);
    let other = stage.commit_in("another group", &alone, &[("events", 0, 9)]);
    let read = stage.fetch("events", 0);
    assert!(stage.replies.is_empty(), "nothing is committed: {:?}", stage.replies);

    stage.commit_to(1);
    assert_eq!(stage.commit_told(first), Some(vec![ErrorCode::None]));
    assert!(stage.replies.is_empty());
    stage.commit();
    assert_eq!(stage.commit_told(second), Some(vec![ErrorCode::None]));
    assert_eq!(stage.commit_told(other), Some(vec![ErrorCode::None]));
    let Some(Response::OffsetFetch(read)) = stage.told(read) else { panic!("it is committed") };
    assert_eq!(read.topics[0].partitions[0].offset, 2);

    // What another group writes is not waited for.
    stage.commit_in("another group", &alone, &[("events", 0, 10)]);
    assert_eq!(stage.offset("events", 0), 2);
}

#[test]
fn commits_that_come_together_are_written_together() {
    let mut stage = Stage::new();
    let alone = Client::new("alone");
    stage.commit_as(&alone, &[("events", 7, 7)]);
    stage.replies.clear();
    (stage.commits, stage.gathers) = (false, true);
    let first = stage.commit_in("another group", &alone, &[("events", 0, 1)]);
    assert_eq!(stage.log.len(), 2, "a group that is not there is made at once");
    let more: Vec<_> = (0..100).map(|at| stage.commit_as(&alone, &[("events", 0, at)])).collect();
    assert_eq!(stage.log.len(), 2);
    stage.commit_to(2);
    assert_eq!(stage.commit_told(first), Some(vec![ErrorCode::None]));
    assert_eq!((stage.log.len(), stage.replies.len()), (102, 0), "they are written before any other step");
    stage.commit();
    for ticket in more {
        assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::None]));
    }
    assert_eq!(stage.offset("events", 0), 99, "in the order in which they came");
    // Who asks for something else sees what was committed before, once that is safe.
    stage.commit_as(&alone, &[("events", 0, 100)]);
    stage.commit_as(&alone, &[("events", 0, 101)]);
    let read = stage.fetch("events", 0);
    assert_eq!((stage.log.len(), stage.told(read)), (104, None));
    stage.commit();
    let Some(Response::OffsetFetch(read)) = stage.told(read) else { panic!("it is committed") };
    assert_eq!(read.topics[0].partitions[0].offset, 101);
    // As many as a batch should have are not waited with.
    let metadata = "x".repeat(4_000);
    let partition =
        OffsetCommitRequestPartition { committed_metadata: Some(&metadata), ..Default::default() };
    let topics = vec![OffsetCommitRequestTopic {
        name: "events",
        topic_id: Uuid::ZERO,
        partitions: vec![partition; 10],
    }];
    let request = OffsetCommitRequest { group_id: GROUP, topics, ..OffsetCommitRequest::default() };
    for _ in 0..7 {
        stage.ask(9, "c", Request::OffsetCommit(&request));
    }
    assert_eq!(stage.log.len(), 104 + 70);
    stage.commit();
    stage.check_replay();
}

#[test]
fn what_is_gathered_is_refused_with_what_it_is_written_with_and_given_up_in_time() {
    let mut stage = Stage::new();
    let alone = Client::new("alone");
    stage.commit_as(&alone, &[("events", 0, 1)]);
    stage.replies.clear();
    (stage.commits, stage.gathers) = (false, true);
    let commit = |stage: &mut Stage| [2, 3].map(|at| stage.commit_as(&alone, &[("events", 0, at)]));
    let told = |stage: &mut Stage, tickets: [Ticket; 2], error| {
        tickets.iter().for_each(|ticket| assert_eq!(stage.commit_told(*ticket), Some(vec![error])));
    };
    let tickets = commit(&mut stage);
    stage.refuses = Some(ErrorCode::NotEnoughReplicas);
    stage.commit();
    told(&mut stage, tickets, ErrorCode::CoordinatorNotAvailable);
    stage.refuses = None;
    assert_eq!(stage.offset("events", 0), 1);
    let tickets = commit(&mut stage);
    stage.pass(ShardSettings::default().commit_timeout);
    told(&mut stage, tickets, ErrorCode::CoordinatorNotAvailable);
    stage.commit();
    assert_eq!(stage.offset("events", 0), 3, "they may come to be after all");
    let tickets = commit(&mut stage);
    stage.unload();
    told(&mut stage, tickets, ErrorCode::NotCoordinator);
}

#[test]
fn an_assignment_is_told_once_it_is_committed() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::new("a"), Client::new("b"));
    let tickets = [stage.join(&mut a), stage.join(&mut b)];
    stage.pass(Duration::from_secs(1));
    stage.joined(tickets[0], &mut a);
    stage.joined(tickets[1], &mut b);
    stage.commits = false;
    let ticket = stage.sync(&a, &[(&a, "1"), (&b, "2")]);
    let late = stage.sync(&b, &[]);
    assert_eq!((stage.synced(ticket), stage.synced(late)), ("waits".into(), "waits".into()));
    stage.commit();
    assert_eq!((stage.synced(ticket), stage.synced(late)), ("1".into(), "2".into()));
}

#[test]
fn a_log_that_does_not_take_it_is_told_as_a_coordinator_that_is_not_there() {
    let cases = [
        (ErrorCode::NotEnoughReplicas, ErrorCode::CoordinatorNotAvailable),
        (ErrorCode::NotLeaderOrFollower, ErrorCode::NotCoordinator),
        (ErrorCode::KafkaStorageError, ErrorCode::NotCoordinator),
        (ErrorCode::MessageTooLarge, ErrorCode::UnknownServerError),
    ];
    for (refused, expected) in cases {
        let mut stage = Stage::new();
        stage.refuses = Some(refused);
        let ticket = stage.commit_as(&Client::new("alone"), &[("events", 0, 1)]);
        assert_eq!(stage.commit_told(ticket), Some(vec![expected]));
        assert_eq!(stage.offset("events", 0), -1);
        assert!(!stage.counts.contains(&Count::OffsetsCommitted(1)));
    }
}

#[test]
fn an_assignment_that_cannot_be_written_is_made_again() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::new("a"), Client::new("b"));
    let tickets = [stage.join(&mut a), stage.join(&mut b)];
    stage.pass(Duration::from_secs(1));
    stage.joined(tickets[0], &mut a);
    stage.joined(tickets[1], &mut b);
    let waits = stage.sync(&b, &[]);
    stage.refuses = Some(ErrorCode::NotEnoughReplicas);
    let ticket = stage.sync(&a, &[(&a, "1"), (&b, "2")]);
    assert_eq!(stage.synced(ticket), "COORDINATOR_NOT_AVAILABLE");
    assert_eq!(stage.synced(waits), "COORDINATOR_NOT_AVAILABLE");
    assert_eq!(stage.heartbeat(&a), ErrorCode::RebalanceInProgress);
    stage.refuses = None;
    let tickets = [stage.join(&mut a), stage.join(&mut b)];
    assert_eq!(stage.joined(tickets[0], &mut a), "generation 2 range led by a: a b");
    assert_eq!(stage.joined(tickets[1], &mut b), "generation 2 range led by a");
}

#[test]
fn a_group_that_nobody_is_in_any_more_is_written_as_soon_as_that_is_possible() {
    let mut stage = Stage::new();
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    stage.refuses = Some(ErrorCode::NotEnoughReplicas);
    assert_eq!(stage.leave(&a), ErrorCode::None);
    stage.pass(Duration::from_secs(10));
    stage.refuses = None;
    stage.pass(Duration::from_secs(1));
    assert_eq!(stage.describe(GROUP), "Empty ");
    stage.check_replay();
    stage.fail_over();
    assert_eq!(stage.describe(GROUP), "Empty ");
}

#[test]
fn who_waits_for_too_long_is_told_to_try_again() {
    let mut stage = Stage::new();
    stage.commits = false;
    let ticket = stage.commit_as(&Client::new("alone"), &[("events", 0, 1)]);
    stage.pass_ms(4_999);
    assert_eq!(stage.commit_told(ticket), None);
    stage.pass_ms(1);
    assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::CoordinatorNotAvailable]));
    // It may have been written all the same, and it was.
    stage.commit();
    assert_eq!(stage.offset("events", 0), 1);
}

#[test]
fn g40_offsets_are_deleted_by_request_unless_somebody_reads_the_topic() {
    let mut stage = Stage::new();
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    let ticket = stage.commit_as(&a, &[("events", 0, 1), ("clicks", 0, 2)]);
    stage.told(ticket);
    let delete = |stage: &mut Stage, group| {
        let topic = |name| OffsetDeleteRequestTopic {
            name,
            partitions: vec![OffsetDeleteRequestPartition { partition_index: 0 }],
        };
        let request = OffsetDeleteRequest { group_id: group, topics: vec![topic("events"), topic("clicks")] };
        let ticket = stage.ask(0, "admin", Request::OffsetDelete(&request));
        let Some(Response::OffsetDelete(told)) = stage.told(ticket) else { panic!("it is answered") };
        (
            told.error,
            told.topics.iter().flat_map(|it| &it.partitions).map(|(_, error)| *error).collect::<Vec<_>>(),
        )
    };
    let told = delete(&mut stage, GROUP);
    assert_eq!(told, (ErrorCode::None, vec![ErrorCode::GroupSubscribedToTopic, ErrorCode::None]));
    assert_eq!((stage.offset("events", 0), stage.offset("clicks", 0)), (1, -1));
    // Nobody has offsets of a topic that is not there, unless it was deleted just now.
    stage.image = image(&[("clicks", 2)]);
    let told = delete(&mut stage, GROUP);
    assert_eq!(told.1, [ErrorCode::GroupSubscribedToTopic, ErrorCode::None]);
    let ticket = stage.commit_in("alone", &Client::new("alone"), &[("clicks", 0, 2)]);
    stage.told(ticket);
    let told = delete(&mut stage, "alone");
    assert_eq!(told, (ErrorCode::None, vec![ErrorCode::UnknownTopicOrPartition, ErrorCode::None]));
    assert_eq!(delete(&mut stage, "no such group").0, ErrorCode::GroupIdNotFound);
    assert_eq!(delete(&mut stage, "").0, ErrorCode::InvalidGroupId);
    stage.check_replay();
}
