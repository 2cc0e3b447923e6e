//! A metadata quorum that keeps its contract, and not one promise more (see `controller::quorum`).
//!
//! ```text
//!   propose ─▶ pending, in order ─ a majority is up and joined ─▶ log ─ each node in its own time ─▶ told
//!                   │
//!                   └─ another is elected: some of the first are committed all the same, the rest is lost
//! ```
//!
//! It is one history for all: what is committed stays. Nodes hear of it late, in one piece after a snapshot,
//! or only once they lead themselves; and whoever led before goes on believing so until it is told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, LeaderEpoch, Offset};
use controller::{Committed, MetadataQuorum, Proposal, QuorumEvent};
use metadata::{Image, MetadataRecord};

use super::plant::Plant;
use crate::random::Random;

/// A committed batch.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) epoch: LeaderEpoch,
    pub(crate) records: Vec<MetadataRecord>,
    /// The cluster with it.
    pub(crate) image: Arc<Image>,
}

/// What a seed chooses for the quorum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Temper {
    /// How long a proposal takes to be committed, at most, in microseconds.
    pub(crate) commit_us: u64,
    /// How long it takes until a node is told, at most.
    pub(crate) tell_us: u64,
    /// How long nobody leads before another is elected, at most.
    pub(crate) election_us: u64,
    /// In a thousand looks, how often another is elected although all is well.
    pub(crate) restless_per_thousand: u32,
    /// In a thousand things to be told, how often a node that is behind is given a snapshot instead.
    pub(crate) snapshot_per_thousand: u32,
    /// In a thousand depositions, how often the deposed hears of it only much later.
    pub(crate) late_per_thousand: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SimQuorum {
    pub(crate) log: Vec<Entry>,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) leader: Option<usize>,
    pending: VecDeque<(u64, Proposal)>,
    seats: Vec<Seat>,
    temper: Temper,
    plant: Option<Plant>,
    random: Random,
    /// Since when a majority cannot reach the leader.
    lost_since: Option<u64>,
    elects_after: u64,
}

/// A node, as far as the quorum knows it.
#[derive(Debug, Default)]
struct Seat {
    /// How many batches of the log its process was told.
    told: usize,
    /// Whether its process was told anything.
    has_begun: bool,
    /// When it led and a majority answered it, in this life.
    led_us: Option<u64>,
    /// What it is to be told beside the log, and at which length of the log at the earliest.
    news: VecDeque<(usize, QuorumEvent)>,
    tells_at: u64,
}

/// Which nodes are up, and whether two of them hear each other.
pub(crate) struct Reach<'a> {
    pub(crate) is_up: &'a dyn Fn(usize) -> bool,
    pub(crate) are_joined: &'a dyn Fn(usize, usize) -> bool,
}

impl Reach<'_> {
    fn has_majority(&self, node: usize, nodes: usize) -> bool {
        let near = |other: &usize| (self.is_up)(*other) && (self.are_joined)(node, *other);
        (self.is_up)(node) && (0..nodes).filter(near).count() * 2 > nodes
    }
}

/// The quorum as the controller of one node sees it, at one time.
pub(crate) struct SimProposer<'a> {
    pub(crate) quorum: &'a mut SimQuorum,
    pub(crate) now_us: u64,
    pub(crate) node: usize,
}

impl MetadataQuorum for SimProposer<'_> {
    fn propose(&mut self, proposal: Proposal) {
        self.quorum.propose(self.now_us, self.node, proposal);
    }
}

/// How often the quorum looks around, in microseconds.
pub(crate) const LOOKS_EVERY_US: u64 = 20_000;

impl SimQuorum {
    pub(crate) fn new(nodes: usize, temper: Temper, plant: Option<Plant>, mut random: Random) -> Self {
        let elects_after = random.between(temper.election_us / 4, temper.election_us);
        Self {
            log: Vec::new(),
            epoch: LeaderEpoch(0),
            leader: None,
            pending: VecDeque::new(),
            seats: (0..nodes).map(|_| Seat::default()).collect(),
            temper,
            plant,
            random,
            lost_since: None,
            elects_after,
        }
    }

