//! What is asked of the brokers, and what they send.

use std::sync::Arc;

use base::{
    BrokerId, Effects, ErrorCode, LeaderEpoch, Now, Offset, PartitionIndex, TopicName, TopicPartition, Uuid,
};
use records::{BatchError, BatchHeader};
use wire::messages::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, PartitionData,
};
use wire::messages::list_offsets::ListOffsetsResponse;
use wire::messages::metadata::MetadataResponse;
use wire::{ApiKey, Records};

use super::chunk::{Chunk, Parts};
use super::position::Position;
use super::session::{Saying, Told};
use super::{Asked, ConsumeError, Consumer, Effect, Isolation};
use crate::cluster::Leader;
use crate::link::{Answer, Waits};
use crate::links::{Asking, ConnectionId, Peer};

/// The last version that names topics by name.
const VERSION_BY_NAME_MAX: i16 = 12;
/// The first one that says the epoch of what was read last (KIP-595).
const VERSION_WITH_EPOCH_MIN: i16 = 12;

type Out<'a> = (Now, &'a mut Effects<Effect>);

impl Consumer {
    /// Sends each broker a fetch, unless one is on its way or too much is unread.
    pub(super) fn fetch_all(&mut self, now: Now, effects: &mut Effects<Effect>) {
        if self.unread_bytes >= self.settings.prefetch_bytes_max {
            return;
        }
        let is_wanted = |part: &super::Part| !part.is_paused && part.position.known().is_some();
        let ready = self.ready(now, is_wanted, |part| part.source(now));
        for (broker, parts) in ready {
            let peer = Peer::Broker(broker);
            self.metadata.is_wanted |= !self.links.knows(peer);
            let session = self.sessions.entry(broker).or_default();
            if session.is_asked || !self.links.want(peer, now, &mut self.net) {
                continue;
            }
            let Ok(version) = self.links.version(peer, ApiKey::Fetch) else {
                self.refuse(&parts, ErrorCode::UnsupportedVersion, effects);
                continue;
            };
            let told = parts.into_iter().filter_map(|of| {
                let topic_id = self.cluster.topic(of.topic.as_str()).map(|topic| topic.id.0);
                let is_by_id = version > VERSION_BY_NAME_MAX;
                let mut told = self.parts.get_mut(&of)?.told(topic_id.unwrap_or(Uuid::ZERO), is_by_id)?;
                if version < VERSION_WITH_EPOCH_MIN {
                    told.last_epoch = LeaderEpoch::NONE;
                }
                Some((of, told))
            });
            let saying = session.say(told.collect(), version > VERSION_BY_NAME_MAX);
            let version = if saying.has_ids { version } else { version.min(VERSION_BY_NAME_MAX) };
            self.send_fetch(broker, &saying, version, now);
        }
    }

    fn send_fetch(&mut self, broker: BrokerId, saying: &Saying, version: i16, now: Now) {
        let mut topics: Vec<FetchTopic<'_>> = Vec::new();
        for (of, told) in &saying.changed {
            let topic_id = told.topic_id;
            if topics
                .last()
                .is_none_or(|topic| (topic.topic, topic.topic_id) != (of.topic.as_str(), topic_id))
            {
                topics.push(FetchTopic { topic: of.topic.as_str(), topic_id, partitions: Vec::new() });
            }
            topics.last_mut().expect("one was pushed").partitions.push(FetchPartition {
                partition: of.partition.0,
                current_leader_epoch: told.leader_epoch.0,
                fetch_offset: told.offset.0,
                last_fetched_epoch: told.last_epoch.0,
                partition_max_bytes: self.settings.partition_bytes_max,
                ..FetchPartition::default()
            });
        }
        let mut forgotten: Vec<ForgottenTopic<'_>> = Vec::new();
        for &(ref of, topic_id) in &saying.forgotten {
            if forgotten
                .last()
                .is_none_or(|topic| (topic.topic, topic.topic_id) != (of.topic.as_str(), topic_id))
            {
                forgotten.push(ForgottenTopic { topic: of.topic.as_str(), topic_id, partitions: Vec::new() });
            }
            forgotten.last_mut().expect("one was pushed").partitions.push(of.partition.0);
        }
        let stays =
            |of: &TopicPartition| self.parts.get(of).is_some_and(|part| part.stays_until > now.elapsed);
        let stays = self.is_any_told(broker, stays);
        let request = FetchRequest {
            replica_id: -1,
            max_wait_ms: i32::try_from(self.settings.fetch_wait_max.as_millis()).unwrap_or(i32::MAX),
            min_bytes: self.settings.fetch_bytes_min,
            max_bytes: self.settings.fetch_bytes_max,
            isolation_level: self.settings.isolation.code(),
            session_id: saying.id,
            session_epoch: saying.epoch,
            topics,
            forgotten_topics_data: forgotten,
            rack_id: self.settings.rack.as_deref().filter(|_| !stays).unwrap_or_default(),
            ..FetchRequest::default()
        };
        let asking = Asking { version, about: Asked::Fetch, fills: Vec::new(), is_answered: true };
        // With too little to send, it takes as long.
        let from = now.elapsed + self.settings.fetch_wait_max;
        let waits = Waits { from, until: now.elapsed + self.settings.links.request_timeout };
        let sent = self.links.send_patiently((Peer::Broker(broker), waits), &request, asking, &mut self.net);
        sent.expect("a request of names that the cluster said can be written");
    }

