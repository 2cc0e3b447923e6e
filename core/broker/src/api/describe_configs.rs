//! DescribeConfigs · key 32 · v1..=v4
//!
//! v1 synonyms and sources (KIP-226) · v3 types and documentation (KIP-569) · v4 flexible.

use base::ErrorCode;
use metadata::ConfigResource;
use metadata::settings::{Described, describe_broker, describe_topic};
use wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult, DescribeConfigsSynonym,
};
use wire::{ApiKey, DecodeError, Decoder};

use super::{Api, read, resource};
use crate::call::{Call, Context, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::DescribeConfigs, 1..=4, handle);

type Found = Result<Vec<(Described, String)>, resource::Refusal>;

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, DecodeError> {
    let request: DescribeConfigsRequest<'_> = read(call, body)?;
    let found: Vec<Found> = request.resources.iter().map(|wanted| describe(&call.context, wanted)).collect();
    let results = request
        .resources
        .iter()
        .zip(&found)
        .map(|(wanted, found)| DescribeConfigsResult {
            error_code: found.as_ref().err().map_or(0, |(code, _)| code.code()),
            error_message: found.as_ref().err().map(|(_, message)| message.as_str()),
            resource_type: wanted.resource_type,
            resource_name: wanted.resource_name,
            configs: found.as_deref().unwrap_or_default().iter().map(|entry| told(entry, &request)).collect(),
        })
        .collect();
    Ok(call.reply.answer(&DescribeConfigsResponse { results, ..DescribeConfigsResponse::default() }))
}

fn describe(context: &Context<'_>, wanted: &DescribeConfigsResource<'_>) -> Found {
    if wanted.resource_type == resource::BROKER_LOGGER {
        // Log levels are set at start, by VLTAVA_LOG: there is nothing to list.
        return Ok(Vec::new());
    }
    let resource = resource::find(context, wanted.resource_type, wanted.resource_name)?;
    let is_wanted = |described: &Described| {
        wanted.configuration_keys.as_ref().is_none_or(|keys| keys.contains(&described.setting.name))
    };
    let documented = |described: Described| {
        let documentation = described.setting.documentation();
        (described, documentation)
    };
    let layers = context.layers();
    match &resource {
        ConfigResource::Topic(name) if context.image.topic(name.as_str()).is_none() => {
            let message = format!("This server does not host the topic {name}.");
            Err((ErrorCode::UnknownTopicOrPartition, message))
        }
        ConfigResource::Topic(_) => {
            let overrides = context.image.configs(&resource);
            Ok(describe_topic(overrides, layers).filter(is_wanted).map(documented).collect())
        }
        ConfigResource::Broker(_) => Ok(describe_broker(layers).filter(is_wanted).map(documented).collect()),
        ConfigResource::DefaultBroker => {
            // Kafka lists for "every broker" only what was set there.
            let set = context.image.configs(&resource);
            let is_set = |described: &Described| set.contains_key(described.setting.name);
            Ok(describe_broker(layers).filter(is_set).filter(is_wanted).map(documented).collect())
        }
    }
}

fn told<'a>(
    (described, documentation): &'a (Described, String),
    request: &DescribeConfigsRequest<'_>,
) -> DescribeConfigsResourceResult<'a> {
    let setting = described.setting;
    let shown = |value: Option<&'a str>| if setting.is_sensitive() { None } else { value };
    let synonyms = described.synonyms.iter().filter(|_| request.include_synonyms);
    DescribeConfigsResourceResult {
        name: setting.name,
        value: shown(described.value.as_deref()),
        read_only: setting.is_read_only(),
        config_source: described.source.code(),
        is_sensitive: setting.is_sensitive(),
        synonyms: synonyms
            .map(|synonym| DescribeConfigsSynonym {
                name: synonym.name,
                value: shown(Some(&synonym.value)),
                source: synonym.source.code(),
            })
            .collect(),
        config_type: setting.kind.code(),
        documentation: request.include_documentation.then_some(documentation.as_str()),
    }
}
