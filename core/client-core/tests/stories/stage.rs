//! A producer, one broker, and a clock that only the story moves.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{Effects, ErrorCode, Now, PartitionIndex, TimestampMs, Uuid};
use records::{BatchHeader, Compression, Scratch, StoredBatch};
use vltava_client_core::producer::{
    AppendError, Appended, DeliveryError, Destination, Effect, NewRecord, Producer, ProducerSettings, Written,
};
use vltava_client_core::{Address, Chance, ConnectionId, NetEffect, Outgoing};
use wire::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::messages::init_producer_id::InitProducerIdResponse;
use wire::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use wire::messages::produce::{
    LeaderIdAndEpoch, PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse,
};
use wire::{ApiKey, Message, Part, Records, decode_request_header, encode_response};

pub(crate) const TOPIC: &str = "orders";

/// The first of some records of a batch, how many they are, and what became of them.
pub(crate) type Done = (usize, usize, Result<Written, DeliveryError>);

/// What is answered: on which connection, by its number, and in which form.
type To = (ConnectionId, i32, ApiKey, i16);

/// A batch that waits for its answer.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) connection: ConnectionId,
    correlation_id: i32,
    version: i16,
    topic_id: Uuid,
    pub(crate) partition: i32,
    pub(crate) header: BatchHeader,
    pub(crate) bytes: usize,
    pub(crate) values: Vec<Vec<u8>>,
}

impl Sent {
    /// As whom it came: its epoch, its first sequence, and how many records it has.
    pub(crate) const fn told(&self) -> (i16, i32, i32) {
        let header = &self.header;
        (header.producer_epoch.0, header.base_sequence.0, header.records_count)
    }
}

pub(crate) struct Stage {
    pub(crate) producer: Producer,
    effects: Effects<Effect>,
    now_ms: u64,
    compression: Compression,
    pub(crate) sent: VecDeque<Sent>,
    pub(crate) done: Vec<Done>,
    /// When each of those first left.
    pub(crate) left: Vec<Option<Duration>>,
    /// How many partitions the topic has, and as which topic.
    pub(crate) partitions: i32,
    pub(crate) topic_id: Uuid,
    /// Who leads all of it.
    pub(crate) leader: i32,
    /// Since when, as the metadata say, if not since it was its turn.
    pub(crate) leader_epoch: Option<i32>,
    /// Whether the first broker does not know that anybody else leads.
    pub(crate) is_one_behind: bool,
    /// Who leads, and since when, as the broker says when it refuses a batch.
    pub(crate) hint: Option<LeaderIdAndEpoch>,
    /// What the broker says of the topic.
    pub(crate) topic_code: ErrorCode,
    /// What the broker says when it is asked for a producer's id.
    pub(crate) identity_code: ErrorCode,
    /// For how long the broker wants to be left alone, as all its answers say.
    pub(crate) throttle_time_ms: i32,
    /// Why the broker cannot be connected to, if so.
    pub(crate) is_away: Option<&'static str>,
    /// The host from which nothing comes any more, on whatever connection.
    pub(crate) cut_off: Option<&'static str>,
    /// The host that is cut off as soon as it is asked for a producer's id.
    pub(crate) hangs_at_identity: Option<&'static str>,
    /// The id that the next producer who asks is given.
    pub(crate) producer_id: i64,
    /// What was asked for a producer's id and was not answered.
    owed: Option<To>,
    hosts: BTreeMap<ConnectionId, Arc<str>>,
    /// Questions behind batches that wait for their answer.
    behind: Vec<(ConnectionId, Vec<u8>)>,
    /// What was asked of the cluster: the topics, and whether they are to be created.
    pub(crate) asked: Vec<(Vec<String>, bool)>,
}

impl Stage {
    pub(crate) fn new(settings: ProducerSettings) -> Self {
        Self::reached_at("one", settings)
    }

