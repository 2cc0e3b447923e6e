//! Produce · key 0 · v3..=v13
//!
//! v9 flexible · v10 leader hints (KIP-951) · v12 implicit transaction partitions (KIP-890) ·
//! v13 topic ids (KIP-516). Versions 0 to 2 are advertised but not served: librdkafka takes a broker
//! without them for one that cannot compress (KAFKA-18659).

use std::collections::BTreeSet;
use std::time::Duration;

use base::{BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionIndex, TimestampMs, TopicId, Uuid};
use metadata::settings::{CompressionType, TimestampType, TopicSettings, is_internal};
use records::{BatchError, BatchLimits, CheckedBatch, Compression, DecompressBound};
use replica::{AppendError, Appended};
use wire::messages::produce::{
    LeaderIdAndEpoch, NodeEndpoint, PartitionProduceData, PartitionProduceResponse, ProduceRequest,
    ProduceResponse, TopicProduceResponse,
};
use wire::{ApiKey, Decoder, Records};

use super::{Api, read};
use crate::call::{Call, CloseReason, Context, Outcome, Parked, ReplyTo, Session};
use crate::host::HostedPartition;

/// See the module.
pub const API: Api = Api::new(ApiKey::Produce, 3..=13, handle).advertised_from(0);

const ACKS_ALL: i16 = -1;
const ACKS_NONE: i16 = 0;
/// The client that may write where brokers keep their books, as in Kafka: for repairs by hand.
const ADMIN_CLIENT: &str = "__admin_client";

/// A produce request whose records are appended but not all committed.
struct ParkedProduce {
    deadline: Duration,
    reply: ReplyTo,
    topics: Vec<TopicOutcome>,
    waits: Vec<Wait>,
}

struct Wait {
    topic: TopicId,
    partition: PartitionIndex,
    end: Offset,
    epoch: LeaderEpoch,
    /// Where its outcome is: topic and partition within the answer.
    place: (usize, usize),
}

struct TopicOutcome {
    name: Box<str>,
    id: Uuid,
    partitions: Vec<PartOutcome>,
}

struct PartOutcome {
    index: i32,
    result: Result<Placed, Refused>,
}

#[derive(Clone, Copy)]
struct Placed {
    base_offset: Offset,
    log_append_time: TimestampMs,
    log_start: Offset,
}

struct Refused {
    code: ErrorCode,
    message: Option<String>,
}

/// What the answer to acks=all has to wait for.
enum Committed {
    Yes,
    /// Up to where, and in which leadership: what another leader has there is another record.
    Once(Offset, LeaderEpoch),
}

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: ProduceRequest<'_> = read(call, body)?;
    super::check_entries(request.topic_data.iter().map(|topic| topic.partition_data.len() + 1).sum())?;
    let acks_known = (ACKS_ALL..=1).contains(&request.acks);
    let mut topics = Vec::with_capacity(request.topic_data.len());
    let mut waits = Vec::new();
    for data in &request.topic_data {
        let (topic, unknown) = find_topic(&call.context, call.reply.version, data.name, data.topic_id);
        let mut partitions = Vec::with_capacity(data.partition_data.len());
        for part in &data.partition_data {
            let result = match topic {
                _ if !acks_known => Err(Refused::because(ErrorCode::InvalidRequiredAcks)),
                None => Err(Refused::because(unknown)),
                Some(id) => append(call, id, part, request.acks),
            };
            if let Ok((_, Committed::Once(end, epoch))) = result
                && let Some(topic) = topic
            {
                let place = (topics.len(), partitions.len());
                waits.push(Wait { topic, partition: PartitionIndex(part.index), end, epoch, place });
            }
            partitions.push(PartOutcome { index: part.index, result: result.map(|(placed, _)| placed) });
        }
        topics.push(TopicOutcome { name: data.name.into(), id: data.topic_id, partitions });
    }
    Ok(finish(call, &request, topics, waits))
}

