//! Topics: made, and adopted from a disk.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicName, Uuid};
use metadata::settings::{INSYNC_MIN, SettingError, keep, validate_topic, with_kept};
use metadata::{
    ConfigChange, ConfigMap, ConfigResource, Image, MetadataRecord, NewPartition, NewTopic as TopicRecord,
};

use crate::command::{AdoptTopic, CreateTopics, NewTopic, Outcomes, TopicCreated};
use crate::configs::check_len;
use crate::controller::Controller;
use crate::error::ControllerError;
use crate::placement::{Placement, check_assignment, in_sync_at_first};
use crate::{PARTITIONS_MAX, PARTITIONS_PER_COMMAND_MAX, REPLICATION_FACTOR_MAX};

/// What `min.insync.replicas` is for a topic of three replicas or more while nobody says: one of them can
/// be lost, and writes go on.
const INSYNC_MIN_OF_THREE: &str = "2";

/// The one topic that is not made by asking for it.
const METADATA_TOPIC: &str = "__cluster_metadata";

type Created = (TopicCreated, Vec<MetadataRecord>);

impl Controller {
    pub(crate) fn create_topics(
        &self,
        command: &CreateTopics,
    ) -> Result<(Outcomes<TopicCreated>, Vec<MetadataRecord>), ControllerError> {
        self.check_partition_total(command)?;
        let twice = named_twice(command.topics.iter().map(|topic| topic.name.as_str()));
        let mut records = Vec::new();
        let mut made = Made::default();
        let mut config_bytes = self.image.config_bytes();
        let mut outcomes = Vec::with_capacity(command.topics.len());
        for topic in &command.topics {
            let created = if twice.contains(topic.name.as_str()) {
                Err(ControllerError::InvalidRequest("Duplicate topic name.".into()))
            } else {
                self.create_topic(topic, &made)
            };
            outcomes.push(created.and_then(|(mut created, more)| {
                // What every topic has is bounded by how many there may be: those who ask for nothing more are made.
                if !topic.configs.is_empty() {
                    config_bytes = self.check_config_bytes(config_bytes, &more)?;
                }
                made.add(&created);
                if command.validate_only {
                    created.id = TopicId(Uuid::ZERO);
                } else {
                    self.check_room()?;
                    records.extend(more);
                }
                Ok(created)
            }));
        }
        Ok((outcomes, records))
    }

    /// The records of a command are one batch: it must stay one that every node can hold.
    fn check_partition_total(&self, command: &CreateTopics) -> Result<(), ControllerError> {
        let partitions_of = |topic: &NewTopic| match topic.partitions {
            _ if !topic.assignments.is_empty() => topic.assignments.len(),
            -1 => usize::try_from(self.settings.partitions_default).unwrap_or(1),
            // A topic that is refused takes work, too.
            count => usize::try_from(count).unwrap_or(0).max(1),
        };
        let total = command.topics.iter().map(partitions_of).fold(0, usize::saturating_add);
        if total > PARTITIONS_PER_COMMAND_MAX {
            return Err(ControllerError::PolicyViolation(
                "Excessively large number of partitions per request.".into(),
            ));
        }
        self.check_cluster_total(total)
    }

    /// Refuses what would take the cluster over [`PARTITIONS_MAX`].
    pub(crate) fn check_cluster_total(&self, more: usize) -> Result<(), ControllerError> {
        if self.image.partition_count().saturating_add(more) > PARTITIONS_MAX {
            return Err(ControllerError::PolicyViolation(format!(
                "The cluster may have {PARTITIONS_MAX} partitions, and has {}.",
                self.image.partition_count()
            )));
        }
        Ok(())
    }

