//! Members of the classic protocol in a group of the new one: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.
//!
//! ```text
//!   JoinGroup   what it wants and has ──▶ one step towards its target; the generation is its epoch
//!   SyncGroup   ◀── what it may read
//!   Heartbeat   ◀── REBALANCE_IN_PROGRESS as long as another step is to be taken
//! ```
//!
//! A member that rebalances eagerly has nothing when it joins, one that is cooperative says what it has: both are
//! what a member of the new protocol says in its heartbeats.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::{ErrorCode, Uuid};

use super::super::classic_group::{ClassicGroup, ClassicMember};
use super::super::fence;
use super::super::heartbeat::{next_step, replace};
use super::super::member::{EPOCH_JOIN, Member, MemberId, MemberState, partitions_of};
use super::super::record::ConsumerGroupRecord;
use super::super::settings::ConsumerGroupError;
use super::super::subscription::RebalanceCause;
use super::super::{ConsumerGroup, Context, Draft, rebalance_timeout, session_timeout, targets};
use super::{MigrationError, blobs, metadata_of};
use crate::assign::Partitions;

/// A member of the classic protocol joins.
#[derive(Debug, Clone, Copy)]
pub struct ClassicJoin<'a> {
    /// What it says of itself; its id may be empty, its assignment is not looked at.
    pub member: &'a ClassicMember,
    /// Random bits, for the id of a member that brings none.
    pub random: u128,
}

/// What such a member is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassicJoined {
    /// To be appended, and replayed once they are.
    pub records: Vec<ConsumerGroupRecord>,
    /// Its id.
    pub member_id: String,
    /// The generation it is in.
    pub generation: i32,
    /// The assignor that it is told.
    pub protocol: String,
    /// The classic group that this one becomes: it was the last member that spoke the new protocol. It is told none
    /// of the above, but to ask again; see [`Decision::downgrade`](super::super::Decision::downgrade).
    pub downgrade: Option<ClassicGroup>,
    /// Why the group is in another epoch, if it is.
    pub rebalance: Option<RebalanceCause>,
    /// As in [`Decision::reconciled`](super::super::Decision::reconciled).
    pub reconciled: Option<Duration>,
}

/// What becomes of a group that members leave.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftTogether {
    /// To be appended, and replayed once they are.
    pub records: Vec<ConsumerGroupRecord>,
    /// The classic group that this one becomes; see [`Decision::downgrade`](super::super::Decision::downgrade).
    pub downgrade: Option<ClassicGroup>,
    /// Who left, or why not, in the order in which they were named.
    pub told: Vec<Result<MemberId, ConsumerGroupError>>,
}

impl ConsumerGroup {
    /// A member of the classic protocol joins, for the first time or again. Whether it must come back with its new
    /// id is decided before this.
    ///
    /// # Errors
    /// If its subscription cannot be read, the group is full, or it has something and is not known.
    pub fn join_classic(
        &mut self,
        join: &ClassicJoin<'_>,
        context: &Context<'_>,
    ) -> Result<ClassicJoined, MigrationError> {
        let said = join.member;
        let unreadable = || MigrationError::Unreadable(base::excerpt(&said.id, 128));
        let metadata = metadata_of(said).ok_or_else(unreadable)?;
        let (protocol, blob) = said.protocols.first().ok_or_else(unreadable)?;
        let owned = blobs::read_subscription(blob).ok_or_else(unreadable)?.owned(context.image);
        if !self.knows_protocols(said) {
            return Err(MigrationError::Inconsistent(base::excerpt(&said.id, 128)));
        }
        let Self { id: group_id, state, soft, .. } = self;
        let mut draft = Draft::of(state);
        let id = enter(&mut draft, join)?;
        let before = draft.state().members.get(&id).cloned();
        if before.is_none() {
            check_newcomer(group_id, said, &owned)?;
            check_room(draft.state().members.len(), context)?;
        }
        let wanted = before.as_ref().map(|member| (&member.metadata.topics, &member.metadata.regex));
        let subscribed = wanted != Some((&metadata.topics, &metadata.regex));
        if before.as_ref().is_none_or(|member| *member.metadata != metadata) {
            draft.push(ConsumerGroupRecord::MemberMetadata(id.clone(), Some(Arc::new(metadata))));
        }
        if before.as_ref().is_some_and(|member| !member.is_classic())
            && let Some(downgrade) = draft.state().downgraded(&BTreeSet::new(), context)
        {
            return Ok(ClassicJoined {
                records: self.tombstones(),
                member_id: id.to_string(),
                generation: downgrade.generation,
                protocol: downgrade.protocol.clone(),
                downgrade: Some(downgrade),
                rebalance: None,
                reconciled: None,
            });
        }
        let hash = targets::metadata_hash(draft.state(), context.image);
        let rebalance = match &before {
            None => Some(RebalanceCause::Joined),
            Some(_) if subscribed => Some(RebalanceCause::Subscribed),
            Some(_) if hash != draft.state().metadata_hash => Some(RebalanceCause::TopicsChanged),
            Some(_) => None,
        };
        if rebalance.is_some() {
            targets::bump(&mut draft, hash);
        }
        if targets::is_due(draft.state(), soft.assigned, context.now, context.settings) {
            targets::make(&mut draft, context.image, context.now, context.settings);
            soft.assigned = Some(context.now.elapsed);
        }
        let next = next_step(draft.state(), &id, Some(&owned), context)?;
        let after = draft.state().members[&id].clone();
        let after = Member { current: next.clone().map_or(after.current, Arc::new), ..after };
        let reconciled = soft.reconciled(before.as_ref(), &after, draft.state(), context.now);
        soft.heard(&id, &after, next.is_some(), context);
        let last =
            next.map(|it| ConsumerGroupRecord::CurrentMemberAssignment(id.clone(), Some(Arc::new(it))));
        Ok(ClassicJoined {
            records: draft.finish(last),
            member_id: id.to_string(),
            generation: after.current.epoch.max(EPOCH_JOIN),
            protocol: protocol.clone(),
            downgrade: None,
            rebalance,
            reconciled,
        })
    }

