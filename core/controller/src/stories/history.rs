//! Random histories, with a model of what the replicas have: whatever happens, whoever is elected in good
//! order has all that was committed.
//!
//! The model gives each replica a number of records, and each partition how many of them are committed: as
//! many as everybody in sync has, while enough are in sync. A power cut takes some away from what a broker
//! does not vouch for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, PartitionIndex, TopicId};
use metadata::{ConfigResource, Image, Partition};
use proptest::prelude::*;

use super::super::*;
use super::stage::{Stage, again, registration};

const BROKERS: i32 = 4;
const STEPS: usize = 120;

type Key = (TopicId, PartitionIndex);

#[derive(Debug, Default)]
struct Ghost {
    committed: u64,
    epoch: LeaderEpoch,
    has: BTreeMap<BrokerId, u64>,
}

struct History {
    stage: Stage,
    seed: u64,
    up: BTreeSet<i32>,
    /// Who stopped in good order.
    closed: BTreeSet<i32>,
    lives: u8,
    names: u32,
    ghosts: BTreeMap<Key, Ghost>,
}

impl History {
    fn new(seed: u64) -> Self {
        let brokers: Vec<i32> = (1..=BROKERS).collect();
        let stage = Stage::with(&brokers);
        let up = brokers.into_iter().collect();
        let (closed, ghosts) = (BTreeSet::new(), BTreeMap::new());
        let mut history = Self { stage, seed, up, closed, lives: 100, names: 0, ghosts };
        (0..3).for_each(|_| history.create());
        history
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) % bound
    }

    fn broker(&mut self) -> i32 {
        1 + self.below(BROKERS as u64) as i32
    }

    fn some_replicas(&mut self) -> Vec<i32> {
        let mut ids: Vec<i32> = (1..=BROKERS).collect();
        let len = 1 + self.below(3) as usize;
        (0..len).map(|_| ids.remove(self.below(ids.len() as u64) as usize)).collect()
    }

    fn some_partition(&mut self) -> Option<(String, i32)> {
        let topics: Vec<(String, usize)> = self
            .stage
            .image()
            .topics()
            .map(|topic| (topic.name.to_string(), topic.partitions().len()))
            .collect();
        let at = self.below(topics.len().max(1) as u64) as usize;
        let (name, len) = topics.get(at)?.clone();
        Some((name, self.below(len as u64) as i32))
    }

    fn create(&mut self) {
        self.names += 1;
        let assignments = [self.some_replicas()];
        let usable = |id: &i32| {
            let image = self.stage.image();
            image.broker(BrokerId(*id)).is_some_and(|it| !it.fenced && !it.in_controlled_shutdown)
        };
        let registered = |id: &i32| self.stage.image().broker(BrokerId(*id)).is_some();
        if assignments[0].iter().any(usable) && assignments[0].iter().all(registered) {
            let min = (1 + self.below(3)).to_string();
            self.stage.topic(&format!("t{}", self.names), &[&assignments[0]], &min);
        }
    }

    fn step(&mut self) {
        match self.below(16) {
            0 => {
                let id = self.broker();
                self.up.remove(&id);
            }
            1 => self.stop(),
            2..=4 => self.start(),
            5 | 6 => self.pass(),
            7 | 8 => (0..6).for_each(|_| self.alter_isr()),
            9 => self.reassign(),
            10 => self.elect(),
            11 => self.set_minimum(),
            12 => self.change_controller(),
            13 => {
                if self.below(3) == 0 {
                    self.delete();
                }
                self.create();
            }
            14 if self.below(4) == 0 => self.unregister(),
            _ => self.replicate(),
        }
        self.check();
        self.replicate();
    }

    fn stop(&mut self) {
        let id = self.broker();
        if !self.up.contains(&id) {
            return;
        }
        for _ in 0..3 {
            let stopping = BrokerHeartbeat { wants_shutdown: true, ..self.stage.heartbeat(id) };
            if self.stage.beat(stopping).should_shut_down {
                self.closed.insert(id);
                break;
            }
            let others: Vec<i32> = self.up.iter().copied().filter(|other| *other != id).collect();
            for other in others {
                self.stage.hear(other);
            }
        }
        self.up.remove(&id);
    }

    fn start(&mut self) {
        let id = self.broker();
        if self.up.contains(&id) {
            return;
        }
        self.lives += 1;
        let broker = again(id, self.lives);
        let known = self.stage.image().broker(BrokerId(id)).map(|broker| broker.epoch);
        let command = if self.closed.remove(&id) {
            RegisterBroker { previous_epoch: known, ..broker }
        } else {
            let in_doubt = self.lose_power(BrokerId(id));
            RegisterBroker { after_crash: true, in_doubt, ..broker }
        };
        self.stage.run(Command::RegisterBroker(command)).expect("it may");
        self.check();
        if self.below(4) != 0 {
            self.stage.hear(id);
        }
        self.up.insert(id);
    }

    /// A broker finds less than it had, and says of what.
    fn lose_power(&mut self, id: BrokerId) -> InDoubt {
        let keys: Vec<Key> = self.ghosts.keys().copied().collect();
        let mut listed = Vec::new();
        for key in keys {
            let (is_lost, part) = (self.below(2) == 0, self.below(100));
            if let Some(has) = self.ghosts.get_mut(&key).and_then(|ghost| ghost.has.get_mut(&id))
                && is_lost
            {
                *has = *has * part / 100;
                listed.push(key);
            }
        }
        let doubts_all = self.below(4) == 0;
        if doubts_all { InDoubt::Everything } else { InDoubt::Partitions(listed) }
    }

    fn pass(&mut self) {
        let heard: Vec<i32> = self.up.iter().copied().collect();
        self.stage.pass(Duration::from_millis(2_500), &heard);
    }

    /// A leader that lives takes in who has all of it, and lets go of some who have not.
    fn alter_isr(&mut self) {
        let Some((name, index)) = self.some_partition() else { return };
        let partition = self.stage.partition(&name, index).clone();
        let topic = self.stage.image().topic(&name).expect("it was found").id;
        if !self.leads(&partition) {
            return;
        }
        let drops = self.below(3) == 0;
        let Some(ghost) = self.ghosts.get(&(topic, partition.index)) else { return };
        let of = |id: &BrokerId| ghost.has.get(id).copied().unwrap_or(0);
        let stays = |id: &&BrokerId| {
            let has_all = of(id) >= of(&partition.leader);
            **id == partition.leader
                || (has_all && self.up.contains(&id.0) && !drops)
                || (partition.isr.contains(id) && !drops)
        };
        let isr: Vec<i32> = partition.replicas.iter().filter(stays).map(|id| id.0).collect();
        let registered = isr.iter().all(|id| self.stage.image().broker(BrokerId(*id)).is_some());
        if registered {
            // Refusals are as good a step as any.
            let _ = self.stage.alter(&name, index, &isr);
        }
    }

    /// Whether a partition's leader lives and acts as one.
    fn leads(&self, partition: &Partition) -> bool {
        let broker = self.stage.image().broker(partition.leader);
        self.up.contains(&partition.leader.0) && broker.is_some_and(|broker| !broker.fenced)
    }

    fn reassign(&mut self) {
        let Some((name, index)) = self.some_partition() else { return };
        let target = self.some_replicas();
        let target = (self.below(4) != 0).then_some(&target[..]);
        let _ = self.stage.reassign(&name, index, target);
    }

    fn elect(&mut self) {
        let Some((name, index)) = self.some_partition() else { return };
        let kind = if self.below(6) == 0 { ElectionKind::Unclean } else { ElectionKind::Preferred };
        let _ = self.stage.elect(kind, &name, index);
    }

    fn set_minimum(&mut self) {
        let Some((name, _)) = self.some_partition() else { return };
        let minimum = (1 + self.below(3)).to_string();
        self.stage.set(&name, "min.insync.replicas", &minimum);
    }

    /// The controller changes while something is on its way, which may be committed or not.
    fn change_controller(&mut self) {
        self.stage.is_slow = true;
        let heard: Vec<i32> = self.up.iter().copied().collect();
        self.stage.pass_slowly(Duration::from_millis(2_500), &heard);
        let committed = self.below(3);
        for _ in 0..committed {
            self.stage.commit_one();
        }
        let epoch = LeaderEpoch(self.stage.epoch.0 + 1);
        self.stage.tell(QuorumEvent::Following { epoch, leader: None });
        self.stage.proposed.clear();
        self.stage.epoch = epoch;
        self.stage.is_slow = false;
        self.stage.tell(QuorumEvent::Elected { epoch });
        self.stage.answers.clear();
    }

    fn delete(&mut self) {
        let Some((name, _)) = self.some_partition() else { return };
        let topics = vec![TopicKey::Name(name)];
        self.stage.run(Command::DeleteTopics(DeleteTopics { topics })).expect("it runs");
    }

    fn unregister(&mut self) {
        let id = self.broker();
        if self.up.contains(&id) || self.stage.image().broker(BrokerId(id)).is_none() {
            return;
        }
        let gone = UnregisterBroker { id: BrokerId(id) };
        self.stage.run(Command::UnregisterBroker(gone)).expect("it is known");
        self.check();
        // It comes back with new disks, as whoever takes its number.
        for ghost in self.ghosts.values_mut() {
            ghost.has.insert(BrokerId(id), 0);
        }
        let everything = RegisterBroker { in_doubt: InDoubt::Everything, ..registration(id) };
        self.lives += 1;
        self.stage.come(&RegisterBroker { incarnation: again(id, self.lives).incarnation, ..everything });
        self.closed.remove(&id);
        self.up.insert(id);
    }

    /// Records are written, followers fetch, and what enough have is committed.
    fn replicate(&mut self) {
        let partitions: Vec<(Key, Partition, usize)> = all(self.stage.image());
        for (key, partition, minimum) in partitions {
            if !self.leads(&partition) {
                continue;
            }
            let (written, lag) = (self.below(3), self.below(3));
            let Some(ghost) = self.ghosts.get_mut(&key) else { continue };
            let end = ghost.has.entry(partition.leader).or_insert(0);
            *end += written;
            let end = *end;
            for id in partition.replicas.iter().filter(|id| **id != partition.leader) {
                if self.up.contains(&id.0) {
                    let has = ghost.has.entry(*id).or_insert(0);
                    *has = end.saturating_sub(lag).max((*has).min(end));
                }
            }
            ghost.commit(&partition, minimum);
        }
    }

    fn check(&mut self) {
        let partitions = all(self.stage.image());
        let there: BTreeSet<Key> = partitions.iter().map(|(key, ..)| *key).collect();
        self.ghosts.retain(|key, _| there.contains(key));
        for (key, partition, _) in partitions {
            let ghost = self.ghosts.entry(key).or_default();
            ghost.check(&partition);
        }
        self.check_replay();
    }

    fn check_replay(&self) {
        let image = self.stage.image();
        let (replayed, _) = Image::default().after(&self.stage.log, image.end());
        assert_eq!(&replayed, image, "the image is nothing but the replay of all records");
        let snapshot: Vec<_> = image.to_records().collect();
        let (restored, _) = Image::default().after(&snapshot, image.end());
        assert_eq!(&restored, image, "a snapshot is as good");
    }
}

