//! A model of brokers, as Kafka's rules have it: who leads what, what the logs hold, and what each
//! partition remembers of its producers.

use std::collections::{BTreeMap, VecDeque};

use base::{ErrorCode, ProducerEpoch, ProducerId, Uuid};
use records::{BatchLimits, CheckedBatch, Scratch};
use wire::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use wire::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use wire::messages::produce::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, ProduceRequest, ProduceResponse,
    TopicProduceResponse,
};
use wire::{ApiKey, Decoder, Message, Records, RequestHeader, decode_request_header, encode_response};

use super::{ClientPlant, Options};
use crate::random::Random;

/// The topics that there are. The second appears only when it is asked for, as if it were created then.
pub(super) const TOPICS: [&str; 2] = ["first", "second"];

/// What a partition remembers of a producer.
#[derive(Debug, Default)]
struct Remembered {
    epoch: i16,
    /// First and last sequence, and base offset, of the last five batches.
    last: VecDeque<(i32, i32, i64)>,
}

impl Remembered {
    /// What a snapshot of Kafka's keeps of a producer: its last batch.
    fn restart(&mut self) {
        self.last.drain(..self.last.len().saturating_sub(1));
    }
}

/// One partition, the same whoever leads it.
#[derive(Debug)]
pub(super) struct Partition {
    pub(super) leader: i32,
    leader_epoch: i32,
    /// The values of its records.
    pub(super) log: Vec<u64>,
    producers: BTreeMap<i64, Remembered>,
}

/// All brokers.
#[derive(Debug)]
pub(super) struct Brokers {
    pub(super) partitions: BTreeMap<(usize, i32), Partition>,
    options: Options,
    plant: Option<ClientPlant>,
    random: Random,
    ids: i64,
    was_asked_for_second: u32,
    /// From here on nothing fails.
    pub(super) is_healed: bool,
}

/// A partition's answer.
#[derive(Debug, Clone, Copy)]
struct Said {
    code: ErrorCode,
    base_offset: i64,
}

impl Brokers {
    pub(super) fn new(seed: u64, options: &Options, plant: Option<ClientPlant>) -> Self {
        let mut random = Random::stream(seed, "brokers");
        let mut partitions = BTreeMap::new();
        for topic in 0..TOPICS.len() {
            for index in 0..options.partitions {
                let leader = random.below(options.brokers as u64) as i32;
                let made = Partition { leader, leader_epoch: 0, log: Vec::new(), producers: BTreeMap::new() };
                partitions.insert((topic, index), made);
            }
        }
        let options = options.clone();
        Self { partitions, options, plant, random, ids: 1000, was_asked_for_second: 0, is_healed: false }
    }

    /// A partition gets another leader.
    pub(super) fn move_leader(&mut self) -> String {
        let place = self.random.index(self.partitions.len());
        let brokers = self.options.brokers as u64;
        let (&(topic, index), partition) = self.partitions.iter_mut().nth(place).expect("it was counted");
        partition.leader = self.random.below(brokers) as i32;
        partition.leader_epoch += 1;
        let has_restarted = self.random.chance(500);
        if has_restarted {
            partition.producers.values_mut().for_each(Remembered::restart);
        }
        let from = if has_restarted { ", from its snapshot" } else { "" };
        format!("{}-{index} is led by {}{from}", TOPICS[topic], partition.leader)
    }

    /// A topic gets one partition more, unless it has got enough.
    pub(super) fn grow(&mut self) -> String {
        let topic = self.random.index(TOPICS.len());
        let count = self.partitions.range((topic, 0)..(topic, i32::MAX)).count() as i32;
        if count < self.options.partitions + 3 {
            let leader = self.random.below(self.options.brokers as u64) as i32;
            let made = Partition { leader, leader_epoch: 0, log: Vec::new(), producers: BTreeMap::new() };
            self.partitions.insert((topic, count), made);
        }
        format!("{} had {count} partitions", TOPICS[topic])
    }

