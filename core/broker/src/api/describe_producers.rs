//! DescribeProducers · key 61 · v0
//!
//! The producers a partition remembers, to find out who holds a transaction open (KIP-664).

use std::collections::BTreeSet;

use base::{ErrorCode, PartitionIndex};
use wire::messages::describe_producers::{
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Context, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::DescribeProducers, 0..=0, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: DescribeProducersRequest<'_> = read(call, body)?;
    super::check_entries(request.topics.iter().map(|topic| topic.partition_indexes.len() + 1).sum())?;
    // A partition may remember many producers: it is told of once, however often it is named.
    let mut seen = BTreeSet::new();
    let topics = request
        .topics
        .iter()
        .map(|topic| TopicResponse {
            name: topic.name,
            partitions: topic
                .partition_indexes
                .iter()
                .filter(|index| seen.insert((topic.name, **index)))
                .map(|index| described(&call.context, topic.name, PartitionIndex(*index)))
                .collect(),
        })
        .collect();
    Ok(call.reply.answer(&DescribeProducersResponse { topics, ..DescribeProducersResponse::default() }))
}

fn described(context: &Context<'_>, topic: &str, partition: PartitionIndex) -> PartitionResponse<'static> {
    let empty = PartitionResponse { partition_index: partition.0, ..PartitionResponse::default() };
    let hosted = match super::hosted_by_name(context, topic, partition) {
        Ok(hosted) => hosted,
        Err(ErrorCode::UnknownTopicOrPartition) => {
            let message = Some("this node has no such partition");
            return PartitionResponse {
                error_code: ErrorCode::UnknownTopicOrPartition.code(),
                error_message: message,
                ..empty
            };
        }
        Err(code) => return PartitionResponse { error_code: code.code(), ..empty },
    };
    let mut active_producers = Vec::new();
    hosted.step(&mut |hosted, _| {
        active_producers.extend(hosted.partition.producers().map(|producer| ProducerState {
            producer_id: producer.id.0,
            producer_epoch: producer.epoch.0.into(),
            last_sequence: producer.last_sequence.0,
            last_timestamp: producer.last_timestamp.0,
            coordinator_epoch: producer.coordinator_epoch,
            current_txn_start_offset: producer.transaction_start.map_or(-1, |offset| offset.0),
        }));
    });
    PartitionResponse { active_producers, ..empty }
}
