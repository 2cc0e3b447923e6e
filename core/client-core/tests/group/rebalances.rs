//! What owners are told when members come and go.

use std::time::Duration;

use vltava_client_core::group::{Assignor, GroupProtocol, GroupSettings};

use super::world::World;

pub(crate) fn settings(protocol: GroupProtocol) -> GroupSettings {
    GroupSettings { protocol, auto_commit: None, ..GroupSettings::new("g") }
}

fn cooperative() -> GroupSettings {
    GroupSettings { assignors: vec![Assignor::CooperativeSticky], ..settings(GroupProtocol::Classic) }
}

fn named(instance: &str, protocol: GroupProtocol) -> GroupSettings {
    GroupSettings { instance_id: Some(instance.into()), ..settings(protocol) }
}

#[test]
fn who_comes_makes_eager_members_give_up_all() {
    let mut world = World::new(false, 1);
    let a = world.join(settings(GroupProtocol::Auto), &["t"]);
    world.run(1_000);
    assert_eq!(world.told(a), ["assign t-0 t-1 t-2 t-3"]);
    let b = world.join(settings(GroupProtocol::Auto), &["t"]);
    world.run(5_000);
    assert_eq!(world.told(a), ["revoke t-0 t-1 t-2 t-3", "assign t-0 t-1"]);
    assert_eq!(world.told(b), ["assign t-2 t-3"]);
    let now = world.now();
    world.all[a].membership.unsubscribe(now);
    world.all[a].owned.clear();
    world.run(5_000);
    assert!(world.all[a].membership.has_left());
    assert_eq!(world.told(a), [""; 0], "who leaves knows it");
    assert_eq!(world.told(b), ["revoke t-2 t-3", "assign t-0 t-1 t-2 t-3"]);
}

#[test]
fn cooperative_members_give_up_what_moves_and_nothing_else() {
    let mut world = World::new(false, 2);
    let a = world.join(cooperative(), &["t"]);
    world.run(1_000);
    let b = world.join(cooperative(), &["t"]);
    world.run(10_000);
    assert_eq!(world.told(a), ["assign t-0 t-1 t-2 t-3", "revoke t-2 t-3"]);
    assert_eq!(world.told(b), ["assign t-2 t-3"]);
    world.kill(b);
    world.run(60_000);
    assert_eq!(world.told(a), ["assign t-2 t-3"]);
}

#[test]
fn what_is_given_up_while_all_meet_again_is_not_taken_back() {
    let mut world = World::new(false, 5);
    let a = world.join(cooperative(), &["t"]);
    world.run(1_000);
    assert_eq!(world.told(a), ["assign t-0 t-1 t-2 t-3"]);
    // Its owner takes its time, and meanwhile somebody else comes.
    world.all[a].gives_back_after_ms = Some(4_000);
    let b = world.join(cooperative(), &["t"]);
    world.run(4_000);
    let c = world.join(cooperative(), &["t"]);
    world.run(30_000);
    let told = world.told(a);
    assert!(told.iter().all(|told| told.starts_with("revoke ")), "{told:?}");
    assert_eq!([a, b, c].map(|who| world.all[who].owned.len()).iter().sum::<usize>(), 4);
}

#[test]
fn a_coordinator_that_assigns_takes_from_one_before_it_gives_to_another() {
    let mut world = World::new(true, 3);
    let a = world.join(settings(GroupProtocol::Auto), &["t", "u"]);
    world.run(1_000);
    assert_eq!(world.told(a), ["assign t-0 t-1 t-2 t-3 u-0 u-1"]);
    // The owner is in the middle of something.
    world.all[a].gives_back_after_ms = Some(4_000);
    let b = world.join(settings(GroupProtocol::Auto), &["t", "u"]);
    world.run(4_000);
    assert_eq!(world.told(a).len(), 1, "it was told to give up");
    assert_eq!(world.owned(b), "", "and nobody else has it as long as it did not");
    world.run(10_000);
    let [first, second] = [a, b].map(|who| world.owned(who));
    assert_eq!((world.all[a].owned.len(), world.all[b].owned.len()), (3, 3));
    world.kill(a);
    world.run(60_000);
    assert_eq!(world.owned(b), "t-0 t-1 t-2 t-3 u-0 u-1");
    let told = [format!("assign {second}"), format!("assign {first}")];
    assert_eq!(world.told(b), told, "it never stopped");
}

