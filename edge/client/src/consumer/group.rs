//! The consumer as a member of a group.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use base::{Effects, LeaderEpoch, Offset, TopicName, TopicNameError, TopicPartition};
use client_core::consumer::{Chunk, Start};
use client_core::group::{
    Effect, GroupError, Membership, OffsetAndMetadata, Pattern, PatternError, Subscription,
};

use super::arrived::Arrived;
use super::outcome::{Committing, FetchingCommitted, Waiting, Waits};
use super::owned::Rest;
use super::rebalance::Rebalance;
use super::{Consumer, State, of};
use crate::clock::Clock;

/// How long a commit, or a question for what was committed, may take; Kafka's `default.api.timeout.ms`.
pub(super) const CALL_MAX: Duration = Duration::from_secs(60);
/// How long a consumer that is dropped waits for its group to take note.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// The member, and who waits for what of it.
pub(super) struct Group {
    pub(super) membership: Membership,
    pub(super) effects: Effects<Effect>,
    // Bounded by what the group gives and takes: an assignment, a revocation and a loss at most follow each
    // other before the reader has answered.
    pub(super) events: VecDeque<Rebalance>,
    pub(super) waits: Waits,
    /// How often the reader had asked when that was looked at last.
    asked: u64,
}

/// Who a consumer is in its group, as who sends offsets with a transaction has to say (KIP-447).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMetadata {
    /// `group.id`.
    pub group_id: String,
    /// What the group calls it; empty while it is no member.
    pub member_id: String,
    /// The generation, or the member epoch; -1 while it is no member.
    pub generation: i32,
    /// `group.instance.id`.
    pub instance_id: Option<String>,
}

