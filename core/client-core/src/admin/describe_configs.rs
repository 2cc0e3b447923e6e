//! DescribeConfigs: a broker tells of its own, anyone of the others.

use wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult,
};

use super::resource::Named;
use super::{Ask, Each, How, Name, Refusal, Resource, Response, Route};

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

/// A broker knows best what it was started with, and alone what it logs.
pub(super) const fn route(resource: &Resource) -> Route<'static> {
    match resource {
        Resource::Broker(id) | Resource::BrokerLogger(id) => Route::Broker(*id),
        Resource::Topic(_) | Resource::AllBrokers | Resource::ClientMetrics(_) | Resource::Group(_) => {
            Route::Any
        }
    }
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
        route(&of.resource)
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
