//! A shard, and the answers that those who asked have not taken yet.
//!
//! **Invariant:** every question is answered once: at once, or to the waiter that was given with it; who left before
//! is not answered.

use std::collections::{BTreeMap, VecDeque};

use base::{Effects, ErrorCode, Now, Offset};
use coordinator::{
    Caller, ConnectionId, Count, Effect, JoinedGroup, Record, Request, Response, Shard, SyncedGroup, Ticket,
};
use metadata::Image;

use crate::host::Asked;
use crate::parked::{Waiter, WaiterId};

/// Where a shard writes, and who counts what it does.
pub trait ShardLog {
    /// Appends records as one batch to the log of the shard's partition, as its leader in the epoch in which the
    /// shard was loaded. Where the log ends with them; or why they are not in it, as Kafka's produce API says it.
    fn append(&mut self, now: Now, records: &[Record]) -> Result<Offset, ErrorCode>;
    /// Something happened that is counted.
    fn count(&mut self, count: Count);
}

/// See the module.
#[derive(Debug)]
pub struct Desk {
    shard: Shard,
    ticket_next: u64,
    waiting: BTreeMap<Ticket, Asker>,
    ready: BTreeMap<Ticket, Response>,
    effects: Effects<Effect>,
    /// What was decided and is not done yet.
    todo: VecDeque<Effect>,
    /// Who asks in this step.
    asking: Option<Ticket>,
    /// Who waits for the shard's log to be read.
    awaiting_load: BTreeMap<WaiterId, Waiter>,
    /// To be woken after the step.
    woken: Vec<Waiter>,
}

/// Who waits for an answer.
#[derive(Debug)]
struct Asker {
    waiter: Waiter,
    /// The group that it waits in for other members, not for its records only, and for what.
    group: Option<(WaitsFor, Box<str>)>,
}

/// What a member waits for that waits for others.
#[derive(Debug, Clone, Copy)]
enum WaitsFor {
    Join,
    Sync,
}

impl WaitsFor {
    fn refused(self, error: ErrorCode) -> Response {
        match self {
            Self::Join => {
                Response::JoinGroup(JoinedGroup { error, generation: -1, ..JoinedGroup::default() })
            }
            Self::Sync => Response::SyncGroup(SyncedGroup::refused(error)),
        }
    }
}

impl Desk {
    /// Nobody has asked.
    pub fn new(shard: Shard) -> Self {
        Self {
            shard,
            ticket_next: 0,
            waiting: BTreeMap::new(),
            ready: BTreeMap::new(),
            effects: Effects::new(),
            todo: VecDeque::new(),
            asking: None,
            awaiting_load: BTreeMap::new(),
            woken: Vec::new(),
        }
    }

