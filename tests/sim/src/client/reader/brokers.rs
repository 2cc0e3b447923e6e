//! Brokers that are read from: who leads what, where they live, and what they say.

use std::collections::{BTreeMap, VecDeque};

use base::{ErrorCode, TimestampMs, Uuid};
use wire::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::messages::fetch::NodeEndpoint;
use wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use wire::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use wire::{ApiKey, Message, RequestHeader, decode_request_header};

use super::history::Log;
use super::session::{Session, TOPICS};
use super::{Options, ReaderPlant};
use crate::client::broker::{encode, key_of};
use crate::random::Random;

/// A partition: the number of its topic, and its own.
pub(super) type Place = (usize, i32);

/// What a broker said of where to begin.
#[derive(Debug, Clone, Copy)]
pub(super) enum Said {
    /// The offset for what was asked: a time, or -2 and -1 for the ends.
    Offset { asked: i64, offset: i64 },
    /// An offset is not in the log.
    OutOfRange(i64),
    /// What was read is not what is there, from this offset on.
    Diverges(i64),
}

/// One broker.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// How often it moved.
    pub(super) home: u32,
    pub(super) up_at_us: u64,
    pub(super) sessions: BTreeMap<i32, Session>,
}

/// All brokers.
#[derive(Debug)]
pub(super) struct Brokers {
    pub(super) nodes: Vec<Node>,
    /// Every log that there ever was; the last one of a partition is the one there is.
    pub(super) logs: BTreeMap<Place, Vec<Log>>,
    /// Who led before, which some have not heard otherwise of.
    before: BTreeMap<Place, (i32, i32)>,
    /// What was said of each partition, and when.
    pub(super) said: BTreeMap<Place, Vec<(u64, Said)>>,
    pub(super) options: Options,
    pub(super) plant: Option<ReaderPlant>,
    pub(super) random: Random,
    pub(super) session_next: i32,
    topic_next: u128,
    pub(super) now_us: u64,
    /// From here on nothing fails.
    pub(super) is_healed: bool,
}

/// An answer.
pub(super) struct Answer {
    pub(super) what: String,
    pub(super) bytes: Vec<u8>,
    /// How long the broker holds it back, because there is nothing to say.
    pub(super) hold_us: u64,
}

impl Brokers {
    pub(super) fn new(seed: u64, options: &Options, plant: Option<ReaderPlant>) -> Self {
        let mut brokers = Self {
            nodes: (0..options.brokers).map(|_| Node::default()).collect(),
            logs: BTreeMap::new(),
            before: BTreeMap::new(),
            said: BTreeMap::new(),
            options: options.clone(),
            plant,
            random: Random::stream(seed, "reader's brokers"),
            session_next: 1,
            topic_next: 1,
            now_us: 0,
            is_healed: false,
        };
        (0..TOPICS.len()).for_each(|topic| brokers.create(topic));
        brokers
    }

    /// Makes a topic, anew if it is there.
    pub(super) fn create(&mut self, topic: usize) {
        let id = Uuid::from_random(self.topic_next << 64 | 77);
        self.topic_next += 1;
        for index in 0..self.options.partitions {
            let leader = self.random.below(self.options.brokers as u64) as i32;
            self.before.remove(&(topic, index));
            self.logs.entry((topic, index)).or_default().push(Log::new(id, leader));
        }
    }

    pub(super) fn log(&mut self, place: Place) -> &mut Log {
        self.logs.get_mut(&place).and_then(|logs| logs.last_mut()).expect("each partition has a log")
    }

    pub(super) fn chance(&mut self, per_thousand: u32) -> bool {
        !self.is_healed && self.random.chance(per_thousand)
    }

    pub(super) fn note(&mut self, place: Place, said: Said) {
        let now_us = self.now_us;
        self.said.entry(place).or_default().push((now_us, said));
    }

    /// Another broker leads a partition; what its log lacks is gone.
    pub(super) fn move_leader(&mut self, place: Place) -> String {
        let leader = self.random.below(self.options.brokers as u64) as i32;
        let is_unclean = self.chance(self.options.unclean_per_thousand);
        let (now_us, can_cut, cut) =
            (self.now_us, self.options.producers == 0, self.random.below(1_000) as i64);
        let falls_back = self.random.chance(300);
        let log = self.log(place);
        let before = (log.leader, log.epoch());
        let lowest = if is_unclean { log.start } else { log.high_watermark };
        let end = if can_cut { lowest + cut % (log.end - lowest + 1) } else { log.end };
        log.lead(leader, end, now_us);
        if falls_back && !is_unclean {
            // It has not heard yet how far the others are.
            let to = log.start + cut % (log.high_watermark - log.start + 1);
            log.commit(to);
        }
        let what = format!("{place:?} is led by {leader} up to {}, in {}", log.end, log.epoch());
        self.before.insert(place, before);
        what
    }

