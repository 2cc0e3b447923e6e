//! A partition of `__consumer_offsets` and its groups, stepped.
//!
//! ```text
//!   request ─▶ handle ─▶ Append ─▶ the leader's log ─▶ on_appended ─▶ replay
//!                   │                                                   │
//!                   └─▶ reply ────────── waits ───────────▶ on_committed ─▶ Reply
//! ```
//!
//! The caller appends what it is told to at once, before anything else comes in, and says what became of it. What the
//! leader's log has either commits, or the leadership is lost and the shard with it; so nothing is ever rolled back
//! (ADR 0023). Nobody is told anything before it is committed: replies wait for the records that they speak of. Commits
//! of offsets that come together are gathered, and written before anything else is decided (ADR 0027).
//!
//! **Invariant:** the state is the replay of the log; what does not last is who is there, and who waits.

mod append;
mod census;
mod expiry;
mod gather;
mod pending;
mod turn;
mod waiting;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base::{Effects, ErrorCode, Now, Offset, TimestampMs};
use metadata::{Image, Topic};

use crate::api;
use crate::group::classic::Join;
use crate::group::{Group, GroupKind, Groups, Place};
use crate::group_record::{GroupRecord, Record, RecordError};
use crate::outcome::{Count, Outcome, Turn};
use crate::request::{Caller, ConnectionId, Request, Ticket};
use crate::response::Response;
use crate::settings::{ShardSettings, Step};
use expiry::Expiry;
use gather::Gathered;
use pending::Transactions;
use waiting::Waiting;

pub use census::{CountedGroup, CountedTopic};

/// What one append has at most, where it may be several: well below what a log takes as one batch.
const WRITE_BYTES_MAX: usize = 256 * 1024;

/// What the caller has to do, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Append these to the partition as one batch, each with the time of this moment, and call
    /// [`Shard::on_appended`] with the same before any other step.
    Append {
        /// In order.
        records: Arc<[Record]>,
    },
    /// Answer. Who is gone meanwhile need not be.
    Reply {
        /// Whom.
        ticket: Ticket,
        /// What.
        response: Response,
    },
    /// Something happened that is counted.
    Count(Count),
}

/// A partition of `__consumer_offsets` that this broker leads, or is about to.
#[derive(Debug)]
pub struct Shard {
    settings: ShardSettings,
    phase: Phase,
    groups: Groups,
    /// The end of what was replayed.
    end: Offset,
    /// The high watermark.
    committed: Offset,
    /// What the caller was told to append.
    appending: VecDeque<Write>,
    /// Commits of offsets that are to be appended together.
    gathered: Gathered,
    /// Why a part of a write that was split could not be appended.
    part_failed: Option<ErrorCode>,
    /// Replies whose records are not committed.
    waiting: VecDeque<Waiting>,
    /// When offsets are looked at that nobody may need.
    expiry: Expiry,
    /// Topics that were deleted while the log was read.
    deleted_while_loading: Vec<Arc<Topic>>,
    /// Transactions that the log has not ended where it is read.
    transactions: Transactions,
}

/// Whether it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Its partition is led elsewhere.
    Idle,
    /// Its log is read.
    Loading,
    /// It is the coordinator of its groups.
    Active,
}

/// What is appended, and what follows from it.
#[derive(Debug)]
struct Write {
    records: Arc<[Record]>,
    held: Vec<(Ticket, Response)>,
    /// Since when those wait.
    since: Duration,
    counts: Vec<Count>,
    of_group: Option<Arc<str>>,
    /// What that group becomes.
    turn: Option<Turn>,
    /// Whether the next one is the same write's.
    goes_on: bool,
    /// Who becomes a member by it, and over which connection.
    joins: Option<(ConnectionId, Box<str>, Box<str>)>,
}

impl Shard {
    /// A shard whose partition is led elsewhere.
    pub fn new(settings: ShardSettings) -> Self {
        let groups = Groups::new(settings.consumer.clone());
        Self {
            settings,
            phase: Phase::Idle,
            groups,
            end: Offset::ZERO,
            committed: Offset::ZERO,
            appending: VecDeque::new(),
            gathered: Gathered::default(),
            part_failed: None,
            waiting: VecDeque::new(),
            expiry: Expiry::default(),
            deleted_while_loading: Vec::new(),
            transactions: Transactions::default(),
        }
    }

