//! What goes wrong, and how it is made good.

use base::{BrokerId, PartitionIndex, TopicName};
use controller::{
    AlterReassignments, ConfigOp, CreateTopics, DeleteTopics, IncrementalAlterConfigs, NewTopic,
    Reassignment, ResourceConfigs, TopicKey,
};
use metadata::ConfigResource;
use metadata::settings::FlushPolicy;

use super::client::admin::policy;
use super::net::{Parcel, Place, Purpose, Way};
use super::options::{TopicOptions, Trouble};
use super::process::PartitionKey;
use super::queue::Event;
use super::quorum::{broker, node_of};
use super::world::World;
use crate::disk::{Fault, FaultKind, Halt, Operation};

impl World {
    /// Something bad happens, and something else a while later.
    pub(crate) fn trouble(&mut self) {
        if !self.is_troubled {
            return;
        }
        let weights: Vec<u32> = self.options.troubles.iter().map(|(_, weight)| *weight).collect();
        let (trouble, _) = self.options.troubles[self.random.weighted(&weights)];
        self.cause(trouble);
        // A connection that broke, an address that is another's by now: not all who are found dead are.
        self.suspect_later(self.now_us as usize % self.nodes.len(), 50);
        let rest = self.random.below(2 * self.options.trouble_every_us) + 1;
        self.queue.push(self.now_us + rest, Event::Trouble);
    }

    fn cause(&mut self, trouble: Trouble) {
        let node = self.random.index(self.nodes.len());
        match trouble {
            Trouble::Kill => self.end(node, false),
            Trouble::Stop => {
                self.say(format_args!("node {node} is to stop"));
                let life = self.nodes[node].life;
                self.step(node, life, |process, now| process.stop(now));
            }
            Trouble::CutPower => {
                self.cut_power(node);
                // What burns through now and then is a disk: never one that has what no other has.
                if self.disks.chance(300) && self.is_spare(node) {
                    self.replace_disk(node);
                }
            }
            Trouble::CutPowerSoon => {
                let halt = if self.random.chance(700) { Halt::Power } else { Halt::Process };
                let operations = self.random.below(30);
                if self.nodes[node].process.is_some() {
                    self.nodes[node].disk.halt_after(operations, halt);
                }
            }
            Trouble::CutPowerOfSome => {
                let some = self.random.between(2, self.nodes.len() as u64 - 1) as usize;
                (0..some).for_each(|at| self.cut_power((node + at) % self.nodes.len()));
            }
            Trouble::CutPowerOfAll => (0..self.nodes.len()).for_each(|node| self.cut_power(node)),
            Trouble::Pause => self.pause(node),
            Trouble::Isolate | Trouble::Split | Trouble::Bridge | Trouble::Ring | Trouble::OneWay => {
                self.cut_links(trouble, node);
            }
            Trouble::Mend => self.mend(|_, _| true),
            Trouble::BreakConnections => self.break_connections(),
            Trouble::JumpClock => {
                let ms = self.random.between(0, 7_200_000) as i64 - 3_600_000;
                self.say(format_args!("the clock of node {node} jumps by {ms} ms"));
                self.nodes[node].shift_ms = ms;
            }
            Trouble::MoveLeaders => self.move_leaders(node),
            Trouble::Ambush => self.is_in_ambush = true,
            Trouble::Reassign => self.reassign(node),
            Trouble::Elect => self.elect_anew(),
            Trouble::BreakDisk => {
                let on = self.random.pick(&[
                    Operation::Write,
                    Operation::Sync,
                    Operation::Sync,
                    Operation::SyncDir,
                ]);
                self.break_disk(node, on, FaultKind::Io);
            }
            Trouble::FillDisk => self.break_disk(node, Operation::Write, FaultKind::Full),
            Trouble::SlowDisk => self.slow_disk(node),
            Trouble::FailRead => self.break_disk(node, Operation::Read, FaultKind::Io),
            Trouble::HangDisk => self.hang_disk(node),
            Trouble::Rot => self.rot(),
            Trouble::Churn => self.churn(node),
            Trouble::Configure => self.configure(node),
        }
    }

    fn pause(&mut self, node: usize) {
        if self.nodes[node].process.is_some() {
            let until = self.now_us + self.random.below(self.options.outage_us) + 10_000;
            self.say(format_args!("node {node} is paused until {until}"));
            self.nodes[node].paused_until = until;
        }
    }

