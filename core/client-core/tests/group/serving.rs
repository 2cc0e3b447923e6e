//! What the brokers answer.

use std::collections::{BTreeMap, BTreeSet};

use base::{ErrorCode, TopicPartition, Uuid};
use vltava_client_core::ConnectionId;
use vltava_client_core::group::Pattern;
use wire::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use wire::messages::consumer_group_heartbeat::{
    Assignment, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
};
use wire::messages::find_coordinator::{
    Coordinator as Found, FindCoordinatorRequest, FindCoordinatorResponse,
};
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use wire::messages::join_group::{JoinGroupRequest, JoinGroupResponse};
use wire::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse};
use wire::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use wire::messages::offset_commit::{OffsetCommitRequest, OffsetCommitResponse};
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};
use wire::{ApiKey, Decoder, Message, decode_request_header, encode_response};

use super::coordinator::{Coordinator, Reply, part};
use super::coordinator_epochs::INTERVAL_MS;
use super::world::{Event, World};

impl World {
    pub(crate) fn answer<'m>(&mut self, (who, connection, id, version): Reply, body: &impl AnswerTo<'m>) {
        let frame = encode_response(id, body.key(), version, body).expect("it can be said");
        let connection = ConnectionId(connection);
        let event = Event::Answer(connection, frame.bytes[4..].to_vec());
        if self.all[who].open.contains_key(&connection) {
            self.put_in_order(who, connection, event);
            self.serve_next(who, connection);
        }
    }

    pub(crate) fn serve(&mut self, who: usize, connection: ConnectionId, frame: &[u8]) {
        let Some(host) = self.all[who].open.get(&connection).cloned() else { return };
        let (header, mut body) = decode_request_header(frame).expect("a member writes requests");
        let version = header.api_version;
        let reply = (who, connection.0, header.correlation_id, version);
        let keeps = (&*host == "one") == (self.keeper == 1);
        let unwell = self.brokers.unwell.or((!keeps).then_some(ErrorCode::NotCoordinator));
        let body = &mut body;
        match ApiKey::from_i16(header.api_key).expect("it is one of Kafka's") {
            ApiKey::ApiVersions => self.answer(reply, &versions(self.brokers.speaks_epochs)),
            ApiKey::FindCoordinator => {
                let said = FindCoordinatorRequest::decode(body, version).expect("it can be read");
                let (key, host) = (said.coordinator_keys[0], ["one", "two"][self.keeper as usize - 1]);
                let found =
                    Found { key, node_id: self.keeper, host, port: 1, error_code: 0, error_message: None };
                self.found += 1;
                let said = FindCoordinatorResponse { coordinators: vec![found], ..Default::default() };
                self.answer(reply, &said);
            }
            ApiKey::Metadata => self.serve_metadata(reply, body),
            ApiKey::OffsetFetch if self.brokers.holds_offsets => {
                self.refuse(reply, ApiKey::OffsetFetch, ErrorCode::CoordinatorLoadInProgress, body);
            }
            key => match unwell {
                Some(code) => self.refuse(reply, key, code, body),
                None => self.serve_group(reply, key, body),
            },
        }
        self.keep_group();
    }

    fn refuse(&mut self, reply: Reply, key: ApiKey, code: ErrorCode, body: &mut Decoder<'_>) {
        let (error_code, version) = (code.code(), reply.3);
        match key {
            ApiKey::JoinGroup => {
                let protocol_name = Some("");
                self.answer(reply, &JoinGroupResponse { error_code, protocol_name, ..Default::default() });
            }
            ApiKey::SyncGroup => self.answer(reply, &SyncGroupResponse { error_code, ..Default::default() }),
            ApiKey::Heartbeat => self.answer(reply, &HeartbeatResponse { error_code, ..Default::default() }),
            ApiKey::LeaveGroup => {
                self.answer(reply, &LeaveGroupResponse { error_code, ..Default::default() })
            }
            ApiKey::ConsumerGroupHeartbeat => {
                self.answer(reply, &ConsumerGroupHeartbeatResponse { error_code, ..Default::default() });
            }
            ApiKey::OffsetFetch => {
                let said = OffsetFetchRequest::decode(body, version).expect("it can be read");
                let group_id = said.groups[0].group_id;
                let groups = vec![OffsetFetchResponseGroup { group_id, error_code, ..Default::default() }];
                self.answer(reply, &OffsetFetchResponse { groups, ..Default::default() });
            }
            ApiKey::OffsetCommit => {
                let said = OffsetCommitRequest::decode(body, version).expect("it can be read");
                let before = self.brokers.unwell.replace(code);
                let said = self.brokers.commit(&said);
                self.brokers.unwell = before;
                self.answer(reply, &said);
            }
            key => panic!("nobody asks {key:?}"),
        }
    }

    fn serve_group(&mut self, reply: Reply, key: ApiKey, body: &mut Decoder<'_>) {
        let (who, version, now_ms) = (reply.0, reply.3, self.now_ms);
        let classic = &mut self.brokers.classic;
        match key {
            ApiKey::JoinGroup => {
                let said = JoinGroupRequest::decode(body, version).expect("it can be read");
                classic.join(who, &said, reply, now_ms);
                if said.member_id.is_empty() {
                    self.brokers.fenced.remove(&who);
                }
            }
            ApiKey::SyncGroup => {
                let said = SyncGroupRequest::decode(body, version).expect("it can be read");
                classic.sync(&said, reply, now_ms);
            }
            ApiKey::Heartbeat => {
                let said = HeartbeatRequest::decode(body, version).expect("it can be read");
                let error_code = classic.heartbeat(&said, now_ms).code();
                self.answer(reply, &HeartbeatResponse { error_code, ..Default::default() });
            }
            ApiKey::LeaveGroup => {
                let said = LeaveGroupRequest::decode(body, version).expect("it can be read");
                classic.leave(&said, now_ms);
                self.answer(reply, &LeaveGroupResponse::default());
            }
            ApiKey::ConsumerGroupHeartbeat => {
                let said = ConsumerGroupHeartbeatRequest::decode(body, version).expect("it can be read");
                self.serve_epochs(reply, &said);
            }
            ApiKey::OffsetCommit => {
                let said = OffsetCommitRequest::decode(body, version).expect("it can be read");
                let said = self.brokers.commit(&said);
                self.answer(reply, &said);
            }
            ApiKey::OffsetFetch => {
                let said = OffsetFetchRequest::decode(body, version).expect("it can be read");
                let said = fetched(&self.brokers, &said);
                self.answer(reply, &said);
            }
            key => panic!("nobody asks {key:?}"),
        }
    }

    fn serve_epochs(&mut self, reply: Reply, said: &ConsumerGroupHeartbeatRequest<'_>) {
        let mut owned = said.topic_partitions.as_ref().map(|_| BTreeSet::new());
        for topic in said.topic_partitions.iter().flatten() {
            let name = self.brokers.name_of(topic.topic_id).expect("it was told of it");
            let parts = topic.partitions.iter().map(|&index| part(name, index));
            owned.as_mut().expect("there is one").extend(parts);
        }
        if said.member_epoch == 0 {
            self.brokers.fenced.remove(&reply.0);
        }
        let mut told = self.brokers.epochs.heartbeat(reply.0, said, owned.clone(), self.now_ms);
        if self.assign_epochs() && told.is_ok() && said.member_epoch >= 0 {
            let again = ConsumerGroupHeartbeatRequest {
                group_id: said.group_id,
                member_id: said.member_id,
                member_epoch: self.brokers.epochs.members[said.member_id].epoch,
                rebalance_timeout_ms: said.rebalance_timeout_ms,
                ..Default::default()
            };
            told = self.brokers.epochs.heartbeat(reply.0, &again, None, self.now_ms);
        }
        let mut answer = ConsumerGroupHeartbeatResponse {
            heartbeat_interval_ms: INTERVAL_MS,
            member_id: Some(said.member_id),
            ..Default::default()
        };
        match told {
            Err(code) => answer.error_code = code.code(),
            Ok((epoch, assigned)) => {
                answer.member_epoch = epoch;
                answer.assignment =
                    assigned.map(|parts| Assignment { topic_partitions: by_id(&self.brokers, &parts) });
            }
        }
        self.answer(reply, &answer);
    }

    /// Computes who is to have what, if that has changed.
    pub(crate) fn assign_epochs(&mut self) -> bool {
        let is_news = self.brokers.epochs.epoch != self.brokers.epochs.assigned_epoch;
        if is_news {
            let topics: Vec<&'static str> = self.brokers.topics.keys().copied().collect();
            let all = self.brokers.partitions(topics.into_iter());
            let fits = |regex: &str, topic: &str| Pattern::new(regex).is_ok_and(|it| it.is_match(topic));
            self.brokers.epochs.assign(&all, fits);
        }
        is_news
    }

    fn serve_metadata(&mut self, reply: Reply, body: &mut Decoder<'_>) {
        let said = MetadataRequest::decode(body, reply.3).expect("it can be read");
        let all: Vec<&str> = self.brokers.topics.keys().copied().chain(["__consumer_offsets"]).collect();
        let asked: Vec<&str> = match &said.topics {
            None => all,
            Some(topics) => topics
                .iter()
                .filter_map(|topic| topic.name.or_else(|| self.brokers.name_of(topic.topic_id)))
                .collect(),
        };
        let topics = asked.into_iter().map(|name| {
            let count = self.brokers.topics.get(name).copied();
            let partition = |partition_index| MetadataResponsePartition {
                partition_index,
                leader_id: 1,
                ..Default::default()
            };
            let is_internal = name.starts_with("__");
            let is_known = count.is_some() || is_internal;
            MetadataResponseTopic {
                error_code: if is_known { 0 } else { ErrorCode::UnknownTopicOrPartition.code() },
                name: Some(name),
                topic_id: if is_known { self.brokers.id_of(name) } else { Uuid::ZERO },
                is_internal,
                partitions: (0..count.unwrap_or(i32::from(is_internal))).map(partition).collect(),
                ..Default::default()
            }
        });
        let broker = |(node_id, host)| MetadataResponseBroker { node_id, host, port: 1, rack: None };
        let brokers = [(1, "one"), (2, "two")].map(broker).to_vec();
        let said = MetadataResponse { brokers, topics: topics.collect(), ..Default::default() };
        self.answer(reply, &said);
    }
}

