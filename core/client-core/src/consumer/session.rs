//! What a broker was told of the partitions that are read from it (KIP-227).

use std::collections::BTreeMap;

use base::{LeaderEpoch, Offset, TopicName, TopicPartition, Uuid};

/// What is said of a partition in a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// Its topic's id; the zero id if it is not known.
    pub(super) topic_id: Uuid,
    pub(super) offset: Offset,
    pub(super) last_epoch: LeaderEpoch,
    pub(super) leader_epoch: LeaderEpoch,
    /// Who asked: an answer to an earlier assignment or seek is dropped.
    pub(super) generation: u32,
}

/// The session with one broker, from its first fetch to the end of its connection.
#[derive(Debug, Default)]
pub(super) struct Session {
    id: i32,
    epoch: i32,
    /// Whether it names topics by their ids. A broker does not let a session change between the two.
    has_ids: bool,
    /// How often all was said.
    turn: usize,
    /// Whether a fetch is on its way.
    pub(super) is_asked: bool,
    told: BTreeMap<TopicPartition, Told>,
    /// The topics of what was told, by the ids that the broker answers with. The cluster may know a topic
    /// by another id already: it was deleted and created anew.
    names: BTreeMap<Uuid, TopicName>,
}

/// What a fetch says.
#[derive(Debug)]
pub(super) struct Saying {
    pub(super) id: i32,
    pub(super) epoch: i32,
    /// Whether topics are named by their ids.
    pub(super) has_ids: bool,
    /// Partitions of a topic behind each other.
    pub(super) changed: Vec<(TopicPartition, Told)>,
    /// With the topic's id that the broker was told.
    pub(super) forgotten: Vec<(TopicPartition, Uuid)>,
}

impl Session {
    /// What to say so that the broker knows all that is wanted; it is taken for said. `knows_ids` is
    /// whether the broker is young enough for topic ids.
    pub(super) fn say(&mut self, wanted: Vec<(TopicPartition, Told)>, knows_ids: bool) -> Saying {
        let has_ids = knows_ids && wanted.iter().all(|(_, told)| !told.topic_id.is_zero());
        if self.has_ids && !has_ids {
            self.begin_anew();
        }
        let is_new = self.id == 0;
        if is_new {
            self.has_ids = has_ids;
        }
        let known = std::mem::take(&mut self.told);
        self.told = wanted.into_iter().collect();
        let (changed, forgotten) = match is_new {
            true => (self.all(), Vec::new()),
            false => (self.changed(&known), self.forgotten(known)),
        };
        self.names = self.told.iter().map(|(of, told)| (told.topic_id, of.topic.clone())).collect();
        self.is_asked = true;
        Saying { id: self.id, epoch: self.epoch, has_ids: self.has_ids, changed, forgotten }
    }

    /// All that is told, from another place each time: a broker that keeps no session answers in the order of
    /// the request, and what stands first would leave no room for what stands last.
    fn all(&mut self) -> Vec<(TopicPartition, Told)> {
        let mut all: Vec<_> = self.told.iter().map(|(of, told)| (of.clone(), *told)).collect();
        let first = self.turn % all.len().max(1);
        all.rotate_left(first);
        self.turn = self.turn.wrapping_add(1);
        all
    }

    fn changed(&self, known: &BTreeMap<TopicPartition, Told>) -> Vec<(TopicPartition, Told)> {
        let is_same = |(of, told): &(&TopicPartition, &Told)| {
            known.get(of).is_some_and(|known| self.is_same(known, told))
        };
        let changed = self.told.iter().filter(|told| !is_same(told));
        changed.map(|(of, told)| (of.clone(), *told)).collect()
    }

    /// What is not wanted any more, or is another partition of the same name by now.
    fn forgotten(&self, known: BTreeMap<TopicPartition, Told>) -> Vec<(TopicPartition, Uuid)> {
        let is_kept = |of: &TopicPartition, known: &Told| {
            self.told.get(of).is_some_and(|told| !self.has_ids || told.topic_id == known.topic_id)
        };
        let gone = known.into_iter().filter(|(of, known)| !is_kept(of, known));
        gone.map(|(of, known)| (of, known.topic_id)).collect()
    }

