//! Groups that change their protocol, with all who wait in them (KIP-848).

use std::collections::BTreeSet;
use std::sync::Arc;

use base::ErrorCode;
use wire::messages::consumer_protocol_assignment::{ConsumerProtocolAssignment, TopicPartition};
use wire::messages::consumer_protocol_subscription::{self, ConsumerProtocolSubscription};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use wire::{Decoder, Encoder, Message};

use super::consumers::Reader;
use super::stage::{Client, GROUP, Stage};
use crate::consumer::{ConsumerGroupSettings, MigrationPolicy};
use crate::{Cause, Count, Request, Response, ShardSettings, Ticket};

/// What a leader gives to a member, as consumers write it.
pub(super) fn assignment(partitions: &[i32]) -> Vec<u8> {
    let of = TopicPartition { topic: "events", partitions: partitions.to_vec() };
    let mut e = Encoder::new();
    e.i16(0);
    let message = ConsumerProtocolAssignment { assigned_partitions: vec![of], user_data: None };
    message.encode(&mut e, 0).expect("it is small");
    e.into_bytes()
}

pub(super) fn read_assignment(assignment: &[u8]) -> Vec<i32> {
    let mut d = Decoder::new(assignment);
    let version = d.i16().expect("it has a version");
    let message = ConsumerProtocolAssignment::decode(&mut d, version).expect("it is one");
    message.assigned_partitions.into_iter().flat_map(|of| of.partitions).collect()
}

/// A member asks for what it may read; the leader, to whom all `members` were told, gives each its part.
pub(super) fn assigned_by(stage: &mut Stage, client: &Client, members: &[String]) -> Ticket {
    let part = |(i, id): (usize, &String)| {
        let part: Vec<i32> = (0..8).filter(|index| *index as usize % members.len() == i).collect();
        (id.clone(), assignment(&part))
    };
    let parts: Vec<(String, Vec<u8>)> = members.iter().enumerate().map(part).collect();
    let request = SyncGroupRequest {
        group_id: GROUP,
        generation_id: client.generation,
        member_id: &client.id,
        assignments: parts
            .iter()
            .map(|(member_id, assignment)| SyncGroupRequestAssignment { member_id, assignment })
            .collect(),
        ..Default::default()
    };
    stage.ask(5, &client.name, Request::SyncGroup(&request))
}

/// A stage on which `a` reads all of `events` with the classic protocol.
fn classic(settings: ShardSettings) -> (Stage, Client) {
    let mut stage = Stage::with(settings);
    let mut a = Client::new("a");
    let ticket = stage.join(&mut a);
    stage.pass_ms(3_000);
    assert_eq!(stage.joined(ticket, &mut a), "generation 1 range led by a: a");
    let ticket = assigned_by(&mut stage, &a, &[a.id.to_string()]);
    stage.told(ticket).expect("it has it");
    (stage, a)
}

/// What a member of the classic protocol may read, or why it may not.
fn sync(stage: &mut Stage, client: &Client) -> Result<Vec<i32>, ErrorCode> {
    let ticket = stage.sync(client, &[]);
    let Some(Response::SyncGroup(synced)) = stage.told(ticket) else { panic!("it waits") };
    synced.error.is_none().then(|| read_assignment(&synced.assignment)).ok_or(synced.error)
}

