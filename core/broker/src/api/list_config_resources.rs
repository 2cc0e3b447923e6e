//! ListConfigResources · key 74 · v0..=v1
//!
//! v0 client metrics alone · v1 any kind (KIP-1142).

use wire::messages::list_config_resources::{
    ConfigResource, ListConfigResourcesRequest, ListConfigResourcesResponse,
};
use wire::{ApiKey, Decoder};

use super::{Api, read, resource};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::ListConfigResources, 0..=1, handle);

const KINDS: [i8; 5] =
    [resource::TOPIC, resource::BROKER, resource::BROKER_LOGGER, resource::CLIENT_METRICS, resource::GROUP];

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: ListConfigResourcesRequest = read(call, body)?;
    let wanted: &[i8] = match (call.reply.version, request.resource_types.as_slice()) {
        (0, _) => &[resource::CLIENT_METRICS],
        (_, []) => &KINDS,
        (_, kinds) => kinds,
    };
    if let Some(_unknown) = wanted.iter().find(|kind| !KINDS.contains(kind)) {
        return Ok(call.reply.answer(&ListConfigResourcesResponse {
            error_code: base::ErrorCode::UnsupportedVersion.code(),
            ..ListConfigResourcesResponse::default()
        }));
    }
    let image = call.context.image;
    let brokers: Vec<String> = image.brokers().map(|broker| broker.id.to_string()).collect();
    let mut config_resources = Vec::new();
    let entry = |resource_name, resource_type| ConfigResource { resource_name, resource_type };
    if wanted.contains(&resource::TOPIC) {
        config_resources.extend(image.topics().map(|topic| entry(topic.name.as_str(), resource::TOPIC)));
    }
    for kind in [resource::BROKER, resource::BROKER_LOGGER] {
        if wanted.contains(&kind) {
            config_resources.extend(brokers.iter().map(|id| entry(id.as_str(), kind)));
        }
    }
    if wanted.contains(&resource::GROUP) {
        let configured = image.configured().filter_map(|(of, _)| match of {
            metadata::ConfigResource::Group(id) => Some(id.as_str()),
            _ => None,
        });
        config_resources.extend(configured.map(|id| entry(id, resource::GROUP)));
    }
    let response = ListConfigResourcesResponse { config_resources, ..ListConfigResourcesResponse::default() };
    Ok(call.reply.answer(&response))
}
