//! IncrementalAlterConfigs: a broker's own settings are changed through that broker, others through anyone.

use wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};

use super::describe_configs::route;
use super::resource::Named;
use super::{Ask, Each, How, Name, Refusal, Resource, Response, Route};

/// A change of one setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    /// Give it a value.
    Set(String, String),
    /// Take its value back, so that the default holds.
    Delete(String),
    /// Add to a list.
    Append(String, String),
    /// Take out of a list.
    Subtract(String, String),
}

/// Changes of the settings of one resource: all of them, or none if one is refused.
#[derive(Debug)]
pub struct Alteration {
    of: Named,
    changes: Vec<ConfigChange>,
}

impl Alteration {
    /// These changes of that resource.
    pub fn new(resource: Resource, changes: Vec<ConfigChange>) -> Self {
        Self { of: resource.into(), changes }
    }
}

/// Changes settings.
#[derive(Debug)]
pub struct AlterConfigs {
    /// Only says whether it could be done.
    pub is_dry_run: bool,
}

impl Ask for AlterConfigs {
    type Item = Alteration;
    type Said = ();
    type Request<'a> = IncrementalAlterConfigsRequest<'a>;

    fn is_change(&self) -> bool {
        !self.is_dry_run
    }

    fn name<'a>(&self, alteration: &'a Alteration) -> Name<'a> {
        Name::Resource(alteration.of.resource.kind(), alteration.of.name())
    }

    fn route<'a>(&self, alteration: &'a Alteration) -> Route<'a> {
        route(&alteration.of.resource)
    }

    fn request<'a>(&'a self, all: &[&'a Alteration], _: &How<'_>) -> IncrementalAlterConfigsRequest<'a> {
        let resources = all.iter().map(|alteration| AlterConfigsResource {
            resource_type: alteration.of.resource.kind(),
            resource_name: alteration.of.name(),
            configs: alteration.changes.iter().map(alterable).collect(),
        });
        IncrementalAlterConfigsRequest { resources: resources.collect(), validate_only: self.is_dry_run }
    }

    fn read<'f>(&self, said: &Response<'f, Self>, each: Each<'_, 'f, Self>) -> i32 {
        for of in &said.responses {
            let done = Refusal::check(of.error_code, of.error_message);
            each(Name::Resource(of.resource_type, of.resource_name), done);
        }
        said.throttle_time_ms
    }
}

fn alterable(change: &ConfigChange) -> AlterableConfig<'_> {
    let (config_operation, name, value) = match change {
        ConfigChange::Set(name, value) => (0, name, Some(&**value)),
        ConfigChange::Delete(name) => (1, name, None),
        ConfigChange::Append(name, value) => (2, name, Some(&**value)),
        ConfigChange::Subtract(name, value) => (3, name, Some(&**value)),
    };
    AlterableConfig { name, config_operation, value }
}