#[test]
fn a_classic_group_is_read_with_both_protocols_and_goes_back() {
    let (mut stage, mut a) = classic(ShardSettings::default());
    let ticket = stage.commit_as(&a, &[("events", 7, 42)]);
    stage.told(ticket);
    let mut b = Reader::new("b");
    assert_eq!(stage.read(&mut b), "b@2 {}", "a has everything");
    stage.check_replay();
    assert_eq!(stage.describe(GROUP), "Dead ", "it is no classic group any more");
    assert_eq!(stage.heartbeat(&a), ErrorCode::RebalanceInProgress);
    // a is eager: it gives back everything when it joins.
    let ticket = stage.join(&mut a);
    assert_eq!(stage.joined(ticket, &mut a), "generation 2 range led by ");
    assert_eq!(sync(&mut stage, &a).map(|of| of.len()), Ok(4));
    assert_eq!(stage.heartbeat(&a), ErrorCode::None);
    let rest = missing(&mut stage, &a);
    assert_eq!(stage.read(&mut b), format!("b@2 {rest}"));
    assert_eq!(stage.offset("events", 7), 42);
    let ticket = stage.commit_as(&a, &[("events", 7, 43)]);
    assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::None]));
    stage.fail_over();
    assert_eq!(stage.heartbeat(&a), ErrorCode::None, "the next coordinator knows both");
    let mut c = Client::new("c");
    let ticket = stage.join(&mut c);
    assert!(stage.joined(ticket, &mut c).starts_with("generation"), "more of them may come");
    assert_eq!(stage.leave(&c), ErrorCode::None);

    // The last one of the new protocol leaves: those of the old one choose a leader.
    b.epoch = -1;
    stage.read(&mut b);
    assert!(stage.describe(GROUP).starts_with("PreparingRebalance"), "{}", stage.describe(GROUP));
    stage.check_replay();
    stage.heartbeat(&a);
    let ticket = stage.join(&mut a);
    assert!(stage.joined(ticket, &mut a).ends_with("range led by a: a"));
    assert_eq!(stage.offset("events", 7), 43);
    stage.check_replay();
}

/// A member of the old protocol in a group of the new one is removed while its assignment waits to be committed.
#[test]
fn who_is_removed_from_a_group_of_both_is_not_given_its_assignment() {
    let (mut stage, mut a) = classic(ShardSettings::default());
    let mut b = Reader::new("b");
    stage.read(&mut b);
    let ticket = stage.join(&mut a);
    assert_eq!(stage.joined(ticket, &mut a), "generation 2 range led by ");
    stage.commits = false;
    // Something of the group that is not committed, and the answer behind it.
    stage.commit_as(&a, &[("events", 7, 42)]);
    let waits = stage.sync(&a, &[]);
    assert_eq!(stage.synced(waits), "waits");
    let left = stage.ask_to_leave(&a);
    stage.commit();
    assert_eq!(stage.synced(waits), "UNKNOWN_MEMBER_ID");
    assert!(matches!(stage.told(left), Some(Response::LeaveGroup(left)) if left.error.is_none()));
}

/// The group that turned back is lost with its coordinator before any of its members heard of it. They are in the
/// generation that was written, and would go on in it for ever, without what the others had.
#[test]
fn a_group_that_turned_back_rebalances_under_the_next_coordinator() {
    let (mut stage, mut a) = classic(ShardSettings::default());
    let mut b = Reader::new("b");
    stage.read(&mut b);
    let ticket = stage.join(&mut a);
    stage.joined(ticket, &mut a);
    assert_eq!(sync(&mut stage, &a).map(|of| of.len()), Ok(4));
    stage.read(&mut b);
    b.epoch = -1;
    stage.read(&mut b);
    stage.fail_over();
    assert!(stage.describe(GROUP).starts_with("PreparingRebalance"), "{}", stage.describe(GROUP));
    assert_eq!(stage.heartbeat(&a), ErrorCode::RebalanceInProgress);
    let ticket = stage.join(&mut a);
    assert_eq!(stage.joined(ticket, &mut a), "generation 3 range led by a: a");
    let ticket = assigned_by(&mut stage, &a, &[a.id.to_string()]);
    stage.told(ticket).expect("it has it");
    stage.fail_over();
    assert_eq!(sync(&mut stage, &a).map(|of| of.len()), Ok(8), "that is what lasts");
    assert!(stage.describe(GROUP).starts_with("Stable"), "{}", stage.describe(GROUP));
    stage.check_replay();
}