    /// Members leave together: each says its id, or its `group.instance.id`, or both. One of the new protocol can be
    /// taken out by its `group.instance.id` alone.
    pub fn leave_classic(&mut self, leaving: &[(&str, Option<&str>)], context: &Context<'_>) -> LeftTogether {
        let told: Vec<_> = leaving.iter().map(|(id, instance)| self.find_leaving(id, *instance)).collect();
        let gone: BTreeSet<MemberId> = told.iter().flatten().cloned().collect();
        if gone.is_empty() {
            return LeftTogether { records: Vec::new(), downgrade: None, told };
        }
        if let Some(downgrade) = self.downgraded(&gone, context) {
            return LeftTogether { records: self.tombstones(), downgrade: Some(downgrade), told };
        }
        let Self { state, soft, .. } = self;
        gone.iter().for_each(|id| soft.revocations.clear(id));
        let mut draft = Draft::of(state);
        fence::remove(&mut draft, &gone.into_iter().collect::<Vec<_>>());
        fence::rebalance(&mut draft, soft, context);
        LeftTogether { records: draft.finish(None), downgrade: None, told }
    }

    fn find_leaving(&self, id: &str, instance_id: Option<&str>) -> Result<MemberId, ConsumerGroupError> {
        if let (true, Some(instance)) = (id.is_empty(), instance_id) {
            let found = self.state.static_member(instance).cloned();
            return found.ok_or_else(|| ConsumerGroupError::NoInstance(base::excerpt(instance, 128)));
        }
        self.check_instance(id, instance_id)?;
        match self.known_member(id)?.is_classic() {
            true => Ok(id.into()),
            false => Err(self.no_member(id)),
        }
    }

    /// Whether a member is the one that its `group.instance.id` names.
    ///
    /// # Errors
    /// If nobody has the instance, or somebody else.
    pub fn check_instance(&self, id: &str, instance_id: Option<&str>) -> Result<(), ConsumerGroupError> {
        let Some(instance) = instance_id else { return Ok(()) };
        match self.state.static_member(instance) {
            None => Err(ConsumerGroupError::NoInstance(base::excerpt(instance, 128))),
            Some(owner) if **owner != *id => Err(ConsumerGroupError::FencedInstance {
                member: base::excerpt(id, 128),
                instance: base::excerpt(instance, 128),
                owner: owner.to_string(),
            }),
            Some(_) => Ok(()),
        }
    }

    /// Whether a member knows an assignor that all other members of the classic protocol know.
    fn knows_protocols(&self, joining: &ClassicMember) -> bool {
        let others = self.members().filter(|(id, _)| ***id != *joining.id);
        let classic: Vec<_> = others.filter_map(|(_, member)| member.metadata.classic.as_ref()).collect();
        joining.protocols.iter().any(|(name, _)| {
            classic.iter().all(|other| other.protocols.iter().any(|(known, _)| known == name))
        })
    }

