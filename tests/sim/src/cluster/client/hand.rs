//! Somebody who writes and reads by hand: one request at a time, to the node that is named.

use base::{ErrorCode, Offset, TimestampMs};
use records::{BatchBuilder, BatchOptions, Scratch};
use wire::messages::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use wire::messages::produce::{PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData};
use wire::{ApiKey, Message, Records};

use super::ClientAct;
use super::line::Line;
use crate::cluster::net::ConnId;
use crate::cluster::process::PartitionKey;
use crate::cluster::truth::value_of;

const PRODUCE: i16 = 13;
const FETCH: i16 = 17;

/// What to ask for.
#[derive(Debug, Clone)]
pub(crate) enum Wish {
    Write { to: usize, values: Vec<u64>, acks: i16 },
    Read { from: usize, offset: Offset, epoch: i32 },
}

/// See the module.
pub(crate) struct Hand {
    line: Line,
    key: PartitionKey,
    wish: Option<Wish>,
    asked: Option<Wish>,
    /// What came of the last wish, in words.
    pub(crate) heard: Option<String>,
    scratch: Scratch,
}

impl Hand {
    pub(crate) fn new(client: usize, key: PartitionKey) -> Self {
        let line = Line::new(client, 0, 3_000_000);
        Self { line, key, wish: None, asked: None, heard: None, scratch: Scratch::default() }
    }

    pub(crate) fn wish(&mut self, wish: Wish) {
        (self.wish, self.asked, self.heard) = (Some(wish), None, None);
    }

    pub(crate) fn step(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        let Some(wish) = self.wish.clone() else { return };
        let (Wish::Write { to, .. } | Wish::Read { from: to, .. }) = &wish;
        self.line.turn_to(*to, acts);
        let Some(correlation_id) = self.line.ready(now_us, acts) else { return };
        let frame = match &wish {
            Wish::Write { values, acks, .. } => self.write(correlation_id, values, *acks),
            Wish::Read { offset, epoch, .. } => self.read(correlation_id, *offset, *epoch),
        };
        (self.wish, self.asked) = (None, Some(wish));
        self.line.ask(now_us, frame, acts);
    }

    fn write(&mut self, correlation_id: i32, values: &[u64], acks: i16) -> Vec<u8> {
        let mut builder = BatchBuilder::new(1 << 16);
        for value in values {
            builder.try_append(TimestampMs(1), None, Some(&value.to_be_bytes()), &[]).expect("it fits");
        }
        let mut batch = Vec::new();
        builder.finish(&BatchOptions::default(), &mut self.scratch, &mut batch).expect("it is small");
        let data = PartitionProduceData { index: self.key.1.0, records: Some(Records::Bytes(&batch)) };
        let topic = TopicProduceData { topic_id: self.key.0.0, partition_data: vec![data], name: "" };
        let request =
            ProduceRequest { acks, timeout_ms: 1_000, topic_data: vec![topic], ..ProduceRequest::default() };
        wire::encode_request(correlation_id, Some("hand"), PRODUCE, &request).expect("it is small").bytes
    }

    fn read(&self, correlation_id: i32, offset: Offset, epoch: i32) -> Vec<u8> {
        let partition = FetchPartition {
            partition: self.key.1.0,
            current_leader_epoch: epoch,
            fetch_offset: offset.0,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: 1 << 20,
            ..FetchPartition::default()
        };
        let topic =
            FetchTopic { topic_id: self.key.0.0, partitions: vec![partition], ..FetchTopic::default() };
        let request = FetchRequest {
            max_bytes: 1 << 20,
            session_epoch: -1,
            topics: vec![topic],
            ..FetchRequest::default()
        };
        wire::encode_request(correlation_id, Some("hand"), FETCH, &request).expect("it is small").bytes
    }

    pub(crate) fn on_connected(&mut self, now_us: u64, conn: ConnId, acts: &mut Vec<ClientAct>) {
        self.line.on_connected(conn);
        self.step(now_us, acts);
    }

    pub(crate) fn on_closed(&mut self, conn: ConnId) {
        if self.line.on_closed(conn) {
            self.heard.get_or_insert_with(|| "the connection broke".to_owned());
        }
    }

    pub(crate) fn on_frame(&mut self, conn: ConnId, frame: &[u8]) {
        if !self.line.on_frame(conn) {
            return;
        }
        self.heard = match self.asked.take() {
            Some(Wish::Write { .. }) => Some(written(frame)),
            Some(Wish::Read { .. }) => Some(self.given(frame)),
            None => None,
        };
    }

    fn given(&mut self, frame: &[u8]) -> String {
        let (_, mut body) = wire::decode_response_header(frame, ApiKey::Fetch, FETCH).expect("well-formed");
        let response = FetchResponse::decode(&mut body, FETCH).expect("well-formed");
        let Some(data) = response.responses.iter().flat_map(|topic| &topic.partitions).next() else {
            return "nothing".to_owned();
        };
        if data.error_code != 0 {
            return code(data.error_code);
        }
        let Some(Records::Bytes(bytes)) = data.records else { return "nothing".to_owned() };
        let mut values = Vec::new();
        for batch in records::batches(bytes).map_while(Result::ok) {
            let records = batch.records(&mut self.scratch).expect("it was checked");
            values.extend(records.filter_map(|record| value_of(record.ok()?.value).ok()));
        }
        format!("{values:?}, committed to {}", data.high_watermark)
    }
}

fn written(frame: &[u8]) -> String {
    let (_, mut body) = wire::decode_response_header(frame, ApiKey::Produce, PRODUCE).expect("well-formed");
    let response = ProduceResponse::decode(&mut body, PRODUCE).expect("well-formed");
    let part = &response.responses[0].partition_responses[0];
    if part.error_code == 0 { format!("at {}", part.base_offset) } else { code(part.error_code) }
}

fn code(number: i16) -> String {
    ErrorCode::from_i16(number).map_or_else(|| number.to_string(), |code| code.name().to_owned())
}
