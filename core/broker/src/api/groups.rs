//! What the APIs of groups have in common: a request is taken apart by group, each part is asked of the shard that
//! keeps its group, and the answer leaves when all of them have answered.
//!
//! ```text
//!   request ── ask ──▶ shard ── answered at once ──────────────────────▶ Part::Said ─┐
//!                        └───── once committed, or the group is ready ──▶ Part::Waits ─┴─▶ say ──▶ answer
//! ```

mod loading;

use std::sync::Arc;
use std::time::Duration;

use base::ErrorCode;
use coordinator::{Caller, ConnectionId, Request, Response, Ticket};
use wire::ApiKey;

use crate::call::{Call, Context, Outcome, Parked, ReplyTo, Session};
use crate::groups::{OFFSETS_TOPIC, partition_of};
use crate::host::{Asked, HostedShard};

pub(super) use loading::await_coordinator;

/// Makes the answer of what the shards said, in the order of the parts.
pub(super) type Say = Box<dyn FnOnce(ReplyTo, Vec<Response>) -> Outcome + Send>;

/// A part of a request: what is asked of one shard.
pub(super) enum Part {
    /// It is answered.
    Said(Response),
    /// Its shard will answer; about how many bytes the answer takes, if it is made already.
    Waits(Arc<dyn HostedShard>, Ticket, usize),
}

impl Part {
    /// About how many bytes it takes.
    fn bytes(&self) -> usize {
        match self {
            Self::Said(response) => response.bytes(),
            Self::Waits(_, _, bytes) => *bytes,
        }
    }
}

/// Asks what concerns one group alone.
pub(super) fn ask_one(call: &mut Call<'_>, group: &str, request: Request<'_>, say: Say) -> Outcome {
    if let Some(said) = request.speaker() {
        call.session.speakers.note(said.group, said.member);
    }
    let part = ask(call, group, request);
    wait_for(call, vec![part], say)
}

/// Asks about several groups, one after the other. When what is answered takes as much as an answer may, the rest are
/// refused: a group may be large, and named again and again, which is each time answered.
pub(super) fn ask_each<'a>(
    call: &Call<'_>,
    asked: impl Iterator<Item = (&'a str, Request<'a>)>,
) -> Vec<Part> {
    let mut bytes = 0;
    let part = |(group, request): (&'a str, Request<'a>)| {
        if bytes >= super::ANSWER_BYTES_MAX {
            return Part::Said(too_much(&request));
        }
        let part = ask(call, group, request);
        bytes += part.bytes();
        part
    };
    asked.map(part).collect()
}

fn too_much(request: &Request<'_>) -> Response {
    let mut refused = Response::refused(request, ErrorCode::InvalidRequest);
    let words = "The answer would be too large: ask for fewer groups at a time.";
    match &mut refused {
        Response::DescribeGroup(described) => described.error_message = Some(words.into()),
        Response::ConsumerGroupDescribe(described) => described.error_message = Some(words.into()),
        _ => {}
    }
    refused
}

/// Who has heard no controller for so long is most likely replaced.
const REPLACED_AFTER: Duration = Duration::from_secs(10);

fn seems_replaced(context: &Context<'_>) -> bool {
    context.now.elapsed >= context.host.in_touch_until().saturating_add(REPLACED_AFTER)
}

/// Asks the shard that keeps a group. What is committed it says from memory, and a member begins to read there: so
/// a broker that others may have replaced says nothing of it. Whatever changes a group is written first, which it
/// could not.
///
/// librdkafka never asks for offsets again once it was told that this is not the coordinator, and its member stands still
/// at what it was just given, though most often this is the coordinator still; told to wait it does, if nothing else was
/// given to it meanwhile. Java's then asks here alone, so that is not said for ever.
pub(super) fn ask(call: &Call<'_>, group: &str, request: Request<'_>) -> Part {
    if group == wire::NOT_UTF8 {
        // All of them would be one group.
        return Part::Said(Response::refused(&request, ErrorCode::InvalidGroupId));
    }
    let context = &call.context;
    let may_be_old = matches!(request, Request::OffsetFetch(_)) && !context.host.is_in_touch(context.now);
    match shard_of(context, group) {
        Some(shard) if !may_be_old => ask_shard(call, shard, request),
        Some(_) if !seems_replaced(context) => {
            Part::Said(Response::refused(&request, ErrorCode::CoordinatorLoadInProgress))
        }
        Some(_) | None => Part::Said(Response::refused(&request, ErrorCode::NotCoordinator)),
    }
}

