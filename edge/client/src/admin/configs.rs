//! Settings of topics and brokers: described and changed.

use wire::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};

use super::Admin;
use crate::error::ClientError;

const OP_SET: i8 = 0;
const OP_DELETE: i8 = 1;

/// What has settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// A topic, by name.
    Topic(String),
    /// A broker, by number.
    Broker(i32),
    /// Every broker that has no setting of its own.
    AllBrokers,
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
    /// Something this client does not know.
    Other(i8),
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

/// A change of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    /// Give it a value.
    Set(String, String),
    /// Take its value back, so that the default holds.
    Delete(String),
}

impl Resource {
    fn code(&self) -> i8 {
        match self {
            Self::Topic(_) => 2,
            Self::Broker(_) | Self::AllBrokers => 4,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Topic(name) => name.clone(),
            Self::Broker(id) => id.to_string(),
            Self::AllBrokers => String::new(),
        }
    }

    fn what(&self) -> String {
        match self {
            Self::Topic(name) => format!("topic {name}"),
            Self::Broker(id) => format!("broker {id}"),
            Self::AllBrokers => "all brokers".to_owned(),
        }
    }
}

impl ConfigSource {
    fn from_code(code: i8) -> Self {
        match code {
            1 => Self::Topic,
            2 => Self::Broker,
            3 => Self::AllBrokers,
            4 => Self::Start,
            5 => Self::Default,
            other => Self::Other(other),
        }
    }
}

impl Admin {
    /// The settings of a resource, by name.
    pub fn describe_configs(&mut self, resource: &Resource) -> Result<Vec<Setting>, ClientError> {
        let name = resource.name();
        let request = DescribeConfigsRequest {
            resources: vec![DescribeConfigsResource {
                resource_type: resource.code(),
                resource_name: &name,
                configuration_keys: None,
            }],
            ..DescribeConfigsRequest::default()
        };
        let answer = self.bootstrap.ask(&request)?;
        let body = answer.read()?;
        let result = body.results.first().ok_or_else(|| ClientError::Missing(resource.what()))?;
        ClientError::check(|| resource.what(), result.error_code, result.error_message)?;
        let mut settings: Vec<Setting> = result
            .configs
            .iter()
            .map(|config| Setting {
                name: config.name.to_owned(),
                value: config.value.map(str::to_owned),
                source: ConfigSource::from_code(config.config_source),
                is_read_only: config.read_only,
                is_sensitive: config.is_sensitive,
            })
            .collect();
        settings.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(settings)
    }

    /// Changes settings of a resource: all of them, or none if one is refused.
    pub fn alter_configs(
        &mut self,
        resource: &Resource,
        changes: &[ConfigChange],
    ) -> Result<(), ClientError> {
        let name = resource.name();
        let configs = changes.iter().map(|change| match change {
            ConfigChange::Set(name, value) => {
                AlterableConfig { name, config_operation: OP_SET, value: Some(value) }
            }
            ConfigChange::Delete(name) => AlterableConfig { name, config_operation: OP_DELETE, value: None },
        });
        let request = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type: resource.code(),
                resource_name: &name,
                configs: configs.collect(),
            }],
            validate_only: false,
        };
        let answer = self.bootstrap.ask(&request)?;
        let body = answer.read()?;
        let result = body.responses.first().ok_or_else(|| ClientError::Missing(resource.what()))?;
        ClientError::check(|| resource.what(), result.error_code, result.error_message)
    }
}
