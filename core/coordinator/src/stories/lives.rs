//! Members come, stay and go.

use std::time::Duration;

use base::ErrorCode;

use super::stage::{Client, GROUP, Stage, subscription};
use crate::{Cause, Count, Response};

#[test]
fn g27_one_member_joins_and_reads_at_once() {
    let mut stage = Stage::new();
    let mut a = Client::new("a");

    // It is given an id first, and comes back with it.
    let ticket = stage.join_in(GROUP, &a);
    let Some(Response::JoinGroup(first)) = stage.told(ticket) else { panic!("it is answered at once") };
    assert_eq!(first.error, ErrorCode::MemberIdRequired);
    assert!(first.member_id.starts_with("a-") && first.member_id.len() == "a-".len() + 36, "{first:?}");
    a.id = first.member_id;

    let ticket = stage.join_in(GROUP, &a);
    stage.pass_ms(99);
    assert_eq!(stage.joined(ticket, &mut a), "waits");
    stage.pass_ms(1);
    assert_eq!(stage.joined(ticket, &mut a), "generation 1 range led by a: a");
    let ticket = stage.sync(&a, &[(&a, "all of it")]);
    assert_eq!(stage.synced(ticket), "all of it");
    assert_eq!(stage.heartbeat(&a), ErrorCode::None);
    assert_eq!(stage.describe(GROUP), "Stable range a=\"all of it\"");
    stage.check_replay();
}

#[test]
fn g27_clients_of_before_the_two_steps_join_in_one() {
    let mut stage = Stage::new();
    let mut old = Client { version: 3, ..Client::new("old") };
    let ticket = stage.join_in(GROUP, &old);
    stage.pass_ms(100);
    assert_eq!(stage.joined(ticket, &mut old), "generation 1 range led by old: old");
}

#[test]
fn three_join_together_and_a_fourth_later() {
    let mut stage = Stage::new();
    let (mut a, mut b, mut c) = (Client::new("a"), Client::new("b"), Client::new("c"));
    let tickets = [stage.join(&mut a), stage.join(&mut b), stage.join(&mut c)];
    stage.pass_ms(200);
    assert_eq!(stage.joined(tickets[0], &mut a), "generation 1 range led by a: a b c");
    assert_eq!(stage.joined(tickets[1], &mut b), "generation 1 range led by a");
    assert_eq!(stage.joined(tickets[2], &mut c), "generation 1 range led by a");

    // Who asks first waits for the leader.
    let waits = stage.sync(&b, &[]);
    assert_eq!(stage.synced(waits), "waits");
    let ticket = stage.sync(&a, &[(&a, "1"), (&b, "2")]);
    assert_eq!(stage.synced(ticket), "1");
    assert_eq!(stage.synced(waits), "2");
    let ticket = stage.sync(&c, &[]);
    assert_eq!(stage.synced(ticket), "", "the leader forgot it, so it has nothing");

    let mut d = Client::new("d");
    let waits = stage.join(&mut d);
    assert_eq!(stage.describe(GROUP), "PreparingRebalance  a=\"\" b=\"\" c=\"\" d=\"\"");
    assert_eq!(stage.heartbeat(&a), ErrorCode::RebalanceInProgress);
    let tickets = [stage.join(&mut a), stage.join(&mut b)];
    assert_eq!(stage.joined(waits, &mut d), "waits");
    let last = stage.join(&mut c);
    // The last one is in: nobody waits any longer.
    assert_eq!(stage.joined(last, &mut c), "generation 2 range led by a");
    assert_eq!(stage.joined(tickets[0], &mut a), "generation 2 range led by a: a b c d");
    assert_eq!(stage.joined(tickets[1], &mut b), "generation 2 range led by a");
    assert_eq!(stage.joined(waits, &mut d), "generation 2 range led by a");
}