    fn create_topic(&self, topic: &NewTopic, made: &Made) -> Result<Created, ControllerError> {
        let name = self.check_name(&topic.name, made)?;
        let id = TopicId(Uuid::from_random(topic.random));
        if self.image.topic_by_id(id).is_some() || made.ids.contains(&id) {
            return Err(ControllerError::InvalidRequest(format!("The topic id {id} is in use.")));
        }
        let mut configs = check_configs(&topic.configs)?;
        keep(&topic.name, &mut configs)?;
        let partitions = if topic.assignments.is_empty() {
            self.place_topic(topic, id)?
        } else {
            self.take_assignments(topic, id)?
        };
        let replication_factor = partitions.first().map_or(0, |new| new.partition.replicas.len());
        if replication_factor >= REPLICATION_FACTOR_MAX && !self.is_set_for_all(INSYNC_MIN) {
            // Written down with the topic: so every leader and every controller means the same.
            configs.entry(INSYNC_MIN.into()).or_insert_with(|| INSYNC_MIN_OF_THREE.into());
        }
        let created = TopicCreated {
            name: name.clone(),
            id,
            partitions: i32::try_from(partitions.len()).unwrap_or(i32::MAX),
            replication_factor: i16::try_from(replication_factor).unwrap_or(i16::MAX),
        };
        Ok((created, topic_records(name, id, configs, partitions)))
    }

    fn check_name(&self, name: &str, made: &Made) -> Result<TopicName, ControllerError> {
        let checked = TopicName::new(name)?;
        if name == METADATA_TOPIC {
            return Err(ControllerError::InvalidRequest(format!(
                "Creation of internal topic {METADATA_TOPIC} is prohibited."
            )));
        }
        if self.image.topic(name).is_some() {
            return Err(ControllerError::TopicExists(name.into()));
        }
        if let Some(other) = made.collision(&self.image, name) {
            return Err(ControllerError::TopicCollision { name: name.into(), other: other.to_string() });
        }
        Ok(checked)
    }

    fn place_topic(&self, topic: &NewTopic, id: TopicId) -> Result<Vec<NewPartition>, ControllerError> {
        if topic.replication_factor < -1 || topic.replication_factor == 0 {
            return Err(ControllerError::InvalidReplicationFactor(
                "Replication factor must be larger than 0, or -1 to use the default value.".into(),
            ));
        }
        if topic.partitions < -1 || topic.partitions == 0 {
            return Err(ControllerError::InvalidPartitions(
                "Number of partitions was set to an invalid non-positive value.".into(),
            ));
        }
        let count = if topic.partitions == -1 { self.settings.partitions_default } else { topic.partitions };
        let replication_factor = match topic.replication_factor {
            -1 => self.replication_factor_default()?,
            factor => factor,
        };
        let placement = Placement::new(&self.image, replication_factor, topic.random)?;
        let partition = |index| {
            let replicas = placement.replicas(index);
            let isr = in_sync_at_first(&self.image, &replicas);
            NewPartition::first(id, PartitionIndex(index), replicas, isr)
        };
        Ok((0..count).map(partition).collect())
    }

    /// Counts brokers that are away for now, too: a topic that is made while one restarts is like any other. Who
    /// is drained does not count.
    fn replication_factor_default(&self) -> Result<i16, ControllerError> {
        if let Some(set) = self.settings.replication_factor_default {
            return Ok(set);
        }
        let takes_some = |id| !self.image.is_cordoned(id);
        let there = self.image.brokers().filter(|broker| takes_some(broker.id)).count();
        let expected = self.settings.brokers_expected.saturating_sub(self.image.brokers().count() - there);
        let chosen = there.max(expected).clamp(1, REPLICATION_FACTOR_MAX);
        if there < expected.min(REPLICATION_FACTOR_MAX) {
            return Err(ControllerError::InvalidReplicationFactor(format!(
                "A topic gets {chosen} replicas here, and {there} of the {expected} brokers of cluster.peers have \
                 registered so far. Wait for the others, or name a replication factor; correct cluster.peers if \
                 they will never come."
            )));
        }
        Ok(i16::try_from(chosen).unwrap_or(1))
    }