    /// A broker stops and comes back, perhaps elsewhere. Others lead meanwhile.
    pub(super) fn restart(&mut self, id: usize) -> String {
        let moves = self.random.chance(300);
        let away_us = self.random.below(3_000_000);
        let node = &mut self.nodes[id];
        node.sessions.clear();
        node.home += u32::from(moves);
        node.up_at_us = self.now_us + away_us;
        let places: Vec<Place> = self.logs.keys().copied().collect();
        for place in places {
            if self.log(place).leader == id as i32 {
                self.move_leader(place);
            }
        }
        format!("broker {id} restarts as number {}", self.nodes[id].home)
    }

    /// Who lives at an address, and whether it is up. Those that a client starts with always lead there.
    pub(super) fn at(&self, host: &str) -> Option<(i32, u64)> {
        let rest = host.strip_prefix("broker-")?;
        let (id, home) = match rest.split_once('-') {
            Some((id, home)) => (id.parse::<usize>().ok()?, Some(home.parse::<u32>().ok()?)),
            None => (rest.parse().ok()?, None),
        };
        let node = self.nodes.get(id)?;
        home.is_none_or(|home| home == node.home).then_some((id as i32, node.up_at_us))
    }

    pub(super) fn host(&self, id: i32) -> String {
        format!("broker-{id}-{}", self.nodes[id as usize].home)
    }

    /// Answers a request.
    pub(super) fn answer(&mut self, me: i32, frame: &[u8]) -> Answer {
        let (header, mut body) = decode_request_header(frame).expect("the client writes requests");
        let version = header.api_version;
        let (what, bytes) = match key_of(&header) {
            ApiKey::ApiVersions => ("ApiVersions".to_owned(), encode(&header, &self.versions())),
            ApiKey::Metadata => {
                let request = MetadataRequest::decode(&mut body, version).expect("it is a request");
                ("Metadata".to_owned(), self.metadata(&header, &request))
            }
            ApiKey::ListOffsets => {
                let request = ListOffsetsRequest::decode(&mut body, version).expect("it is a request");
                self.list_offsets(me, &header, &request)
            }
            ApiKey::Fetch => return self.fetch(me, &header, body),
            other => panic!("the consumer asks {other}"),
        };
        Answer { what, bytes, hold_us: 0 }
    }

