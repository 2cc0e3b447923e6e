//! What a seed chooses for clusters with groups.

use std::sync::Arc;
use std::time::Duration;

use broker::groups::OFFSETS_TOPIC;
use coordinator::ShardSettings;
use coordinator::consumer::ConsumerGroupSettings;
use metadata::settings::FlushPolicy;

use super::{Options, TopicOptions, Trouble};
use crate::random::Random;

/// How members and their coordinator talk; a seed chooses one of these for each group.
const PROTOCOLS: &[Protocol] = &[Protocol::Classic, Protocol::Consumer, Protocol::Mixed];

/// How long a member may be silent, in microseconds.
const SESSIONS_US: &[u64] = &[600_000, 2_000_000];

/// What the members of a group speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// All of them the classic one.
    Classic,
    /// All of them that of KIP-848.
    Consumer,
    /// Each process of a member one of the two: the group turns from one to the other while it is read.
    Mixed,
}

/// A group of a run.
#[derive(Debug, Clone)]
pub struct GroupOptions {
    /// Its name.
    pub name: String,
    /// How many members it has.
    pub members: usize,
    /// How they talk with their coordinator.
    pub protocol: Protocol,
    /// Whether they say a pattern of the topics that they want, instead of their names.
    pub has_pattern: bool,
    /// Whether members keep what they have until another is to get it (KIP-429).
    pub is_cooperative: bool,
    /// Whether each has a place that is kept for it (KIP-345).
    pub is_static: bool,
    /// Whether what was read is committed by itself.
    pub auto_commits: bool,
    /// `session.timeout.ms`, in microseconds; where not all speak the classic protocol, as the coordinator says.
    pub session_us: u64,
    /// `max.poll.interval.ms`, in microseconds: for so long a rebalance waits.
    pub rebalance_us: u64,
    /// How long a member rests between two commits, on average.
    pub commit_every_us: u64,
    /// Chances in a thousand that it crashes, is paused, or leaves instead.
    pub restless_per_thousand: u32,
}

impl Options {
    /// What a seed chooses for a cluster with groups.
    pub fn draw_groups(seed: u64) -> Self {
        let mut random = Random::stream(seed, "group options");
        let random = &mut random;
        let mut drawn = Self::draw(seed);
        drawn.topics = (0..random.between(1, 2)).map(|number| topic_of_data(random, number)).collect();
        drawn.topics.push(TopicOptions {
            name: OFFSETS_TOPIC.to_owned(),
            partitions: random.between(1, 3) as i32,
            replicas: 3,
            isr_min: random.pick(&[2, 2, 2, 1]),
            policy: FlushPolicy::Ack,
            compacts: true,
            brokers: Vec::new(),
        });
        (drawn.producers, drawn.careless, drawn.readers, drawn.deleters) = (0, 0, 0, 0);
        drawn.groups = (0..random.between(1, 3)).map(|number| draw_group(random, number)).collect();
        drawn.auditors = 2;
        drawn.compact_every_us = random.pick(&[5_000, 50_000, 200_000]);
        drawn.load_us = random.pick(&[1_000, 30_000]);
        drawn.shards = shards();
        if random.chance(300) {
            drawn = drawn.of_many_coordinators();
        } else if Random::stream(seed, "cut off").chance(250) {
            drawn = drawn.of_cut_off_coordinators();
        }
        drawn.draw_protocols(seed);
        drawn
    }

    /// What the members of each group speak: apart from all else that is drawn, so that a run in which all speak the
    /// classic protocol is what it was without this.
    fn draw_protocols(&mut self, seed: u64) {
        let mut random = Random::stream(seed, "protocols of groups");
        let consumer = draw_consumer(&mut random);
        for group in &mut self.groups {
            group.protocol = random.pick(PROTOCOLS);
            if group.protocol != Protocol::Classic {
                group.session_us = consumer.session_timeout.as_micros() as u64;
                group.has_pattern = random.chance(300);
            }
        }
        self.shards.consumer = Arc::new(consumer);
    }

