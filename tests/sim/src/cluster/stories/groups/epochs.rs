//! Groups of the new protocol (KIP-848): members that are fenced or in an epoch that is over, and coordinators that are
//! lost in each state of a group.

use std::sync::Arc;
use std::time::Duration;

use coordinator::ShardSettings;
use coordinator::consumer::ConsumerGroupSettings;

use super::GroupStory;
use crate::cluster::client::caller::Call;
use crate::cluster::options::Options;

/// How long a member may be silent, and how far apart targets are made: longer than a call takes.
const SESSION: Duration = Duration::from_secs(3);
const ASSIGNMENTS_EVERY: Duration = Duration::from_secs(1);

pub(super) fn quiet() -> Options {
    let quiet = Options::quiet_with_groups();
    let consumer = ConsumerGroupSettings {
        session_timeout: SESSION,
        assignment_interval: ASSIGNMENTS_EVERY,
        ..ConsumerGroupSettings::default()
    };
    let shards = ShardSettings { consumer: Arc::new(consumer), ..quiet.shards.clone() };
    Options { shards, ..quiet }
}

/// `a` has all, and `b` has come: there is no target yet with `b` in it.
fn two() -> GroupStory {
    let mut group = GroupStory::of(quiet());
    group.caller("a", None);
    group.caller("b", None);
    group.call("a", 0, Call::Have(&[]));
    group.call("a", 0, Call::Have(&[0, 1]));
    group.call("a", 0, Call::Commit(5));
    group.call("b", 0, Call::Have(&[]));
    group
}

/// `a` has been told to give partition 1 up, which `b` waits for.
fn two_and_a_target() -> GroupStory {
    let mut group = two();
    group.story.pass(700);
    group.call("a", 0, Call::Have(&[0, 1]));
    group.call("b", 0, Call::Have(&[]));
    group
}

/// What a member may commit in an epoch that is over: what it has had since then (KIP-1251).
#[test]
fn a_commit_of_an_earlier_epoch_counts_for_what_the_member_still_has() {
    let mut group = two_and_a_target();
    group.call("a", 0, Call::Commit(6));
    group.call("a", 0, Call::Have(&[0]));
    group.call("b", 0, Call::Have(&[]));
    group.of_caller("a", |caller| caller.generation -= 1);
    group.call("a", 0, Call::Commit(7));
    group.call("a", 0, Call::Have(&[0, 1]));
    group.call("a", 0, Call::Have(&[0]));
    group.of_caller("b", |caller| caller.generation -= 1);
    group.call("b", 0, Call::Commit(8));
    group.of_caller("b", |caller| caller.generation += 9);
    group.call("b", 0, Call::Commit(9));
    group.call("b", 0, Call::Hear);
    group.call("b", 0, Call::Fetch);
    assert_eq!(
        group.told(),
        "\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: have([]): epoch 1, gets [0, 1]\n\
         a to 0: have([0, 1]): epoch 1\n\
         a to 0: commit(5): yes\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 0: have([]): epoch 1, gets []\n\
         a to 0: have([0, 1]): epoch 1, gets [0]\n\
         b to 0: have([]): epoch 2, gets []\n\
         a to 0: commit(6): yes\n\
         a to 0: have([0]): epoch 2, gets [0]\n\
         b to 0: have([]): epoch 2, gets [1]\n\
         a to 0: commit(7): yes\n\
         a to 0: have([0, 1]): FENCED_MEMBER_EPOCH\n\
         a to 0: have([0]): epoch 2, gets [0]\n\
         b to 0: commit(8): STALE_MEMBER_EPOCH\n\
         b to 0: commit(9): STALE_MEMBER_EPOCH\n\
         b to 0: hear: FENCED_MEMBER_EPOCH\n\
         b to 0: fetch: 7\n"
    );
}

/// Who is silent for too long is out, and comes back as it came.
#[test]
fn who_was_silent_is_out() {
    let mut group = two_and_a_target();
    for _ in 0..12 {
        group.story.pass(300);
        group.call("b", 0, Call::Have(&[]));
    }
    group.call("a", 0, Call::Commit(6));
    group.call("a", 0, Call::Have(&[0, 1]));
    group.of_caller("a", |caller| caller.generation = 0);
    group.call("a", 0, Call::Have(&[]));
    group.call("b", 0, Call::Fetch);
    assert_eq!(
        group.told(),
        "\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: have([]): epoch 1, gets [0, 1]\n\
         a to 0: have([0, 1]): epoch 1\n\
         a to 0: commit(5): yes\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 0: have([]): epoch 1, gets []\n\
         a to 0: have([0, 1]): epoch 1, gets [0]\n\
         b to 0: have([]): epoch 2, gets []\n\
         b to 0: have([]): epoch 2\n\
         b to 0: have([]): epoch 2\n\
         b to 0: have([]): epoch 2\n\
         b to 0: have([]): epoch 2\n\
         | node 0 groups of 0: RebalanceBegan(SessionExpired)\n\
         | node 0 groups of 0: MembersExpelled(1)\n\
         b to 0: have([]): epoch 3, gets [0, 1]\n\
         b to 0: have([]): epoch 3\n\
         b to 0: have([]): epoch 3\n\
         b to 0: have([]): epoch 3\n\
         b to 0: have([]): epoch 3\n\
         b to 0: have([]): epoch 3\n\
         b to 0: have([]): epoch 3\n\
         b to 0: have([]): epoch 3\n\
         a to 0: commit(6): UNKNOWN_MEMBER_ID\n\
         a to 0: have([0, 1]): UNKNOWN_MEMBER_ID\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: have([]): epoch 4, gets []\n\
         b to 0: fetch: 5\n"
    );
}

