//! What a seed chooses for a cluster before its run begins.

mod groups;

use std::time::Duration;

use broker::replication::FetcherLimits;
use coordinator::ShardSettings;
use metadata::settings::FlushPolicy;

use super::net::Delays;
use super::process::Times;
use super::quorum::Temper;
use crate::disk::PowerCut;
use crate::random::Random;

pub use groups::{GroupOptions, Protocol};

/// Something bad that can happen to a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is said by its name, and done by `trouble`")]
pub enum Trouble {
    Kill,
    Stop,
    CutPower,
    CutPowerSoon,
    CutPowerOfSome,
    CutPowerOfAll,
    Pause,
    Isolate,
    Split,
    Bridge,
    Ring,
    OneWay,
    Mend,
    BreakConnections,
    JumpClock,
    MoveLeaders,
    Ambush,
    Reassign,
    Elect,
    BreakDisk,
    FillDisk,
    SlowDisk,
    FailRead,
    HangDisk,
    Rot,
    Churn,
    Configure,
}

const TROUBLES: [(Trouble, u32); 22] = [
    (Trouble::Kill, 30),
    (Trouble::Stop, 15),
    (Trouble::CutPower, 30),
    (Trouble::CutPowerSoon, 20),
    (Trouble::CutPowerOfSome, 8),
    (Trouble::CutPowerOfAll, 4),
    (Trouble::Pause, 30),
    (Trouble::Isolate, 25),
    (Trouble::Split, 20),
    (Trouble::Bridge, 15),
    (Trouble::Ring, 10),
    (Trouble::OneWay, 25),
    (Trouble::Mend, 120),
    (Trouble::BreakConnections, 25),
    (Trouble::JumpClock, 5),
    (Trouble::MoveLeaders, 15),
    (Trouble::Ambush, 60),
    (Trouble::Reassign, 30),
    (Trouble::Elect, 20),
    (Trouble::BreakDisk, 10),
    (Trouble::FillDisk, 5),
    (Trouble::SlowDisk, 20),
];

/// A topic of a run.
#[derive(Debug, Clone)]
pub struct TopicOptions {
    /// Its name.
    pub name: String,
    /// How many partitions it has.
    pub partitions: i32,
    /// How many replicas each has.
    pub replicas: i16,
    /// `min.insync.replicas`.
    pub isr_min: usize,
    /// `flush.policy`.
    pub policy: FlushPolicy,
    /// Whether of each key only the last record is kept.
    pub compacts: bool,
    /// The brokers that have each partition, the preferred leader first; empty to have them chosen.
    pub brokers: Vec<i32>,
}

/// The options of one run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many log directories each has.
    pub dirs: usize,
    /// The topics.
    pub topics: Vec<TopicOptions>,
    /// Idempotent producers with acks=all.
    pub producers: usize,
    /// Producers with acks=1.
    pub careless: usize,
    /// Readers.
    pub readers: usize,
    /// Who has records deleted.
    pub deleters: usize,
    /// Groups.
    pub groups: Vec<GroupOptions>,
    /// Who asks how far groups came.
    pub auditors: usize,
    /// How long a node rests between two steps of a compaction, on average; 0 if it does not compact.
    pub compact_every_us: u64,
    /// How long it takes to read a piece of a shard's log, at most.
    pub load_us: u64,
    /// How long there is trouble, in microseconds.
    pub troubled_us: u64,
    /// How long it is quiet between two troubles, on average.
    pub trouble_every_us: u64,
    /// What may happen, and how often.
    pub troubles: Vec<(Trouble, u32)>,
    /// The node whose disk does not keep all that is on it. One alone, and no other disk is replaced: of each record one
    /// copy at least is good.
    pub rots: Option<usize>,
    /// How long a node is down or paused, at most.
    pub outage_us: u64,
    /// How long a producer rests between two records, on average.
    pub send_every_us: u64,
    /// The most records that are sent at once.
    pub burst: u64,
    /// How long a flush takes, at most.
    pub flush_us: u64,
    /// Writeback nobody asked for, in a thousand operations of a disk.
    pub writeback_per_thousand: u32,
    /// How power cuts go.
    pub cut: PowerCut,
    /// Microseconds that each node's clocks show for a millisecond that is over; 1000 for those that are not here.
    pub paces: Vec<u64>,
    /// Chances in a thousand that a connection of a node that lost its power stays silent.
    pub silent_per_thousand: u32,
    pub(crate) delays: Delays,
    pub(crate) temper: Temper,
    pub(crate) times: Times,
    pub(crate) shards: ShardSettings,
}