/// An answer, and the API it belongs to.
pub(crate) trait AnswerTo<'m>: Message<'m> {
    fn key(&self) -> ApiKey;
}

macro_rules! answers {
    ($($key:ident: $answer:ty),* $(,)?) => {
        $(impl<'m> AnswerTo<'m> for $answer { fn key(&self) -> ApiKey { ApiKey::$key } })*
    };
}

answers! {
    ApiVersions: ApiVersionsResponse<'m>,
    FindCoordinator: FindCoordinatorResponse<'m>,
    Metadata: MetadataResponse<'m>,
    JoinGroup: JoinGroupResponse<'m>,
    SyncGroup: SyncGroupResponse<'m>,
    Heartbeat: HeartbeatResponse,
    LeaveGroup: LeaveGroupResponse<'m>,
    ConsumerGroupHeartbeat: ConsumerGroupHeartbeatResponse<'m>,
    OffsetCommit: OffsetCommitResponse<'m>,
    OffsetFetch: OffsetFetchResponse<'m>,
}

fn by_id(
    brokers: &Coordinator,
    parts: &BTreeSet<TopicPartition>,
) -> Vec<ConsumerGroupHeartbeatResponseTopicPartitions> {
    let mut all: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    for of in parts {
        all.entry(brokers.id_of(of.topic.as_str())).or_default().push(of.partition.0);
    }
    let said =
        |(topic_id, partitions)| ConsumerGroupHeartbeatResponseTopicPartitions { topic_id, partitions };
    all.into_iter().map(said).collect()
}

