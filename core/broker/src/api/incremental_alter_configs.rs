//! IncrementalAlterConfigs · key 44 · v0..=v1
//!
//! v1 flexible. Sets, deletes, appends to and subtracts from single settings (KIP-339).

use base::ErrorCode;
use controller::{Command, ConfigOp, ControllerError, IncrementalAlterConfigs, Reply, ResourceConfigs};
use wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
};
use wire::{ApiKey, Decoder};

use super::alter_configs::{Asked, merge};
use super::{Api, read, resource};
use crate::call::{Call, CloseReason, Context, Outcome, ReplyTo, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::IncrementalAlterConfigs, 0..=1, handle);

type Change = ResourceConfigs<(ConfigOp, Option<String>)>;

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: IncrementalAlterConfigsRequest<'_> = read(call, body)?;
    super::check_entries(request.resources.iter().map(|wanted| wanted.configs.len() + 1).sum())?;
    let (mut asked, mut resources) = (Vec::new(), Vec::new());
    for wanted in &request.resources {
        let found = change(&call.context, wanted);
        let (kind, name) = (wanted.resource_type, wanted.resource_name.to_owned());
        asked.push(Asked { kind, name, refused: found.as_ref().err().cloned() });
        resources.extend(found.ok());
    }
    let reply = call.reply;
    let validate_only = request.validate_only;
    Ok(Outcome::Submit(Submission {
        command: Command::IncrementalAlterConfigs(IncrementalAlterConfigs { resources, validate_only }),
        finish: Box::new(move |_, decision| finish(reply, &asked, decision)),
    }))
}

fn change(context: &Context<'_>, wanted: &AlterConfigsResource<'_>) -> Result<Change, resource::Refusal> {
    let resource = resource::find(context, wanted.resource_type, wanted.resource_name)?;
    let mut entries = Vec::with_capacity(wanted.configs.len());
    for config in &wanted.configs {
        let op = match config.config_operation {
            0 => ConfigOp::Set,
            1 => ConfigOp::Delete,
            2 => ConfigOp::Append,
            3 => ConfigOp::Subtract,
            unknown => return Err((ErrorCode::InvalidRequest, format!("Unknown operation type {unknown}"))),
        };
        entries.push((config.name.to_owned(), (op, config.value.map(str::to_owned))));
    }
    Ok(ResourceConfigs { resource, entries })
}

fn finish(reply: ReplyTo, asked: &[Asked], decision: Result<Reply, ControllerError>) -> Outcome {
    let outcomes = match decision {
        Ok(Reply::IncrementalAlterConfigs(outcomes)) => Ok(outcomes),
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
    reply.answer(&IncrementalAlterConfigsResponse { responses, ..IncrementalAlterConfigsResponse::default() })
}
