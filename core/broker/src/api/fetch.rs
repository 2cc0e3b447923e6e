//! Fetch · key 1 · v4..=v18
//!
//! v7 sessions (KIP-227) · v9 leader epoch (KIP-320) · v11 rack (KIP-392) · v12 flexible, diverging
//! epoch (KIP-595) · v13 topic ids (KIP-516) · v16 leader hints (KIP-951) · v17 directory ids
//! (KIP-853) · v18 follower's high watermark (KIP-1166).
//!
//! ```text
//!   request ─▶ session ─▶ what to read ─▶ plan each partition ─┬─ enough, an error, or no patience ─▶ answer
//!                                              ▲               └─ wait for data at each of them
//!                                              └────────── woken, or the time is up ──────┘
//! ```
//! A topic that is not there is told of with the next answer, but hurries none: a session that has one
//! such topic would be answered again and again at once. A follower hears of it at once: it may have heard of the
//! topic before its leader did, leaves it alone for a while, and producers wait until it asks again.
//!
//! Records are not read here: the answer has holes, and the edge fills them from the files.

mod found;
mod unread;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionIndex, TopicId, TopicName, Uuid};
use metadata::settings::CompressionType;
use replica::{Fetch, FetchError, Fetched, FollowerId, Reader};
use wire::messages::fetch::{
    FetchRequest, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint, PartitionData,
};
use wire::{ApiKey, Decoder};

use self::found::Found;
use super::nearest::nearest;
use super::{Api, read};
use crate::call::{Call, CloseReason, Context, Outcome, Parked, Peer, ReplyTo, Session};
use crate::fetch_session::{FetchChange, FetchPartition, FetchScope, TopicKey, Wanted};
use crate::host::HostedPartition;

/// See the module.
pub const API: Api = Api::new(ApiKey::Fetch, 4..=18, handle);

/// A fetch that waits for data.
struct ParkedFetch {
    deadline: Duration,
    reply: ReplyTo,
    scope: FetchScope,
    terms: Terms,
    /// Where the reader is, if it may be sent to somebody there.
    rack: Option<Box<str>>,
    /// Partitions that were not there when it began to wait; `None` before it does.
    absent: Option<usize>,
}

/// What a client asks of the whole answer.
#[derive(Clone, Copy)]
struct Terms {
    bytes_min: u64,
    bytes_max: u64,
    committed_only: bool,
    reader: Reader,
}

/// What a pass over the partitions found, in the order of the scope.
struct Gathered {
    found: Vec<Found>,
    bytes: u64,
    absent: usize,
    /// Something that a client should hear of at once.
    urgent: bool,
    /// Of them those that count towards what a follower may be filled with.
    throttled_bytes: u64,
    /// Until when something is kept back that a follower lacks.
    kept_until: Option<Duration>,
}

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: FetchRequest<'_> = read(call, body)?;
    let reader = match reader(&request, call) {
        Ok(reader) => reader,
        Err(code) => return refuse(call.reply, code),
    };
    let wanted = request.topics.iter().map(|topic| topic.partitions.len() + 1);
    let forgotten = request.forgotten_topics_data.iter().map(|topic| topic.partitions.len() + 1);
    super::check_entries(wanted.chain(forgotten).sum())?;
    let Some(change) = change(&request, call.reply.version) else {
        return refuse(call.reply, ErrorCode::InvalidTopicException);
    };
    let begun = call.session.fetch.begin(change, call.context.host.fetch_sessions());
    let scope = match begun {
        Ok(scope) => scope,
        Err(code) => return refuse(call.reply, code),
    };
    let bytes = |asked: i32| u64::try_from(asked).unwrap_or(0);
    let bytes_max = bytes(request.max_bytes).min(call.context.settings.fetch_bytes_max.into());
    let terms = Terms {
        bytes_min: bytes(request.min_bytes).min(bytes_max),
        bytes_max,
        committed_only: request.isolation_level == 1,
        reader,
    };
    let may_move = call.context.settings.reads_in_rack && reader == Reader::Nearby;
    let rack = Some(request.rack_id).filter(|rack| may_move && !rack.is_empty()).map(Box::from);
    let patience = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let deadline = call.context.now.elapsed.saturating_add(patience);
    let parked = Box::new(ParkedFetch { deadline, reply: call.reply, scope, terms, rack, absent: None });
    Ok(parked.look(call.context, call.session))
}

