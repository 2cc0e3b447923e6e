//! AlterConfigs · key 33 · v0..=v2
//!
//! v2 flexible. Replaces everything that was set: what is not named goes back to its default.
//! [`super::incremental_alter_configs`] changes single settings and is what tools use.

use controller::{AlterConfigs, Command, ControllerError, Outcomes, Reply, ResourceConfigs};
use wire::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse,
};
use wire::{ApiKey, Decoder};

use super::{Api, read, resource};
use crate::call::{Call, CloseReason, Outcome, ReplyTo, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::AlterConfigs, 0..=2, handle);

/// A resource as it was asked for, and why it was refused before the controller saw it.
pub(super) struct Asked {
    pub(super) kind: i8,
    pub(super) name: String,
    pub(super) refused: Option<resource::Refusal>,
}

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: AlterConfigsRequest<'_> = read(call, body)?;
    super::check_entries(request.resources.iter().map(|wanted| wanted.configs.len() + 1).sum())?;
    let (mut asked, mut resources) = (Vec::new(), Vec::new());
    for wanted in &request.resources {
        let found = resource::find(&call.context, wanted.resource_type, wanted.resource_name);
        let (kind, name) = (wanted.resource_type, wanted.resource_name.to_owned());
        asked.push(Asked { kind, name, refused: found.as_ref().err().cloned() });
        if let Ok(resource) = found {
            let entries = wanted.configs.iter();
            let entries = entries.map(|c| (c.name.to_owned(), c.value.map(str::to_owned))).collect();
            resources.push(ResourceConfigs { resource, entries });
        }
    }
    let reply = call.reply;
    Ok(Outcome::Submit(Submission {
        command: Command::AlterConfigs(AlterConfigs { resources, validate_only: request.validate_only }),
        finish: Box::new(move |_, decision| finish(reply, &asked, decision)),
    }))
}

fn finish(reply: ReplyTo, asked: &[Asked], decision: Result<Reply, ControllerError>) -> Outcome {
    let outcomes = match decision {
        Ok(Reply::AlterConfigs(outcomes)) => Ok(outcomes),
        Ok(_) => unreachable!("a decision answers its command"),
        Err(error) => Err(error),
    };
    let results = merge(asked, outcomes);
    let responses = asked
        .iter()
        .zip(&results)
        .map(|(asked, result)| AlterConfigsResourceResponse {
            error_code: result.as_ref().map_or(0, |(code, _)| code.code()),
            error_message: result.as_ref().map(|(_, message)| message.as_str()),
            resource_type: asked.kind,
            resource_name: &asked.name,
        })
        .collect();
    reply.answer(&AlterConfigsResponse { responses, ..AlterConfigsResponse::default() })
}

/// What went wrong with each resource, in the order they were asked for.
pub(super) fn merge(
    asked: &[Asked],
    outcomes: Result<Outcomes<()>, ControllerError>,
) -> Vec<Option<resource::Refusal>> {
    let refusal = |error: &ControllerError| (error.code(), super::words(error));
    let (mut outcomes, whole) = match outcomes {
        Ok(outcomes) => (outcomes.into_iter(), None),
        Err(error) => (Vec::new().into_iter(), Some(refusal(&error))),
    };
    asked
        .iter()
        .map(|asked| match &asked.refused {
            Some(refused) => Some(refused.clone()),
            None => match outcomes.next() {
                Some(outcome) => outcome.err().as_ref().map(refusal),
                None => whole.clone(),
            },
        })
        .collect()
}