    pub(super) fn on_answer(
        &mut self,
        (connection, peer): (ConnectionId, Peer),
        answer: Answer<'_, Asked>,
        frame: &Arc<Vec<u8>>,
        (now, effects): Out<'_>,
    ) {
        let unreadable = match answer.about {
            Asked::Metadata => match answer.read::<MetadataResponse<'_>>() {
                (_, Ok(said)) => {
                    self.links.throttle(peer, now, said.throttle_time_ms);
                    return self.on_metadata(&said, (now, effects));
                }
                (about, Err(_)) => about,
            },
            Asked::Offsets(_) => match answer.read::<ListOffsetsResponse<'_>>() {
                (Asked::Offsets(parts), Ok(said)) => {
                    self.links.throttle(peer, now, said.throttle_time_ms);
                    return self.on_offsets(parts, &said, (now, effects));
                }
                (about, _) => about,
            },
            Asked::Fetch => match answer.read::<FetchResponse<'_>>() {
                (_, Ok(said)) => return self.on_fetched(peer, &said, frame, (now, effects)),
                (about, Err(_)) => about,
            },
        };
        // A broker whose answers make no sense is not asked on.
        self.on_unanswered(Some(peer), vec![unreadable], now);
        self.close_connection(connection, now);
    }

    fn on_fetched(
        &mut self,
        peer: Peer,
        said: &FetchResponse<'_>,
        frame: &Arc<Vec<u8>>,
        (now, effects): Out<'_>,
    ) {
        let Peer::Broker(broker) = peer else { return };
        self.links.throttle(peer, now, said.throttle_time_ms);
        let Some(session) = self.sessions.get_mut(&broker) else { return };
        let code = ErrorCode::from_i16(said.error_code).unwrap_or(ErrorCode::UnknownServerError);
        if !code.is_none() {
            // Who did not make it cannot have forgotten it.
            let is_about_session = session.is_made()
                && matches!(code, ErrorCode::FetchSessionIdNotFound | ErrorCode::InvalidFetchSessionEpoch);
            session.begin_anew();
            if !is_about_session {
                self.links.mute(peer, now.elapsed + self.settings.retry.first);
            }
            self.metadata.is_wanted |= code == ErrorCode::FetchSessionTopicIdError;
            return;
        }
        session.answered(said.session_id);
        let mut is_strange = false;
        for topic in &said.responses {
            let session = self.sessions.get(&broker);
            let name = match topic.topic {
                "" => session.and_then(|session| session.name_of(topic.topic_id)).cloned(),
                name => TopicName::new(name).ok(),
            };
            let Some(name) = name else {
                is_strange = true;
                continue;
            };
            for part in &topic.partitions {
                let of =
                    TopicPartition { topic: name.clone(), partition: PartitionIndex(part.partition_index) };
                let told = self.sessions.get(&broker).and_then(|session| session.told(&of));
                if let Some(told) = told {
                    self.on_part(&of, (broker, told), (part, said), frame, (now, effects));
                }
            }
        }
        if is_strange {
            self.on_strange_topic(broker, now);
        }
    }

    /// The broker answers about a topic that it was not told of: it is told everything anew, after a while,
    /// so that one that goes on like this is not asked as fast as it answers.
    fn on_strange_topic(&mut self, broker: BrokerId, now: Now) {
        self.metadata.is_wanted = true;
        self.sessions.entry(broker).or_default().begin_anew();
        self.links.mute(Peer::Broker(broker), now.elapsed + self.settings.retry.first);
    }

    fn on_part(
        &mut self,
        of: &TopicPartition,
        (broker, told): (BrokerId, Told),
        (part, said): (&PartitionData<'_>, &FetchResponse<'_>),
        frame: &Arc<Vec<u8>>,
        (now, effects): Out<'_>,
    ) {
        // What came for a partition that was paused meanwhile is asked for again. Two brokers may be asked
        // for the same when the leader moves: only what begins where the partition is read on counts, and
        // what the other says of the offset, error or not, is of the past. So is what is said of a topic
        // that was made anew meanwhile: its epochs would be taken for those of the new one.
        let is_wanted = |state: &&mut super::Part| {
            state.generation == told.generation
                && state.topic_id == told.topic_id
                && !state.is_paused
                && !state.is_failed
                && state.position.known() == Some(told.offset)
        };
        let Some(state) = self.parts.get_mut(of).filter(is_wanted) else { return };
        let code = ErrorCode::from_i16(part.error_code).unwrap_or(ErrorCode::UnknownServerError);
        let is_diverging = part.diverging_epoch.end_offset >= 0;
        if !code.is_none() || is_diverging {
            // A replica nearby may only be behind, and whoever led before, too: what is so, the leader says, and one
            // that leads by now only what it is asked as the leader.
            if state.is_nearby(broker) {
                state.leave_nearby(now.elapsed + self.settings.retry.max);
                return self.try_again(of, told.generation, now);
            }
            let leads = state.leader.is_none_or(|leader| leader == broker);
            if !leads || told.leader_epoch < state.leader_epoch {
                return;
            }
        }
        if code.is_none() && part.preferred_read_replica >= 0 {
            return self.on_sent_away(of, (broker, told), BrokerId(part.preferred_read_replica), now);
        }
        if code.is_none() && is_diverging {
            // An older epoch may reach further than what was read; what was read is not of it.
            let at = Offset(part.diverging_epoch.end_offset).min(told.offset);
            effects.push(state.fail(of, ConsumeError::Truncated { at, position: told.offset }));
            return;
        }
        match code {
            ErrorCode::None => {
                state.doubted_at = None;
                if self.on_records(of, told, part, frame, effects) {
                    // It would come again as fast as it is asked for.
                    return self.try_again(of, told.generation, now);
                }
                if let Some(state) = self.parts.get_mut(of) {
                    state.failures = 0;
                }
            }
            ErrorCode::OffsetOutOfRange => self.on_out_of_range(of, told, (now, effects)),
            // Also what nobody knows the meaning of: whatever befell the broker may be over the next time.
            code if code.is_retriable() || code == ErrorCode::UnknownServerError => {
                self.on_moved(of, told, (part, said), now);
            }
            code => effects.push(state.fail(of, ConsumeError::Refused(code))),
        }
    }

    /// The broker sends the reader to a replica nearby, and so sends no records (KIP-392).
    fn on_sent_away(&mut self, of: &TopicPartition, (by, told): (BrokerId, Told), to: BrokerId, now: Now) {
        let is_known = self.cluster.brokers().contains_key(&to);
        let until = now.elapsed + self.settings.metadata_age_max;
        match self.parts.get_mut(of) {
            Some(state) if is_known && to != by && state.stays_until <= now.elapsed => {
                state.nearby = Some((to, until));
            }
            // Where nobody can go, or to itself, or where nothing came from: it is asked again, but not as fast as it
            // answers. A leader that goes by something else than the rack gives nothing itself, however long that is.
            other => {
                let soon = now.elapsed + self.settings.retry.max;
                other.into_iter().for_each(|state| state.stays_until = state.stays_until.min(soon));
                self.metadata.is_wanted |= !is_known;
                self.try_again(of, told.generation, now);
            }
        }
    }

    /// The position is not in the log. A leader that was away, and does not know yet that it is none any more, has
    /// fewer records than its successor, and says so, too: it is believed once the cluster has said anew who leads.
    fn on_out_of_range(&mut self, of: &TopicPartition, told: Told, (now, effects): Out<'_>) {
        let Some(state) = self.parts.get_mut(of) else { return };
        let doubted_at = *state.doubted_at.get_or_insert(now.elapsed);
        if self.told_at <= doubted_at {
            self.metadata.is_wanted = true;
            return self.try_again(of, told.generation, now);
        }
        state.doubted_at = None;
        if !state.reset(self.settings.reset) {
            effects.push(state.fail(of, ConsumeError::OutOfRange(told.offset)));
        }
    }

    /// The broker does not lead the partition any more, or not yet, or is unwell.
    fn on_moved(
        &mut self,
        of: &TopicPartition,
        told: Told,
        (part, said): (&PartitionData<'_>, &FetchResponse<'_>),
        now: Now,
    ) {
        if self.parts.get(of).is_some_and(|state| told.leader_epoch < state.leader_epoch) {
            // Of a leader before the one that is known by now.
            return;
        }
        let hint = &part.current_leader;
        let broker = Some(BrokerId(hint.leader_id)).filter(|id| id.0 >= 0);
        let leader = Leader { broker, epoch: LeaderEpoch(hint.leader_epoch) };
        let nodes = said.node_endpoints.iter().map(|node| (node.node_id, node.host, node.port));
        let is_news = self.cluster.absorb_hint(of.topic.as_str(), of.partition, leader, nodes);
        self.try_again(of, told.generation, now);
        if !is_news {
            self.metadata.is_wanted = true;
            return;
        }
        self.learn_brokers();
        let Some(state) = self.parts.get_mut(of) else { return };
        state.lead(leader);
        // A leader that was just named is asked at once, but not if brokers send us back and forth.
        if state.failures == 1 {
            state.retry_at = now.elapsed;
        }
    }

    /// Whether there was something, and nothing to go on with: half a batch, or only what was read.
    fn on_records(
        &mut self,
        of: &TopicPartition,
        told: Told,
        part: &PartitionData<'_>,
        frame: &Arc<Vec<u8>>,
        effects: &mut Effects<Effect>,
    ) -> bool {
        let Some(Records::Bytes(bytes)) = part.records else { return false };
        let Some(state) = self.parts.get_mut(of) else { return false };
        let whole = match whole_batches(bytes, told.offset) {
            Ok(Some(whole)) => whole,
            Ok(None) => return !bytes.is_empty(),
            Err(error) => {
                effects.push(state.fail(of, error));
                return false;
            }
        };
        state.position = Position::Known(whole.next, whole.epoch);
        self.unread_bytes += whole.bytes;
        // The records are a slice of the frame: where it begins there.
        let start = bytes.as_ptr().addr() - frame.as_ptr().addr();
        let aborted = part.aborted_transactions.iter().flatten();
        let aborted = aborted.map(|transaction| (transaction.producer_id, transaction.first_offset));
        let is_committed = self.settings.isolation == Isolation::ReadCommitted;
        effects.push(Effect::Chunk(Chunk::new(Parts {
            of: of.clone(),
            told,
            frame: frame.clone(),
            range: start..start + whole.bytes,
            high_watermark: Offset(part.high_watermark),
            check_crcs: self.settings.check_crcs,
            aborted: is_committed.then(|| aborted.collect()),
        })));
        false
    }
}

