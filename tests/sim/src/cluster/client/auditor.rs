//! Somebody who asks how far groups came, now of this node, now of that one: those who do not coordinate the group
//! say so.

use wire::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics};

use super::ClientAct;
use super::line::Line;
use crate::cluster::net::ConnId;
use crate::random::Random;

const VERSION: i16 = 9;
const REST_US: u64 = 40_000;

/// See the module.
pub(crate) struct Auditor {
    line: Line,
    nodes: usize,
    groups: Vec<String>,
    /// Topics, and how many partitions each has.
    topics: Vec<(String, i32)>,
    rests_until: u64,
    random: Random,
}

impl Auditor {
    pub(crate) fn new(
        client: usize,
        nodes: usize,
        groups: Vec<String>,
        topics: Vec<(String, i32)>,
        random: Random,
    ) -> Self {
        Self { line: Line::new(client, 0, 7_000_000), nodes, groups, topics, rests_until: 0, random }
    }

    pub(crate) fn step(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        if now_us < self.rests_until {
            return acts.push(ClientAct::Wake(self.rests_until));
        }
        let Some(correlation_id) = self.line.ready(now_us, acts) else { return };
        let group_id = self.groups[self.random.index(self.groups.len())].as_str();
        let topics = self.topics.iter().map(|(name, partitions)| OffsetFetchRequestTopics {
            name,
            partition_indexes: (0..*partitions).collect(),
            ..OffsetFetchRequestTopics::default()
        });
        let group = OffsetFetchRequestGroup {
            group_id,
            member_id: None,
            member_epoch: -1,
            topics: Some(topics.collect()),
        };
        let request =
            OffsetFetchRequest { groups: vec![group], require_stable: true, ..OffsetFetchRequest::default() };
        let frame = wire::encode_request(correlation_id, Some("auditor"), VERSION, &request);
        self.line.ask(now_us, frame.expect("it is small").bytes, acts);
    }

    pub(crate) fn on_connected(&mut self, now_us: u64, conn: ConnId, acts: &mut Vec<ClientAct>) {
        self.line.on_connected(conn);
        self.step(now_us, acts);
    }

    pub(crate) fn on_closed(&mut self, now_us: u64, conn: ConnId, acts: &mut Vec<ClientAct>) {
        if self.line.on_closed(conn) {
            self.turn(now_us, acts);
        }
    }

    /// What it is told is overheard.
    pub(crate) fn on_frame(&mut self, now_us: u64, conn: ConnId, _: &[u8], acts: &mut Vec<ClientAct>) {
        if self.line.on_frame(conn) {
            self.turn(now_us, acts);
        }
    }

    /// Asks somebody, after a while.
    fn turn(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        let to = self.random.index(self.nodes);
        self.line.turn_to(to, acts);
        self.rests_until = now_us + REST_US;
        acts.push(ClientAct::Wake(self.rests_until));
    }
}
