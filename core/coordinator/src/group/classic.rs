//! A group of the classic protocol: its members agree on a protocol, one of them assigns.
//!
//! ```text
//!              first join             all joined, or time is up
//!      Empty ──────────▶ Preparing ─────────────────────────────▶ Completing
//!        ▲                Rebalance ◀──── join, leave, silence ──── Rebalance
//!        │                 │     ▲                                     │
//!        └── nobody left ──┘     └── join, leave, silence ── Stable ◀──┘
//!                                                             the leader's assignment is written
//! ```
//!
//! What lasts is the record that is written when a generation is assigned, or when nobody is left: a coordinator
//! that loads it begins with that generation, stable. One that came back from the new protocol was assigned by nobody
//! in it, and begins with a rebalance. Who waits for what, sessions, and a rebalance on its way are
//! soft, and begin anew with each coordinator. No generation is ever assigned twice: members learn what they have
//! only once it is committed.
//!
//! **Invariant:** the leader is a member; a static member's instance names it and no other; who waits to join is
//! answered when the generation begins, and who waits for its assignment when it is written or a rebalance begins.

mod describe;
mod handover; // from and to the new protocol
mod join; // members come
mod lasting;
mod member;
mod rebalance; // and a generation begins
mod returning; // who was away
mod sync; // which the leader assigns
mod upkeep; // members live, leave, and fall silent

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{ErrorCode, TimestampMs};
use wire::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;
use wire::{Decoder, Message};

use crate::record::GroupMetadataValue;
pub(crate) use handover::{empty_record_of, record_of};
pub(crate) use join::{ID_REQUIRED_FROM, Join, is_too_much, new_member_id};
use member::Member;
use rebalance::InitialDelay;
pub(crate) use upkeep::LEAVE_BATCHED_FROM;

/// The type of protocol that consumers speak: the only one whose metadata is looked into, for the topics in it.
const CONSUMER: &str = "consumer";

/// Members are waited for as long as this: without it, a group whose members ask for no time at all would begin one
/// rebalance after the other.
const REBALANCE_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Where a group is in the life of a generation. A group that is not there is `Dead`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Nobody is in it; it may have offsets.
    Empty,
    /// Members are waited for.
    PreparingRebalance,
    /// The leader assigns.
    CompletingRebalance,
    /// Everybody has what the leader assigned.
    Stable,
}

impl State {
    /// As clients are told.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// A group of the classic protocol, or one that only has offsets.
#[derive(Debug)]
pub(crate) struct ClassicGroup {
    id: Arc<str>,
    state: State,
    /// When it came into the state that is written; [`TimestampMs::NONE`] in records of Kafka before 2.1.
    state_since: TimestampMs,
    generation: i32,
    /// What kind of members it has; `None` if nobody ever joined.
    protocol_type: Option<Arc<str>>,
    protocol: Option<Arc<str>>,
    leader: Option<Arc<str>>,
    members: BTreeMap<Arc<str>, Member>,
    /// The member of each `group.instance.id`.
    statics: BTreeMap<Arc<str>, Arc<str>>,
    /// Ids that were given out and did not come back, and until when they are waited for (KIP-394).
    pending: BTreeMap<Arc<str>, Duration>,
    /// The topics that its consumers read; `None` if they are not known.
    subscribed: Option<BTreeSet<Box<str>>>,
    /// Whether its log has a record of it.
    is_written: bool,
    /// What that record says, as long as it names static members.
    written: Option<Box<GroupMetadataValue>>,
    /// Whether that names no leader: see [`record_of`].
    is_unled: bool,
    /// When the join phase ends, whoever is missing.
    join_due: Option<Duration>,
    /// The join phase of a group that was empty.
    initial: Option<InitialDelay>,
    /// When members that did not fetch their assignment are taken out.
    sync_due: Option<Duration>,
    /// When its record is written again, because it could not be.
    write_due: Option<Duration>,
    /// When its members stopped reading.
    rebalancing_since: Duration,
}

impl ClassicGroup {
    /// A group that nobody joined.
    pub(crate) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            state: State::Empty,
            state_since: TimestampMs::NONE,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            statics: BTreeMap::new(),
            pending: BTreeMap::new(),
            subscribed: None,
            is_written: false,
            written: None,
            is_unled: false,
            join_due: None,
            initial: None,
            sync_due: None,
            write_due: None,
            rebalancing_since: Duration::ZERO,
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state == State::Empty
    }