impl Options {
    /// What a seed chooses.
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::stream(seed, "cluster options");
        let random = &mut random;
        let nodes = if random.chance(250) { 5 } else { 3 };
        let topics = (0..random.between(1, 2)).map(|number| draw_topic(random, number, nodes)).collect();
        let drawn = Self {
            nodes,
            dirs: random.pick(&[1, 2]),
            topics,
            producers: random.between(1, 2) as usize,
            careless: usize::from(random.chance(300)),
            readers: random.between(1, 3) as usize,
            deleters: usize::from(Random::stream(seed, "deletions").chance(250)),
            groups: Vec::new(),
            auditors: 0,
            compact_every_us: 0,
            load_us: 1_000,
            troubled_us: random.pick(&[5_000_000, 15_000_000, 30_000_000]),
            trouble_every_us: random.pick(&[150_000, 500_000, 1_500_000]),
            troubles: draw_troubles(random),
            rots: None,
            outage_us: random.pick(&[300_000, 1_500_000, 5_000_000]),
            send_every_us: random.pick(&[10_000, 30_000, 100_000]),
            burst: random.pick(&[1, 3, 6]),
            flush_us: random.pick(&[100, 2_000, 10_000]),
            writeback_per_thousand: random.pick(&[0, 20, 200]),
            cut: PowerCut {
                kept_per_thousand: random.pick(&[0, 0, 500, 900]),
                torn: random.chance(500),
                rubbish: random.chance(300),
            },
            paces: Vec::new(),
            silent_per_thousand: random.pick(&[0, 300, 1000]),
            delays: Delays {
                least_us: 50,
                mean_us: random.pick(&[100, 1_000, 5_000]),
                late_per_thousand: random.pick(&[0, 10, 50]),
                late_us: random.pick(&[50_000, 1_000_000]),
                kib_us: 0,
            },
            temper: draw_temper(random),
            times: draw_times(random),
            shards: ShardSettings::default(),
        };
        let drawn = match random.below(10) {
            0 | 1 => drawn.of_the_last_standing(),
            2 => drawn.of_who_comes_back(),
            3 => drawn.of_many_leaders(),
            4 => drawn.of_failing_disks(),
            5 => drawn.of_rotting_disks(),
            _ => drawn,
        };
        let drawn = if Random::stream(seed, "rot").chance(250) { drawn.of_rot(seed) } else { drawn };
        drawn.of_uneven_clocks(seed).of_slow_links(seed).of_more(seed)
    }

    /// Whatever else happens, disks hang or do not give what they have, topics come and go, and somebody changes what
    /// others are set to.
    fn of_more(mut self, seed: u64) -> Self {
        let all: u32 = self.troubles.iter().map(|(_, weight)| *weight).sum();
        let also = [
            ("settings", Trouble::Configure),
            ("reads", Trouble::FailRead),
            ("hangs", Trouble::HangDisk),
            ("churn", Trouble::Churn),
        ];
        for (of, trouble) in also {
            if Random::stream(seed, of).chance(250) {
                self.troubles.push((trouble, (all / 10).max(1)));
            }
        }
        self
    }

    /// In one seed of four, clocks of nodes are slow or fast, by as much as a tenth.
    fn of_uneven_clocks(mut self, seed: u64) -> Self {
        let mut random = Random::stream(seed, "paces");
        if random.chance(250) {
            self.paces = (0..self.nodes).map(|_| random.pick(&[900, 999, 1000, 1000, 1001, 1100])).collect();
        }
        self
    }

    /// In one seed of four, links carry 4 MB, 200 or 50 kB a second. Followers are set up for it: an answer
    /// that takes longer than they wait would be asked for again and again.
    fn of_slow_links(mut self, seed: u64) -> Self {
        let mut random = Random::stream(seed, "bandwidth");
        if random.chance(250) {
            self.delays.kib_us = random.pick(&[250, 5_000, 20_000]);
            let fetcher = &mut self.times.fetcher;
            fetcher.response_bytes_max = fetcher.response_bytes_max.min(32 << 10);
            fetcher.partition_bytes_max = fetcher.partition_bytes_max.min(16 << 10);
            // Some others share the link.
            let answer = Duration::from_micros(32 * self.delays.kib_us * 4);
            self.times.patience = self.times.patience.max(answer);
        }
        self
    }

    /// Who is about to be in sync loses its power and is back at once, without what it had (KIP-903).
    pub(super) fn of_who_comes_back(mut self) -> Self {
        self.topics.iter_mut().for_each(|topic| topic.policy = FlushPolicy::Os);
        self.troubles = vec![
            (Trouble::CutPower, 20),
            (Trouble::Isolate, 10),
            (Trouble::OneWay, 20),
            (Trouble::Mend, 60),
            (Trouble::Ambush, 100),
        ];
        (self.troubled_us, self.trouble_every_us) = (30_000_000, 150_000);
        (self.outage_us, self.writeback_per_thousand) = (1_500_000, 0);
        self.cut = PowerCut { kept_per_thousand: 0, torn: false, rubbish: false };
        self
    }

    /// Directories fail, one of two at a time, while partitions move.
    fn of_failing_disks(mut self) -> Self {
        self.dirs = 2;
        self.troubles = vec![
            (Trouble::BreakDisk, 40),
            (Trouble::FillDisk, 10),
            (Trouble::SlowDisk, 20),
            (Trouble::MoveLeaders, 20),
            (Trouble::Reassign, 20),
            (Trouble::Kill, 5),
            (Trouble::OneWay, 10),
            (Trouble::Mend, 30),
        ];
        (self.troubled_us, self.trouble_every_us) = (15_000_000, 500_000);
        self
    }

    /// The disk of one node does not keep what is on it.
    fn of_rot(mut self, seed: u64) -> Self {
        self.rots = Some(Random::stream(seed, "who rots").index(self.nodes));
        let all: u32 = self.troubles.iter().map(|(_, weight)| *weight).sum();
        self.troubles.push((Trouble::Rot, (all / 5).max(1)));
        self
    }

    /// The disk of one node rots, while replicas are filled from each other.
    pub(super) fn of_rotting_disks(mut self) -> Self {
        for topic in &mut self.topics {
            (topic.replicas, topic.isr_min, topic.policy) = (3, 2, FlushPolicy::Ack);
        }
        self.rots = Some(0);
        self.troubles = vec![
            (Trouble::Rot, 40),
            (Trouble::Reassign, 30),
            (Trouble::Kill, 20),
            (Trouble::MoveLeaders, 10),
        ];
        (self.troubled_us, self.trouble_every_us, self.outage_us) = (15_000_000, 200_000, 1_500_000);
        self
    }

    /// Leaders change often under load, and what they had beyond one another differs (KIP-101).
    pub(super) fn of_many_leaders(mut self) -> Self {
        self.troubles = vec![
            (Trouble::MoveLeaders, 60),
            (Trouble::Stop, 10),
            (Trouble::Kill, 30),
            (Trouble::Isolate, 30),
            (Trouble::Pause, 20),
            (Trouble::Mend, 60),
        ];
        (self.troubled_us, self.trouble_every_us) = (30_000_000, 150_000);
        (self.outage_us, self.send_every_us, self.burst) = (300_000, 10_000, 3);
        self
    }

    /// Three quiet nodes with one partition on all of them, for what is told step by step.
    #[cfg(test)]
    pub(crate) fn quiet(policy: FlushPolicy, isr_min: usize) -> Self {
        let millis = Duration::from_millis;
        let topic = TopicOptions {
            name: "t".to_owned(),
            partitions: 1,
            replicas: 3,
            isr_min,
            policy,
            compacts: false,
            brokers: vec![1, 2, 3],
        };
        Self {
            nodes: 3,
            dirs: 1,
            topics: vec![topic],
            producers: 0,
            careless: 0,
            readers: 0,
            deleters: 0,
            groups: Vec::new(),
            auditors: 0,
            compact_every_us: 0,
            load_us: 1_000,
            troubled_us: 0,
            trouble_every_us: 0,
            troubles: Vec::new(),
            rots: None,
            outage_us: 1_000_000,
            send_every_us: 0,
            burst: 0,
            flush_us: 1_000,
            writeback_per_thousand: 0,
            cut: PowerCut { kept_per_thousand: 0, torn: false, rubbish: false },
            paces: Vec::new(),
            silent_per_thousand: 0,
            delays: Delays { least_us: 5_000, mean_us: 0, late_per_thousand: 0, late_us: 0, kib_us: 0 },
            temper: Temper {
                commit_us: 0,
                tell_us: 1_000,
                election_us: 400_000,
                restless_per_thousand: 0,
                snapshot_per_thousand: 0,
                late_per_thousand: 0,
            },
            times: Times {
                lag_max: millis(3_000),
                checkpoint_every: millis(3_000),
                patience: millis(1_000),
                retry_after: millis(50),
                fetcher: FetcherLimits {
                    wait_max: millis(100),
                    response_bytes_max: 1 << 20,
                    partition_bytes_max: 1 << 16,
                    backoff: millis(20),
                },
            },
            shards: ShardSettings::default(),
        }
    }

    /// In-sync sets become small, and whoever is left of them loses its power: what needs several faults in
    /// a row, which seldom meet by chance (KIP-966).
    pub(super) fn of_the_last_standing(mut self) -> Self {
        for topic in &mut self.topics {
            topic.replicas = 3;
            topic.isr_min = 2;
            topic.policy = FlushPolicy::Os;
        }
        self.troubles = vec![
            (Trouble::CutPower, 30),
            (Trouble::Kill, 10),
            (Trouble::Bridge, 60),
            (Trouble::OneWay, 60),
            (Trouble::Mend, 60),
        ];
        (self.troubled_us, self.trouble_every_us) = (30_000_000, 500_000);
        (self.outage_us, self.writeback_per_thousand) = (1_500_000, 0);
        self.cut = PowerCut { kept_per_thousand: 0, torn: false, rubbish: false };
        self.times.lag_max = Duration::from_millis(600);
        self
    }
}