    /// This broker leads the partition: its log is read from the start.
    pub fn on_load_begin(&mut self) {
        *self = Self::new(self.settings.clone());
        self.phase = Phase::Loading;
    }

    /// A record of the log that is read, at its offset and with its timestamp. One without a key says nothing; kinds
    /// that are not known are passed over.
    ///
    /// # Errors
    /// A record that is not what it says to be; nothing changed.
    pub fn on_record(
        &mut self,
        (offset, time): (Offset, TimestampMs),
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), RecordError> {
        assert_eq!(self.phase, Phase::Loading, "records are read while the shard is loaded");
        let Some(key) = key else { return Ok(()) };
        if let Some(record) = GroupRecord::decode(key, value)? {
            if value.is_some() {
                self.transactions.overtake(key, offset);
            }
            self.groups.replay(record, (offset.next(), time));
        }
        Ok(())
    }

    /// All was read, to the log's `end`; up to `committed` it is committed. From here on it answers.
    pub fn on_loaded(
        &mut self,
        now: Now,
        (end, committed): (Offset, Offset),
        image: &Image,
        out: &mut Effects<Effect>,
    ) {
        assert_eq!(self.phase, Phase::Loading, "it was loaded before");
        self.phase = Phase::Active;
        self.transactions = Transactions::default();
        self.end = end;
        self.committed = committed;
        self.expiry.begin(now.elapsed + self.settings.offsets_retention_check_interval);
        let ids: Vec<Arc<str>> = self.groups.iter().map(|(id, _)| id.clone()).collect();
        for id in &ids {
            let mut outcome = Outcome::default();
            let Some((_, group)) = self.groups.look_up(id, image) else { continue };
            match &mut group.kind {
                GroupKind::Classic(classic) => {
                    classic.on_loaded(&Step { now, settings: &self.settings }, &mut outcome);
                }
                GroupKind::Consumer(consumers) => consumers.group.on_loaded(now, &consumers.settings),
            }
            self.carry_out(now, outcome, false, out);
            self.groups.arm(id);
        }
        let deleted = std::mem::take(&mut self.deleted_while_loading);
        self.on_topics_deleted(now, &deleted, out);
    }

    /// This broker does not lead the partition any more: who waits is told to look for the one that does.
    pub fn on_unload(&mut self, out: &mut Effects<Effect>) {
        let error = ErrorCode::NotCoordinator;
        for write in std::mem::take(&mut self.appending) {
            reply_all(write.held.into_iter().map(|(ticket, it)| (ticket, it.failed(error))), out);
        }
        let gathered = std::mem::take(&mut self.gathered).held;
        reply_all(gathered.into_iter().map(|(ticket, it)| (ticket, it.failed(error))), out);
        reply_all(self.waiting.drain(..).map(|it| (it.ticket, it.response.failed(error))), out);
        for (_, group) in self.groups.iter_mut() {
            turn::refuse_waiting(group, error, out);
        }
        self.forget();
    }

    /// Whatever it was, it is as if this broker had never led the partition: nobody is told anything.
    pub fn forget(&mut self) {
        *self = Self::new(self.settings.clone());
    }

