//! Settings of topics and brokers, changed while the cluster runs.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use metadata::settings::{
    INSYNC_MIN, Kind, Layers, Setting, SettingError, describe_broker, describe_group, describe_topic,
    find_broker, find_group, find_topic, insync_replicas_min, keep, validate_broker, validate_group,
    validate_topic, with_kept,
};
use metadata::{ConfigChange, ConfigMap, ConfigResource, MetadataRecord, Partition, PartitionChange};

use crate::CONFIG_BYTES_MAX;
use crate::command::{AlterConfigs, ConfigOp, IncrementalAlterConfigs, Outcomes, ResourceConfigs};
use crate::controller::Controller;
use crate::error::ControllerError;

/// The longest value, as in Kafka: it becomes a record that every node holds.
const VALUE_BYTES_MAX: usize = 32_767;

type Changed = Result<Vec<MetadataRecord>, ControllerError>;

impl Controller {
    pub(crate) fn incremental_alter_configs(
        &self,
        command: &IncrementalAlterConfigs,
    ) -> (Outcomes<()>, Vec<MetadataRecord>) {
        self.alter(&command.resources, command.validate_only, |asked| self.incremental(asked))
    }

    pub(crate) fn alter_configs(&self, command: &AlterConfigs) -> (Outcomes<()>, Vec<MetadataRecord>) {
        self.alter(&command.resources, command.validate_only, |asked| self.replace(asked))
    }

    /// Each resource changes as a whole or not at all, whatever becomes of the others.
    fn alter<T>(
        &self,
        resources: &[ResourceConfigs<T>],
        validate_only: bool,
        target: impl Fn(&ResourceConfigs<T>) -> Result<ConfigMap, ControllerError>,
    ) -> (Outcomes<()>, Vec<MetadataRecord>) {
        let mut seen = BTreeSet::new();
        let twice: BTreeSet<&ConfigResource> = resources
            .iter()
            .map(|asked| &asked.resource)
            .filter(|resource| !seen.insert(*resource))
            .collect();
        let mut records = Vec::new();
        let mut config_bytes = self.image.config_bytes();
        let outcomes = resources.iter().map(|asked| {
            if twice.contains(&asked.resource) {
                let why = "Each resource must appear at most once.".into();
                return Err(ControllerError::InvalidRequest(why));
            }
            self.check_resource(&asked.resource)?;
            check_entries(asked)?;
            let changes = self.changes(&asked.resource, target(asked)?)?;
            config_bytes = self.check_config_bytes(config_bytes, &changes)?;
            if !validate_only {
                records.extend(changes);
            }
            Ok(())
        });
        let outcomes = outcomes.collect();
        let mut all = self.no_longer_eligible(&records);
        all.append(&mut records);
        (outcomes, all)
    }

    /// Whether a setting is set for every broker.
    pub(crate) fn is_set_for_all(&self, name: &str) -> bool {
        let layers = self.layers();
        layers.default_broker.contains_key(name) || layers.fixed.contains_key(name)
    }

    /// What the active controller makes true for every broker, whatever each was given at start: who may
    /// still be elected depends on the minimum of the leader that was (KIP-966).
    pub(crate) fn settings_for_all(&self) -> Vec<MetadataRecord> {
        let layers = self.layers();
        let own = layers.fixed.get(INSYNC_MIN).filter(|_| !layers.default_broker.contains_key(INSYNC_MIN));
        let change = |value: &String| {
            let (name, value) = (INSYNC_MIN.to_owned(), Some(value.clone()));
            MetadataRecord::Config(ConfigChange { resource: ConfigResource::DefaultBroker, name, value })
        };
        own.map(change).into_iter().collect()
    }

    /// Where these changes make a set of replicas large enough to go on without those that are eligible,
    /// they no longer are: what is committed from then on they do not have.
    fn no_longer_eligible(&self, changes: &[MetadataRecord]) -> Vec<MetadataRecord> {
        let is_concerned = |record: &MetadataRecord| matches!(record, MetadataRecord::Config(change) if change.name == INSYNC_MIN);
        if !changes.iter().any(is_concerned) {
            return Vec::new();
        }
        let (after, _) = self.image.after(changes, self.image.end());
        let default_broker = after.configs(&ConfigResource::DefaultBroker);
        let layers = Layers { default_broker, ..self.layers() };
        let topics = self.image.topics().flat_map(|topic| {
            let own = after.configs(&ConfigResource::Topic(topic.name.clone()));
            let enough = insync_replicas_min(own, layers);
            let is_enough = move |partition: &&Arc<Partition>| {
                !partition.eligible().is_empty()
                    && !partition.isr.is_empty()
                    && partition.isr.len() >= enough.min(partition.replicas.len())
            };
            topic.partitions().iter().filter(is_enough).map(|partition| (topic.id, partition.index))
        });
        let change = |(topic, partition)| {
            MetadataRecord::PartitionChange(PartitionChange {
                eligible: Some(Vec::new()),
                ..PartitionChange::of(topic, partition)
            })
        };
        topics.map(change).collect()
    }