/// Asks every shard of this broker.
pub(super) fn ask_all(call: &Call<'_>, request: Request<'_>) -> Vec<Part> {
    call.context.host.shards().into_iter().map(|shard| ask_shard(call, shard, request)).collect()
}

fn ask_shard(call: &Call<'_>, shard: Arc<dyn HostedShard>, request: Request<'_>) -> Part {
    let caller = Caller {
        version: call.reply.version,
        client_id: call.client_id,
        client_host: &call.session.host,
        // Chance is a system call.
        random: if request.needs_id() { call.context.host.random() } else { 0 },
        connection: connection_of(call.session),
    };
    let at = (call.context.now, &**call.context.image);
    match shard.ask(at, caller, request, &call.session.waiter) {
        Asked::Said(response) => Part::Said(response),
        Asked::Waits(ticket, bytes) => Part::Waits(shard, ticket, bytes),
    }
}

/// The other end of a connection has closed it: the members that spoke over it may be gone.
pub(crate) fn on_hung_up(context: &Context<'_>, session: &Session) {
    for (group, member) in session.speakers.iter() {
        if let Some(shard) = shard_of(context, group) {
            shard.disconnected(connection_of(session), (group, member));
        }
    }
}

/// Shards know a connection by the number under which it is woken.
fn connection_of(session: &Session) -> ConnectionId {
    ConnectionId(session.waiter.id.0)
}

fn shard_of(context: &Context<'_>, group: &str) -> Option<Arc<dyn HostedShard>> {
    let topic = context.image.topic(OFFSETS_TOPIC)?;
    context.host.shard(partition_of(group, topic.partitions().len()))
}

/// Answers if all parts are answered, and waits for those that are not.
pub(super) fn wait_for(call: &Call<'_>, parts: Vec<Part>, say: Say) -> Outcome {
    Box::new(ParkedParts { reply: call.reply, parts, say }).settle()
}

/// A shard answered something else than it was asked.
pub(super) fn misplaced() -> ! {
    unreachable!("a shard answers what it was asked")
}

/// A request some parts of which wait for their shards.
struct ParkedParts {
    reply: ReplyTo,
    parts: Vec<Part>,
    say: Say,
}

impl ParkedParts {
    fn settle(mut self: Box<Self>) -> Outcome {
        let mut waits = false;
        for part in &mut self.parts {
            if let Part::Waits(shard, ticket, _) = part {
                match shard.take(*ticket) {
                    Some(response) => *part = Part::Said(response),
                    None => waits = true,
                }
            }
        }
        if waits {
            return Outcome::Parked(self);
        }
        let said = self.parts.into_iter().filter_map(|part| match part {
            Part::Said(response) => Some(response),
            Part::Waits(..) => None,
        });
        (self.say)(self.reply, said.collect())
    }
}

impl Parked for ParkedParts {
    fn key(&self) -> ApiKey {
        self.reply.key
    }

    /// Shards keep the time: each answers in the end, or goes and answers that.
    fn deadline(&self) -> Duration {
        Duration::MAX
    }

    fn bytes(&self) -> usize {
        let parts = self.parts.iter().map(Part::bytes).sum::<usize>();
        size_of::<Self>() + self.parts.capacity() * size_of::<Part>() + parts
    }

    fn look(self: Box<Self>, _: Context<'_>, _: &mut Session) -> Outcome {
        self.settle()
    }

    fn abandon(self: Box<Self>, _: Context<'_>, _: &Session) {
        for part in &self.parts {
            if let Part::Waits(shard, ticket, _) = part {
                shard.leave(*ticket);
            }
        }
    }
}