fn finish(
    call: &Call<'_>,
    request: &ProduceRequest<'_>,
    topics: Vec<TopicOutcome>,
    waits: Vec<Wait>,
) -> Outcome {
    if request.acks == ACKS_NONE {
        let failed = topics.iter().flat_map(|t| &t.partitions).find_map(|part| part.result.as_ref().err());
        return failed
            .map_or(Outcome::Silent, |refused| Outcome::Close(CloseReason::SilentFailure(refused.code)));
    }
    if waits.is_empty() {
        return answer(&call.context, call.reply, &topics);
    }
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let deadline = call.context.now.elapsed.saturating_add(timeout);
    Outcome::Parked(Box::new(ParkedProduce { deadline, reply: call.reply, topics, waits }))
}

/// The topic a request names, and the code that says it is unknown.
fn find_topic(context: &Context<'_>, version: i16, name: &str, id: Uuid) -> (Option<TopicId>, ErrorCode) {
    if version >= 13 {
        let topic = context.image.topic_by_id(TopicId(id)).map(|topic| topic.id);
        return (topic, ErrorCode::UnknownTopicId);
    }
    (context.image.topic(name).map(|topic| topic.id), ErrorCode::UnknownTopicOrPartition)
}

fn append(
    call: &mut Call<'_>,
    topic: TopicId,
    part: &PartitionProduceData<'_>,
    acks: i16,
) -> Result<(Placed, Committed), Refused> {
    let partition = PartitionIndex(part.index);
    let is_ours = call.context.image.topic_by_id(topic).is_some_and(|it| is_internal(it.name.as_str()));
    if is_ours && call.client_id != ADMIN_CLIENT {
        let message = "only brokers write to internal topics".to_owned();
        return Err(Refused { code: ErrorCode::InvalidTopicException, message: Some(message) });
    }
    let Some(hosted) = call.context.host.partition(topic, partition) else {
        return Err(Refused::because(super::metadata::absence(&call.context, topic, partition)));
    };
    if !hosted.has_room() {
        let message = "the log directory has no room but what is kept back for deletions".to_owned();
        return Err(Refused { code: ErrorCode::KafkaStorageError, message: Some(message) });
    }
    let Some(Records::Bytes(raw)) = part.records else {
        return Err(Refused::because(ErrorCode::CorruptMessage));
    };
    let settings = hosted.settings();
    let limits = limits(&settings);
    let batch = CheckedBatch::check(raw, &limits, call.scratch)?;
    if batch.compression() == Compression::Zstd && call.reply.version < 7 {
        let message = "zstd is for Produce requests of version 7 and later".to_owned();
        return Err(Refused { code: ErrorCode::UnsupportedCompressionType, message: Some(message) });
    }
    check_topic(call, &settings, &batch)?;
    let mut recompressed = Vec::new();
    let batch = match recompression(&settings, &batch) {
        None => batch,
        Some(to) => {
            batch.recompress(to, settings.compression_level, &limits, call.scratch, &mut recompressed)?
        }
    };
    store(call, hosted.as_ref(), &batch, acks)
}

fn store(
    call: &Call<'_>,
    hosted: &dyn HostedPartition,
    batch: &CheckedBatch<'_>,
    acks: i16,
) -> Result<(Placed, Committed), Refused> {
    let now = call.context.now;
    let mut result = None;
    hosted.append_step(&mut |hosted, out| {
        let appended = hosted.with(out, |partition, out| partition.append(now, batch, acks == ACKS_ALL, out));
        result = Some(appended.map(|appended| {
            let end = appended.last_offset.next();
            let waits = acks == ACKS_ALL && hosted.partition.high_watermark() < end;
            if waits {
                hosted.parked.await_commit(end, call.session.waiter.clone());
            }
            let committed =
                if waits { Committed::Once(end, hosted.partition.epoch()) } else { Committed::Yes };
            (Placed::from(&appended), committed)
        }));
    });
    result.expect("step runs its action").map_err(Refused::from)
}