    /// Somebody asks. It is answered sooner or later, with `ticket`. What is [gathered](Self::gathered_since) is released
    /// before, unless offsets are committed.
    pub fn on_request(
        &mut self,
        now: Now,
        (ticket, caller): (Ticket, Caller<'_>),
        request: Request<'_>,
        image: &Image,
        out: &mut Effects<Effect>,
    ) {
        self.assert_steps(matches!(request, Request::OffsetCommit(_)));
        let error = match self.phase {
            Phase::Active => return self.handle(now, (ticket, caller), request, image, out),
            Phase::Loading => match request {
                // Clients do not expect to hear of a log that is read, and give up: as in Kafka, who is alive goes on, and
                // whoever waits for an assignment, of which nothing is known any more, joins anew.
                Request::Heartbeat(_) => ErrorCode::None,
                Request::SyncGroup(_) => ErrorCode::RebalanceInProgress,
                _ => ErrorCode::CoordinatorLoadInProgress,
            },
            Phase::Idle => ErrorCode::NotCoordinator,
        };
        out.push(Effect::Reply { ticket, response: Response::refused(&request, error) });
    }

    fn handle(
        &mut self,
        now: Now,
        (ticket, caller): (Ticket, Caller<'_>),
        request: Request<'_>,
        image: &Image,
        out: &mut Effects<Effect>,
    ) {
        let mut outcome = Outcome::default();
        let o = &mut outcome;
        let at = &Step { now, settings: &self.settings };
        let groups = &mut self.groups;
        // Who may be waited for longer or shorter than before.
        let mut changed = None;
        match request {
            Request::JoinGroup(asks) => {
                api::join_group::handle(groups, at, &Join { ticket, caller, asks, image }, o);
                changed = Some(asks.group_id);
            }
            Request::SyncGroup(asks) => {
                api::sync_group::handle(groups, at, ticket, (asks, image), o);
                changed = Some(asks.group_id);
            }
            Request::Heartbeat(asks) => {
                o.reply(ticket, Response::Heartbeat(api::heartbeat::handle(groups, now, asks, image)));
            }
            Request::LeaveGroup(asks) => {
                api::leave_group::handle(groups, at, (ticket, caller.version), (asks, image), o);
                changed = Some(asks.group_id);
            }
            Request::ConsumerGroupHeartbeat(asks) => {
                api::consumer_group_heartbeat::handle(groups, at, (ticket, &caller), (asks, image), o);
                changed = Some(asks.group_id);
            }
            Request::OffsetCommit(asks) => {
                api::offset_commit::handle(groups, at, (ticket, &caller), (asks, image), o);
            }
            Request::OffsetFetch(asks) => {
                let fetched = api::offset_fetch::handle(groups, caller.version, asks, image);
                let read_to = groups.written_to(asks.group_id);
                o.reply_once_committed(ticket, Response::OffsetFetch(fetched), read_to);
            }
            Request::OffsetDelete(asks) => api::offset_delete::handle(groups, ticket, (asks, image), o),
            Request::DescribeGroup(id) => {
                let described = Response::DescribeGroup(api::describe_group::handle(groups, id));
                o.reply_once_committed(ticket, described, groups.written_to(id));
            }
            Request::ConsumerGroupDescribe(id) => {
                let described = api::consumer_group_describe::handle(groups, id, image);
                let read_to = groups.written_to(id);
                o.reply_once_committed(ticket, Response::ConsumerGroupDescribe(described), read_to);
            }
            Request::ListGroups { states, types } => {
                let listed = Response::ListGroups(api::list_groups::handle(groups, states, types));
                o.reply_once_committed(ticket, listed, self.end);
            }
            Request::DeleteGroup(id) => api::delete_group::handle(groups, ticket, id, o),
        }
        let splits = matches!(request, Request::DeleteGroup(_) | Request::OffsetDelete(_));
        let appending = self.appending.len();
        match request {
            Request::OffsetCommit(asks) if self.gathers(asks.group_id) => self.gather(now, outcome, out),
            _ => self.carry_out(now, outcome, splits, out),
        }
        self.hear((now, caller.connection), &request, self.appending.len() > appending);
        if let Some(id) = changed {
            self.settle(id);
        }
    }

    /// Who asked lives, if it is a member. One of the new protocol becomes one when what was written for it is in
    /// the log.
    fn hear(&mut self, (now, over): (Now, ConnectionId), request: &Request<'_>, has_written: bool) {
        let Some(said) = request.speaker() else { return };
        let is_member = self.groups.heard(now.elapsed, over, &said);
        let joins = has_written && matches!(request, Request::ConsumerGroupHeartbeat(_));
        if let Some(write) = self.appending.back_mut().filter(|_| joins && !is_member) {
            write.joins = Some((over, said.group.into(), said.member.into()));
        }
    }

    /// The log is committed up to here.
    pub fn on_committed(&mut self, high_watermark: Offset, out: &mut Effects<Effect>) {
        self.assert_steps(false);
        self.committed = self.committed.max(high_watermark);
        self.answer_committed(out);
    }

    /// Topics are gone, as they were: nobody comes back to their offsets.
    pub fn on_topics_deleted(&mut self, now: Now, topics: &[Arc<Topic>], out: &mut Effects<Effect>) {
        self.assert_steps(false);
        match self.phase {
            Phase::Idle => {}
            Phase::Loading => self.deleted_while_loading.extend(topics.iter().cloned()),
            Phase::Active if topics.is_empty() => {}
            Phase::Active => {
                let records = expiry::offsets_in(&self.groups, topics);
                let counts_held = vec![Count::OffsetsDeleted(records.len())];
                self.carry_out(now, Outcome { records, counts_held, ..Outcome::default() }, true, out);
            }
        }
    }

    /// It was time.
    pub fn on_tick(&mut self, now: Now, image: &Image, out: &mut Effects<Effect>) {
        self.assert_steps(false);
        if self.phase != Phase::Active {
            return;
        }
        let mut due = Vec::new();
        if self.groups.may_tick(now.elapsed) {
            while let Some(id) = self.groups.pop_due(now.elapsed) {
                due.push(id);
            }
        }
        for id in due {
            let mut outcome = Outcome::default();
            if let Some((id, group)) = self.groups.look_up(&id, image) {
                let place = Place { id: &id, now, image, written_to: group.written_to };
                match &mut group.kind {
                    GroupKind::Classic(classic) => {
                        classic.on_tick(&Step { now, settings: &self.settings }, &mut outcome);
                    }
                    GroupKind::Consumer(consumers) => consumers.on_tick(&place, &mut outcome),
                }
            }
            self.carry_out(now, outcome, false, out);
            self.settle(&id);
        }
        self.give_up_waiting(now, out);
        self.expire(now, out);
    }

    /// When to step it although nothing happens.
    pub fn deadline(&self) -> Option<Duration> {
        if self.phase != Phase::Active {
            return None;
        }
        let waiting = self.waiting.front().map(|first| first.due);
        let gathered = self.gathered_due();
        [self.groups.deadline(), waiting, gathered, Some(self.expiry.next())].into_iter().flatten().min()
    }

    /// Whoever waits with this ticket, for an answer about `group`, is gone.
    pub fn on_gone(&mut self, now: Now, ticket: Ticket, group: &str) {
        if let Some(classic) = self.groups.get_mut(group).and_then(Group::classic_mut) {
            classic.on_gone(now.elapsed, ticket);
            self.groups.arm(group);
        }
    }

    /// A connection over which `member` of `group` spoke was closed by its other end.
    pub fn on_disconnected(&mut self, now: Now, connection: ConnectionId, (group, member): (&str, &str)) {
        if self.settings.disconnect_shortens_session {
            self.groups.on_disconnected(now.elapsed, connection, (group, member));
        }
    }

    /// Whether it answers requests.
    pub fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    /// Whether its log is read: it will answer, but does not yet.
    pub fn is_loading(&self) -> bool {
        self.phase == Phase::Loading
    }

    /// How many groups it has.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// How many offsets its groups have.
    pub fn offset_count(&self) -> usize {
        self.groups.offset_count()
    }

    /// What the log has of each group: its offsets and, unless a rebalance is on its way, who is in it.
    #[cfg(test)]
    pub(crate) fn lasting(&self) -> std::collections::BTreeMap<Arc<str>, (String, Option<String>)> {
        let lasting = self.groups.iter().filter_map(|(id, group)| {
            let members = match &group.kind {
                GroupKind::Classic(classic) if !classic.is_written() && group.offsets.is_empty() => {
                    return None;
                }
                GroupKind::Classic(classic) => classic.settled(),
                GroupKind::Consumer(consumers) => {
                    Some(format!("{} since {}", consumers.group.lasting(), consumers.epoch_since))
                }
            };
            Some((id.clone(), (format!("{:?}", group.offsets), members)))
        });
        lasting.collect()
    }

    /// After a group changed: when to look at it again, and whether anything of it is left.
    fn settle(&mut self, id: &str) {
        if let Some(GroupKind::Classic(classic)) = self.groups.get(id).map(|group| &group.kind) {
            classic.check();
        }
        self.groups.arm(id);
        self.groups.remove_if_blank(id);
    }
}

/// How many records fit into one append; at least one.
fn first_part(records: &[Record]) -> usize {
    let mut bytes = 0;
    let fits = records.iter().take_while(|record| {
        bytes += record.bytes();
        bytes <= WRITE_BYTES_MAX
    });
    fits.count().max(1)
}

fn reply_all(replies: impl Iterator<Item = (Ticket, Response)>, out: &mut Effects<Effect>) {
    replies.for_each(|(ticket, response)| out.push(Effect::Reply { ticket, response }));
}

/// What a client is told if its records could not be appended, as Kafka has it.
fn coordinator_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError | ErrorCode::FencedLeaderEpoch => {
            ErrorCode::NotCoordinator
        }
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge | ErrorCode::InvalidFetchSize => {
            ErrorCode::UnknownServerError
        }
        other => other,
    }
}