    /// Coordinators change often, with commits on their way.
    fn of_many_coordinators(mut self) -> Self {
        self.troubles = vec![
            (Trouble::MoveLeaders, 60),
            (Trouble::Kill, 40),
            (Trouble::CutPower, 30),
            (Trouble::Isolate, 30),
            (Trouble::OneWay, 30),
            (Trouble::Pause, 20),
            (Trouble::Mend, 80),
        ];
        (self.troubled_us, self.trouble_every_us, self.outage_us) = (15_000_000, 150_000, 300_000);
        self.groups.iter_mut().for_each(|group| group.commit_every_us = 10_000);
        self
    }

    /// Nodes are cut off from all others, not from clients, for longer than it takes to replace them.
    pub(in crate::cluster) fn of_cut_off_coordinators(mut self) -> Self {
        self.troubles = vec![(Trouble::Isolate, 40), (Trouble::Mend, 40), (Trouble::MoveLeaders, 20)];
        (self.troubled_us, self.trouble_every_us) = (30_000_000, 4_000_000);
        self
    }

    /// One log keeps all groups, and each has a lone member that crashes often and is missed late: so a coordinator
    /// that was cut off has nothing to write when another has gone on.
    pub(in crate::cluster) fn of_members_missed_late(mut self) -> Self {
        self.nodes = 3;
        self.topics
            .iter_mut()
            .filter(|topic| topic.name == OFFSETS_TOPIC)
            .for_each(|topic| topic.partitions = 1);
        for group in &mut self.groups {
            (group.members, group.auto_commits) = (1, false);
            (group.commit_every_us, group.restless_per_thousand) = (1_000_000, 400);
            if group.protocol == Protocol::Classic {
                (group.session_us, group.rebalance_us) = (6_000_000, 9_000_000);
            }
        }
        self
    }

    /// Disks often do not give what they have, while coordinators move.
    pub(in crate::cluster) fn of_failing_reads(mut self) -> Self {
        self.troubles = vec![(Trouble::FailRead, 60), (Trouble::MoveLeaders, 40)];
        (self.troubled_us, self.trouble_every_us) = (15_000_000, 30_000);
        self
    }

    /// Three quiet nodes with a topic of two partitions, and one that keeps all groups, on all of them.
    #[cfg(test)]
    pub(crate) fn quiet_with_groups() -> Self {
        let quiet = Self::quiet(FlushPolicy::Ack, 2);
        let of = |name: &str, partitions, compacts| TopicOptions {
            name: name.to_owned(),
            partitions,
            compacts,
            ..quiet.topics[0].clone()
        };
        let topics = vec![of("t", 2, false), of(OFFSETS_TOPIC, 1, true)];
        Self { topics, shards: shards(), ..quiet }
    }
}

/// As a node has them by default, but for times that a short run can wait for.
fn shards() -> ShardSettings {
    ShardSettings {
        initial_rebalance_delay_max: Duration::from_millis(500),
        session_timeout_min: Duration::from_millis(100),
        ..ShardSettings::default()
    }
}

/// What groups of the new protocol keep to.
fn draw_consumer(random: &mut Random) -> ConsumerGroupSettings {
    let session_timeout = Duration::from_micros(random.pick(SESSIONS_US));
    ConsumerGroupSettings {
        session_timeout,
        heartbeat_interval: session_timeout / 6,
        assignment_interval: Duration::from_millis(random.pick(&[0, 50, 500])),
        ..ConsumerGroupSettings::default()
    }
}

fn topic_of_data(random: &mut Random, number: u64) -> TopicOptions {
    TopicOptions {
        name: format!("topic-{number}"),
        partitions: random.between(1, 3) as i32,
        replicas: 3,
        isr_min: 1,
        policy: FlushPolicy::Ack,
        compacts: false,
        brokers: Vec::new(),
    }
}

fn draw_group(random: &mut Random, number: u64) -> GroupOptions {
    GroupOptions {
        name: format!("group-{number}"),
        members: random.between(1, 3) as usize,
        // What they speak is drawn apart.
        protocol: random.pick(&[Protocol::Classic]),
        has_pattern: false,
        is_cooperative: random.chance(500),
        is_static: random.chance(300),
        auto_commits: random.chance(300),
        session_us: random.pick(SESSIONS_US),
        rebalance_us: random.pick(&[1_000_000, 3_000_000]),
        commit_every_us: random.pick(&[10_000, 40_000, 100_000]),
        restless_per_thousand: random.pick(&[0, 5, 20]),
    }
}
