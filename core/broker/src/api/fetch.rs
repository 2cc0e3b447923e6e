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
//! Records are not read here: the answer has holes, and the edge fills them from the files.

use std::sync::Arc;
use std::time::Duration;

use base::{ErrorCode, LeaderEpoch, Offset, PartitionIndex, TopicId, Uuid};
use replica::{Fetch, FetchError, Fetched};
use storage::FileSlice;
use wire::messages::fetch::{
    AbortedTransaction, EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData,
};
use wire::{ApiKey, DecodeError, Decoder, Records};

use super::{Api, read};
use crate::call::{Call, Context, Outcome, Parked, ReplyTo, Session};
use crate::fetch_session::{FetchChange, FetchPartition, FetchScope, Told, TopicKey, Wanted};
use crate::host::HostedPartition;

/// See the module.
pub const API: Api = Api::new(ApiKey::Fetch, 4..=18, handle);

/// A fetch that waits for data.
struct ParkedFetch {
    deadline: Duration,
    reply: ReplyTo,
    scope: FetchScope,
    terms: Terms,
}

/// What a client asks of the whole answer.
#[derive(Clone, Copy)]
struct Terms {
    bytes_min: u64,
    bytes_max: u64,
    committed_only: bool,
}

/// What there is to say of one partition.
enum Found {
    Read(Fetched),
    Diverged { epoch: LeaderEpoch, end: Offset },
    Error(ErrorCode),
}

/// What a pass over the partitions found, in the order of the scope.
struct Gathered {
    found: Vec<Found>,
    bytes: u64,
    /// Something that a client should hear of at once.
    urgent: bool,
}

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, DecodeError> {
    let request: FetchRequest<'_> = read(call, body)?;
    if request.replica_id >= 0 || request.replica_state.replica_id >= 0 {
        // Only brokers fetch as replicas (CVE-2018-1288), and this node has no followers.
        return Ok(whole_error(call.reply, ErrorCode::ClusterAuthorizationFailed));
    }
    let host = call.context.host;
    let had = call.session.fetch.is_live();
    let mut began = false;
    let begun = call.session.fetch.begin(change(&request, call.reply.version), || {
        let id = host.fetch_session_begin();
        began = id.is_some();
        id
    });
    let ended = usize::from(had) + usize::from(began) - usize::from(call.session.fetch.is_live());
    (0..ended).for_each(|_| host.fetch_session_end());
    let scope = match begun {
        Ok(scope) => scope,
        Err(code) => return Ok(whole_error(call.reply, code)),
    };
    let terms = Terms {
        bytes_min: u64::try_from(request.min_bytes).unwrap_or(0),
        bytes_max: u64::try_from(request.max_bytes)
            .unwrap_or(0)
            .min(call.context.settings.fetch_bytes_max.into()),
        committed_only: request.isolation_level == 1,
    };
    let patience = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
    let deadline = call.context.now.elapsed.saturating_add(patience);
    let parked = Box::new(ParkedFetch { deadline, reply: call.reply, scope, terms });
    Ok(parked.look(call.context, call.session))
}

fn change(request: &FetchRequest<'_>, version: i16) -> FetchChange {
    let by_id = version >= 13;
    let key = |name: &str, id: Uuid| if by_id { TopicKey::Id(id) } else { TopicKey::Name(name.into()) };
    let mut partitions = Vec::new();
    for topic in &request.topics {
        for part in &topic.partitions {
            let wanted = Wanted {
                current_leader_epoch: part.current_leader_epoch,
                fetch_offset: part.fetch_offset,
                last_fetched_epoch: part.last_fetched_epoch,
                bytes_max: part.partition_max_bytes,
            };
            partitions.push((key(topic.topic, topic.topic_id), part.partition, wanted));
        }
    }
    let mut forgotten = Vec::new();
    for topic in &request.forgotten_topics_data {
        forgotten.extend(topic.partitions.iter().map(|part| (key(topic.topic, topic.topic_id), *part)));
    }
    // Before v7 there were no sessions: the default epoch says so.
    FetchChange {
        session_id: request.session_id,
        session_epoch: request.session_epoch,
        partitions,
        forgotten,
    }
}