/// Its session ended, and its group turned: it joins again, where it would give up if there were no such group.
#[test]
fn a_reader_that_was_away_while_its_group_turned_back_is_told_to_join_again() {
    let (mut stage, a) = classic(ShardSettings::default());
    let mut b = Reader::new("b");
    stage.read(&mut b);
    for _ in 0..10 {
        stage.pass_ms(5_000);
        stage.heartbeat(&a);
    }
    assert!(stage.describe(GROUP).starts_with("PreparingRebalance"), "{}", stage.describe(GROUP));
    assert_eq!(stage.read(&mut b), "UNKNOWN_MEMBER_ID");
}

/// What of `events` a member of the classic protocol does not have.
fn missing(stage: &mut Stage, client: &Client) -> String {
    let has = sync(stage, client).expect("it is a member");
    let rest: BTreeSet<i32> = (0..8).filter(|index| !has.contains(index)).collect();
    format!("{rest:?}")
}

/// The last member of the new protocol need not leave for good: it may come back with the old one.
#[test]
fn a_group_goes_back_when_its_last_static_member_comes_back_in_the_old_protocol() {
    let (mut stage, mut a) = classic(ShardSettings::default());
    let mut b = Reader { instance: Some("two"), ..Reader::new("b") };
    stage.read(&mut b);
    let ticket = stage.join(&mut a);
    stage.joined(ticket, &mut a);
    stage.read(&mut b);
    b.epoch = -2;
    stage.read(&mut b);
    let mut b = Client::fixed("b", "two");
    let ticket = stage.join(&mut b);
    assert_eq!(stage.joined(ticket, &mut b), "COORDINATOR_LOAD_IN_PROGRESS");
    stage.check_replay();
    assert!(stage.describe(GROUP).starts_with("PreparingRebalance"), "{}", stage.describe(GROUP));
    stage.heartbeat(&a);
    let mut tickets = vec![stage.join(&mut b)];
    tickets.push(stage.join(&mut a));
    let told = [stage.joined(tickets[0], &mut b), stage.joined(tickets[1], &mut a)];
    assert!(told.iter().all(|it| it.starts_with("generation 3 range led by")), "{told:?}");
    assert_eq!(stage.describe(GROUP).matches("two").count(), 1, "once: {}", stage.describe(GROUP));
}

/// Until it has joined again, a member may read what it had when the group turned back: nobody else is given it.
#[test]
fn a_group_that_turns_twice_gives_away_nothing_that_is_read() {
    let (mut stage, a) = classic(ShardSettings::default());
    let mut b = Reader::new("b");
    stage.read(&mut b);
    b.epoch = -1;
    stage.read(&mut b);
    assert_eq!(stage.heartbeat(&a), ErrorCode::IllegalGeneration, "it was never told of generation 2");
    let mut c = Reader::new("c");
    let told = stage.read(&mut c);
    assert!(told.ends_with("{}"), "a has not been heard since: {told}");
    stage.check_replay();
}

/// Whoever is cooperative reads on while it waits for what it is assigned: nobody else is given that.
#[test]
fn what_is_read_during_a_rebalance_stays_with_its_reader() {
    let (mut stage, mut a) = classic(ShardSettings::default());
    a.protocols = vec![("range", cooperative(1, &[0, 1, 2, 3, 4, 5, 6, 7]))];
    let ticket = stage.join(&mut a);
    assert!(stage.joined(ticket, &mut a).starts_with("generation 2"));
    // The leader has not assigned yet when another one joins: what it was to assign will never be.
    let mut c = Client::new("c");
    stage.join(&mut c);
    let mut e = Reader::new("e");
    assert!(stage.read(&mut e).ends_with("{}"), "a reads everything");
    stage.check_replay();
    let ticket = stage.join(&mut a);
    assert!(stage.joined(ticket, &mut a).starts_with("generation"));
    let left: BTreeSet<i32> = sync(&mut stage, &a).expect("it is a member").into_iter().collect();
    assert!(!left.is_empty() && left.len() < 8, "it keeps a part of it: {left:?}");
    a.protocols = vec![("range", cooperative(2, &Vec::from_iter(left.iter().copied())))];
    stage.join(&mut a);
    stage.read(&mut e);
    assert!(!e.has.is_empty() && e.has.is_disjoint(&left), "{:?} {left:?}", e.has);
}

