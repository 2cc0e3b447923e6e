//! Committed offsets: begun from, and kept in order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{ErrorCode, Offset};
use vltava_client_core::group::{Assignor, GroupProtocol, GroupSettings, OffsetAndMetadata};

use super::coordinator::part;
use super::rebalances::settings;
use super::world::World;

fn at(offset: i64) -> OffsetAndMetadata {
    OffsetAndMetadata::at(Offset(offset))
}

fn auto() -> GroupSettings {
    GroupSettings { auto_commit: Some(Duration::from_secs(5)), ..settings(GroupProtocol::Auto) }
}

#[test]
fn what_was_committed_is_where_it_begins() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 31);
        world.brokers.offsets.insert(part("u", 1), (70, 4));
        let a = world.join(settings(GroupProtocol::Auto), &["u"]);
        world.run(5_000);
        assert_eq!(world.told(a), ["assign u-0 u-1@70"]);
    }
}

#[test]
fn what_was_read_is_committed_from_time_to_time_and_once() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 32);
        let a = world.join(auto(), &["u"]);
        world.run(1_000);
        world.read(a, 10);
        world.run(6_000);
        assert_eq!(world.brokers.offsets[&part("u", 0)], (10, 5), "with its epoch");
        let commits = world.brokers.commits.len();
        world.run(60_000);
        assert_eq!(world.brokers.commits.len(), commits, "nothing new was read");
        world.read(a, 20);
        let now = world.now();
        world.all[a].membership.unsubscribe(now);
        world.run(1_000);
        assert!(world.all[a].membership.has_left());
        assert_eq!(world.brokers.offsets[&part("u", 1)], (20, 5), "before it left");
    }
}

#[test]
fn what_was_read_is_committed_before_another_reads_on() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 33);
        let patient = GroupSettings { auto_commit: Some(Duration::from_secs(1_000)), ..auto() };
        let a = world.join(patient.clone(), &["u"]);
        world.run(1_000);
        world.read(a, 10);
        world.run(1_000);
        world.read(a, 33);
        let b = world.join(patient, &["u"]);
        world.run(10_000);
        let told = world.told(b).pop().unwrap_or_default();
        assert!(told.starts_with("assign u-") && told.ends_with("@33"), "{speaks_epochs}: {told}");
    }
}

/// Who reads on while its group meets has no generation to commit in, and may read nothing more once it has one.
#[test]
fn what_was_due_while_a_member_joined_again_is_committed_once_it_has() {
    let mut world = World::new(false, 38);
    let cooperative = GroupSettings {
        protocol: GroupProtocol::Classic,
        assignors: vec![Assignor::CooperativeSticky],
        ..auto()
    };
    let [a, b] = [(); 2].map(|()| world.join(cooperative.clone(), &["t"]));
    world.run(20_000);
    assert_eq!((world.all[a].owned.len(), world.all[b].owned.len()), (2, 2));
    // Somebody comes, and one of those who were there does not: the other waits for it until its session is over.
    world.kill(b);
    world.join(cooperative, &["t"]);
    world.run(5_000);
    world.read(a, 10);
    world.run(15_000);
    assert_eq!(world.brokers.commits, [], "it was due more than once");
    world.run(60_000);
    for of in &world.all[a].owned {
        assert_eq!(world.brokers.offsets.get(of), Some(&(10, 5)), "{of}");
    }
    assert_eq!(world.all[a].owned.len(), 2);
}

#[test]
fn a_later_commit_is_never_overtaken_by_one_that_is_tried_again() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 34);
        let a = world.join(settings(GroupProtocol::Auto), &["u"]);
        world.run(5_000);
        world.told(a);
        world.brokers.unwell = Some(ErrorCode::CoordinatorLoadInProgress);
        for offset in [1, 2, 3] {
            let until = world.now().elapsed + Duration::from_secs(60);
            let offsets = BTreeMap::from([(part("u", 0), at(offset))]);
            world.all[a].membership.commit(offsets, until);
            world.run(700);
        }
        world.brokers.unwell = None;
        world.run(5_000);
        assert_eq!(world.told(a), ["committed"; 3]);
        assert_eq!(world.brokers.offsets[&part("u", 0)].0, 3);
        assert!(world.brokers.commits.iter().map(|(_, offset)| *offset).is_sorted());
    }
}

