//! A member that leaves while its group is in the middle of something.

use std::time::Duration;

use base::ErrorCode;
use vltava_client_core::group::{Assignor, GroupProtocol, GroupSettings};
use wire::ApiKey;

use super::coordinator::part;
use super::rebalances::settings;
use super::world::World;

/// Commits when it gives something up, or leaves, and not before.
fn auto(protocol: GroupProtocol, assignor: Assignor) -> GroupSettings {
    let auto_commit = Some(Duration::from_secs(1_000));
    GroupSettings { assignors: vec![assignor], auto_commit, ..settings(protocol) }
}

fn cooperative() -> GroupSettings {
    auto(GroupProtocol::Classic, Assignor::CooperativeSticky)
}

/// As an owner does that closes: all that it has read is committed, and it says of nothing that it reads on.
fn leave(world: &mut World, who: usize) {
    let now = world.now();
    world.told(who);
    let one = &mut world.all[who];
    one.membership.commit_read(now.elapsed + Duration::from_secs(60));
    one.membership.unsubscribe(now);
    one.owned.clear();
}

/// Whether the coordinator takes it for a member.
fn has_place(world: &World, who: usize) -> bool {
    let classic = world.brokers.classic.members.values().map(|member| member.whose);
    let epochs = world.brokers.epochs.members.values().map(|member| member.whose);
    classic.chain(epochs).any(|whose| whose == who)
}

/// A group of two, to which a third comes, or from which one goes; so many milliseconds after the other began to hear
/// of it, that one leaves.
fn leaves_amid(settings: &GroupSettings, comes: bool, after_ms: u64) {
    let case = format!("{:?} {:?}, {comes}, after {after_ms} ms", settings.protocol, settings.assignors);
    let is_classic = settings.protocol == GroupProtocol::Classic;
    let mut world = World::new(!is_classic, 71);
    world.delay_ms_max = 20;
    let [a, b] = [(); 2].map(|()| world.join(settings.clone(), &["t"]));
    world.run(20_000);
    assert_eq!((world.all[a].owned.len(), world.all[b].owned.len()), (2, 2), "{case}");
    let rest = if comes { vec![b, world.join(settings.clone(), &["t"])] } else { vec![] };
    if !comes {
        leave(&mut world, b);
    }
    // What is on its way of an earlier heartbeat arrives first.
    world.run(100);
    let key = if is_classic { ApiKey::JoinGroup } else { ApiKey::ConsumerGroupHeartbeat };
    world.run_until_asked(a, key);
    world.run(after_ms);
    world.read(a, 10);
    let had = world.all[a].owned.clone();
    leave(&mut world, a);
    world.run(2_000);
    assert!(world.all[a].membership.has_left(), "{case}");
    assert!(!has_place(&world, a), "{case}");
    assert_eq!(world.told(a), ["committed"], "{case}");
    for of in had {
        assert_eq!(world.brokers.offsets.get(&of), Some(&(10, 5)), "{case}: {of}");
    }
    world.run(20_000);
    assert_eq!(world.told(a), [""; 0], "{case}: it reads what it does not own");
    let owned: usize = rest.iter().map(|&who| world.all[who].owned.len()).sum();
    assert_eq!(owned, if comes { 4 } else { 0 }, "{case}");
    // It comes back as anybody does who has nothing.
    world.subscribe(a, &["t"]);
    let now = world.now();
    world.all[a].membership.on_waiting(now);
    world.run(20_000);
    assert_eq!(world.all[a].failed, None, "{case}");
    assert!(!world.owned(a).is_empty(), "{case}");
}

#[test]
fn whenever_it_leaves_what_it_read_is_committed_and_nothing_is_given_to_it() {
    let kinds = [
        auto(GroupProtocol::Classic, Assignor::Range),
        cooperative(),
        auto(GroupProtocol::Consumer, Assignor::Range),
    ];
    for settings in &kinds {
        for comes in [true, false] {
            (0..200).step_by(8).for_each(|after_ms| leaves_amid(settings, comes, after_ms));
        }
    }
}

#[test]
fn who_leaves_does_not_wait_for_those_who_do_not_come() {
    for reads in [true, false] {
        let mut world = World::new(false, 72);
        let [a, b] = [(); 2].map(|()| world.join(cooperative(), &["t"]));
        world.run(20_000);
        world.kill(b);
        world.join(cooperative(), &["t"]);
        world.run(5_000);
        let had = world.all[a].owned.clone();
        if reads {
            world.read(a, 10);
        }
        leave(&mut world, a);
        world.run(900);
        assert!(world.all[a].membership.has_left() && !has_place(&world, a), "{reads}");
        assert_eq!(world.told(a), ["committed"], "{reads}");
        for of in had {
            assert_eq!(world.brokers.offsets.get(&of), reads.then_some(&(10, 5)), "{reads}: {of}");
        }
    }
}

#[test]
fn who_cannot_commit_leaves_all_the_same() {
    // A generation that nobody who leaves learns of is not waited for.
    for (protocol, code, within_ms) in [
        (GroupProtocol::Classic, ErrorCode::RebalanceInProgress, 1_000),
        (GroupProtocol::Consumer, ErrorCode::StaleMemberEpoch, 1_000),
        (GroupProtocol::Classic, ErrorCode::CoordinatorLoadInProgress, 31_000),
        (GroupProtocol::Consumer, ErrorCode::CoordinatorLoadInProgress, 31_000),
    ] {
        let mut world = World::new(protocol == GroupProtocol::Consumer, 73);
        let a = world.join(auto(protocol, Assignor::Range), &["t"]);
        world.run(5_000);
        world.read(a, 10);
        world.brokers.refuses_commits = Some(code);
        leave(&mut world, a);
        world.run(within_ms);
        assert!(world.all[a].membership.has_left(), "{code:?}");
        assert!(!has_place(&world, a), "{code:?}: who can be told is told");
        assert_eq!(world.brokers.offsets.get(&part("t", 0)), None, "{code:?}");
        let told = world.told(a);
        assert!(told.len() == 1 && told[0].starts_with("not committed: "), "{code:?}: {told:?}");
    }
}

/// What it read before may be behind what another has read since.
#[test]
fn who_slept_through_a_generation_commits_nothing_as_it_leaves() {
    let mut world = World::new(false, 74);
    world.delay_ms_max = 20;
    let a = world.join(cooperative(), &["t"]);
    world.run(5_000);
    world.join(cooperative(), &["t"]);
    world.run_until_asked(a, ApiKey::JoinGroup);
    world.read(a, 10);
    leave(&mut world, a);
    world.brokers.classic.generation += 1;
    world.run(2_000);
    assert!(world.all[a].membership.has_left() && !has_place(&world, a));
    let told = world.told(a);
    assert_eq!(world.brokers.commits, [], "{told:?}");
}
