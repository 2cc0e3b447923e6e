//! Batches out: which may leave now, and in which request.

use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Effects, Now};
use records::ClosedBatch;
use wire::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use wire::{ApiKey, Records};

use super::batch::Sent;
use super::{Acks, Asked, BatchId, DeliveryError, Effect, Place, Produced, Producer};
use crate::links::{Asking, Peer};

/// A request of so many bytes says that records come fast enough to be worth gathering: …
const BUSY_BYTES: usize = 4 << 10;
/// … then what is not full waits so long after it, even if the answer is in. Small requests one after
/// the other would cost both sides more than the records in them.
const REST: Duration = Duration::from_millis(1);
/// What is not full gathers no longer than this once all that was in flight when it began is answered: where other
/// partitions of the same leader always have full batches, nothing ever is not in flight. As long as Kafka's client
/// lingers by itself.
const GATHER_MAX: Duration = Duration::from_millis(5);

/// What a request will carry.
#[derive(Debug)]
struct Cargo {
    parts: Vec<(Place, BatchId)>,
    fills: Vec<Arc<ClosedBatch>>,
    bytes: usize,
}

/// What of a partition may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    /// A batch that is full, or lingered as long as was chosen, or has to leave for another reason.
    Full,
    /// A batch that more records would fit into, and when it was begun: it leaves if nothing is in flight, or has
    /// gathered for long enough.
    Partial(Duration),
    /// The same, but at this time it leaves whatever is in flight.
    PartialUntil(Duration),
    /// Nothing before this time.
    At(Duration),
    /// Nothing before something else happens.
    Not,
}

impl Producer {
    /// Whether something of a partition could leave in a step at once.
    pub(super) fn can_leave(&self, place: Place, now: Now) -> bool {
        let partition = &self.topics.get(place.topic).partitions[place.partition as usize];
        let Some(leader) = partition.leader else { return true };
        let in_flight = self.links.in_flight(Peer::Broker(leader));
        let is_full = !partition.waiting.is_empty() && partition.may_send(self.in_flight_max(), now);
        in_flight == 0 || (is_full && in_flight < self.settings.in_flight_max)
    }

    /// Whether one more request can be sent to the leader of a partition before another is answered.
    pub(super) fn may_send_more(&self, place: Place) -> bool {
        let leader = self.topics.get(place.topic).partitions[place.partition as usize].leader;
        let is_known = self.identity.is_some() || !self.settings.idempotence;
        let in_flight = leader.map(|leader| self.links.in_flight(Peer::Broker(leader)));
        is_known && in_flight.is_some_and(|in_flight| in_flight < self.settings.in_flight_max)
    }

    /// How many batches of one partition may be in flight.
    const fn in_flight_max(&self) -> usize {
        if self.settings.idempotence { self.settings.in_flight_max } else { 1 }
    }

    /// Sends what may leave now.
    pub(super) fn send_ready(&mut self, now: Now, effects: &mut Effects<Effect>) {
        self.send_at = None;
        if self.settings.idempotence && self.identity.is_none() {
            return;
        }
        let mut leaders: Vec<BrokerId> = Vec::new();
        let mut is_leader_missing = false;
        let mut listed = std::mem::take(&mut self.listed);
        listed.retain(|&place| {
            let partition = self.topics.partition(place);
            partition.is_listed = partition.has_unsent();
            match partition.leader {
                Some(leader) if partition.is_listed && !leaders.contains(&leader) => leaders.push(leader),
                None if partition.is_listed => is_leader_missing = true,
                _ => {}
            }
            partition.is_listed
        });
        self.listed = listed;
        self.metadata.is_wanted |= is_leader_missing;
        for leader in leaders {
            while self.send_to(leader, now, effects) {}
        }
    }