/// One of its partitions cannot be committed for a while, its topic was deleted, say; the other could.
#[test]
fn what_is_done_of_a_commit_is_not_done_again_behind_a_later_one() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 34);
        let a = world.join(settings(GroupProtocol::Auto), &["u"]);
        world.run(5_000);
        world.told(a);
        world.brokers.refuses_commits_of.insert(part("u", 1), ErrorCode::CoordinatorLoadInProgress);
        let until = world.now().elapsed + Duration::from_secs(60);
        let both = BTreeMap::from([(part("u", 0), at(10)), (part("u", 1), at(5))]);
        world.all[a].membership.commit(both, until);
        world.run(700);
        world.all[a].membership.commit(BTreeMap::from([(part("u", 0), at(20))]), until);
        world.run(10_000);
        assert_eq!(world.told(a), ["committed"], "the later one");
        world.brokers.refuses_commits_of.clear();
        world.run(5_000);
        assert_eq!(world.told(a), ["committed"], "the earlier one");
        assert_eq!(world.brokers.offsets[&part("u", 0)].0, 20);
        assert_eq!(world.brokers.offsets[&part("u", 1)].0, 5);
    }
}

/// It may be made anew, and then what was read of the old one says nothing of it.
#[test]
fn what_is_read_of_a_topic_that_is_gone_is_not_committed_until_there_is_another() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 34);
        let a = world.join(settings(GroupProtocol::Auto), &["u"]);
        world.run(5_000);
        world.told(a);
        world.brokers.refuses_commits_of.insert(part("u", 1), ErrorCode::UnknownTopicOrPartition);
        let until = world.now().elapsed + Duration::from_secs(60);
        let both = BTreeMap::from([(part("u", 0), at(10)), (part("u", 1), at(5))]);
        world.all[a].membership.commit(both, until);
        world.run(300);
        assert_eq!(world.told(a), [""; 0], "the coordinator may not have heard of it yet");
        world.run(5_000);
        assert_eq!(world.told(a), ["not committed: Refused(UnknownTopicOrPartition)"]);
        world.brokers.refuses_commits_of.clear();
        world.run(60_000);
        assert_eq!(world.brokers.offsets[&part("u", 0)].0, 10);
        assert!(!world.brokers.offsets.contains_key(&part("u", 1)), "{:?}", world.brokers.offsets);
    }

    // What is committed by itself is made again each time, until what was read is of no use any more.
    let mut world = World::new(true, 34);
    let a = world.join(auto(), &["u"]);
    world.run(5_000);
    world.brokers.refuses_commits_of.insert(part("u", 1), ErrorCode::UnknownTopicOrPartition);
    world.all[a].membership.on_read(&part("u", 0), at(10));
    world.all[a].membership.on_read(&part("u", 1), at(5));
    world.run(30_000);
    world.brokers.refuses_commits_of.clear();
    world.all[a].membership.on_read(&part("u", 0), at(20));
    world.run(30_000);
    assert_eq!(world.brokers.offsets[&part("u", 0)].0, 20);
    assert!(!world.brokers.offsets.contains_key(&part("u", 1)), "{:?}", world.brokers.offsets);
}

#[test]
fn who_is_no_member_any_more_cannot_commit() {
    let mut world = World::new(false, 35);
    let a = world.join(settings(GroupProtocol::Classic), &["u"]);
    world.run(5_000);
    world.told(a);
    world.brokers.classic.generation += 1;
    let until = world.now().elapsed + Duration::from_secs(60);
    world.all[a].membership.commit(BTreeMap::from([(part("u", 0), at(9))]), until);
    world.run(2_000);
    assert_eq!(world.told(a)[0], "not committed: NotOwner");
    assert_eq!(world.brokers.commits, []);

    // It was alone, and with its session the whole group ended.
    let mut world = World::new(true, 35);
    let a = world.join(settings(GroupProtocol::Consumer), &["u"]);
    world.run(5_000);
    world.told(a);
    world.brokers.epochs.members.clear();
    let until = world.now().elapsed + Duration::from_secs(60);
    world.all[a].membership.commit(BTreeMap::from([(part("u", 0), at(9))]), until);
    world.run(10_000);
    assert_eq!(world.told(a), ["not committed: NotOwner", "lost u-0 u-1", "assign u-0 u-1"]);
}

