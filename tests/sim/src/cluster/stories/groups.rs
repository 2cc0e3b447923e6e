//! Groups: members that are fenced, late or lost, and coordinators that are.

mod epochs;
mod lost;
mod turning;

use std::time::Duration;

use base::{BrokerId, PartitionIndex};
use broker::groups::OFFSETS_TOPIC;
use coordinator::ShardSettings;

use super::Story;
use crate::cluster::client::Client;
use crate::cluster::client::caller::{Call, Caller};
use crate::cluster::options::Options;
use crate::cluster::quorum::node_of;
use crate::cluster::world::World;

/// How long nothing is heard of an answer until it is said to be awaited, in milliseconds.
const AWAITED_MS: u64 = 300;

struct GroupStory {
    story: Story,
    names: Vec<(&'static str, usize)>,
}

impl GroupStory {
    fn new() -> Self {
        Self::of(Options::quiet_with_groups())
    }

    /// Three nodes with one partition that keeps all groups; node 0 leads it, the controller is at node 2.
    fn of(options: Options) -> Self {
        let mut story = Story::of(options, 2);
        story.key = {
            let image = story.world.quorum.image();
            (image.topic(OFFSETS_TOPIC).expect("it was made").id, PartitionIndex(0))
        };
        let key = story.key;
        story.until("0 coordinates", |world| coordinator(world) == Some(0) && isr(world, key) == 3);
        story.text.clear();
        Self { story, names: Vec::new() }
    }

    /// `a` is alone in its first generation and has committed 5; somebody else is introduced.
    fn begun(other: &'static str) -> Self {
        let mut group = Self::new();
        group.caller("a", None);
        group.caller(other, None);
        group.join("a", 0);
        group.call("a", 0, Call::Sync);
        group.call("a", 0, Call::Commit(5));
        group
    }

    fn caller(&mut self, name: &'static str, instance_id: Option<&'static str>) {
        let client = self.story.world.clients.len();
        self.story.world.add_client(Client::Caller(Caller::new(client, instance_id)));
        self.names.push((name, client));
    }

    fn client(&self, name: &str) -> usize {
        self.names.iter().find(|(it, _)| *it == name).expect("it was introduced").1
    }

    fn of_caller<R>(&mut self, name: &str, act: impl FnOnce(&mut Caller) -> R) -> R {
        let client = self.client(name);
        match &mut self.story.world.clients[client] {
            Client::Caller(caller) => act(caller),
            _ => unreachable!("it was put there"),
        }
    }

    /// Asks, and says what came of it within a moment.
    fn call(&mut self, name: &'static str, to: usize, call: Call) {
        let what = format!("{call:?}").to_lowercase();
        self.of_caller(name, |caller| caller.call(to, call));
        let client = self.client(name);
        self.story.world.client(client, |client, now_us, acts| client.step(now_us, acts));
        self.story.pass(AWAITED_MS);
        let heard = self.of_caller(name, |caller| caller.heard.take());
        let heard = heard.unwrap_or_else(|| "waits".to_owned());
        self.story.say(format!("{name} to {to}: {what}: {heard}"));
    }

    /// What somebody who waited is told in the end.
    fn heard(&mut self, name: &'static str) {
        let end = self.story.world.now_us + 40_000_000;
        let mut heard = None;
        while heard.is_none() && self.story.world.now_us < end {
            self.story.pass(10);
            heard = self.of_caller(name, |caller| caller.heard.take());
        }
        self.story.say(format!("{name} hears: {}", heard.unwrap_or_else(|| "nothing".to_owned())));
    }

    /// It comes into the group: first it is given its id.
    fn join(&mut self, name: &'static str, to: usize) {
        if self.of_caller(name, |caller| caller.member_id.is_empty()) {
            self.call(name, to, Call::Join);
        }
        self.call(name, to, Call::Join);
    }

    /// The coordinator is killed; the node that takes over.
    fn lose_coordinator(&mut self) -> usize {
        let before = coordinator(&self.story.world).expect("somebody coordinates");
        self.story.down(before, true);
        self.story
            .until("another coordinates", |world| coordinator(world).is_some_and(|node| node != before));
        coordinator(&self.story.world).expect("it was waited for")
    }

