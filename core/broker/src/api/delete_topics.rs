//! DeleteTopics · key 20 · v1..=v6
//!
//! v4 flexible · v5 error messages · v6 topics by id (KIP-516).

use base::{TopicId, Uuid};
use controller::{Command, ControllerError, DeleteTopics, Outcomes, Reply, TopicDeleted, TopicKey};
use wire::messages::delete_topics::{DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse};
use wire::{ApiKey, DecodeError, Decoder};

use super::{Api, read};
use crate::call::{Call, Outcome, ReplyTo, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::DeleteTopics, 1..=6, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, DecodeError> {
    let request: DeleteTopicsRequest<'_> = read(call, body)?;
    let by_state = request.topics.iter().map(|topic| match topic.name {
        Some(name) => TopicKey::Name(name.to_owned()),
        None => TopicKey::Id(TopicId(topic.topic_id)),
    });
    let by_name = request.topic_names.iter().map(|name| TopicKey::Name((*name).to_owned()));
    let topics: Vec<TopicKey> = by_state.chain(by_name).collect();
    let asked = topics.clone();
    let reply = call.reply;
    Ok(Outcome::Submit(Submission {
        command: Command::DeleteTopics(DeleteTopics { topics }),
        finish: Box::new(move |_, decision| finish(reply, &asked, decision)),
    }))
}

fn finish(reply: ReplyTo, asked: &[TopicKey], decision: Result<Reply, ControllerError>) -> Outcome {
    let outcomes: Outcomes<TopicDeleted> = match decision {
        Ok(Reply::DeleteTopics(outcomes)) => outcomes,
        Ok(_) => unreachable!("a decision answers its command"),
        Err(error) => vec![Err(error); asked.len()],
    };
    let messages: Vec<Option<String>> =
        outcomes.iter().map(|outcome| outcome.as_ref().err().map(ToString::to_string)).collect();
    let responses = asked
        .iter()
        .zip(&outcomes)
        .zip(&messages)
        .map(|((asked, outcome), message)| result(asked, outcome, message.as_deref()))
        .collect();
    reply.answer(&DeleteTopicsResponse { responses, ..DeleteTopicsResponse::default() })
}

fn result<'a>(
    asked: &'a TopicKey,
    outcome: &'a Result<TopicDeleted, ControllerError>,
    error_message: Option<&'a str>,
) -> DeletableTopicResult<'a> {
    let (name, topic_id) = match asked {
        TopicKey::Name(name) => (Some(name.as_str()), Uuid::ZERO),
        TopicKey::Id(id) => (None, id.0),
    };
    match outcome {
        Ok(deleted) => DeletableTopicResult {
            name: Some(deleted.name.as_str()),
            topic_id: deleted.id.0,
            ..DeletableTopicResult::default()
        },
        Err(error) => DeletableTopicResult { name, topic_id, error_code: error.code().code(), error_message },
    }
}
