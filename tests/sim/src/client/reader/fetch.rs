//! Fetch as Kafka's brokers answer it: sessions, bounds, and what is left out.

use base::ErrorCode;
use wire::messages::fetch::{
    AbortedTransaction, EpochEndOffset, FetchPartition, FetchRequest, FetchResponse, FetchableTopicResponse,
    LeaderIdAndEpoch, PartitionData,
};
use wire::{Decoder, Message, Records, RequestHeader};

use super::ReaderPlant;
use super::brokers::{Answer, Brokers, Place, Said};
use super::history::Log;
use super::session::{Key, Session, TOPICS};
use crate::client::broker::encode;

/// The first versions with sessions, with epochs of what was read, and with hints and where they lead.
const SESSIONS_FROM: i16 = 7;
pub(super) const EPOCHS_FROM: i16 = 12;
const HINTS_FROM: i16 = 16;

/// What is said of a partition.
#[derive(Debug, Default)]
struct Part {
    code: ErrorCode,
    bytes: Vec<u8>,
    high_watermark: i64,
    log_start: i64,
    diverging: Option<(i32, i64)>,
    aborted: Option<Vec<(i64, i64)>>,
    /// The replica nearby that the reader is sent to.
    sent_to: Option<i32>,
}

/// What bounds an answer.
struct Bounds {
    is_committed_only: bool,
    has_epochs: bool,
    /// Whether the reader says where it is.
    is_in_rack: bool,
    bytes_left: usize,
    is_empty: bool,
}

impl Brokers {
    pub(super) fn fetch(&mut self, me: i32, header: &RequestHeader<'_>, mut body: Decoder<'_>) -> Answer {
        let version = header.api_version;
        let request = FetchRequest::decode(&mut body, version).expect("it is a request");
        let mut what = format!("Fetch in session {}, {}:", request.session_id, request.session_epoch);
        let (id, keys) = match self.session(me as usize, &request) {
            Ok(session) => session,
            Err(code) => {
                let refused = FetchResponse { error_code: code.code(), ..Default::default() };
                return Answer { what: what + code.name(), bytes: encode(header, &refused), hold_us: 0 };
            }
        };
        let throttle_time_ms =
            if self.chance(self.options.throttle_per_thousand) { self.random.below(300) as i32 } else { 0 };
        let keys = if throttle_time_ms > 0 { Vec::new() } else { keys };
        let mut bounds = Bounds {
            is_committed_only: request.isolation_level == 1,
            has_epochs: version >= EPOCHS_FROM,
            is_in_rack: !request.rack_id.is_empty(),
            bytes_left: request.max_bytes as usize,
            is_empty: true,
        };
        let mut parts: Vec<(Key, Part)> = Vec::new();
        for (key, told) in keys {
            let part = self.part(me, key, &told, &mut bounds);
            what += &format!(
                " {key:?} from {}: {} {} bytes up to {}",
                told.fetch_offset,
                part.code.name(),
                part.bytes.len(),
                part.high_watermark
            );
            if self.is_news(me, id, key, &part) {
                parts.push((key, part));
            }
        }
        let is_empty = parts.iter().all(|(_, part)| {
            part.bytes.is_empty()
                && part.code == ErrorCode::None
                && part.diverging.is_none()
                && part.sent_to.is_none()
        });
        let hold_us = if is_empty { request.max_wait_ms as u64 * 1000 } else { 0 };
        let bytes = self.said(header, (id, throttle_time_ms), &parts);
        Answer { what, bytes, hold_us }
    }

    /// The session that is meant, and all that is asked for in it.
    fn session(
        &mut self,
        me: usize,
        request: &FetchRequest<'_>,
    ) -> Result<(i32, Vec<(Key, FetchPartition)>), ErrorCode> {
        if request.session_epoch <= 0 {
            self.nodes[me].sessions.remove(&request.session_id);
            let is_kept = self.options.fetch_version_max >= SESSIONS_FROM && !self.chance(200);
            let id = if is_kept { self.session_next } else { 0 };
            self.session_next += i32::from(is_kept);
            // One that is not kept is forgotten with its answer.
            let mut session = Session::default();
            session.tell(request);
            self.nodes[me].sessions.insert(id, session);
            return Ok((id, self.asked(me, id)));
        }
        let session = self.nodes[me].sessions.get_mut(&request.session_id);
        let session = session.filter(|_| request.session_id != 0).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.epoch != request.session_epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        session.tell(request);
        Ok((request.session_id, self.asked(me, request.session_id)))
    }

    /// In an order that changes, so that each comes first at times.
    fn asked(&mut self, me: usize, id: i32) -> Vec<(Key, FetchPartition)> {
        let told = &self.nodes[me].sessions[&id].told;
        let mut asked: Vec<_> = told.iter().map(|(key, part)| (*key, part.clone())).collect();
        if !asked.is_empty() {
            let by = self.random.index(asked.len());
            asked.rotate_left(by);
        }
        asked
    }

