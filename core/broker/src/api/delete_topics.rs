//! DeleteTopics · key 20 · v1..=v6
//!
//! v4 flexible · v5 error messages · v6 topics by id (KIP-516).

use base::{ErrorCode, TopicId, Uuid};
use controller::{Command, ControllerError, DeleteTopics, Reply, TopicDeleted, TopicKey};
use wire::messages::delete_topics::{DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome, ReplyTo, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::DeleteTopics, 1..=6, handle);

/// A topic as it was asked for.
struct Asked {
    name: Option<String>,
    id: Uuid,
}

/// How it went: what was deleted, or the code and its words.
type Deleted = Result<TopicDeleted, (ErrorCode, String)>;

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: DeleteTopicsRequest<'_> = read(call, body)?;
    super::check_entries(request.topics.len() + request.topic_names.len())?;
    let by_state =
        request.topics.iter().map(|topic| Asked { name: topic.name.map(str::to_owned), id: topic.topic_id });
    let by_name =
        request.topic_names.iter().map(|name| Asked { name: Some((*name).to_owned()), id: Uuid::ZERO });
    let asked: Vec<Asked> = by_state.chain(by_name).collect();
    let topics = asked.iter().filter_map(|asked| asked.key().ok()).collect();
    let reply = call.reply;
    Ok(Outcome::Submit(Submission {
        command: Command::DeleteTopics(DeleteTopics { topics }),
        finish: Box::new(move |_, decision| finish(reply, &asked, decision)),
    }))
}

impl Asked {
    /// The topic that is meant, or why none can be.
    fn key(&self) -> Result<TopicKey, &'static str> {
        match &self.name {
            Some(_) if !self.id.is_zero() => Err("You may not specify both topic name and topic id."),
            Some(name) => Ok(TopicKey::Name(name.clone())),
            None if self.id.is_zero() => Err("Neither topic name nor id were specified."),
            None => Ok(TopicKey::Id(TopicId(self.id))),
        }
    }
}

fn finish(reply: ReplyTo, asked: &[Asked], decision: Result<Reply, ControllerError>) -> Outcome {
    let (mut outcomes, whole) = match decision {
        Ok(Reply::DeleteTopics(outcomes)) => (outcomes.into_iter(), None),
        Ok(_) => unreachable!("a decision answers its command"),
        Err(error) => (Vec::new().into_iter(), Some(error)),
    };
    let said = |error: &ControllerError| (code_known_to(reply.version, error), super::words(error));
    let deleted: Vec<Deleted> = asked
        .iter()
        .map(|asked| match (asked.key(), &whole) {
            (Err(why), _) => Err((ErrorCode::InvalidRequest, why.to_owned())),
            (Ok(_), Some(error)) => Err(said(error)),
            (Ok(_), None) => {
                let outcome = outcomes.next().expect("each topic has an outcome");
                outcome.map_err(|error| said(&error))
            }
        })
        .collect();
    let responses = asked.iter().zip(&deleted).map(|(asked, deleted)| result(asked, deleted)).collect();
    reply.answer(&DeleteTopicsResponse { responses, ..DeleteTopicsResponse::default() })
}

/// That topics cannot be deleted has a code of its own from v3 on.
fn code_known_to(version: i16, error: &ControllerError) -> ErrorCode {
    match error.code() {
        ErrorCode::TopicDeletionDisabled if version < 3 => ErrorCode::InvalidRequest,
        code => code,
    }
}

fn result<'a>(asked: &'a Asked, deleted: &'a Deleted) -> DeletableTopicResult<'a> {
    match deleted {
        Ok(deleted) => DeletableTopicResult {
            name: Some(deleted.name.as_str()),
            topic_id: deleted.id.0,
            ..DeletableTopicResult::default()
        },
        Err((code, message)) => DeletableTopicResult {
            name: asked.name.as_deref(),
            topic_id: asked.id,
            error_code: code.code(),
            error_message: Some(message),
        },
    }
}