/// Its offsets may come while what it says is on its way: nobody else may get it upon that.
#[test]
fn what_a_member_is_about_to_read_it_does_not_say_to_be_free() {
    let mut world = World::new(true, 3);
    world.brokers.holds_offsets = true;
    let a = world.join(settings(GroupProtocol::Consumer), &["u"]);
    world.run(5_000);
    assert_eq!(world.owned(a), "");
    let said = |world: &World| {
        let member = world.brokers.epochs.members.values().next().expect("it is one");
        member.owned.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(said(&world), "u-0 u-1");
    world.subscribe(a, &["t"]);
    world.run(10_000);
    assert_eq!(said(&world), "t-0 t-1 t-2 t-3", "it is told something else before it has begun");
    world.brokers.holds_offsets = false;
    world.run(2_000);
    assert_eq!(world.owned(a), "t-0 t-1 t-2 t-3");
}

/// An id that the topic had before says nothing of what is owned: it would be taken for given up, and given to another.
#[test]
fn what_it_still_owns_of_a_topic_that_was_made_anew_it_says_by_the_id_that_was_assigned() {
    let mut world = World::new(true, 44);
    let a = world.join(settings(GroupProtocol::Consumer), &["u"]);
    world.run(10_000);
    world.brokers.times_anew = 1;
    let b = world.join(settings(GroupProtocol::Consumer), &["u"]);
    world.run(10_000);
    let of_a = world.owned(a);
    assert!(["u-0", "u-1"].contains(&&*of_a), "{of_a}");
    world.all[a].gives_back_after_ms = None;
    world.subscribe(a, &["t"]);
    world.run(20_000);
    assert_eq!(world.owned(a), of_a, "it takes its time");
    assert_ne!(world.owned(b), "u-0 u-1", "of which one is another's");
}

#[test]
fn what_is_wanted_can_change() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 4);
        let a = world.join(settings(GroupProtocol::Auto), &["u"]);
        world.run(1_000);
        world.subscribe(a, &["t"]);
        world.run(10_000);
        assert_eq!(world.owned(a), "t-0 t-1 t-2 t-3", "{speaks_epochs}");
        world.subscribe_pattern(a, "u|x");
        world.run(10_000);
        assert_eq!(world.owned(a), "u-0 u-1", "{speaks_epochs}");
        world.subscribe(a, &["t"]);
        world.run(10_000);
        assert_eq!(world.owned(a), "t-0 t-1 t-2 t-3", "{speaks_epochs}");
    }
}

#[test]
fn a_pattern_takes_in_the_topics_that_come_later() {
    let mut world = World::new(false, 5);
    let settings =
        GroupSettings { metadata_age_max: Duration::from_secs(20), ..settings(GroupProtocol::Classic) };
    let a = world.add(settings);
    world.subscribe_pattern(a, "t.*|__.*");
    world.run(1_000);
    assert_eq!(world.owned(a), "t-0 t-1 t-2 t-3", "none of the cluster's own");
    world.brokers.topics.insert("tt", 1);
    world.run(30_000);
    assert_eq!(world.owned(a), "t-0 t-1 t-2 t-3 tt-0");
}

#[test]
fn who_leads_sees_that_a_topic_grew() {
    let mut world = World::new(false, 6);
    let settings =
        GroupSettings { metadata_age_max: Duration::from_secs(20), ..settings(GroupProtocol::Classic) };
    let all = [(); 2].map(|()| world.join(settings.clone(), &["t"]));
    world.run(10_000);
    world.brokers.topics.insert("t", 5);
    world.run(30_000);
    let owned = all.map(|who| world.owned(who));
    assert_eq!(owned, ["t-0 t-1 t-2".to_owned(), "t-3 t-4".to_owned()]);
}

/// What was asked before all met again says nothing of the topics that another member brought.
#[test]
fn who_leads_assigns_what_it_asked_about() {
    let mut world = World::new(false, 22);
    let settings = GroupSettings {
        metadata_age_max: Duration::from_secs(20),
        heartbeat_interval: Duration::from_millis(100),
        ..settings(GroupProtocol::Classic)
    };
    let a = world.join(settings.clone(), &["t"]);
    world.run(15_000);
    world.slow = Some(wire::ApiKey::Metadata);
    world.run_until_asked(a, wire::ApiKey::Metadata);
    world.slow = None;
    let b = world.join(settings, &["u"]);
    world.run(500);
    assert!(!world.on_their_way(a, wire::ApiKey::Metadata).is_empty(), "the question is a slow one");
    world.run(5_000);
    assert_eq!([a, b].map(|who| world.owned(who)), ["t-0 t-1 t-2 t-3", "u-0 u-1"]);
}