    fn is_news(&mut self, me: i32, id: i32, key: Key, part: &Part) -> bool {
        let session = self.nodes[me as usize].sessions.get_mut(&id).expect("it was just looked at");
        let is_first = session.epoch == 1;
        let before = session.said.insert(key, part.high_watermark);
        is_first
            || before != Some(part.high_watermark)
            || !part.bytes.is_empty()
            || part.code != ErrorCode::None
            || part.diverging.is_some()
            || part.sent_to.is_some()
    }

    fn part(&mut self, me: i32, key: Key, told: &FetchPartition, bounds: &mut Bounds) -> Part {
        let (name, id, index) = key;
        let place = match name {
            Some(topic) => Some((topic, index)),
            None => self.logs.keys().copied().find(|&place| {
                self.logs[&place].last().is_some_and(|log| log.topic_id == id && place.1 == index)
            }),
        };
        let refused = |code| Part { code, high_watermark: -1, log_start: -1, ..Part::default() };
        let Some(place) = place else { return refused(ErrorCode::UnknownTopicId) };
        if bounds.is_in_rack && self.log(place).leader != me {
            let is_by_name = name.is_some();
            return self.part_nearby(place, told, bounds, is_by_name);
        }
        if let Err(code) = self.check_leader(me, place, told.current_leader_epoch) {
            return refused(code);
        }
        let can_diverge = bounds.has_epochs && self.plant != Some(ReaderPlant::TruncationUnsaid);
        let offset = told.fetch_offset;
        let log = self.log(place);
        if can_diverge
            && told.last_fetched_epoch >= 0
            && let Some(diverging) = log.divergence(told.last_fetched_epoch, offset)
        {
            let part = Part {
                diverging: Some(diverging),
                high_watermark: log.high_watermark,
                log_start: log.start,
                ..Part::default()
            };
            self.note(place, Said::Diverges(diverging.1));
            return part;
        }
        if offset < log.start || offset > log.end {
            self.note(place, Said::OutOfRange(offset));
            return refused(ErrorCode::OffsetOutOfRange);
        }
        if bounds.is_in_rack && self.chance(self.options.nearby_per_thousand) {
            // It may be this one, or one that is down.
            let sent_to = Some(self.random.below(self.options.brokers as u64) as i32);
            let log = self.log(place);
            let (high_watermark, log_start) = (log.high_watermark, log.start);
            return Part { sent_to, high_watermark, log_start, ..Part::default() };
        }
        self.read(place, told, bounds, i64::MAX)
    }

    /// What a replica says that does not lead, and may be any distance behind: then it knows less than the reader, and
    /// nothing that it says is a reason to give up.
    fn part_nearby(
        &mut self,
        place: Place,
        told: &FetchPartition,
        bounds: &mut Bounds,
        is_by_name: bool,
    ) -> Part {
        // Who asks by name for a topic that was made anew may take this one for the leader that it was of the old one.
        let is_believed = is_by_name && self.logs[&place].len() > 1;
        let is_behind = self.chance(300);
        let by = self.random.below(1_000) as i64;
        let is_refused = self.chance(self.options.refuse_per_thousand);
        let log = self.log(place);
        let end = match is_behind {
            true => log.start + by % (log.high_watermark - log.start + 1),
            false => log.high_watermark,
        };
        let (epoch, offset, log_start) = (log.epoch_before(end), told.fetch_offset, log.start);
        let part = Part { high_watermark: end, log_start, ..Part::default() };
        if is_refused {
            return Part { code: ErrorCode::NotLeaderOrFollower, ..part };
        }
        if (0..log.epoch()).contains(&told.current_leader_epoch) {
            // Else whoever takes it for the leader that it was would believe it.
            return Part { code: ErrorCode::FencedLeaderEpoch, ..part };
        }
        if bounds.has_epochs && told.last_fetched_epoch >= 0 {
            let diverging = match told.last_fetched_epoch > epoch {
                true => Some((epoch, end)),
                false => log.divergence(told.last_fetched_epoch, offset),
            };
            if let Some((_, end)) = diverging {
                if is_believed {
                    self.note(place, Said::Diverges(end));
                }
                return Part { diverging, ..part };
            }
        }
        if offset < log_start || offset > end {
            if is_believed {
                self.note(place, Said::OutOfRange(offset));
            }
            return Part { code: ErrorCode::OffsetOutOfRange, ..part };
        }
        self.read(place, told, bounds, end)
    }