    /// Answers a request, if it gets an answer.
    pub(super) fn answer(&mut self, me: i32, frame: &[u8]) -> Option<(String, Vec<u8>)> {
        let (header, mut body) = decode_request_header(frame).expect("the client writes requests");
        let version = header.api_version;
        let (what, answer) = match key_of(&header) {
            ApiKey::ApiVersions => ("ApiVersions".to_owned(), encode(&header, &versions())),
            ApiKey::Metadata => {
                let request =
                    MetadataRequest::decode(&mut body, version).expect("the client writes requests");
                ("Metadata".to_owned(), self.metadata(&header, &request))
            }
            ApiKey::InitProducerId => {
                InitProducerIdRequest::decode(&mut body, version).expect("the client writes requests");
                self.ids += 1;
                let given =
                    InitProducerIdResponse { producer_id: self.ids, producer_epoch: 0, ..Default::default() };
                (format!("InitProducerId: {}", self.ids), encode(&header, &given))
            }
            ApiKey::Produce => {
                let produced = self.produce(me, &header, body);
                if self.options.is_unanswered {
                    return None;
                }
                produced
            }
            other => panic!("the producer asks {other}"),
        };
        Some((what, answer))
    }

    fn metadata(&mut self, header: &RequestHeader<'_>, request: &MetadataRequest<'_>) -> Vec<u8> {
        let hosts: Vec<String> = (0..self.options.brokers).map(|id| format!("broker-{id}")).collect();
        let brokers = hosts.iter().zip(0..).map(|(host, node_id)| MetadataResponseBroker {
            node_id,
            host,
            port: 9092,
            ..Default::default()
        });
        let mut response = MetadataResponse { brokers: brokers.collect(), ..Default::default() };
        for asked in request.topics.iter().flatten() {
            let name = asked.name.expect("the producer names its topics");
            let number = TOPICS.iter().position(|topic| *topic == name);
            self.was_asked_for_second += u32::from(number == Some(1));
            // A topic that is created when it is asked for is not there at once.
            let Some(number) = number.filter(|&number| number == 0 || self.was_asked_for_second > 2) else {
                response.topics.push(MetadataResponseTopic {
                    error_code: ErrorCode::UnknownTopicOrPartition.code(),
                    name: Some(name),
                    ..Default::default()
                });
                continue;
            };
            let partitions = self.partitions.range((number, 0)..(number, i32::MAX));
            response.topics.push(MetadataResponseTopic {
                name: Some(TOPICS[number]),
                topic_id: id_of(number),
                partitions: partitions.map(|(&(_, index), part)| described(index, part)).collect(),
                ..Default::default()
            });
        }
        encode(header, &response)
    }

    fn produce(&mut self, me: i32, header: &RequestHeader<'_>, mut body: Decoder<'_>) -> (String, Vec<u8>) {
        let request =
            ProduceRequest::decode(&mut body, header.api_version).expect("the client writes requests");
        let mut response = ProduceResponse::default();
        let mut what = "Produce:".to_owned();
        let host = |id: i32| format!("broker-{id}");
        let hosts: Vec<String> = (0..self.options.brokers).map(host).collect();
        for topic in &request.topic_data {
            let number =
                (0..TOPICS.len()).find(|&number| id_of(number) == topic.topic_id).expect("it has an id");
            let mut answers = Vec::new();
            for part in &topic.partition_data {
                let Some(Records::Bytes(bytes)) = part.records else { panic!("there are batches") };
                let said = self.store(me, (number, part.index), bytes);
                let partition = &self.partitions[&(number, part.index)];
                let mut answer = PartitionProduceResponse {
                    index: part.index,
                    error_code: said.code.code(),
                    base_offset: said.base_offset,
                    log_append_time_ms: -1,
                    ..Default::default()
                };
                if said.code == ErrorCode::NotLeaderOrFollower && self.random.chance(500) {
                    let (leader_id, leader_epoch) = (partition.leader, partition.leader_epoch);
                    answer.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch };
                }
                what += &format!(" {number}-{}: {} at {}", part.index, said.code.name(), said.base_offset);
                answers.push(answer);
            }
            response.responses.push(TopicProduceResponse {
                topic_id: topic.topic_id,
                partition_responses: answers,
                ..Default::default()
            });
        }
        let nodes = hosts.iter().zip(0..);
        response.node_endpoints =
            nodes.map(|(host, node_id)| NodeEndpoint { node_id, host, port: 9092, rack: None }).collect();
        (what, encode(header, &response))
    }

    /// Appends a batch, or says why not.
    fn store(&mut self, me: i32, place: (usize, i32), bytes: &[u8]) -> Said {
        let refused = |code| Said { code, base_offset: -1 };
        let mut scratch = Scratch::default();
        let batch = CheckedBatch::check(bytes, &BatchLimits::default(), &mut scratch);
        let batch = batch.expect("the client writes batches that a broker takes");
        let trouble = if self.is_healed { 0 } else { self.options.refuse_per_thousand };
        let partition = self.partitions.get_mut(&place).expect("the client asks for what there is");
        if partition.leader != me {
            return refused(ErrorCode::NotLeaderOrFollower);
        }
        if self.random.chance(trouble) {
            return refused(self.random.pick(&[ErrorCode::NotEnoughReplicas, ErrorCode::KafkaStorageError]));
        }
        // It is set lower and higher again while batches are on their way.
        let is_limited = self.is_healed || self.random.chance(700);
        if is_limited && bytes.len() > self.options.message_bytes_max {
            return refused(ErrorCode::MessageTooLarge);
        }
        let header = *batch.header();
        let (producer, epoch) = (header.producer_id, header.producer_epoch);
        let values: Vec<u64> = batch.records(&mut scratch).expect("it was checked").map(value_of).collect();
        let base_offset = partition.log.len() as i64;
        if producer != ProducerId::NONE && self.plant != Some(ClientPlant::BrokerForgets) {
            let sequences = (header.base_sequence.0, header.last_sequence().0);
            let ignores_order = self.plant == Some(ClientPlant::BrokerIgnoresOrder);
            match partition.remember(producer, epoch, sequences, ignores_order) {
                Ok(None) => {}
                Ok(Some(base_offset)) => return Said { code: ErrorCode::None, base_offset },
                Err(code) => return refused(code),
            }
        }
        if self.plant == Some(ClientPlant::BrokerLies) && self.random.chance(100) {
            return Said { code: ErrorCode::None, base_offset };
        }
        partition.log.extend(values);
        let doubt = if self.is_healed { 0 } else { self.options.doubt_per_thousand };
        if self.random.chance(doubt) {
            let codes = [
                ErrorCode::RequestTimedOut,
                // Its disk failed, or it was replaced, while it waited for others, who have it.
                ErrorCode::KafkaStorageError,
                ErrorCode::NotEnoughReplicasAfterAppend,
                ErrorCode::NotLeaderOrFollower,
            ];
            // Without acks=all, which idempotence needs, nobody waits for others.
            let waits = producer != ProducerId::NONE;
            return refused(self.random.pick(if waits { &codes[..] } else { &codes[..2] }));
        }
        Said { code: ErrorCode::None, base_offset }
    }
}