/// What a compressed batch may grow to while it is checked: memory of the thread that serves its
/// connection, which a bomb takes whole. Producers bound a batch before they compress it, by
/// `batch.size` and `max.request.size`, so what they send stays far below.
const DECOMPRESSED: DecompressBound =
    DecompressBound { floor_bytes: 16 << 20, ratio: 32, ceiling_bytes: DecompressBound::CEILING_BYTES };

fn limits(settings: &TopicSettings) -> BatchLimits {
    BatchLimits {
        batch_bytes_max: settings.message_bytes_max as usize,
        decompressed: DECOMPRESSED,
        decompressed_record_bytes_max: settings.message_decompressed_bytes_max as usize,
        keys_required: settings.cleanup.compact,
        ..BatchLimits::default()
    }
}

/// What a topic's settings ask of a batch that is well-formed.
fn check_topic(call: &Call<'_>, settings: &TopicSettings, batch: &CheckedBatch<'_>) -> Result<(), Refused> {
    if batch.header().attributes.is_transactional() {
        let message = "transactions are not served by this node".to_owned();
        return Err(Refused { code: ErrorCode::InvalidTxnState, message: Some(message) });
    }
    if settings.timestamp_type == TimestampType::LogAppendTime {
        return Ok(());
    }
    let (wall, times) = (call.context.now.wall, batch.times());
    let Some(oldest) = times.min else {
        return Ok(());
    };
    let newest = times.max;
    let too_old = settings.timestamp_before_max.is_some_and(|max| wall.saturating_since(oldest) > max);
    let too_new = newest.saturating_since(wall) > settings.timestamp_after_max;
    if too_old || too_new {
        let message = format!(
            "timestamps from {oldest} to {newest} are out of range: message.timestamp.before.max.ms and \
             message.timestamp.after.max.ms of the topic bound them, and the broker's clock is at {wall}"
        );
        return Err(Refused { code: ErrorCode::InvalidTimestamp, message: Some(message) });
    }
    Ok(())
}

/// The codec to store a batch in, if it is not the one it came in.
fn recompression(settings: &TopicSettings, batch: &CheckedBatch<'_>) -> Option<Compression> {
    let to = match settings.compression {
        CompressionType::Producer => return None,
        CompressionType::Uncompressed => Compression::None,
        CompressionType::Gzip => Compression::Gzip,
        CompressionType::Snappy => Compression::Snappy,
        CompressionType::Lz4 => Compression::Lz4,
        CompressionType::Zstd => Compression::Zstd,
    };
    (to != batch.compression()).then_some(to)
}

