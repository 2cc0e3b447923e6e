//! Stories of whole clusters: what once went wrong in others, step by step, with what comes of it here.
//!
//! Nodes are called by their numbers; node 0 is broker 1. A state is who leads in which epoch, who is in
//! sync, who else is eligible, and of each node's log up to where it is committed and where it ends. All
//! invariants are checked meanwhile.

mod crashes;
mod disks;
mod groups;
mod leaders;
mod rot;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use base::{BrokerId, Offset, PartitionIndex, TopicName};
use metadata::ConfigResource;
use metadata::settings::FlushPolicy;

use super::client::Client;
use super::client::hand::{Hand, Wish};
use super::net::{Conn, Place, Purpose};
use super::options::Options;
use super::process::PartitionKey;
use super::quorum::node_of;
use super::world::World;
use crate::trace::Trace;

/// Acknowledged by the leader alone, or by all in sync.
const ONE: i16 = 1;
const ALL: i16 = -1;

/// How often somebody looks whether something has come to pass, in microseconds.
const LOOKS_EVERY_US: u64 = 1_000;

struct Story {
    world: World,
    key: PartitionKey,
    hand: usize,
    kept: u64,
    text: String,
}

impl Story {
    /// Three nodes with one partition that node 0 leads; the controller is at node 2.
    fn new(policy: FlushPolicy, isr_min: usize) -> Self {
        Self::of(Options::quiet(policy, isr_min), 2)
    }

    /// Two nodes more, that have nothing of the partition; the controller is at one of them.
    fn with_controllers(policy: FlushPolicy, isr_min: usize) -> Self {
        Self::of(Options { nodes: 5, ..Options::quiet(policy, isr_min) }, 3)
    }

    fn of(options: Options, controller: usize) -> Self {
        let mut world = World::new(7, options, None, Trace::default());
        world.set_up();
        let topic = world.quorum.image().topic("t").expect("it was made").id;
        let key = (topic, PartitionIndex(0));
        let hand = world.clients.len();
        world.add_client(Client::Hand(Hand::new(hand, key)));
        let mut story = Self { world, key, hand, kept: 0, text: String::new() };
        story.controller_at(controller);
        story.world.move_leaders(0);
        story.until("0 leads", |world| leader(world, key) == Some(0));
        story.pass(1_000);
        story.text.clear();
        story.kept = story.world.trace.since(0).1;
        story
    }

    fn say(&mut self, what: impl std::fmt::Display) {
        self.note();
        writeln!(self.text, "{what}").expect("a String takes everything");
    }

    /// Adds what was said meanwhile of leaders and of logs.
    fn note(&mut self) {
        let (events, kept) = self.world.trace.since(self.kept);
        self.kept = kept;
        for event in events {
            let told = event.get(11..).unwrap_or_default();
            let words = [" leads ", " cuts ", " opens ", " groups of ", " coordinates ", " damaged", " anew"];
            if words.iter().any(|word| told.contains(word)) {
                writeln!(self.text, "| {told}").expect("a String takes everything");
            }
        }
        assert!(
            self.world.found.is_empty(),
            "{:?}\n{}\n{}",
            self.world.found,
            self.text,
            self.world.trace.tail(60)
        );
    }

    fn pass(&mut self, ms: u64) {
        self.world.run_until(self.world.now_us + ms * 1_000);
    }

    /// Goes on until something has come to pass.
    fn until(&mut self, what: &str, is_so: impl Fn(&World) -> bool) {
        let end = self.world.now_us + 20_000_000;
        while !is_so(&self.world) {
            let at = self.world.now_us + LOOKS_EVERY_US;
            assert!(
                self.world.run_until(at) && at < end,
                "{what}: {:?}\n{}\n{}\n{}",
                self.world.found,
                self.text,
                self.state(),
                self.world.trace.tail(60)
            );
        }
        self.say(what);
    }

    /// Has the controller of a node be the active one.
    fn controller_at(&mut self, node: usize) {
        while self.world.quorum.leader != Some(node) {
            self.world.elect_anew();
        }
        self.pass(200);
    }

    fn wish(&mut self, wish: Wish) {
        let Client::Hand(hand) = &mut self.world.clients[self.hand] else { unreachable!("it was put there") };
        hand.wish(wish);
        self.world.client(self.hand, |client, now_us, acts| client.step(now_us, acts));
    }

    /// What came of the last wish, once it is known.
    fn heard(&mut self) -> String {
        let heard = |world: &World, hand: usize| match &world.clients[hand] {
            Client::Hand(hand) => hand.heard.clone(),
            _ => None,
        };
        let end = self.world.now_us + 5_000_000;
        while heard(&self.world, self.hand).is_none() && self.world.now_us < end {
            self.world.run_until(self.world.now_us + LOOKS_EVERY_US);
        }
        heard(&self.world, self.hand).unwrap_or_else(|| "no answer".to_owned())
    }

    fn write(&mut self, to: usize, values: &[u64], acks: i16) {
        self.wish(Wish::Write { to, values: values.to_vec(), acks });
        let heard = self.heard();
        let acks = if acks == ALL { "all" } else { "one" };
        self.say(format!("write {values:?} to {to}, acknowledged by {acks}: {heard}"));
    }

