//! Members that come to a coordinator before it has read its log, or while it does not know whether it is one still.
//!
//! Most logs are read in a moment, and most brokers hear of their controller again in one; who is sent away comes back
//! only after its backoff, if at all: whoever needs the coordinator before it can do anything else is answered when it
//! can be, if that is soon.

use std::time::Duration;

use base::PartitionIndex;
use records::Scratch;
use wire::{ApiKey, Decoder};

use super::seems_replaced;
use crate::call::{Call, CloseReason, Context, Outcome, Parked, ReplyTo, Session};
use crate::groups::{OFFSETS_TOPIC, partition_of};

/// How long a request waits for logs to be read: nearly all are by then, and what takes longer a client has to know.
const LOADED_MAX: Duration = Duration::from_secs(1);
/// How long for a broker that may have been replaced to hear whether it was: longer than others need for it by default,
/// and less than a session is, for answers to a member's heartbeats wait behind it.
const IN_TOUCH_MAX: Duration = Duration::from_secs(3);
/// Between two looks whether it has heard; nobody rings.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Answers a request, whether or not logs are read.
pub(crate) type Answering = fn(&mut Call<'_>, Decoder<'_>) -> Result<Outcome, CloseReason>;

/// Has a request about these groups wait, if the log of one of them is read, and, where it is answered from memory, while
/// this broker may have been replaced; `None` if there is nothing to wait for.
pub(crate) fn await_coordinator<'g>(
    call: &Call<'_>,
    body: &Decoder<'_>,
    groups: impl Iterator<Item = &'g str>,
    answering: Answering,
) -> Option<Outcome> {
    let in_touch_max = if call.reply.key == ApiKey::OffsetFetch { IN_TOUCH_MAX } else { Duration::ZERO };
    let now = call.context.now.elapsed;
    let places = call.context.image.topic(OFFSETS_TOPIC)?.partitions().len();
    let mut partitions: Vec<_> = groups.map(|group| partition_of(group, places)).collect();
    let by = By { loaded: now.saturating_add(LOADED_MAX), in_touch: now.saturating_add(in_touch_max) };
    let look_at = by.look_at(&mut partitions, &call.context, call.session)?;
    Some(Outcome::Parked(Box::new(AwaitsCoordinator {
        reply: call.reply,
        client_id: call.client_id.into(),
        body: body.remaining().into(),
        partitions,
        by,
        look_at,
        answering,
    })))
}

/// Until when a request waits, and for what.
#[derive(Clone, Copy)]
struct By {
    loaded: Duration,
    in_touch: Duration,
}

impl By {
    /// When to look again; `None` if there is nothing to wait for any more. Keeps the partitions that this broker leads:
    /// of others it says at once that it does not.
    fn look_at(
        self,
        partitions: &mut Vec<PartitionIndex>,
        context: &Context<'_>,
        session: &Session,
    ) -> Option<Duration> {
        let now = context.now.elapsed;
        let mut loads = false;
        partitions.retain(|partition| {
            let shard = context.host.shard(*partition);
            loads |= shard.as_ref().is_some_and(|shard| shard.await_loaded(&session.waiter));
            shard.is_some()
        });
        let is_adrift =
            || !partitions.is_empty() && !context.host.is_in_touch(context.now) && !seems_replaced(context);
        let loaded = (loads && now < self.loaded).then_some(self.loaded);
        let heard =
            (now < self.in_touch && is_adrift()).then(|| self.in_touch.min(now.saturating_add(LOOK_EVERY)));
        loaded.into_iter().chain(heard).min()
    }
}

/// A request that waits for logs to be read, or for the broker to be in touch.
struct AwaitsCoordinator {
    reply: ReplyTo,
    client_id: Box<str>,
    body: Box<[u8]>,
    /// Those that keep its groups and were led here when it was looked at last.
    partitions: Vec<PartitionIndex>,
    by: By,
    look_at: Duration,
    answering: Answering,
}

impl Parked for AwaitsCoordinator {
    fn key(&self) -> ApiKey {
        self.reply.key
    }

    fn deadline(&self) -> Duration {
        self.look_at
    }

    fn bytes(&self) -> usize {
        let partitions = self.partitions.capacity() * size_of::<PartitionIndex>();
        size_of::<Self>() + self.client_id.len() + self.body.len() + partitions
    }

    fn look(mut self: Box<Self>, context: Context<'_>, session: &mut Session) -> Outcome {
        if let Some(look_at) = self.by.look_at(&mut self.partitions, &context, session) {
            self.look_at = look_at;
            return Outcome::Parked(self);
        }
        let Self { reply, client_id, body, answering, .. } = *self;
        let scratch = &mut Scratch::default();
        let mut call =
            Call { context, session, scratch, reply, client_id: &client_id, background: Vec::new() };
        answering(&mut call, Decoder::new(&body)).unwrap_or_else(Outcome::Close)
    }

    fn abandon(self: Box<Self>, _: Context<'_>, _: &Session) {}
}