    /// Sends one request to a broker if there is one to send.
    fn send_to(&mut self, leader: BrokerId, now: Now, effects: &mut Effects<Effect>) -> bool {
        let peer = Peer::Broker(leader);
        self.metadata.is_wanted |= !self.links.knows(peer);
        if !self.links.want(peer, now, &mut self.net) {
            return false;
        }
        let in_flight = self.links.in_flight(peer);
        if in_flight >= self.settings.in_flight_max {
            return false;
        }
        let rests_until =
            self.rests.get(&leader).copied().filter(|_| !self.is_flushing()).unwrap_or_default();
        let is_free = in_flight == 0 && rests_until <= now.elapsed;
        let cargo = self.load(leader, is_free, now, effects);
        if cargo.parts.is_empty() {
            if in_flight == 0 && !is_free {
                self.send_at = Some(self.send_at.map_or(rests_until, |other| other.min(rests_until)));
            }
            return false;
        }
        let is_busy = cargo.bytes >= BUSY_BYTES;
        self.rests.insert(leader, if is_busy { now.elapsed + REST } else { Duration::ZERO });
        self.move_behind(&cargo);
        self.ship(peer, cargo, now, effects)
    }

    /// Takes what may leave for a broker, one batch of a partition at most.
    fn load(&mut self, leader: BrokerId, is_free: bool, now: Now, effects: &mut Effects<Effect>) -> Cargo {
        let mut cargo = Cargo { parts: Vec::new(), fills: Vec::new(), bytes: 0 };
        for index in 0..self.listed.len() {
            let place = self.listed[index];
            if self.topics.partition(place).leader != Some(leader) {
                continue;
            }
            let readiness = match self.readiness(place, now) {
                Readiness::Partial(begun) if !is_free => self.gathers(leader, begun, now),
                other => other,
            };
            match readiness {
                Readiness::Full => self.load_from(place, &mut cargo, now, effects),
                Readiness::Partial(_) | Readiness::PartialUntil(_) if is_free => {
                    self.load_from(place, &mut cargo, now, effects);
                }
                Readiness::At(at) | Readiness::PartialUntil(at) => {
                    self.send_at = Some(self.send_at.map_or(at, |other| other.min(at)))
                }
                Readiness::Partial(_) | Readiness::Not => {}
            }
            if cargo.bytes >= self.settings.request_bytes_max {
                break;
            }
        }
        cargo
    }

    /// What becomes of a batch that is not full while something is in flight.
    fn gathers(&self, leader: BrokerId, begun: Duration, now: Now) -> Readiness {
        let owes_since = self.links.owes_since(Peer::Broker(leader));
        if owes_since.is_some_and(|since| since <= begun) {
            return Readiness::Partial(begun);
        }
        let until = begun + GATHER_MAX;
        if until <= now.elapsed { Readiness::Full } else { Readiness::At(until) }
    }

    /// Who was loaded is last from now on: who did not fit is first in the next request.
    fn move_behind(&mut self, cargo: &Cargo) {
        if cargo.parts.len() == self.listed.len() {
            return;
        }
        // They were loaded in the order of the list.
        let mut loaded = cargo.parts.iter().map(|(place, _)| place).peekable();
        self.listed.retain(|place| loaded.next_if_eq(&place).is_none());
        self.listed.extend(cargo.parts.iter().map(|&(place, _)| place));
    }

    fn readiness(&mut self, place: Place, now: Now) -> Readiness {
        let in_flight_max = self.in_flight_max();
        // Room is worth more than gathering.
        let is_pressed = self.is_flushing() || self.is_full;
        let linger = self.settings.linger;
        let partition = self.topics.partition(place);
        if !partition.may_send(in_flight_max, now) {
            return Readiness::Not;
        }
        if now.elapsed < partition.retry_at {
            return Readiness::At(partition.retry_at);
        }
        match (partition.waiting.is_empty(), &partition.open) {
            (false, _) => Readiness::Full,
            (true, Some(open)) if linger.is_zero() => Readiness::Partial(open.created),
            (true, Some(open)) if open.created + linger <= now.elapsed => Readiness::Full,
            (true, Some(open)) if is_pressed => Readiness::PartialUntil(open.created + linger),
            (true, Some(open)) => Readiness::At(open.created + linger),
            (true, None) => Readiness::Not,
        }
    }