    /// What was told, but for how long rebalances took.
    fn told(&self) -> String {
        let short = |line: &str| match line.split_once(", took: ") {
            Some((before, _)) => format!("{before} }}\n"),
            None => format!("{line}\n"),
        };
        self.story.text.lines().map(short).collect()
    }
}

fn isr(world: &World, key: crate::cluster::process::PartitionKey) -> usize {
    super::isr(world, key)
}

/// The node whose shard answers.
fn coordinator(world: &World) -> Option<usize> {
    let image = world.quorum.image();
    let topic = image.topic(OFFSETS_TOPIC)?;
    let leader = topic.partition(PartitionIndex(0))?.leader;
    let node = (leader != BrokerId::NONE).then(|| node_of(leader))?;
    let shards = world.nodes[node].process.as_ref()?.shards();
    shards.iter().any(|shard| shard.with(coordinator::Shard::is_active)).then_some(node)
}

/// A member of an earlier generation commits in vain, and what was committed stays.
#[test]
fn a_commit_of_an_earlier_generation_is_refused() {
    let mut group = GroupStory::begun("b");
    group.join("b", 0);
    group.call("a", 0, Call::Beat);
    group.call("a", 0, Call::Commit(6));
    group.call("a", 0, Call::Join);
    group.heard("b");
    group.call("a", 0, Call::Commit(7));
    group.call("a", 0, Call::Sync);
    group.of_caller("a", |caller| caller.generation -= 1);
    group.call("a", 0, Call::Commit(8));
    group.call("a", 0, Call::Beat);
    group.call("b", 0, Call::Fetch);
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
         a to 0: beat: REBALANCE_IN_PROGRESS\n\
         a to 0: commit(6): yes\n\
         a to 0: join: leads generation 2 of 2\n\
         b hears: is in generation 2\n\
         a to 0: commit(7): REBALANCE_IN_PROGRESS\n\
         | node 0 groups of 0: Rebalanced { members: 2 }\n\
         a to 0: sync: yes\n\
         a to 0: commit(8): ILLEGAL_GENERATION\n\
         a to 0: beat: ILLEGAL_GENERATION\n\
         b to 0: fetch: 6\n"
    );
}

/// A member with a place of its own is fenced once another came with the same name (KIP-345). This one leads and has
/// assigned nothing of what there is, so all is assigned anew.
#[test]
fn who_has_the_name_of_another_takes_its_place() {
    let mut group = GroupStory::new();
    group.caller("a", Some("i"));
    group.caller("z", Some("i"));
    group.call("a", 0, Call::Join);
    group.call("a", 0, Call::Sync);
    group.call("a", 0, Call::Commit(5));
    // It learns its id once that is written.
    group.call("z", 0, Call::Join);
    group.call("z", 0, Call::Join);
    group.call("a", 0, Call::Commit(6));
    group.call("a", 0, Call::Beat);
    group.call("z", 0, Call::Sync);
    group.call("z", 0, Call::Commit(7));
    let next = group.lose_coordinator();
    group.call("a", next, Call::Commit(8));
    group.call("z", next, Call::Fetch);
    assert_eq!(
        group.told(),
        "\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: join: leads generation 1 of 1\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         a to 0: sync: yes\n\
         a to 0: commit(5): yes\n\
         | node 0 groups of 0: RebalanceBegan(MemberChanged)\n\
         z to 0: join: MEMBER_ID_REQUIRED\n\
         z to 0: join: leads generation 2 of 1\n\
         a to 0: commit(6): FENCED_INSTANCE_ID\n\
         a to 0: beat: FENCED_INSTANCE_ID\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         z to 0: sync: yes\n\
         z to 0: commit(7): yes\n\
         0 is killed\n\
         | node 1 leads __consumer_offsets-0 epoch 2, ends at 5\n\
         | node 1 leads t-0 epoch 1, ends at 0\n\
         | node 1 leads t-1 epoch 1, ends at 0\n\
         | node 1 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         another coordinates\n\
         a to 1: commit(8): FENCED_INSTANCE_ID\n\
         z to 1: fetch: 7\n"
    );
}

