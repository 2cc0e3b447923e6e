//! ConsumerGroupHeartbeat: a member joins, is there, wants something else, or leaves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::{Now, PartitionIndex, TopicId, Uuid};
use wire::messages::consumer_group_heartbeat::{
    Assignment, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
};

use super::classic_group::ClassicGroup;
use super::member::{
    Caller, CurrentAssignment, EPOCH_JOIN, EPOCH_LEAVE, EPOCH_LEFT_STATIC, Member, MemberId, MemberState,
    partitions_of,
};
use super::reconcile::{self, Step};
use super::record::ConsumerGroupRecord;
use super::settings::{ConsumerGroupError, ConsumerGroupSettings};
use super::state::State;
use super::subscription::RebalanceCause;
use super::{
    BEAT_OF_MEMBER, ConsumerGroup, Context, Draft, HURRY, Soft, rebalance_timeout, session_timeout,
    subscription, targets,
};
use crate::assign::{Assignor, Partitions};
use crate::limits;

/// From this version on, members bring their own ids (KIP-1082).
const VERSION_MEMBER_IDS: i16 = 1;

/// What is written and what is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// To be appended, and replayed once they are.
    pub records: Vec<ConsumerGroupRecord>,
    /// To be sent once they are committed.
    pub reply: HeartbeatReply,
    /// Why the group is in another epoch, if it is.
    pub rebalance: Option<RebalanceCause>,
    /// How long after its target was made the member has all of it and nothing else; `None` if it has not, or had
    /// it before.
    pub reconciled: Option<Duration>,
    /// The classic group that this one becomes: its last member of the new protocol left. The records take this one
    /// away; whoever calls writes the classic group in the same append.
    pub downgrade: Option<ClassicGroup>,
}

/// What a member is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// The member.
    pub member_id: String,
    /// Its epoch.
    pub member_epoch: i32,
    /// When it should be heard again.
    pub heartbeat_interval: Duration,
    /// All that it may read; `None` if that is what it was told before.
    pub assignment: Option<Partitions>,
}

impl HeartbeatReply {
    /// As it is sent.
    pub fn to_response(&self) -> ConsumerGroupHeartbeatResponse<'_> {
        let of = |(topic, indexes): (&TopicId, &BTreeSet<PartitionIndex>)| {
            let partitions = indexes.iter().map(|index| index.0).collect();
            ConsumerGroupHeartbeatResponseTopicPartitions { topic_id: topic.0, partitions }
        };
        let assignment = self.assignment.as_ref();
        ConsumerGroupHeartbeatResponse {
            member_id: Some(&self.member_id),
            member_epoch: self.member_epoch,
            heartbeat_interval_ms: i32::try_from(self.heartbeat_interval.as_millis()).unwrap_or(i32::MAX),
            assignment: assignment.map(|it| Assignment { topic_partitions: it.iter().map(of).collect() }),
            ..ConsumerGroupHeartbeatResponse::default()
        }
    }
}

impl ConsumerGroup {
    /// A member says that it is there.
    ///
    /// # Errors
    /// As Kafka's: the request is wrong, the group or the member is not there, or the member is not in the epoch it
    /// says.
    pub fn heartbeat(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        caller: &Caller<'_>,
        context: &Context<'_>,
    ) -> Result<Decision, ConsumerGroupError> {
        check(request, caller, context.settings)?;
        if !limits::has_room(said_bytes(request, caller), || self.bytes_of_others(request.member_id)) {
            return Err(ConsumerGroupError::TooLong);
        }
        if request.member_epoch != EPOCH_JOIN && !self.exists() {
            // Clients give up where there is no such group, and join again where they are none of its members: their
            // group may be gone, or have turned to the classic protocol, while they were away.
            let leaves = request.member_epoch < EPOCH_JOIN;
            let no_group = || ConsumerGroupError::NoGroup(self.id.clone());
            return Err(if leaves { no_group() } else { no_member(request, &self.id) });
        }
        if request.member_epoch < EPOCH_JOIN {
            return self.leave(request, context);
        }
        let owned = owned(request);
        let Self { id: group, state, soft } = self;
        let mut draft = Draft::of(state);
        let entered = enter(&mut draft, request, caller, context.settings, owned.as_ref(), group)?;
        let who = (&entered.id, entered.before.as_ref().map(|member| &*member.metadata));
        let rebalance = subscription::refresh(&mut draft, soft, who, (request, caller), context)?;
        if targets::is_due(draft.state(), soft.assigned, context.now, context.settings) {
            targets::make(&mut draft, context.image, context.now, context.settings);
            soft.on_targets(context.now.elapsed);
        }
        let owned = owned.as_ref().filter(|_| !entered.joins_again);
        let next = match entered.is_late {
            true => None,
            false => next_step(draft.state(), &entered.id, owned, context)?,
        };
        let after = draft.state().members[&entered.id].clone();
        let after = Member { current: next.clone().map_or(after.current, Arc::new), ..after };
        let interval = next_beat(draft.state(), soft.changed, &after, context);
        let reply = reply(&entered, &after, request, interval);
        let reconciled = soft.reconciled(entered.before.as_ref(), &after, draft.state(), context.now);
        // What it has to give back is told to one that joins again as if for the first time.
        soft.heard(&entered.id, &after, next.is_some() || entered.joins_again, context);
        let record =
            |it| ConsumerGroupRecord::CurrentMemberAssignment(entered.id.clone(), Some(Arc::new(it)));
        let records = draft.finish(next.map(record));
        Ok(Decision { records, reply, rebalance, reconciled, downgrade: None })
    }
}