/// Who reads. Only nodes of the cluster fetch as replicas, and each for itself (CVE-2018-1288).
fn reader(request: &FetchRequest<'_>, call: &Call<'_>) -> Result<Reader, ErrorCode> {
    let (replica, epoch) = match request.replica_state.replica_id {
        -1 => (request.replica_id, -1),
        replica => (replica, request.replica_state.replica_epoch),
    };
    match call.session.peer {
        // Who says where it is may be sent to a replica that is closer; so may those that know how (KIP-392).
        _ if replica < 0 && call.reply.version >= 11 => Ok(Reader::Nearby),
        _ if replica < 0 => Ok(Reader::Consumer),
        Peer::Node(node) if node.0 == replica => {
            Ok(Reader::Follower(FollowerId { broker: node, epoch: BrokerEpoch(epoch) }))
        }
        Peer::Node(_) | Peer::Client => Err(ErrorCode::ClusterAuthorizationFailed),
    }
}

/// `None` if a topic's name is none: it would be kept as long as the session.
fn change(request: &FetchRequest<'_>, version: i16) -> Option<FetchChange> {
    let key = |name: &str, id: Uuid| match version >= 13 {
        true => Some(TopicKey::Id(id)),
        false => TopicName::new(name).ok().map(TopicKey::Name),
    };
    let (mut partitions, mut forgotten) = (Vec::new(), Vec::new());
    for topic in &request.topics {
        let key = key(topic.topic, topic.topic_id)?;
        partitions.extend(topic.partitions.iter().map(|part| {
            let wanted = Wanted {
                current_leader_epoch: part.current_leader_epoch,
                fetch_offset: part.fetch_offset,
                last_fetched_epoch: part.last_fetched_epoch,
                log_start_offset: part.log_start_offset,
                bytes_max: part.partition_max_bytes,
            };
            (key.clone(), part.partition, wanted)
        }));
    }
    for topic in &request.forgotten_topics_data {
        let key = key(topic.topic, topic.topic_id)?;
        forgotten.extend(topic.partitions.iter().map(|part| (key.clone(), *part)));
    }
    // Before v7 there were no sessions: the default epoch says so.
    let (session_id, session_epoch) = (request.session_id, request.session_epoch);
    Some(FetchChange { session_id, session_epoch, partitions, forgotten })
}

/// Whether the reader is told that what it read last is not here. A reader then goes back or skips, and a leader that
/// may be one no more must not have it do so: others have more.
fn says_it_is_gone(result: &Result<Fetched, FetchError>) -> bool {
    match result {
        Ok(fetched) => fetched.diverging.is_some(),
        Err(FetchError::OutOfRange { from, start, .. }) => from >= start,
        Err(_) => false,
    }
}

/// An answer has an error of its own from v7 on.
fn refuse(reply: ReplyTo, code: ErrorCode) -> Result<Outcome, CloseReason> {
    if reply.version < 7 {
        return Err(CloseReason::Refused { key: reply.key, version: reply.version, code });
    }
    Ok(reply.answer(&FetchResponse { error_code: code.code(), ..FetchResponse::default() }))
}

