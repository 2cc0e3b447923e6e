//! Who may lead, as it will be once the command at hand is carried out.

use std::cell::{Cell, OnceCell};

use base::{BrokerId, TopicId, Uuid};
use metadata::settings::{
    INSYNC_MIN, Layers, UNCLEAN_ELECTION, allows_unclean_election, insync_replicas_min,
};
use metadata::{Broker, ConfigMap, ConfigResource, Image, MetadataRecord, Partition, PartitionChange, Topic};

use crate::controller::Controller;
use crate::revision::{Election, IfNobody, Revision, Rules};

/// See the module.
pub(crate) struct Electorate<'a> {
    image: &'a Image,
    layers: Layers<'a>,
    /// A broker that changes, and what it will be; `None` if it leaves for good.
    changing: Option<(BrokerId, Option<Broker>)>,
    defaults: OnceCell<(usize, bool)>,
    /// The settings of the topic that was looked at last: its partitions come one after the other.
    last: Cell<Option<(TopicId, (usize, bool))>>,
}

impl Controller {
    /// The cluster as it is.
    pub(crate) fn electorate(&self) -> Electorate<'_> {
        Electorate {
            image: &self.image,
            layers: self.layers(),
            changing: None,
            defaults: OnceCell::new(),
            last: Cell::new(None),
        }
    }

    /// The cluster with this broker as it will be.
    pub(crate) fn electorate_with(&self, id: BrokerId, broker: Option<Broker>) -> Electorate<'_> {
        Electorate { changing: Some((id, broker)), ..self.electorate() }
    }
}

impl<'a> Electorate<'a> {
    fn broker(&self, id: BrokerId) -> Option<&Broker> {
        match &self.changing {
            Some((changing, broker)) if *changing == id => broker.as_ref(),
            _ => self.image.broker(id).map(|broker| &**broker),
        }
    }

    /// Whether a broker's replica of this partition can lead it, if it has all that is committed.
    pub(crate) fn can_lead(&self, partition: &Partition, id: BrokerId) -> bool {
        self.can_lead_from(id, partition.directory_of(id))
    }

    fn can_lead_from(&self, id: BrokerId, directory: Option<Uuid>) -> bool {
        self.broker(id).is_some_and(|broker| {
            let is_up = !broker.fenced && !broker.in_controlled_shutdown;
            is_up && directory.is_none_or(|directory| is_online(&broker.log_dirs, directory))
        })
    }

    /// How many have to be in sync of a topic: its `min.insync.replicas`.
    pub(crate) fn insync_min(&self, topic: &Topic) -> usize {
        self.settings_of(topic).0
    }

    /// Whether a topic would rather lose records than wait.
    pub(crate) fn allows_unclean(&self, topic: &Topic) -> bool {
        self.settings_of(topic).1
    }

    /// What a topic's settings say: `min.insync.replicas` and `unclean.leader.election.enable`.
    fn settings_of(&self, topic: &Topic) -> (usize, bool) {
        if let Some((id, settings)) = self.last.get()
            && id == topic.id
        {
            return settings;
        }
        let resource = ConfigResource::Topic(topic.name.clone());
        let own = self.image.configs(&resource);
        let defaults = *self.defaults.get_or_init(|| {
            let nothing = ConfigMap::new();
            (insync_replicas_min(&nothing, self.layers), allows_unclean_election(&nothing, self.layers))
        });
        let mut settings = defaults;
        if own.contains_key(INSYNC_MIN) {
            settings.0 = insync_replicas_min(own, self.layers);
        }
        if own.contains_key(UNCLEAN_ELECTION) {
            settings.1 = allows_unclean_election(own, self.layers);
        }
        self.last.set(Some((topic.id, settings)));
        settings
    }

    /// What follows from a revision, with an unclean election if the topic allows it and the leadership
    /// would end.
    pub(crate) fn settle(&self, topic: &Topic, mut revision: Revision<'_>) -> Option<PartitionChange> {
        let (insync_min, unclean) = self.settings_of(topic);
        let before = revision.before;
        let ends = revision.if_nobody == IfNobody::End || before.leader == BrokerId::NONE;
        if unclean && ends && revision.election == Election::Any {
            revision.election = Election::Unclean;
        }
        let assigned = revision.assigned;
        let can_lead = |id| match assigned {
            Some((of, directory)) if of == id => self.can_lead_from(id, Some(directory)),
            _ => self.can_lead(before, id),
        };
        revision.settle(&Rules { insync_min, can_lead })
    }

    /// What becomes of every partition that a revision is made for.
    pub(crate) fn revise_all<'b>(
        &'b self,
        revise: impl Fn(&'b Topic, &'b Partition) -> Option<Revision<'b>> + 'b,
    ) -> impl Iterator<Item = MetadataRecord> + 'b {
        let partitions = self
            .image
            .topics_by_id()
            .flat_map(|topic| topic.partitions().iter().map(move |it| (&**topic, &**it)));
        partitions
            .filter_map(move |(topic, partition)| self.settle(topic, revise(topic, partition)?))
            .map(MetadataRecord::PartitionChange)
    }

    /// Elects leaders for all that nobody leads who can, of this broker or of any.
    pub(crate) fn fill_vacancies(&self, of: Option<BrokerId>) -> Vec<MetadataRecord> {
        let vacant = self.revise_all(move |topic, partition| {
            if !of.is_none_or(|broker| partition.replicas.contains(&broker)) {
                return None;
            }
            let is_absent = |id: BrokerId| self.broker(id).is_none_or(|it| it.fenced);
            if partition.leader != BrokerId::NONE && !is_absent(partition.leader) {
                return None;
            }
            // Who has stopped and kept its place, for nobody could take it then, holds up nobody who can now.
            let absent = partition.isr.iter().copied().filter(|id| is_absent(*id));
            let absent = absent.chain([partition.leader]);
            // Where an unclean election is allowed, such a place holds up nobody at all; but who has registered again is
            // on its way, with everything.
            let has_stopped = self.broker(partition.leader).is_none_or(|it| it.in_controlled_shutdown);
            let is_given_up = has_stopped && self.allows_unclean(topic);
            let if_nobody = if is_given_up { IfNobody::End } else { IfNobody::Stay };
            let revision = Revision { if_nobody, ..Revision::of(topic.id, partition) };
            Some(absent.fold(revision, Revision::without))
        });
        vacant.collect()
    }
}

/// Whether a directory is among those that a broker can use, or not a directory's id at all: Kafka keeps
/// the first hundred numbers for "not assigned yet" and the like, of which only "lost" is none.
pub(crate) fn is_online(log_dirs: &[Uuid], directory: Uuid) -> bool {
    let number = u128::from_be_bytes(directory.0);
    if directory == Partition::DIRECTORY_LOST {
        return false;
    }
    log_dirs.is_empty() || (1..100).contains(&number) || log_dirs.contains(&directory)
}