    /// What a member of the classic protocol may read, as bytes for SyncGroup.
    ///
    /// # Errors
    /// If it is not such a member, is in another generation, or has to join again.
    pub fn sync_classic(
        &mut self,
        member_id: &str,
        generation: i32,
        context: &Context<'_>,
    ) -> Result<Vec<u8>, ErrorCode> {
        let member = self.classic_member(member_id, generation)?;
        if self.is_behind(member) && member.current.state != MemberState::UnrevokedPartitions {
            return Err(ErrorCode::RebalanceInProgress);
        }
        let classic = member.metadata.classic.as_ref().ok_or(ErrorCode::UnknownMemberId)?;
        let partitions = partitions_of(&member.current.assigned);
        Ok(blobs::write_assignment(&partitions, blobs::version(classic), context.image))
    }

    /// A member of the classic protocol says that it is there.
    ///
    /// # Errors
    /// [`ErrorCode::RebalanceInProgress`] if it has to join again; if it is not such a member, or is in another
    /// generation.
    pub fn heartbeat_classic(
        &mut self,
        member_id: &str,
        generation: i32,
        context: &Context<'_>,
    ) -> Result<(), ErrorCode> {
        let member = self.classic_member(member_id, generation)?.clone();
        let id: MemberId = member_id.into();
        let now = context.now.elapsed;
        self.soft.sessions.set(&id, now + session_timeout(&member, context.settings));
        let steps = match member.current.state {
            MemberState::Stable => false,
            // It joins once it has given back what it should.
            MemberState::UnrevokedPartitions => true,
            MemberState::UnreleasedPartitions => {
                let owned = partitions_of(&member.current.assigned);
                next_step(&self.state, &id, Some(&owned), context).is_ok_and(|step| step.is_some())
            }
            MemberState::Unknown => true,
        };
        if steps || self.is_behind(&member) || self.is_outdated(context) {
            // Others may wait for what it has: it must join in time.
            self.soft.revocations.set_if_absent(&id, now + rebalance_timeout(&member));
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    /// Whether there are newer targets than a member has.
    fn is_behind(&self, member: &Member) -> bool {
        member.current.epoch < self.state.target_epoch
    }

    /// Whether there is something else to read than when the epoch began. Where patterns are read, those who read them
    /// see it.
    fn is_outdated(&mut self, context: &Context<'_>) -> bool {
        let end = Some(context.image.end());
        if self.soft.seen == end || self.state.subscribed_regexes().next().is_some() {
            return false;
        }
        let is_outdated = targets::metadata_hash(&self.state, context.image) != self.state.metadata_hash;
        if !is_outdated {
            self.soft.seen = end;
        }
        is_outdated
    }

    /// A member that says who it is by its id and its generation.
    fn classic_member(&self, id: &str, generation: i32) -> Result<&Member, ErrorCode> {
        let member = self.known_member(id).map_err(|error: ConsumerGroupError| error.code())?;
        match (member.is_classic(), member.current.epoch == generation) {
            (false, _) => Err(ErrorCode::UnknownMemberId),
            (true, false) => Err(ErrorCode::IllegalGeneration),
            (true, true) => Ok(member),
        }
    }
}

fn check_room(count: usize, context: &Context<'_>) -> Result<(), MigrationError> {
    let size_max = context.settings.size_max;
    if count < size_max { Ok(()) } else { Err(MigrationError::Full(size_max)) }
}

/// Who is not in the group and has something was taken out, and others may have what it reads: it has to let go of
/// that, and come back as another. Kafka takes it in.
fn check_newcomer(group: &str, said: &ClassicMember, owned: &Partitions) -> Result<(), ConsumerGroupError> {
    let has_something = owned.values().any(|indexes| !indexes.is_empty());
    if !said.id.is_empty() && has_something {
        let member = base::excerpt(&said.id, 128);
        return Err(ConsumerGroupError::NoMember { member, group: group.to_owned() });
    }
    Ok(())
}

/// The id of a member that joins. A static member that comes back without one takes over from the one before.
fn enter(draft: &mut Draft<'_>, join: &ClassicJoin<'_>) -> Result<MemberId, ConsumerGroupError> {
    let instance = join.member.instance_id.as_deref();
    let known = instance.and_then(|instance| draft.state().static_member(instance)).cloned();
    let said = join.member.id.as_str();
    if !said.is_empty() {
        return match known {
            Some(owner) if *owner != *said => Err(ConsumerGroupError::FencedInstance {
                member: base::excerpt(said, 128),
                instance: base::excerpt(instance.unwrap_or_default(), 128),
                owner: owner.to_string(),
            }),
            _ => Ok(said.into()),
        };
    }
    let id: MemberId = Uuid::from_random(join.random).to_string().into();
    if let Some(old) = known {
        replace(draft, &old, &id);
    }
    Ok(id)
}
