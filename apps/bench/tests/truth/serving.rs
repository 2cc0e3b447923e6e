//! What a simulated broker answers: as much of the protocol as the harness needs.
//!
//! Topics go by their names: versions that have only ids are not offered.

use std::ops::RangeInclusive;
use std::time::Duration;

use base::{ErrorCode, Uuid};
use wire::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::messages::create_topics::{CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse};
use wire::messages::delete_topics::{DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse};
use wire::messages::fetch::{FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData};
use wire::messages::init_producer_id::InitProducerIdResponse;
use wire::messages::list_offsets::{
    ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use wire::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use wire::messages::produce::{
    PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse,
};
use wire::{ApiKey, Decoder, Message, Records, RequestHeader, decode_request_header, encode_response};

use crate::broker::{Acknowledged, Request, Shared, State};
use crate::log::{dues, sent};

/// What it speaks, up to which version.
const SPOKEN: [(ApiKey, i16); 8] = [
    (ApiKey::ApiVersions, 5),
    (ApiKey::Metadata, 12),
    (ApiKey::CreateTopics, 7),
    (ApiKey::DeleteTopics, 5),
    (ApiKey::InitProducerId, 4),
    (ApiKey::ListOffsets, 7),
    (ApiKey::Produce, 12),
    (ApiKey::Fetch, 12),
];
const NODE: i32 = 1;
const EARLIEST: i64 = -2;

/// How many records a request produces, if that is what it does.
pub(crate) fn records_of(frame: &[u8]) -> Option<u64> {
    let (header, mut body) = decode_request_header(frame).expect("a client made it");
    if header.api_key != ApiKey::Produce.code() {
        return None;
    }
    let request: ProduceRequest<'_> = read(&header, &mut body);
    let parts = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    Some(parts.map(|part| sent(bytes(part.records)).len() as u64).sum())
}

/// Whether a request asks where partitions end.
pub(crate) fn asks_for_ends(frame: &[u8]) -> bool {
    let (header, mut body) = decode_request_header(frame).expect("a client made it");
    if header.api_key != ApiKey::ListOffsets.code() {
        return false;
    }
    wants_ends(&read(&header, &mut body))
}

fn wants_ends(request: &ListOffsetsRequest<'_>) -> bool {
    let mut parts = request.topics.iter().flat_map(|topic| &topic.partitions);
    parts.any(|part| part.timestamp != EARLIEST)
}

impl Shared {
    /// Does what was asked, and what is answered; nothing if no answer is wanted.
    pub(crate) fn answer(&self, request: &Request) -> Option<Vec<u8>> {
        let (header, mut body) = decode_request_header(&request.frame).expect("a client made it");
        let key = ApiKey::from_i16(header.api_key).expect("it is known");
        let (header, body) = (&header, &mut body);
        let frame = match key {
            ApiKey::ApiVersions => framed(header, key, &versions()),
            ApiKey::Metadata => self.metadata(header, &read(header, body)),
            ApiKey::CreateTopics => self.create(header, &read(header, body)),
            ApiKey::DeleteTopics => self.delete(header, &read(header, body)),
            ApiKey::InitProducerId => {
                let identity =
                    InitProducerIdResponse { producer_id: 1, producer_epoch: 0, ..Default::default() };
                framed(header, key, &identity)
            }
            ApiKey::ListOffsets => self.list_offsets(header, &read(header, body)),
            ApiKey::Produce => return self.produce(header, &read(header, body), request.came),
            ApiKey::Fetch => self.fetch(header, &read(header, body)),
            other => panic!("the harness asks for {other}"),
        };
        Some(frame)
    }

    fn metadata(&self, header: &RequestHeader<'_>, asked: &MetadataRequest<'_>) -> Vec<u8> {
        let state = self.state();
        let names = asked.topics.iter().flatten().filter_map(|topic| topic.name);
        let topic = |name| {
            let partitions = state.logs.partitions(name);
            let code =
                if partitions.is_some() { ErrorCode::None } else { ErrorCode::UnknownTopicOrPartition };
            let partition = |index: usize| MetadataResponsePartition {
                partition_index: index as i32,
                leader_id: NODE,
                leader_epoch: 0,
                replica_nodes: vec![NODE],
                isr_nodes: vec![NODE],
                ..Default::default()
            };
            MetadataResponseTopic {
                error_code: code.code(),
                name: Some(name),
                topic_id: id_of(name),
                partitions: (0..partitions.unwrap_or(0)).map(partition).collect(),
                ..Default::default()
            }
        };
        let broker =
            MetadataResponseBroker { node_id: NODE, host: "127.0.0.1", port: self.port.into(), rack: None };
        let said = MetadataResponse {
            brokers: vec![broker],
            controller_id: NODE,
            topics: names.map(topic).collect(),
            ..Default::default()
        };
        framed(header, ApiKey::Metadata, &said)
    }

    fn create(&self, header: &RequestHeader<'_>, asked: &CreateTopicsRequest<'_>) -> Vec<u8> {
        let mut state = self.state();
        let topics = asked.topics.iter().map(|topic| {
            state.logs.create(topic.name, topic.num_partitions);
            CreatableTopicResult {
                error_code: self.or_twice(ErrorCode::TopicAlreadyExists),
                name: topic.name,
                topic_id: id_of(topic.name),
                num_partitions: topic.num_partitions,
                replication_factor: 1,
                ..Default::default()
            }
        });
        let said = CreateTopicsResponse { topics: topics.collect(), ..Default::default() };
        framed(header, ApiKey::CreateTopics, &said)
    }

    fn delete(&self, header: &RequestHeader<'_>, asked: &DeleteTopicsRequest<'_>) -> Vec<u8> {
        let mut state = self.state();
        let responses = asked.topic_names.iter().map(|&name| {
            state.logs.delete(name);
            let error_code = self.or_twice(ErrorCode::UnknownTopicOrPartition);
            DeletableTopicResult { name: Some(name), error_code, ..Default::default() }
        });
        let said = DeleteTopicsResponse { responses: responses.collect(), ..Default::default() };
        framed(header, ApiKey::DeleteTopics, &said)
    }

    /// What it says where it did what was asked for, if the second time would be answered so.
    fn or_twice(&self, second: ErrorCode) -> i16 {
        if self.manner.does_twice { second.code() } else { ErrorCode::None.code() }
    }

    fn list_offsets(&self, header: &RequestHeader<'_>, asked: &ListOffsetsRequest<'_>) -> Vec<u8> {
        let mut state = self.state();
        state.asked_for_ends += u32::from(wants_ends(asked));
        let error_code = self.leading(&state).code();
        let topics = asked.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|part| {
                let end = state.logs.get(topic.name, part.partition_index).map_or(0, |log| log.end());
                ListOffsetsPartitionResponse {
                    partition_index: part.partition_index,
                    error_code,
                    offset: if part.timestamp == EARLIEST { 0 } else { end },
                    leader_epoch: 0,
                    ..Default::default()
                }
            });
            ListOffsetsTopicResponse { name: topic.name, partitions: partitions.collect() }
        });
        let said = ListOffsetsResponse { topics: topics.collect(), ..Default::default() };
        framed(header, ApiKey::ListOffsets, &said)
    }

    /// What it says of any partition, unless it knows that it leads it.
    fn leading(&self, state: &State) -> ErrorCode {
        let knows = state.asked_for_ends >= self.manner.leads_after;
        if knows { ErrorCode::None } else { ErrorCode::NotLeaderOrFollower }
    }

    fn produce(
        &self,
        header: &RequestHeader<'_>,
        asked: &ProduceRequest<'_>,
        came: Duration,
    ) -> Option<Vec<u8>> {
        let mut state = self.state();
        let leading = self.leading(&state);
        let mut responses = Vec::new();
        for topic in &asked.topic_data {
            let mut partition_responses = Vec::new();
            for part in &topic.partition_data {
                let (batch, index) = (bytes(part.records), part.index);
                if leading != ErrorCode::None {
                    let error_code = leading.code();
                    let part = PartitionProduceResponse { index, error_code, ..Default::default() };
                    partition_responses.push(part);
                    continue;
                }
                let records = sent(batch);
                let is_it = |&(number, _): &(u64, _)| records.iter().any(|sent| sent.number == number);
                let lie = self.manner.lie.filter(|lie| !state.has_lied && is_it(lie)).map(|(_, lie)| lie);
                state.has_lied |= lie.is_some();
                let log = state.logs.get_mut(topic.name, index).expect("it was made");
                let base_offset = log.end();
                log.append(batch, lie);
                let answered = self.now();
                state.acknowledged.push(Acknowledged { came, answered, records, lie });
                let part = PartitionProduceResponse { index, base_offset, ..Default::default() };
                partition_responses.push(part);
            }
            let (name, topic_id) = (topic.name, topic.topic_id);
            responses.push(TopicProduceResponse { name, topic_id, partition_responses });
        }
        drop(state);
        self.tell_of_more();
        let said = ProduceResponse { responses, ..Default::default() };
        (asked.acks != 0).then(|| framed(header, ApiKey::Produce, &said))
    }

    fn fetch(&self, header: &RequestHeader<'_>, asked: &FetchRequest<'_>) -> Vec<u8> {
        let until = self.now() + Duration::from_millis(asked.max_wait_ms.unsigned_abs().into());
        let mut state = self.state();
        let mut found = read_all(&state, asked);
        while found.iter().all(|(_, bytes)| bytes.is_empty()) && self.now() < until {
            state = self.wait_for_more(state, until);
            found = read_all(&state, asked);
        }
        let now = self.now();
        let ages = found.iter().flat_map(|(_, bytes)| dues(bytes)).map(|due| now.saturating_sub(due));
        state.read.extend(ages);
        let mut found = found.iter();
        let topics = asked.topics.iter().map(|topic| {
            let partitions =
                topic.partitions.iter().zip(found.by_ref()).map(|(part, (end, bytes))| PartitionData {
                    partition_index: part.partition,
                    high_watermark: *end,
                    last_stable_offset: *end,
                    log_start_offset: 0,
                    records: Some(Records::Bytes(bytes)),
                    ..Default::default()
                });
            FetchableTopicResponse {
                topic: topic.topic,
                topic_id: topic.topic_id,
                partitions: partitions.collect(),
            }
        });
        let said = FetchResponse { responses: topics.collect(), ..Default::default() };
        framed(header, ApiKey::Fetch, &said)
    }
}

