//! CreatePartitions · key 37 · v0..=v3
//!
//! v2 flexible · v3 throttling. A topic only grows.

use base::BrokerId;
use controller::{
    Command, ControllerError, CreatePartitions, Outcomes, PartitionsCreated, Reply, TopicGrowth,
};
use wire::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopicResult,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome, ReplyTo, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::CreatePartitions, 0..=3, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: CreatePartitionsRequest<'_> = read(call, body)?;
    let named = request.topics.iter().map(|topic| {
        let replicas = topic.assignments.iter().flatten().map(|assignment| assignment.broker_ids.len() + 1);
        replicas.sum::<usize>() + 1
    });
    super::check_entries(named.sum())?;
    let topics: Vec<TopicGrowth> = request
        .topics
        .iter()
        .map(|topic| TopicGrowth {
            name: topic.name.to_owned(),
            count: topic.count,
            assignments: topic.assignments.as_ref().map(|assignments| {
                let brokers = |ids: &[i32]| ids.iter().map(|id| BrokerId(*id)).collect();
                assignments.iter().map(|assignment| brokers(&assignment.broker_ids)).collect()
            }),
        })
        .collect();
    let asked: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    let reply = call.reply;
    Ok(Outcome::Submit(Submission {
        command: Command::CreatePartitions(CreatePartitions { topics, validate_only: request.validate_only }),
        finish: Box::new(move |_, decision| finish(reply, &asked, decision)),
    }))
}

fn finish(reply: ReplyTo, asked: &[String], decision: Result<Reply, ControllerError>) -> Outcome {
    let outcomes: Outcomes<PartitionsCreated> = match decision {
        Ok(Reply::CreatePartitions(outcomes)) => outcomes,
        Ok(_) => unreachable!("a decision answers its command"),
        Err(error) => vec![Err(error); asked.len()],
    };
    let errors: Vec<Option<(i16, String)>> = outcomes
        .iter()
        .map(|outcome| outcome.as_ref().err().map(|error| (error.code().code(), super::words(error))))
        .collect();
    let results = asked
        .iter()
        .zip(&errors)
        .map(|(name, error)| CreatePartitionsTopicResult {
            name,
            error_code: error.as_ref().map_or(0, |(code, _)| *code),
            error_message: error.as_ref().map(|(_, message)| message.as_str()),
        })
        .collect();
    reply.answer(&CreatePartitionsResponse { results, ..CreatePartitionsResponse::default() })
}
