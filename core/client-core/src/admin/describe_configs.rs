//! DescribeConfigs: a broker tells of its own, anyone of the others.

use std::fmt;

use base::BrokerId;
use wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
};

use super::{Ask, Each, How, Name, Refusal, Response, Route};

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

    /// A broker knows best what it was started with, and alone what it logs.
    pub(super) const fn route(&self) -> Route<'static> {
        match self {
            Self::Broker(id) | Self::BrokerLogger(id) => Route::Broker(*id),
            Self::Topic(_) | Self::AllBrokers | Self::ClientMetrics(_) | Self::Group(_) => Route::Any,
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

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// Set for the topic.
    Topic,
    /// Set for the broker, while it ran.
    Broker,
    /// Set for all brokers, while they ran.
    AllBrokers,
    /// Set when the broker was started.
    Start,
    /// Set by nobody.
    Default,
    /// Set for the logger.
    BrokerLogger,
    /// Set for what is measured of clients.
    ClientMetrics,
    /// Set for the group.
    Group,
    /// Something this client does not know.
    Other(i8),
}

impl ConfigSource {
    const fn from_code(code: i8) -> Self {
        match code {
            1 => Self::Topic,
            2 => Self::Broker,
            3 => Self::AllBrokers,
            4 => Self::Start,
            5 => Self::Default,
            6 => Self::BrokerLogger,
            7 => Self::ClientMetrics,
            8 => Self::Group,
            other => Self::Other(other),
        }
    }
}

/// A setting and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value; `None` if it has none, or nobody may read it.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether it can be changed only by starting the broker anew.
    pub is_read_only: bool,
    /// Whether its value is a secret.
    pub is_sensitive: bool,
}

/// Says what settings resources have.
#[derive(Debug)]
pub struct DescribeConfigs;

impl Ask for DescribeConfigs {
    type Item = Named;
    /// Its settings, by name.
    type Said = Vec<Setting>;
    type Request<'a> = DescribeConfigsRequest<'a>;

    fn is_change(&self) -> bool {
        false
    }

    fn name<'a>(&self, of: &'a Named) -> Name<'a> {
        Name::Resource(of.resource.kind(), of.name())
    }

    fn route<'a>(&self, of: &'a Named) -> Route<'a> {
        of.resource.route()
    }

    fn request<'a>(&'a self, resources: &[&'a Named], _: &How<'_>) -> DescribeConfigsRequest<'a> {
        let resources = resources.iter().map(|of| DescribeConfigsResource {
            resource_type: of.resource.kind(),
            resource_name: of.name(),
            configuration_keys: None,
        });
        DescribeConfigsRequest { resources: resources.collect(), ..Default::default() }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for of in &said.results {
            let settings = Refusal::check(of.error_code, of.error_message).map(|()| {
                let mut settings: Vec<Setting> = of.configs.iter().map(setting).collect();
                settings.sort_by(|a, b| a.name.cmp(&b.name));
                settings
            });
            each(Name::Resource(of.resource_type, of.resource_name), settings);
        }
        said.throttle_time_ms
    }
}

fn setting(config: &DescribeConfigsResourceResult<'_>) -> Setting {
    Setting {
        name: config.name.to_owned(),
        value: config.value.map(str::to_owned),
        source: ConfigSource::from_code(config.config_source),
        is_read_only: config.read_only,
        is_sensitive: config.is_sensitive,
    }
}
