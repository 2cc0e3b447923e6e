//! Groups of the new protocol, told on their shard: what is written, loaded, shown, committed and deleted (KIP-848).

use std::collections::BTreeSet;
use std::time::Duration;

use base::{ErrorCode, Uuid};
use wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatRequestTopicPartitions,
};
use wire::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};

use super::stage::{Client, GROUP, Stage};
use crate::{Cause, Count, Request, Response, Ticket};

/// A member of the new protocol, as its client plays it.
#[derive(Debug, Clone, Default)]
pub(super) struct Reader {
    pub(super) id: String,
    pub(super) epoch: i32,
    pub(super) instance: Option<&'static str>,
    /// Partitions of `events`, all of which it gives back as soon as it should.
    pub(super) has: BTreeSet<i32>,
}

impl Reader {
    pub(super) fn new(id: &str) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// As one that commits.
    pub(super) fn client(&self) -> Client {
        Client { id: self.id.as_str().into(), generation: self.epoch, ..Client::new(&self.id) }
    }
}

impl Stage {
    /// A reader is heard; its ticket.
    pub(super) fn beat(&mut self, reader: &Reader) -> Ticket {
        let events = self.image.topic("events").map(|topic| topic.id.0).unwrap_or_default();
        let partitions = reader.has.iter().copied().collect();
        let owned = ConsumerGroupHeartbeatRequestTopicPartitions { topic_id: events, partitions };
        let joins = reader.epoch == 0;
        let request = ConsumerGroupHeartbeatRequest {
            group_id: GROUP,
            member_id: &reader.id,
            member_epoch: reader.epoch,
            instance_id: reader.instance,
            rebalance_timeout_ms: if joins { 30_000 } else { -1 },
            subscribed_topic_names: joins.then(|| vec!["events"]),
            topic_partitions: Some(if joins { vec![] } else { vec![owned] }),
            ..Default::default()
        };
        self.ask(1, &reader.id, Request::ConsumerGroupHeartbeat(&request))
    }

    /// What a reader was told, in a line; it does what it is told.
    pub(super) fn heard(&mut self, ticket: Ticket, reader: &mut Reader) -> String {
        let Some(response) = self.told(ticket) else { return "waits".into() };
        let Response::ConsumerGroupHeartbeat(heard) = response else { panic!("{response:?}") };
        let Some(reply) = heard.reply else { return heard.error.name().into() };
        reader.epoch = reply.member_epoch;
        if let Some(assignment) = reply.assignment {
            reader.has = assignment.into_values().flatten().map(|index| index.0).collect();
        }
        format!("{}@{} {:?}", reader.id, reader.epoch, reader.has)
    }

    pub(super) fn read(&mut self, reader: &mut Reader) -> String {
        let ticket = self.beat(reader);
        self.heard(ticket, reader)
    }

    /// All readers are heard until nobody is told anything new.
    fn share(&mut self, readers: &mut [&mut Reader]) {
        for _ in 0..20 {
            let before = self.log.len();
            for reader in readers.iter_mut() {
                self.read(reader);
            }
            self.pass_ms(1_000);
            if self.log.len() == before {
                return;
            }
        }
        panic!("they find no end");
    }

    /// State, epochs, and what each member has, as people are shown it.
    fn described(&mut self, group: &str) -> String {
        let ticket = self.ask(1, "somebody", Request::ConsumerGroupDescribe(group));
        let Some(Response::ConsumerGroupDescribe(it)) = self.told(ticket) else { panic!("it waits") };
        let Some(described) = it.described else {
            return format!("{} {}", it.error.name(), it.error_message.unwrap_or_default());
        };
        let members = described.members.iter().map(|member| {
            let count: usize = member.assigned.iter().map(|(_, _, of)| of.len()).sum();
            format!(" {}@{}={count}", member.id, member.epoch)
        });
        format!("{} {}/{}", described.state.name(), described.epoch, described.target_epoch)
            + &members.collect::<String>()
    }

    fn listed(&mut self, states: &[&str], types: &[&str]) -> String {
        let ticket = self.ask(5, "somebody", Request::ListGroups { states, types });
        let Some(Response::ListGroups(listed)) = self.told(ticket) else { panic!("it waits") };
        let groups = listed.groups.iter();
        let lines: Vec<String> = groups.map(|it| format!("{} {} {}", it.group, it.kind, it.state)).collect();
        lines.join(", ")
    }