/// Why topics cannot be subscribed to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The consumer was built without one.
    #[error("the consumer has no group.id")]
    NoGroup,
    /// No topic is called so.
    #[error(transparent)]
    Topic(#[from] TopicNameError),
    /// It is no regular expression.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

impl Group {
    pub(super) fn new(membership: Membership) -> Self {
        let (effects, events, waits) = (Effects::new(), VecDeque::new(), Waits::default());
        Self { membership, effects, events, waits, asked: 0 }
    }

    /// The reader asked for records that often.
    pub(super) fn on_asked(&mut self, asked: u64, clock: &Clock) {
        if self.asked != asked {
            self.asked = asked;
            self.membership.on_polled(clock.now());
        }
    }
}

impl State {
    /// The reader has asked for what follows a chunk.
    pub(super) fn on_chunk_read(&mut self, chunk: &Chunk) {
        if let Some(group) = &mut self.group
            && self.core.is_current(chunk.of(), chunk.generation())
        {
            let upto = (chunk.next_offset(), chunk.next_epoch());
            group.membership.on_read(chunk.of(), place(upto));
        }
    }

    /// What lies before it counts as read.
    pub(super) fn on_sought(&mut self, of: &TopicPartition, start: Start, is_assigned: bool) {
        let Some(group) = self.group.as_mut().filter(|_| is_assigned) else { return };
        match start {
            Start::Offset(offset) => group.membership.on_read(of, OffsetAndMetadata::at(offset)),
            _ => group.membership.read_elsewhere(of),
        }
    }

    /// The reader waits. Whether the member has to do something because of that.
    pub(super) fn on_waiting(&mut self, clock: &Clock) -> bool {
        self.group.as_mut().is_some_and(|group| group.membership.on_waiting(clock.now()))
    }

    /// Who waits for records, if anybody does, is about to get something.
    pub(super) fn take_reader(&mut self, clock: &Clock) -> Option<Waker> {
        let reader = self.reader.take()?;
        if let Some(group) = &mut self.group {
            group.membership.on_given(clock.now());
        }
        Some(reader)
    }
}

fn place((offset, leader_epoch): (Offset, LeaderEpoch)) -> OffsetAndMetadata {
    OffsetAndMetadata { offset, leader_epoch, metadata: Arc::default() }
}

impl Consumer {
    /// Reads these topics as a member of its group, instead of what it read before: the group says which
    /// partitions, and they begin where they were committed. What was read by hand and is not committed yet is not
    /// committed by itself any more.
    ///
    /// ```no_run
    /// use vltava_client::consumer::Consumer;
    ///
    /// let mut consumer = Consumer::builder("127.0.0.1:9092").group_id("billing").build()?;
    /// consumer.subscribe(["orders"])?;
    /// for record in consumer.records_blocking().take(10) {
    ///     println!("{:?}", record?.value);
    /// }
    /// consumer.close(std::time::Duration::from_secs(10))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn subscribe<'a>(&mut self, topics: impl IntoIterator<Item = &'a str>) -> Result<(), SubscribeError> {
        let topics = topics.into_iter().map(TopicName::new);
        self.subscribe_to(Subscription::Topics(topics.collect::<Result<_, _>>()?))
    }

    /// As [`Consumer::subscribe`], to all topics that are called like this regular expression, also those that
    /// come later. It fits the whole name.
    pub fn subscribe_pattern(&mut self, pattern: &str) -> Result<(), SubscribeError> {
        self.subscribe_to(Subscription::Pattern(Pattern::new(pattern)?))
    }

    fn subscribe_to(&mut self, subscription: Subscription) -> Result<(), SubscribeError> {
        {
            let now = self.shared.clock.now();
            let mut state = self.shared.state.lock();
            let State { core, group, arrived, .. } = &mut *state;
            let Some(group) = group else { return Err(SubscribeError::NoGroup) };
            if !group.membership.is_subscribed() {
                // It was read by hand.
                core.assign([]);
                group.membership.read_others();
            }
            arrived.retain(|arrived| !matches!(arrived, Arrived::Other(_)));
            group.membership.subscribe(subscription, now);
        }
        self.after_change();
        Ok(())
    }

    /// Leaves the group, and reads nothing any more, by hand neither. With `enable.auto.commit` what was read is
    /// committed first.
    pub fn unsubscribe(&mut self) {
        self.assign([]);
    }

    /// The partitions that are read.
    pub fn assignment(&self) -> Vec<TopicPartition> {
        self.shared.state.lock().core.assigned().cloned().collect()
    }

    /// Commits all that was read: whoever reads these partitions next for the group goes on behind it. It is
    /// sent at once, whether it is awaited or not, and takes effect after all that was committed before. Who is still
    /// leaving a group commits what it reads by hand once it has left, and not at all if it subscribes again before.
    pub fn commit(&mut self) -> Committing {
        self.note_positions();
        self.begin_commit(Membership::commit_read)
    }

    /// Commits these offsets, each of the next record to be read: topic, partition, offset. Those that no topic
    /// can have are left out.
    pub fn commit_offsets<'a>(
        &mut self,
        offsets: impl IntoIterator<Item = (&'a str, i32, Offset)>,
    ) -> Committing {
        let offsets = offsets.into_iter();
        let offsets = offsets
            .filter_map(|(topic, index, offset)| Some((of(topic, index)?, OffsetAndMetadata::at(offset))));
        let offsets: BTreeMap<TopicPartition, OffsetAndMetadata> = offsets.collect();
        self.begin_commit(|membership, until| membership.commit(offsets, until))
    }

    fn begin_commit(
        &mut self,
        commit: impl FnOnce(&mut Membership, Duration) -> client_core::group::CommitId,
    ) -> Committing {
        Committing::new(self.begin(|membership, until| commit(membership, until).0))
    }

    /// Asks what was committed of these partitions; `None` where nothing was.
    pub fn committed<'a>(&self, partitions: impl IntoIterator<Item = (&'a str, i32)>) -> FetchingCommitted {
        let of: BTreeSet<TopicPartition> =
            partitions.into_iter().filter_map(|(topic, index)| of(topic, index)).collect();
        FetchingCommitted::new(self.begin(|membership, until| membership.fetch_committed(of, until).0))
    }

    fn begin(&self, begin: impl FnOnce(&mut Membership, Duration) -> u64) -> Waiting {
        let until = self.shared.clock.now().elapsed + CALL_MAX;
        let id = self.shared.state.lock().group.as_mut().map(|group| {
            let id = begin(&mut group.membership, until);
            group.waits.begin(id);
            id
        });
        self.shared.driver.ring();
        Waiting::new(self.shared.clone(), id)
    }

    /// Who it is in its group; `None` if it has none.
    pub fn group_metadata(&self) -> Option<GroupMetadata> {
        let state = self.shared.state.lock();
        let membership = &state.group.as_ref()?.membership;
        let (member_id, generation) = membership.identity();
        Some(GroupMetadata {
            group_id: membership.group_id().to_owned(),
            member_id: member_id.to_owned(),
            generation,
            instance_id: membership.instance_id().map(str::to_owned),
        })
    }

    /// Leaves the group in good order, so that others need not wait for this member, and says whether what was
    /// read is committed, with `enable.auto.commit`, also by hand. A consumer that is dropped does the same, but
    /// waits for a second at most and says nothing; and what it gave last, a record or a batch, does not count as read,
    /// for nobody says that it is done with.
    pub fn close(mut self, timeout: Duration) -> Result<(), GroupError> {
        let commits = {
            let state = self.shared.state.lock();
            let membership = state.group.as_ref().map(|group| &group.membership);
            membership.is_some_and(|it| it.commits_by_itself() && (it.is_subscribed() || it.may_commit()))
        };
        let committing = commits.then(|| self.commit());
        self.leave_group();
        if let Some(group) = &mut self.shared.state.lock().group {
            // That was the last commit: others would be made as long as it is not done.
            group.membership.read_others();
        }
        let until = self.shared.clock.now().elapsed.checked_add(timeout);
        self.drive_until_left(until);
        self.is_closed = true;
        match committing {
            Some(committing) => committing.now().unwrap_or_else(|| Err(GroupError::TimedOut(self.trouble()))),
            None => Ok(()),
        }
    }

    /// Gives up what the group gave. Whether it gave anything, or was to.
    pub(super) fn leave_group(&mut self) -> bool {
        let owned = {
            let state = self.shared.state.lock();
            let subscribed = state.group.as_ref().filter(|group| group.membership.is_subscribed());
            let Some(group) = subscribed else { return false };
            group.membership.owned().clone()
        };
        let offsets = if owned.is_empty() { BTreeMap::new() } else { self.ask_what_to_commit(&owned) };
        let now = self.shared.clock.now();
        let mut state = self.shared.state.lock();
        if let Some(group) = &mut state.group {
            if !offsets.is_empty() {
                group.membership.commit(offsets, now.elapsed + CALL_MAX);
            }
            group.membership.unsubscribe(now);
            group.events.clear();
        }
        self.shared.has_rebalances.store(false, Ordering::Release);
        drop(state);
        self.shared.driver.ring();
        true
    }

    /// What was read by hand is committed, with `enable.auto.commit`, until then at the latest; no more of it is.
    pub(super) fn commit_by_hand(&mut self, until: Duration) {
        self.note_positions();
        if let Some(group) = &mut self.shared.state.lock().group {
            group.membership.commit_unsaved(until);
            group.membership.read_others();
        }
        self.shared.driver.ring();
    }

    /// What has to be done before it is gone, unless it was done.
    pub(super) fn say_goodbye(&mut self) {
        if self.is_closed {
            return;
        }
        self.is_dropped = true;
        if std::thread::panicking() {
            // What it knows may be what the panic left halfway, and a second panic would end the process.
            self.listener = None;
        }
        let until = self.shared.clock.now().elapsed + GOODBYE_MAX;
        if !self.leave_group() {
            self.commit_by_hand(until);
        }
        if self.shared.driver.may_drive() && !std::thread::panicking() {
            self.drive_until_left(Some(until));
        }
    }

    fn drive_until_left(&self, until: Option<Duration>) {
        let has_left = || {
            let state = self.shared.state.lock();
            state.has_ended || state.group.as_ref().is_none_or(|group| group.membership.has_left())
        };
        if !has_left() {
            self.shared.driver.drive(&*self.shared, until, has_left);
        }
    }

    /// The reader asks for something: it is alive.
    #[inline]
    pub(super) fn on_asked(&self) {
        let asked = &self.shared.asked;
        asked.store(asked.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Nothing came in time: the reader does something else.
    #[cold]
    pub(super) fn stop_waiting(&self) {
        let mut state = self.shared.state.lock();
        let _ = state.take_reader(&self.shared.clock);
    }

    /// Tells the member how far was read, of all that is read. Whoever is dropped may not be done with what it was given
    /// last.
    pub(super) fn note_positions(&self) {
        let mut state = self.shared.state.lock();
        let State { core, group, arrived, .. } = &mut *state;
        let Some(group) = group else { return };
        let mut firsts: BTreeMap<&TopicPartition, (Offset, LeaderEpoch)> = BTreeMap::new();
        let upto = |chunk: &Chunk| match self.is_dropped {
            true => self.rest.as_ref().and_then(Rest::in_hand).unwrap_or_else(|| chunk.lent_from()),
            false => self.rest.as_ref().and_then(Rest::next_offset).unwrap_or(chunk.next_offset()),
        };
        let at_hand = self.current.iter().map(|chunk| (chunk, upto(chunk)));
        let chunks = arrived.iter().filter_map(|arrived| match arrived {
            Arrived::Chunk(chunk) => Some((chunk, chunk.next_offset())),
            Arrived::Failed { .. } | Arrived::Other(_) => None,
        });
        for (chunk, next) in at_hand.chain(chunks) {
            if core.is_current(chunk.of(), chunk.generation()) {
                firsts.entry(chunk.of()).or_insert((next, chunk.next_epoch()));
            }
        }
        for of in core.assigned() {
            let upto = firsts.get(of).copied().or_else(|| core.position_and_epoch(of));
            if let Some(upto) = upto {
                group.membership.on_read(of, place(upto));
            }
        }
    }
}