impl Ghost {
    fn commit(&mut self, partition: &Partition, minimum: usize) {
        if partition.isr.len() >= minimum.min(partition.replicas.len()) {
            let has = |id: &BrokerId| self.has.get(id).copied().unwrap_or(0);
            self.committed = self.committed.max(partition.isr.iter().map(has).min().unwrap_or(0));
        }
    }

    fn check(&mut self, partition: &Partition) {
        let has = |id: &BrokerId| self.has.get(id).copied().unwrap_or(0);
        if partition.leader != BrokerId::NONE && partition.leader_epoch > self.epoch {
            let end = has(&partition.leader);
            if partition.recovering || partition.replicas.len() == 1 {
                self.committed = self.committed.min(end);
            }
            assert!(end >= self.committed, "who leads lacks what was committed: {self:?} {partition:?}");
            self.has.values_mut().for_each(|has| *has = end.min(*has));
        }
        self.epoch = partition.leader_epoch;
        let has = |id: &BrokerId| self.has.get(id).copied().unwrap_or(0);
        if let [only] = *partition.replicas {
            // Nobody has more: what it lost is lost.
            self.committed = self.committed.min(has(&only));
            return;
        }
        for id in partition.isr.iter().chain(partition.eligible()) {
            assert!(has(id) >= self.committed, "{id} may lead and lacks something: {self:?} {partition:?}");
        }
    }
}

/// Every partition, with `min.insync.replicas` of its topic.
fn all(image: &Image) -> Vec<(Key, Partition, usize)> {
    let topics = image.topics().flat_map(|topic| {
        let set = image.configs(&ConfigResource::Topic(topic.name.clone()));
        let minimum = set.get("min.insync.replicas").map_or(1, |value| value.parse().expect("a number"));
        let partitions = topic.partitions().iter();
        partitions.map(move |partition| ((topic.id, partition.index), Partition::clone(partition), minimum))
    });
    topics.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]
    #[test]
    fn whoever_is_elected_in_good_order_has_all_that_was_committed(seed: u64) {
        let mut history = History::new(seed);
        for _ in 0..STEPS {
            history.step();
        }
    }
}