    /// Whether two things to be told say the same to a broker.
    fn is_same(&self, one: &Told, other: &Told) -> bool {
        let said = |told: &Told| (told.offset, told.last_epoch, told.leader_epoch);
        said(one) == said(other) && (!self.has_ids || one.topic_id == other.topic_id)
    }

    /// What the broker was told to send.
    pub(super) fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.told.keys()
    }

    /// What a partition's answer is to.
    pub(super) fn told(&self, of: &TopicPartition) -> Option<Told> {
        self.told.get(of).copied()
    }

    /// The topic that the broker was told by this id.
    pub(super) fn name_of(&self, id: Uuid) -> Option<&TopicName> {
        self.names.get(&id).filter(|_| self.has_ids)
    }

    /// The answer came, and names the session.
    pub(super) fn answered(&mut self, id: i32) {
        self.is_asked = false;
        if id == 0 {
            // The broker keeps none: everything is said each time.
            (self.id, self.epoch) = (0, 0);
            return;
        }
        self.id = id;
        self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 };
    }

    /// Whether a broker made it.
    pub(super) const fn is_made(&self) -> bool {
        self.id != 0
    }

    /// The broker does not know the session any more, or knows another than is meant.
    pub(super) fn begin_anew(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use base::PartitionIndex;

    use super::*;

    const OLD: Uuid = Uuid([7; 16]);
    const NEW: Uuid = Uuid([8; 16]);

    fn of(topic: &str) -> TopicPartition {
        TopicPartition { topic: TopicName::new(topic).expect("legal"), partition: PartitionIndex(0) }
    }

    fn told(topic: &str, topic_id: Uuid) -> (TopicPartition, Told) {
        let none = LeaderEpoch::NONE;
        let told = Told { topic_id, offset: Offset(5), last_epoch: none, leader_epoch: none, generation: 1 };
        (of(topic), told)
    }

    #[test]
    fn what_is_said_already_is_not_said_again() {
        let mut session = Session::default();
        assert_eq!(session.say(vec![told("a", OLD)], true).changed, [told("a", OLD)]);
        session.answered(3);
        let saying = session.say(vec![told("a", OLD)], true);
        assert_eq!((saying.id, saying.epoch), (3, 1));
        assert!(saying.changed.is_empty() && saying.forgotten.is_empty());
    }

    #[test]
    fn without_a_session_each_partition_is_first_in_turn() {
        let mut session = Session::default();
        let mut first = || {
            let saying = session.say(vec![told("a", OLD), told("b", NEW)], true);
            session.answered(0);
            assert_eq!((saying.id, saying.epoch, saying.changed.len()), (0, 0, 2));
            saying.changed[0].0.topic.to_string()
        };
        assert_eq!([first(), first(), first()], ["a", "b", "a"]);
    }

    #[test]
    fn a_topic_that_was_created_anew_is_another() {
        let mut session = Session::default();
        session.say(vec![told("a", OLD)], true);
        session.answered(3);
        // Until the broker is told otherwise, it answers of the old one.
        assert_eq!(session.name_of(OLD).map(TopicName::as_str), Some("a"));
        let saying = session.say(vec![told("a", NEW)], true);
        assert_eq!(saying.changed, [told("a", NEW)]);
        assert_eq!(saying.forgotten, [(of("a"), OLD)]);
        assert_eq!(session.name_of(OLD), None);
        assert_eq!(session.name_of(NEW).map(TopicName::as_str), Some("a"));
    }

    #[test]
    fn a_session_by_name_stays_one() {
        let mut session = Session::default();
        assert!(!session.say(vec![told("a", Uuid::ZERO), told("b", NEW)], true).has_ids);
        session.answered(3);
        assert!(!session.say(vec![told("b", NEW)], true).has_ids);
        session.answered(3);
        assert!(!session.say(Vec::new(), true).has_ids, "though it names nothing");
    }

    #[test]
    fn a_session_by_ids_ends_with_a_topic_that_has_none() {
        let mut session = Session::default();
        assert!(!session.say(vec![told("b", NEW)], false).has_ids, "the broker is too old");
        session.begin_anew();
        assert!(session.say(vec![told("b", NEW)], true).has_ids);
        session.answered(3);
        let saying = session.say(vec![told("a", Uuid::ZERO), told("b", NEW)], true);
        assert_eq!((saying.id, saying.epoch, saying.has_ids, saying.changed.len()), (0, 0, false, 2));
    }
}