/// Whoever sends the request, once it is a member.
struct Entered {
    id: MemberId,
    /// What it was; `None` if it is new.
    before: Option<Member>,
    /// It joins, but is a member under this id already: an answer to it may have been lost.
    joins_again: bool,
    /// It is of the epoch before, and is told the present one before it goes on: either it never was, or this request
    /// was overtaken by one that was, and says what the member had before that.
    is_late: bool,
}

/// What the member says it has. A topic may be there twice.
fn owned(request: &ConsumerGroupHeartbeatRequest<'_>) -> Option<Partitions> {
    let said = request.topic_partitions.as_ref()?;
    let mut owned = Partitions::new();
    for of in said {
        owned
            .entry(TopicId(of.topic_id))
            .or_default()
            .extend(of.partitions.iter().copied().map(PartitionIndex));
    }
    Some(owned)
}

/// Finds the member, or lets it in.
fn enter(
    draft: &mut Draft<'_>,
    request: &ConsumerGroupHeartbeatRequest<'_>,
    caller: &Caller<'_>,
    settings: &ConsumerGroupSettings,
    owned: Option<&Partitions>,
    group: &str,
) -> Result<Entered, ConsumerGroupError> {
    let state = draft.state();
    let static_member = request.instance_id.and_then(|instance| state.static_member(instance)).cloned();
    if request.member_epoch != EPOCH_JOIN {
        let id = find(state, request, group)?;
        let member = state.members[&id].clone();
        check_epoch(&member.current, request.member_epoch, owned)?;
        let is_late = request.member_epoch < member.current.epoch;
        return Ok(Entered { id, before: Some(member), joins_again: false, is_late });
    }
    let id: MemberId = match request.member_id {
        "" => Uuid::from_random(caller.random).to_string().into(),
        id => id.into(),
    };
    // Whoever was away comes back, even if it says no longer that it is static.
    let is_away = state.members.get(&id).is_some_and(|member| member.current.epoch == EPOCH_LEFT_STATIC);
    if let Some(old) = static_member.or_else(|| is_away.then(|| id.clone())) {
        let member = &state.members[&old];
        let left = member.current.epoch == EPOCH_LEFT_STATIC;
        if !left && !member.is_classic() && old != id {
            let (member, instance) = (id.to_string(), request.instance_id.unwrap_or_default().to_owned());
            return Err(ConsumerGroupError::UnreleasedInstance { member, instance, owner: old.to_string() });
        }
        if left || old != id {
            replace(draft, &old, &id);
        }
    }
    let state = draft.state();
    let before = state.members.get(&id).cloned();
    if before.is_none() && state.members.len() >= settings.size_max {
        return Err(ConsumerGroupError::Full(settings.size_max));
    }
    // One that took over for another begins anew, as does one of which nobody knows how far it was.
    let begins = |it: &CurrentAssignment| it.epoch == EPOCH_JOIN || it.state == MemberState::Unknown;
    let joins_again = before.as_ref().is_some_and(|member| !begins(&member.current));
    Ok(Entered { id, before, joins_again, is_late: false })
}

/// The member that a request is from.
pub(super) fn find(
    state: &State,
    request: &ConsumerGroupHeartbeatRequest<'_>,
    group: &str,
) -> Result<MemberId, ConsumerGroupError> {
    let unknown = || no_member(request, group);
    let Some(instance) = request.instance_id else {
        return state.members.get_key_value(request.member_id).map(|(id, _)| id.clone()).ok_or_else(unknown);
    };
    let id = state.static_member(instance);
    let id = id.ok_or_else(|| ConsumerGroupError::NoInstance(base::excerpt(instance, 128)))?;
    if **id != *request.member_id {
        return Err(ConsumerGroupError::FencedInstance {
            member: base::excerpt(request.member_id, 128),
            instance: base::excerpt(instance, 128),
            owner: id.to_string(),
        });
    }
    Ok(id.clone())
}