fn whole_error(reply: ReplyTo, code: ErrorCode) -> Outcome {
    reply.answer(&FetchResponse { error_code: code.code(), ..FetchResponse::default() })
}

impl Parked for ParkedFetch {
    fn key(&self) -> ApiKey {
        ApiKey::Fetch
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn bytes(&self) -> usize {
        self.scope.partitions.capacity() * size_of::<FetchPartition>()
            + self.scope.partitions.iter().map(|part| part.topic.bytes()).sum::<usize>()
    }

    /// Answers if there is enough to say, or the time is up.
    fn look(self: Box<Self>, context: Context<'_>, session: &mut Session) -> Outcome {
        let mut gathered = self.gather(&context);
        let must_answer = |gathered: &Gathered| {
            gathered.urgent || gathered.bytes >= self.terms.bytes_min || context.now.elapsed >= self.deadline
        };
        if !must_answer(&gathered) && !self.scope.partitions.is_empty() {
            if !self.wait(&context, session, &gathered) {
                return Outcome::Parked(self);
            }
            // Data came between the look and the wait.
            gathered = self.gather(&context);
            if !must_answer(&gathered) {
                return Outcome::Parked(self);
            }
        }
        self.leave(&context, session);
        self.answer(session, gathered)
    }

    fn abandon(self: Box<Self>, context: Context<'_>, session: &Session) {
        self.leave(&context, session);
    }
}

impl ParkedFetch {
    fn gather(&self, context: &Context<'_>) -> Gathered {
        let mut gathered =
            Gathered { found: Vec::with_capacity(self.scope.partitions.len()), bytes: 0, urgent: false };
        for part in &self.scope.partitions {
            let left = self.terms.bytes_max.saturating_sub(gathered.bytes);
            let found = self.find(context, part, left, gathered.bytes == 0);
            match &found {
                Found::Read(fetched) => gathered.bytes += fetched.bytes(),
                Found::Diverged { .. } | Found::Error(_) => gathered.urgent = true,
            }
            gathered.found.push(found);
        }
        gathered
    }

    fn find(&self, context: &Context<'_>, part: &FetchPartition, left: u64, first: bool) -> Found {
        let hosted = match hosted(context, part) {
            Ok(hosted) => hosted,
            Err(code) => return Found::Error(code),
        };
        let wanted = &part.wanted;
        let fetch = Fetch {
            from: Offset(wanted.fetch_offset),
            current_epoch: LeaderEpoch(wanted.current_leader_epoch),
            last_epoch: LeaderEpoch(wanted.last_fetched_epoch),
            bytes_max: u64::try_from(wanted.bytes_max).unwrap_or(0).min(left),
            at_least_one: first,
            committed_only: self.terms.committed_only,
        };
        let mut result = None;
        hosted.step(&mut |hosted, out| {
            result = Some(hosted.with(out, |partition, out| partition.fetch(&fetch, out)));
        });
        match result.expect("step runs its action") {
            Ok(fetched) => Found::Read(fetched),
            Err(FetchError::Diverged { epoch, end }) => Found::Diverged { epoch, end },
            Err(error) => Found::Error(super::fetch_error_code(&error)),
        }
    }