impl Partition {
    /// Whether a batch follows what is remembered of its producer; where it is, if it is there already.
    fn remember(
        &mut self,
        producer: ProducerId,
        epoch: ProducerEpoch,
        (first, last): (i32, i32),
        ignores_order: bool,
    ) -> Result<Option<i64>, ErrorCode> {
        let next_offset = self.log.len() as i64;
        let is_new = !self.producers.contains_key(&producer.0);
        let known = self.producers.entry(producer.0).or_default();
        if epoch.0 < known.epoch {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        if is_new || epoch.0 > known.epoch {
            if first != 0 && !is_new && !ignores_order {
                return Err(ErrorCode::OutOfOrderSequenceNumber);
            }
            *known = Remembered { epoch: epoch.0, last: VecDeque::new() };
        } else if let Some(&(_, _, base)) = known.last.iter().find(|&&(f, l, _)| (f, l) == (first, last)) {
            return Ok(Some(base));
        } else if let Some(&(_, before, _)) = known.last.back()
            && before + 1 != first
            && !ignores_order
        {
            return Err(ErrorCode::OutOfOrderSequenceNumber);
        }
        known.last.push_back((first, last, next_offset));
        if known.last.len() > 5 {
            known.last.pop_front();
        }
        Ok(None)
    }
}

fn value_of(record: Result<records::Record<'_>, records::BatchError>) -> u64 {
    let value = record.expect("it was checked").value.expect("each record has its number");
    u64::from_be_bytes(*value.first_chunk().expect("each record has its number"))
}

fn described(partition_index: i32, part: &Partition) -> MetadataResponsePartition {
    MetadataResponsePartition {
        partition_index,
        leader_id: part.leader,
        leader_epoch: part.leader_epoch,
        ..Default::default()
    }
}

fn id_of(number: usize) -> Uuid {
    Uuid::from_random(number as u128 + 77)
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

pub(super) fn encode<'a>(header: &RequestHeader<'_>, response: &impl Message<'a>) -> Vec<u8> {
    let frame = encode_response(header.correlation_id, key_of(header), header.api_version, response);
    frame.expect("the answer can be said").bytes.split_off(4)
}

pub(super) fn key_of(header: &RequestHeader<'_>) -> ApiKey {
    ApiKey::from_i16(header.api_key).expect("the header was decoded")
}