    fn take_assignments(&self, topic: &NewTopic, id: TopicId) -> Result<Vec<NewPartition>, ControllerError> {
        let contradiction = |what: &str| {
            let why = format!("A manual partition assignment was specified, but {what} was not set to -1.");
            Err(ControllerError::InvalidRequest(why))
        };
        if topic.replication_factor != -1 {
            return contradiction("replication factor");
        }
        if topic.partitions != -1 {
            return contradiction("numPartitions");
        }
        let mut assignments = BTreeMap::new();
        for (index, replicas) in &topic.assignments {
            if assignments.insert(*index, replicas).is_some() {
                return Err(ControllerError::InvalidReplicaAssignment(format!(
                    "Found multiple manual partition assignments for partition {index}"
                )));
            }
        }
        if !assignments.keys().map(|index| index.0).eq((0..).take(assignments.len())) {
            return Err(ControllerError::InvalidReplicaAssignment(
                "partitions should be a consecutive 0-based integer sequence".into(),
            ));
        }
        let factor = assignments.values().next().map_or(0, |replicas| replicas.len());
        let partition = |(index, replicas): (PartitionIndex, &Vec<BrokerId>)| {
            let isr = check_assignment(&self.image, index, replicas, factor)?;
            Ok(NewPartition::first(id, index, replicas.clone(), isr))
        };
        assignments.into_iter().map(partition).collect()
    }

    pub(crate) fn adopt_topic(&self, command: &AdoptTopic) -> Result<Created, ControllerError> {
        if self.image.broker(command.broker).is_none() {
            return Err(ControllerError::UnknownBroker(command.broker));
        }
        self.check_adoption(command)?;
        let known = self.image.topic_by_id(command.id);
        let count = command.partitions.keys().next_back().map_or(0, |last| last.0.saturating_add(1));
        if usize::try_from(count).map_or(true, |count| count > PARTITIONS_PER_COMMAND_MAX) {
            return Err(ControllerError::InvalidPartitions(format!(
                "The partitions found of topic {} go up to {}; at most {PARTITIONS_PER_COMMAND_MAX} can be adopted.",
                command.name,
                count.saturating_sub(1)
            )));
        }
        // Partitions that were not found are made empty: a topic without gaps is what clients expect.
        let missing =
            |index: &i32| known.is_none_or(|topic| topic.partition(PartitionIndex(*index)).is_none());
        let partition = |index: i32| {
            let index = PartitionIndex(index);
            let replicas = vec![command.broker];
            let mut new = NewPartition::first(command.id, index, replicas.clone(), replicas);
            if let Some(found) = command.partitions.get(&index) {
                new.partition.leader_epoch = LeaderEpoch(found.last_epoch.0.saturating_add(1).max(0));
                new.partition.directories = [found.directory].into();
            }
            new
        };
        let partitions: Vec<NewPartition> = (0..count).filter(missing).map(partition).collect();
        let created = TopicCreated {
            name: command.name.clone(),
            id: command.id,
            partitions: known.map_or(0, |topic| len_of(topic.partitions())).max(count),
            replication_factor: 1,
        };
        let records = match known {
            Some(_) => partitions.into_iter().map(MetadataRecord::Partition).collect(),
            None => {
                // What it was set to lies on no disk; what the cluster keeps books in is as it always is.
                let configs = with_kept(command.name.as_str(), &ConfigMap::new()).into_owned();
                topic_records(command.name.clone(), command.id, configs, partitions)
            }
        };
        Ok((created, records))
    }

