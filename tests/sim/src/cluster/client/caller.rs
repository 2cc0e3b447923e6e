//! A member of a group by hand: one request at a time, to the node that is named.

use base::{ErrorCode, Uuid};
use wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
};
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use wire::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberIdentity};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};
use wire::{ApiKey, Message, Request};

use super::ClientAct;
use super::line::Line;
use crate::cluster::net::ConnId;

/// The group of all callers.
pub(crate) const GROUP: &str = "g";

/// What a consumer says that wants to read the topic `t`: version, topics, nothing of its own.
const WANTS_T: &[u8] = &[0, 0, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff];

/// An assignment of nothing: version, topics, nothing of its own.
const NOTHING: &[u8] = &[0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];

/// What to ask for.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    Join,
    /// To be assigned nothing, and to assign nothing to all if it leads.
    Sync,
    Beat,
    /// Up to here, of partition 0 of `t`.
    Commit(i64),
    Fetch,
    Leave,
    /// By the new protocol: that it is there, or wants to be, and has these partitions of `t`.
    Have(&'static [i32]),
    /// By the new protocol, that it is there; it leaves out what it has.
    Hear,
    /// By the new protocol, that it leaves.
    Go,
}

/// See the module.
pub(crate) struct Caller {
    line: Line,
    instance_id: Option<&'static str>,
    /// How long it may be silent, and may take to join again.
    pub(crate) patience_ms: (i32, i32),
    pub(crate) member_id: String,
    /// The generation, or the epoch.
    pub(crate) generation: i32,
    members: Vec<String>,
    /// The id of `t`, once it was assigned.
    topic: Uuid,
    call: Option<(usize, Call)>,
    asked: Option<Call>,
    /// What came of the last call, in words.
    pub(crate) heard: Option<String>,
    marks: u64,
    client: usize,
}

impl Caller {
    pub(crate) fn new(client: usize, instance_id: Option<&'static str>) -> Self {
        Self {
            line: Line::new(client, 0, 20_000_000),
            instance_id,
            patience_ms: (30_000, 30_000),
            member_id: String::new(),
            generation: -1,
            members: Vec::new(),
            topic: Uuid::ZERO,
            call: None,
            asked: None,
            heard: None,
            marks: 0,
            client,
        }
    }

    pub(crate) fn call(&mut self, to: usize, call: Call) {
        (self.call, self.asked, self.heard) = (Some((to, call)), None, None);
    }

    pub(crate) fn step(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        let Some((to, call)) = self.call.clone() else { return };
        self.line.turn_to(to, acts);
        let Some(correlation_id) = self.line.ready(now_us, acts) else { return };
        let frame = self.frame(correlation_id, &call);
        (self.call, self.asked) = (None, Some(call));
        self.line.ask(now_us, frame, acts);
    }

    fn frame(&mut self, number: i32, call: &Call) -> Vec<u8> {
        let (member_id, generation_id) = (self.member_id.as_str(), self.generation);
        let group_instance_id = self.instance_id;
        match call {
            Call::Join => self.joins(number),
            Call::Sync => self.syncs(number),
            Call::Beat => {
                let request =
                    HeartbeatRequest { group_id: GROUP, generation_id, member_id, group_instance_id };
                encode(number, 4, &request)
            }
            Call::Commit(offset) => {
                self.marks += 1;
                self.commits(number, *offset)
            }
            Call::Fetch => fetches(number),
            Call::Have(parts) => self.beats(number, self.generation.max(0), Some(*parts)),
            Call::Hear => self.beats(number, self.generation, None),
            Call::Go => self.beats(number, -1, None),
            Call::Leave => {
                let member = MemberIdentity { member_id, group_instance_id, reason: None };
                let request = LeaveGroupRequest { group_id: GROUP, members: vec![member], member_id: "" };
                encode(number, 5, &request)
            }
        }
    }

    fn joins(&self, number: i32) -> Vec<u8> {
        let protocol = JoinGroupRequestProtocol { name: "range", metadata: WANTS_T };
        let (session_timeout_ms, rebalance_timeout_ms) = self.patience_ms;
        let request = JoinGroupRequest {
            group_id: GROUP,
            session_timeout_ms,
            rebalance_timeout_ms,
            member_id: &self.member_id,
            group_instance_id: self.instance_id,
            protocol_type: "consumer",
            protocols: vec![protocol],
            reason: None,
        };
        encode(number, 9, &request)
    }

    fn syncs(&self, number: i32) -> Vec<u8> {
        let assign = |member_id| SyncGroupRequestAssignment { member_id, assignment: NOTHING };
        let request = SyncGroupRequest {
            group_id: GROUP,
            generation_id: self.generation,
            member_id: &self.member_id,
            group_instance_id: self.instance_id,
            protocol_type: Some("consumer"),
            protocol_name: Some("range"),
            assignments: self.members.iter().map(String::as_str).map(assign).collect(),
        };
        encode(number, 5, &request)
    }