    /// Whether nobody is in it, and nobody was given an id to come back with.
    pub(crate) fn is_deserted(&self) -> bool {
        self.is_empty() && self.pending.is_empty()
    }

    pub(crate) fn member_count(&self) -> usize {
        self.members.len()
    }

    pub(crate) fn has_member(&self, id: &str) -> bool {
        self.members.contains_key(id)
    }

    /// Whether there is nothing to remember of it but its offsets.
    pub(crate) fn is_blank(&self) -> bool {
        self.is_deserted() && !self.is_written
    }

    /// Whether its log has a record of it.
    pub(crate) fn is_written(&self) -> bool {
        self.is_written
    }

    /// When it came into its state; [`TimestampMs::NONE`] if that is not known.
    pub(crate) fn state_since(&self) -> TimestampMs {
        self.state_since
    }

    /// The type of protocol that its members speak; `None` if nobody ever joined.
    pub(crate) fn protocol_type(&self) -> Option<&Arc<str>> {
        self.protocol_type.as_ref()
    }

    pub(crate) fn speaks_consumer(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER)
    }

    /// Whether its members may need offsets of a topic. Consumers whose topics are not known may need all.
    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.subscribed {
            Some(topics) => topics.contains(topic),
            None => self.speaks_consumer(),
        }
    }

    /// Whether the topics that its consumers read are known.
    pub(crate) fn knows_subscriptions(&self) -> bool {
        self.subscribed.is_some()
    }

    /// Whether a member may commit offsets (KIP-345 for instances).
    pub(crate) fn check_commit(
        &self,
        member_id: &str,
        instance: Option<&str>,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        if generation < 0 && self.is_empty() {
            // Whoever commits for a group that has no members: an administrator, or a consumer without a group.
            return Ok(());
        }
        if generation < 0 && member_id.is_empty() && instance.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        self.check_member(member_id, instance)?;
        if generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        match self.state {
            State::CompletingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::Empty | State::PreparingRebalance | State::Stable => Ok(()),
        }
    }

    /// Whether this is a member, and the one that its instance names.
    fn check_member(&self, member_id: &str, instance: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance) = instance {
            match self.statics.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(current) if **current != *member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        match self.members.contains_key(member_id) {
            true => Ok(()),
            false => Err(ErrorCode::UnknownMemberId),
        }
    }

    fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// The longest time that a member asks to be waited for, if it is any time at all.
    fn rebalance_timeout(&self) -> Duration {
        let longest = self.members.values().map(|member| member.rebalance_timeout).max();
        longest.unwrap_or_default().max(REBALANCE_TIMEOUT_MIN)
    }

    /// Whether everybody who is known has joined the next generation.
    fn all_joined(&self) -> bool {
        self.pending.is_empty() && self.members.values().all(|member| member.joining.is_some())
    }

    /// The topics in the subscriptions of all members. A subscription that cannot be read makes them unknown.
    fn find_subscribed(&self) -> Option<BTreeSet<Box<str>>> {
        if !self.speaks_consumer() {
            return None;
        }
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            let metadata = member.metadata(self.protocol.as_deref()?)?;
            let mut d = Decoder::new(metadata);
            d.i16().ok()?;
            // What comes behind the topics differs from version to version, and is of no interest here.
            let subscription = ConsumerProtocolSubscription::decode(&mut d, 0).ok()?;
            topics.extend(subscription.topics.into_iter().map(Box::from));
        }
        Some(topics)
    }

    /// Asserts what must be.
    pub(crate) fn check(&self) {
        assert!(self.leader.as_ref().is_none_or(|id| self.members.contains_key(id)), "{self:?}");
        assert_eq!(self.leader.is_none(), self.members.is_empty(), "{self:?}");
        assert!(self.state != State::Empty || self.members.is_empty(), "{self:?}");
        let waits = |member: &Member| member.joining.as_ref().is_some_and(|joining| joining.ticket.is_some());
        let nobody_waits = !self.members.values().any(waits);
        assert!(self.state == State::PreparingRebalance || nobody_waits, "{self:?}");
        let nobody_syncs = self.members.values().all(|member| member.syncing.is_none());
        assert!(self.state == State::CompletingRebalance || nobody_syncs, "{self:?}");
    }
}
