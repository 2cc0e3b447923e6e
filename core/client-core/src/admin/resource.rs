//! What has settings, as people and as the protocol call it.

use std::fmt;

use base::BrokerId;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

/// What has settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// A topic, by name.
    Topic(String),
    /// A broker, by number.
    Broker(BrokerId),
    /// Every broker that has no setting of its own.
    AllBrokers,
    /// The loggers of a broker, whose settings are levels.
    BrokerLogger(BrokerId),
    /// What is measured of clients, by the name of the subscription (KIP-714).
    ClientMetrics(String),
    /// A group, by name (KIP-848).
    Group(String),
}

impl Resource {
    pub(super) const fn kind(&self) -> i8 {
        match self {
            Self::Topic(_) => TOPIC,
            Self::Broker(_) | Self::AllBrokers => BROKER,
            Self::BrokerLogger(_) => BROKER_LOGGER,
            Self::ClientMetrics(_) => CLIENT_METRICS,
            Self::Group(_) => GROUP,
        }
    }

    pub(super) fn describe(kind: i8, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            TOPIC => write!(f, "topic {name}"),
            BROKER if name.is_empty() => f.write_str("all brokers"),
            BROKER => write!(f, "broker {name}"),
            BROKER_LOGGER => write!(f, "the loggers of broker {name}"),
            CLIENT_METRICS => write!(f, "client metrics {name}"),
            GROUP => write!(f, "group {name}"),
            kind => write!(f, "{name} of kind {kind}"),
        }
    }
}

/// A resource, and its name as the protocol has it: numbers are texts there.
#[derive(Debug)]
pub struct Named {
    pub(super) resource: Resource,
    number: String,
}

impl From<Resource> for Named {
    fn from(resource: Resource) -> Self {
        let number = match &resource {
            Resource::Broker(id) | Resource::BrokerLogger(id) => id.to_string(),
            _ => String::new(),
        };
        Self { resource, number }
    }
}

impl Named {
    pub(super) fn name(&self) -> &str {
        match &self.resource {
            Resource::Topic(name) | Resource::ClientMetrics(name) | Resource::Group(name) => name,
            Resource::Broker(_) | Resource::BrokerLogger(_) | Resource::AllBrokers => &self.number,
        }
    }
}
