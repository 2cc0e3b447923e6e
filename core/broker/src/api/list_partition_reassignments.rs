//! ListPartitionReassignments · key 46 · v0
//!
//! Flexible (KIP-455). What is not on its way, or not there, is left out.

use std::collections::BTreeMap;

use base::{BrokerId, PartitionIndex};
use metadata::Partition;
use wire::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, OngoingPartitionReassignment,
    OngoingTopicReassignment,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::ListPartitionReassignments, 0..=0, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: ListPartitionReassignmentsRequest<'_> = read(call, body)?;
    let named = request.topics.iter().flatten().map(|topic| topic.partition_indexes.len() + 1);
    super::check_entries(named.sum())?;
    let image = call.context.image;
    let mut moving = Moving::new();
    match &request.topics {
        None => {
            let all = image.topics().flat_map(|topic| topic.partitions().iter().map(move |it| (topic, it)));
            all.for_each(|(topic, it)| note(&mut moving, topic.name.as_str(), it));
        }
        Some(topics) => {
            for (topic, wanted) in topics.iter().filter_map(|it| Some((image.topic(it.name)?, it))) {
                let indexes = wanted.partition_indexes.iter();
                let known = indexes.filter_map(|index| topic.partition(PartitionIndex(*index)));
                known.for_each(|it| note(&mut moving, topic.name.as_str(), it));
            }
        }
    }
    let topics = moving.into_iter().map(|(name, partitions)| OngoingTopicReassignment {
        name,
        partitions: partitions.into_values().map(described).collect(),
    });
    Ok(call.reply.answer(&ListPartitionReassignmentsResponse {
        topics: topics.collect(),
        error_message: None,
        ..ListPartitionReassignmentsResponse::default()
    }))
}

/// Each is told of once, however often it is named.
type Moving<'a> = BTreeMap<&'a str, BTreeMap<PartitionIndex, &'a Partition>>;

fn note<'a>(moving: &mut Moving<'a>, topic: &'a str, partition: &'a Partition) {
    if !partition.adding().is_empty() || !partition.removing().is_empty() {
        moving.entry(topic).or_default().insert(partition.index, partition);
    }
}

fn described(partition: &Partition) -> OngoingPartitionReassignment {
    let ids = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect();
    OngoingPartitionReassignment {
        partition_index: partition.index.0,
        replicas: ids(&partition.replicas),
        adding_replicas: ids(partition.adding()),
        removing_replicas: ids(partition.removing()),
    }
}
