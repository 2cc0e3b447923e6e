//! How the config APIs name whose settings they mean.

use base::{BrokerId, ErrorCode, TopicName};
use metadata::ConfigResource;

use crate::call::Context;

/// Kafka's numbers for kinds of resources.
pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;
pub(super) const BROKER_LOGGER: i8 = 8;
pub(super) const CLIENT_METRICS: i8 = 16;
pub(super) const GROUP: i8 = 32;

/// Why a resource cannot be meant.
pub(super) type Refusal = (ErrorCode, String);

/// The resource of a request; that a topic exists is not checked here.
pub(super) fn find(context: &Context<'_>, kind: i8, name: &str) -> Result<ConfigResource, Refusal> {
    match kind {
        TOPIC => TopicName::new(name)
            .map(ConfigResource::Topic)
            .map_err(|error| (ErrorCode::InvalidTopicException, error.to_string())),
        BROKER if name.is_empty() => Ok(ConfigResource::DefaultBroker),
        BROKER => broker(context, name),
        GROUP if name.is_empty() => {
            Err((ErrorCode::InvalidRequest, "Default group resources are not allowed.".to_owned()))
        }
        GROUP => Ok(ConfigResource::Group(name.to_owned())),
        _ => Err((ErrorCode::InvalidRequest, format!("Unsupported resource type {kind}"))),
    }
}

fn broker(context: &Context<'_>, name: &str) -> Result<ConfigResource, Refusal> {
    let id = broker_id(name)?;
    if context.image.broker(id).is_none() {
        let node = context.node;
        let message = format!("Unexpected broker id, expected {node} or empty string, but received {id}");
        return Err((ErrorCode::InvalidRequest, message));
    }
    Ok(ConfigResource::Broker(id))
}

/// The loggers of a broker are its own to tell of.
pub(super) fn check_logger(context: &Context<'_>, name: &str) -> Result<(), Refusal> {
    if name.is_empty() {
        return Err((ErrorCode::InvalidRequest, "Broker id must not be empty".to_owned()));
    }
    let (node, id) = (context.node, broker_id(name)?);
    if id != node {
        let message = format!("Unexpected broker id, expected {node} but received {id}");
        return Err((ErrorCode::InvalidRequest, message));
    }
    Ok(())
}

fn broker_id(name: &str) -> Result<BrokerId, Refusal> {
    name.parse().map(BrokerId).map_err(|_| {
        let name = base::excerpt(name, super::WORDS_MAX);
        (ErrorCode::InvalidRequest, format!("Broker id must be an integer, but it is: {name}"))
    })
}