    /// What all settings take, in bytes, once these are changed: `taken` is what they take before. Refuses what would
    /// make it more than [`CONFIG_BYTES_MAX`], and nothing that makes it less.
    pub(crate) fn check_config_bytes(
        &self,
        taken: usize,
        changes: &[MetadataRecord],
    ) -> Result<usize, ControllerError> {
        let (mut more, mut less) = (0, 0);
        for record in changes {
            let MetadataRecord::Config(ConfigChange { resource, name, value }) = record else { continue };
            let bytes = |value: &String| resource.setting_bytes(name, value);
            more += value.as_ref().map_or(0, bytes);
            less += self.image.configs(resource).get(name).map_or(0, bytes);
        }
        let then = (taken + more).saturating_sub(less);
        if then > CONFIG_BYTES_MAX && more > less {
            return Err(ControllerError::PolicyViolation(format!(
                "All settings of topics, brokers and groups may take {CONFIG_BYTES_MAX} bytes together, and take \
                 {taken}. Take back settings that nobody needs, such as those of groups that are gone."
            )));
        }
        Ok(then)
    }

    fn check_resource(&self, resource: &ConfigResource) -> Result<(), ControllerError> {
        match resource {
            ConfigResource::Topic(name) if self.image.topic(name.as_str()).is_none() => {
                Err(ControllerError::NoSuchTopic(name.to_string()))
            }
            ConfigResource::Broker(id) if self.image.broker(*id).is_none() => {
                Err(ControllerError::UnknownBroker(*id))
            }
            _ => Ok(()),
        }
    }

    /// What the resource's settings would be after the changes.
    fn incremental(
        &self,
        asked: &ResourceConfigs<(ConfigOp, Option<String>)>,
    ) -> Result<ConfigMap, ControllerError> {
        refuse_nulls(asked, |(op, value)| *op != ConfigOp::Delete && value.is_none())?;
        let mut target = self.own(&asked.resource).into_owned();
        for (name, (op, value)) in &asked.entries {
            match (op, value) {
                (ConfigOp::Delete, _) | (_, None) => {
                    target.remove(name);
                }
                (ConfigOp::Set, Some(value)) => {
                    target.insert(name.clone(), value.clone());
                }
                (ConfigOp::Append | ConfigOp::Subtract, Some(value)) => {
                    let list = self.edit_list(&asked.resource, (name, *op, value))?;
                    target.insert(name.clone(), list);
                }
            }
        }
        Ok(target)
    }

    fn edit_list(
        &self,
        resource: &ConfigResource,
        (name, op, value): (&str, ConfigOp, &str),
    ) -> Result<String, ControllerError> {
        if setting_of(resource, name).is_some_and(|setting| setting.kind != Kind::List) {
            let op = if op == ConfigOp::Append { "APPEND" } else { "SUBTRACT" };
            return Err(ControllerError::InvalidConfig(format!(
                "Can't {op} to key {name} because its type is not LIST."
            )));
        }
        check_len(value)?;
        let current = self.effective(resource, name).unwrap_or_default();
        let given = parts(value);
        let mut list = parts(&current);
        if op == ConfigOp::Append {
            let mut known: BTreeSet<&str> = list.iter().copied().collect();
            let new: Vec<&str> = given.into_iter().filter(|part| known.insert(part)).collect();
            list.extend(new);
        } else {
            let gone: BTreeSet<&str> = given.into_iter().collect();
            list.retain(|part| !gone.contains(part));
        }
        Ok(list.join(","))
    }

