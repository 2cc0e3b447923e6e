//! DescribeConfigs · key 32 · v1..=v4
//!
//! v1 synonyms and sources (KIP-226) · v3 types and documentation (KIP-569) · v4 flexible.

use std::collections::BTreeSet;

use base::ErrorCode;
use metadata::settings::{Described, Layers, describe_broker, describe_group, describe_topic};
use metadata::{ConfigMap, ConfigResource};
use wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult, DescribeConfigsSynonym,
};
use wire::{ApiKey, Decoder};

use super::{Api, read, resource};
use crate::call::{Call, CloseReason, Context, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::DescribeConfigs, 1..=4, handle);

/// What an entry takes besides its texts.
const ENTRY_BYTES: usize = 200;

/// A setting as it is told.
struct Told {
    described: Described,
    documentation: Option<String>,
}

type Found = Result<Vec<Told>, resource::Refusal>;

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: DescribeConfigsRequest<'_> = read(call, body)?;
    let keys = |wanted: &DescribeConfigsResource<'_>| wanted.configuration_keys.as_ref().map_or(0, Vec::len);
    super::check_entries(request.resources.iter().map(|wanted| keys(wanted) + 1).sum())?;
    let mut seen = BTreeSet::new();
    let mut bytes = 0;
    let mut found: Vec<(&DescribeConfigsResource<'_>, Found)> = Vec::new();
    for wanted in &request.resources {
        if !seen.insert((wanted.resource_type, wanted.resource_name)) {
            continue;
        }
        // Every topic has some forty settings, with synonyms and documentation: those of all topics of a large cluster
        // would be gigabytes.
        let described = match bytes < super::ANSWER_BYTES_MAX {
            true => describe(&call.context, &request, wanted),
            false => Err(too_much()),
        };
        bytes += described.as_ref().map_or(0, |told| told.iter().map(Told::bytes).sum());
        found.push((wanted, described));
    }
    let results = found
        .iter()
        .map(|(wanted, found)| DescribeConfigsResult {
            error_code: found.as_ref().err().map_or(0, |(code, _)| code.code()),
            error_message: found.as_ref().err().map(|(_, message)| message.as_str()),
            resource_type: wanted.resource_type,
            resource_name: wanted.resource_name,
            configs: found.as_deref().unwrap_or_default().iter().map(|told| told.entry(&request)).collect(),
        })
        .collect();
    Ok(call.reply.answer(&DescribeConfigsResponse { results, ..DescribeConfigsResponse::default() }))
}

fn too_much() -> resource::Refusal {
    let message = "The answer would be too large: ask for fewer resources at a time.";
    (ErrorCode::InvalidRequest, message.to_owned())
}

fn describe(
    context: &Context<'_>,
    request: &DescribeConfigsRequest<'_>,
    wanted: &DescribeConfigsResource<'_>,
) -> Found {
    if wanted.resource_type == resource::BROKER_LOGGER {
        resource::check_logger(context, wanted.resource_name)?;
        // Log levels are set at start, by VLTAVA_LOG: there is nothing to list.
        return Ok(Vec::new());
    }
    let resource = resource::find(context, wanted.resource_type, wanted.resource_name)?;
    let keys = wanted.configuration_keys.as_ref().filter(|keys| !keys.is_empty());
    let is_wanted = |described: &Described| keys.is_none_or(|keys| keys.contains(&described.setting.name));
    let tell = |described: Described| {
        let documentation = request.include_documentation.then(|| described.setting.documentation());
        Told { described, documentation }
    };
    let layers = context.layers();
    match &resource {
        ConfigResource::Topic(name) if context.image.topic(name.as_str()).is_none() => {
            let message = format!("This server does not host the topic {name}.");
            Err((ErrorCode::UnknownTopicOrPartition, message))
        }
        ConfigResource::Topic(name) => {
            let overrides = context.image.configs(&resource);
            Ok(describe_topic(name.as_str(), overrides, layers).filter(is_wanted).map(tell).collect())
        }
        ConfigResource::Group(_) => {
            let overrides = context.image.configs(&resource);
            Ok(describe_group(overrides, layers).filter(is_wanted).map(tell).collect())
        }
        ConfigResource::Broker(_) => Ok(describe_broker(layers).filter(is_wanted).map(tell).collect()),
        ConfigResource::DefaultBroker => {
            // Kafka lists for "every broker" only what was set there, and as every broker has it.
            let set = context.image.configs(&resource);
            let is_set = |described: &Described| set.contains_key(described.setting.name);
            let layers = Layers { broker: &NOTHING, ..layers };
            Ok(describe_broker(layers).filter(is_set).filter(is_wanted).map(tell).collect())
        }
    }
}

static NOTHING: ConfigMap = ConfigMap::new();

impl Told {
    fn bytes(&self) -> usize {
        let synonyms = self.described.synonyms.iter().map(|synonym| ENTRY_BYTES + synonym.value.len());
        let texts = [&self.described.value, &self.documentation];
        ENTRY_BYTES
            + texts.iter().map(|text| text.as_ref().map_or(0, String::len)).sum::<usize>()
            + synonyms.sum::<usize>()
    }

    fn entry<'a>(&'a self, request: &DescribeConfigsRequest<'_>) -> DescribeConfigsResourceResult<'a> {
        let Self { described, documentation } = self;
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
            documentation: documentation.as_deref(),
        }
    }
}