impl Parked for ParkedFetch {
    fn key(&self) -> ApiKey {
        ApiKey::Fetch
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn bytes(&self) -> usize {
        self.rack.as_ref().map_or(0, |rack| rack.len())
            + self.scope.partitions.capacity() * size_of::<FetchPartition>()
            + self.scope.partitions.iter().map(|part| part.topic.bytes()).sum::<usize>()
    }

    /// Answers if there is enough to say, or the time is up.
    fn look(mut self: Box<Self>, context: Context<'_>, session: &mut Session) -> Outcome {
        let is_new = self.absent.is_none();
        let mut gathered = self.gather(&context);
        // Then there is something to say.
        self.deadline = gathered.kept_until.map_or(self.deadline, |until| until.min(self.deadline));
        if !self.must_answer(&context, &gathered) {
            self.absent = Some(gathered.absent);
            if !self.wait(&context, session, &gathered) {
                return Outcome::Parked(self);
            }
            // Data came between the look and the wait.
            gathered = self.gather(&context);
            if !self.must_answer(&context, &gathered) {
                return Outcome::Parked(self);
            }
        }
        if self.absent.is_some() {
            self.leave(&context, session);
            if is_new {
                // An earlier fetch of this connection may wait at the same partitions, and they know
                // the connection only: it looks again, and waits again.
                session.waiter.bell.wake();
            }
        }
        self.answer(&context, session, gathered)
    }

    fn abandon(self: Box<Self>, context: Context<'_>, session: &Session) {
        self.leave(&context, session);
    }
}

impl ParkedFetch {
    fn must_answer(&self, context: &Context<'_>, gathered: &Gathered) -> bool {
        gathered.urgent
            || gathered.bytes >= self.terms.bytes_min
            || context.now.elapsed >= self.deadline
            // Nothing to wait for, or something has gone while it waited.
            || gathered.absent == gathered.found.len()
            || self.absent.is_some_and(|before| before != gathered.absent)
    }

    fn gather(&self, context: &Context<'_>) -> Gathered {
        let found = Vec::with_capacity(self.scope.partitions.len());
        let mut gathered =
            Gathered { found, bytes: 0, absent: 0, urgent: false, throttled_bytes: 0, kept_until: None };
        let limit = self.limit(context);
        for part in &self.scope.partitions {
            let throttled = limit.as_ref().filter(|limit| limit.applies(context, part));
            let kept_until = throttled.and_then(|limit| limit.until);
            let left = self.terms.bytes_max.saturating_sub(gathered.bytes);
            let left = if kept_until.is_some() { 0 } else { left };
            let found = match self.find(context, part, left, gathered.bytes == 0 && kept_until.is_none()) {
                Ok(fetched) => Found::Read(fetched),
                Err(found) => found,
            };
            gathered.kept_until = kept_until.or(gathered.kept_until);
            match &found {
                Found::Read(fetched) => {
                    gathered.bytes += fetched.bytes();
                    gathered.throttled_bytes += if throttled.is_some() { fetched.bytes() } else { 0 };
                    gathered.urgent |= fetched.diverging.is_some() || self.is_news(part, fetched);
                }
                Found::Absent(_) => {
                    gathered.absent += 1;
                    gathered.urgent |= matches!(self.terms.reader, Reader::Follower(_));
                }
                Found::Elsewhere(..) | Found::Error(_) | Found::Outside(..) => gathered.urgent = true,
            }
            gathered.found.push(found);
        }
        gathered
    }

    /// What a follower may be filled with, if somebody limits it.
    fn limit(&self, context: &Context<'_>) -> Option<Limit> {
        let Reader::Follower(follower) = self.terms.reader else { return None };
        let mut limit = None;
        context.host.leader_throttle(&mut |throttle| {
            limit = Some(Limit { follower, until: throttle.until(context.now) });
        });
        limit
    }

    /// Whether a follower is to hear at once how far the log is committed, and where it starts: consumers may read from
    /// it, and it may have to lead (KIP-1166). Without a session it is not known what it was told.
    fn is_news(&self, part: &FetchPartition, fetched: &Fetched) -> bool {
        matches!(self.terms.reader, Reader::Follower(_))
            && self.scope.session_id != 0
            && part.told.is_none_or(|told| {
                told.high_watermark != fetched.high_watermark.0
                    || told.log_start_offset != fetched.log_start.0
            })
    }