/// R13, KIP-211: offsets do not grow old while there are members, and do once the last has left; a coordinator that
/// takes over goes on counting where the last one was.
#[test]
fn r13_offsets_do_not_grow_old_under_a_group_that_lives() {
    let quiet = Options::quiet_with_groups();
    let shards = ShardSettings {
        offsets_retention: Duration::from_secs(4),
        offsets_retention_check_interval: Duration::from_millis(500),
        ..quiet.shards.clone()
    };
    let mut group = GroupStory::of(Options { shards, ..quiet });
    group.caller("a", None);
    group.join("a", 0);
    group.call("a", 0, Call::Sync);
    group.call("a", 0, Call::Commit(5));
    group.story.pass(8_000);
    group.story.say("8 s later");
    group.call("a", 0, Call::Fetch);
    group.call("a", 0, Call::Leave);
    group.story.pass(2_000);
    group.story.say("2 s later");
    group.call("a", 0, Call::Fetch);
    let next = group.lose_coordinator();
    group.call("a", next, Call::Fetch);
    group.story.pass(4_000);
    group.story.say("4 s later");
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
         8 s later\n\
         a to 0: fetch: 5\n\
         | node 0 groups of 0: RebalanceBegan(MemberLeft)\n\
         a to 0: leave: yes\n\
         2 s later\n\
         a to 0: fetch: 5\n\
         0 is killed\n\
         | node 1 leads __consumer_offsets-0 epoch 2, ends at 3\n\
         | node 1 leads t-0 epoch 1, ends at 0\n\
         | node 1 leads t-1 epoch 1, ends at 0\n\
         | node 1 coordinates __consumer_offsets-0 with 1 groups, 1 offsets\n\
         another coordinates\n\
         a to 1: fetch: 5\n\
         | node 1 groups of 0: OffsetsExpired(1)\n\
         4 s later\n\
         a to 1: fetch: -1\n"
    );
}

/// The member that leads is lost while all join.
#[test]
fn the_leader_is_lost_while_all_join() {
    let mut group = GroupStory::new();
    group.caller("a", None);
    group.caller("b", None);
    group.of_caller("a", |caller| caller.patience_ms = (30_000, 3_000));
    group.of_caller("b", |caller| caller.patience_ms = (30_000, 3_000));
    group.join("a", 0);
    group.call("a", 0, Call::Sync);
    group.join("b", 0);
    group.heard("b");
    group.call("b", 0, Call::Sync);
    group.call("b", 0, Call::Commit(3));
    group.call("a", 0, Call::Commit(4));
    assert_eq!(
        group.told(),
        "\
         a to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: join: leads generation 1 of 1\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         a to 0: sync: yes\n\
         b to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 0: join: waits\n\
         | node 0 groups of 0: MembersExpelled(1)\n\
         b hears: leads generation 2 of 1\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         b to 0: sync: yes\n\
         b to 0: commit(3): yes\n\
         a to 0: commit(4): UNKNOWN_MEMBER_ID\n"
    );
}

/// The member that leads is lost before it assigns.
#[test]
fn the_leader_is_lost_before_it_assigns() {
    let mut group = GroupStory::new();
    group.caller("a", None);
    group.caller("b", None);
    group.of_caller("a", |caller| caller.patience_ms = (2_000, 3_000));
    group.of_caller("b", |caller| caller.patience_ms = (30_000, 3_000));
    group.join("a", 0);
    group.call("a", 0, Call::Sync);
    group.join("b", 0);
    group.call("a", 0, Call::Join);
    group.heard("b");
    group.call("b", 0, Call::Sync);
    group.heard("b");
    group.call("b", 0, Call::Join);
    group.call("b", 0, Call::Sync);
    assert_eq!(
        group.told(),
        "\
         a to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: join: leads generation 1 of 1\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         a to 0: sync: yes\n\
         b to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 0: join: waits\n\
         a to 0: join: leads generation 2 of 2\n\
         b hears: is in generation 2\n\
         b to 0: sync: waits\n\
         | node 0 groups of 0: MembersExpelled(1)\n\
         | node 0 groups of 0: RebalanceBegan(SessionExpired)\n\
         b hears: REBALANCE_IN_PROGRESS\n\
         b to 0: join: leads generation 3 of 1\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         b to 0: sync: yes\n"
    );
}

