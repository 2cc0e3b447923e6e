//! DescribeQuorum · key 55 · v0..=v2
//!
//! v1 times of fetches (KIP-836) · v2 directories, addresses, error messages (KIP-853). There is one
//! partition to ask about, the metadata log's. Who leads it answers, whoever is asked.

use base::{ErrorCode, Offset, TimestampMs, Uuid};
use controller::{Command, ControllerError, QuorumCommand, QuorumReplica, QuorumReply, QuorumStatus, Reply};
use wire::messages::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData, Listener, Node, ReplicaState,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome, ReplyTo, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::DescribeQuorum, 0..=2, handle);

/// The topic whose one partition is the metadata log.
const METADATA_TOPIC: &str = "__cluster_metadata";

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: DescribeQuorumRequest<'_> = read(call, body)?;
    super::check_entries(request.topics.iter().map(|topic| topic.partitions.len() + 1).sum())?;
    let [topic] = request.topics.as_slice() else { return Ok(unknown(call.reply, &request)) };
    let is_metadata = topic.topic_name == METADATA_TOPIC
        && matches!(topic.partitions.as_slice(), [partition] if partition.partition_index == 0);
    if !is_metadata {
        return Ok(unknown(call.reply, &request));
    }
    let reply = call.reply;
    Ok(Outcome::Submit(Submission {
        command: Command::Quorum(QuorumCommand::Describe),
        finish: Box::new(move |_, decision| finish(reply, decision)),
    }))
}

fn unknown(reply: ReplyTo, request: &DescribeQuorumRequest<'_>) -> Outcome {
    let code = ErrorCode::UnknownTopicOrPartition;
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| DescribeQuorumResponsePartitionData {
            partition_index: partition.partition_index,
            error_code: code.code(),
            error_message: Some(code.message()),
            ..DescribeQuorumResponsePartitionData::default()
        });
        DescribeQuorumResponseTopicData { topic_name: topic.topic_name, partitions: partitions.collect() }
    });
    reply.answer(&DescribeQuorumResponse { topics: topics.collect(), ..Default::default() })
}

fn finish(reply: ReplyTo, decision: Result<Reply, ControllerError>) -> Outcome {
    match decision {
        Ok(Reply::Quorum(QuorumReply::Describe(status))) => described(reply, &status),
        Ok(_) => unreachable!("a decision answers its command"),
        Err(error) => reply.answer(&DescribeQuorumResponse {
            error_code: error.code().code(),
            error_message: Some(&super::words(&error)),
            ..DescribeQuorumResponse::default()
        }),
    }
}

fn described(reply: ReplyTo, status: &QuorumStatus) -> Outcome {
    let replicas = |those: &[QuorumReplica]| those.iter().map(|it| replica(it, reply.version)).collect();
    let partition = DescribeQuorumResponsePartitionData {
        partition_index: 0,
        leader_id: status.leader.0,
        leader_epoch: status.leader_epoch.0,
        high_watermark: status.high_watermark.0,
        current_voters: replicas(&status.voters),
        observers: replicas(&status.observers),
        ..DescribeQuorumResponsePartitionData::default()
    };
    let topic = DescribeQuorumResponseTopicData { topic_name: METADATA_TOPIC, partitions: vec![partition] };
    let all = status.voters.iter().chain(&status.observers);
    let nodes = all.filter_map(|it| Some((it.id, it.endpoint.as_ref()?))).map(|(id, at)| Node {
        node_id: id.0,
        listeners: vec![Listener { name: &at.listener, host: &at.host, port: at.port }],
    });
    let nodes = if reply.version >= 2 { nodes.collect() } else { Vec::new() };
    reply.answer(&DescribeQuorumResponse { topics: vec![topic], nodes, ..Default::default() })
}

fn replica(it: &QuorumReplica, version: i16) -> ReplicaState {
    let ms = |time: Option<TimestampMs>| time.unwrap_or(TimestampMs::NONE).0;
    ReplicaState {
        replica_id: it.id.0,
        replica_directory_id: if version >= 2 { it.directory } else { Uuid::ZERO },
        log_end_offset: it.log_end.max(Offset::NONE).0,
        last_fetch_timestamp: ms(it.fetched_at),
        last_caught_up_timestamp: ms(it.caught_up_at),
    }
}