    fn find(
        &self,
        context: &Context<'_>,
        part: &FetchPartition,
        left: u64,
        first: bool,
    ) -> Result<Fetched, Found> {
        let version = self.reply.version;
        let hosted = hosted(context, part).map_err(|found| found.known_to(version))?;
        if version < 10 && hosted.settings().compression == CompressionType::Zstd {
            return Err(Found::Error(ErrorCode::UnsupportedCompressionType));
        }
        let wanted = &part.wanted;
        let (now, reader) = (context.now, self.terms.reader);
        let fetch = Fetch {
            reader,
            from: Offset(wanted.fetch_offset),
            current_epoch: LeaderEpoch(wanted.current_leader_epoch),
            last_epoch: LeaderEpoch(wanted.last_fetched_epoch),
            bytes_max: u64::try_from(wanted.bytes_max).unwrap_or(0).min(left),
            at_least_one: first,
            committed_only: self.terms.committed_only,
            log_start: Offset(wanted.log_start_offset),
            is_again: self.absent.is_some(),
        };
        let mut result = None;
        hosted.step(&mut |hosted, out| {
            let fetched = hosted.with(out, |partition, out| partition.fetch(now, &fetch, out));
            let sent_to = match (&fetched, &self.rack) {
                (Ok(Fetched { diverging: None, .. }), Some(rack)) => {
                    nearest(context, &hosted.partition, rack, fetch.from)
                }
                _ => None,
            };
            result = Some((fetched, sent_to));
        });
        let (result, sent_to) = result.expect("step runs its action");
        let is_client = !matches!(reader, Reader::Follower(_));
        if is_client && says_it_is_gone(&result) && !context.host.is_in_touch(now) {
            return Err(Found::Error(ErrorCode::NotLeaderOrFollower).known_to(version));
        }
        let result = match (result, sent_to) {
            (Ok(marks), Some(id)) => {
                return Err(Found::Elsewhere(Fetched { slices: Vec::new(), aborted: None, ..marks }, id));
            }
            (result, _) => result,
        };
        result.map_err(|error| match (reader, error) {
            (Reader::Follower(_), FetchError::OutOfRange { start, end, .. }) => Found::Outside(start, end),
            (_, error) => Found::Error(crate::codes::fetch_error(&error)).known_to(version),
        })
    }

    /// Waits at every partition. Says whether one of them has moved, failed or gone since it was looked
    /// at: nobody is woken for what was before the wait.
    fn wait(&self, context: &Context<'_>, session: &Session, gathered: &Gathered) -> bool {
        let mut moved = false;
        for (part, found) in self.scope.partitions.iter().zip(&gathered.found) {
            let Found::Read(fetched) = found else { continue };
            let Ok(hosted) = hosted(context, part) else {
                moved = true;
                continue;
            };
            hosted.step(&mut |hosted, _| {
                match self.terms.reader {
                    Reader::Consumer | Reader::Nearby => hosted.parked.await_data(session.waiter.clone()),
                    Reader::Follower(_) => {
                        hosted.parked.await_growth(session.waiter.clone());
                        let had_all = fetched.slices.is_empty();
                        moved |= had_all && hosted.partition.log().end().0 > part.wanted.fetch_offset;
                    }
                }
                moved |= hosted.partition.high_watermark() != fetched.high_watermark;
                moved |= hosted.partition.log().start() != fetched.log_start;
                // It may have been taken out of service since it was found here.
                moved |= hosted.partition.is_failed();
            });
        }
        moved
    }

    fn leave(&self, context: &Context<'_>, session: &Session) {
        for part in &self.scope.partitions {
            if let Ok(hosted) = hosted(context, part) {
                hosted.step(&mut |hosted, _| hosted.parked.leave_data(session.waiter.id));
            }
        }
    }

    fn answer(&self, context: &Context<'_>, session: &mut Session, gathered: Gathered) -> Outcome {
        let mut responses: Vec<FetchableTopicResponse<'_>> = Vec::new();
        let (mut slices, mut told, mut leaders) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (part, found) in self.scope.partitions.iter().zip(gathered.found) {
            let news = found.told();
            let (has_records, has_parted) = match &found {
                Found::Read(fetched) => (fetched.bytes() > 0, fetched.diverging.is_some()),
                Found::Elsewhere(..) | Found::Absent(_) | Found::Error(_) | Found::Outside(..) => {
                    (false, false)
                }
            };
            let is_sent_on = matches!(found, Found::Elsewhere(..));
            let is_silent = !has_records && !has_parted && !is_sent_on;
            if self.scope.incremental && is_silent && news.is_some() && news == part.told {
                continue;
            }
            if let Some(news) = news.filter(|_| self.scope.session_id != 0) {
                // Who has to cut its log takes in nothing else.
                let news = Some(news).filter(|_| !has_parted);
                told.push((part.topic.clone(), part.partition, news, has_records));
            }
            let current_leader = self.hint(context, part, &found, &mut leaders);
            let response = PartitionData { current_leader, ..found.response(part.partition, &mut slices) };
            match responses.last_mut() {
                Some(last) if names(last, &part.topic) => last.partitions.push(response),
                _ => responses.push(topic_response(&part.topic, response)),
            }
        }
        session.fetch.answered(self.scope.session_id, &told);
        if gathered.throttled_bytes > 0 {
            let (now, bytes) = (context.now, gathered.throttled_bytes);
            context.host.leader_throttle(&mut |throttle| throttle.charge(now, bytes));
        }
        let node_endpoints = super::endpoints(context, &leaders)
            .into_iter()
            .map(|(broker, endpoint)| NodeEndpoint {
                node_id: broker.id.0,
                host: &endpoint.host,
                port: endpoint.port.into(),
                rack: broker.rack.as_deref(),
            })
            .collect();
        let session_id = self.scope.session_id;
        let response = FetchResponse { session_id, responses, node_endpoints, ..FetchResponse::default() };
        self.reply.answer_with(&response, slices)
    }

