//! One connection: its requests come in here, one by one, and leave as outcomes.
//!
//! ```text
//!   frame ─▶ header ─▶ gate ─▶ api/<name>.rs ─▶ Outcome ─┬─ Answer   send it
//!                                                        ├─ Parked   ask again when woken, or at its deadline
//!                                                        ├─ Submit   to the controller, then finish
//!                                                        ├─ Silent   nothing to send (acks=0)
//!                                                        └─ Close    the peer broke the protocol
//! ```
//!
//! The edge keeps the outcomes of a connection in one queue and sends from its front: so answers
//! leave in the order of their requests, however long some of them wait.

use controller::Command;
use records::Scratch;
use wire::{ApiKey, Decoder};

use crate::api;
use crate::call::{Call, CloseReason, Context, Outcome, ReplyTo, Session};
use crate::gate;

/// What a request set off.
pub struct Dispatched {
    /// Which API it was; `None` if that could not be read.
    pub key: Option<ApiKey>,
    /// What became of it.
    pub outcome: Outcome,
    /// Commands for the controller that nobody waits for.
    pub background: Vec<Command>,
}

impl Session {
    /// Takes one frame, without its size prefix. `scratch` is room to decompress in, for one thread.
    pub fn on_request(&mut self, context: Context<'_>, frame: &[u8], scratch: &mut Scratch) -> Dispatched {
        let (header, body) = match wire::decode_request_header(frame) {
            Ok(read) => read,
            Err(error) => return Dispatched::close(error.into()),
        };
        match gate::admit(&header) {
            gate::Admission::Serve(key) => {
                let reply =
                    ReplyTo { key, version: header.api_version, correlation_id: header.correlation_id };
                let client_id = header.client_id.unwrap_or_default();
                let call = Call { context, session: self, scratch, reply, client_id, background: Vec::new() };
                serve(call, body)
            }
            gate::Admission::Fallback(outcome) => {
                Dispatched { key: Some(ApiKey::ApiVersions), outcome, background: Vec::new() }
            }
            gate::Admission::Refuse(reason) => Dispatched::close(reason),
        }
    }
}

impl Session {
    /// The connection is gone, and what was parked on it was given up: forgets what it left behind in the node. If it
    /// was the peer who closed it, that may be the end of the members who spoke over it.
    pub fn on_closed(&mut self, context: &Context<'_>, is_by_peer: bool) {
        self.fetch.end(context.host.fetch_sessions());
        if is_by_peer {
            api::on_hung_up(context, self);
        }
    }
}

fn serve(mut call: Call<'_>, body: Decoder<'_>) -> Dispatched {
    let outcome = match api::dispatch(&mut call, body) {
        Ok(outcome) => outcome,
        Err(reason) => Outcome::Close(reason),
    };
    Dispatched { key: Some(call.reply.key), outcome, background: call.background }
}

impl Dispatched {
    fn close(reason: CloseReason) -> Self {
        Self { key: None, outcome: Outcome::Close(reason), background: Vec::new() }
    }
}