    /// The shard, to be looked at.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Asks the shard; see [`crate::host::HostedShard::ask`]. Commits of offsets may have to be
    /// [released](Self::release): see [`Shard::gathered_since`].
    pub fn ask(
        &mut self,
        now: Now,
        (caller, waiter): (Caller<'_>, &Waiter),
        request: Request<'_>,
        image: &Image,
        log: &mut dyn ShardLog,
    ) -> Asked {
        let ticket = Ticket(self.ticket_next);
        self.ticket_next += 1;
        let group = waits_for_others(&request).map(|(what, group)| (what, Box::from(group)));
        self.waiting.insert(ticket, Asker { waiter: waiter.clone(), group });
        let woken_before = self.woken.len();
        self.asking = Some(ticket);
        if !matches!(request, Request::OffsetCommit(_)) {
            self.release(now, log);
        }
        self.act(now, log, |shard, out| shard.on_request(now, (ticket, caller), request, image, out));
        self.asking = None;
        match self.ready.remove(&ticket) {
            Some(response) => {
                // It need not be woken to take what it is given.
                let own = self.woken[woken_before..].iter().position(|it| it.id == waiter.id);
                if let Some(at) = own {
                    self.woken.remove(woken_before + at);
                }
                Asked::Said(response)
            }
            None => Asked::Waits(ticket, self.shard.bytes_waiting(ticket)),
        }
    }

    /// Steps the shard and does what it decides; commits that it has gathered are written before.
    pub fn step(
        &mut self,
        now: Now,
        log: &mut dyn ShardLog,
        act: impl FnOnce(&mut Shard, &mut Effects<Effect>),
    ) {
        self.release(now, log);
        self.act(now, log, act);
    }

    /// Has commits written that the shard has gathered.
    pub fn release(&mut self, now: Now, log: &mut dyn ShardLog) {
        if self.shard.gathered_since().is_some() {
            self.act(now, log, Shard::release);
        }
    }

    fn act(&mut self, now: Now, log: &mut dyn ShardLog, act: impl FnOnce(&mut Shard, &mut Effects<Effect>)) {
        act(&mut self.shard, &mut self.effects);
        self.todo.extend(self.effects.drain());
        while let Some(effect) = self.todo.pop_front() {
            match effect {
                Effect::Append { records } => {
                    let appended = log.append(now, &records);
                    self.shard.on_appended(now, appended, &mut self.effects);
                    self.todo.extend(self.effects.drain());
                }
                Effect::Reply { ticket, response } => self.reply(ticket, response),
                Effect::Count(count) => log.count(count),
            }
        }
        if !self.shard.is_loading() {
            self.woken.extend(std::mem::take(&mut self.awaiting_load).into_values());
        }
    }

    /// See [`crate::host::HostedShard::await_loaded`].
    pub fn await_loaded(&mut self, waiter: &Waiter) -> bool {
        let is_loading = self.shard.is_loading();
        if is_loading {
            self.awaiting_load.insert(waiter.id, waiter.clone());
        }
        is_loading
    }

    fn reply(&mut self, ticket: Ticket, response: Response) {
        if let Some(asker) = self.waiting.remove(&ticket) {
            self.ready.insert(ticket, response);
            self.woken.push(asker.waiter);
        }
    }

    /// After a step that panicked, before [`Desk::give_up`]: has the shard say who waits, which it may still know. It
    /// may panic again.
    pub fn unload(&mut self) {
        self.shard.on_unload(&mut self.effects);
    }

    /// Nothing is known of the shard any more, for a step of it panicked. Who waits is told to look for the coordinator
    /// again, and so is whoever asks from now on. Who asked in that very step is the caller's to answer.
    pub fn give_up(&mut self) {
        if let Some(ticket) = self.asking.take() {
            self.waiting.remove(&ticket);
            self.ready.remove(&ticket);
        }
        let decided: Vec<Effect> = self.todo.drain(..).chain(self.effects.drain()).collect();
        for effect in decided {
            if let Effect::Reply { ticket, response } = effect {
                self.reply(ticket, response);
            }
        }
        // Whose answer was being made is not known to the shard any more.
        let left: Vec<_> =
            self.waiting.iter().filter_map(|(ticket, it)| Some((*ticket, it.group.as_ref()?.0))).collect();
        for (ticket, what) in left {
            self.reply(ticket, what.refused(ErrorCode::NotCoordinator));
        }
        self.shard.forget();
        self.woken.extend(std::mem::take(&mut self.awaiting_load).into_values());
    }

    /// An answer, if it is there.
    pub fn take(&mut self, ticket: Ticket) -> Option<Response> {
        self.ready.remove(&ticket)
    }

    /// Who asked is gone.
    pub fn leave(&mut self, now: Now, ticket: Ticket) {
        self.ready.remove(&ticket);
        if let Some(Asker { group: Some((_, group)), .. }) = self.waiting.remove(&ticket) {
            self.shard.on_gone(now, ticket, &group);
        }
    }

    /// A connection over which a member of a group spoke was closed by its other end.
    pub fn on_disconnected(&mut self, now: Now, connection: ConnectionId, of: (&str, &str)) {
        self.shard.on_disconnected(now, connection, of);
    }

    /// Those whose answers came since the last call: to be woken once the shard is let go of.
    pub fn take_woken(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.woken)
    }
}

/// The group in which it may have to wait for other members.
fn waits_for_others<'a>(request: &Request<'a>) -> Option<(WaitsFor, &'a str)> {
    match request {
        Request::JoinGroup(request) => Some((WaitsFor::Join, request.group_id)),
        Request::SyncGroup(request) => Some((WaitsFor::Sync, request.group_id)),
        _ => None,
    }
}
