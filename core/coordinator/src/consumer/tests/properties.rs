//! Whatever members do and whatever is lost: no partition has two readers, epochs do not go back, and once it is quiet
//! every partition has one.

use std::collections::BTreeMap;

use base::{PartitionIndex, TopicId};
use proptest::prelude::*;

use super::super::*;
use super::stage::Stage;
use crate::assign::Partitions;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const TOPICS: [&str; 3] = ["t", "u", "v"];

#[derive(Debug, Clone)]
enum Step {
    /// A member comes, static or not, that wants these topics or a pattern.
    Join(usize, u8, bool),
    Beat(usize),
    /// It gives nothing back.
    SlowBeat(usize),
    /// The answer is lost.
    LostBeat(usize),
    /// It wants something else.
    Subscribe(usize, u8),
    Leave(usize),
    /// It stops without a word.
    Crash(usize),
    Wait(u64),
    Grow(usize),
    Delete(usize),
    Reload,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let member = 0..NAMES.len();
    let step = prop_oneof![
        3 => (member.clone(), 0..9u8, any::<bool>()).prop_map(|(at, wish, is_static)| Step::Join(at, wish, is_static)),
        8 => member.clone().prop_map(Step::Beat),
        4 => member.clone().prop_map(Step::SlowBeat),
        3 => member.clone().prop_map(Step::LostBeat),
        1 => (member.clone(), 0..9u8).prop_map(|(at, wish)| Step::Subscribe(at, wish)),
        1 => member.clone().prop_map(Step::Leave),
        1 => member.prop_map(Step::Crash),
        4 => (1..15_000u64).prop_map(Step::Wait),
        1 => (0..TOPICS.len()).prop_map(Step::Grow),
        1 => (0..TOPICS.len()).prop_map(Step::Delete),
        1 => Just(Step::Reload),
    ];
    proptest::collection::vec(step, 1..60)
}

/// Topics by the bits of a number; 8 is a pattern.
fn wish(number: u8) -> (Vec<String>, Option<String>) {
    match number {
        8 => (Vec::new(), Some("[tu]".into())),
        0 => (vec![TOPICS[0].into()], Some(String::new())),
        bits => {
            let named = (0..TOPICS.len()).filter(|at| bits & (1 << at) != 0);
            (named.map(|at| TOPICS[at].into()).collect(), Some(String::new()))
        }
    }
}

/// Who reads what by what they were told, and how far the epochs are.
#[derive(Default)]
struct Watch {
    told: BTreeMap<String, Partitions>,
    group_epoch: i32,
    target_epoch: i32,
    member_epochs: BTreeMap<String, i32>,
}

impl Watch {
    /// What a member has by what it was told, after it was heard.
    fn heard(&mut self, stage: &Stage, name: &str) {
        let client = &stage.clients[name];
        self.told.insert(name.to_owned(), client.owned.clone());
        if client.epoch == 0 {
            self.member_epochs.remove(name);
        } else if let Some(before) = self.member_epochs.insert(name.to_owned(), client.epoch) {
            assert!(before <= client.epoch, "the epoch of {name} goes back: {}", stage.shown());
        }
    }

    fn gone(&mut self, name: &str) {
        self.told.remove(name);
        self.member_epochs.remove(name);
    }

    fn check(&mut self, stage: &Stage) {
        let mut owners: BTreeMap<(TopicId, PartitionIndex), &str> = BTreeMap::new();
        for (name, of) in &self.told {
            for (topic, index) in of.iter().flat_map(|(topic, of)| of.iter().map(|index| (*topic, *index))) {
                if let Some(other) = owners.insert((topic, index), name) {
                    panic!("{other} and {name} both have {topic}-{index}: {}", stage.shown());
                }
            }
        }
        let state = &stage.group.state;
        assert!(state.group_epoch >= self.group_epoch && state.target_epoch >= self.target_epoch);
        assert!(state.target_epoch <= state.group_epoch);
        (self.group_epoch, self.target_epoch) = (state.group_epoch, state.target_epoch);
    }
}