    /// Cuts links between nodes, and some of those to clients.
    fn cut_links(&mut self, trouble: Trouble, node: usize) {
        let nodes = self.nodes.len();
        let place = |at: usize| Place::Node(at % nodes);
        let mut pairs = Vec::new();
        match trouble {
            Trouble::Isolate => {
                pairs.extend(
                    (0..nodes).filter(|other| *other != node).map(|other| (place(node), place(other), true)),
                );
            }
            Trouble::Split => {
                let side: Vec<bool> = (0..nodes).map(|_| self.random.chance(500)).collect();
                for a in 0..nodes {
                    pairs.extend(
                        (a + 1..nodes).filter(|b| side[a] != side[*b]).map(|b| (place(a), place(b), true)),
                    );
                }
            }
            Trouble::Bridge => {
                // Only `node` hears both sides.
                for a in (0..nodes).filter(|a| *a != node) {
                    let others = (a + 1..nodes).filter(|b| *b != node);
                    let is_left = |at: usize| (at + nodes - node) % nodes <= nodes / 2;
                    pairs.extend(
                        others.filter(|b| is_left(a) != is_left(*b)).map(|b| (place(a), place(b), true)),
                    );
                }
            }
            Trouble::Ring => {
                for a in 0..nodes {
                    let is_far = |b: &usize| (b + nodes - a) % nodes != 1 && (a + nodes - b) % nodes != 1;
                    pairs.extend((a + 1..nodes).filter(is_far).map(|b| (place(a), place(b), true)));
                }
            }
            _ => pairs.push((place(node), place(node + 1 + self.random.index(nodes - 1)), false)),
        }
        if self.random.chance(300) {
            let clients: Vec<usize> = (0..self.clients.len()).filter(|_| self.random.chance(300)).collect();
            pairs.extend(clients.into_iter().map(|client| (place(node), Place::Client(client), true)));
        }
        self.say(format_args!("{trouble:?}: {} links are cut", pairs.len()));
        for (a, b, both) in pairs {
            self.net.cut(a, b);
            if both {
                self.net.cut(b, a);
            }
        }
    }

    /// Makes links whole again.
    pub(crate) fn mend(&mut self, is_meant: impl Fn(Place, Place) -> bool) {
        if self.net.is_whole() {
            return;
        }
        self.say(format_args!("links are mended"));
        for (conn, way) in self.net.mend(is_meant) {
            let at = self.now_us + self.net.delay();
            self.queue.push(at, Event::Arrive(conn, way));
        }
    }

    fn break_connections(&mut self) {
        let share = self.random.pick(&[100, 1000]);
        let conns: Vec<_> = self.net.conns.keys().copied().collect();
        for conn in conns {
            if !self.random.chance(share) {
                continue;
            }
            let Some(to) = self.net.conns.get(&conn).filter(|conn| conn.is_open).map(|conn| conn.to) else {
                continue;
            };
            self.net.lose_some(conn);
            // Both ends hear of it behind what arrives.
            self.send(conn, conn.owner, Parcel::End);
            self.send(conn, to, Parcel::End);
        }
        self.say(format_args!("connections break"));
    }

    /// A node is about to ask for others to be in sync with what it leads. If somebody lies in wait for that,
    /// one of them loses its power and comes back at once, and the question arrives late.
    pub(crate) fn ambush(&mut self, asks: usize, joiners: &[BrokerId]) {
        if joiners.is_empty() || !std::mem::take(&mut self.is_in_ambush) {
            return;
        }
        let joiner = node_of(self.random.pick(joiners));
        self.say(format_args!("node {joiner} is ambushed"));
        for (conn, way) in self.net.of(Place::Node(asks)) {
            if way == Way::Out && self.net.conns.get(&conn).is_some_and(|it| it.purpose == Purpose::Control) {
                let late = self.random.below(self.options.outage_us);
                self.net.hold(conn, way, self.now_us + late);
            }
        }
        self.cut_power(joiner);
        self.start_later(joiner, 1_000);
    }

    /// Has a node ask that a partition get other replicas: some go, and may come again soon after.
    fn reassign(&mut self, node: usize) {
        let image = self.quorum.image();
        let partitions = self.partitions();
        let keys: Vec<PartitionKey> = partitions.keys().copied().collect();
        if keys.is_empty() {
            return;
        }
        let key = self.random.pick(&keys);
        let (Some(topic), Some(history)) = (image.topic_by_id(key.0), self.truth.histories.get(&key)) else {
            return;
        };
        let replicas = match self.random.chance(150) {
            true => None,
            false => {
                let most = partitions[&key].replicas.len().max(3).min(self.nodes.len());
                let count = self.random.between(history.isr_min_most.max(1) as u64, most as u64) as usize;
                let mut ids: Vec<BrokerId> = (0..self.nodes.len()).map(broker).collect();
                (1..ids.len()).rev().for_each(|at| ids.swap(at, self.random.index(at + 1)));
                ids.truncate(count);
                Some(ids)
            }
        };
        let to: Option<Vec<i32>> = replicas.as_ref().map(|ids| ids.iter().map(|id| id.0).collect());
        self.say(format_args!("{} is to have replicas {to:?}", history.name));
        let reassignment = Reassignment { topic: topic.name.to_string(), partition: key.1, replicas };
        let command =
            AlterReassignments { partitions: vec![reassignment], allow_replication_factor_change: true };
        let life = self.nodes[node].life;
        let command = controller::Command::AlterReassignments(command);
        self.step(node, life, |process, now| process.ask(now, &command));
    }

