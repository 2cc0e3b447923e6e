//! Makes the topics of a run.

use wire::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
    CreateTopicsResponse,
};
use wire::{ApiKey, Message};

use super::ClientAct;
use super::line::Line;
use crate::cluster::net::ConnId;
use crate::cluster::options::TopicOptions;
use metadata::settings::FlushPolicy;

const VERSION: i16 = 7;
const REST_US: u64 = 100_000;

/// See the module.
pub(crate) struct Admin {
    line: Line,
    nodes: usize,
    wanted: Vec<TopicOptions>,
}

impl Admin {
    pub(crate) fn new(client: usize, nodes: usize, wanted: Vec<TopicOptions>) -> Self {
        Self { line: Line::new(client, 0, 3_000_000), nodes, wanted }
    }

    pub(crate) fn step(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        let Some(topic) = self.wanted.last() else { return };
        let Some(correlation_id) = self.line.ready(now_us, acts) else { return };
        let isr_min = topic.isr_min.to_string();
        let config = |name, value| CreatableTopicConfig { name, value: Some(value) };
        let mut configs =
            vec![config("min.insync.replicas", &isr_min), config("flush.policy", policy(topic.policy))];
        if topic.compacts {
            configs.extend([
                config("cleanup.policy", "compact"),
                config("min.cleanable.dirty.ratio", "0.1"),
                config("delete.retention.ms", "1000"),
            ]);
        }
        let assigned = |partition_index| CreatableReplicaAssignment {
            partition_index,
            broker_ids: topic.brokers.clone(),
        };
        let is_assigned = !topic.brokers.is_empty();
        let assignments = (0..topic.partitions).filter(|_| is_assigned).map(assigned).collect();
        let creatable = CreatableTopic {
            name: &topic.name,
            num_partitions: if is_assigned { -1 } else { topic.partitions },
            replication_factor: if is_assigned { -1 } else { topic.replicas },
            assignments,
            configs,
        };
        let request = CreateTopicsRequest {
            topics: vec![creatable],
            timeout_ms: 1_000,
            ..CreateTopicsRequest::default()
        };
        let frame = wire::encode_request(correlation_id, Some("admin"), VERSION, &request);
        self.line.ask(now_us, frame.expect("it is small").bytes, acts);
    }

    pub(crate) fn on_connected(&mut self, now_us: u64, conn: ConnId, acts: &mut Vec<ClientAct>) {
        self.line.on_connected(conn);
        self.step(now_us, acts);
    }

    pub(crate) fn on_closed(&mut self, now_us: u64, conn: ConnId, acts: &mut Vec<ClientAct>) {
        if self.line.on_closed(conn) {
            self.line.turn_to((self.line.to + 1) % self.nodes, acts);
            acts.push(ClientAct::Wake(now_us + REST_US));
        }
    }

    pub(crate) fn on_frame(&mut self, now_us: u64, conn: ConnId, frame: &[u8], acts: &mut Vec<ClientAct>) {
        if !self.line.on_frame(conn) {
            return;
        }
        let (_, mut body) =
            wire::decode_response_header(frame, ApiKey::CreateTopics, VERSION).expect("nodes answer well");
        let response = CreateTopicsResponse::decode(&mut body, VERSION).expect("nodes answer well");
        let topic = &response.topics[0];
        acts.push(ClientAct::Say(format!(
            "made {}: {} {:?}",
            topic.name, topic.error_code, topic.error_message
        )));
        // It may have been made although nobody said so.
        if topic.error_code == 0 || topic.error_code == base::ErrorCode::TopicAlreadyExists.code() {
            self.wanted.pop();
        } else {
            self.line.turn_to((self.line.to + 1) % self.nodes, acts);
        }
        acts.push(ClientAct::Wake(now_us + REST_US));
    }
}

/// A flush policy as a setting says it.
pub(crate) fn policy(policy: FlushPolicy) -> &'static str {
    match policy {
        FlushPolicy::Ack => "ack",
        FlushPolicy::Interval => "interval",
        FlushPolicy::Os => "os",
    }
}
