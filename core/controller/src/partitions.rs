//! Partitions, added to topics that are there.

use base::PartitionIndex;
use metadata::settings::is_book;
use metadata::{MetadataRecord, NewPartition, Topic};

use crate::PARTITIONS_PER_COMMAND_MAX;
use crate::command::{CreatePartitions, Outcomes, PartitionsCreated, TopicGrowth};
use crate::controller::Controller;
use crate::error::ControllerError;
use crate::placement::{Placement, check_assignment, in_sync_at_first};
use crate::topics::named_twice;

impl Controller {
    pub(crate) fn create_partitions(
        &self,
        command: &CreatePartitions,
    ) -> Result<(Outcomes<PartitionsCreated>, Vec<MetadataRecord>), ControllerError> {
        self.check_growth_total(command)?;
        let twice = named_twice(command.topics.iter().map(|topic| topic.name.as_str()));
        let mut records = Vec::new();
        let mut outcomes = Vec::with_capacity(command.topics.len());
        for growth in &command.topics {
            let grown = if twice.contains(growth.name.as_str()) {
                Err(ControllerError::InvalidRequest("Duplicate topic name.".into()))
            } else {
                self.grow(growth)
            };
            outcomes.push(grown.and_then(|(created, more)| {
                if !command.validate_only {
                    self.check_room()?;
                    records.extend(more.into_iter().map(MetadataRecord::Partition));
                }
                Ok(created)
            }));
        }
        Ok((outcomes, records))
    }

    fn check_growth_total(&self, command: &CreatePartitions) -> Result<(), ControllerError> {
        let growth_of = |growth: &TopicGrowth| {
            let has = self.image.topic(&growth.name).map_or(0, |topic| topic.partitions().len());
            usize::try_from(growth.count).unwrap_or(0).saturating_sub(has)
        };
        let total = command.topics.iter().map(growth_of).fold(0, usize::saturating_add);
        if total > PARTITIONS_PER_COMMAND_MAX {
            return Err(ControllerError::PolicyViolation(
                "Excessively large number of additional partitions per request.".into(),
            ));
        }
        self.check_cluster_total(total)
    }

    fn grow(&self, growth: &TopicGrowth) -> Result<(PartitionsCreated, Vec<NewPartition>), ControllerError> {
        let name = &growth.name;
        let topic = self.image.topic(name).ok_or_else(|| ControllerError::UnknownTopic(name.clone()))?;
        if is_book(name) {
            let why = format!(
                "The number of partitions of {name} cannot be changed: what is kept there would not be found any more."
            );
            return Err(ControllerError::InvalidRequest(why));
        }
        let has = i32::try_from(topic.partitions().len()).unwrap_or(i32::MAX);
        if growth.count == has {
            let why = format!("Topic already has {has} partition(s).");
            return Err(ControllerError::InvalidPartitions(why));
        }
        if growth.count < has {
            return Err(ControllerError::InvalidPartitions(format!(
                "The topic {name} currently has {has} partition(s); {} would not be an increase.",
                growth.count
            )));
        }
        let replication_factor = topic.partitions().first().map_or(1, |first| first.replicas.len());
        let partitions = match &growth.assignments {
            None => self.place_growth(topic, has..growth.count, replication_factor)?,
            Some(assignments) => {
                let wanted = usize::try_from(growth.count - has).unwrap_or(0);
                if assignments.len() != wanted {
                    return Err(ControllerError::InvalidReplicaAssignment(format!(
                        "Attempted to add {wanted} additional partition(s), but only {} assignment(s) were specified.",
                        assignments.len()
                    )));
                }
                let partition = |(index, replicas): (i32, &Vec<_>)| {
                    let index = PartitionIndex(index);
                    let isr = check_assignment(&self.image, index, replicas, replication_factor)?;
                    Ok(NewPartition::first(topic.id, index, replicas.clone(), isr))
                };
                (has..growth.count).zip(assignments).map(partition).collect::<Result<_, ControllerError>>()?
            }
        };
        Ok((PartitionsCreated { name: topic.name.clone(), count: growth.count }, partitions))
    }

    fn place_growth(
        &self,
        topic: &Topic,
        indexes: std::ops::Range<i32>,
        replication_factor: usize,
    ) -> Result<Vec<NewPartition>, ControllerError> {
        // Begun where the topic's id says, new leaders go on around the brokers.
        let random = u128::from_be_bytes(topic.id.0.0);
        let factor = i16::try_from(replication_factor).unwrap_or(i16::MAX);
        let placement = Placement::new(&self.image, factor, random)?;
        let partition = |index| {
            let replicas = placement.replicas(index);
            let isr = in_sync_at_first(&self.image, &replicas);
            NewPartition::first(topic.id, PartitionIndex(index), replicas, isr)
        };
        Ok(indexes.map(partition).collect())
    }
}