    /// Has a node ask for other settings of a topic: how many have to have a record, and whether durably.
    pub(super) fn configure(&mut self, node: usize) {
        let image = self.quorum.image();
        let there = |topic: &&TopicOptions| !topic.compacts && image.topic(&topic.name).is_some();
        let topics: Vec<TopicOptions> = self.options.topics.iter().filter(there).cloned().collect();
        if topics.is_empty() {
            return;
        }
        let topic = &topics[self.random.index(topics.len())];
        let asked =
            self.random.pick(&[FlushPolicy::Ack, FlushPolicy::Ack, FlushPolicy::Os, FlushPolicy::Interval]);
        let isr_min = self.random.between(1, topic.isr_min as u64) as usize;
        self.say(format_args!("{} is to be set to {} and {isr_min} in sync", topic.name, policy(asked)));
        let id = image.topic(&topic.name).map(|topic| topic.id);
        let histories = self.truth.histories.iter_mut().filter(|(key, _)| Some(key.0) == id);
        histories.for_each(|(_, history)| history.weaken(asked, isr_min));
        let set = |name: &str, value: String| (name.to_owned(), (ConfigOp::Set, Some(value)));
        let name = TopicName::new(&topic.name).expect("a run names its topics well");
        let resource = ResourceConfigs {
            resource: ConfigResource::Topic(name),
            entries: vec![
                set("flush.policy", policy(asked).to_owned()),
                set("min.insync.replicas", isr_min.to_string()),
            ],
        };
        let command = IncrementalAlterConfigs { resources: vec![resource], validate_only: false };
        let life = self.nodes[node].life;
        let command = controller::Command::IncrementalAlterConfigs(command);
        self.step(node, life, |process, now| process.ask(now, &command));
    }

    /// Has a node ask for a topic that nobody uses, or that it go again: soon after there is another of its name.
    fn churn(&mut self, node: usize) {
        let name = format!("churn-{}", self.random.below(2));
        let command = if self.quorum.image().topic(&name).is_some() {
            self.say(format_args!("{name} is to go"));
            controller::Command::DeleteTopics(DeleteTopics { topics: vec![TopicKey::Name(name)] })
        } else {
            let partitions = self.random.between(1, 3) as i32;
            let replication_factor = self.random.between(1, self.nodes.len() as u64) as i16;
            self.say(format_args!("{name} is to have {partitions} partitions, {replication_factor} times"));
            let random =
                u128::from(self.random.below(u64::MAX)) << 64 | u128::from(self.random.below(u64::MAX));
            let (assignments, configs) = (Vec::new(), Vec::new());
            let topic = NewTopic { name, partitions, replication_factor, assignments, configs, random };
            controller::Command::CreateTopics(CreateTopics { topics: vec![topic], validate_only: false })
        };
        let life = self.nodes[node].life;
        self.step(node, life, |process, now| process.ask(now, &command));
    }

    /// Flushes take long for a while, as on a disk that others use.
    fn slow_disk(&mut self, node: usize) {
        self.nodes[node].slow_until = self.now_us + self.random.below(self.options.outage_us) + 10_000;
        self.say(format_args!("the disk of node {node} is slow until {}", self.nodes[node].slow_until));
    }

    /// No flush ends for a while, long enough for whoever waits to give up.
    fn hang_disk(&mut self, node: usize) {
        self.nodes[node].hung_until = self.now_us + self.random.below(4 * self.options.outage_us) + 10_000;
        self.say(format_args!("the disk of node {node} hangs until {}", self.nodes[node].hung_until));
    }

    /// An operation of a disk fails soon.
    fn break_disk(&mut self, node: usize, on: Operation, kind: FaultKind) {
        let fault = Fault { on, after: self.random.below(20), kind, suffix: "" };
        if self.nodes[node].process.is_some() {
            self.say(format_args!("the disk of node {node} will fail to {}: {kind:?}", on.name()));
            self.nodes[node].disk.arm(fault);
        }
    }

    /// Has somebody ask for leaders to be elected as they are preferred.
    pub(super) fn move_leaders(&mut self, node: usize) {
        let partitions = None::<Vec<(String, PartitionIndex)>>;
        let command = controller::ElectLeaders { kind: controller::ElectionKind::Preferred, partitions };
        let life = self.nodes[node].life;
        let command = controller::Command::ElectLeaders(command);
        self.step(node, life, |process, now| process.ask(now, &command));
    }
}
