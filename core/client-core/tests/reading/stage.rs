//! A consumer, two brokers, and a clock that only the story moves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{Effects, Now, Offset, PartitionIndex, TimestampMs, TopicName, TopicPartition, Uuid};
use vltava_client_core::consumer::{Consumer, ConsumerSettings, Effect, Start};
use vltava_client_core::{Address, Chance, ConnectionId, NetEffect};
use wire::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::messages::fetch::{
    EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData,
};
use wire::messages::list_offsets::ListOffsetsRequest;
use wire::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use wire::{ApiKey, Message, decode_request_header, encode_response};

/// What is answered: on which connection, by its number, and in which form.
type To = (ConnectionId, i32, ApiKey, i16);

const TOPIC: Uuid = Uuid([1; 16]);

/// What the story answers, if anybody does.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) host: Arc<str>,
    pub(crate) key: ApiKey,
    /// From where on.
    pub(crate) offset: i64,
    /// Where the reader says it is.
    pub(crate) rack: String,
    to: To,
}

pub(crate) struct Stage {
    pub(crate) consumer: Consumer,
    effects: Effects<Effect>,
    elapsed: Duration,
    /// Who leads the only partition.
    pub(crate) leader: i32,
    /// The host from which nothing comes any more, on whatever connection.
    pub(crate) cut_off: Option<&'static str>,
    hosts: BTreeMap<ConnectionId, Arc<str>>,
    /// Fetches and questions for offsets, as they came.
    pub(crate) asked: Vec<Asked>,
    /// Who said what there is, each time.
    pub(crate) told: Vec<String>,
    /// Connections that the consumer closed, by host.
    pub(crate) closed: Vec<String>,
}

impl Stage {
    pub(crate) fn new(settings: ConsumerSettings) -> Self {
        Self::beginning_at("two", settings)
    }

    /// With a consumer that asks this host first.
    pub(crate) fn beginning_at(host: &str, settings: ConsumerSettings) -> Self {
        let other = if host == "one" { "two" } else { "one" };
        let bootstrap = [other, host].map(|host| Address { host: host.into(), port: 9092 });
        Self {
            consumer: Consumer::new(settings, bootstrap.to_vec(), Chance::new(1)),
            effects: Effects::new(),
            elapsed: Duration::from_secs(1),
            leader: 1,
            cut_off: None,
            hosts: BTreeMap::new(),
            asked: Vec::new(),
            told: Vec::new(),
            closed: Vec::new(),
        }
    }

    pub(crate) fn read(&mut self, start: Start) {
        let topic = TopicName::new("orders").expect("legal");
        self.consumer.assign([(TopicPartition { topic, partition: PartitionIndex(0) }, start)]);
        self.settle();
    }

    pub(crate) fn position(&self) -> Option<Offset> {
        self.consumer.assigned().find_map(|of| self.consumer.position(of))
    }

    fn now(&self) -> Now {
        Now::new(self.elapsed, TimestampMs(0))
    }