    fn read(&mut self, from: usize, offset: i64) {
        self.wish(Wish::Read { from, offset: Offset(offset), epoch: -1 });
        let heard = self.heard();
        self.say(format!("read from {from} at {offset}: {heard}"));
    }

    fn cut(&mut self, a: usize, b: usize) {
        self.world.net.cut(Place::Node(a), Place::Node(b));
        self.world.net.cut(Place::Node(b), Place::Node(a));
        self.say(format!("{a} and {b} do not hear each other"));
    }

    /// What one says to another does not arrive.
    fn deafen(&mut self, to: usize, from: usize) {
        self.world.net.cut(Place::Node(from), Place::Node(to));
        self.say(format!("{to} does not hear {from}"));
    }

    fn mend(&mut self) {
        self.world.mend(|_, _| true);
        self.say("all hear each other");
    }

    /// A node goes down, and stays so until it comes back.
    fn down(&mut self, node: usize, has_power: bool) {
        self.world.nodes[node].is_held = true;
        match has_power {
            true => self.world.end(node, false),
            false => self.world.cut_power(node),
        }
        let what = if has_power { "is killed" } else { "loses its power" };
        self.say(format!("{node} {what}"));
    }

    /// A node that is down gets an empty disk.
    fn replace_disk(&mut self, node: usize) {
        self.world.replace_disk(node);
        self.say(format!("{node} has an empty disk"));
    }

    fn back(&mut self, node: usize) {
        self.world.nodes[node].is_held = false;
        self.world.start_later(node, 0);
        self.say(format!("{node} comes back"));
    }

    fn state(&self) -> String {
        let image = self.world.quorum.image();
        let partition = image.partition(self.key.0, self.key.1).expect("it was made");
        let nodes =
            |ids: &[BrokerId]| ids.iter().map(|id| node_of(*id).to_string()).collect::<Vec<_>>().join(" ");
        let leader = match partition.leader {
            BrokerId::NONE => "nobody leads".to_owned(),
            leader => format!("{} leads", node_of(leader)),
        };
        let mut said = format!("{leader} in {}, in sync {}", partition.leader_epoch, nodes(&partition.isr));
        if !partition.eligible().is_empty() {
            said += &format!(", eligible {}", nodes(partition.eligible()));
        }
        said += "; logs";
        for node in &self.world.nodes[..3] {
            let cell = node.process.as_ref().and_then(|process| process.cells.get(&self.key));
            said += &cell.map_or(" -".to_owned(), |cell| {
                cell.with(|it| format!(" {}/{}", it.high_watermark(), it.log().end()))
            });
        }
        said
    }

    fn look(&mut self) {
        let state = self.state();
        self.say(state);
    }

    /// Goes on until all are in sync and know that everything is committed.
    fn until_well(&mut self) {
        let key = self.key;
        self.until("all is well", |world| {
            let ends: Vec<_> = (0..3).map(|node| ends(world, key, node)).collect();
            isr(world, key) == 3
                && ends.iter().all(|it| it.is_some() && *it == ends[0] && it.is_some_and(|(a, b)| a == b))
        });
        self.look();
    }
}

/// Up to where a node's log is committed, and where it ends.
fn ends(world: &World, key: PartitionKey, node: usize) -> Option<(i64, i64)> {
    let cell = world.nodes[node].process.as_ref()?.cells.get(&key)?;
    Some(cell.with(|it| (it.high_watermark().0, it.log().end().0)))
}

/// Whether a node has a connection on which it asks another for records.
fn asks(world: &World, node: usize, of: usize) -> bool {
    let mut conns = world.net.conns.iter();
    let is_it = |conn: &Conn| conn.is_open && conn.to == Place::Node(of) && conn.purpose == Purpose::Records;
    conns.any(|(id, conn)| id.owner == Place::Node(node) && is_it(conn))
}

/// How many are in sync.
fn isr(world: &World, key: PartitionKey) -> usize {
    world.quorum.image().partition(key.0, key.1).map_or(0, |partition| partition.isr.len())
}

/// Which node leads.
fn leader(world: &World, key: PartitionKey) -> Option<usize> {
    let image = world.quorum.image();
    let leader = image.partition(key.0, key.1)?.leader;
    (leader != BrokerId::NONE).then(|| node_of(leader))
}

/// No story of others: that whoever changes settings in a run really does.
#[test]
fn settings_that_somebody_changes_hold() {
    let mut story = Story::new(FlushPolicy::Ack, 2);
    let topic = TopicName::new("t").expect("it is a name");
    let resource = ConfigResource::Topic(topic);
    let set = |world: &World, name: &str| world.quorum.image().configs(&resource).get(name).cloned();
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        story.world.configure(0);
        story.pass(500);
        seen.insert((set(&story.world, "flush.policy"), set(&story.world, "min.insync.replicas")));
    }
    assert!(seen.len() > 3, "{seen:?}");
    let history = &story.world.truth.histories[&story.key];
    assert_eq!((history.isr_min, history.isr_min_most, history.counts_durable()), (1, 2, false));
    story.write(0, &[1], ALL);
    story.note();
}
