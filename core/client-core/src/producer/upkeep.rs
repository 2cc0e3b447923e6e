//! What is asked of the cluster by the way, and what ran out of time.

use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Effects, ErrorCode, Now, ProducerEpoch, ProducerId};
use wire::ApiKey;
use wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use wire::messages::metadata::MetadataResponse;

use super::topics::Wish;
use super::{Asked, BatchId, DeliveryError, Effect, Identity, Place, Producer};
use crate::inquiry::Inquiry;
use crate::links::{Asking, Peer};

/// How long a topic that the cluster refused is not asked for again.
const REFUSED_FOR: Duration = Duration::from_secs(1);

impl Producer {
    /// Asks for the topics' metadata if something is missing or old.
    pub(super) fn keep_cluster_known(&mut self, now: Now) {
        if self.awaited.is_due(now) {
            let names = self.topics.awaited().map(|topic| topic.name.clone()).collect();
            let asked = self.ask_cluster(names, Asked::Topics, now);
            if asked.is_some() {
                self.awaited.asked(asked, now);
                self.awaited.is_wanted = false;
                let awaited = self.topics.iter_mut().filter(|topic| topic.wish == Wish::Waits);
                awaited.for_each(|topic| topic.wish = Wish::Asked);
            }
        }
        if self.metadata.is_due(now) {
            for name in self.topics.let_idle_go(self.settings.metadata_idle_max, now) {
                self.cluster.forget(&name);
            }
            let names = self.topics.known().map(|topic| topic.name.clone()).collect();
            let asked = self.ask_cluster(names, Asked::Metadata, now);
            self.metadata.asked(asked, now);
        }
    }

    /// To whom the question is on its way.
    fn ask_cluster(&mut self, names: Vec<Arc<str>>, about: Asked, now: Now) -> Option<Peer> {
        let may_create = matches!(about, Asked::Topics);
        let in_vain = if may_create { self.awaited.in_vain(now) } else { self.metadata.in_vain(now) };
        let names = names.iter().map(|name| &**name);
        let sent = self.links.ask_about_topics(names, may_create, in_vain, (about, now), &mut self.net);
        sent.expect("topics have names that the protocol can say")
    }

    /// The answer about all topics that are known.
    pub(super) fn on_metadata(
        &mut self,
        said: &MetadataResponse<'_>,
        now: Now,
        effects: &mut Effects<Effect>,
    ) {
        self.learn_topics(said, now, effects);
        let brokers = self.cluster.brokers();
        // A leader that nobody says the address of is as good as none.
        let is_led = |leader: Option<BrokerId>| leader.is_some_and(|id| brokers.contains_key(&id));
        let mut partitions = self.topics.known().flat_map(|topic| &topic.partitions);
        if partitions.any(|part| !is_led(part.leader) && part.has_unsent()) {
            self.metadata.failed(&self.settings.retry, now, &mut self.chance);
        } else {
            self.metadata.answered(now, self.settings.metadata_age_max);
        }
    }

    /// The answer about topics that somebody waits for.
    pub(super) fn on_topics(&mut self, said: &MetadataResponse<'_>, now: Now, effects: &mut Effects<Effect>) {
        let mut is_incomplete = self.learn_topics(said, now, effects);
        for topic in self.topics.iter_mut().filter(|topic| topic.wish == Wish::Asked) {
            topic.wish = Wish::Nobody;
            if topic.count == 0 && topic.refused.is_none() {
                is_incomplete = true;
                topic
                    .trouble
                    .get_or_insert_with(|| (now.elapsed, "the cluster says no partition of it".into()));
            }
        }
        if is_incomplete {
            self.awaited.failed(&self.settings.retry, now, &mut self.chance);
        } else {
            self.awaited = Inquiry::default();
        }
        self.awaited.is_wanted = self.topics.awaited().next().is_some();
        self.metadata.keep_fresh(now, self.settings.metadata_age_max);
    }

    pub(super) fn on_topics_unanswered(&mut self, now: Now) {
        self.awaited.failed(&self.settings.retry, now, &mut self.chance);
        let asked = self.topics.iter_mut().filter(|topic| topic.wish == Wish::Asked);
        asked.for_each(|topic| topic.wish = Wish::Waits);
    }

    /// Takes over what the cluster says. Whether it knows nothing of a topic that batches wait for.
    fn learn_topics(&mut self, said: &MetadataResponse<'_>, now: Now, effects: &mut Effects<Effect>) -> bool {
        self.told_at = now.elapsed;
        let mut is_missing = false;
        for (name, code) in self.cluster.absorb(said) {
            let Some(number) = self.topics.find(&name) else { continue };
            let topic = self.topics.get_mut(number);
            topic.trouble = Some((now.elapsed, format!("the cluster says {} of it", code.name()).into()));
            if !code.is_retriable() {
                if topic.count == 0 {
                    topic.refused = Some((code, now.elapsed + REFUSED_FOR));
                }
            } else if topic.has_batches() {
                topic.wish = Wish::Waits;
                self.awaited.is_wanted = true;
                is_missing = true;
            } else if code == ErrorCode::UnknownTopicOrPartition {
                // It was deleted. It is made anew only if somebody writes to it.
                topic.rest();
                self.cluster.forget(&name);
            }
        }
        let epoch = self.identity.map_or(ProducerEpoch(0), |identity| identity.epoch);
        for topic in self.topics.iter_mut() {
            if let Some(known) = self.cluster.topic(&topic.name) {
                // Of one that it cannot tell of now, what it said before is known still.
                let trouble = topic.trouble.take().filter(|&(at, _)| at == now.elapsed);
                topic.learn(known, epoch);
                topic.trouble = trouble;
            }
        }
        self.learn_brokers();
        self.let_try_again(effects);
        is_missing
    }

