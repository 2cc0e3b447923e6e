//! DeleteRecords · key 21 · v0..=v2
//!
//! v2 flexible. Moves the start of a log: -1 means up to the high watermark. Answered once the new
//! start is durable here, and everybody in sync has followed it: what a client was told is deleted does not come
//! back, neither with this leader nor with the next.
//!
//! A partition that a request names twice is answered once, and the last offset counts, as in Kafka.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{ErrorCode, LeaderEpoch, Offset, PartitionIndex, TopicId};
use wire::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopicResult,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Context, Outcome, Parked, ReplyTo, Session};

/// See the module.
pub const API: Api = Api::new(ApiKey::DeleteRecords, 0..=2, handle);

/// A request whose records are deleted, but may come back.
struct ParkedDelete {
    deadline: Duration,
    reply: ReplyTo,
    topics: Vec<Topic>,
    waits: Vec<Wait>,
}

/// A start that is not durable, or not that of all in sync. The connection waits at its partition, once for each of
/// these.
struct Wait {
    topic: TopicId,
    partition: PartitionIndex,
    start: Offset,
    /// The leadership that was asked: the next one knows nothing of it.
    epoch: LeaderEpoch,
    /// Where its outcome is: topic and partition within the answer.
    place: (usize, usize),
}

struct Topic {
    name: Box<str>,
    parts: Vec<Part>,
}

struct Part {
    index: i32,
    /// Where the log begins.
    result: Result<Offset, ErrorCode>,
}

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: DeleteRecordsRequest<'_> = read(call, body)?;
    super::check_entries(request.topics.iter().map(|topic| topic.partitions.len() + 1).sum())?;
    let mut upto = BTreeMap::new();
    for topic in &request.topics {
        upto.extend(topic.partitions.iter().map(|part| ((topic.name, part.partition_index), part.offset)));
    }
    let (mut topics, mut waits) = (Vec::with_capacity(request.topics.len()), Vec::new());
    for topic in &request.topics {
        let id = call.context.image.topic(topic.name).map(|topic| topic.id);
        let mut parts = Vec::new();
        for index in topic.partitions.iter().map(|part| part.partition_index) {
            let Some(upto) = upto.remove(&(topic.name, index)) else { continue };
            let partition = PartitionIndex(index);
            let result = match id {
                None => Err(ErrorCode::UnknownTopicOrPartition),
                Some(id) => delete(call, id, partition, upto),
            };
            if let (Ok(Deleted { start, is_done: false, epoch }), Some(topic)) = (&result, id) {
                let place = (topics.len(), parts.len());
                waits.push(Wait { topic, partition, start: *start, epoch: *epoch, place });
            }
            parts.push(Part { index, result: result.map(|deleted| deleted.start) });
        }
        topics.push(Topic { name: topic.name.into(), parts });
    }
    if waits.is_empty() {
        return Ok(answer(call.reply, &topics));
    }
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let deadline = call.context.now.elapsed.saturating_add(timeout);
    Ok(Outcome::Parked(Box::new(ParkedDelete { deadline, reply: call.reply, topics, waits })))
}

/// What came of a deletion so far.
struct Deleted {
    /// Where the log begins now.
    start: Offset,
    /// Whether that is for good: if not, the connection is woken when it is.
    is_done: bool,
    epoch: LeaderEpoch,
}

fn delete(
    call: &Call<'_>,
    topic: TopicId,
    partition: PartitionIndex,
    upto: i64,
) -> Result<Deleted, ErrorCode> {
    let absence = || super::metadata::absence(&call.context, topic, partition);
    let hosted = call.context.host.partition(topic, partition).ok_or_else(absence)?;
    let policy = hosted.settings().cleanup;
    if policy.compact && !policy.delete {
        return Err(ErrorCode::PolicyViolation);
    }
    let upto = match upto {
        -1 => None,
        offset => Some(Offset(offset)),
    };
    let (mut result, mut saved) = (None, true);
    hosted.step(&mut |hosted, out| {
        let deleted = hosted.with(out, |partition, out| partition.delete_records(upto, out));
        result = Some(deleted.map(|start| {
            saved = hosted.partition.start_saved() >= start;
            let is_done = hosted.deleted_upto() >= start;
            if !is_done {
                hosted.parked.await_start(start, call.session.waiter.clone());
            }
            Deleted { start, is_done, epoch: hosted.partition.epoch() }
        }));
    });
    let result = result.expect("step runs its action").map_err(|error| crate::codes::fetch_error(&error));
    if !saved {
        hosted.save_start();
    }
    result
}

impl Parked for ParkedDelete {
    fn key(&self) -> ApiKey {
        ApiKey::DeleteRecords
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn bytes(&self) -> usize {
        let topic = |topic: &Topic| {
            size_of::<Topic>() + topic.name.len() + topic.parts.capacity() * size_of::<Part>()
        };
        size_of::<Self>()
            + self.topics.iter().map(topic).sum::<usize>()
            + self.waits.capacity() * size_of::<Wait>()
    }

    /// Answers once no start goes back any more, or the time is up.
    fn look(mut self: Box<Self>, context: Context<'_>, session: &mut Session) -> Outcome {
        let topics = &mut self.topics;
        let is_late = context.now.elapsed >= self.deadline;
        self.waits.retain(|wait| {
            let result = &mut topics[wait.place.0].parts[wait.place.1].result;
            let Some(hosted) = context.host.partition(wait.topic, wait.partition) else {
                *result = Err(super::metadata::absence(&context, wait.topic, wait.partition));
                return false;
            };
            let mut waits_on = false;
            hosted.step(&mut |hosted, _| {
                if !hosted.partition.is_leader() || hosted.partition.epoch() != wait.epoch {
                    *result = Err(ErrorCode::NotLeaderOrFollower);
                    return;
                }
                if hosted.deleted_upto() >= wait.start {
                    return;
                }
                if hosted.partition.is_failed() {
                    *result = Err(ErrorCode::KafkaStorageError);
                } else if is_late {
                    hosted.parked.leave_start(wait.start, session.waiter.id);
                    *result = Err(ErrorCode::RequestTimedOut);
                } else {
                    waits_on = true;
                }
            });
            waits_on
        });
        if self.waits.is_empty() { answer(self.reply, &self.topics) } else { Outcome::Parked(self) }
    }

    fn abandon(self: Box<Self>, context: Context<'_>, session: &Session) {
        for wait in &self.waits {
            if let Some(hosted) = context.host.partition(wait.topic, wait.partition) {
                hosted.step(&mut |hosted, _| hosted.parked.leave(session.waiter.id));
            }
        }
    }
}

fn answer(reply: ReplyTo, topics: &[Topic]) -> Outcome {
    let topics = topics
        .iter()
        .map(|topic| DeleteRecordsTopicResult {
            name: &topic.name,
            partitions: topic.parts.iter().map(Part::response).collect(),
        })
        .collect();
    reply.answer(&DeleteRecordsResponse { topics, ..DeleteRecordsResponse::default() })
}

impl Part {
    fn response(&self) -> DeleteRecordsPartitionResult {
        let (low_watermark, code) = match self.result {
            Ok(start) => (start.0, ErrorCode::None),
            Err(code) => (-1, code),
        };
        DeleteRecordsPartitionResult { partition_index: self.index, low_watermark, error_code: code.code() }
    }
}
