//! What a member has to know of topics: which fit its pattern, what an id is called, and how many partitions
//! there are if it assigns them.

use std::collections::{BTreeMap, BTreeSet};

use base::{ErrorCode, Now, TopicName, Uuid};
use wire::ApiKey;
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};

use super::{Asked, Life, Membership, Subscription};
use crate::inquiry::Inquiry;
use crate::links::Asking;

/// From here on a topic is asked for by its id.
const VERSION_BY_ID_MIN: i16 = 12;

/// What is known.
#[derive(Debug, Default)]
pub(super) struct Topics {
    pub(super) inquiry: Inquiry,
    /// What fits the pattern, once the cluster has said which topics there are.
    pub(super) matching: Option<BTreeSet<TopicName>>,
    pub(super) names: BTreeMap<Uuid, TopicName>,
    /// Counts subscriptions.
    pub(super) subscription_number: u32,
    /// What the cluster said when it was asked for the coordinator.
    pub(super) coordinator_code: ErrorCode,
}

impl Topics {
    pub(super) fn subscribed_anew(&mut self) {
        self.subscription_number = self.subscription_number.wrapping_add(1);
        self.matching = None;
        self.inquiry.is_wanted = true;
    }
}

/// Which topics are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Need {
    Nothing,
    All,
    Names(BTreeSet<TopicName>),
    Ids(BTreeSet<Uuid>),
}

impl Need {
    /// Whether the answer says of all of these whether they are there.
    pub(super) fn covers(&self, topics: &BTreeSet<TopicName>) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => topics.is_subset(names),
            Self::Nothing | Self::Ids(_) => topics.is_empty(),
        }
    }
}

impl Membership {
    fn need(&self) -> Need {
        let is_pattern = matches!(self.subscription, Some(Subscription::Pattern(_)));
        match &self.life {
            Life::Classic(_) if is_pattern => Need::All,
            Life::Classic(classic) => match classic.led_topics() {
                Some(names) => Need::Names(names),
                None => Need::Nothing,
            },
            Life::Epochs(epochs) if is_pattern && !epochs.says_patterns() => Need::All,
            Life::Epochs(epochs) if !epochs.unresolved.is_empty() => Need::Ids(epochs.unresolved.clone()),
            Life::Epochs(_) | Life::Out | Life::Arriving | Life::Resting | Life::Failed => Need::Nothing,
        }
    }

    pub(super) fn keep_topics_known(&mut self, now: Now) {
        if !self.topics.inquiry.is_due(now) {
            return;
        }
        let need = self.need();
        if need == Need::Nothing {
            // Nobody is to be woken for it.
            self.topics.inquiry = Inquiry::default();
            return;
        }
        let Some(peer) = self.links.want_any(self.topics.inquiry.in_vain(now), now, &mut self.net) else {
            return;
        };
        let version = self.links.version(peer, ApiKey::Metadata).unwrap_or(-1);
        let of = |topic_id, name| MetadataRequestTopic { topic_id, name };
        let topics = match &need {
            Need::Nothing | Need::All => None,
            Need::Names(names) => {
                Some(names.iter().map(|name| of(Uuid::ZERO, Some(name.as_str()))).collect())
            }
            Need::Ids(ids) => Some(ids.iter().map(|&id| of(id, None)).collect()),
        };
        // Whoever reads a topic that is not there is to hear so, not to make it.
        let request =
            MetadataRequest { topics, allow_auto_topic_creation: false, ..MetadataRequest::default() };
        let is_sayable = version >= VERSION_BY_ID_MIN || !matches!(need, Need::Ids(_));
        let asking =
            Asking { version, about: Asked::Metadata(need.clone()), fills: Vec::new(), is_answered: true };
        if is_sayable && self.links.send((peer, now), &request, asking, &mut self.net).is_ok() {
            self.topics.inquiry.asked(Some(peer), now);
        } else {
            self.topics.inquiry.failed(&self.settings.retry, now, &mut self.chance);
        }
    }

    pub(super) fn on_metadata(&mut self, need: &Need, said: &MetadataResponse<'_>, now: Now) {
        let refused = self.cluster.absorb(said);
        for (name, code) in &refused {
            if *code == ErrorCode::UnknownTopicOrPartition {
                self.cluster.forget(name);
            }
        }
        for topic in &said.topics {
            let name = topic.name.and_then(|name| TopicName::new(name).ok());
            if let Some(name) = name.filter(|_| topic.error_code == 0 && !Uuid::is_zero(topic.topic_id)) {
                self.topics.names.insert(topic.topic_id, name);
            }
        }
        if *need == Need::All {
            self.match_topics(said);
        }
        let mut is_incomplete = refused.iter().any(|(_, code)| code.is_retriable());
        if let Life::Classic(classic) = &mut self.life {
            classic.on_topics(&self.cluster, need);
        }
        if matches!(self.life, Life::Epochs(_)) {
            is_incomplete |= self.resolve_target();
        }
        if is_incomplete {
            self.topics.inquiry.failed(&self.settings.retry, now, &mut self.chance);
        } else {
            self.topics.inquiry.answered(now, self.settings.metadata_age_max);
        }
        self.learn_brokers();
    }

    /// Finds what fits the pattern among all topics there are.
    fn match_topics(&mut self, said: &MetadataResponse<'_>) {
        let Some(Subscription::Pattern(pattern)) = &self.subscription else { return };
        let theirs = said.topics.iter().filter(|topic| !topic.is_internal && topic.error_code == 0);
        let names = theirs.filter_map(|topic| topic.name).filter(|name| pattern.is_match(name));
        let matching: BTreeSet<TopicName> = names.filter_map(|name| TopicName::new(name).ok()).collect();
        let is_news = self.topics.matching.as_ref().is_some_and(|known| *known != matching);
        self.topics.matching = Some(matching);
        if is_news {
            self.topics.subscription_number = self.topics.subscription_number.wrapping_add(1);
            if let Life::Classic(classic) = &mut self.life {
                classic.wants_rejoin = true;
            }
        }
    }
}