    /// Takes the first batch of a partition along, numbered and sealed.
    fn load_from(&mut self, place: Place, cargo: &mut Cargo, now: Now, effects: &mut Effects<Effect>) {
        if self.topics.partition(place).waiting.is_empty() {
            self.note_filling(place);
            self.close_open(place, effects);
        }
        let identity = self.identity;
        let partition = self.topics.partition(place);
        let Some(batch) = partition.waiting.front_mut() else { return };
        // Compressed elsewhere first.
        let Some(body) = &mut batch.body else { return };
        let size = body.bytes().len();
        if !cargo.parts.is_empty() && cargo.bytes + size > self.settings.request_bytes_max {
            return;
        }
        let is_new = batch.sent.is_none();
        let sent =
            *batch.sent.get_or_insert(Sent { epoch: partition.epoch, sequence: partition.sequence_next });
        if is_new {
            let count = u32::try_from(body.count()).expect("a batch has a count");
            partition.sequence_next = sent.sequence.wrapping_add(count);
        }
        if !std::mem::replace(&mut batch.is_sealed, true) {
            let producer = identity.map_or(records::Producer::NONE, |identity| records::Producer {
                id: identity.id,
                epoch: sent.epoch,
                base_sequence: sent.sequence,
            });
            // A connection that broke may hold the old bytes for a moment yet; then these are a copy.
            Arc::make_mut(body).seal(producer, false).expect("a batch is far smaller than the format allows");
        }
        cargo.bytes += size;
        cargo.fills.push(body.clone());
        cargo.parts.push((place, batch.id));
        let mut batch = partition.waiting.pop_front().expect("it was looked at");
        // What comes behind the first try, repeated ones among it, is the cluster's time and no longer ours.
        batch.left_at.get_or_insert(now.elapsed);
        self.counters.batches += 1;
        self.counters.batch_bytes += size as u64;
        self.counters.records += batch.records as u64;
        self.counters.retries += if batch.failures > 0 { batch.records as u64 } else { 0 };
        partition.in_flight.push_back(batch);
    }

    /// Makes the request and hands it to the connection.
    fn ship(&mut self, peer: Peer, mut cargo: Cargo, now: Now, effects: &mut Effects<Effect>) -> bool {
        let version = match self.links.version(peer, ApiKey::Produce) {
            Ok(version) => version,
            Err(_) => {
                self.refuse(cargo, effects);
                return false;
            }
        };
        sort_by_place(&mut cargo);
        let mut topics: Vec<TopicProduceData<'_>> = Vec::new();
        let mut ids = Vec::new();
        let mut number_last = None;
        for ((place, _), fill) in cargo.parts.iter().zip(&cargo.fills) {
            if number_last.replace(place.topic) != Some(place.topic) {
                let topic = self.topics.get(place.topic);
                let (name, topic_id) = (&*topic.name, topic.id.0);
                ids.push((place.topic, topic_id));
                topics.push(TopicProduceData { name, topic_id, partition_data: Vec::new() });
            }
            let len = u32::try_from(fill.bytes().len()).expect("a batch is far smaller");
            topics.last_mut().expect("one was pushed").partition_data.push(PartitionProduceData {
                index: place.partition as i32,
                records: Some(Records::External { len }),
            });
        }
        let request = ProduceRequest {
            acks: self.settings.acks.code(),
            timeout_ms: i32::try_from(self.settings.acks_timeout.as_millis()).unwrap_or(i32::MAX),
            topic_data: topics,
            ..ProduceRequest::default()
        };
        self.counters.requests += 1;
        let asking = Asking {
            version,
            about: Asked::Produce(Produced { peer, parts: cargo.parts, ids }),
            fills: cargo.fills,
            is_answered: self.settings.acks != Acks::None,
        };
        let sent = self.links.send((peer, now), &request, asking, &mut self.net);
        sent.expect("a request of names that the cluster said and of bounded batches can be written");
        true
    }

    /// The broker takes no batches at all.
    fn refuse(&mut self, cargo: Cargo, effects: &mut Effects<Effect>) {
        for (place, id) in cargo.parts {
            let Some(batch) = self.topics.partition(place).take_in_flight(id) else { continue };
            let code = base::ErrorCode::UnsupportedVersion;
            let refused = DeliveryError::Refused { code, message: None, may_be_written: batch.is_in_doubt };
            self.done(batch, Err(refused), effects);
        }
    }
}

/// Partitions of a topic stand together in a request.
fn sort_by_place(cargo: &mut Cargo) {
    if cargo.parts.is_sorted_by_key(|&(place, _)| place) {
        return;
    }
    let mut order: Vec<usize> = (0..cargo.parts.len()).collect();
    order.sort_unstable_by_key(|&index| cargo.parts[index].0);
    cargo.fills = order.iter().map(|&index| cargo.fills[index].clone()).collect();
    cargo.parts = order.iter().map(|&index| cargo.parts[index]).collect();
}
