//! A coordinator that says nothing any more, on connections that stand.

use std::time::Duration;

use vltava_client_core::group::{GroupProtocol, GroupSettings};

use super::coordinator::part;
use super::rebalances::settings;
use super::world::World;

/// Long before a request is given up.
const SOON_MS: u64 = 8_000;

fn auto() -> GroupSettings {
    GroupSettings { auto_commit: Some(Duration::from_secs(2)), ..settings(GroupProtocol::Auto) }
}

#[test]
fn what_it_was_told_is_told_its_successor() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 61);
        let all = [(); 2].map(|()| world.join(auto(), &["t"]));
        world.run(10_000);
        let before = all.map(|who| world.owned(who));
        let _ = all.map(|who| world.told(who));
        world.hung.insert("one");
        world.move_group();
        all.iter().for_each(|&who| world.read(who, 10));
        world.run(SOON_MS);
        for index in 0..4 {
            assert_eq!(world.brokers.offsets[&part("t", index)], (10, 5), "{speaks_epochs}");
        }
        world.run(60_000);
        assert_eq!(all.map(|who| world.owned(who)), before, "{speaks_epochs}");
        assert_eq!(all.map(|who| world.told(who)), [vec![], vec![]] as [Vec<String>; 2], "{speaks_epochs}");
    }
}

#[test]
fn as_long_as_it_keeps_the_group_it_is_waited_for() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 62);
        let a = world.join(auto(), &["t"]);
        world.run(10_000);
        world.hung.insert("one");
        world.read(a, 10);
        let before = world.connections(a, "one");
        world.run(20_000);
        assert_eq!(world.connections(a, "one"), before, "{speaks_epochs}");
        assert!(world.found > 20, "{speaks_epochs}: others were asked {} times", world.found);
    }
}

#[test]
fn a_member_that_comes_meanwhile_joins_at_its_successor() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 63);
        world.hung.insert("one");
        let a = world.join(auto(), &["t"]);
        world.run(2_000);
        assert_eq!(world.owned(a), "");
        world.move_group();
        world.run(SOON_MS);
        assert_eq!(world.owned(a), "t-0 t-1 t-2 t-3", "{speaks_epochs}");
    }
}

#[test]
fn a_member_that_meets_others_meets_them_at_its_successor() {
    let mut world = World::new(false, 64);
    let a = world.join(settings(GroupProtocol::Classic), &["t"]);
    world.run(10_000);
    // It joins at once, without a heartbeat before.
    world.hung.insert("one");
    world.subscribe(a, &["t", "u"]);
    world.run(1_000);
    world.move_group();
    world.run(SOON_MS);
    assert_eq!(world.owned(a), "t-0 t-1 t-2 t-3 u-0 u-1");
}

#[test]
fn a_meeting_that_waits_for_a_slow_member_is_not_left() {
    let mut world = World::new(false, 65);
    let patient =
        GroupSettings { poll_interval_max: Duration::from_secs(60), ..settings(GroupProtocol::Classic) };
    let a = world.join(patient.clone(), &["t"]);
    world.run(10_000);
    world.all[a].gives_back_after_ms = Some(40_000);
    let b = world.join(patient, &["t"]);
    world.run(10_000);
    let (before, found) = (world.connections(b, "one"), world.found);
    world.run(20_000);
    assert_eq!((world.owned(b), world.connections(b, "one")), (String::new(), before));
    assert!((15..=25).contains(&(world.found - found)), "once a second: {}", world.found - found);
    world.run(20_000);
    assert!(!world.owned(b).is_empty() && !world.owned(a).is_empty());
    assert_eq!(world.brokers.classic.members.len(), 2, "nobody came twice");
}
