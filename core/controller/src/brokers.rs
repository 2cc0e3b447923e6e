//! Brokers: who is in the cluster, and the ids they are given.

use base::{BrokerEpoch, LeaderEpoch, PartitionIndex, ProducerId, TopicId, Uuid};
use metadata::{Broker, BrokerChange, MetadataRecord, PartitionChange, ProducerIds};

use crate::PRODUCER_IDS_PER_BLOCK;
use crate::command::{
    AllocateProducerIds, AssignReplicasToDirs, BrokerHeartbeat, HeartbeatReply, ProducerIdBlock,
    RegisterBroker, SkipProducerIds, UnregisterBroker,
};
use crate::controller::Controller;
use crate::error::ControllerError;

impl Controller {
    /// Begins a broker's life. A new incarnation ends the one before it, whose epoch is stale from then on.
    pub(crate) fn register_broker(
        &self,
        command: &RegisterBroker,
    ) -> Result<(BrokerEpoch, Vec<MetadataRecord>), ControllerError> {
        if command.id.0 < 0 {
            return Err(ControllerError::InvalidRequest("Invalid negative broker ID.".into()));
        }
        if let Some(known) = self.image.broker(command.id)
            && known.incarnation == command.incarnation
        {
            return Ok((known.epoch, Vec::new()));
        }
        // Offsets only grow, so the place of its record makes an epoch that no earlier life had.
        let epoch = BrokerEpoch(self.image.end().0);
        let broker = Broker {
            id: command.id,
            epoch,
            incarnation: command.incarnation,
            endpoints: command.endpoints.iter().chain(&command.cluster_address).cloned().collect(),
            features: command.features.clone(),
            rack: command.rack.clone(),
            fenced: true,
            in_controlled_shutdown: false,
            log_dirs: command.log_dirs.clone(),
        };
        let mut records = vec![MetadataRecord::RegisterBroker(broker)];
        if command.after_crash {
            records.extend(self.new_leader_epochs(command));
        }
        Ok((epoch, records))
    }

    /// A broker that does not want to be fenced is not.
    pub(crate) fn broker_heartbeat(
        &self,
        command: &BrokerHeartbeat,
    ) -> Result<(HeartbeatReply, Vec<MetadataRecord>), ControllerError> {
        let broker = self.image.broker(command.id).ok_or(ControllerError::UnknownBroker(command.id))?;
        if broker.epoch != command.epoch {
            return Err(ControllerError::StaleBrokerEpoch { expected: broker.epoch, got: command.epoch });
        }
        let change = BrokerChange {
            broker: broker.id,
            epoch: broker.epoch,
            fenced: Some(command.wants_fence),
            in_controlled_shutdown: false,
            log_dirs: None,
        };
        let records = match broker.fenced == command.wants_fence {
            true => Vec::new(),
            false => vec![MetadataRecord::BrokerChange(change)],
        };
        let reply = HeartbeatReply {
            is_caught_up: true,
            is_fenced: command.wants_fence,
            should_shut_down: command.wants_shutdown,
        };
        Ok((reply, records))
    }

    /// A log may have lost its end: what is appended from here on must not look like the same leadership.
    fn new_leader_epochs(&self, command: &RegisterBroker) -> impl Iterator<Item = MetadataRecord> {
        let led = self.image.topics().flat_map(move |topic| {
            let led = topic.partitions().iter().filter(move |partition| partition.leader == command.id);
            led.map(|partition| (topic.id, partition))
        });
        let still_room = led.filter(|(_, partition)| partition.leader_epoch < LeaderEpoch(i32::MAX));
        still_room.map(move |(topic, partition)| {
            let change = PartitionChange::of(topic, partition.index);
            MetadataRecord::PartitionChange(PartitionChange { leader: Some(command.id), ..change })
        })
    }

    pub(crate) fn unregister_broker(
        &self,
        command: UnregisterBroker,
    ) -> Result<Vec<MetadataRecord>, ControllerError> {
        let broker = self.image.broker(command.id).ok_or(ControllerError::UnknownBroker(command.id))?;
        Ok(vec![MetadataRecord::UnregisterBroker(broker.id, broker.epoch)])
    }

    pub(crate) fn allocate_producer_ids(
        &self,
        command: AllocateProducerIds,
    ) -> Result<(ProducerIdBlock, Vec<MetadataRecord>), ControllerError> {
        let broker =
            self.image.broker(command.broker).ok_or(ControllerError::UnknownBroker(command.broker))?;
        if broker.epoch != command.epoch {
            return Err(ControllerError::StaleBrokerEpoch { expected: broker.epoch, got: command.epoch });
        }
        let first = self.image.producer_id_next();
        let next =
            first.0.checked_add(PRODUCER_IDS_PER_BLOCK).ok_or(ControllerError::ProducerIdsExhausted)?;
        let record = ProducerIds { broker: broker.id, broker_epoch: broker.epoch, next: ProducerId(next) };
        let block = ProducerIdBlock { first, len: PRODUCER_IDS_PER_BLOCK as i32 };
        Ok((block, vec![MetadataRecord::ProducerIds(record)]))
    }

    pub(crate) fn skip_producer_ids(
        &self,
        command: SkipProducerIds,
    ) -> Result<Vec<MetadataRecord>, ControllerError> {
        let broker =
            self.image.broker(command.broker).ok_or(ControllerError::UnknownBroker(command.broker))?;
        if command.largest < self.image.producer_id_next() {
            return Ok(Vec::new());
        }
        let next = ProducerId(command.largest.0.saturating_add(1));
        let record = ProducerIds { broker: broker.id, broker_epoch: broker.epoch, next };
        Ok(vec![MetadataRecord::ProducerIds(record)])
    }

    pub(crate) fn assign_replicas_to_dirs(
        &self,
        command: &AssignReplicasToDirs,
    ) -> Result<Vec<MetadataRecord>, ControllerError> {
        if self.image.broker(command.broker).is_none() {
            return Err(ControllerError::UnknownBroker(command.broker));
        }
        let change = |&(topic, index, directory): &(TopicId, PartitionIndex, Uuid)| {
            let partition = self.image.partition(topic, index)?;
            let place = partition.replicas.iter().position(|replica| *replica == command.broker)?;
            let mut directories = partition.directories.to_vec();
            let known = directories.get_mut(place)?;
            if *known == directory {
                return None;
            }
            *known = directory;
            let change = PartitionChange::of(topic, index);
            Some(MetadataRecord::PartitionChange(PartitionChange {
                directories: Some(directories),
                ..change
            }))
        };
        Ok(command.replicas.iter().filter_map(change).collect())
    }
}