fn play(steps: &[Step], interval_ms: u64) {
    let mut stage = Stage::with(&[("t", 3), ("u", 2)]);
    stage.settings.assignment_interval = Duration::from_millis(interval_ms);
    let mut watch = Watch::default();
    for step in steps {
        take(&mut stage, &mut watch, step);
        watch.check(&stage);
    }
    if stage.clients.is_empty() {
        return;
    }
    // Whoever crashed is out by then.
    for _ in 0..60 {
        for name in stage.clients.keys().cloned().collect::<Vec<_>>() {
            stage.beat(&name);
            watch.heard(&stage, &name);
        }
        for fenced in stage.wait(1000) {
            watch.gone(&fenced.member);
        }
        watch.check(&stage);
    }
    stage.settle();
    stage.reload();
    assert_eq!(stage.group.state(), GroupState::Stable, "{}", stage.shown());
    let mut given = 0;
    for client in stage.clients.values() {
        given += client.owned.values().map(std::collections::BTreeSet::len).sum::<usize>();
    }
    let wanted = stage.image.topics().filter(|topic| stage.group.is_subscribed(topic.name.as_str()));
    assert_eq!(given, wanted.map(|topic| topic.partitions().len()).sum::<usize>(), "{}", stage.shown());
}

fn take(stage: &mut Stage, watch: &mut Watch, step: &Step) {
    let is_there = |stage: &Stage, at: usize| stage.clients.contains_key(NAMES[at]);
    match *step {
        Step::Join(at, number, is_static) if !is_there(stage, at) => {
            let (topics, regex) = wish(number);
            let client = stage.client(NAMES[at], &[]);
            (client.topics, client.regex) = (topics, regex);
            client.instance = is_static.then(|| format!("i{at}"));
            stage.beat(NAMES[at]);
            watch.heard(stage, NAMES[at]);
        }
        Step::Beat(at) if is_there(stage, at) => {
            stage.beat(NAMES[at]);
            watch.heard(stage, NAMES[at]);
        }
        Step::SlowBeat(at) if is_there(stage, at) => {
            stage.slow_beat(NAMES[at]);
            watch.heard(stage, NAMES[at]);
        }
        Step::LostBeat(at) if is_there(stage, at) => {
            stage.lost_beat(NAMES[at]);
            watch.told.insert(NAMES[at].into(), stage.clients[NAMES[at]].owned.clone());
        }
        Step::Subscribe(at, number) if is_there(stage, at) => {
            let client = stage.clients.get_mut(NAMES[at]).expect("it is there");
            (client.topics, client.regex) = wish(number);
            client.unsure = true;
        }
        Step::Leave(at) if is_there(stage, at) => {
            let is_static = stage.clients[NAMES[at]].instance.is_some();
            drop(stage.leave(NAMES[at], if is_static { EPOCH_LEFT_STATIC } else { EPOCH_LEAVE }));
            watch.gone(NAMES[at]);
        }
        Step::Crash(at) => {
            // It reads no more, whatever the group thinks.
            stage.clients.remove(NAMES[at]);
            watch.gone(NAMES[at]);
        }
        Step::Wait(ms) => {
            for fenced in stage.wait(ms) {
                // It is told so when it is heard the next time; until then it has what it had, but stops by itself.
                watch.gone(&fenced.member);
                if let Some(client) = stage.clients.get_mut(&*fenced.member) {
                    client.assigned = Partitions::new();
                    client.owned = Partitions::new();
                }
            }
        }
        Step::Grow(at) => {
            let partitions = stage.image.topic(TOPICS[at]).map_or(0, |topic| topic.partitions().len());
            stage.create(TOPICS[at], i32::try_from(partitions).expect("few") + 1);
        }
        Step::Delete(at) if stage.image.topic(TOPICS[at]).is_some() => stage.delete(TOPICS[at]),
        Step::Reload => stage.reload(),
        _ => (),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_partition_has_two_readers_and_in_the_end_each_has_one(steps in steps(), interval in 0..3000u64) {
        play(&steps, interval);
    }
}
