//! Leaders, elected because somebody asked for it or because it was time.

use std::collections::BTreeSet;

use base::PartitionIndex;
use metadata::{MetadataRecord, Partition, Topic};

use crate::command::{ElectLeaders, Elected, ElectionKind};
use crate::controller::Controller;
use crate::electorate::Electorate;
use crate::error::ControllerError;
use crate::revision::{Election, Revision};

/// Leaderships that are given back at a time: each is a moment in which clients look for the new leader.
const BALANCED_AT_ONCE_MAX: usize = 1_000;

impl Controller {
    pub(crate) fn elect_leaders(&self, command: &ElectLeaders) -> (Vec<Elected>, Vec<MetadataRecord>) {
        let electorate = self.electorate();
        let mut records = Vec::new();
        let Some(asked) = &command.partitions else {
            let all =
                self.image.topics().flat_map(|topic| topic.partitions().iter().map(move |it| (topic, it)));
            let elected = all.filter_map(|(topic, partition)| {
                let outcome = elect(&electorate, command.kind, (topic, partition), &mut records);
                let is_news = outcome != Err(ControllerError::ElectionNotNeeded);
                is_news.then(|| Elected {
                    topic: topic.name.to_string(),
                    partition: partition.index,
                    outcome,
                })
            });
            let elected = elected.collect();
            return (elected, records);
        };
        let mut seen = BTreeSet::new();
        let elected = asked.iter().map(|(name, index)| {
            let outcome = self.find_named(name, *index).and_then(|found| {
                if !seen.insert((name, index)) {
                    return Err(ControllerError::ElectionNotNeeded);
                }
                elect(&electorate, command.kind, found, &mut records)
            });
            Elected { topic: name.clone(), partition: *index, outcome }
        });
        let elected = elected.collect();
        (elected, records)
    }

    /// A partition by its topic's name.
    pub(crate) fn find_named(
        &self,
        name: &str,
        partition: PartitionIndex,
    ) -> Result<(&Topic, &Partition), ControllerError> {
        let topic = self.image.topic(name).ok_or_else(|| ControllerError::UnknownTopic(name.to_owned()))?;
        let unknown = || ControllerError::UnknownPartition { topic: name.to_owned(), partition };
        Ok((topic, topic.partition(partition).ok_or_else(unknown)?))
    }

    /// Gives leaderships back to the brokers that are first in line for them, some at a time.
    pub(crate) fn balance_leaders(&self) -> Vec<MetadataRecord> {
        let electorate = self.electorate();
        let changes = electorate.revise_all(|topic, partition| {
            let preferred = partition.replicas.first()?;
            let is_meant = partition.leader != *preferred
                && electorate.can_lead(partition, *preferred)
                && partition.isr.contains(preferred);
            let revision = || Revision { election: Election::Preferred, ..Revision::of(topic.id, partition) };
            is_meant.then(revision)
        });
        changes.take(BALANCED_AT_ONCE_MAX).collect()
    }
}

fn elect(
    electorate: &Electorate<'_>,
    kind: ElectionKind,
    (topic, partition): (&Topic, &Partition),
    records: &mut Vec<MetadataRecord>,
) -> Result<(), ControllerError> {
    let (election, is_so, refusal) = match kind {
        ElectionKind::Preferred => (
            Election::Preferred,
            partition.replicas.first() == Some(&partition.leader),
            ControllerError::PreferredLeaderNotAvailable,
        ),
        // A leader that has stopped and keeps its place is asked for here to be passed over.
        ElectionKind::Unclean => (
            Election::Unclean,
            electorate.can_lead(partition, partition.leader),
            ControllerError::EligibleLeadersNotAvailable,
        ),
    };
    if is_so {
        return Err(ControllerError::ElectionNotNeeded);
    }
    let revision = Revision { election, ..Revision::of(topic.id, partition) };
    let change =
        electorate.settle(topic, revision).filter(|change| change.leader.is_some()).ok_or(refusal)?;
    records.push(MetadataRecord::PartitionChange(change));
    Ok(())
}
