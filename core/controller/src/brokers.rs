//! Brokers: the lives they begin, and the end of them.

use std::collections::BTreeSet;

use base::{BrokerEpoch, BrokerId, PartitionIndex, TopicId, Uuid};
use metadata::settings::CORDONED_DIRS;
use metadata::{Broker, BrokerChange, ConfigChange, ConfigResource, Endpoint, MetadataRecord, Partition};

use crate::command::{AssignReplicasToDirs, InDoubt, RegisterBroker, UnregisterBroker};
use crate::controller::Controller;
use crate::electorate::is_online;
use crate::error::ControllerError;
use crate::revision::{IfNobody, Revision, counts_on};

impl Controller {
    /// Begins a broker's life. A new incarnation ends the one before it, whose epoch is stale from then on,
    /// and takes it out of all in-sync sets: it comes back into them by catching up.
    pub(crate) fn register_broker(
        &self,
        command: &RegisterBroker,
    ) -> Result<(BrokerEpoch, Vec<MetadataRecord>), ControllerError> {
        self.check_registration(command)?;
        let known = self.image.broker(command.id);
        if let Some(known) = known
            && known.incarnation == command.incarnation
        {
            return Ok((known.epoch, Vec::new()));
        }
        // Who comes back has a directory that is known. One with new disks comes in when its last life is over.
        let has_one_of = |known: &Broker| known.log_dirs.iter().any(|dir| command.log_dirs.contains(dir));
        if known.is_some_and(|known| !known.fenced && !has_one_of(known)) {
            return Err(ControllerError::DuplicateBroker(command.id));
        }
        // Offsets only grow, so where its record is at the earliest makes an epoch that no earlier life had.
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
        let mut records = self.end_last_life(command, &broker);
        records.push(MetadataRecord::RegisterBroker(broker));
        Ok((epoch, records))
    }

    fn check_registration(&self, command: &RegisterBroker) -> Result<(), ControllerError> {
        if command.id.0 < 0 {
            return Err(ControllerError::InvalidRequest("Invalid negative broker ID.".into()));
        }
        if let Some(expected) = &self.settings.cluster_id
            && !command.cluster_id.is_empty()
            && command.cluster_id != *expected
        {
            let (expected, got) = (expected.clone(), command.cluster_id.clone());
            return Err(ControllerError::InconsistentClusterId { expected, got });
        }
        let wrong = |why: String| Err(ControllerError::InvalidRegistration(why));
        if command.endpoints.iter().any(|endpoint| endpoint.listener == Endpoint::CLUSTER) {
            let name = Endpoint::CLUSTER;
            return wrong(format!("A listener of clients cannot be named {name}: the nodes' own is."));
        }
        if command.cluster_address.as_ref().is_some_and(|address| address.listener != Endpoint::CLUSTER) {
            return wrong(format!("The cluster address must be of the listener {}.", Endpoint::CLUSTER));
        }
        let directories: BTreeSet<&Uuid> = command.log_dirs.iter().collect();
        if directories.len() != command.log_dirs.len() || command.log_dirs.is_empty() {
            return wrong("Log directories must have an id each, and there must be one.".into());
        }
        Ok(())
    }

    /// What a broker had in its last life, others have from here on, as far as they can.
    fn end_last_life(&self, command: &RegisterBroker, broker: &Broker) -> Vec<MetadataRecord> {
        let known = self.image.broker(broker.id);
        // Who was forgotten since may have had later ones.
        let is_other_life = |epoch| known.is_none_or(|known| known.epoch != epoch);
        let from_another_life = command.previous_epoch.is_some_and(is_other_life);
        let listed: BTreeSet<&(TopicId, PartitionIndex)> = match &command.in_doubt {
            InDoubt::Partitions(listed) => listed.iter().collect(),
            InDoubt::Nothing | InDoubt::Everything => BTreeSet::new(),
        };
        let all_in_doubt = from_another_life || command.in_doubt == InDoubt::Everything;
        let is_gone = |partition: &Partition| {
            let directory = partition.directory_of(broker.id);
            directory.is_some_and(|directory| !is_online(&broker.log_dirs, directory))
        };
        let is_in_doubt = |topic: TopicId, partition: &Partition| {
            all_in_doubt || listed.contains(&(topic, partition.index)) || is_gone(partition)
        };
        let electorate = self.electorate_with(broker.id, Some(broker.clone()));
        let changes = electorate.revise_all(|topic, partition| {
            let is_in_doubt = is_in_doubt(topic.id, partition);
            // Nobody has more than the only replica, unless that is not there.
            if is_in_doubt && (partition.replicas.len() > 1 || is_gone(partition)) {
                return Revision::of(topic.id, partition).in_doubt(broker.id);
            }
            let is_concerned =
                partition.isr.contains(&broker.id) || (is_in_doubt && counts_on(partition, broker.id));
            let is_cut = is_in_doubt || command.after_crash;
            let if_nobody = if is_cut { IfNobody::Restart } else { IfNobody::Stay };
            let revision = || Revision { if_nobody, ..Revision::of(topic.id, partition).without(broker.id) };
            is_concerned.then(revision)
        });
        changes.collect()
    }