    /// Where to ask instead, for those who asked the wrong broker or long ago.
    fn hint(
        &self,
        context: &Context<'_>,
        part: &FetchPartition,
        found: &Found,
        leaders: &mut BTreeSet<BrokerId>,
    ) -> LeaderIdAndEpoch {
        let has_moved =
            matches!(found, Found::Error(ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch));
        let topic = (self.reply.version >= 16 && has_moved).then(|| topic_id(context, &part.topic)).flatten();
        let leader = topic.and_then(|id| super::leader_of(context, id, PartitionIndex(part.partition)));
        leader.map_or_else(LeaderIdAndEpoch::default, |(leader, epoch)| {
            leaders.insert(leader);
            LeaderIdAndEpoch { leader_id: leader.0, leader_epoch: epoch.0 }
        })
    }
}

/// What a follower may be filled with.
struct Limit {
    follower: FollowerId,
    /// Until when it is given nothing more.
    until: Option<Duration>,
}

impl Limit {
    /// Only who is not in sync is held back: whoever waits for acknowledgements waits for the others.
    fn applies(&self, context: &Context<'_>, part: &FetchPartition) -> bool {
        let index = PartitionIndex(part.partition);
        let id = topic_id(context, &part.topic);
        let Some(partition) = id.and_then(|id| context.image.partition(id, index)) else { return false };
        !partition.isr.contains(&self.follower.broker)
            && hosted(context, part)
                .is_ok_and(|hosted| hosted.settings().leader_throttled.include(index, context.node))
    }
}

fn names(response: &FetchableTopicResponse<'_>, key: &TopicKey) -> bool {
    match key {
        TopicKey::Name(name) => response.topic == name.as_str(),
        TopicKey::Id(id) => response.topic_id == *id,
    }
}

fn topic_response<'a>(key: &'a TopicKey, first: PartitionData<'a>) -> FetchableTopicResponse<'a> {
    let (topic, topic_id) = match key {
        TopicKey::Name(name) => (name.as_str(), Uuid::ZERO),
        TopicKey::Id(id) => ("", *id),
    };
    FetchableTopicResponse { topic, topic_id, partitions: vec![first] }
}

fn topic_id(context: &Context<'_>, key: &TopicKey) -> Option<TopicId> {
    let topic = match key {
        TopicKey::Name(name) => context.image.topic(name.as_str()),
        TopicKey::Id(id) => context.image.topic_by_id(TopicId(*id)),
    };
    topic.map(|topic| topic.id)
}

fn hosted(context: &Context<'_>, part: &FetchPartition) -> Result<Arc<dyn HostedPartition>, Found> {
    let unknown = || match &part.topic {
        TopicKey::Name(_) => Found::Absent(ErrorCode::UnknownTopicOrPartition),
        TopicKey::Id(_) => Found::Absent(ErrorCode::UnknownTopicId),
    };
    let topic = topic_id(context, &part.topic).ok_or_else(unknown)?;
    let partition = PartitionIndex(part.partition);
    let hosted = context.host.partition(topic, partition);
    hosted.ok_or_else(|| match super::metadata::absence(context, topic, partition) {
        code @ ErrorCode::UnknownTopicOrPartition => Found::Absent(code),
        code => Found::Error(code),
    })
}