/// The member that leads is lost when all have their parts.
#[test]
fn the_leader_is_lost_when_all_have_their_parts() {
    let mut group = GroupStory::new();
    group.caller("a", None);
    group.caller("b", None);
    group.of_caller("a", |caller| caller.patience_ms = (3_000, 3_000));
    group.of_caller("b", |caller| caller.patience_ms = (30_000, 3_000));
    group.join("a", 0);
    group.call("a", 0, Call::Sync);
    group.join("b", 0);
    group.call("a", 0, Call::Join);
    group.heard("b");
    group.call("b", 0, Call::Sync);
    group.call("a", 0, Call::Sync);
    group.heard("b");
    group.call("b", 0, Call::Beat);
    group.story.pass(3_500);
    group.call("b", 0, Call::Beat);
    group.call("b", 0, Call::Join);
    group.call("b", 0, Call::Sync);
    group.call("a", 0, Call::Beat);
    assert_eq!(
        group.told(),
        "\
         a to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         a to 0: join: leads generation 1 of 1\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         a to 0: sync: yes\n\
         b to 0: join: MEMBER_ID_REQUIRED\n\
         | node 0 groups of 0: RebalanceBegan(MemberJoined)\n\
         b to 0: join: waits\n\
         a to 0: join: leads generation 2 of 2\n\
         b hears: is in generation 2\n\
         b to 0: sync: waits\n\
         | node 0 groups of 0: Rebalanced { members: 2 }\n\
         a to 0: sync: yes\n\
         b hears: yes\n\
         b to 0: beat: yes\n\
         | node 0 groups of 0: MembersExpelled(1)\n\
         | node 0 groups of 0: RebalanceBegan(SessionExpired)\n\
         b to 0: beat: REBALANCE_IN_PROGRESS\n\
         b to 0: join: leads generation 3 of 1\n\
         | node 0 groups of 0: Rebalanced { members: 1 }\n\
         b to 0: sync: yes\n\
         a to 0: beat: UNKNOWN_MEMBER_ID\n"
    );
}

/// The coordinator is lost with a commit that it did not live to answer: the next has it, does not know whether it is
/// committed, and tells of it as soon as it is, although nobody writes anything after it.
#[test]
fn the_next_coordinator_tells_of_a_commit_once_it_is_committed() {
    let mut group = GroupStory::begun("z");
    group.story.cut(0, 2);
    group.call("a", 0, Call::Commit(6));
    group.story.cut(1, 2);
    group.story.down(0, true);
    group.story.mend();
    group.story.until("1 coordinates", |world| coordinator(world) == Some(1));
    group.call("z", 1, Call::Fetch);
    let told = group.told();
    assert!(told.contains("a to 0: commit(6): waits\n"), "{told}");
    assert!(told.ends_with("1 coordinates\nz to 1: fetch: 6\n"), "{told}");
}

/// A coordinator that sees no other node, but clients, cannot know that another has its place. It says nothing of what
/// is committed, since that may be old: who asks waits for it to hear, and is told to ask again if it does not.
#[test]
fn a_coordinator_that_may_have_been_replaced_does_not_tell_how_far_a_group_came() {
    let mut group = GroupStory::begun("z");
    group.call("z", 0, Call::Fetch);
    group.story.cut(0, 1);
    group.story.cut(0, 2);
    group.story.until("1 coordinates", |world| coordinator(world) == Some(1));
    group.call("a", 1, Call::Commit(6));
    group.call("z", 0, Call::Fetch);
    group.heard("z");
    group.call("z", 1, Call::Fetch);
    let told = group.told();
    assert!(told.contains("a to 0: commit(5): yes\nz to 0: fetch: 5\n"), "{told}");
    let after = "a to 1: commit(6): yes\nz to 0: fetch: waits\nz hears: COORDINATOR_LOAD_IN_PROGRESS\n\
                 z to 1: fetch: 6\n";
    assert!(told.ends_with(after), "{told}");
}
