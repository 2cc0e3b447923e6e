//! Members that come to a coordinator before it has read its log.
//!
//! Most logs are read in a moment, and who is sent away comes back only after its backoff: whoever needs the coordinator
//! before it can do anything else is answered when the log is read, if that is soon.

use std::sync::Arc;
use std::time::Duration;

use records::Scratch;
use wire::{ApiKey, Decoder};

use super::shard_of;
use crate::call::{Call, CloseReason, Context, Outcome, Parked, ReplyTo, Session};
use crate::host::HostedShard;

/// How long a request waits for logs to be read: nearly all are by then, and what takes longer a client has to know.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Answers a request, whether or not logs are read.
pub(crate) type Answering = fn(&mut Call<'_>, Decoder<'_>) -> Result<Outcome, CloseReason>;

/// Has a request about these groups wait, if the log of one of them is read; `None` if none is.
pub(crate) fn await_loaded<'g>(
    call: &Call<'_>,
    body: &Decoder<'_>,
    groups: impl Iterator<Item = &'g str>,
    answering: Answering,
) -> Option<Outcome> {
    let waiter = &call.session.waiter;
    let shards = groups.filter_map(|group| shard_of(&call.context, group));
    let shards: Vec<Arc<dyn HostedShard>> = shards.filter(|shard| shard.await_loaded(waiter)).collect();
    if shards.is_empty() {
        return None;
    }
    let until = call.context.now.elapsed.saturating_add(WAIT_MAX);
    let (client_id, body) = (call.client_id.into(), body.remaining().into());
    Some(Outcome::Parked(Box::new(AwaitsLoad {
        reply: call.reply,
        client_id,
        body,
        shards,
        until,
        answering,
    })))
}

/// A request that waits for logs to be read.
struct AwaitsLoad {
    reply: ReplyTo,
    client_id: Box<str>,
    body: Box<[u8]>,
    /// Those whose logs were read when it came.
    shards: Vec<Arc<dyn HostedShard>>,
    until: Duration,
    answering: Answering,
}

impl Parked for AwaitsLoad {
    fn key(&self) -> ApiKey {
        self.reply.key
    }

    fn deadline(&self) -> Duration {
        self.until
    }

    fn bytes(&self) -> usize {
        let shards = self.shards.capacity() * size_of::<Arc<dyn HostedShard>>();
        size_of::<Self>() + self.client_id.len() + self.body.len() + shards
    }

    fn look(mut self: Box<Self>, context: Context<'_>, session: &mut Session) -> Outcome {
        self.shards.retain(|shard| shard.await_loaded(&session.waiter));
        if !self.shards.is_empty() && context.now.elapsed < self.until {
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