#[test]
fn a_member_leaves_and_another_falls_silent() {
    let mut stage = Stage::new();
    let (mut a, mut b, mut c) = (Client::new("a"), Client::new("b"), Client::new("c"));
    stage.settle(&mut [&mut a, &mut b, &mut c]);
    stage.counts.clear();

    assert_eq!(stage.leave(&a), ErrorCode::None);
    assert_eq!(stage.counts, [Count::RebalanceBegan(Cause::MemberLeft)]);
    assert_eq!(stage.heartbeat(&b), ErrorCode::RebalanceInProgress);
    let ticket = stage.join(&mut b);
    // c does not come back: its session ends 10 s after it was heard last, and that is all b has waited for.
    stage.pass(Duration::from_secs(9));
    assert_eq!(stage.joined(ticket, &mut b), "waits");
    stage.pass(Duration::from_secs(1));
    assert_eq!(stage.joined(ticket, &mut b), "generation 2 range led by b: b");
    assert_eq!(stage.heartbeat(&c), ErrorCode::UnknownMemberId);
    assert!(stage.counts.contains(&Count::MembersExpelled(1)));

    assert_eq!(stage.leave(&b), ErrorCode::None);
    assert_eq!(stage.describe(GROUP), "Empty ");
    stage.check_replay();
}

#[test]
fn a_session_is_kept_by_heartbeats_and_by_commits() {
    let mut stage = Stage::new();
    let mut a = Client::new("a");
    stage.settle(&mut [&mut a]);
    for _ in 0..5 {
        stage.pass(Duration::from_secs(9));
        assert_eq!(stage.heartbeat(&a), ErrorCode::None);
        stage.pass(Duration::from_secs(9));
        let ticket = stage.commit_as(&a, &[("events", 0, 1)]);
        assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::None]));
    }
    stage.pass(Duration::from_secs(10));
    assert_eq!(stage.heartbeat(&a), ErrorCode::UnknownMemberId);
}

#[test]
fn g27_a_static_member_comes_back_and_nobody_notices() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::fixed("a", "one"), Client::fixed("b", "two"));
    stage.settle(&mut [&mut a, &mut b]);
    stage.counts.clear();

    let mut b2 = b.again();
    let ticket = stage.join(&mut b2);
    assert_eq!(stage.joined(ticket, &mut b2), "generation 1 range led by one");
    assert_ne!(b2.id, b.id);
    let ticket = stage.sync(&b2, &[]);
    assert_eq!(stage.synced(ticket), "part of b");
    assert_eq!(stage.counts, [], "nothing was rebalanced");
    assert_eq!(stage.heartbeat(&a), ErrorCode::None);

    // What is left of its last life is fenced.
    assert_eq!(stage.heartbeat(&b), ErrorCode::FencedInstanceId);
    let ticket = stage.sync(&b, &[]);
    assert_eq!(stage.synced(ticket), "FENCED_INSTANCE_ID");
    let ticket = stage.commit_as(&b, &[("events", 0, 1)]);
    assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::FencedInstanceId]));
    assert_eq!(stage.leave(&b), ErrorCode::FencedInstanceId);
    let ticket = stage.join(&mut b);
    assert_eq!(stage.joined(ticket, &mut b), "FENCED_INSTANCE_ID");

    // The leader gets everybody, and is told not to assign; in versions that cannot say so it is told that its last
    // life still leads.
    let mut a2 = a.again();
    let ticket = stage.join(&mut a2);
    let told = stage.joined(ticket, &mut a2);
    assert_eq!(told, "generation 1 range led by one: one two, which must not assign");
    let mut a3 = Client { version: 8, ..a.again() };
    let ticket = stage.join(&mut a3);
    let Some(Response::JoinGroup(told)) = stage.told(ticket) else { panic!("it is answered") };
    assert_eq!(told.leader, a2.id);
    assert!(told.members.is_empty());
    stage.check_replay();
}

/// A virtual machine was stopped, say. When it goes on, timers are looked at before sockets.
#[test]
fn who_spoke_while_nobody_listened_is_heard_before_it_is_missed() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::new("a"), Client::new("b"));
    stage.settle(&mut [&mut a, &mut b]);
    for _ in 0..2 {
        stage.stand_still(Duration::from_secs(60));
        stage.pass_ms(500);
        assert_eq!([stage.heartbeat(&a), stage.heartbeat(&b)], [ErrorCode::None; 2]);
    }
    stage.stand_still(Duration::from_secs(60));
    stage.pass_ms(500);
    assert_eq!(stage.heartbeat(&a), ErrorCode::None);
    stage.pass_ms(1_000);
    assert_eq!(stage.heartbeat(&a), ErrorCode::RebalanceInProgress, "b said nothing");
    assert_eq!(stage.heartbeat(&b), ErrorCode::UnknownMemberId);
}

