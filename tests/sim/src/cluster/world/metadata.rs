//! What the quorum commits, and who is told of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::TopicId;

use super::{Event, World};
use crate::cluster::client::producer::Target;
use crate::cluster::invariants::{self, i23_same_image};
use crate::cluster::net::Place;
use crate::cluster::options::TopicOptions;
use crate::cluster::process::PartitionKey;
use crate::cluster::quorum::{LOOKS_EVERY_US, Reach, SimQuorum};
use crate::cluster::truth::History;
use crate::cluster::words;

impl World {
    pub(super) fn targets(&self) -> Vec<Target> {
        let image = self.quorum.image();
        let of = |topic: &TopicOptions| {
            let id = image.topic(&topic.name).map_or(TopicId(base::Uuid::ZERO), |topic| topic.id);
            Target { name: topic.name.clone(), id, partitions: topic.partitions }
        };
        self.options.topics.iter().filter(|topic| !topic.compacts).map(of).collect()
    }

    pub(super) fn look_at_quorum(&mut self) {
        self.with_quorum(|quorum, now_us, reach| quorum.look(now_us, reach));
        self.look_at_metadata();
        for node in 0..self.nodes.len() {
            if self.nodes[node].process.is_some() && self.quorum.has_news(node) {
                let at = self.now_us + self.quorum.tell_delay();
                self.queue.push(at, Event::Tell(node));
            }
        }
        self.queue.push(self.now_us + LOOKS_EVERY_US, Event::Quorum);
    }

    pub(super) fn with_quorum<R>(&mut self, act: impl FnOnce(&mut SimQuorum, u64, &Reach<'_>) -> R) -> R {
        let Self { quorum, nodes, net, now_us, .. } = self;
        let is_up = |node: usize| nodes[node].process.is_some() && nodes[node].paused_until <= *now_us;
        let are_joined = |a: usize, b: usize| net.are_joined(Place::Node(a), Place::Node(b));
        let led = (quorum.epoch, quorum.leader);
        let done = act(quorum, *now_us, &Reach { is_up: &is_up, are_joined: &are_joined });
        if (self.quorum.epoch, self.quorum.leader) != led {
            let (epoch, leader) = (self.quorum.epoch, self.quorum.leader);
            self.say(format_args!("quorum: epoch {epoch}, leader {leader:?}"));
        }
        done
    }

    /// Has the quorum elect although all is well.
    pub(crate) fn elect_anew(&mut self) {
        self.with_quorum(|quorum, now_us, reach| quorum.elect(now_us, reach));
    }

    /// Looks at what was committed since the last look.
    pub(super) fn look_at_metadata(&mut self) {
        self.seen.check(&self.quorum.log, &mut self.found);
        while self.known < self.quorum.log.len() {
            let entry = &self.quorum.log[self.known];
            let after = Arc::clone(&entry.image);
            let before = match self.known {
                0 => Arc::default(),
                known => Arc::clone(&self.quorum.log[known - 1].image),
            };
            self.known += 1;
            if !entry.records.is_empty() {
                self.say(format_args!("committed up to {}: {}", after.end(), words(&entry.records, &after)));
            }
            self.note_topics(&after);
            invariants::look_at_metadata(&before, &after, &mut self.truth, &mut self.found);
        }
    }

    pub(super) fn note_topics(&mut self, image: &metadata::Image) {
        for topic in image.topics() {
            let Some(options) = self.options.topics.iter().find(|it| it.name == topic.name.as_str()) else {
                continue;
            };
            for partition in topic.partitions() {
                let name = format!("{}-{}", topic.name, partition.index);
                let history = || History {
                    compacts: options.compacts,
                    ..History::new(name, options.policy, options.isr_min)
                };
                self.truth.histories.entry((topic.id, partition.index)).or_insert_with(history);
            }
        }
    }

    pub(super) fn tell(&mut self, node: usize) {
        let life = self.nodes[node].life;
        if self.nodes[node].process.is_none() {
            return;
        }
        loop {
            let told = self.with_quorum(|quorum, now_us, reach| quorum.tell(now_us, node, reach));
            let Some(event) = told else { return };
            self.step(node, life, |process, now| process.on_quorum(now, event));
            let Some(process) = &self.nodes[node].process else { return };
            i23_same_image::check(node, &process.image, &self.quorum.log, &mut self.found);
        }
    }

    /// The partitions that there are, with what the metadata say of them.
    pub(crate) fn partitions(&self) -> BTreeMap<PartitionKey, Arc<metadata::Partition>> {
        let image = self.quorum.image();
        let all = image.topics().flat_map(|topic| {
            topic
                .partitions()
                .iter()
                .map(move |partition| ((topic.id, partition.index), Arc::clone(partition)))
        });
        all.collect()
    }
}