/// A static member that is there keeps its name to itself; one that is gone makes room.
#[test]
fn who_has_the_name_of_another_waits_for_its_place() {
    let mut group = GroupStory::of(quiet());
    group.caller("a", Some("i"));
    group.caller("z", Some("i"));
    group.call("a", 0, Call::Have(&[]));
    group.call("a", 0, Call::Commit(5));
    group.call("z", 0, Call::Have(&[]));
    let next = group.lose_coordinator();
    group.call("z", next, Call::Have(&[]));
    group.story.pass(4_000);
    group.call("z", next, Call::Have(&[]));
    group.call("a", next, Call::Commit(6));
    group.call("a", next, Call::Hear);
    group.call("z", next, Call::Fetch);
    assert_eq!(
        group.told(),
        "\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: have([]): epoch 1, gets [0, 1]\n\
         a to 0: commit(5): yes\n\
         z to 0: have([]): UNRELEASED_INSTANCE_ID\n\
         0 is killed\n\
         | node 1 leads __consumer_offsets-0 epoch 2, ends at 6\n\
         | node 1 leads t-0 epoch 1, ends at 0\n\
         | node 1 leads t-1 epoch 1, ends at 0\n\
         | node 1 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         another coordinates\n\
         z to 1: have([]): UNRELEASED_INSTANCE_ID\n\
         | node 1 groups of 0: RebalanceBegan(SessionExpired)\n\
         | node 1 groups of 0: MembersExpelled(1)\n\
         | node 1 groups of 0: RebalanceBegan(MemberJoined)\n\
         z to 1: have([]): epoch 3, gets [0, 1]\n\
         a to 1: commit(6): UNKNOWN_MEMBER_ID\n\
         a to 1: hear: FENCED_INSTANCE_ID\n\
         z to 1: fetch: 5\n"
    );
}

/// R13, KIP-211: offsets do not grow old while there are members. When the last one leaves they have the whole time
/// again, with any coordinator: the log says since when the group is empty.
#[test]
fn r13_offsets_do_not_grow_old_under_a_group_that_lives() {
    let quiet = quiet();
    let shards = ShardSettings {
        offsets_retention: Duration::from_secs(6),
        offsets_retention_check_interval: Duration::from_millis(500),
        ..quiet.shards.clone()
    };
    let mut group = GroupStory::of(Options { shards, ..quiet });
    group.caller("a", None);
    group.call("a", 0, Call::Have(&[]));
    group.call("a", 0, Call::Commit(5));
    for _ in 0..4 {
        group.story.pass(2_000);
        group.call("a", 0, Call::Hear);
    }
    group.call("a", 0, Call::Go);
    group.story.pass(2_000);
    group.story.say("2 s later");
    let next = group.lose_coordinator();
    group.call("a", next, Call::Fetch);
    group.story.pass(6_000);
    group.story.say("6 s later");
    group.call("a", next, Call::Fetch);
    assert_eq!(
        group.told(),
        "\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: have([]): epoch 1, gets [0, 1]\n\
         a to 0: commit(5): yes\n\
         a to 0: hear: epoch 1\n\
         a to 0: hear: epoch 1\n\
         a to 0: hear: epoch 1\n\
         a to 0: hear: epoch 1\n\
         | node 0 groups of 0: RebalanceBegan(MemberLeft)\n\
         a to 0: go: epoch -1\n\
         2 s later\n\
         0 is killed\n\
         | node 1 leads __consumer_offsets-0 epoch 2, ends at 10\n\
         | node 1 leads t-0 epoch 1, ends at 0\n\
         | node 1 leads t-1 epoch 1, ends at 0\n\
         | node 1 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         another coordinates\n\
         a to 1: fetch: 5\n\
         | node 1 groups of 0: OffsetsExpired(1)\n\
         6 s later\n\
         a to 1: fetch: -1\n"
    );
}

