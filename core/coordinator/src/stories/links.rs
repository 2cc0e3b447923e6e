//! Connections of members are closed: by those who end, and by those who come back (ADR 0025).

use std::time::Duration;

use base::ErrorCode;

use super::consumers::Reader;
use super::stage::{Client, GROUP, Stage};
use crate::{ConnectionId, ShardSettings};

const SECOND: Duration = Duration::from_secs(1);

impl Stage {
    /// What comes next comes over this connection.
    fn over(&mut self, connection: u64) -> &mut Self {
        self.connection = connection;
        self
    }

    fn disconnect(&mut self, connection: u64, member: &str) {
        let now = self.at();
        self.shard.on_disconnected(now, ConnectionId(connection), (GROUP, member));
    }

    /// The clients live for a while: each has its own connection, counted from 1, and is heard every second.
    fn live(&mut self, clients: &[&Client], seconds: u32) {
        for _ in 0..seconds {
            self.pass(SECOND);
            for (connection, client) in (1..).zip(clients) {
                assert_eq!(self.over(connection).heartbeat(client), ErrorCode::None);
            }
        }
    }

    /// After how many seconds a member is out, while another is heard every second.
    fn seconds_until_gone(&mut self, other: &Client) -> u32 {
        for seconds in 1..=60 {
            self.pass(SECOND);
            if self.over(1).heartbeat(other) == ErrorCode::RebalanceInProgress {
                return seconds;
            }
        }
        panic!("nobody is missed")
    }
}

/// Two members with sessions of 10 s, who are heard every second, each on a connection of its own.
fn two(mut stage: Stage) -> (Stage, Client, Client) {
    let (mut a, mut b) = (Client::new("a"), Client::new("b"));
    stage.settle(&mut [&mut a, &mut b]);
    stage.live(&[&a, &b], 3);
    (stage, a, b)
}

#[test]
fn who_is_killed_is_missed_after_two_heartbeats_and_a_second() {
    let (mut stage, a, b) = two(Stage::new());
    stage.disconnect(2, &b.id);
    assert_eq!(stage.seconds_until_gone(&a), 3);
    assert_eq!(stage.heartbeat(&b), ErrorCode::UnknownMemberId);
    stage.check_replay();
}

#[test]
fn who_comes_back_has_its_whole_session_again() {
    let (mut stage, a, b) = two(Stage::new());
    // It closed a connection that was idle, or lost it, and opens another for its next heartbeat …
    stage.disconnect(2, &b.id);
    stage.pass(SECOND);
    stage.over(1).heartbeat(&a);
    assert_eq!(stage.over(3).heartbeat(&b), ErrorCode::None);
    assert_eq!(stage.seconds_until_gone(&a), 10);

    // … or for a commit.
    let (mut stage, a, b) = two(Stage::new());
    stage.disconnect(2, &b.id);
    let ticket = stage.over(3).commit_as(&b, &[("events", 0, 1)]);
    assert_eq!(stage.commit_told(ticket), Some(vec![ErrorCode::None]));
    assert_eq!(stage.seconds_until_gone(&a), 10);
}

#[test]
fn a_connection_that_was_left_before_it_was_closed_says_nothing() {
    let (mut stage, a, b) = two(Stage::new());
    assert_eq!(stage.over(3).heartbeat(&b), ErrorCode::None);
    stage.disconnect(2, &b.id);
    // Nor does one over which another spoke, or somebody whom nobody knows.
    stage.disconnect(1, &b.id);
    stage.disconnect(3, "nobody");
    assert_eq!(stage.seconds_until_gone(&a), 10);
}