    fn read(&mut self, place: Place, told: &FetchPartition, bounds: &mut Bounds, seen: i64) -> Part {
        let shows_open = self.plant == Some(ReaderPlant::OpenIsShown);
        let skips = self.plant == Some(ReaderPlant::BrokerSkips) && self.random.chance(50);
        let is_cut_off = self.random.chance(300);
        let log = self.log(place);
        let end = match bounds.is_committed_only && !shows_open {
            true => log.stable_end(),
            false => log.high_watermark,
        };
        let end = end.min(seen);
        let most = (told.partition_max_bytes as usize).min(bounds.bytes_left);
        let due = log.batches.iter().filter(|batch| batch.next > told.fetch_offset && batch.base < end);
        let (mut bytes, mut upto) = (Vec::new(), told.fetch_offset);
        let mut starts = Vec::new();
        for batch in due.skip(usize::from(skips)) {
            let is_first = bytes.is_empty() && bounds.is_empty;
            if bytes.len() + batch.bytes.len() > most && !is_first {
                if is_cut_off {
                    let room = most.saturating_sub(bytes.len());
                    bytes.extend_from_slice(&batch.bytes[..room.min(batch.bytes.len() - 1)]);
                }
                break;
            }
            starts.push((bytes.len(), batch.bytes.len()));
            bytes.extend_from_slice(&batch.bytes);
            upto = batch.next;
        }
        bounds.is_empty &= bytes.is_empty();
        bounds.bytes_left = bounds.bytes_left.saturating_sub(bytes.len());
        let aborted = aborted(log, told.fetch_offset, upto);
        let (high_watermark, log_start) = (log.high_watermark, log.start);
        let mut aborted = Some(aborted).filter(|_| bounds.is_committed_only);
        if self.plant == Some(ReaderPlant::AbortedLeftOut) {
            aborted = aborted.map(|_| Vec::new());
        }
        if self.chance(self.options.rot_per_thousand) && !starts.is_empty() {
            // Behind what the checksum does not cover.
            let (start, len) = self.random.pick(&starts);
            let at = start + 21 + self.random.index(len - 21);
            bytes[at] ^= 1 << self.random.below(8);
        }
        Part { bytes, high_watermark, log_start, aborted, ..Part::default() }
    }

    fn said(
        &mut self,
        header: &RequestHeader<'_>,
        (id, throttle_time_ms): (i32, i32),
        parts: &[(Key, Part)],
    ) -> Vec<u8> {
        let hosts: Vec<String> = (0..self.options.brokers).map(|id| self.host(id)).collect();
        let mut response = FetchResponse { session_id: id, throttle_time_ms, ..Default::default() };
        let mut is_hinted = false;
        for ((name, topic_id, index), part) in parts {
            let hint = match name {
                _ if header.api_version < HINTS_FROM => None,
                _ if part.code != ErrorCode::NotLeaderOrFollower || !self.random.chance(500) => None,
                Some(topic) => Some((*topic, *index)),
                None => self.logs.keys().copied().find(|place| {
                    place.1 == *index && self.logs[place].last().is_some_and(|log| log.topic_id == *topic_id)
                }),
            };
            let hint = hint.map(|place| (self.log(place).leader, self.log(place).epoch()));
            is_hinted |= hint.is_some();
            let aborted = part.aborted.as_ref().map(|aborted| {
                aborted
                    .iter()
                    .map(|&(producer_id, first_offset)| AbortedTransaction { producer_id, first_offset })
                    .collect()
            });
            let data = PartitionData {
                partition_index: *index,
                error_code: part.code.code(),
                high_watermark: part.high_watermark,
                last_stable_offset: -1,
                log_start_offset: part.log_start,
                diverging_epoch: match part.diverging {
                    Some((epoch, end_offset)) => EpochEndOffset { epoch, end_offset },
                    None => EpochEndOffset::default(),
                },
                current_leader: match hint {
                    Some((leader_id, leader_epoch)) => LeaderIdAndEpoch { leader_id, leader_epoch },
                    None => LeaderIdAndEpoch::default(),
                },
                aborted_transactions: aborted,
                preferred_read_replica: part.sent_to.unwrap_or(-1),
                records: Some(Records::Bytes(&part.bytes)),
                ..Default::default()
            };
            response.responses.push(FetchableTopicResponse {
                topic: name.map_or("", |topic| TOPICS[topic]),
                topic_id: *topic_id,
                partitions: vec![data],
            });
        }
        if is_hinted {
            response.node_endpoints = self.endpoints(&hosts);
        }
        encode(header, &response)
    }
}

/// The transactions that were taken back and have records in what is sent, in no order.
fn aborted(log: &Log, from: i64, upto: i64) -> Vec<(i64, i64)> {
    let touches = log.aborted.iter().filter(|aborted| aborted.last >= from && aborted.first < upto);
    let mut all: Vec<(i64, i64)> = touches.map(|aborted| (aborted.producer, aborted.first)).collect();
    if from % 2 == 0 {
        all.reverse();
    }
    all
}
