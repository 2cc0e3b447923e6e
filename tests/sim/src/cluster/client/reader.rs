//! A reader of one partition at a time, from its leader or from any other replica, by assign.
//!
//! It goes on where it was, whomever it asks; now and then it begins anew, with another partition.

use base::{ErrorCode, Offset, PartitionIndex};
use metadata::Image;
use records::Scratch;
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData};
use wire::{ApiKey, Message, Records};

use super::ClientAct;
use super::line::Line;
use super::producer::Target;
use crate::cluster::net::ConnId;
use crate::cluster::process::PartitionKey;
use crate::cluster::truth::{Truth, value_of};
use crate::random::Random;

const VERSION: i16 = 17;
const REST_US: u64 = 50_000;

/// See the module.
pub(crate) struct Reader {
    line: Line,
    nodes: usize,
    targets: Vec<Target>,
    key: PartitionKey,
    position: Offset,
    /// The leader epoch that it knows; -1 for none.
    epoch: i32,
    wants_epoch: bool,
    wants_start: bool,
    /// Chances in a thousand that it goes on with another node, or begins anew.
    restless_per_thousand: u32,
    rests_until: u64,
    random: Random,
    scratch: Scratch,
}

impl Reader {
    pub(crate) fn new(client: usize, nodes: usize, targets: Vec<Target>, mut random: Random) -> Self {
        let to = random.index(nodes);
        let key = draw(&targets, &mut random);
        Self {
            line: Line::new(client, to, 2_000_000),
            nodes,
            targets,
            key,
            position: Offset::ZERO,
            epoch: -1,
            wants_epoch: true,
            wants_start: true,
            restless_per_thousand: random.pick(&[5, 50]),
            rests_until: 0,
            random,
            scratch: Scratch::default(),
        }
    }

    /// Takes over who leads, if it wants to know, and where what was not to be deleted begins.
    pub(crate) fn learn(&mut self, image: &Image, truth: &Truth) {
        if std::mem::take(&mut self.wants_start) {
            let history = truth.histories.get(&self.key);
            self.position = history.map_or(Offset::ZERO, |history| history.deletes_asked);
        }
        if std::mem::take(&mut self.wants_epoch) {
            let partition = image.partition(self.key.0, self.key.1);
            self.epoch = partition.map_or(-1, |partition| partition.leader_epoch.0);
        }
    }

    pub(crate) fn step(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        if now_us < self.rests_until {
            return acts.push(ClientAct::Wake(self.rests_until));
        }
        let Some(correlation_id) = self.line.ready(now_us, acts) else { return };
        let partition = FetchPartition {
            partition: self.key.1.0,
            current_leader_epoch: self.epoch,
            fetch_offset: self.position.0,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: 4_096,
            ..FetchPartition::default()
        };
        let topic =
            FetchTopic { topic_id: self.key.0.0, partitions: vec![partition], ..FetchTopic::default() };
        let request = FetchRequest {
            max_wait_ms: 200,
            min_bytes: 1,
            max_bytes: 1 << 20,
            session_id: 0,
            session_epoch: -1,
            topics: vec![topic],
            ..FetchRequest::default()
        };
        let frame = wire::encode_request(correlation_id, Some("reader"), VERSION, &request);
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

    /// Asks somebody else, after a while.
    fn turn(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        let to = self.random.index(self.nodes);
        self.line.turn_to(to, acts);
        self.wants_epoch = true;
        self.rests_until = now_us + REST_US;
        acts.push(ClientAct::Wake(self.rests_until));
    }

    pub(crate) fn on_frame(&mut self, now_us: u64, conn: ConnId, frame: &[u8], acts: &mut Vec<ClientAct>) {
        if !self.line.on_frame(conn) {
            return;
        }
        let (_, mut body) =
            wire::decode_response_header(frame, ApiKey::Fetch, VERSION).expect("nodes answer well");
        let response = FetchResponse::decode(&mut body, VERSION).expect("nodes answer well");
        let data = response.responses.iter().flat_map(|topic| &topic.partitions).next();
        match data.map(|data| (ErrorCode::from_i16(data.error_code), data)) {
            Some((Some(ErrorCode::None), data)) => {
                if !self.read(data, acts) {
                    self.rests_until = now_us + REST_US;
                }
            }
            Some((Some(ErrorCode::OffsetOutOfRange), _)) => {
                let (node, offset) = (self.line.to, self.position);
                acts.push(ClientAct::OutOfRange { key: self.key, node, offset });
                self.wants_start = true;
                self.rests_until = now_us + REST_US;
            }
            _ => self.turn(now_us, acts),
        }
        if self.random.chance(self.restless_per_thousand) {
            if self.random.chance(300) {
                self.key = draw(&self.targets, &mut self.random);
                self.position = Offset::ZERO;
                self.wants_start = true;
            }
            self.turn(now_us, acts);
        }
        self.step(now_us, acts);
    }

    /// Whether what came could be used.
    fn read(&mut self, data: &PartitionData<'_>, acts: &mut Vec<ClientAct>) -> bool {
        let Some(Records::Bytes(bytes)) = data.records else { return true };
        let before = self.position;
        for batch in records::batches(bytes) {
            // The last may be cut off.
            let Ok(batch) = batch else { break };
            let base = batch.base_offset();
            let records = batch.records(&mut self.scratch).expect("it was checked");
            for record in records {
                let record = record.expect("it was checked");
                let offset = Offset(base.0 + i64::from(record.offset_delta));
                if offset < self.position {
                    continue;
                }
                let (key, node) = (self.key, self.line.to);
                if offset > self.position {
                    acts.push(ClientAct::Skipped { key, node, offset: self.position, to: offset });
                }
                let value = value_of(record.value).unwrap_or(u64::MAX);
                acts.push(ClientAct::Read { key, node, offset, value });
                self.position = offset.next();
            }
        }
        bytes.is_empty() || self.position > before
    }
}

fn draw(targets: &[Target], random: &mut Random) -> PartitionKey {
    let target = &targets[random.index(targets.len())];
    (target.id, PartitionIndex(random.below(target.partitions as u64) as i32))
}
