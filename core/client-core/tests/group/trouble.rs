//! Brokers that are unwell, go, or forget a member, and owners that do not come back.

use std::time::Duration;

use base::ErrorCode;
use vltava_client_core::group::{GroupError, GroupProtocol, GroupSettings};

use super::rebalances::settings;
use super::world::World;

#[test]
fn a_coordinator_that_dies_is_found_elsewhere() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 21);
        let all = [(); 2].map(|()| world.join(settings(GroupProtocol::Auto), &["t"]));
        world.run(10_000);
        let before = all.map(|who| world.owned(who));
        let _ = all.map(|who| world.told(who));
        world.stop("one");
        world.move_group();
        world.run(20_000);
        assert_eq!(all.map(|who| world.owned(who)), before, "{speaks_epochs}");
        assert_eq!(all.map(|who| world.told(who)), [vec![], vec![]] as [Vec<String>; 2], "{speaks_epochs}");
        // And back, in good order: whoever asks the wrong one hears so.
        world.down.clear();
        world.move_group();
        world.run(20_000);
        assert_eq!(all.map(|who| world.owned(who)), before, "{speaks_epochs}");
    }
}

#[test]
fn a_coordinator_that_loads_is_waited_for() {
    for (speaks_epochs, code) in [
        (false, ErrorCode::CoordinatorLoadInProgress),
        (true, ErrorCode::CoordinatorLoadInProgress),
        (false, ErrorCode::CoordinatorNotAvailable),
        (true, ErrorCode::CoordinatorNotAvailable),
    ] {
        let mut world = World::new(speaks_epochs, 22);
        world.brokers.unwell = Some(code);
        let a = world.join(settings(GroupProtocol::Auto), &["t"]);
        world.run(10_000);
        assert_eq!((world.owned(a), world.all[a].failed.clone()), (String::new(), None));
        world.brokers.unwell = None;
        world.run(3_000);
        assert_eq!(world.owned(a), "t-0 t-1 t-2 t-3");
    }
}

#[test]
fn what_cannot_be_mended_is_told_once() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 23);
        let a = world.join(settings(GroupProtocol::Auto), &["t"]);
        world.run(5_000);
        world.brokers.unwell = Some(ErrorCode::GroupAuthorizationFailed);
        world.run(10_000);
        assert_eq!(world.all[a].failed, Some(GroupError::Refused(ErrorCode::GroupAuthorizationFailed)));
        assert_eq!(world.told(a).last().map(String::as_str), Some("lost t-0 t-1 t-2 t-3"));
        world.brokers.unwell = None;
        // Whoever wants it again is a member again.
        world.run(60_000);
        world.subscribe(a, &["t"]);
        world.run(10_000);
        assert_eq!(world.owned(a), "t-0 t-1 t-2 t-3");
    }
}

#[test]
fn who_was_thrown_out_has_lost_all_and_comes_back() {
    // The coordinator's clock went on without it.
    let mut world = World::new(false, 24);
    let a = world.join(settings(GroupProtocol::Classic), &["t"]);
    world.run(5_000);
    world.told(a);
    world.brokers.classic.generation += 3;
    world.run(10_000);
    assert_eq!(world.told(a), ["lost t-0 t-1 t-2 t-3", "assign t-0 t-1 t-2 t-3"]);
    let mut world = World::new(true, 24);
    let a = world.join(settings(GroupProtocol::Consumer), &["t"]);
    // Nobody was left in the group meanwhile, so that it is not there either, or is one of the old protocol.
    for code in [ErrorCode::FencedMemberEpoch, ErrorCode::UnknownMemberId, ErrorCode::GroupIdNotFound] {
        world.run(10_000);
        world.told(a);
        world.brokers.epochs.refuse_next = Some(code);
        world.run(10_000);
        assert_eq!(world.told(a), ["lost t-0 t-1 t-2 t-3", "assign t-0 t-1 t-2 t-3"], "{code:?}");
    }
}

#[test]
fn an_owner_that_asks_for_nothing_makes_room() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 25);
        let impatient =
            GroupSettings { poll_interval_max: Duration::from_secs(60), ..settings(GroupProtocol::Auto) };
        let a = world.join(impatient.clone(), &["t"]);
        let b = world.join(impatient, &["t"]);
        world.run(10_000);
        world.told(a);
        let now = world.now();
        world.all[a].membership.on_given(now);
        world.run(59_000);
        assert_eq!(world.told(a), [""; 0]);
        world.run(10_000);
        assert!(world.told(a)[0].starts_with("lost "), "{speaks_epochs}");
        assert_eq!(world.owned(b), "t-0 t-1 t-2 t-3", "{speaks_epochs}");
        world.run(300_000);
        assert_eq!(world.owned(a), "");
        let now = world.now();
        world.all[a].membership.on_waiting(now);
        world.run(10_000);
        assert!(!world.owned(a).is_empty(), "{speaks_epochs}");
    }
}

#[test]
fn an_owner_that_gives_nothing_back_does_not_hold_the_group_up_for_ever() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 26);
        let impatient =
            GroupSettings { poll_interval_max: Duration::from_secs(60), ..settings(GroupProtocol::Auto) };
        let a = world.join(impatient.clone(), &["t"]);
        world.run(10_000);
        world.all[a].gives_back_after_ms = None;
        let b = world.join(impatient, &["t"]);
        world.run(50_000);
        assert_eq!(world.owned(b), "", "{speaks_epochs}");
        world.run(60_000);
        assert!(!world.owned(b).is_empty(), "{speaks_epochs}");
    }
}

#[test]
fn a_group_that_does_not_have_the_protocol_is_joined_the_old_way() {
    let mut world = World::new(true, 27);
    world.brokers.epochs.refuse_next = Some(ErrorCode::UnsupportedVersion);
    let a = world.join(settings(GroupProtocol::Auto), &["t"]);
    world.run(10_000);
    assert_eq!(world.owned(a), "t-0 t-1 t-2 t-3");
    assert!(world.brokers.classic.members.len() == 1 && world.brokers.epochs.members.is_empty());
    let mut world = World::new(false, 27);
    let a = world.join(settings(GroupProtocol::Consumer), &["t"]);
    world.run(10_000);
    assert_eq!(world.all[a].failed, Some(GroupError::Unsupported("consumer")));
}