#[test]
fn an_id_that_is_given_back_disturbs_nobody() {
    let mut stage = Stage::new();
    let (mut a, mut c) = (Client::new("a"), Client::new("c"));
    stage.settle(&mut [&mut a]);
    let asked = stage.join_in(GROUP, &c);
    let Some(Response::JoinGroup(told)) = stage.told(asked) else { panic!("it is answered") };
    c.id = told.member_id;
    assert_eq!(stage.leave(&c), ErrorCode::None);
    assert_eq!(stage.heartbeat(&a), ErrorCode::None);

    // It is waited for in a rebalance, and no more once it is given back.
    let mut b = Client::new("b");
    let b_waits = stage.join(&mut b);
    let asked = stage.join_in(GROUP, &Client::new("c"));
    let Some(Response::JoinGroup(told)) = stage.told(asked) else { panic!("it is answered") };
    c.id = told.member_id;
    let a_waits = stage.join(&mut a);
    assert_eq!(stage.joined(a_waits, &mut a), "waits");
    assert_eq!(stage.leave(&c), ErrorCode::None);
    assert_eq!(stage.joined(a_waits, &mut a), "generation 2 range led by a: a b");
    assert_eq!(stage.joined(b_waits, &mut b), "generation 2 range led by a");
}

#[test]
fn a_static_member_is_removed_by_its_instance() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::fixed("a", "one"), Client::new("b"));
    stage.settle(&mut [&mut a, &mut b]);
    let nobody = Client { instance: Some("one"), ..Client::new("admin") };
    assert_eq!(stage.leave(&nobody), ErrorCode::None);
    assert_eq!(stage.leave(&nobody), ErrorCode::UnknownMemberId);
    assert_eq!(stage.heartbeat(&a), ErrorCode::UnknownMemberId);
    assert_eq!(stage.heartbeat(&b), ErrorCode::RebalanceInProgress);
}

#[test]
fn a_static_member_keeps_its_place_while_it_is_away() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::fixed("a", "one"), Client::new("b"));
    stage.settle(&mut [&mut a, &mut b]);
    // b wants other topics. a has until the end of its session, whatever happens.
    b.protocols = vec![("range", subscription(&["clicks"], &[]))];
    let ticket = stage.join(&mut b);
    stage.pass(Duration::from_secs(8));
    assert_eq!(stage.joined(ticket, &mut b), "waits");
    let mut a2 = a.again();
    let waits = stage.join(&mut a2);
    assert_eq!(stage.joined(ticket, &mut b), "generation 2 range led by one");
    assert_eq!(stage.joined(waits, &mut a2), "generation 2 range led by one: b one");
}

#[test]
fn the_protocol_is_the_one_that_most_like_of_those_that_all_can() {
    let mut stage = Stage::new();
    let with = |name: &str, protocols: &[&'static str]| {
        let protocols =
            protocols.iter().map(|protocol| (*protocol, subscription(&["events"], &[]))).collect();
        Client { protocols, ..Client::new(name) }
    };
    let mut a = with("a", &["sticky", "range", "roundrobin"]);
    let mut b = with("b", &["roundrobin", "range"]);
    let mut c = with("c", &["range", "roundrobin"]);
    let tickets = [stage.join(&mut a), stage.join(&mut b), stage.join(&mut c)];
    let mut d = with("d", &["sticky"]);
    let ticket = stage.join(&mut d);
    assert_eq!(
        stage.joined(ticket, &mut d),
        "INCONSISTENT_GROUP_PROTOCOL",
        "the others have no sticky in common"
    );
    stage.pass(Duration::from_secs(3));
    assert_eq!(stage.joined(tickets[0], &mut a), "generation 1 range led by a: a b c");
}

#[test]
fn other_types_of_group_are_served_as_well() {
    let mut stage = Stage::new();
    let mut worker = Client {
        protocol_type: "connect",
        protocols: vec![("sessioned", b"http://w:8083".to_vec())],
        ..Client::new("w")
    };
    stage.settle(&mut [&mut worker]);
    let mut consumer = Client { protocols: vec![("sessioned", vec![])], ..Client::new("c") };
    let ticket = stage.join(&mut consumer);
    assert_eq!(stage.joined(ticket, &mut consumer), "INCONSISTENT_GROUP_PROTOCOL");
}

