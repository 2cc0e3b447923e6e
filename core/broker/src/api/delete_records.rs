//! DeleteRecords · key 21 · v0..=v2
//!
//! v2 flexible. Moves the start of a log: -1 means up to the high watermark. Answered once the new
//! start is durable: what a client was told is deleted does not come back.

use std::time::Duration;

use base::{ErrorCode, Offset, PartitionIndex};
use wire::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopicResult,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Context, Outcome, Parked, ReplyTo, Session};

/// See the module.
pub const API: Api = Api::new(ApiKey::DeleteRecords, 0..=2, handle);

/// A request whose records are deleted, but not durably so.
struct ParkedDelete {
    deadline: Duration,
    reply: ReplyTo,
    topics: Vec<Topic>,
}

struct Topic {
    name: Box<str>,
    parts: Vec<Part>,
}

struct Part {
    index: i32,
    /// Where the log begins, and whether that is durable.
    result: Result<(Offset, bool), ErrorCode>,
}

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: DeleteRecordsRequest<'_> = read(call, body)?;
    super::check_entries(request.topics.iter().map(|topic| topic.partitions.len() + 1).sum())?;
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let part = |part: &DeleteRecordsPartition| Part {
            index: part.partition_index,
            result: delete(call, topic.name, part).map(|start| (start, false)),
        };
        topics.push(Topic { name: topic.name.into(), parts: topic.partitions.iter().map(part).collect() });
    }
    let timeout = Duration::from_millis(u64::try_from(request.timeout_ms).unwrap_or(0));
    let deadline = call.context.now.elapsed.saturating_add(timeout);
    let parked = Box::new(ParkedDelete { deadline, reply: call.reply, topics });
    Ok(parked.look(call.context, call.session))
}

fn delete(call: &Call<'_>, topic: &str, part: &DeleteRecordsPartition) -> Result<Offset, ErrorCode> {
    let hosted = super::hosted_by_name(&call.context, topic, PartitionIndex(part.partition_index))?;
    let policy = hosted.settings().cleanup;
    if policy.compact && !policy.delete {
        return Err(ErrorCode::PolicyViolation);
    }
    let upto = match part.offset {
        -1 => None,
        offset => Some(Offset(offset)),
    };
    let mut result = None;
    hosted.step(&mut |hosted, out| {
        let deleted = hosted.with(out, |partition, out| partition.delete_records(upto, out));
        result = Some(deleted.map(|start| (start, hosted.start_saved() >= start)));
    });
    let (start, saved) =
        result.expect("step runs its action").map_err(|error| super::fetch_error_code(&error))?;
    if !saved {
        hosted.save_start();
    }
    Ok(start)
}

impl Parked for ParkedDelete {
    fn key(&self) -> ApiKey {
        ApiKey::DeleteRecords
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn bytes(&self) -> usize {
        let of =
            |topic: &Topic| size_of::<Topic>() + topic.name.len() + topic.parts.len() * size_of::<Part>();
        size_of::<Self>() + self.topics.iter().map(of).sum::<usize>()
    }

    /// Answers once every start is durable, or the time is up.
    fn look(mut self: Box<Self>, context: Context<'_>, session: &mut Session) -> Outcome {
        let is_late = context.now.elapsed >= self.deadline;
        let mut waits = false;
        for Topic { name, parts } in &mut self.topics {
            for part in parts {
                let Ok((start, false)) = part.result else { continue };
                part.result = look_at(&context, session, name, part.index, start);
                match part.result {
                    Ok((_, false)) if is_late => part.result = Err(ErrorCode::RequestTimedOut),
                    Ok((_, false)) => waits = true,
                    Ok((_, true)) | Err(_) => {}
                }
            }
        }
        if waits { Outcome::Parked(self) } else { answer(self.reply, &self.topics) }
    }

    fn abandon(self: Box<Self>, context: Context<'_>, session: &Session) {
        for Topic { name, parts } in &self.topics {
            for part in parts.iter().filter(|part| matches!(part.result, Ok((_, false)))) {
                if let Ok(hosted) = super::hosted_by_name(&context, name, PartitionIndex(part.index)) {
                    hosted.step(&mut |hosted, _| hosted.parked.leave(session.waiter.id));
                }
            }
        }
    }
}

/// Whether the start of the log is durable by now; if not, the connection is woken to look again.
fn look_at(
    context: &Context<'_>,
    session: &Session,
    topic: &str,
    index: i32,
    start: Offset,
) -> Result<(Offset, bool), ErrorCode> {
    let hosted = super::hosted_by_name(context, topic, PartitionIndex(index))?;
    let mut result = Ok((start, true));
    hosted.step(&mut |hosted, _| {
        if hosted.start_saved() >= start {
            return;
        }
        if hosted.partition.is_failed() {
            result = Err(ErrorCode::KafkaStorageError);
            return;
        }
        hosted.parked.await_start(start, session.waiter.clone());
        result = Ok((start, false));
    });
    result
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
            Ok((start, _)) => (start.0, ErrorCode::None),
            Err(code) => (-1, code),
        };
        DeleteRecordsPartitionResult { partition_index: self.index, low_watermark, error_code: code.code() }
    }
}