    fn deleted(&mut self, group: &str) -> ErrorCode {
        let ticket = self.ask(2, "somebody", Request::DeleteGroup(group));
        match self.told(ticket) {
            Some(Response::DeleteGroup { error, .. }) => error,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn who_comes_first_hurries_for_those_who_come_with_it() {
    let mut stage = Stage::new();
    let mut first = Reader::new("first");
    let mut is_heard_within = |stage: &mut Stage| {
        let ticket = stage.beat(&first);
        let Some(Response::ConsumerGroupHeartbeat(heard)) = stage.told(ticket) else { panic!("it waits") };
        let reply = heard.reply.expect("it is a member");
        first.epoch = reply.member_epoch;
        reply.heartbeat_interval.as_millis()
    };
    assert_eq!(is_heard_within(&mut stage), 300, "it joins");
    // What it has is committed meanwhile, and that the group is there is known from its records.
    stage.pass_ms(300);
    assert_eq!(is_heard_within(&mut stage), 300, "others may come yet, for whom it has to give up something");
    stage.pass_ms(5_000);
    assert_eq!(is_heard_within(&mut stage), 5_000, "nobody came");
}

#[test]
fn it_is_counted_how_long_members_take_to_have_what_they_should() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Reader::new("a"), Reader::new("b"));
    stage.read(&mut a);
    stage.pass_ms(2_000);
    stage.counts.clear();
    stage.read(&mut b);
    let began = Count::RebalanceBegan(Cause::MemberJoined);
    assert_eq!(stage.counts, [began], "it waits for what a has");
    stage.pass_ms(700);
    stage.read(&mut a);
    stage.read(&mut a);
    stage.pass_ms(300);
    stage.read(&mut b);
    stage.read(&mut a);
    stage.read(&mut b);
    let took = |ms| Count::Reconciled { took: Duration::from_millis(ms) };
    assert_eq!(stage.counts, [began, took(700), took(1_000)], "a has given back, then b has its part");
}

#[test]
fn a_reader_joins_reads_commits_and_leaves() {
    let mut stage = Stage::new();
    let mut a = Reader::new("a");
    assert_eq!(stage.read(&mut a), "a@1 {0, 1, 2, 3, 4, 5, 6, 7}");
    let took = Duration::ZERO;
    let counted = [Count::RebalanceBegan(Cause::MemberJoined), Count::Reconciled { took }];
    assert_eq!(stage.counts, counted);
    assert_eq!(stage.described(GROUP), "Stable 1/1 a@1=8");
    assert_eq!(stage.describe(GROUP), "Dead ", "it is no classic group");
    assert_eq!(stage.listed(&[], &[]), "readers consumer Stable");
    assert_eq!(stage.listed(&["stable"], &["Consumer"]), "readers consumer Stable");
    assert_eq!(stage.listed(&["empty"], &[]) + &stage.listed(&[], &["classic"]), "");

    let ticket = stage.commit_as(&a.client(), &[("events", 3, 42)]);
    assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::None]));
    let stale = Client { generation: 9, ..a.client() };
    let ticket = stage.commit_as(&stale, &[("events", 3, 43)]);
    assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::StaleMemberEpoch]));
    let nobody = Client { id: "nobody".into(), ..a.client() };
    let ticket = stage.commit_as(&nobody, &[("events", 3, 43)]);
    assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::UnknownMemberId]));
    for (member, epoch, error) in [
        ("a", 1, ErrorCode::None),
        ("a", 2, ErrorCode::StaleMemberEpoch),
        ("nobody", 1, ErrorCode::UnknownMemberId),
    ] {
        let asks = OffsetFetchRequestGroup {
            group_id: GROUP,
            member_id: Some(member),
            member_epoch: epoch,
            topics: Some(vec![OffsetFetchRequestTopics {
                name: "events",
                topic_id: Uuid::ZERO,
                partition_indexes: vec![3],
            }]),
        };
        let ticket = stage.ask(9, member, Request::OffsetFetch(&asks));
        let Some(Response::OffsetFetch(fetched)) = stage.told(ticket) else { panic!("it waits") };
        assert_eq!(fetched.error, error, "{member}@{epoch}");
    }
    let partitions = vec![OffsetDeleteRequestPartition { partition_index: 3 }];
    let topics = vec![OffsetDeleteRequestTopic { name: "events", partitions }];
    let asks = OffsetDeleteRequest { group_id: GROUP, topics };
    let ticket = stage.ask(0, "somebody", Request::OffsetDelete(&asks));
    let Some(Response::OffsetDelete(deleted)) = stage.told(ticket) else { panic!("it waits") };
    assert_eq!(deleted.topics[0].partitions, [(3, ErrorCode::GroupSubscribedToTopic)]);
    assert_eq!(stage.deleted(GROUP), ErrorCode::NonEmptyGroup);
    stage.check_replay();

    a.epoch = -1;
    assert_eq!(stage.read(&mut a), "a@-1 {0, 1, 2, 3, 4, 5, 6, 7}");
    assert_eq!(stage.described(GROUP), "Empty 2/1");
    assert_eq!(stage.offset("events", 3), 42, "how far it came is kept");
    stage.check_replay();
    assert_eq!(stage.deleted(GROUP), ErrorCode::None);
    assert_eq!(stage.listed(&[], &[]), "");
    assert_eq!(stage.described(GROUP), "GROUP_ID_NOT_FOUND Group readers not found.");
    stage.check_replay();
    assert_eq!((stage.shard.group_count(), stage.shard.offset_count()), (0, 0));
}