#[test]
fn who_does_not_fetch_its_assignment_is_taken_out() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::new("a"), Client::new("b"));
    let tickets = [stage.join(&mut a), stage.join(&mut b)];
    stage.pass(Duration::from_secs(1));
    stage.joined(tickets[0], &mut a);
    stage.joined(tickets[1], &mut b);
    let ticket = stage.sync(&a, &[(&a, "1"), (&b, "2")]);
    assert_eq!(stage.synced(ticket), "1");
    for _ in 0..12 {
        stage.pass(Duration::from_secs(5));
        stage.heartbeat(&a);
        stage.heartbeat(&b);
    }
    // The rebalance timeout has passed: b lives, but reads nothing.
    assert_eq!(stage.heartbeat(&b), ErrorCode::UnknownMemberId);
    assert!(stage.counts.contains(&Count::RebalanceBegan(Cause::SyncMissed)));
}

#[test]
fn a_client_whose_connection_is_gone_stays_a_member_for_its_session() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::new("a"), Client::new("b"));
    stage.settle(&mut [&mut a, &mut b]);
    let gone = stage.join(&mut a);
    let now = stage.at();
    stage.shard.on_gone(now, gone, GROUP);
    // It comes back on another connection, and takes part as if nothing had been.
    let ticket = stage.join(&mut a);
    let last = stage.join(&mut b);
    assert_eq!(stage.joined(ticket, &mut a), "generation 2 range led by a: a b");
    assert_eq!(stage.joined(last, &mut b), "generation 2 range led by a");
    assert_eq!(stage.joined(gone, &mut a), "waits");
}

/// An answer waits until what it says is committed, and what it says may not be so any more by then.
#[test]
fn who_has_no_place_by_the_time_that_it_is_committed_is_not_given_it() {
    let mut stage = Stage::new();
    let (mut a, mut b, mut c) = (Client::new("a"), Client::fixed("b", "two"), Client::new("c"));
    let tickets = [stage.join(&mut a), stage.join(&mut b), stage.join(&mut c)];
    stage.pass_ms(200);
    for (ticket, client) in tickets.into_iter().zip([&mut a, &mut b, &mut c]) {
        stage.joined(ticket, client);
    }
    stage.commits = false;
    let [of_b, of_c] = [stage.sync(&b, &[]), stage.sync(&c, &[])];
    let of_a = stage.sync(&a, &[(&a, "1"), (&b, "2"), (&c, "3")]);

    // One is removed, one is started again, and one stays.
    let mut again = b.again();
    let joins = stage.join(&mut again);
    assert_eq!(stage.leave(&c), ErrorCode::None);
    for ticket in [of_a, of_b, of_c] {
        assert_eq!(stage.synced(ticket), "waits");
    }
    assert_eq!(stage.heartbeat(&a), ErrorCode::RebalanceInProgress, "a has its part until it joins again");
    stage.commit();
    assert_eq!(stage.synced(of_a), "1");
    assert_eq!(stage.synced(of_b), "FENCED_INSTANCE_ID");
    assert_eq!(stage.synced(of_c), "UNKNOWN_MEMBER_ID");
    assert_eq!(stage.joined(joins, &mut again), "generation 1 range led by a");
}

#[test]
fn an_assignment_of_a_generation_that_is_over_is_not_given() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::new("a"), Client::new("b"));
    let tickets = [stage.join(&mut a), stage.join(&mut b)];
    stage.pass_ms(200);
    tickets.into_iter().zip([&mut a, &mut b]).for_each(|(it, client)| _ = stage.joined(it, client));
    stage.commits = false;
    let of_b = stage.sync(&b, &[]);
    let of_a = stage.sync(&a, &[(&a, "1"), (&b, "2")]);
    // They wait no longer, and meet again.
    let tickets = [stage.join(&mut a), stage.join(&mut b)];
    assert_eq!(stage.joined(tickets[0], &mut a), "generation 2 range led by a: a b");
    stage.commit();
    assert_eq!(stage.synced(of_a), "ILLEGAL_GENERATION");
    assert_eq!(stage.synced(of_b), "ILLEGAL_GENERATION");
    assert_eq!(stage.joined(tickets[1], &mut b), "generation 2 range led by a");
}
