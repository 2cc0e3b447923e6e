//! Topics, deleted.

use std::collections::BTreeSet;

use base::TopicId;
use metadata::MetadataRecord;

use crate::command::{DeleteTopics, Outcomes, TopicDeleted, TopicKey};
use crate::controller::Controller;
use crate::error::ControllerError;

impl Controller {
    pub(crate) fn delete_topics(
        &self,
        command: &DeleteTopics,
    ) -> (Outcomes<TopicDeleted>, Vec<MetadataRecord>) {
        let twice = self.asked_twice(command);
        let mut records = Vec::new();
        let outcomes = command.topics.iter().map(|key| {
            if !self.settings.delete_topics {
                return Err(ControllerError::DeletionDisabled);
            }
            let topic = self.find(key)?;
            if twice.contains(&topic.id) {
                let what = match key {
                    TopicKey::Name(_) => "Duplicate topic name.",
                    TopicKey::Id(_) => "Duplicate topic id.",
                };
                return Err(ControllerError::InvalidRequest(what.into()));
            }
            records.push(MetadataRecord::RemoveTopic(topic.id));
            Ok(topic)
        });
        let outcomes = outcomes.collect();
        (outcomes, records)
    }

    fn find(&self, key: &TopicKey) -> Result<TopicDeleted, ControllerError> {
        let topic = match key {
            TopicKey::Name(name) => {
                self.image.topic(name).ok_or_else(|| ControllerError::UnknownTopic(name.clone()))?
            }
            TopicKey::Id(id) => self.image.topic_by_id(*id).ok_or(ControllerError::UnknownTopicId(*id))?,
        };
        Ok(TopicDeleted { name: topic.name.clone(), id: topic.id })
    }

    /// The topics that are named more than once, by name or by id.
    fn asked_twice(&self, command: &DeleteTopics) -> BTreeSet<TopicId> {
        let mut seen = BTreeSet::new();
        let asked = command.topics.iter().filter_map(|key| self.find(key).ok());
        asked.filter(|topic| !seen.insert(topic.id)).map(|topic| topic.id).collect()
    }
}