    fn beats(&self, number: i32, member_epoch: i32, parts: Option<&[i32]>) -> Vec<u8> {
        let joins = member_epoch == 0;
        let name = format!("m{}", self.client);
        let member_id = if self.member_id.is_empty() { &name } else { &self.member_id };
        let had = |parts: &[i32]| {
            let partitions = parts.to_vec();
            let had = ConsumerGroupHeartbeatRequestTopicPartitions { topic_id: self.topic, partitions };
            if parts.is_empty() { Vec::new() } else { vec![had] }
        };
        let request = ConsumerGroupHeartbeatRequest {
            group_id: GROUP,
            member_id,
            member_epoch,
            instance_id: self.instance_id,
            rebalance_timeout_ms: if joins { self.patience_ms.1 } else { -1 },
            subscribed_topic_names: joins.then(|| vec!["t"]),
            topic_partitions: parts.map(had),
            ..ConsumerGroupHeartbeatRequest::default()
        };
        encode(number, 1, &request)
    }

    fn commits(&self, number: i32, offset: i64) -> Vec<u8> {
        let mark = format!("{}.{}", self.client, self.marks);
        let part = OffsetCommitRequestPartition {
            partition_index: 0,
            committed_offset: offset,
            committed_leader_epoch: -1,
            committed_metadata: Some(&mark),
        };
        let topic = OffsetCommitRequestTopic {
            name: "t",
            partitions: vec![part],
            ..OffsetCommitRequestTopic::default()
        };
        let request = OffsetCommitRequest {
            group_id: GROUP,
            generation_id_or_member_epoch: self.generation,
            member_id: &self.member_id,
            group_instance_id: self.instance_id,
            topics: vec![topic],
            ..OffsetCommitRequest::default()
        };
        encode(number, 9, &request)
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
        let heard = match self.asked.take() {
            Some(Call::Join) => self.joined(frame),
            Some(Call::Sync) => code(read::<SyncGroupResponse<'_>>(frame, ApiKey::SyncGroup, 5).error_code),
            Some(Call::Beat) => code(read::<HeartbeatResponse>(frame, ApiKey::Heartbeat, 4).error_code),
            Some(Call::Commit(_)) => {
                let said = read::<OffsetCommitResponse<'_>>(frame, ApiKey::OffsetCommit, 9);
                code(said.topics[0].partitions[0].error_code)
            }
            Some(Call::Fetch) => fetched(&read(frame, ApiKey::OffsetFetch, 9)),
            Some(Call::Leave) => {
                let said = read::<LeaveGroupResponse<'_>>(frame, ApiKey::LeaveGroup, 5);
                code(said.members.first().map_or(said.error_code, |member| member.error_code))
            }
            Some(Call::Have(_) | Call::Hear | Call::Go) => self.told(frame),
            None => return,
        };
        self.heard = Some(heard);
    }

    fn told(&mut self, frame: &[u8]) -> String {
        let said = read::<ConsumerGroupHeartbeatResponse<'_>>(frame, ApiKey::ConsumerGroupHeartbeat, 1);
        if said.error_code != 0 {
            return code(said.error_code);
        }
        said.member_id.unwrap_or_default().clone_into(&mut self.member_id);
        self.generation = said.member_epoch;
        let Some(assigned) = said.assignment else { return format!("epoch {}", said.member_epoch) };
        let mut parts = Vec::new();
        for topic in assigned.topic_partitions {
            self.topic = topic.topic_id;
            parts.extend(topic.partitions);
        }
        format!("epoch {}, gets {parts:?}", said.member_epoch)
    }

    fn joined(&mut self, frame: &[u8]) -> String {
        let said = read::<JoinGroupResponse<'_>>(frame, ApiKey::JoinGroup, 9);
        if !said.member_id.is_empty() {
            said.member_id.clone_into(&mut self.member_id);
        }
        if said.error_code != 0 {
            return code(said.error_code);
        }
        self.generation = said.generation_id;
        self.members = said.members.iter().map(|member| member.member_id.to_owned()).collect();
        match said.leader == said.member_id {
            true => format!("leads generation {} of {}", said.generation_id, said.members.len()),
            false => format!("is in generation {}", said.generation_id),
        }
    }
}

fn fetches(number: i32) -> Vec<u8> {
    let topic = OffsetFetchRequestTopics {
        name: "t",
        partition_indexes: vec![0],
        ..OffsetFetchRequestTopics::default()
    };
    let group = OffsetFetchRequestGroup {
        group_id: GROUP,
        member_id: None,
        member_epoch: -1,
        topics: Some(vec![topic]),
    };
    let request =
        OffsetFetchRequest { groups: vec![group], require_stable: true, ..OffsetFetchRequest::default() };
    encode(number, 9, &request)
}

fn fetched(said: &OffsetFetchResponse<'_>) -> String {
    let group = &said.groups[0];
    let part = group.topics.first().and_then(|topic| topic.partitions.first());
    match part {
        Some(part) if group.error_code == 0 && part.error_code == 0 => part.committed_offset.to_string(),
        Some(part) if group.error_code == 0 => code(part.error_code),
        _ => code(group.error_code),
    }
}

fn encode<'a, R: Request<'a>>(number: i32, version: i16, request: &R) -> Vec<u8> {
    wire::encode_request(number, Some("caller"), version, request).expect("it is small").bytes
}

fn read<'f, M: Message<'f>>(frame: &'f [u8], key: ApiKey, version: i16) -> M {
    let (_, mut body) = wire::decode_response_header(frame, key, version).expect("nodes answer well");
    M::decode(&mut body, version).expect("nodes answer well")
}

fn code(number: i16) -> String {
    match ErrorCode::from_i16(number) {
        Some(ErrorCode::None) => "yes".to_owned(),
        Some(code) => code.name().to_owned(),
        None => number.to_string(),
    }
}