/// The end of each partition that is asked for, and what is there.
fn read_all(state: &State, asked: &FetchRequest<'_>) -> Vec<(i64, Vec<u8>)> {
    let parts =
        asked.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |part| (topic.topic, part)));
    let read = |(topic, part): (&str, &wire::messages::fetch::FetchPartition)| {
        let bytes_max = usize::try_from(part.partition_max_bytes).unwrap_or(0);
        let log = state.logs.get(topic, part.partition);
        log.map_or((0, Vec::new()), |log| (log.end(), log.read(part.fetch_offset, bytes_max)))
    };
    parts.map(read).collect()
}

fn read<'a, T: Message<'a>>(header: &RequestHeader<'_>, body: &mut Decoder<'a>) -> T {
    T::decode(body, header.api_version).expect("a client made it")
}

fn framed<'a>(header: &RequestHeader<'_>, key: ApiKey, said: &impl Message<'a>) -> Vec<u8> {
    encode_response(header.correlation_id, key, header.api_version, said).expect("it can be said").bytes
}

fn bytes(records: Option<Records<'_>>) -> &[u8] {
    match records {
        Some(Records::Bytes(bytes)) => bytes,
        other => panic!("a client sends batches: {other:?}"),
    }
}

/// A topic's id follows from its name.
fn id_of(name: &str) -> Uuid {
    let mut id = [1; 16];
    id.iter_mut().zip(name.bytes().rev()).for_each(|(byte, letter)| *byte = letter);
    Uuid(id)
}

fn versions() -> ApiVersionsResponse<'static> {
    let spoken = |&(key, newest): &(ApiKey, i16)| {
        let ours: RangeInclusive<i16> = key.versions();
        ApiVersion { api_key: key.code(), min_version: *ours.start(), max_version: newest.min(*ours.end()) }
    };
    ApiVersionsResponse { api_keys: SPOKEN.iter().map(spoken).collect(), ..Default::default() }
}