#[test]
fn who_has_not_heard_of_its_loss_does_not_commit_as_who_it_is_by_now() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 39);
        let a = world.join(settings(GroupProtocol::Auto), &["u"]);
        world.run(5_000);
        world.told(a);
        world.all[a].hears_of_losses = false;
        world.brokers.classic.generation += 3;
        world.brokers.epochs.refuse_next = Some(ErrorCode::FencedMemberEpoch);
        world.run(10_000);
        assert_eq!(world.told(a), ["lost u-0 u-1", "assign u-0 u-1"], "{speaks_epochs}");
        // Another was its owner meanwhile, and read further.
        world.brokers.offsets.insert(part("u", 0), (100, 5));
        let commit = |world: &mut World, offset| {
            let until = world.now().elapsed + Duration::from_secs(60);
            world.all[a].membership.commit(BTreeMap::from([(part("u", 0), at(offset))]), until);
            world.run(1_000);
        };
        commit(&mut world, 50);
        assert_eq!(world.brokers.offsets[&part("u", 0)].0, 100, "{speaks_epochs}");
        world.all[a].membership.on_loss_heard(&BTreeSet::from([part("u", 0), part("u", 1)]));
        commit(&mut world, 101);
        assert_eq!(world.brokers.offsets[&part("u", 0)].0, 101, "{speaks_epochs}");
        assert_eq!(world.told(a), ["not committed: NotOwner", "committed"], "{speaks_epochs}");
    }
}

#[test]
fn a_commit_that_nobody_answers_ends_in_time() {
    let mut world = World::new(true, 36);
    let a = world.join(settings(GroupProtocol::Auto), &["u"]);
    world.run(5_000);
    world.told(a);
    world.brokers.unwell = Some(ErrorCode::CoordinatorNotAvailable);
    let until = world.now().elapsed + Duration::from_secs(10);
    world.all[a].membership.commit(BTreeMap::from([(part("u", 0), at(9))]), until);
    world.all[a].membership.fetch_committed(BTreeSet::from([part("u", 0)]), until);
    world.run(11_000);
    let told = world.told(a).join(", ");
    assert!(told.contains("not committed: TimedOut"), "{told}");
    assert!(told.contains("found Err(TimedOut"), "{told}");
}

#[test]
fn who_reads_by_hand_commits_for_the_group_too() {
    let mut world = World::new(true, 37);
    let a = world.add(settings(GroupProtocol::Auto));
    let until = world.now().elapsed + Duration::from_secs(10);
    world.all[a].membership.commit(BTreeMap::from([(part("u", 0), at(9))]), until);
    world.run(1_000);
    world.all[a].membership.fetch_committed(BTreeSet::from([part("u", 0), part("u", 1)]), until);
    world.run(1_000);
    assert_eq!(world.told(a), ["committed", "found Ok([Some(9), None])"]);
}

#[test]
fn what_is_read_by_hand_is_committed_from_time_to_time_and_once() {
    let mut world = World::new(true, 40);
    let (a, never) = (world.add(auto()), world.add(settings(GroupProtocol::Auto)));
    let [read, other] = [part("u", 0), part("u", 1)];
    world.all[a].membership.on_read(&read, at(10));
    world.all[never].membership.on_read(&other, at(3));
    world.run(60_000);
    assert_eq!(world.brokers.commits, [(read.clone(), 10)], "nothing new was read");
    world.all[a].membership.on_read(&read, at(20));
    let until = world.now().elapsed + Duration::from_secs(10);
    world.all[a].membership.commit_unsaved(until);
    world.all[a].membership.read_others();
    world.all[never].membership.commit_unsaved(until);
    world.run(60_000);
    assert_eq!(world.brokers.commits[1..], [(read, 20)], "before it read others");
}

#[test]
fn who_is_about_to_leave_commits_nothing_that_it_reads_by_hand() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 41);
        let [a, b] = [(); 2].map(|()| world.join(auto(), &["u"]));
        world.run(10_000);
        let of_b = world.all[b].owned.first().expect("it has one of two").clone();
        let now = world.now();
        let membership = &mut world.all[a].membership;
        membership.unsubscribe(now);
        membership.on_read(&of_b, at(1));
        membership.commit_unsaved(now.elapsed + Duration::from_secs(10));
        world.run(1_000);
        assert_eq!(world.brokers.offsets.get(&of_b), None, "{speaks_epochs}: it is another's");
    }
}

