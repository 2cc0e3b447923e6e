//! Somebody who has records deleted, now of this partition, now of that one, up to somewhere in what is committed.

use std::collections::BTreeMap;

use base::{ErrorCode, Offset, PartitionIndex};
use wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopic,
};
use wire::{ApiKey, Message};

use super::ClientAct;
use super::line::Line;
use super::producer::Target;
use crate::cluster::net::ConnId;
use crate::cluster::process::PartitionKey;
use crate::cluster::truth::Truth;
use crate::random::Random;

const VERSION: i16 = 2;
const REST_US: u64 = 300_000;

/// See the module.
pub(crate) struct Deleter {
    line: Line,
    nodes: usize,
    targets: Vec<Target>,
    /// Up to where each partition is committed, as far as it was told.
    ends: BTreeMap<PartitionKey, Offset>,
    asked: Option<(PartitionKey, Offset)>,
    rests_until: u64,
    random: Random,
}

impl Deleter {
    pub(crate) fn new(client: usize, nodes: usize, targets: Vec<Target>, random: Random) -> Self {
        let line = Line::new(client, 0, 3_000_000);
        Self { line, nodes, targets, ends: BTreeMap::new(), asked: None, rests_until: 0, random }
    }

    /// Takes over how far everything is committed.
    pub(crate) fn learn(&mut self, truth: &Truth) {
        self.ends = truth.histories.iter().map(|(key, history)| (*key, history.end)).collect();
    }

    pub(crate) fn step(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        if now_us < self.rests_until {
            return acts.push(ClientAct::Wake(self.rests_until));
        }
        let Some(correlation_id) = self.line.ready(now_us, acts) else { return };
        let target = &self.targets[self.random.index(self.targets.len())];
        let index = self.random.below(target.partitions as u64) as i32;
        let key = (target.id, PartitionIndex(index));
        let end = self.ends.get(&key).copied().unwrap_or(Offset::ZERO);
        // Mostly what is old, for something is to be left to compare.
        let most = if self.random.chance(200) { end.0 } else { end.0 / 2 };
        let upto = Offset(self.random.between(0, most as u64) as i64);
        let part = DeleteRecordsPartition { partition_index: index, offset: upto.0 };
        let topic = DeleteRecordsTopic { name: &target.name, partitions: vec![part] };
        let request = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 2_000 };
        let frame = wire::encode_request(correlation_id, Some("deleter"), VERSION, &request);
        self.asked = Some((key, upto));
        acts.push(ClientAct::Deletes { key, upto });
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

    pub(crate) fn on_frame(&mut self, now_us: u64, conn: ConnId, frame: &[u8], acts: &mut Vec<ClientAct>) {
        if !self.line.on_frame(conn) {
            return;
        }
        let (_, mut body) =
            wire::decode_response_header(frame, ApiKey::DeleteRecords, VERSION).expect("nodes answer well");
        let response = DeleteRecordsResponse::decode(&mut body, VERSION).expect("nodes answer well");
        let part = response.topics.iter().flat_map(|topic| &topic.partitions).next();
        if let (Some(part), Some((key, upto))) = (part, self.asked.take())
            && part.error_code == ErrorCode::None.code()
        {
            acts.push(ClientAct::Deleted { key, upto, start: Offset(part.low_watermark) });
        }
        self.turn(now_us, acts);
    }

    /// Asks somebody, after a while.
    fn turn(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        let to = self.random.index(self.nodes);
        self.line.turn_to(to, acts);
        self.rests_until = now_us + self.random.below(2 * REST_US);
        acts.push(ClientAct::Wake(self.rests_until));
    }
}