fn no_member(request: &ConsumerGroupHeartbeatRequest<'_>, group: &str) -> ConsumerGroupError {
    ConsumerGroupError::NoMember { member: base::excerpt(request.member_id, 128), group: group.to_owned() }
}

/// A static member comes back under another id: it gets all that the one before had.
pub(super) fn replace(draft: &mut Draft<'_>, old: &MemberId, new: &MemberId) {
    let state = draft.state();
    let (member, target) = (state.members[old].clone(), state.targets.get(old).cloned().unwrap_or_default());
    let current =
        CurrentAssignment { epoch: EPOCH_JOIN, previous_epoch: EPOCH_JOIN, ..(*member.current).clone() };
    draft.push(ConsumerGroupRecord::CurrentMemberAssignment(old.clone(), None));
    draft.push(ConsumerGroupRecord::TargetAssignmentMember(old.clone(), None));
    draft.push(ConsumerGroupRecord::MemberMetadata(old.clone(), None));
    draft.push(ConsumerGroupRecord::MemberMetadata(new.clone(), Some(member.metadata)));
    draft.push(ConsumerGroupRecord::TargetAssignmentMember(new.clone(), Some(target)));
    draft.push(ConsumerGroupRecord::CurrentMemberAssignment(new.clone(), Some(Arc::new(current))));
}

/// The epoch of a request must be the member's. The one before will do if the member has nothing that it should not
/// have: the answer that told it the new one may have been lost.
fn check_epoch(
    current: &CurrentAssignment,
    received: i32,
    owned: Option<&Partitions>,
) -> Result<(), ConsumerGroupError> {
    let known = current.epoch;
    let is_had = |(topic, indexes): (&TopicId, &BTreeSet<PartitionIndex>)| {
        let had = current.assigned.get(topic);
        indexes.iter().all(|index| had.is_some_and(|had| had.contains_key(index)))
    };
    let may_be_late =
        received == current.previous_epoch && owned.is_some_and(|owned| owned.iter().all(is_had));
    if received > known {
        return Err(ConsumerGroupError::FencedEpoch { compared: "greater", received, known });
    }
    if received < known && !may_be_late {
        return Err(ConsumerGroupError::FencedEpoch { compared: "smaller", received, known });
    }
    Ok(())
}

/// One step of a member towards its target, if there is one to take.
pub(super) fn next_step(
    state: &State,
    id: &MemberId,
    owned: Option<&Partitions>,
    context: &Context<'_>,
) -> Result<Option<CurrentAssignment>, ConsumerGroupError> {
    let member = &state.members[id];
    let wants = |topic: TopicId| {
        context.image.topic_by_id(topic).is_some_and(|topic| {
            let name = topic.name.as_str();
            let lists = state.wish(&member.metadata);
            lists.iter().any(|names| names.binary_search_by(|wanted| wanted.as_str().cmp(name)).is_ok())
        })
    };
    let is_free = |topic, index| state.owner(topic, index).is_none_or(|owner| owner == &**id);
    let nothing = Partitions::new();
    let step = Step {
        target: state.targets.get(id).map_or(&nothing, |target| &**target),
        target_epoch: state.target_epoch,
        target_is_old: state.group_epoch > state.target_epoch,
        wants: &wants,
        is_free: &is_free,
        owned,
    };
    reconcile::step(&member.current, &step)
}

fn reply(
    entered: &Entered,
    after: &Member,
    request: &ConsumerGroupHeartbeatRequest<'_>,
    heartbeat_interval: Duration,
) -> HeartbeatReply {
    let now = partitions_of(&after.current.assigned);
    let changed = entered.before.as_ref().is_none_or(|before| partitions_of(&before.current.assigned) != now);
    // Whoever does not say what it has may not know what it should have: the answer that told it may be lost.
    let in_doubt =
        request.member_epoch < after.current.epoch || after.current.state == MemberState::UnrevokedPartitions;
    let is_full = request.rebalance_timeout_ms != -1
        && (request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some())
        && request.topic_partitions.is_some();
    HeartbeatReply {
        member_id: entered.id.to_string(),
        member_epoch: after.current.epoch,
        heartbeat_interval,
        assignment: (changed || in_doubt || is_full).then_some(now),
    }
}