    /// Takes over where the brokers are.
    pub(super) fn learn_brokers(&mut self) {
        let closed = self.links.set_brokers(self.cluster.brokers(), &mut self.net);
        self.moved.extend(closed.into_iter().flat_map(|(_, unanswered)| unanswered));
    }

    /// Asks for the id that the brokers are to know this producer by.
    pub(super) fn keep_identity(&mut self, now: Now) {
        if !self.settings.idempotence || self.identity.is_some() || self.failed.is_some() {
            return;
        }
        self.identity_inquiry.is_wanted = true;
        if !self.identity_inquiry.is_due(now) {
            return;
        }
        let in_vain = self.identity_inquiry.in_vain(now);
        let Some(peer) = self.links.want_any(in_vain, now, &mut self.net) else { return };
        let Ok(version) = self.links.version(peer, ApiKey::InitProducerId) else {
            self.failed = Some(ErrorCode::UnsupportedVersion);
            return;
        };
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: i32::MAX,
            producer_id: ProducerId::NONE.0,
            producer_epoch: ProducerEpoch::NONE.0,
            ..InitProducerIdRequest::default()
        };
        let asking = Asking { version, about: Asked::ProducerId, fills: Vec::new(), is_answered: true };
        let sent = self.links.send((peer, now), &request, asking, &mut self.net);
        sent.expect("it says nothing that depends on anybody");
        self.identity_inquiry.asked(Some(peer), now);
    }

    pub(super) fn on_producer_id_unanswered(&mut self, now: Now) {
        if self.identity.is_none() {
            self.identity_inquiry.failed(&self.settings.retry, now, &mut self.chance);
        }
    }

    pub(super) fn on_producer_id(&mut self, said: &InitProducerIdResponse, now: Now) {
        // Somebody else was asked meanwhile, and what was sent since bears the id that he gave.
        if self.identity.is_some() {
            return;
        }
        let code = ErrorCode::from_i16(said.error_code).unwrap_or(ErrorCode::UnknownServerError);
        match code {
            ErrorCode::None => {
                self.identity_inquiry = Inquiry::default();
                let identity =
                    Identity { id: ProducerId(said.producer_id), epoch: ProducerEpoch(said.producer_epoch) };
                self.identity = Some(identity);
                for place in self.topics.places() {
                    self.topics.partition(place).epoch = identity.epoch;
                }
            }
            // Whatever befell a broker that cannot say it may be over the next time.
            code if code.is_retriable()
                || matches!(code, ErrorCode::ConcurrentTransactions | ErrorCode::UnknownServerError) =>
            {
                self.on_producer_id_unanswered(now);
            }
            code => self.failed = Some(code),
        }
    }

    /// Gives up batches that were not acknowledged in time.
    pub(super) fn expire(&mut self, now: Now, effects: &mut Effects<Effect>) {
        if let Some(code) = self.failed {
            self.give_up_all(code, effects);
        }
        while let Some(&(created, place, id)) = self.by_age.front() {
            if self.slots.is_live(id) {
                if now.elapsed < created + self.settings.delivery_timeout {
                    break;
                }
                // Each part of it, if it was split.
                while self.slots.is_live(id) {
                    self.expire_batch((created, place, id), effects);
                }
            }
            self.by_age.pop_front();
        }
        // One that nobody takes must not keep a list of all that came after it and are done.
        if self.by_age.len() > 64 + 4 * self.outstanding() {
            self.by_age.retain(|&(_, _, id)| self.slots.is_live(id));
        }
    }

    /// What last was in the way of a partition's records, since then.
    fn trouble(&self, place: Place, since: Duration) -> Option<Arc<str>> {
        let topic = self.topics.get(place.topic);
        let leader = topic.partitions[place.partition as usize].leader.map(Peer::Broker);
        // Without a leader or an id of the producer's, any broker could have helped.
        let is_named = self.identity.is_some() || !self.settings.idempotence;
        let with = leader.filter(|&leader| is_named && self.links.knows(leader));
        let of_topic = topic.trouble.clone().filter(|&(at, _)| at >= since);
        let all = [self.links.trouble(with, since), of_topic].into_iter().flatten();
        all.max_by_key(|&(at, _)| at).map(|(_, why)| why)
    }

    fn expire_batch(
        &mut self,
        (created, place, id): (Duration, Place, BatchId),
        effects: &mut Effects<Effect>,
    ) {
        let partition = self.topics.partition(place);
        if partition.open.as_ref().is_some_and(|open| open.id == id) {
            partition.close_open();
        }
        let (batch, may_be_written) = match partition.take_in_flight(id) {
            Some(batch) => (Some(batch), true),
            None => {
                let index = partition.waiting.iter().position(|waiting| waiting.id == id);
                let batch = index.and_then(|index| partition.waiting.remove(index));
                let is_in_doubt = batch.as_ref().is_some_and(|batch| batch.is_in_doubt);
                (batch, is_in_doubt)
            }
        };
        let batch = batch.expect("a live batch is somewhere in its partition");
        let trouble = self.trouble(place, created);
        let error = DeliveryError::TimedOut { last: batch.last_error, trouble, may_be_written };
        self.done(batch, Err(error), effects);
    }

    /// Nothing can be written any more.
    fn give_up_all(&mut self, code: ErrorCode, effects: &mut Effects<Effect>) {
        for place in self.topics.places() {
            let partition = self.topics.partition(place);
            partition.close_open();
            for batch in std::mem::take(&mut partition.waiting) {
                let may_be_written = batch.is_in_doubt;
                self.done(batch, Err(DeliveryError::Failed { code, may_be_written }), effects);
            }
        }
        self.let_try_again(effects);
    }
}