    /// Ends what a broker leads and takes it out of the in-sync sets; what nobody else can lead, nobody
    /// leads.
    pub(crate) fn fence(&self, broker: &Broker) -> Vec<MetadataRecord> {
        let fenced = Broker { fenced: true, ..broker.clone() };
        let mut records = self.take_from(broker.id, Some(fenced), IfNobody::End);
        // The last one: until it is committed, a controller that takes over will find the broker silent
        // and go on.
        let change = BrokerChange { fenced: Some(true), ..change_of(broker) };
        records.push(MetadataRecord::BrokerChange(change));
        records
    }

    /// Takes a broker out of whatever it leads and is in sync with, before it is what it will be.
    pub(crate) fn take_from(
        &self,
        id: BrokerId,
        after: Option<Broker>,
        if_nobody: IfNobody,
    ) -> Vec<MetadataRecord> {
        let electorate = self.electorate_with(id, after);
        let changes = electorate.revise_all(|topic, partition| {
            let is_concerned = partition.isr.contains(&id) || partition.leader == id;
            let revision = || Revision { if_nobody, ..Revision::of(topic.id, partition).without(id) };
            is_concerned.then(revision)
        });
        changes.collect()
    }

    /// Lets a broker lead and serve.
    pub(crate) fn unfence(&self, broker: &Broker) -> Vec<MetadataRecord> {
        let ready = Broker { fenced: false, ..broker.clone() };
        let change = BrokerChange { fenced: Some(false), ..change_of(broker) };
        let mut records = vec![MetadataRecord::BrokerChange(change)];
        records.extend(self.electorate_with(broker.id, Some(ready)).fill_vacancies(Some(broker.id)));
        records
    }

    pub(crate) fn unregister_broker(
        &self,
        command: UnregisterBroker,
    ) -> Result<Vec<MetadataRecord>, ControllerError> {
        let broker = self.image.broker(command.id).ok_or(ControllerError::UnknownBroker(command.id))?;
        let mut records = self.take_from(broker.id, None, IfNobody::End);
        records.push(MetadataRecord::UnregisterBroker(broker.id, broker.epoch));
        let resource = ConfigResource::Broker(broker.id);
        if self.image.configs(&resource).contains_key(CORDONED_DIRS) {
            // It was said of this one: another with its number is not meant.
            let change = ConfigChange { resource, name: CORDONED_DIRS.to_owned(), value: None };
            records.push(MetadataRecord::Config(change));
        }
        Ok(records)
    }

    pub(crate) fn assign_replicas_to_dirs(
        &self,
        command: &AssignReplicasToDirs,
    ) -> Result<Vec<MetadataRecord>, ControllerError> {
        let id = command.broker;
        let broker = self.image.broker(id).ok_or(ControllerError::UnknownBroker(id))?;
        if broker.epoch != command.epoch {
            return Err(ControllerError::StaleBrokerEpoch { expected: broker.epoch, got: command.epoch });
        }
        let electorate = self.electorate();
        let change = |&(topic, index, directory): &(TopicId, PartitionIndex, Uuid)| {
            let topic = self.image.topic_by_id(topic)?;
            let partition = topic.partition(index)?;
            partition.directory_of(id).filter(|known| *known != directory)?;
            let revision = || Revision::of(topic.id, partition);
            // What cannot be served has nothing that others could count on.
            let in_doubt =
                (!is_online(&broker.log_dirs, directory)).then(|| revision().in_doubt(id)).flatten();
            let revision = Revision { assigned: Some((id, directory)), ..in_doubt.unwrap_or_else(revision) };
            electorate.settle(topic, revision).map(MetadataRecord::PartitionChange)
        };
        Ok(command.replicas.iter().filter_map(change).collect())
    }
}

/// A change of a broker that changes nothing yet.
pub(crate) fn change_of(broker: &Broker) -> BrokerChange {
    BrokerChange {
        broker: broker.id,
        epoch: broker.epoch,
        fenced: None,
        in_controlled_shutdown: false,
        log_dirs: None,
    }
}
