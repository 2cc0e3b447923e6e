//! Static members that come back when not all is as it was (KIP-345).

use std::time::Duration;

use base::ErrorCode;
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};

use super::stage::{Client, GROUP, Stage, subscription};
use super::turned::{assignment, read_assignment};
use crate::{Count, Request, Response, Ticket};

/// A static member that gives back only what it must.
fn cooperative(name: &str, instance: &'static str) -> Client {
    Client { protocols: said(&[]), ..Client::fixed(name, instance) }
}

/// As it says that it has these partitions of `events`.
fn said(owned: &[i32]) -> Vec<(&'static str, Vec<u8>)> {
    vec![("cooperative-sticky", subscription(&["events"], owned))]
}

/// A member asks for its part; the leader brings those of all.
fn sync(stage: &mut Stage, client: &Client, parts: &[(&Client, &[i32])]) -> Ticket {
    let parts: Vec<(&str, Vec<u8>)> =
        parts.iter().map(|(client, part)| (&*client.id, assignment(part))).collect();
    let assignments = parts.iter();
    let assignments =
        assignments.map(|(member_id, assignment)| SyncGroupRequestAssignment { member_id, assignment });
    let request = SyncGroupRequest {
        group_id: GROUP,
        generation_id: client.generation,
        member_id: &client.id,
        group_instance_id: client.instance,
        assignments: assignments.collect(),
        ..Default::default()
    };
    stage.ask(5, &client.name, Request::SyncGroup(&request))
}

fn synced(stage: &mut Stage, ticket: Ticket) -> Vec<i32> {
    match stage.told(ticket) {
        Some(Response::SyncGroup(synced)) if synced.error.is_none() => read_assignment(&synced.assignment),
        other => panic!("{other:?}"),
    }
}

/// Both have joined, or join again, and get these.
fn share(stage: &mut Stage, (a, of_a): (&mut Client, &[i32]), (b, of_b): (&mut Client, &[i32])) {
    let tickets = [stage.join(a), stage.join(b)];
    stage.pass_ms(3_000);
    assert!(stage.joined(tickets[0], a).starts_with("generation"));
    assert!(stage.joined(tickets[1], b).starts_with("generation"));
    let leads = sync(stage, a, &[(a, of_a), (b, of_b)]);
    let follows = sync(stage, b, &[]);
    assert_eq!((synced(stage, leads), synced(stage, follows)), (of_a.to_vec(), of_b.to_vec()));
}

const ALL: [i32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

#[test]
fn who_keeps_what_it_has_does_not_stand_still() {
    let mut stage = Stage::new();
    let stood_still = |stage: &mut Stage| -> Vec<usize> {
        let of = |count| if let Count::Rebalanced { members, .. } = count { Some(members) } else { None };
        stage.counts.drain(..).filter_map(of).collect()
    };
    let (mut a, mut b) = (cooperative("a", "one"), cooperative("b", "two"));
    b.protocols = said(&ALL);
    share(&mut stage, (&mut a, &[]), (&mut b, &ALL[..4]));
    assert_eq!(stood_still(&mut stage), [1], "the one that had nothing");
    // It gave up the other half, joins again, and both get the rest.
    b.protocols = said(&ALL[..4]);
    share(&mut stage, (&mut a, &ALL[4..]), (&mut b, &ALL[..4]));
    assert_eq!(stood_still(&mut stage), [1]);

    let (mut a, mut b) = (Client::new("c"), Client::new("d"));
    for client in [&mut a, &mut b] {
        client.protocols = vec![("range", subscription(&["events"], &[]))];
    }
    let mut stage = Stage::new();
    share(&mut stage, (&mut a, &ALL[..4]), (&mut b, &ALL[4..]));
    assert_eq!(stood_still(&mut stage), [2], "all give up everything");
}

#[test]
fn what_it_was_to_give_back_is_given_to_others() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (cooperative("a", "one"), cooperative("b", "two"));
    // b had everything, and is to give back half; it would join again once it has, and a would get that half.
    b.protocols = said(&ALL);
    share(&mut stage, (&mut a, &[]), (&mut b, &ALL[..4]));
    // But it is killed, and started again.
    b.protocols = said(&[]);
    let mut b2 = b.again();
    let waits = stage.join(&mut b2);
    assert_eq!(stage.heartbeat(&a), ErrorCode::RebalanceInProgress);
    let ticket = stage.join(&mut a);
    assert_eq!(stage.joined(ticket, &mut a), "generation 2 cooperative-sticky led by one: one two");
    assert_eq!(stage.joined(waits, &mut b2), "generation 2 cooperative-sticky led by one");
    let leads = sync(&mut stage, &a, &[(&a, &ALL[4..]), (&b2, &ALL[..4])]);
    assert_eq!(synced(&mut stage, leads), ALL[4..]);
    // Nobody waits for it any more: it may come and go, and so may the leader.
    let mut b3 = b2.again();
    let ticket = stage.join(&mut b3);
    assert_eq!(stage.joined(ticket, &mut b3), "generation 2 cooperative-sticky led by one");
    let mut a2 = a.again();
    let ticket = stage.join(&mut a2);
    let told = "generation 2 cooperative-sticky led by one: one two, which must not assign";
    assert_eq!(stage.joined(ticket, &mut a2), told);
    assert_eq!(stage.heartbeat(&b3), ErrorCode::None);
    stage.check_replay();
}

