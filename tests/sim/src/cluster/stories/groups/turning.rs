//! Groups that turn from one protocol to the other while they are read (KIP-848), and lose their coordinator then.

use super::GroupStory;
use super::epochs::quiet;
use crate::cluster::client::caller::Call;

#[test]
fn a_group_of_both_protocols_loses_its_coordinator_each_time_that_it_turns() {
    let mut group = GroupStory::of(quiet());
    group.caller("a", None);
    group.caller("b", None);
    group.join("a", 0);
    group.call("a", 0, Call::Sync);
    group.call("a", 0, Call::Commit(5));
    group.call("b", 0, Call::Have(&[]));
    let next = group.lose_coordinator();
    group.call("a", next, Call::Beat);
    group.call("a", next, Call::Commit(6));
    group.call("a", next, Call::Join);
    group.call("a", next, Call::Sync);
    group.call("b", next, Call::Have(&[]));
    group.call("a", next, Call::Commit(7));
    group.call("b", next, Call::Go);
    group.story.back(0);
    let key = group.story.key;
    group.story.until("0 is in sync", |world| super::isr(world, key) == 3);
    let last = group.lose_coordinator();
    group.call("a", last, Call::Beat);
    group.call("a", last, Call::Join);
    group.call("a", last, Call::Sync);
    group.call("a", last, Call::Commit(9));
    group.call("a", last, Call::Fetch);
    assert_eq!(
        group.told(),
        "\
         a to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: join: leads generation 1 of 1\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         a to 0: sync: yes\n\
         a to 0: commit(5): yes\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 0: have([]): epoch 2, gets [1]\n\
         0 is killed\n\
         | node 1 leads __consumer_offsets-0 epoch 2, ends at 14\n\
         | node 1 leads t-0 epoch 1, ends at 0\n\
         | node 1 leads t-1 epoch 1, ends at 0\n\
         | node 1 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         another coordinates\n\
         a to 1: beat: REBALANCE_IN_PROGRESS\n\
         a to 1: commit(6): yes\n\
         a to 1: join: is in generation 2\n\
         a to 1: sync: yes\n\
         b to 1: have([]): epoch 2\n\
         a to 1: commit(7): yes\n\
         | node 1 groups of 0: RebalanceBegan(MemberLeft)\n\
         b to 1: go: epoch -1\n\
         0 comes back\n\
         | node 0 opens __consumer_offsets-0 0..14, committed to 0, epochs [(1, 0)]\n\
         | node 0 opens t-0 0..0, committed to 0, epochs []\n\
         | node 0 opens t-1 0..0, committed to 0, epochs []\n\
         0 is in sync\n\
         1 is killed\n\
         | node 0 leads __consumer_offsets-0 epoch 3, ends at 26\n\
         | node 0 leads t-0 epoch 2, ends at 0\n\
         | node 0 leads t-1 epoch 2, ends at 0\n\
         | node 0 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         | node 0 groups of 0: RebalanceBegan(MemberLeft)\n\
         another coordinates\n\
         a to 0: beat: REBALANCE_IN_PROGRESS\n\
         a to 0: join: leads generation 3 of 1\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         a to 0: sync: yes\n\
         a to 0: commit(9): yes\n\
         a to 0: fetch: 9\n"
    );
}