/// The whole batches at the front of what was fetched.
struct Whole {
    bytes: usize,
    /// The offset after them.
    next: Offset,
    /// The epoch of the last.
    epoch: LeaderEpoch,
}

/// Looks at the headers only: the reader checks what it reads. The last batch may be cut off; `None` if
/// that is all there is.
fn whole_batches(bytes: &[u8], from: Offset) -> Result<Option<Whole>, ConsumeError> {
    let mut whole = Whole { bytes: 0, next: from, epoch: LeaderEpoch::NONE };
    loop {
        match BatchHeader::parse(&bytes[whole.bytes..]) {
            Ok(header) if header.size_bytes() <= bytes.len() - whole.bytes => {
                let next = header.next_offset().max(whole.next);
                whole = Whole { bytes: whole.bytes + header.size_bytes(), next, epoch: header.leader_epoch };
            }
            Ok(_) | Err(BatchError::Truncated { .. }) => break,
            // What lies before it can be read; then this is the first.
            Err(_) if whole.bytes > 0 => break,
            Err(error) => return Err(ConsumeError::Corrupt { at: from, error }),
        }
    }
    Ok(Some(whole).filter(|whole| whole.next > from))
}

impl super::Part {
    fn told(&mut self, topic_id: Uuid, is_by_id: bool) -> Option<Told> {
        if self.topic_id != topic_id {
            let is_first = self.topic_id == Uuid::ZERO;
            self.topic_id = topic_id;
            // What was read is of another topic of that name: its epochs say nothing of this one's. Who reads by
            // name may have read this one before anybody said its id, and so may who committed where to begin; then
            // the epoch is the only sign of a cut (KIP-320).
            if is_by_id && !is_first {
                self.position = self.position.without_epoch();
            }
        }
        let Position::Known(offset, last_epoch) = self.position else { return None };
        let (leader_epoch, generation) = (self.leader_epoch, self.generation);
        Some(Told { topic_id, offset, last_epoch, leader_epoch, generation })
    }
}

#[cfg(test)]
mod tests;