    /// The cluster as all that is committed makes it.
    pub(crate) fn image(&self) -> Arc<Image> {
        self.log.last().map(|entry| Arc::clone(&entry.image)).unwrap_or_default()
    }

    fn propose(&mut self, now_us: u64, node: usize, proposal: Proposal) {
        // Who was deposed proposes in vain.
        let is_leader = self.leader == Some(node) && proposal.epoch == self.epoch;
        if is_leader || self.plant == Some(Plant::DeposedIsHeard) {
            let takes = self.random.below(self.temper.commit_us + 1);
            let at = self.pending.back().map_or(0, |(at, _)| *at).max(now_us + takes);
            self.pending.push_back((at, proposal));
        }
    }

    /// Commits what can be, and elects who can be. How many batches are new.
    pub(crate) fn look(&mut self, now_us: u64, reach: &Reach<'_>) -> usize {
        let before = self.log.len();
        let nodes = self.seats.len();
        if let Some(leader) = self.leader
            && reach.has_majority(leader, nodes)
        {
            self.lost_since = None;
            self.seats[leader].led_us = Some(now_us);
            while let Some((_, proposal)) = self.pending.pop_front_if(|(at, _)| *at <= now_us) {
                self.commit_in(proposal.epoch, proposal.records);
            }
            if self.random.chance(self.temper.restless_per_thousand) {
                self.elect(now_us, reach);
            }
        } else {
            let since = *self.lost_since.get_or_insert(now_us);
            if now_us >= since + self.elects_after {
                self.elect(now_us, reach);
            }
        }
        self.log.len() - before
    }

    fn commit_in(&mut self, epoch: LeaderEpoch, records: Vec<MetadataRecord>) {
        let before = self.image();
        // An empty batch takes an offset of the quorum's own.
        let len = records.len().max(1);
        let end = Offset(before.end().0 + i64::try_from(len).expect("few"));
        let (image, _) = before.after(&records, end);
        self.log.push(Entry { epoch, records, image: Arc::new(image) });
    }

    /// Elects whoever can be elected, by chance the one that leads already.
    pub(crate) fn elect(&mut self, now_us: u64, reach: &Reach<'_>) {
        let able: Vec<usize> =
            (0..self.seats.len()).filter(|&node| reach.has_majority(node, self.seats.len())).collect();
        if able.is_empty() {
            return;
        }
        let leader = self.random.pick(&able);
        // Some of what the last leader proposed had come to a majority.
        let survive = self.random.index(self.pending.len() + 1);
        for (_, proposal) in self.pending.drain(..survive).collect::<Vec<_>>() {
            self.commit_in(proposal.epoch, proposal.records);
        }
        self.pending.clear();
        if self.plant == Some(Plant::QuorumForgets) {
            self.log.pop();
        }
        let deposed = self.leader.filter(|old| *old != leader);
        self.epoch = LeaderEpoch(self.epoch.0 + 1 + i32::from(self.random.chance(200)));
        self.leader = Some(leader);
        self.lost_since = None;
        self.elects_after = self.random.between(self.temper.election_us / 4, self.temper.election_us);
        self.commit_in(self.epoch, Vec::new());
        for node in 0..self.seats.len() {
            let (epoch, at) = (self.epoch, self.log.len());
            let seat = &mut self.seats[node];
            seat.news.retain(|(_, event)| !matches!(event, QuorumEvent::Elected { .. }));
            if node == leader {
                seat.news.clear();
                // Who led before has lost what it proposed, also if it leads again.
                seat.news.push_back((0, QuorumEvent::Following { epoch, leader: None }));
                seat.news.push_back((at, QuorumEvent::Elected { epoch }));
                continue;
            }
            let known = self.random.chance(900).then(|| broker(leader));
            seat.news.push_back((0, QuorumEvent::Following { epoch, leader: known }));
            if known.is_none() {
                seat.news.push_back((at, QuorumEvent::Following { epoch, leader: Some(broker(leader)) }));
            }
            if deposed == Some(node) && self.random.chance(self.temper.late_per_thousand) {
                seat.tells_at = now_us + self.random.below(5 * self.temper.election_us + 1);
            }
        }
    }