impl Parked for ParkedProduce {
    fn key(&self) -> ApiKey {
        ApiKey::Produce
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn bytes(&self) -> usize {
        let topic = |topic: &TopicOutcome| {
            size_of::<TopicOutcome>()
                + topic.name.len()
                + topic.partitions.capacity() * size_of::<PartOutcome>()
        };
        self.topics.iter().map(topic).sum::<usize>() + self.waits.capacity() * size_of::<Wait>()
    }

    /// Answers once everything is committed, or the time is up.
    fn look(mut self: Box<Self>, context: Context<'_>, session: &mut Session) -> Outcome {
        let topics = &mut self.topics;
        let is_late = context.now.elapsed >= self.deadline;
        self.waits.retain_mut(|wait| {
            let outcome = &mut topics[wait.place.0].partitions[wait.place.1].result;
            let Some(hosted) = context.host.partition(wait.topic, wait.partition) else {
                *outcome = Err(Refused::because(ErrorCode::NotLeaderOrFollower));
                return false;
            };
            let mut waits_on = false;
            hosted.step(&mut |hosted, _| {
                if hosted.partition.led_since().is_none_or(|since| since > wait.epoch) {
                    // What another leader has at its place need not be it.
                    *outcome = Err(Refused::because(ErrorCode::NotLeaderOrFollower));
                    return;
                }
                if hosted.partition.high_watermark() >= wait.end {
                    return;
                }
                if hosted.partition.is_failed() {
                    *outcome = Err(Refused::because(ErrorCode::KafkaStorageError));
                } else if is_late {
                    hosted.parked.leave_commit(wait.end, session.waiter.id);
                    *outcome = Err(Refused::because(ErrorCode::RequestTimedOut));
                } else {
                    waits_on = true;
                    if hosted.partition.epoch() != wait.epoch {
                        // Who waited for the leadership before was sent to look, and is not listed any more.
                        wait.epoch = hosted.partition.epoch();
                        hosted.parked.await_commit(wait.end, session.waiter.clone());
                    }
                }
            });
            waits_on
        });
        if self.waits.is_empty() {
            return answer(&context, self.reply, &self.topics);
        }
        Outcome::Parked(self)
    }

    fn abandon(self: Box<Self>, context: Context<'_>, session: &Session) {
        for wait in &self.waits {
            if let Some(hosted) = context.host.partition(wait.topic, wait.partition) {
                hosted.step(&mut |hosted, _| hosted.parked.leave(session.waiter.id));
            }
        }
    }
}

fn answer(context: &Context<'_>, reply: ReplyTo, topics: &[TopicOutcome]) -> Outcome {
    let mut leaders = BTreeSet::new();
    let mut responses = Vec::with_capacity(topics.len());
    for topic in topics {
        let partition_responses = topic
            .partitions
            .iter()
            .map(|part| {
                let current_leader = hint(context, reply.version, topic, part, &mut leaders);
                PartitionProduceResponse { current_leader, ..part.response() }
            })
            .collect();
        responses.push(TopicProduceResponse { name: &topic.name, topic_id: topic.id, partition_responses });
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
    reply.answer(&ProduceResponse { responses, node_endpoints, ..ProduceResponse::default() })
}

/// Where to send the records instead, for those who sent them to the wrong broker.
fn hint(
    context: &Context<'_>,
    version: i16,
    topic: &TopicOutcome,
    part: &PartOutcome,
    leaders: &mut BTreeSet<BrokerId>,
) -> LeaderIdAndEpoch {
    let is_elsewhere = matches!(&part.result, Err(refused) if refused.code == ErrorCode::NotLeaderOrFollower);
    if version < 10 || !is_elsewhere {
        return LeaderIdAndEpoch::default();
    }
    let (id, _) = find_topic(context, version, &topic.name, topic.id);
    let leader = id.and_then(|id| super::leader_of(context, id, PartitionIndex(part.index)));
    leader.map_or_else(LeaderIdAndEpoch::default, |(leader, epoch)| {
        leaders.insert(leader);
        LeaderIdAndEpoch { leader_id: leader.0, leader_epoch: epoch.0 }
    })
}

impl PartOutcome {
    fn response(&self) -> PartitionProduceResponse<'_> {
        let empty = PartitionProduceResponse { index: self.index, base_offset: -1, ..Default::default() };
        match &self.result {
            Ok(placed) => PartitionProduceResponse {
                base_offset: placed.base_offset.0,
                log_append_time_ms: placed.log_append_time.0,
                log_start_offset: placed.log_start.0,
                ..empty
            },
            Err(refused) => PartitionProduceResponse {
                error_code: refused.code.code(),
                error_message: refused.message.as_deref(),
                ..empty
            },
        }
    }
}

impl From<&Appended> for Placed {
    fn from(appended: &Appended) -> Self {
        Self {
            base_offset: appended.base_offset,
            log_append_time: appended.log_append_time,
            log_start: appended.log_start,
        }
    }
}

impl Refused {
    fn because(code: ErrorCode) -> Self {
        Self { code, message: None }
    }
}

impl From<BatchError> for Refused {
    fn from(error: BatchError) -> Self {
        Self { code: error.error_code(), message: Some(error.to_string()) }
    }
}

impl From<AppendError> for Refused {
    fn from(error: AppendError) -> Self {
        Self { code: crate::codes::append_error(&error), message: Some(error.to_string()) }
    }
}