    /// Waits at every partition. Says whether one of them has moved since it was looked at.
    fn wait(&self, context: &Context<'_>, session: &Session, gathered: &Gathered) -> bool {
        let mut moved = false;
        for (part, found) in self.scope.partitions.iter().zip(&gathered.found) {
            let (Ok(hosted), Found::Read(fetched)) = (hosted(context, part), found) else {
                continue;
            };
            hosted.step(&mut |hosted, _| {
                hosted.parked.await_data(session.waiter.clone());
                moved |= hosted.partition.high_watermark() != fetched.high_watermark;
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

    fn answer(&self, session: &mut Session, gathered: Gathered) -> Outcome {
        let mut responses: Vec<FetchableTopicResponse<'_>> = Vec::new();
        let mut slices = Vec::new();
        let mut told = Vec::new();
        for (part, found) in self.scope.partitions.iter().zip(gathered.found) {
            let news = found.told();
            let has_records = matches!(&found, Found::Read(fetched) if fetched.bytes() > 0);
            if self.scope.incremental && !has_records && news.is_some() && news == part.told {
                continue;
            }
            if let Some(news) = news.filter(|_| self.scope.session_id != 0) {
                told.push((part.topic.clone(), part.partition, news, has_records));
            }
            let response = found.response(part.partition, &mut slices);
            match responses.last_mut() {
                Some(last) if names(last, &part.topic) => last.partitions.push(response),
                _ => responses.push(topic_response(&part.topic, response)),
            }
        }
        session.fetch.answered(self.scope.session_id, &told);
        let response =
            FetchResponse { session_id: self.scope.session_id, responses, ..FetchResponse::default() };
        self.reply.answer_with(&response, slices)
    }
}

fn names(response: &FetchableTopicResponse<'_>, key: &TopicKey) -> bool {
    match key {
        TopicKey::Name(name) => response.topic == &**name,
        TopicKey::Id(id) => response.topic_id == *id,
    }
}

fn topic_response<'a>(key: &'a TopicKey, first: PartitionData<'a>) -> FetchableTopicResponse<'a> {
    let (topic, topic_id) = match key {
        TopicKey::Name(name) => (&**name, Uuid::ZERO),
        TopicKey::Id(id) => ("", *id),
    };
    FetchableTopicResponse { topic, topic_id, partitions: vec![first] }
}

fn hosted(context: &Context<'_>, part: &FetchPartition) -> Result<Arc<dyn HostedPartition>, ErrorCode> {
    let topic = match &part.topic {
        TopicKey::Name(name) => {
            context.image.topic(name).map(|topic| topic.id).ok_or(ErrorCode::UnknownTopicOrPartition)?
        }
        TopicKey::Id(id) => {
            context.image.topic_by_id(TopicId(*id)).map(|topic| topic.id).ok_or(ErrorCode::UnknownTopicId)?
        }
    };
    let partition = PartitionIndex(part.partition);
    context
        .host
        .partition(topic, partition)
        .ok_or_else(|| super::metadata::absence(context, topic, partition))
}

impl Found {
    fn told(&self) -> Option<Told> {
        match self {
            Self::Read(fetched) => Some(Told {
                high_watermark: fetched.high_watermark.0,
                last_stable_offset: fetched.last_stable.0,
                log_start_offset: fetched.log_start.0,
            }),
            Self::Diverged { .. } | Self::Error(_) => None,
        }
    }

    fn response(self, partition_index: i32, slices: &mut Vec<FileSlice>) -> PartitionData<'static> {
        // Never null: librdkafka takes a null for a message set of -1 bytes.
        let nothing = Some(Records::Bytes(&[]));
        match self {
            Self::Read(fetched) => {
                let len = fetched.bytes();
                slices.extend(fetched.slices);
                PartitionData {
                    partition_index,
                    high_watermark: fetched.high_watermark.0,
                    last_stable_offset: fetched.last_stable.0,
                    log_start_offset: fetched.log_start.0,
                    aborted_transactions: fetched.aborted.map(|aborted| {
                        let entry = |(producer, first): (base::ProducerId, Offset)| AbortedTransaction {
                            producer_id: producer.0,
                            first_offset: first.0,
                        };
                        aborted.into_iter().map(entry).collect()
                    }),
                    records: match u32::try_from(len) {
                        Ok(len) if len > 0 => Some(Records::External { len }),
                        _ => nothing,
                    },
                    ..PartitionData::default()
                }
            }
            Self::Diverged { epoch, end } => PartitionData {
                partition_index,
                high_watermark: -1,
                aborted_transactions: None,
                diverging_epoch: EpochEndOffset { epoch: epoch.0, end_offset: end.0 },
                records: nothing,
                ..PartitionData::default()
            },
            Self::Error(code) => PartitionData {
                partition_index,
                error_code: code.code(),
                high_watermark: -1,
                // As captured from Kafka: no list if the partition is there, an empty one if not.
                aborted_transactions: (code != ErrorCode::OffsetOutOfRange).then(Vec::new),
                records: nothing,
                ..PartitionData::default()
            },
        }
    }
}
