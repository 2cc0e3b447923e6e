//! All at once: what the delay of a group's first generation is for.

use std::time::Duration;

use super::stage::{Client, Stage};
use crate::{Count, ShardSettings};

/// Members arrive, one after the other, `apart`; when the first generation began, and how many generations it took
/// until all were in.
fn arrive(stage: &mut Stage, members: usize, apart: Duration) -> (Duration, usize) {
    let mut clients: Vec<Client> = (0..members).map(|i| Client::new(&format!("m{i:03}"))).collect();
    let mut tickets = Vec::new();
    for client in &mut clients {
        tickets.push(stage.join(client));
        stage.pass(apart);
    }
    let start = stage.now;
    stage.pass(Duration::from_secs(3));
    let began = stage.counts.iter().filter(|count| matches!(count, Count::RebalanceBegan(_))).count();
    let mut last = String::new();
    for (ticket, client) in tickets.into_iter().zip(&mut clients) {
        last = stage.joined(ticket, client);
    }
    assert!(last.starts_with("generation"), "{last}");
    (start, began)
}

#[test]
fn five_hundred_members_that_arrive_within_a_second_are_one_rebalance() {
    let mut stage = Stage::new();
    let (_, rebalances) = arrive(&mut stage, 500, Duration::from_millis(2));
    assert_eq!(rebalances, 1);
    assert!(stage.describe(super::stage::GROUP).starts_with("CompletingRebalance"));
}

#[test]
fn the_first_generation_begins_when_nobody_new_has_come_for_a_while() {
    // members, quiet in ms: a member more is worth a longer wait the more there are.
    for (members, quiet) in [(1, 100), (2, 200), (4, 300), (64, 700), (500, 900)] {
        let mut stage = Stage::new();
        let mut clients: Vec<Client> = (0..members).map(|i| Client::new(&format!("m{i:03}"))).collect();
        let tickets: Vec<_> = clients.iter_mut().map(|client| stage.join(client)).collect();
        stage.pass_ms(quiet - 1);
        assert_eq!(stage.joined(tickets[0], &mut clients[0]), "waits", "{members} members");
        stage.pass_ms(1);
        assert_ne!(stage.joined(tickets[0], &mut clients[0]), "waits", "{members} members");
    }
}

#[test]
fn g27_nobody_waits_longer_than_the_setting_says() {
    let mut stage = Stage::new();
    // Each comes just before the group would have begun without it.
    let mut clients: Vec<Client> = (0..40).map(|i| Client::new(&format!("m{i:03}"))).collect();
    let ticket = stage.join(&mut clients[0]);
    for client in &mut clients[1..30] {
        stage.pass_ms(99);
        stage.join(client);
    }
    stage.pass_ms(128);
    assert_eq!(stage.joined(ticket, &mut Client::new("first")), "waits", "{:?}", stage.now);
    stage.pass_ms(1);
    assert_eq!(stage.now, Duration::from_secs(3));
    assert_ne!(stage.joined(ticket, &mut Client::new("first")), "waits");
}

#[test]
fn without_the_delay_the_first_does_not_wait_at_all() {
    let settings = ShardSettings { initial_rebalance_delay_max: Duration::ZERO, ..ShardSettings::default() };
    let mut stage = Stage::with(settings);
    let mut a = Client::new("a");
    let ticket = stage.join(&mut a);
    assert_eq!(stage.joined(ticket, &mut a), "generation 1 range led by a: a");
}
