//! Answers in: what became of each batch, and what is tried again.

use std::time::Duration;

use base::{
    BrokerId, Effects, ErrorCode, LeaderEpoch, Now, Offset, PartitionIndex, ProducerEpoch, TimestampMs,
};
use wire::messages::init_producer_id::InitProducerIdResponse;
use wire::messages::metadata::MetadataResponse;
use wire::messages::produce::{LeaderIdAndEpoch, PartitionProduceResponse, ProduceResponse};

use super::batch::{Closed, HURRIES_MAX};
use super::{Acks, Asked, BatchId, DeliveryError, Effect, Place, Produced, Producer, Written};
use crate::cluster::Leader;
use crate::link::Answer;
use crate::links::{ConnectionId, Peer};

/// How long the cluster is not asked again whether somebody else leads, where that is not probable.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl Producer {
    pub(super) fn on_answer(
        &mut self,
        (connection, peer): (ConnectionId, Peer),
        answer: Answer<'_, Asked>,
        now: Now,
        effects: &mut Effects<Effect>,
    ) {
        let unreadable = match answer.about {
            Asked::Metadata => match answer.read::<MetadataResponse<'_>>() {
                (_, Ok(said)) => {
                    self.links.throttle(peer, now, said.throttle_time_ms);
                    return self.on_metadata(&said, now, effects);
                }
                (about, Err(_)) => about,
            },
            Asked::Topics => match answer.read::<MetadataResponse<'_>>() {
                (_, Ok(said)) => {
                    self.links.throttle(peer, now, said.throttle_time_ms);
                    return self.on_topics(&said, now, effects);
                }
                (about, Err(_)) => about,
            },
            Asked::ProducerId => match answer.read::<InitProducerIdResponse>() {
                (_, Ok(said)) => {
                    self.links.throttle(peer, now, said.throttle_time_ms);
                    return self.on_producer_id(&said, now);
                }
                (about, Err(_)) => about,
            },
            Asked::Produce(_) => match answer.read::<ProduceResponse<'_>>() {
                (Asked::Produce(asked), Ok(said)) => {
                    self.links.throttle(peer, now, said.throttle_time_ms);
                    return self.on_produced(asked, &said, (now, effects));
                }
                (about, _) => about,
            },
        };
        // A broker whose answers make no sense is not asked on.
        self.on_unanswered(vec![unreadable], now, effects);
        self.close_connection(connection, now, effects);
    }

    /// What was asked gets no answer.
    pub(super) fn on_unanswered(&mut self, unanswered: Vec<Asked>, now: Now, effects: &mut Effects<Effect>) {
        for asked in unanswered {
            match asked {
                Asked::Metadata => self.metadata.failed(&self.settings.retry, now, &mut self.chance),
                Asked::Topics => self.on_topics_unanswered(now),
                Asked::ProducerId => self.on_producer_id_unanswered(now),
                Asked::Produce(asked) => {
                    // The leader may be another by now.
                    self.metadata.is_wanted = true;
                    self.on_nothing_said(asked.peer, asked.parts, (now, effects));
                }
            }
        }
    }

    /// What a broker says nothing about, it may have written or not.
    fn on_nothing_said(
        &mut self,
        peer: Peer,
        parts: Vec<(Place, BatchId)>,
        (now, effects): (Now, &mut Effects<Effect>),
    ) {
        for part in parts {
            let by = self.refused_by(part.0, peer, &LeaderIdAndEpoch::default());
            let refusal = Refusal { code: ErrorCode::NetworkException, message: None, by };
            self.on_refused(part, refusal, now, effects);
        }
    }

    fn on_produced(
        &mut self,
        Produced { peer, mut parts, ids }: Produced,
        said: &ProduceResponse<'_>,
        (now, effects): (Now, &mut Effects<Effect>),
    ) {
        for topic in &said.responses {
            for part in &topic.partition_responses {
                let is_asked = |&(place, _): &(Place, BatchId)| {
                    // The one that the version does not have is empty. The id that was sent, not the one
                    // that is known now: the topic may have been made anew meanwhile.
                    let is_topic = match topic.name {
                        "" => ids.contains(&(place.topic, topic.topic_id)),
                        name => *self.topics.get(place.topic).name == *name,
                    };
                    is_topic && place.partition as i32 == part.index
                };
                // They come in the order of the request.
                let Some(index) = parts.iter().position(is_asked) else { continue };
                let asked = parts.remove(index);
                self.on_part(asked, part, (peer, said), (now, effects));
            }
        }
        self.on_nothing_said(peer, parts, (now, effects));
    }

    fn on_part(
        &mut self,
        (place, id): (Place, BatchId),
        part: &PartitionProduceResponse<'_>,
        (peer, said): (Peer, &ProduceResponse<'_>),
        (now, effects): (Now, &mut Effects<Effect>),
    ) {
        let code = ErrorCode::from_i16(part.error_code).unwrap_or(ErrorCode::UnknownServerError);
        // The broker has it already: an answer was lost, and this is the one to a second try.
        if matches!(code, ErrorCode::None | ErrorCode::DuplicateSequenceNumber) {
            let partition = self.topics.partition(place);
            let Some(batch) = partition.take_in_flight(id) else { return };
            if batch.sent.is_some_and(|sent| sent.epoch == partition.epoch) {
                partition.met_at = Some(now.elapsed);
            }
            let written = Written {
                base_offset: Some(Offset(part.base_offset)).filter(|offset| offset.0 >= 0),
                append_time: Some(TimestampMs(part.log_append_time_ms)).filter(|time| time.is_some()),
            };
            return self.done(batch, Ok(written), effects);
        }
        self.on_hint(place, &part.current_leader, said);
        let by = self.refused_by(place, peer, &part.current_leader);
        self.on_refused((place, id), Refusal { code, message: part.error_message, by }, now, effects);
    }

    /// A broker says who leads a partition instead of it (KIP-951).
    fn on_hint(&mut self, place: Place, hint: &LeaderIdAndEpoch, said: &ProduceResponse<'_>) {
        let broker = Some(BrokerId(hint.leader_id)).filter(|id| id.0 >= 0);
        let leader = Leader { broker, epoch: LeaderEpoch(hint.leader_epoch) };
        let name = self.topics.get(place.topic).name.clone();
        let index = PartitionIndex(place.partition as i32);
        let nodes = said.node_endpoints.iter().map(|node| (node.node_id, node.host, node.port));
        if self.cluster.absorb_hint(&name, index, leader, nodes) {
            self.topics.partition(place).lead(leader);
            self.learn_brokers();
        }
    }

    /// What the one who refused a batch is to its partition, as far as is known by now.
    fn refused_by(&self, place: Place, peer: Peer, hint: &LeaderIdAndEpoch) -> By {
        let partition = &self.topics.get(place.topic).partitions[place.partition as usize];
        match (peer, partition.leader) {
            (Peer::Broker(id), Some(leader)) if id != leader => By::LeaderBefore,
            (Peer::Broker(_), Some(_)) if (0..=partition.leader_epoch.0).contains(&hint.leader_epoch) => {
                By::LeaderToBe
            }
            _ => By::Anybody,
        }
    }

    /// A batch was not written, or nobody knows whether it was: it is sent again or given up.
    fn on_refused(
        &mut self,
        (place, id): (Place, BatchId),
        refusal: Refusal<'_>,
        now: Now,
        effects: &mut Effects<Effect>,
    ) {
        let Some(mut batch) = self.topics.partition(place).take_in_flight(id) else { return };
        batch.failures += 1;
        batch.last_error = Some(refusal.code);
        batch.is_in_doubt |= refusal.leaves_doubt(self.settings.acks);
        let is_of_use = refusal.is_about_leader()
            || (refusal.is_of_one_alone() && self.told_at + ASK_AGAIN_AFTER <= now.elapsed);
        self.metadata.is_wanted |= is_of_use && refusal.by != By::LeaderBefore;
        if refusal.is_about_size() && self.may_split(&batch) {
            return self.split(place, batch, effects);
        }
        match self.verdict(place, &batch, refusal.code) {
            Verdict::GiveUp => {
                let message = refusal.message.filter(|text| !text.is_empty()).map(str::to_owned);
                let (code, may_be_written) = (refusal.code, batch.is_in_doubt);
                let refused = DeliveryError::Refused { code, message, may_be_written };
                self.done(batch, Err(refused), effects);
            }
            Verdict::TryAgain => {
                let wait = self.wait(refusal, batch.failures);
                self.put_back(place, batch, now, wait);
            }
            Verdict::AfterOthers => self.put_back(place, batch, now, Duration::ZERO),
            Verdict::BeginEpoch => {
                // Not as fast as a broker refuses that refuses it whatever it is called.
                let is_again = batch.failures > HURRIES_MAX;
                let wait = if is_again { self.wait(refusal, batch.failures) } else { Duration::ZERO };
                self.put_back(place, batch, now, wait);
                self.begin_epoch(place, refusal.code, effects);
            }
        }
    }

    /// How long a batch that was refused so often waits until it is sent again.
    fn wait(&mut self, refusal: Refusal<'_>, failures: u32) -> Duration {
        let wait = self.settings.retry.after(failures, &mut self.chance);
        match refusal.by {
            // Not if brokers send us back and forth.
            _ if failures > HURRIES_MAX => wait,
            By::LeaderBefore => Duration::ZERO,
            By::LeaderToBe => wait / 10,
            By::Anybody => wait,
        }
    }

    fn put_back(&mut self, place: Place, batch: Closed, now: Now, wait: Duration) {
        let partition = self.topics.partition(place);
        partition.put_back(batch);
        partition.retry_at = partition.retry_at.max(now.elapsed + wait);
        self.list(place);
    }

    fn verdict(&mut self, place: Place, batch: &Closed, code: ErrorCode) -> Verdict {
        if !self.settings.idempotence {
            return if code.is_retriable() { Verdict::TryAgain } else { Verdict::GiveUp };
        }
        let partition = self.topics.partition(place);
        let is_lost = matches!(
            code,
            ErrorCode::OutOfOrderSequenceNumber
                | ErrorCode::UnknownProducerId
                | ErrorCode::InvalidProducerEpoch
        );
        match is_lost {
            false if code.is_retriable() => Verdict::TryAgain,
            false => Verdict::GiveUp,
            // The fate of one before it is open still: it is refused for the lack of that one.
            true if is_behind_others(partition, batch) => Verdict::AfterOthers,
            // It may have been written, and forgotten: after a restart Kafka knows the last batch of a producer
            // again, not the last five. Said anew it could be there twice.
            true if batch.is_in_doubt => Verdict::GiveUp,
            // Nothing before it is missing, so the broker does not remember; and whatever was sent after it
            // was not written either.
            true => Verdict::BeginEpoch,
        }
    }

    fn begin_epoch(&mut self, place: Place, code: ErrorCode, effects: &mut Effects<Effect>) {
        let partition = self.topics.partition(place);
        if partition.epoch == ProducerEpoch(i16::MAX) {
            self.failed = Some(ErrorCode::InvalidProducerEpoch);
        } else if partition.in_flight.is_empty() {
            // A broker that remembers nobody takes what comes first, and that may have been one of these.
            for batch in partition.begin_epoch() {
                let lost = DeliveryError::Refused { code, message: None, may_be_written: true };
                self.done(batch, Err(lost), effects);
            }
        }
        // Else those in flight come back refused as well, for the lack of this one. When all are back it is sent
        // once more, refused once more, and begins it then.
    }
}