    /// What is set for a resource itself; for a topic of the cluster's books, as it always is.
    fn own(&self, resource: &ConfigResource) -> Cow<'_, ConfigMap> {
        let own = self.image.configs(resource);
        match resource {
            ConfigResource::Topic(topic) => with_kept(topic.as_str(), own),
            _ => Cow::Borrowed(own),
        }
    }

    /// What a setting is at present, wherever that comes from.
    fn effective(&self, resource: &ConfigResource, name: &str) -> Option<String> {
        let own = &*self.own(resource);
        if let Some(value) = own.get(name) {
            return Some(value.clone());
        }
        let mut described: Box<dyn Iterator<Item = _>> = match resource {
            ConfigResource::Topic(topic) => Box::new(describe_topic(topic.as_str(), own, self.layers())),
            ConfigResource::Broker(_) | ConfigResource::DefaultBroker => {
                Box::new(describe_broker(self.layers()))
            }
            ConfigResource::Group(_) => Box::new(describe_group(own, self.layers())),
        };
        described.find(|described| described.setting.name == name).and_then(|described| described.value)
    }

    /// Exactly what was asked for, nothing of what was there.
    fn replace(&self, asked: &ResourceConfigs<Option<String>>) -> Result<ConfigMap, ControllerError> {
        refuse_nulls(asked, Option::is_none)?;
        Ok(asked.entries.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect())
    }

    /// The records that lead from what is set to the target, if the target is sound.
    fn changes(&self, resource: &ConfigResource, mut target: ConfigMap) -> Changed {
        target.values().try_for_each(|value| check_len(value))?;
        match resource {
            ConfigResource::Topic(topic) => {
                validate_topic(&target)?;
                keep(topic.as_str(), &mut target)?;
            }
            ConfigResource::Group(_) => validate_group(&target, self.layers().fixed)?,
            ConfigResource::Broker(_) if target.contains_key(INSYNC_MIN) => {
                let why = format!("Broker-level {INSYNC_MIN} cannot be altered: set it for all brokers.");
                return Err(ControllerError::InvalidConfig(why));
            }
            // Kafka refuses it, too: what comes in its place is the matter of whichever controller is elected next.
            ConfigResource::DefaultBroker
                if self.image.configs(resource).contains_key(INSYNC_MIN)
                    && !target.contains_key(INSYNC_MIN) =>
            {
                let why =
                    format!("Cluster-level {INSYNC_MIN} cannot be removed: set it to 1 if one is enough.");
                return Err(ControllerError::InvalidConfig(why));
            }
            // Kafka calls a broker's bad value a bad request, and a topic's a bad setting.
            ConfigResource::Broker(_) | ConfigResource::DefaultBroker => {
                validate_broker(&target).map_err(|error| match error {
                    SettingError::Invalid { .. } => ControllerError::InvalidRequest(error.to_string()),
                    other => other.into(),
                })?;
            }
        }
        let current = self.image.configs(resource);
        let change = |name: &String, value: Option<&String>| {
            let change =
                ConfigChange { resource: resource.clone(), name: name.clone(), value: value.cloned() };
            MetadataRecord::Config(change)
        };
        let taken_back =
            current.keys().filter(|name| !target.contains_key(*name)).map(|name| change(name, None));
        let set = target
            .iter()
            .filter(|(name, value)| current.get(*name) != Some(value))
            .map(|(name, value)| change(name, Some(value)));
        Ok(taken_back.chain(set).collect())
    }
}

fn check_entries<T>(asked: &ResourceConfigs<T>) -> Result<(), ControllerError> {
    let mut seen = BTreeSet::new();
    if asked.entries.iter().all(|(name, _)| seen.insert(name)) {
        return Ok(());
    }
    Err(ControllerError::InvalidRequest("Error due to duplicate config keys".into()))
}

pub(crate) fn check_len(value: &str) -> Result<(), ControllerError> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(ControllerError::InvalidConfig(format!(
            "The configuration value cannot be added because it exceeds the maximum value size of {VALUE_BYTES_MAX} bytes."
        )));
    }
    Ok(())
}

fn refuse_nulls<T>(asked: &ResourceConfigs<T>, is_null: impl Fn(&T) -> bool) -> Result<(), ControllerError> {
    let nulls: Vec<&str> =
        asked.entries.iter().filter(|(_, value)| is_null(value)).map(|(name, _)| name.as_str()).collect();
    if nulls.is_empty() {
        return Ok(());
    }
    Err(ControllerError::InvalidRequest(format!("Null value not supported for : {}", nulls.join(","))))
}

fn setting_of(resource: &ConfigResource, name: &str) -> Option<&'static Setting> {
    match resource {
        ConfigResource::Topic(_) => find_topic(name),
        ConfigResource::Broker(_) | ConfigResource::DefaultBroker => find_broker(name),
        ConfigResource::Group(_) => find_group(name),
    }
}

fn parts(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|part| !part.is_empty()).collect()
}
