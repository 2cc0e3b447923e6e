//! AlterPartitionReassignments · key 45 · v0..=v1
//!
//! v0 flexible (KIP-455) · v1 may forbid another number of replicas (KIP-860).

use base::{BrokerId, ErrorCode, PartitionIndex};
use controller::{AlterReassignments, Command, ControllerError, Reassignment, Reply};
use wire::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ReassignablePartitionResponse,
    ReassignableTopicResponse,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome, ReplyTo, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::AlterPartitionReassignments, 0..=1, handle);

/// What the answer needs of a request.
struct Asked {
    /// Topics and their partitions, in the order they were asked for.
    topics: Vec<(String, Vec<i32>)>,
    may_resize: bool,
}

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: AlterPartitionReassignmentsRequest<'_> = read(call, body)?;
    let named = request.topics.iter().map(|topic| {
        let replicas = topic.partitions.iter().map(|p| p.replicas.as_ref().map_or(0, Vec::len) + 1);
        replicas.sum::<usize>() + 1
    });
    super::check_entries(named.sum())?;
    let may_resize = request.allow_replication_factor_change;
    let topics = request.topics.iter().map(|topic| {
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        (topic.name.to_owned(), indexes.collect())
    });
    let asked = Asked { topics: topics.collect(), may_resize };
    let brokers = |ids: &Vec<i32>| ids.iter().map(|id| BrokerId(*id)).collect();
    let partitions = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| Reassignment {
            topic: topic.name.to_owned(),
            partition: PartitionIndex(partition.partition_index),
            replicas: partition.replicas.as_ref().map(brokers),
        })
    });
    let command =
        AlterReassignments { partitions: partitions.collect(), allow_replication_factor_change: may_resize };
    let reply = call.reply;
    Ok(Outcome::Submit(Submission {
        command: Command::AlterReassignments(command),
        finish: Box::new(move |_, decision| finish(reply, &asked, decision)),
    }))
}

fn finish(reply: ReplyTo, asked: &Asked, decision: Result<Reply, ControllerError>) -> Outcome {
    let count = asked.topics.iter().map(|(_, partitions)| partitions.len()).sum();
    let (outcomes, whole) = match decision {
        Ok(Reply::AlterReassignments(outcomes)) => (outcomes, None),
        Ok(_) => unreachable!("a decision answers its command"),
        Err(error) => (vec![Err(error.clone()); count], Some(error)),
    };
    let said = |error: &ControllerError| (error.code().code(), super::words(error));
    let errors: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().err().map(said)).collect();
    let whole = whole.as_ref().map(said);
    let mut each = errors.iter();
    let responses = asked.topics.iter().map(|(name, indexes)| {
        let partitions =
            indexes.iter().zip(each.by_ref()).map(|(index, error)| ReassignablePartitionResponse {
                partition_index: *index,
                error_code: error.as_ref().map_or(0, |(code, _)| *code),
                error_message: error.as_ref().map(|(_, message)| message.as_str()),
            });
        ReassignableTopicResponse { name, partitions: partitions.collect() }
    });
    reply.answer(&AlterPartitionReassignmentsResponse {
        responses: responses.collect(),
        allow_replication_factor_change: asked.may_resize,
        error_code: whole.as_ref().map_or(ErrorCode::None.code(), |(code, _)| *code),
        error_message: whole.as_ref().map(|(_, message)| message.as_str()),
        ..AlterPartitionReassignmentsResponse::default()
    })
}