    fn versions(&self) -> ApiVersionsResponse<'static> {
        let keys = [ApiKey::Fetch, ApiKey::Metadata, ApiKey::ListOffsets, ApiKey::ApiVersions];
        let api = |key: &ApiKey| ApiVersion {
            api_key: key.code(),
            min_version: *key.versions().start(),
            max_version: match key {
                ApiKey::Fetch => self.options.fetch_version_max,
                key => *key.versions().end(),
            },
        };
        ApiVersionsResponse { api_keys: keys.iter().map(api).collect(), ..Default::default() }
    }

    fn metadata(&mut self, header: &RequestHeader<'_>, request: &MetadataRequest<'_>) -> Vec<u8> {
        let hosts: Vec<String> = (0..self.options.brokers).map(|id| self.host(id)).collect();
        let brokers = hosts.iter().zip(0..).map(|(host, node_id)| MetadataResponseBroker {
            node_id,
            host,
            port: 9092,
            ..Default::default()
        });
        let mut response = MetadataResponse { brokers: brokers.collect(), ..Default::default() };
        let mut asked: Vec<&str> = request.topics.iter().flatten().filter_map(|topic| topic.name).collect();
        asked.sort_unstable();
        let is_behind = self.chance(300);
        for name in asked {
            let number = TOPICS.iter().position(|topic| *topic == name).expect("it asks for what there is");
            if self.chance(self.options.refuse_per_thousand) {
                response.topics.push(MetadataResponseTopic {
                    error_code: ErrorCode::UnknownTopicOrPartition.code(),
                    name: Some(TOPICS[number]),
                    ..Default::default()
                });
                continue;
            }
            let places = self.logs.range((number, 0)..(number, i32::MAX));
            let described = places.map(|(place, logs)| {
                let log = logs.last().expect("each partition has a log");
                let known = (log.leader, log.epoch());
                let (leader_id, leader_epoch) =
                    self.before.get(place).copied().filter(|_| is_behind).unwrap_or(known);
                MetadataResponsePartition {
                    partition_index: place.1,
                    leader_id,
                    leader_epoch,
                    ..Default::default()
                }
            });
            let partitions = described.collect();
            let topic_id = self.logs[&(number, 0)].last().expect("each partition has a log").topic_id;
            response.topics.push(MetadataResponseTopic {
                name: Some(TOPICS[number]),
                topic_id,
                partitions,
                ..Default::default()
            });
        }
        encode(header, &response)
    }

    fn list_offsets(
        &mut self,
        me: i32,
        header: &RequestHeader<'_>,
        request: &ListOffsetsRequest<'_>,
    ) -> (String, Vec<u8>) {
        let mut response = ListOffsetsResponse::default();
        let mut what = "ListOffsets:".to_owned();
        for topic in &request.topics {
            let number =
                TOPICS.iter().position(|name| *name == topic.name).expect("it asks for what there is");
            let mut partitions = Vec::new();
            for part in &topic.partitions {
                let place = (number, part.partition_index);
                let (code, offset) = match self.offset(me, place, part, request.isolation_level == 1) {
                    Ok(offset) => (ErrorCode::None, offset),
                    Err(code) => (code, -1),
                };
                what += &format!(" {place:?} at {}: {} {offset}", part.timestamp, code.name());
                partitions.push(ListOffsetsPartitionResponse {
                    partition_index: part.partition_index,
                    error_code: code.code(),
                    offset,
                    timestamp: -1,
                    leader_epoch: -1,
                });
            }
            response.topics.push(ListOffsetsTopicResponse { name: TOPICS[number], partitions });
        }
        (what, encode(header, &response))
    }

    fn offset(
        &mut self,
        me: i32,
        place: Place,
        asked: &ListOffsetsPartition,
        is_committed_only: bool,
    ) -> Result<i64, ErrorCode> {
        self.check_leader(me, place, asked.current_leader_epoch)?;
        let log = self.log(place);
        let end = if is_committed_only { log.stable_end() } else { log.high_watermark };
        let offset = match asked.timestamp {
            -2 => log.start,
            -1 => end,
            time => log.at_time(time, end).unwrap_or(-1),
        };
        self.note(place, Said::Offset { asked: asked.timestamp, offset });
        Ok(offset)
    }

    /// Whether a broker leads a partition, as who asks believes.
    pub(super) fn check_leader(&mut self, me: i32, place: Place, epoch: i32) -> Result<(), ErrorCode> {
        if self.chance(self.options.refuse_per_thousand) {
            let codes = [
                ErrorCode::KafkaStorageError,
                ErrorCode::OffsetNotAvailable,
                ErrorCode::ReplicaNotAvailable,
                ErrorCode::UnknownServerError,
            ];
            return Err(self.random.pick(&codes));
        }
        let log = self.log(place);
        match log.epoch() {
            _ if log.leader != me => Err(ErrorCode::NotLeaderOrFollower),
            known if epoch >= 0 && epoch < known => Err(ErrorCode::FencedLeaderEpoch),
            known if epoch > known => Err(ErrorCode::UnknownLeaderEpoch),
            _ => Ok(()),
        }
    }

    /// What the hints name.
    pub(super) fn endpoints<'a>(&self, hosts: &'a [String]) -> Vec<NodeEndpoint<'a>> {
        let nodes = hosts.iter().zip(0..);
        nodes.map(|(host, node_id)| NodeEndpoint { node_id, host, port: 9092, rack: None }).collect()
    }

    /// Everybody is well, and decided.
    pub(super) fn heal(&mut self, time: TimestampMs) {
        self.is_healed = true;
        for log in self.logs.values_mut().filter_map(|logs| logs.last_mut()) {
            log.end_transactions(time);
            log.commit(log.end);
        }
    }

    /// A broker forgets a session.
    pub(super) fn forget_session(&mut self, id: usize) {
        let sessions: VecDeque<i32> = self.nodes[id].sessions.keys().copied().collect();
        if let Some(&session) = sessions.front() {
            self.nodes[id].sessions.remove(&session);
        }
    }
}
