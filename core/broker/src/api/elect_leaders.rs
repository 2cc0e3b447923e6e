//! ElectLeaders · key 43 · v0..=v2
//!
//! v1 unclean elections, an error of its own (KIP-460) · v2 flexible.

use base::{ErrorCode, PartitionIndex};
use controller::{Command, ControllerError, ElectLeaders, Elected, ElectionKind, Reply};
use wire::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome, ReplyTo, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::ElectLeaders, 0..=2, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: ElectLeadersRequest<'_> = read(call, body)?;
    let named = request.topic_partitions.iter().flatten().map(|topic| topic.partitions.len() + 1);
    super::check_entries(named.sum())?;
    let partitions: Option<Vec<(String, PartitionIndex)>> = request.topic_partitions.as_ref().map(|topics| {
        let of = |topic: &str, index: &i32| (topic.to_owned(), PartitionIndex(*index));
        topics.iter().flat_map(|topic| topic.partitions.iter().map(|index| of(topic.topic, index))).collect()
    });
    let reply = call.reply;
    let kind = match request.election_type {
        0 => ElectionKind::Preferred,
        1 => ElectionKind::Unclean,
        unknown => {
            let error = ControllerError::InvalidRequest(format!("Unknown election type {unknown}"));
            return Ok(finish(reply, &partitions.unwrap_or_default(), Err(error)));
        }
    };
    if partitions.as_ref().is_some_and(Vec::is_empty) {
        return Ok(answer(reply, ErrorCode::None, &[]));
    }
    let asked = partitions.clone().unwrap_or_default();
    Ok(Outcome::Submit(Submission {
        command: Command::ElectLeaders(ElectLeaders { kind, partitions }),
        finish: Box::new(move |_, decision| finish(reply, &asked, decision)),
    }))
}

fn finish(
    reply: ReplyTo,
    asked: &[(String, PartitionIndex)],
    decision: Result<Reply, ControllerError>,
) -> Outcome {
    match decision {
        Ok(Reply::ElectLeaders(elected)) => answer(reply, ErrorCode::None, &elected),
        Ok(_) => unreachable!("a decision answers its command"),
        Err(error) => {
            // The first version has no place for an error of the whole.
            let refused = asked.iter().map(|(topic, partition)| Elected {
                topic: topic.clone(),
                partition: *partition,
                outcome: Err(error.clone()),
            });
            answer(reply, error.code(), &refused.collect::<Vec<_>>())
        }
    }
}

fn answer(reply: ReplyTo, code: ErrorCode, elected: &[Elected]) -> Outcome {
    let said: Vec<Option<String>> =
        elected.iter().map(|it| it.outcome.as_ref().err().map(super::words)).collect();
    let mut results: Vec<ReplicaElectionResult<'_>> = Vec::new();
    for (it, message) in elected.iter().zip(&said) {
        let result = PartitionResult {
            partition_id: it.partition.0,
            error_code: it.outcome.as_ref().map_or_else(|error| error.code(), |()| ErrorCode::None).code(),
            error_message: message.as_deref(),
        };
        match results.last_mut() {
            Some(last) if last.topic == it.topic => last.partition_result.push(result),
            _ => results.push(ReplicaElectionResult { topic: &it.topic, partition_result: vec![result] }),
        }
    }
    // What it cannot say without an error of the whole is said of each partition.
    let error_code = if reply.version == 0 { 0 } else { code.code() };
    let replica_election_results = results;
    reply.answer(&ElectLeadersResponse { error_code, replica_election_results, ..Default::default() })
}