#[test]
fn who_is_about_to_leave_commits_what_it_is_told_to_as_no_member() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 42);
        let [a, b] = [(); 2].map(|()| world.join(settings(GroupProtocol::Auto), &["u"]));
        world.run(10_000);
        let of_b = world.all[b].owned.first().expect("it has one of two").clone();
        let leave_and_commit = |world: &mut World, who: usize, offset| {
            let now = world.now();
            let until = now.elapsed + Duration::from_secs(10);
            let membership = &mut world.all[who].membership;
            membership.unsubscribe(now);
            membership.commit(BTreeMap::from([(of_b.clone(), at(offset))]), until);
            world.all[who].owned.clear();
            world.told(who);
            world.run(5_000);
            world.told(who)
        };
        let told = leave_and_commit(&mut world, a, 7);
        assert_eq!(told, ["not committed: NotOwner"], "{speaks_epochs}: it is another's");
        assert_eq!(world.brokers.offsets.get(&of_b), None, "{speaks_epochs}");
        assert_eq!(leave_and_commit(&mut world, b, 8), ["committed"], "{speaks_epochs}: it is nobody's");
        assert_eq!(world.brokers.offsets[&of_b].0, 8, "{speaks_epochs}");
    }
}

/// What it committed as a member goes before, as a member's; what it commits behind that, by hand, once it has left.
#[test]
fn what_is_committed_while_a_commit_of_the_member_is_on_its_way_is_no_members() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 43);
        let [a, b] = [(); 2].map(|()| world.join(settings(GroupProtocol::Auto), &["u"]));
        world.run(10_000);
        let of = |world: &World, who: usize| world.all[who].owned.first().expect("it has one of two").clone();
        let (of_a, of_b) = (of(&world, a), of(&world, b));
        world.told(a);
        let now = world.now();
        let until = now.elapsed + Duration::from_secs(10);
        let membership = &mut world.all[a].membership;
        membership.commit(BTreeMap::from([(of_a.clone(), at(5))]), until);
        membership.unsubscribe(now);
        membership.commit(BTreeMap::from([(of_b.clone(), at(7))]), until);
        world.all[a].owned.clear();
        world.run(5_000);
        assert_eq!(world.told(a), ["committed", "not committed: NotOwner"], "{speaks_epochs}");
        assert_eq!(world.brokers.offsets[&of_a].0, 5, "{speaks_epochs}");
        assert_eq!(world.brokers.offsets.get(&of_b), None, "{speaks_epochs}: it is another's");
    }
}

#[test]
fn who_reads_by_hand_commits_what_it_reads_and_nothing_that_it_gave_up() {
    let mut world = World::new(true, 39);
    let a = world.add(settings(GroupProtocol::Auto));
    let [given_up, kept] = [part("u", 0), part("u", 1)];
    let commit_at = |world: &mut World, of: &_, offset| {
        let until = world.now().elapsed + Duration::from_secs(10);
        let membership = &mut world.all[a].membership;
        membership.on_read(of, at(offset));
        membership.commit_read(until);
        world.run(1_000);
        std::mem::take(&mut world.brokers.commits)
    };
    assert_eq!(commit_at(&mut world, &given_up, 5), [(given_up.clone(), 5)]);
    world.all[a].membership.on_read(&given_up, at(6));
    world.all[a].membership.read_others();
    assert_eq!(
        commit_at(&mut world, &kept, 7),
        [(kept.clone(), 7)],
        "somebody else may read the other by now"
    );
    // Somebody sets it back, and it is read again.
    world.brokers.offsets.insert(kept.clone(), (0, 0));
    assert_eq!(commit_at(&mut world, &kept, 7), [(kept, 7)]);
    assert_eq!(world.told(a), ["committed"; 3]);
}

#[test]
fn who_has_left_does_not_commit_what_it_made_as_a_member() {
    for speaks_epochs in [false, true] {
        let mut world = World::new(speaks_epochs, 38);
        let a = world.join(settings(GroupProtocol::Auto), &["u"]);
        world.run(5_000);
        world.told(a);
        world.brokers.unwell = Some(ErrorCode::CoordinatorLoadInProgress);
        let now = world.now();
        let until = now.elapsed + Duration::from_secs(120);
        world.all[a].membership.commit(BTreeMap::from([(part("u", 0), at(50))]), until);
        world.all[a].membership.unsubscribe(now);
        world.all[a].owned.clear();
        world.run(60_000);
        // Another was a member meanwhile, read further, and left.
        world.brokers.offsets.insert(part("u", 0), (100, 5));
        world.brokers.unwell = None;
        world.run(10_000);
        assert_eq!(world.brokers.offsets[&part("u", 0)].0, 100, "{speaks_epochs}");
        assert_eq!(world.told(a), ["not committed: NotOwner"], "{speaks_epochs}");
    }
}