fn draw_topic(random: &mut Random, number: u64, nodes: usize) -> TopicOptions {
    let replicas = if random.chance(850) { 3 } else { random.between(1, nodes as u64) as i16 };
    TopicOptions {
        name: format!("topic-{number}"),
        partitions: random.between(1, 2) as i32,
        replicas,
        isr_min: random.pick(&[2, 2, 2, 1, 3]).min(replicas as usize),
        policy: random.pick(&[FlushPolicy::Ack, FlushPolicy::Ack, FlushPolicy::Os, FlushPolicy::Interval]),
        compacts: false,
        brokers: Vec::new(),
    }
}

/// Each is there or not, weak or strong; mending always is.
fn draw_troubles(random: &mut Random) -> Vec<(Trouble, u32)> {
    let calm = random.pick(&[200, 500, 800]);
    let draw = |(trouble, weight): (Trouble, u32)| {
        let is_there = trouble == Trouble::Mend || !random.chance(calm);
        is_there.then(|| (trouble, (weight * random.pick(&[1, 2, 6])).max(1)))
    };
    TROUBLES.into_iter().filter_map(draw).collect()
}

fn draw_temper(random: &mut Random) -> Temper {
    Temper {
        commit_us: random.pick(&[1_000, 10_000, 100_000]),
        tell_us: random.pick(&[1_000, 20_000, 300_000]),
        election_us: random.pick(&[400_000, 1_500_000]),
        restless_per_thousand: random.pick(&[0, 0, 1, 5]),
        snapshot_per_thousand: random.pick(&[0, 100]),
        late_per_thousand: random.pick(&[0, 300]),
    }
}

fn draw_times(random: &mut Random) -> Times {
    let millis = Duration::from_millis;
    Times {
        lag_max: millis(random.pick(&[600, 2_000, 6_000])),
        checkpoint_every: millis(random.pick(&[500, 3_000])),
        patience: millis(random.pick(&[500, 1_500])),
        retry_after: millis(50),
        fetcher: FetcherLimits {
            wait_max: millis(random.pick(&[50, 500])),
            response_bytes_max: random.pick(&[4_000, 1 << 20]),
            partition_bytes_max: random.pick(&[2_000, 1 << 16]),
            backoff: millis(random.pick(&[20, 200])),
        },
    }
}