    /// Lets time pass, as those who drive the consumer do: up to each deadline.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.elapsed + time;
        for round in 0.. {
            assert!(round < 10_000, "it never rests");
            let next = self.consumer.deadline(self.now()).unwrap_or(end).min(end);
            assert!(next > self.elapsed || next == end, "what is due is done");
            self.elapsed = next;
            self.settle();
            if self.elapsed == end {
                return;
            }
        }
    }

    /// The broker answers the fetch that it was asked last, with nothing.
    pub(crate) fn answer_fetch(&mut self) {
        let asked = self.asked.pop().expect("it was asked");
        assert_eq!(asked.key, ApiKey::Fetch);
        self.reply(asked.to, &FetchResponse { session_id: 5, ..Default::default() });
        self.settle();
    }

    /// The broker that was asked last sends the reader to another.
    pub(crate) fn send_to(&mut self, replica: i32) {
        self.answer_of_part(PartitionData { preferred_read_replica: replica, ..Default::default() });
    }

    /// The broker that was asked last says that it knows nothing of what was read.
    pub(crate) fn contradict(&mut self) {
        let diverging_epoch = EpochEndOffset { epoch: 0, end_offset: 3 };
        self.answer_of_part(PartitionData { diverging_epoch, ..Default::default() });
    }

    fn answer_of_part(&mut self, part: PartitionData<'_>) {
        let asked = self.asked.pop().expect("it was asked");
        let topic = FetchableTopicResponse { topic_id: TOPIC, partitions: vec![part], ..Default::default() };
        self.reply(asked.to, &FetchResponse { responses: vec![topic], ..Default::default() });
        self.settle();
    }

    fn reply<'a>(&mut self, (connection, correlation_id, key, version): To, said: &impl Message<'a>) {
        let frame = encode_response(correlation_id, key, version, said).expect("it can be said").bytes;
        let frame = Arc::new(frame[4..].to_vec());
        self.consumer.on_frame(connection, &frame, self.now(), &mut self.effects);
    }

    fn settle(&mut self) {
        self.consumer.step(self.now(), &mut self.effects);
        while !self.effects.is_empty() {
            let effects: Vec<Effect> = self.effects.drain().collect();
            effects.into_iter().for_each(|effect| self.perform(effect));
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Net(NetEffect::Connect { connection, address }) => {
                self.hosts.insert(connection, address.host);
                if self.is_heard(connection) {
                    self.consumer.on_connected(connection, self.now(), &mut self.effects);
                }
            }
            Effect::Net(NetEffect::Send { connection, outgoing }) => {
                if self.is_heard(connection) {
                    self.hear(connection, &outgoing.frame.bytes[4..]);
                }
            }
            Effect::Net(NetEffect::Close { connection }) => {
                self.closed.push(self.hosts[&connection].to_string());
            }
            Effect::Chunk(_) | Effect::Failed { .. } => panic!("nobody said so: {effect:?}"),
        }
    }

    fn is_heard(&self, connection: ConnectionId) -> bool {
        self.cut_off.is_none_or(|host| *self.hosts[&connection] != *host)
    }

    /// A broker answers at once what the story does not.
    fn hear(&mut self, connection: ConnectionId, frame: &[u8]) {
        let (header, mut body) = decode_request_header(frame).expect("the client writes requests");
        let key = ApiKey::from_i16(header.api_key).expect("it was decoded");
        let version = header.api_version;
        let to = (connection, header.correlation_id, key, version);
        let host = self.hosts[&connection].clone();
        match key {
            ApiKey::ApiVersions => self.reply(to, &versions()),
            ApiKey::Metadata => {
                MetadataRequest::decode(&mut body, version).expect("it is one");
                self.told.push(host.to_string());
                self.describe(to);
            }
            ApiKey::ListOffsets => {
                let request = ListOffsetsRequest::decode(&mut body, version).expect("it is one");
                let offset = request.topics[0].partitions[0].timestamp;
                self.asked.push(Asked { host, key, offset, rack: String::new(), to });
            }
            ApiKey::Fetch => {
                let request = FetchRequest::decode(&mut body, version).expect("it is one");
                let told = request.topics.first().map(|topic| topic.partitions[0].fetch_offset);
                let rack = request.rack_id.to_owned();
                self.asked.push(Asked { host, key, offset: told.unwrap_or(-1), rack, to });
            }
            other => panic!("the consumer asks {other}"),
        }
    }

    fn describe(&mut self, to: To) {
        let part = MetadataResponsePartition {
            leader_id: self.leader,
            leader_epoch: self.leader,
            ..Default::default()
        };
        let topic = MetadataResponseTopic {
            name: Some("orders"),
            topic_id: TOPIC,
            partitions: vec![part],
            ..Default::default()
        };
        let broker = |node_id, host| MetadataResponseBroker { node_id, host, port: 9092, rack: None };
        let brokers = vec![broker(1, "one"), broker(2, "two")];
        self.reply(to, &MetadataResponse { brokers, topics: vec![topic], ..Default::default() });
    }
}

fn versions() -> ApiVersionsResponse<'static> {
    let keys = [ApiKey::Fetch, ApiKey::ListOffsets, ApiKey::Metadata, ApiKey::ApiVersions];
    let api = |key: &ApiKey| ApiVersion {
        api_key: key.code(),
        min_version: *key.versions().start(),
        max_version: *key.versions().end(),
    };
    ApiVersionsResponse { api_keys: keys.iter().map(api).collect(), ..Default::default() }
}