#[test]
fn the_coordinator_is_lost_while_the_group_is_empty() {
    let mut group = GroupStory::of(quiet());
    group.caller("a", None);
    group.caller("b", None);
    group.call("a", 0, Call::Have(&[]));
    group.call("a", 0, Call::Commit(5));
    group.call("a", 0, Call::Go);
    let next = group.lose_coordinator();
    group.call("a", next, Call::Commit(6));
    group.call("b", next, Call::Have(&[]));
    group.call("b", next, Call::Fetch);
    assert_eq!(
        group.told(),
        "\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: have([]): epoch 1, gets [0, 1]\n\
         a to 0: commit(5): yes\n\
         | node 0 groups of 0: RebalanceBegan(MemberLeft)\n\
         a to 0: go: epoch -1\n\
         0 is killed\n\
         | node 1 leads __consumer_offsets-0 epoch 2, ends at 10\n\
         | node 1 leads t-0 epoch 1, ends at 0\n\
         | node 1 leads t-1 epoch 1, ends at 0\n\
         | node 1 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         another coordinates\n\
         a to 1: commit(6): yes\n\
         | node 1 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 1: have([]): epoch 3, gets [0, 1]\n\
         b to 1: fetch: 6\n"
    );
}

#[test]
fn the_coordinator_is_lost_before_it_assigns() {
    let mut group = two();
    let next = group.lose_coordinator();
    group.call("b", next, Call::Have(&[]));
    group.story.pass(1_000);
    group.call("a", next, Call::Have(&[0, 1]));
    group.call("b", next, Call::Have(&[]));
    group.call("a", next, Call::Have(&[0]));
    group.call("b", next, Call::Have(&[]));
    assert_eq!(
        group.told(),
        "\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: have([]): epoch 1, gets [0, 1]\n\
         a to 0: have([0, 1]): epoch 1\n\
         a to 0: commit(5): yes\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 0: have([]): epoch 1, gets []\n\
         0 is killed\n\
         | node 1 leads __consumer_offsets-0 epoch 2, ends at 12\n\
         | node 1 leads t-0 epoch 1, ends at 0\n\
         | node 1 leads t-1 epoch 1, ends at 0\n\
         | node 1 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         another coordinates\n\
         b to 1: have([]): epoch 2, gets []\n\
         a to 1: have([0, 1]): epoch 1, gets [0]\n\
         b to 1: have([]): epoch 2\n\
         a to 1: have([0]): epoch 2, gets [0]\n\
         b to 1: have([]): epoch 2, gets [1]\n"
    );
}

#[test]
fn the_coordinator_is_lost_while_members_give_up_what_others_wait_for() {
    let mut group = two_and_a_target();
    let next = group.lose_coordinator();
    group.call("b", next, Call::Have(&[]));
    group.call("a", next, Call::Commit(6));
    group.call("a", next, Call::Have(&[0, 1]));
    group.call("b", next, Call::Have(&[]));
    group.call("a", next, Call::Have(&[0]));
    group.call("b", next, Call::Have(&[]));
    assert_eq!(
        group.told(),
        "\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: have([]): epoch 1, gets [0, 1]\n\
         a to 0: have([0, 1]): epoch 1\n\
         a to 0: commit(5): yes\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 0: have([]): epoch 1, gets []\n\
         a to 0: have([0, 1]): epoch 1, gets [0]\n\
         b to 0: have([]): epoch 2, gets []\n\
         0 is killed\n\
         | node 1 leads __consumer_offsets-0 epoch 2, ends at 14\n\
         | node 1 leads t-0 epoch 1, ends at 0\n\
         | node 1 leads t-1 epoch 1, ends at 0\n\
         | node 1 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         another coordinates\n\
         b to 1: have([]): epoch 2\n\
         a to 1: commit(6): yes\n\
         a to 1: have([0, 1]): epoch 1, gets [0]\n\
         b to 1: have([]): epoch 2\n\
         a to 1: have([0]): epoch 2, gets [0]\n\
         b to 1: have([]): epoch 2, gets [1]\n"
    );
}

#[test]
fn the_coordinator_is_lost_when_all_have_their_parts() {
    let mut group = two_and_a_target();
    group.call("a", 0, Call::Have(&[0]));
    group.call("b", 0, Call::Have(&[]));
    let next = group.lose_coordinator();
    group.call("a", next, Call::Hear);
    group.call("b", next, Call::Hear);
    group.call("a", next, Call::Commit(6));
    group.call("b", next, Call::Fetch);
    assert_eq!(
        group.told(),
        "\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: have([]): epoch 1, gets [0, 1]\n\
         a to 0: have([0, 1]): epoch 1\n\
         a to 0: commit(5): yes\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 0: have([]): epoch 1, gets []\n\
         a to 0: have([0, 1]): epoch 1, gets [0]\n\
         b to 0: have([]): epoch 2, gets []\n\
         a to 0: have([0]): epoch 2, gets [0]\n\
         b to 0: have([]): epoch 2, gets [1]\n\
         0 is killed\n\
         | node 1 leads __consumer_offsets-0 epoch 2, ends at 16\n\
         | node 1 leads t-0 epoch 1, ends at 0\n\
         | node 1 leads t-1 epoch 1, ends at 0\n\
         | node 1 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         another coordinates\n\
         a to 1: hear: epoch 2\n\
         b to 1: hear: epoch 2\n\
         a to 1: commit(6): yes\n\
         b to 1: fetch: 6\n"
    );
}