#[test]
fn who_is_started_with_other_topics_is_given_them() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (cooperative("a", "one"), cooperative("b", "two"));
    share(&mut stage, (&mut a, &ALL[..4]), (&mut b, &ALL[4..]));
    b.protocols = vec![("cooperative-sticky", subscription(&["clicks", "events"], &[]))];
    let mut b2 = b.again();
    let waits = stage.join(&mut b2);
    assert_eq!(stage.joined(waits, &mut b2), "waits");
    assert_eq!(stage.heartbeat(&a), ErrorCode::RebalanceInProgress);
}

#[test]
fn a_leader_that_comes_back_assigns_what_came_meanwhile() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (cooperative("a", "one"), cooperative("b", "two"));
    // There were six when it assigned.
    share(&mut stage, (&mut a, &ALL[..3]), (&mut b, &ALL[3..6]));
    let mut b2 = b.again();
    let ticket = stage.join(&mut b2);
    assert_eq!(stage.joined(ticket, &mut b2), "generation 1 cooperative-sticky led by one");
    assert_eq!(stage.heartbeat(&a), ErrorCode::None, "b does not assign, and a may see it yet");
    let mut a2 = a.again();
    let waits = stage.join(&mut a2);
    assert_eq!(stage.joined(waits, &mut a2), "waits");
    assert_eq!(stage.heartbeat(&b2), ErrorCode::RebalanceInProgress);
}

#[test]
fn who_slept_through_a_generation_has_no_place_until_it_has_given_up_all() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (cooperative("a", "one"), cooperative("b", "two"));
    share(&mut stage, (&mut a, &ALL[..4]), (&mut b, &ALL[4..]));
    let mut c = cooperative("c", "three");
    let waits = stage.join(&mut c);
    a.protocols = said(&ALL[..4]);
    let ticket = stage.join(&mut a);
    // b says that it is there, and is too busy to join.
    for _ in 0..10 {
        stage.pass(Duration::from_secs(6));
        stage.heartbeat(&b);
    }
    let told = "generation 2 cooperative-sticky led by one: one three two";
    assert_eq!(stage.joined(ticket, &mut a), told);
    assert_eq!(stage.joined(waits, &mut c), "generation 2 cooperative-sticky led by one");
    // What b had said of itself was older than what it was given last: a takes some of that for nobody's.
    let leads = sync(&mut stage, &a, &[(&a, &ALL[..4]), (&b, &ALL[6..]), (&c, &ALL[4..6])]);
    assert_eq!(synced(&mut stage, leads), ALL[..4]);

    // It has not heard yet that it should join anew, and believes that it has what is c's by now.
    b.protocols = said(&ALL[4..]);
    let ticket = stage.join(&mut b);
    assert_eq!(stage.joined(ticket, &mut b), "UNKNOWN_MEMBER_ID");
    assert_eq!(stage.heartbeat(&c), ErrorCode::None, "nobody is disturbed");
    b.protocols = said(&[]);
    let mut b2 = b.again();
    let ticket = stage.join(&mut b2);
    assert_eq!(stage.joined(ticket, &mut b2), "generation 2 cooperative-sticky led by one");
    let ticket = sync(&mut stage, &b2, &[]);
    assert_eq!(synced(&mut stage, ticket), ALL[6..]);
    stage.check_replay();

    // And joins like all others when the next one comes.
    let mut d = cooperative("d", "four");
    let waits = stage.join(&mut d);
    let tickets = [&mut a, &mut b2, &mut c].map(|member| stage.join(member));
    assert_eq!(stage.joined(tickets[1], &mut b2), "generation 3 cooperative-sticky led by one");
    assert_eq!(stage.joined(waits, &mut d), "generation 3 cooperative-sticky led by one");
}