/// What a consumer says of itself that keeps what it has while it joins.
fn cooperative(generation_id: i32, owned: &[i32]) -> Vec<u8> {
    let owned =
        consumer_protocol_subscription::TopicPartition { topic: "events", partitions: owned.to_vec() };
    let message = ConsumerProtocolSubscription {
        topics: vec!["events"],
        owned_partitions: vec![owned],
        generation_id,
        ..Default::default()
    };
    let mut e = Encoder::new();
    e.i16(2);
    message.encode(&mut e, 2).expect("it is small");
    e.into_bytes()
}

#[test]
fn who_waits_in_a_classic_group_that_turns_is_sent_round_again() {
    let (mut stage, mut a) = classic(ShardSettings::default());
    let mut c = Client::new("c");
    let waits = stage.join(&mut c);
    assert_eq!(stage.joined(waits, &mut c), "waits");
    let mut b = Reader::new("b");
    stage.refuses = Some(ErrorCode::NotEnoughReplicas);
    assert_eq!(stage.read(&mut b), "COORDINATOR_NOT_AVAILABLE");
    assert_eq!(stage.joined(waits, &mut c), "waits", "nothing has changed");
    stage.refuses = None;
    stage.read(&mut b);
    assert_eq!(stage.joined(waits, &mut c), "REBALANCE_IN_PROGRESS");
    let ticket = stage.join(&mut c);
    assert_eq!(stage.joined(ticket, &mut c).split(' ').next(), Some("generation"));
    let ticket = stage.join(&mut a);
    assert_eq!(stage.joined(ticket, &mut a).split(' ').next(), Some("generation"));
    stage.check_replay();
}

#[test]
fn an_operator_says_which_groups_turn() {
    let migration = MigrationPolicy::Disabled;
    let consumer = Arc::new(ConsumerGroupSettings { migration, ..Default::default() });
    let (mut stage, a) = classic(ShardSettings { consumer, ..ShardSettings::default() });
    let mut b = Reader::new("b");
    assert_eq!(stage.read(&mut b), "GROUP_ID_NOT_FOUND");
    assert_eq!(stage.heartbeat(&a), ErrorCode::None);
    stage.leave(&a);
    assert_eq!(stage.read(&mut b), "b@1 {0, 1, 2, 3, 4, 5, 6, 7}", "of an empty one nobody is asked");
    stage.check_replay();
    // The same the other way: it is told to come again, and finds a group in which nobody is.
    b.epoch = -1;
    stage.read(&mut b);
    let mut a = a.again();
    let ticket = stage.join(&mut a);
    assert_eq!(stage.joined(ticket, &mut a), "COORDINATOR_LOAD_IN_PROGRESS");
    let ticket = stage.join(&mut a);
    stage.pass_ms(3_000);
    assert_eq!(stage.joined(ticket, &mut a), "generation 3 range led by a: a");
    assert!(stage.counts.contains(&Count::RebalanceBegan(Cause::MemberLeft)));
    stage.check_replay();
}

#[test]
fn a_member_of_another_protocol_type_is_refused() {
    let mut stage = Stage::new();
    stage.read(&mut Reader::new("b"));
    let mut worker = Client { protocol_type: "connect", ..Client::new("worker") };
    let ticket = stage.join(&mut worker);
    assert_eq!(stage.joined(ticket, &mut worker), "INCONSISTENT_GROUP_PROTOCOL");
    let mut garbled = Client { protocols: vec![("range", vec![1])], ..Client::new("garbled") };
    let ticket = stage.join(&mut garbled);
    assert_eq!(stage.joined(ticket, &mut garbled), "INCONSISTENT_GROUP_PROTOCOL");
    // And the new protocol finds no place in a group of workers.
    let mut stage = Stage::new();
    let mut worker = Client { protocol_type: "connect", ..Client::new("worker") };
    stage.settle(&mut [&mut worker]);
    assert_eq!(stage.read(&mut Reader::new("b")), "GROUP_ID_NOT_FOUND");
    assert_eq!(stage.heartbeat(&worker), ErrorCode::None);
}
