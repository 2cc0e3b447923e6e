//! The APIs, one file each, all of the same shape: which versions, then the way from request to answer.

use std::ops::RangeInclusive;
use std::sync::Arc;

use base::{BrokerId, ErrorCode, LeaderEpoch, PartitionIndex, TopicId, excerpt};
use controller::ControllerError;
use wire::{ApiKey, DecodeError, Decoder, Message};

use crate::call::{Call, CloseReason, Context, Outcome};
use crate::host::HostedPartition;

pub mod add_raft_voter;
pub mod alter_configs;
pub mod alter_partition_reassignments;
pub mod api_versions;
pub mod consumer_group_describe;
pub mod consumer_group_heartbeat;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_groups;
pub mod delete_records;
pub mod delete_topics;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_groups;
pub mod describe_log_dirs;
pub mod describe_producers;
pub mod describe_quorum;
pub mod describe_topic_partitions;
pub mod elect_leaders;
pub mod fetch;
pub mod find_coordinator;
mod groups;
pub mod heartbeat;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_config_resources;
pub mod list_groups;
pub mod list_offsets;
pub mod list_partition_reassignments;
pub mod metadata;
mod nearest;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
mod on_demand;
mod operations;
pub mod produce;
pub mod remove_raft_voter;
mod resource;
pub mod sync_group;
pub mod unregister_broker;
pub mod unregister_controller;
pub mod update_features;

pub(crate) use groups::on_hung_up;

/// An API of this broker.
#[derive(Debug)]
pub struct Api {
    /// Which.
    pub key: ApiKey,
    /// The versions that ApiVersions tells of.
    pub advertised: RangeInclusive<i16>,
    /// The versions that are served.
    pub served: RangeInclusive<i16>,
    handle: Handle,
}

type Handle = fn(&mut Call<'_>, Decoder<'_>) -> Result<Outcome, CloseReason>;

impl Api {
    const fn new(key: ApiKey, versions: RangeInclusive<i16>, handle: Handle) -> Self {
        let (low, high) = (*versions.start(), *versions.end());
        Self { key, advertised: low..=high, served: low..=high, handle }
    }

    /// Advertised from `low` on, though served only as [`Api::served`] says.
    const fn advertised_from(self, low: i16) -> Self {
        let (served_low, high) = (*self.served.start(), *self.served.end());
        Self { key: self.key, advertised: low..=high, served: served_low..=high, handle: self.handle }
    }
}

/// Every API that is served, by key.
pub const APIS: &[Api] = &[
    produce::API,
    fetch::API,
    list_offsets::API,
    metadata::API,
    offset_commit::API,
    offset_fetch::API,
    find_coordinator::API,
    join_group::API,
    heartbeat::API,
    leave_group::API,
    sync_group::API,
    describe_groups::API,
    list_groups::API,
    api_versions::API,
    create_topics::API,
    delete_topics::API,
    delete_records::API,
    init_producer_id::API,
    offset_for_leader_epoch::API,
    describe_configs::API,
    alter_configs::API,
    describe_log_dirs::API,
    create_partitions::API,
    delete_groups::API,
    elect_leaders::API,
    incremental_alter_configs::API,
    alter_partition_reassignments::API,
    list_partition_reassignments::API,
    offset_delete::API,
    describe_quorum::API,
    update_features::API,
    describe_cluster::API,
    describe_producers::API,
    unregister_broker::API,
    consumer_group_heartbeat::API,
    consumer_group_describe::API,
    list_config_resources::API,
    describe_topic_partitions::API,
    add_raft_voter::API,
    remove_raft_voter::API,
    unregister_controller::API,
];

/// The API with this key, if it is served.
pub fn find(key: ApiKey) -> Option<&'static Api> {
    APIS.iter().find(|api| api.key == key)
}

/// Sends a request to its API. The gate has let it in: it is served.
pub fn dispatch(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let api = find(call.reply.key).expect("the gate lets in only what is served");
    (api.handle)(call, body)
}

/// Reads the body of a request. Bytes behind it are ignored, as Kafka ignores them.
fn read<'a, M: Message<'a>>(call: &Call<'_>, mut body: Decoder<'a>) -> Result<M, DecodeError> {
    M::decode(&mut body, call.reply.version)
}

/// Topics, partitions, settings and the like that one request may name. Each takes many times its own
/// bytes while it is answered, and a request of 100 MiB could name millions.
const ENTRIES_MAX: usize = 100_000;

/// Refuses a request that names too much; see [`ENTRIES_MAX`].
fn check_entries(count: usize) -> Result<(), CloseReason> {
    if count > ENTRIES_MAX {
        return Err(CloseReason::TooMany { count, max: ENTRIES_MAX });
    }
    Ok(())
}

/// What one answer may take, roughly, while it is made, where a small request may ask for what is large: as for the
/// settings of all topics, or for all offsets of very many groups. What does not fit is refused.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// What an answer says of an error that may repeat what a client sent.
fn words(error: &ControllerError) -> String {
    excerpt(&error.to_string(), WORDS_MAX)
}

/// Characters of an error text: a client's own words can be as long as a request.
const WORDS_MAX: usize = 1000;

/// Who leads a partition, for a client that asked somebody else or long ago (KIP-951).
fn leader_of(
    context: &Context<'_>,
    topic: TopicId,
    partition: PartitionIndex,
) -> Option<(BrokerId, LeaderEpoch)> {
    context.image.partition(topic, partition).map(|found| (found.leader, found.leader_epoch))
}

/// The broker that admin requests are sent to: a live one, as any of them hands on what is for the controller.
/// That is this one, unless clients cannot come back to it.
fn controller(context: &Context<'_>) -> BrokerId {
    let reachable = || context.image.brokers_alive().filter(|it| it.client_endpoints().next().is_some());
    let here = reachable().find(|broker| broker.id == context.node);
    here.or_else(|| reachable().next()).map_or(BrokerId::NONE, |broker| broker.id)
}

/// Those of the brokers that are alive, with where clients reach them.
fn endpoints<'a>(
    context: &Context<'a>,
    ids: &std::collections::BTreeSet<BrokerId>,
) -> Vec<(&'a ::metadata::Broker, &'a ::metadata::Endpoint)> {
    let alive = ids.iter().filter_map(|id| context.image.broker(*id)).filter(|broker| !broker.fenced);
    alive.filter_map(|broker| Some((&**broker, broker.client_endpoints().next()?))).collect()
}

/// A partition that lives here, by its topic's name, or the code that says why not.
fn hosted_by_name(
    context: &Context<'_>,
    topic: &str,
    partition: PartitionIndex,
) -> Result<Arc<dyn HostedPartition>, ErrorCode> {
    let topic = context.image.topic(topic).map(|topic| topic.id).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    context.host.partition(topic, partition).ok_or_else(|| metadata::absence(context, topic, partition))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ordered_by_key_and_each_api_is_there_once() {
        assert!(APIS.windows(2).all(|pair| pair[0].key.code() < pair[1].key.code()));
    }
}