/// Whether a batch that was sent before this one is not done.
fn is_behind_others(partition: &super::batch::Partition, batch: &Closed) -> bool {
    let is_before = |other: &Closed| other.order < batch.order;
    partition.in_flight.iter().any(is_before) || partition.waiting.iter().any(is_before)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    GiveUp,
    TryAgain,
    AfterOthers,
    BeginEpoch,
}

/// What a broker said against a batch.
#[derive(Clone, Copy, Debug)]
struct Refusal<'a> {
    code: ErrorCode,
    message: Option<&'a str>,
    by: By,
}

/// What a broker that refuses a batch is to its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// Another leads by now, who has refused nothing yet.
    LeaderBefore,
    /// It leads, as somebody said, and does not know yet, or is not ready: it will be in a moment.
    LeaderToBe,
    /// It leads as far as anybody knows, or nobody says who does.
    Anybody,
}

impl Refusal<'_> {
    /// Whether the batch may have been written all the same.
    fn leaves_doubt(&self, acks: Acks) -> bool {
        match self.code {
            ErrorCode::NetworkException
            | ErrorCode::RequestTimedOut
            | ErrorCode::NotEnoughReplicasAfterAppend
            | ErrorCode::UnknownServerError
            // The disk failed while it was written, or after.
            | ErrorCode::KafkaStorageError => true,
            // Also said by a leader that had appended it, while it waited for the others: they may have it, and
            // one of them leads.
            ErrorCode::NotLeaderOrFollower => acks == Acks::All,
            _ => false,
        }
    }

    /// Whether the same records may be taken as smaller batches.
    const fn is_about_size(&self) -> bool {
        matches!(self.code, ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge)
    }

    /// Whether the client may be wrong about who leads the partition.
    const fn is_about_leader(&self) -> bool {
        matches!(
            self.code,
            ErrorCode::NotLeaderOrFollower
                | ErrorCode::LeaderNotAvailable
                | ErrorCode::FencedLeaderEpoch
                | ErrorCode::UnknownTopicOrPartition
                | ErrorCode::UnknownTopicId
                | ErrorCode::InconsistentTopicId
                | ErrorCode::KafkaStorageError
                | ErrorCode::ReplicaNotAvailable
                | ErrorCode::NetworkException
        )
    }

    /// Whether one says so that finds no other replicas: it may be cut off from them, and not know that it leads no
    /// more.
    const fn is_of_one_alone(&self) -> bool {
        matches!(
            self.code,
            ErrorCode::NotEnoughReplicas
                | ErrorCode::NotEnoughReplicasAfterAppend
                | ErrorCode::RequestTimedOut
        )
    }
}