/// Whoever has a partition is asked for it, and has to say that it let it go, before another one gets it.
#[test]
fn readers_share_and_who_falls_silent_is_missed() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Reader::new("a"), Reader::new("b"));
    stage.read(&mut a);
    assert_eq!(stage.read(&mut b), "b@1 {}", "targets are made once in an interval");
    stage.pass_ms(1_000);
    assert_eq!(stage.read(&mut b), "b@2 {}", "a has not let go of anything");
    stage.share(&mut [&mut a, &mut b]);
    assert_eq!((a.has.len(), b.has.len()), (4, 4));
    assert!(a.has.is_disjoint(&b.has));
    stage.fail_over();
    assert_eq!(stage.described(GROUP), "Stable 2/2 a@2=4 b@2=4");
    assert_eq!(stage.read(&mut a), format!("a@2 {:?}", a.has), "it goes on with the next coordinator");
    // Only a is heard from now on.
    for _ in 0..50 {
        stage.pass_ms(1_000);
        stage.read(&mut a);
    }
    assert_eq!(a.has.len(), 8);
    assert!(stage.counts.contains(&Count::MembersExpelled(1)), "{:?}", stage.counts);
    assert_eq!(stage.read(&mut b), "UNKNOWN_MEMBER_ID");
    stage.check_replay();
}

#[test]
fn nobody_is_told_what_is_not_committed_and_nothing_is_kept_that_was_not_written() {
    let mut stage = Stage::new();
    let mut a = Reader::new("a");
    stage.refuses = Some(ErrorCode::NotEnoughReplicas);
    assert_eq!(stage.read(&mut a), "COORDINATOR_NOT_AVAILABLE");
    assert_eq!(stage.shard.group_count(), 0, "a group that could not be written is none");
    stage.refuses = None;
    let mut late = Reader { epoch: 5, ..Reader::new("late") };
    assert_eq!(stage.read(&mut late), "UNKNOWN_MEMBER_ID");
    let mut blank = Reader::new("");
    assert_eq!(stage.read(&mut blank), "INVALID_REQUEST");
    assert_eq!(stage.shard.group_count(), 0, "nor is one that refused its first member");

    stage.commits = false;
    let ticket = stage.beat(&a);
    assert_eq!(stage.heard(ticket, &mut a), "waits");
    let shown = stage.ask(1, "somebody", Request::ConsumerGroupDescribe(GROUP));
    assert_eq!(stage.told(shown), None);
    stage.commit();
    assert_eq!(stage.heard(ticket, &mut a), "a@1 {0, 1, 2, 3, 4, 5, 6, 7}");
    assert!(stage.told(shown).is_some());
    stage.unload();
    assert_eq!(stage.read(&mut a), "NOT_COORDINATOR");
}

/// R13, KIP-211: how far a group came is kept as long as it lives, and the whole time from when its last member left,
/// whoever coordinates it then.
#[test]
fn offsets_that_no_reader_needs_grow_old_and_the_group_goes_with_them() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let mut stage = Stage::new();
    let mut a = Reader::new("a");
    stage.read(&mut a);
    let ticket = stage.commit_as(&a.client(), &[("events", 0, 1), ("clicks", 0, 1)]);
    stage.told(ticket);
    for _ in 0..9 * 24 * 60 * 2 {
        stage.pass(Duration::from_secs(30));
        stage.read(&mut a);
    }
    assert_eq!(stage.offset("clicks", 0), -1, "nobody reads it");
    assert_eq!(stage.offset("events", 0), 1, "a does");
    stage.check_replay();
    a.epoch = -1;
    stage.read(&mut a);
    stage.pass(3 * DAY);
    stage.check_replay();
    stage.fail_over();
    let ticket = stage.commit_as(&Client::new("an operator"), &[("events", 1, 7)]);
    stage.told(ticket);
    stage.pass(3 * DAY);
    assert_eq!(stage.offset("events", 0), 1, "a may come back");
    stage.pass(DAY + Duration::from_secs(11 * 60));
    assert_eq!(stage.offset("events", 0), -1);
    assert_eq!(stage.offset("events", 1), 7, "it is as old as its commit");
    stage.pass(3 * DAY);
    assert_eq!(stage.shard.group_count(), 0);
    stage.check_replay();
}