#[test]
fn a_topic_that_is_not_there_yet_is_waited_for() {
    let mut world = World::new(false, 7);
    let a = world.join(settings(GroupProtocol::Classic), &["later"]);
    world.run(10_000);
    assert_eq!((world.owned(a), world.all[a].failed.clone()), (String::new(), None));
    world.brokers.topics.insert("later", 1);
    world.run(10_000);
    assert_eq!(world.owned(a), "later-0");
}

#[test]
fn a_static_member_that_comes_back_costs_nobody_anything() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 8);
        let a = world.join(named("a", GroupProtocol::Auto), &["t"]);
        let b = world.join(named("b", GroupProtocol::Auto), &["t"]);
        world.run(10_000);
        let (before, kept) = (world.owned(a), world.owned(b));
        world.told(b);
        let now = world.now();
        world.all[a].membership.unsubscribe(now);
        world.all[a].owned.clear();
        world.run(1_000);
        assert!(world.all[a].membership.has_left());
        world.kill(a);
        let rebalances = world.brokers.classic.rebalances;
        let again = world.join(named("a", GroupProtocol::Auto), &["t"]);
        world.run(10_000);
        assert_eq!((world.owned(again), world.owned(b)), (before, kept), "{speaks_epochs}");
        assert_eq!(world.told(b), [""; 0], "{speaks_epochs}");
        assert_eq!(world.brokers.classic.rebalances, rebalances);
    }
}

#[test]
fn who_takes_a_static_members_name_while_it_lives() {
    let mut world = World::new(false, 9);
    let first = world.join(named("a", GroupProtocol::Classic), &["t"]);
    world.run(5_000);
    let second = world.join(named("a", GroupProtocol::Classic), &["t"]);
    world.run(10_000);
    let code = world.all[first].failed.as_ref().and_then(|error| error.code());
    // Its id is not the one that goes with its name any more.
    assert!(code.is_some() || world.owned(first).is_empty(), "{:?}", world.all[first].failed);
    assert_eq!(world.owned(second), "t-0 t-1 t-2 t-3");
    // With the other protocol the second waits until the first has gone.
    let mut world = World::new(true, 9);
    let first = world.join(named("a", GroupProtocol::Consumer), &["t"]);
    world.run(5_000);
    let second = world.join(named("a", GroupProtocol::Consumer), &["t"]);
    world.run(10_000);
    assert_eq!((world.owned(first).is_empty(), world.owned(second).is_empty()), (false, true));
    world.kill(first);
    world.run(60_000);
    assert_eq!(world.owned(second), "t-0 t-1 t-2 t-3");
}

#[test]
fn a_static_member_whose_own_join_comes_late_is_a_member_again() {
    let mut world = World::new(false, 10);
    world.delay_ms_max = 400;
    let a = world.join(named("a", GroupProtocol::Classic), &["t"]);
    // Its JoinGroup is on its way when the connection breaks.
    while world.on_their_way(a, wire::ApiKey::JoinGroup).is_empty() {
        world.run(10);
    }
    for connection in world.on_their_way(a, wire::ApiKey::JoinGroup) {
        world.break_off(a, connection);
    }
    world.run(10_000);
    assert_eq!(world.told(a), ["assign t-0 t-1 t-2 t-3"]);
    // It arrives all the same.
    world.brokers.classic.join_late("a");
    world.run(20_000);
    assert!(world.all[a].failed.is_none(), "{:?}", world.all[a].failed);
    assert_eq!(world.told(a), ["lost t-0 t-1 t-2 t-3", "assign t-0 t-1 t-2 t-3"]);
    // And that was all that it had sent: who has its name now is somebody else.
    world.brokers.classic.join_late("a");
    world.run(20_000);
    let code = world.all[a].failed.as_ref().and_then(|error| error.code());
    assert_eq!(code, Some(base::ErrorCode::FencedInstanceId));
}

/// A static member keeps its place in a generation that it slept through, while others get what it had.
#[test]
fn who_slept_through_a_generation_keeps_nothing_of_what_it_had_before() {
    let mut world = World::new(false, 21);
    world.delay_ms_max = 20;
    let a = world.join(GroupSettings { instance_id: Some("a".into()), ..cooperative() }, &["t"]);
    world.run(1_000);
    assert_eq!(world.told(a), ["assign t-0 t-1 t-2 t-3"]);
    // It is told that all meet, and before it is there they have met without it.
    world.join(cooperative(), &["t"]);
    world.run_until_asked(a, wire::ApiKey::JoinGroup);
    world.brokers.classic.generation += 1;
    world.run(10_000);
    let told = world.told(a);
    assert_eq!(told.first().map(String::as_str), Some("lost t-0 t-1 t-2 t-3"), "{told:?}");
    assert_eq!(world.all[a].owned.len(), 2);
}