    fn check_adoption(&self, command: &AdoptTopic) -> Result<(), ControllerError> {
        let inconsistent = |has: TopicId| ControllerError::InconsistentTopicId {
            name: command.name.to_string(),
            has,
            asked: command.id,
        };
        if command.id.0.is_zero() {
            return Err(ControllerError::InvalidRequest(format!("Topic {} has no id.", command.name)));
        }
        match (self.image.topic(command.name.as_str()), self.image.topic_by_id(command.id)) {
            (Some(topic), _) if topic.id != command.id => Err(inconsistent(topic.id)),
            (None, Some(other)) => Err(ControllerError::InvalidRequest(format!(
                "The topic id {} is in use by topic '{}'.",
                command.id, other.name
            ))),
            _ => Ok(()),
        }
    }
}

/// What a command has made so far, which the next topic of it must not run into.
#[derive(Debug, Default)]
struct Made {
    ids: BTreeSet<TopicId>,
    collisions: BTreeMap<String, TopicName>,
    /// The topics that were there, by the names that metrics give them; made for the first name that
    /// needs it.
    unified: OnceCell<BTreeMap<String, TopicName>>,
}

impl Made {
    fn add(&mut self, created: &TopicCreated) {
        self.ids.insert(created.id);
        self.collisions.insert(unified(created.name.as_str()), created.name.clone());
    }

    /// A topic whose name differs from this one only by `.` and `_`.
    fn collision(&self, image: &Image, name: &str) -> Option<TopicName> {
        /// With so many marks, trying each way to write them costs more than to look at every topic.
        const MARKS_TRIED_MAX: usize = 8;
        let unified_name = unified(name);
        if let Some(made) = self.collisions.get(&unified_name) {
            return Some(made.clone());
        }
        let marks: Vec<usize> =
            name.bytes().enumerate().filter(|(_, c)| matches!(c, b'.' | b'_')).map(|(i, _)| i).collect();
        if marks.len() > MARKS_TRIED_MAX {
            let name_of = |topic: &Arc<metadata::Topic>| (unified(topic.name.as_str()), topic.name.clone());
            let all = self.unified.get_or_init(|| image.topics().map(name_of).collect());
            return all.get(&unified_name).cloned();
        }
        (0..1u32 << marks.len()).find_map(|choice| {
            let mut written = name.as_bytes().to_vec();
            for (bit, &at) in marks.iter().enumerate() {
                written[at] = if choice >> bit & 1 == 0 { b'.' } else { b'_' };
            }
            let written = String::from_utf8(written).ok()?;
            image.topic(&written).map(|topic| topic.name.clone())
        })
    }
}

/// The names that come more than once.
pub(crate) fn named_twice<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    names.filter(|name| !seen.insert(*name)).collect()
}

fn check_configs(configs: &[(String, Option<String>)]) -> Result<ConfigMap, ControllerError> {
    let nulls: Vec<&str> =
        configs.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| &**name).collect();
    if !nulls.is_empty() {
        let why = format!("Null value not supported for topic configs: {}", nulls.join(","));
        return Err(ControllerError::InvalidConfig(why));
    }
    let map: ConfigMap =
        configs.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect();
    map.values().try_for_each(|value| check_len(value))?;
    validate_topic(&map).map_err(|error: SettingError| ControllerError::Setting(error))?;
    Ok(map)
}

fn topic_records(
    name: TopicName,
    id: TopicId,
    configs: ConfigMap,
    partitions: Vec<NewPartition>,
) -> Vec<MetadataRecord> {
    let mut records = Vec::with_capacity(1 + configs.len() + partitions.len());
    records.push(MetadataRecord::Topic(TopicRecord { name: name.clone(), id }));
    records.extend(configs.into_iter().map(|(setting, value)| {
        let resource = ConfigResource::Topic(name.clone());
        MetadataRecord::Config(ConfigChange { resource, name: setting, value: Some(value) })
    }));
    records.extend(partitions.into_iter().map(MetadataRecord::Partition));
    records
}

fn len_of<T>(slice: &[T]) -> i32 {
    i32::try_from(slice.len()).unwrap_or(i32::MAX)
}

/// A name as metrics write it, where `.` and `_` are the same.
fn unified(name: &str) -> String {
    name.replace('.', "_")
}