    /// The process of a node has ended.
    pub(crate) fn on_down(&mut self, node: usize) {
        self.seats[node] = Seat::default();
        if self.leader == Some(node) {
            self.leader = None;
        }
    }

    /// A process of a node begins.
    pub(crate) fn on_up(&mut self, node: usize) {
        let (epoch, leader) = (self.epoch, self.leader.map(broker));
        self.seats[node] = Seat::default();
        self.seats[node].news.push_back((0, QuorumEvent::Following { epoch, leader }));
    }

    /// What a node is told next, if it can be told anything now.
    pub(crate) fn tell(&mut self, now_us: u64, node: usize, reach: &Reach<'_>) -> Option<QuorumEvent> {
        let leads = self.leader == Some(node);
        let hears = leads || self.leader.is_some_and(|leader| (reach.are_joined)(leader, node));
        let Self { seats, log, random, temper, .. } = self;
        let seat = &mut seats[node];
        if now_us < seat.tells_at {
            return None;
        }
        if !seat.has_begun {
            seat.has_begun = true;
            // What it had on its own disks, of which it may not know yet that all is committed.
            let known = random.index(log.len() + 1);
            if let Some(entry) = known.checked_sub(1).map(|at| &log[at]) {
                seat.told = known;
                return Some(QuorumEvent::Snapshot(Image::clone(&entry.image)));
            }
        }
        if !hears {
            return None;
        }
        if let Some((_, event)) = seat.news.pop_front_if(|(at, _)| *at <= seat.told) {
            return Some(event);
        }
        let entry = log.get(seat.told)?;
        if !leads && log.len() - seat.told > 3 && random.chance(temper.snapshot_per_thousand) {
            // A snapshot need not be of the last batch.
            seat.told += 1 + random.index(log.len() - seat.told);
            return Some(QuorumEvent::Snapshot(Image::clone(&log[seat.told - 1].image)));
        }
        seat.told += 1;
        let (epoch, records, end) = (entry.epoch, entry.records.clone(), entry.image.end());
        Some(QuorumEvent::Committed(Committed { epoch, records, end }))
    }

    /// When a node was last certain to lead, as a majority answered it.
    pub(crate) fn led_at(&self, node: usize) -> Option<Duration> {
        self.seats[node].led_us.map(Duration::from_micros)
    }

    /// Whether there is anything that a node was not told.
    pub(crate) fn has_news(&self, node: usize) -> bool {
        let seat = &self.seats[node];
        !seat.has_begun || seat.told < self.log.len() || !seat.news.is_empty()
    }

    /// How long it takes until a node is told of something.
    pub(crate) fn tell_delay(&mut self) -> u64 {
        self.random.below(self.temper.tell_us + 1)
    }

    /// From here on it is as good as quorums are.
    pub(crate) fn calm(&mut self) {
        self.temper.restless_per_thousand = 0;
        self.temper.late_per_thousand = 0;
        self.temper.tell_us = self.temper.tell_us.min(20_000);
        self.temper.commit_us = self.temper.commit_us.min(20_000);
        self.temper.election_us = self.temper.election_us.min(1_000_000);
        self.elects_after = self.elects_after.min(1_000_000);
        self.seats.iter_mut().for_each(|seat| seat.tells_at = 0);
    }
}

/// A node's id as a broker.
pub(crate) fn broker(node: usize) -> BrokerId {
    BrokerId(i32::try_from(node).expect("few nodes") + 1)
}

/// The node with this id as a broker.
pub(crate) fn node_of(broker: BrokerId) -> usize {
    usize::try_from(broker.0 - 1).expect("a broker of this cluster")
}