    /// With a producer that is told this address.
    pub(crate) fn reached_at(bootstrap: &str, settings: ProducerSettings) -> Self {
        let compression = settings.compression;
        let bootstrap = Address { host: bootstrap.into(), port: 9092 };
        Self {
            producer: Producer::new(settings, vec![bootstrap], Chance::new(1)),
            effects: Effects::new(),
            now_ms: 1_000,
            compression,
            sent: VecDeque::new(),
            done: Vec::new(),
            left: Vec::new(),
            partitions: 1,
            topic_id: Uuid([1; 16]),
            leader: 1,
            leader_epoch: None,
            is_one_behind: false,
            hint: None,
            topic_code: ErrorCode::None,
            identity_code: ErrorCode::None,
            throttle_time_ms: 0,
            is_away: None,
            cut_off: None,
            hangs_at_identity: None,
            producer_id: 7,
            owed: None,
            hosts: BTreeMap::new(),
            behind: Vec::new(),
            asked: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> Now {
        Now::new(Duration::from_millis(self.now_ms), TimestampMs(1_700_000_000_000))
    }

    /// Time passes, and the producer does what is due at its end.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now_ms += time.as_millis() as u64;
        let now = self.now();
        self.producer.step(now, &mut self.effects);
        self.perform();
    }

    /// Takes a record, and lets leave what may.
    pub(crate) fn send(&mut self, record: &NewRecord<'_>, partition: Option<i32>) -> Appended {
        for _ in 0..3 {
            let to = Destination { topic: TOPIC, partition: partition.map(PartitionIndex) };
            let appended = self.producer.append(self.now(), to, record, &mut self.effects);
            self.pass(Duration::ZERO);
            match appended {
                Ok(appended) => return appended,
                Err(AppendError::TopicNotKnownYet { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the broker says what it knows");
    }

    /// Takes a record of the first partition at once or not at all.
    pub(crate) fn try_send_value(&mut self, value: &[u8]) -> Result<Appended, AppendError> {
        let to = Destination { topic: TOPIC, partition: Some(PartitionIndex(0)) };
        let record = NewRecord { value: Some(value), ..NewRecord::default() };
        self.producer.append(self.now(), to, &record, &mut self.effects)
    }

    /// Takes a record of a topic, wherever in it, at once or not at all.
    pub(crate) fn try_send_to(&mut self, topic: &str, value: &[u8]) -> Result<Appended, AppendError> {
        let record = NewRecord { value: Some(value), ..NewRecord::default() };
        self.producer.append(self.now(), Destination { topic, partition: None }, &record, &mut self.effects)
    }

    pub(crate) fn send_value(&mut self, value: &[u8]) -> Appended {
        self.send(&NewRecord { value: Some(value), ..NewRecord::default() }, Some(0))
    }

    /// The connection that a batch went out on breaks.
    pub(crate) fn lose(&mut self, sent: &Sent) {
        let now = self.now();
        self.producer.on_trouble(sent.connection, "one:9092 hung up", now);
        self.producer.on_closed(sent.connection, now, &mut self.effects);
        self.perform();
    }

    /// The oldest batch without an answer.
    pub(crate) fn next(&mut self) -> Sent {
        self.sent.pop_front().expect("a batch was sent")
    }

    /// Answers a batch that is alone in its request.
    pub(crate) fn answer(&mut self, sent: &Sent, code: ErrorCode, base_offset: i64) {
        self.answer_parts(std::slice::from_ref(sent), code, base_offset);
    }

    /// Takes the batches of the oldest request without an answer: of which partitions they are.
    pub(crate) fn acknowledge_request(&mut self) -> Vec<i32> {
        let first = self.sent.front().expect("a request was sent").correlation_id;
        let count = self.sent.iter().take_while(|sent| sent.correlation_id == first).count();
        let all: Vec<_> = self.sent.drain(..count).collect();
        self.answer_parts(&all, ErrorCode::None, 0);
        all.iter().map(|sent| sent.partition).collect()
    }

    fn answer_parts(&mut self, all: &[Sent], code: ErrorCode, base_offset: i64) {
        let sent = &all[0];
        let hint = self.hint.clone().filter(|_| code != ErrorCode::None).unwrap_or_default();
        let answers = all.iter().map(|sent| PartitionProduceResponse {
            index: sent.partition,
            error_code: code.code(),
            base_offset,
            log_append_time_ms: -1,
            current_leader: hint.clone(),
            ..Default::default()
        });
        let topic = TopicProduceResponse {
            topic_id: sent.topic_id,
            partition_responses: answers.collect(),
            ..Default::default()
        };
        let throttle_time_ms = self.throttle_time_ms;
        let said = ProduceResponse { responses: vec![topic], throttle_time_ms, ..Default::default() };
        self.reply((sent.connection, sent.correlation_id, ApiKey::Produce, sent.version), &said);
        std::mem::take(&mut self.behind)
            .into_iter()
            .for_each(|(connection, frame)| self.hear(connection, frame));
        self.perform();
    }

    /// Who was cut off when it was asked for a producer's id answers after all.
    pub(crate) fn answer_identity_late(&mut self) {
        let to = self.owed.take().expect("it owes an answer");
        self.identify(to);
        self.pass(Duration::ZERO);
    }

    fn identify(&mut self, to: To) {
        let said = InitProducerIdResponse {
            throttle_time_ms: self.throttle_time_ms,
            error_code: self.identity_code.code(),
            producer_id: self.producer_id,
            producer_epoch: 0,
            ..Default::default()
        };
        self.reply(to, &said);
    }

    fn reply<'a>(&mut self, (connection, correlation_id, key, version): To, said: &impl Message<'a>) {
        let frame = encode_response(correlation_id, key, version, said).expect("it can be said").bytes;
        let now = self.now();
        self.producer.on_frame(connection, &frame[4..], now, &mut self.effects);
    }

    fn perform(&mut self) {
        while !self.effects.is_empty() {
            for effect in self.effects.drain().collect::<Vec<_>>() {
                let now = self.now();
                match effect {
                    Effect::Net(NetEffect::Connect { connection, .. }) if self.is_away.is_some() => {
                        let why = self.is_away.unwrap_or_default();
                        self.producer.on_trouble(connection, why, now);
                        self.producer.on_closed(connection, now, &mut self.effects);
                    }
                    Effect::Net(NetEffect::Connect { connection, address }) => {
                        self.hosts.insert(connection, address.host);
                        if self.is_heard(connection) {
                            self.producer.on_connected(connection, now, &mut self.effects);
                        }
                    }
                    Effect::Net(NetEffect::Send { connection, outgoing }) => {
                        if self.is_heard(connection) {
                            self.hear(connection, bytes_of(&outgoing));
                        }
                    }
                    Effect::Net(NetEffect::Close { .. }) | Effect::TryAgain => {}
                    Effect::Compress(work) => {
                        let (work, spare) = work.compress(self.compression, None, &mut Scratch::default());
                        self.producer.on_compressed(work, spare, now, &mut self.effects);
                    }
                    Effect::Done { first, records, left_at, outcome, .. } => {
                        self.done.push((first, records, outcome));
                        self.left.push(left_at);
                    }
                }
            }
        }
    }

    fn is_heard(&self, connection: ConnectionId) -> bool {
        self.cut_off.is_none_or(|host| *self.hosts[&connection] != *host)
    }

    /// The broker answers at once, save what the story answers.
    fn hear(&mut self, connection: ConnectionId, frame: Vec<u8>) {
        let (header, mut body) = decode_request_header(&frame).expect("the client writes requests");
        let key = ApiKey::from_i16(header.api_key).expect("it was decoded");
        let to = (connection, header.correlation_id, key, header.api_version);
        match key {
            // Answers come in the order of the requests.
            ApiKey::Metadata if self.sent.iter().any(|sent| sent.connection == connection) => {
                self.behind.push((connection, frame));
            }
            ApiKey::ApiVersions => self.reply(to, &versions()),
            ApiKey::Metadata => {
                let request = MetadataRequest::decode(&mut body, header.api_version).expect("it is one");
                let names = request.topics.unwrap_or_default().into_iter();
                let names: Vec<_> = names.filter_map(|topic| topic.name.map(str::to_owned)).collect();
                let is_behind = self.is_one_behind && self.hosts[&connection].ends_with("one");
                let leader_id = if is_behind { 1 } else { self.leader };
                let partitions = (0..self.partitions).map(|partition_index| MetadataResponsePartition {
                    partition_index,
                    leader_id,
                    leader_epoch: self.leader_epoch.unwrap_or(leader_id - 1),
                    ..Default::default()
                });
                let partitions: Vec<_> = partitions.collect();
                let topics = names.iter().map(|name| MetadataResponseTopic {
                    error_code: self.topic_code.code(),
                    name: Some(name),
                    topic_id: self.topic_id,
                    partitions: partitions.clone(),
                    ..Default::default()
                });
                let topics = topics.collect();
                self.asked.push((names.clone(), request.allow_auto_topic_creation));
                let broker = |node_id, host| MetadataResponseBroker { node_id, host, port: 9092, rack: None };
                let throttle_time_ms = self.throttle_time_ms;
                let brokers = vec![broker(1, "one"), broker(2, "two")];
                let said = MetadataResponse { throttle_time_ms, brokers, topics, ..Default::default() };
                self.reply(to, &said);
            }
            ApiKey::InitProducerId if self.hangs_at_identity == Some(&*self.hosts[&connection]) => {
                self.cut_off = self.hangs_at_identity.take();
                self.owed = Some(to);
            }
            ApiKey::InitProducerId => self.identify(to),
            ApiKey::Produce => {
                let request = ProduceRequest::decode(&mut body, header.api_version).expect("it is one");
                let [topic] = &request.topic_data[..] else { panic!("there is one topic") };
                for part in &topic.partition_data {
                    let Some(Records::Bytes(bytes)) = part.records else { panic!("there are records") };
                    self.sent.push_back(sent(&to, topic.topic_id, part.index, bytes));
                }
            }
            other => panic!("the producer asks {other}"),
        }
    }
}

fn sent(to: &To, topic_id: Uuid, partition: i32, bytes: &[u8]) -> Sent {
    let batch = StoredBatch::check(bytes).expect("it is right");
    let mut scratch = Scratch::default();
    let records = batch.records(&mut scratch).expect("it is right");
    let values = records.map(|record| record.expect("it is right").value.unwrap_or_default().to_vec());
    Sent {
        connection: to.0,
        correlation_id: to.1,
        version: to.3,
        topic_id,
        partition,
        header: *batch.header(),
        bytes: bytes.len(),
        values: values.collect(),
    }
}

fn versions() -> ApiVersionsResponse<'static> {
    let keys = [ApiKey::Produce, ApiKey::Metadata, ApiKey::InitProducerId, ApiKey::ApiVersions];
    let api = |key: &ApiKey| ApiVersion {
        api_key: key.code(),
        min_version: *key.versions().start(),
        max_version: *key.versions().end(),
    };
    ApiVersionsResponse { api_keys: keys.iter().map(api).collect(), ..Default::default() }
}

fn bytes_of(outgoing: &Outgoing) -> Vec<u8> {
    let mut fills = outgoing.fills.iter();
    let mut bytes = Vec::new();
    for part in outgoing.frame.parts() {
        match part {
            Part::Bytes(part) => bytes.extend_from_slice(part),
            Part::Hole(_) => bytes.extend_from_slice(fills.next().expect("each hole has its batch").bytes()),
        }
    }
    bytes.split_off(4)
}