/// When a member is to be heard next: soon if it waits for something, and if the targets were made not long ago.
/// Members seldom come alone, and those who came first have to give up what is for the others: nobody gets that before
/// they have heard.
fn next_beat(state: &State, changed: Option<Duration>, after: &Member, context: &Context<'_>) -> Duration {
    let interval = context.settings.heartbeat_interval;
    let waits =
        after.current.state == MemberState::UnreleasedPartitions || state.group_epoch > state.target_epoch;
    let is_young = changed.is_some_and(|at| context.now.elapsed < at.saturating_add(interval));
    let hurry = HURRY.max(BEAT_OF_MEMBER * u32::try_from(state.members.len()).unwrap_or(u32::MAX));
    if waits || is_young { interval.min(hurry) } else { interval }
}

impl Soft {
    /// Targets were made.
    pub(super) fn on_targets(&mut self, now: Duration) {
        (self.assigned, self.changed) = (Some(now), Some(now));
    }

    /// A member was heard, and has this; whether it has all its time from now on to give back what it should not have.
    pub(super) fn heard(&mut self, id: &MemberId, member: &Member, begins: bool, context: &Context<'_>) {
        let now = context.now.elapsed;
        self.sessions.set(id, now + session_timeout(member, context.settings));
        if member.current.state != MemberState::UnrevokedPartitions {
            self.revocations.clear(id);
        } else if begins {
            self.revocations.set(id, now + rebalance_timeout(member));
        }
    }

    /// How long after targets were made, here or when the log was loaded, a member has all of its own and nothing
    /// else; `None` if it has not, or had it before.
    pub(super) fn reconciled(
        &self,
        before: Option<&Member>,
        after: &Member,
        state: &State,
        now: Now,
    ) -> Option<Duration> {
        let is_there = state.group_epoch == state.target_epoch && after.is_reconciled_to(state.target_epoch);
        let had = |before: &Member| {
            before.current.state == MemberState::Stable
                && partitions_of(&before.current.assigned) == partitions_of(&after.current.assigned)
        };
        let since = self.assigned.filter(|_| is_there && !before.is_some_and(had))?;
        Some(now.elapsed.saturating_sub(since))
    }
}

/// Whether the fields say what they must; the words are Kafka's.
fn check(
    request: &ConsumerGroupHeartbeatRequest<'_>,
    caller: &Caller<'_>,
    settings: &ConsumerGroupSettings,
) -> Result<(), ConsumerGroupError> {
    let is_blank = |text: &str| text.trim().is_empty();
    let names = request.subscribed_topic_names.as_deref().unwrap_or_default();
    let regex = request.subscribed_topic_regex.unwrap_or_default();
    let epoch = request.member_epoch;
    let joins = epoch == EPOCH_JOIN;
    let brings_id = caller.version >= VERSION_MEMBER_IDS || epoch > EPOCH_JOIN || epoch == EPOCH_LEAVE;
    let owns_something = request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty());
    let wrong = [
        (
            (brings_id || epoch == EPOCH_LEFT_STATIC) && is_blank(request.member_id),
            "MemberId can't be empty.",
        ),
        (is_blank(request.group_id), "GroupId can't be empty."),
        (request.instance_id.is_some_and(is_blank), "InstanceId can't be empty."),
        (request.rack_id.is_some_and(is_blank), "RackId can't be empty."),
        (
            joins && request.rebalance_timeout_ms == -1,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (joins && owns_something, "TopicPartitions must be empty when (re-)joining."),
        (
            joins && names.is_empty() && regex.is_empty(),
            "SubscribedTopicNames or SubscribedTopicRegex must be set in first request.",
        ),
        (epoch == EPOCH_LEFT_STATIC && request.instance_id.is_none(), "InstanceId can't be null."),
        (epoch < EPOCH_LEFT_STATIC, "MemberEpoch is invalid."),
    ];
    if let Some((_, words)) = wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
        return Err(ConsumerGroupError::Invalid(words));
    }
    check_assignor(request.server_assignor, settings)
}

/// How much the member says of itself.
fn said_bytes(request: &ConsumerGroupHeartbeatRequest<'_>, caller: &Caller<'_>) -> usize {
    let names = request.subscribed_topic_names.iter().flatten().copied();
    let texts =
        [Some(caller.client_id), request.rack_id, request.instance_id, request.subscribed_topic_regex];
    names.chain(texts.into_iter().flatten()).map(str::len).sum()
}

fn check_assignor(name: Option<&str>, settings: &ConsumerGroupSettings) -> Result<(), ConsumerGroupError> {
    let Some(name) = name else { return Ok(()) };
    if Assignor::from_name(name).is_some_and(|assignor| settings.assignors.contains(&assignor)) {
        return Ok(());
    }
    let known: Vec<&str> = settings.assignors.iter().map(|assignor| assignor.name()).collect();
    Err(ConsumerGroupError::UnsupportedAssignor { name: base::excerpt(name, 128), known: known.join(", ") })
}
