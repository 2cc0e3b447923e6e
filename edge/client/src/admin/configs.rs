//! Settings: described and changed.

use client_core::admin::{AlterConfigs, Alteration, DescribeConfigs};

use super::{Admin, AdminError, Call, ConfigChange, Resource, Setting};

impl Admin {
    /// The settings of resources, each by name.
    pub fn describe_configs(
        &self,
        resources: impl IntoIterator<Item = Resource>,
    ) -> Call<Vec<Result<Vec<Setting>, AdminError>>> {
        let resources = resources.into_iter().map(Into::into).collect();
        self.call(|admin| async move { admin.ask(DescribeConfigs, resources, admin.deadline()).await })
    }

    /// The settings of a resource, by name.
    pub fn describe_config(&self, resource: Resource) -> Call<Result<Vec<Setting>, AdminError>> {
        let resource = resource.into();
        self.call(|admin| async move { admin.ask_one(DescribeConfigs, resource, admin.deadline()).await })
    }

    /// Changes settings. Of one resource all are changed, or none if one is refused.
    pub fn alter_configs(
        &self,
        changes: impl IntoIterator<Item = (Resource, Vec<ConfigChange>)>,
    ) -> Call<Vec<Result<(), AdminError>>> {
        let changes = changes.into_iter().map(|(of, changes)| Alteration::new(of, changes)).collect();
        let alter = AlterConfigs { is_dry_run: self.is_dry_run };
        self.call(|admin| async move { admin.ask(alter, changes, admin.deadline()).await })
    }

    /// Changes settings of a resource: all of them, or none if one is refused.
    pub fn alter_config(
        &self,
        resource: Resource,
        changes: Vec<ConfigChange>,
    ) -> Call<Result<(), AdminError>> {
        let alteration = Alteration::new(resource, changes);
        let alter = AlterConfigs { is_dry_run: self.is_dry_run };
        self.call(|admin| async move { admin.ask_one(alter, alteration, admin.deadline()).await })
    }
}
