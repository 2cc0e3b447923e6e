//! A coordinator that is lost, in each state of a group of the classic protocol: what it had not written is not so, and
//! members begin again from what was.

use super::GroupStory;
use crate::cluster::client::caller::Call;

/// `a` has a generation, and `b` comes.
fn two() -> GroupStory {
    let mut group = GroupStory::begun("b");
    group.join("b", 0);
    group
}

#[test]
fn while_the_group_is_empty() {
    let mut group = GroupStory::begun("b");
    group.call("a", 0, Call::Leave);
    let next = group.lose_coordinator();
    group.call("a", next, Call::Commit(6));
    group.join("b", next);
    group.call("b", next, Call::Fetch);
    assert_eq!(
        group.told(),
        "\
         a to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: join: leads generation 1 of 1\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         a to 0: sync: yes\n\
         a to 0: commit(5): yes\n\
         | node 0 groups of 0: RebalanceBegan(MemberLeft)\n\
         a to 0: leave: yes\n\
         0 is killed\n\
         | node 1 leads __consumer_offsets-0 epoch 2, ends at 3\n\
         | node 1 leads t-0 epoch 1, ends at 0\n\
         | node 1 leads t-1 epoch 1, ends at 0\n\
         | node 1 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         another coordinates\n\
         a to 1: commit(6): UNKNOWN_MEMBER_ID\n\
         b to 1: join: MEMBER_ID_REQUIRED\n\
         | node 1 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 1: join: leads generation 3 of 1\n\
         b to 1: fetch: 5\n"
    );
}

#[test]
fn while_members_join() {
    let mut group = two();
    let next = group.lose_coordinator();
    group.heard("b");
    group.call("a", next, Call::Beat);
    group.call("a", next, Call::Commit(6));
    group.call("b", next, Call::Join);
    group.of_caller("b", |caller| caller.member_id.clear());
    group.join("b", next);
    group.call("a", next, Call::Join);
    group.heard("b");
    group.call("b", next, Call::Sync);
    group.call("a", next, Call::Sync);
    group.heard("b");
    group.call("b", next, Call::Fetch);
    assert_eq!(
        group.told(),
        "\
         a to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: join: leads generation 1 of 1\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         a to 0: sync: yes\n\
         a to 0: commit(5): yes\n\
         b to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 0: join: waits\n\
         0 is killed\n\
         | node 1 leads __consumer_offsets-0 epoch 2, ends at 2\n\
         | node 1 leads t-0 epoch 1, ends at 0\n\
         | node 1 leads t-1 epoch 1, ends at 0\n\
         | node 1 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         another coordinates\n\
         b hears: the connection broke\n\
         a to 1: beat: yes\n\
         a to 1: commit(6): yes\n\
         b to 1: join: UNKNOWN_MEMBER_ID\n\
         b to 1: join: MEMBER_ID_REQUIRED\n\
         | node 1 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 1: join: waits\n\
         a to 1: join: leads generation 2 of 2\n\
         b hears: is in generation 2\n\
         b to 1: sync: waits\n\
         | node 1 groups of 0: Rebalanced { members: 2 }\n\
         a to 1: sync: yes\n\
         b hears: yes\n\
         b to 1: fetch: 6\n"
    );
}

#[test]
fn before_anybody_is_told_what_it_gets() {
    let mut group = two();
    group.call("a", 0, Call::Join);
    group.heard("b");
    group.call("b", 0, Call::Sync);
    let next = group.lose_coordinator();
    group.heard("b");
    group.call("a", next, Call::Sync);
    group.call("a", next, Call::Commit(6));
    group.call("b", next, Call::Commit(7));
    group.call("a", next, Call::Join);
    group.call("a", next, Call::Sync);
    group.call("a", next, Call::Fetch);
    assert_eq!(
        group.told(),
        "\
         a to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: join: leads generation 1 of 1\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         a to 0: sync: yes\n\
         a to 0: commit(5): yes\n\
         b to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 0: join: waits\n\
         a to 0: join: leads generation 2 of 2\n\
         b hears: is in generation 2\n\
         b to 0: sync: waits\n\
         0 is killed\n\
         | node 1 leads __consumer_offsets-0 epoch 2, ends at 2\n\
         | node 1 leads t-0 epoch 1, ends at 0\n\
         | node 1 leads t-1 epoch 1, ends at 0\n\
         | node 1 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         another coordinates\n\
         b hears: the connection broke\n\
         a to 1: sync: ILLEGAL_GENERATION\n\
         a to 1: commit(6): ILLEGAL_GENERATION\n\
         b to 1: commit(7): UNKNOWN_MEMBER_ID\n\
         | node 1 groups of 0: RebalanceBegan(LeaderRejoined)\n\
         a to 1: join: leads generation 2 of 1\n\
         | node 1 groups of 0: Rebalanced { members: 1 }\n\
         a to 1: sync: yes\n\
         a to 1: fetch: 5\n"
    );
}

#[test]
fn when_all_have_their_parts() {
    let mut group = two();
    group.call("a", 0, Call::Join);
    group.heard("b");
    group.call("a", 0, Call::Sync);
    group.call("b", 0, Call::Sync);
    let next = group.lose_coordinator();
    group.call("a", next, Call::Beat);
    group.call("b", next, Call::Beat);
    group.call("b", next, Call::Commit(6));
    group.of_caller("a", |caller| caller.generation = 1);
    group.call("a", next, Call::Commit(7));
    group.call("a", next, Call::Fetch);
    assert_eq!(
        group.told(),
        "\
         a to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: join: leads generation 1 of 1\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         a to 0: sync: yes\n\
         a to 0: commit(5): yes\n\
         b to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 0: join: waits\n\
         a to 0: join: leads generation 2 of 2\n\
         b hears: is in generation 2\n\
         | node 0 groups of 0: Rebalanced { members: 2 }\n\
         a to 0: sync: yes\n\
         b to 0: sync: yes\n\
         0 is killed\n\
         | node 1 leads __consumer_offsets-0 epoch 2, ends at 3\n\
         | node 1 leads t-0 epoch 1, ends at 0\n\
         | node 1 leads t-1 epoch 1, ends at 0\n\
         | node 1 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         another coordinates\n\
         a to 1: beat: yes\n\
         b to 1: beat: yes\n\
         b to 1: commit(6): yes\n\
         a to 1: commit(7): ILLEGAL_GENERATION\n\
         a to 1: fetch: 6\n"
    );
}