#[test]
fn a_static_member_keeps_its_session_and_so_does_everybody_who_wants_it_so() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::new("a"), Client::fixed("b", "one"));
    stage.settle(&mut [&mut a, &mut b]);
    stage.live(&[&a, &b], 3);
    stage.disconnect(2, &b.id);
    assert_eq!(stage.seconds_until_gone(&a), 10);

    let never = ShardSettings { disconnect_shortens_session: false, ..ShardSettings::default() };
    let (mut stage, a, b) = two(Stage::with(never));
    stage.disconnect(2, &b.id);
    assert_eq!(stage.seconds_until_gone(&a), 10);
}

#[test]
fn who_was_heard_once_is_given_what_kafka_recommends() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Client::new("a"), Client::new("b"));
    stage.settle(&mut [&mut a, &mut b]);
    stage.live(&[&a, &b], 1);
    // A third of 10 s, twice, and a second.
    stage.disconnect(2, &b.id);
    assert_eq!(stage.seconds_until_gone(&a), 8);
}

#[test]
fn a_heartbeat_that_came_late_once_is_waited_for_as_long_again() {
    let (mut stage, a, b) = two(Stage::new());
    stage.live(&[&a], 3);
    assert_eq!(stage.over(2).heartbeat(&b), ErrorCode::None);
    stage.disconnect(2, &b.id);
    assert_eq!(stage.seconds_until_gone(&a), 7);
}

#[test]
fn another_coordinator_gives_everybody_a_whole_session() {
    let (mut stage, a, b) = two(Stage::new());
    stage.disconnect(2, &b.id);
    stage.fail_over();
    stage.disconnect(2, &b.id);
    assert_eq!(stage.seconds_until_gone(&a), 10);
}

/// The leader is killed while it waits for the others to join.
#[test]
fn who_hangs_up_while_it_waits_to_join_neither_leads_nor_is_waited_for_longer() {
    let (mut stage, mut a, mut b) = two(Stage::new());
    let mut c = Client::new("c");
    let c_waits = stage.over(3).join(&mut c);
    let a_waits = stage.over(1).join(&mut a);
    let now = stage.at();
    stage.shard.on_gone(now, a_waits, GROUP);
    stage.disconnect(1, &a.id);
    let told = stage.over(2).join(&mut b);
    assert_eq!(stage.joined(told, &mut b), "generation 2 range led by b: a b c");
    assert_eq!(stage.joined(c_waits, &mut c), "generation 2 range led by b");
    assert_eq!(stage.seconds_until_gone(&b), 3);
}

#[test]
fn a_reader_of_the_new_protocol_is_missed_by_the_interval_of_its_group() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Reader::new("a"), Reader::new("b"));
    for _ in 0..10 {
        // They wait for each other, and are heard far more often than they have to be from then on.
        stage.over(1).read(&mut a);
        stage.over(2).read(&mut b);
        stage.pass_ms(300);
    }
    assert_eq!((a.has.len(), b.has.len()), (4, 4));
    stage.disconnect(2, &b.id);
    // Its session is 45 s, its interval 5 s, and it was heard 300 ms ago.
    let seconds = (1..60).find(|_| {
        stage.pass(SECOND);
        stage.over(1).read(&mut a);
        a.has.len() == 8
    });
    assert_eq!(seconds, Some(11));
}

#[test]
fn a_reader_of_the_new_protocol_that_only_joined_is_missed_no_later() {
    let mut stage = Stage::new();
    let (mut a, mut b) = (Reader::new("a"), Reader::new("b"));
    for _ in 0..10 {
        stage.over(1).read(&mut a);
        stage.pass(SECOND);
    }
    assert_eq!(a.has.len(), 8);
    stage.over(2).read(&mut b);
    stage.disconnect(2, &b.id);
    stage.over(1).read(&mut a);
    stage.pass(SECOND);
    stage.over(1).read(&mut a);
    assert_eq!(a.has.len(), 4, "half of it is for who has joined");
    let seconds = (2..60).find(|_| {
        stage.pass(SECOND);
        stage.over(1).read(&mut a);
        a.has.len() == 8
    });
    assert_eq!(seconds, Some(11));
}