fn fetched<'a>(brokers: &Coordinator, said: &OffsetFetchRequest<'a>) -> OffsetFetchResponse<'a> {
    let mut topics = Vec::new();
    for topic in said.groups[0].topics.iter().flatten() {
        let found = topic.partition_indexes.iter().map(|&partition_index| {
            let known = brokers.offsets.get(&part(topic.name, partition_index)).copied();
            let (committed_offset, committed_leader_epoch) = known.unwrap_or((-1, -1));
            OffsetFetchResponsePartitions {
                partition_index,
                committed_offset,
                committed_leader_epoch,
                metadata: Some(""),
                error_code: 0,
            }
        });
        topics.push(OffsetFetchResponseTopics {
            name: topic.name,
            topic_id: Uuid::ZERO,
            partitions: found.collect(),
        });
    }
    let group_id = said.groups[0].group_id;
    let groups = vec![OffsetFetchResponseGroup { group_id, topics, error_code: 0 }];
    OffsetFetchResponse { groups, ..Default::default() }
}

fn versions(speaks_epochs: bool) -> ApiVersionsResponse<'static> {
    let keys = [
        ApiKey::ApiVersions,
        ApiKey::Metadata,
        ApiKey::FindCoordinator,
        ApiKey::JoinGroup,
        ApiKey::SyncGroup,
        ApiKey::Heartbeat,
        ApiKey::LeaveGroup,
        ApiKey::OffsetCommit,
        ApiKey::OffsetFetch,
        ApiKey::ConsumerGroupHeartbeat,
    ];
    let spoken = keys.into_iter().filter(|key| speaks_epochs || *key != ApiKey::ConsumerGroupHeartbeat);
    let api_keys = spoken.map(|key| {
        let (min_version, max_version) = (*key.versions().start(), *key.versions().end());
        ApiVersion { api_key: key.code(), min_version, max_version }
    });
    ApiVersionsResponse { api_keys: api_keys.collect(), ..ApiVersionsResponse::default() }
}
