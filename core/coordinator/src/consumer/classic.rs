//! A classic group becomes one of the new protocol, or the other way, while it is read (KIP-848).
//!
//! ```text
//!   classic group ── the first member of the new protocol joins ──▶ group of both ──▶ group of the new protocol
//!                 ◀── the last member of the new protocol leaves ──
//! ```
//!
//! A group of both goes on where it was: what the members had is their target, and the generation is the epoch. The
//! members of the classic protocol are served as before, from what the server assigns.

mod blobs;
mod members;

use std::collections::BTreeSet;
use std::sync::Arc;

use base::Now;
use metadata::Image;
use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;

use super::classic_group::{ClassicGroup, ClassicMember};
use super::heartbeat::Decision;
use super::member::Caller;
use super::member::{
    ClassicMetadata, CurrentAssignment, MemberId, MemberMetadata, MemberState, Owned, owned_since,
};
use super::record::{ConsumerGroupRecord, GroupEpoch, TargetEpoch};
use super::settings::ConsumerGroupError;
use super::state::State;
use super::{ConsumerGroup, Context, Draft, topics};
use crate::assign::Partitions;

pub use members::{ClassicJoin, ClassicJoined, LeftTogether};

/// The protocol type of groups that may migrate.
pub const PROTOCOL_TYPE: &str = "consumer";

/// Why a group keeps its protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MigrationError {
    /// An operator does not want it, or it is of another protocol type.
    #[error("Group {0} is not a consumer group.")]
    NotAllowed(String),
    /// It would have more members than it may.
    #[error("The consumer group has reached its maximum capacity of {0} members.")]
    Full(usize),
    /// What a member wrote in its subscription or got as its assignment cannot be read.
    #[error("The subscription or the assignment of member {0} cannot be read.")]
    Unreadable(String),
    /// It knows no assignor that the others know.
    #[error("Member {0}'s protocols are not supported.")]
    Inconsistent(String),
    /// The member that joins is refused.
    #[error(transparent)]
    Refused(#[from] ConsumerGroupError),
}

impl MigrationError {
    /// Kafka's code for it.
    pub const fn code(&self) -> base::ErrorCode {
        match self {
            Self::NotAllowed(_) | Self::Unreadable(_) => base::ErrorCode::GroupIdNotFound,
            Self::Full(_) => base::ErrorCode::GroupMaxSizeReached,
            Self::Inconsistent(_) => base::ErrorCode::InconsistentGroupProtocol,
            Self::Refused(error) => error.code(),
        }
    }
}

impl ConsumerGroup {
    /// A member of the new protocol joins a classic group: the group that there will be, and what to write for it.
    ///
    /// Nothing is replayed in the group yet. Whoever calls takes the classic group away in the same append, and
    /// refuses before this whatever is not of [`PROTOCOL_TYPE`].
    ///
    /// # Errors
    /// If the group may not migrate, or the member may not join it.
    pub fn upgrade(
        group_id: &str,
        classic: &ClassicGroup,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        caller: &Caller<'_>,
        context: &Context<'_>,
    ) -> Result<(Self, Decision), MigrationError> {
        if !context.settings.migration.may_upgrade() {
            return Err(MigrationError::NotAllowed(group_id.to_owned()));
        }
        if classic.members.len() > context.settings.size_max {
            return Err(MigrationError::Full(context.settings.size_max));
        }
        let mut records = from_classic(classic, context.image, context.now)?;
        let mut group = Self::new(group_id);
        records.iter().for_each(|record| group.replay(record));
        group.on_loaded(context.now, context.settings);
        group.soft.assigned = None;
        let mut decision = group.heartbeat(request, caller, context)?;
        records.append(&mut decision.records);
        group.state = State::default();
        Ok((group, Decision { records, ..decision }))
    }

    /// The classic group that is left without these members, if only such members are left and they may migrate.
    pub(super) fn downgraded(
        &self,
        without: &BTreeSet<MemberId>,
        context: &Context<'_>,
    ) -> Option<ClassicGroup> {
        self.state.downgraded(without, context)
    }
}

impl State {
    /// The same for the group as it is or will be.
    fn downgraded(&self, without: &BTreeSet<MemberId>, context: &Context<'_>) -> Option<ClassicGroup> {
        let rest = || self.members.iter().filter(|(id, _)| !without.contains(*id));
        let may = context.settings.migration.may_downgrade();
        if !may || rest().next().is_none() || !rest().all(|(_, member)| member.is_classic()) {
            return None;
        }
        let members: Vec<ClassicMember> = rest()
            .filter_map(|(id, member)| {
                let metadata = &member.metadata;
                let classic = metadata.classic.as_ref()?;
                // What it has, not what it should have: until it joins again it may read all of that.
                let mut had = Partitions::new();
                for (topic, index) in member.current.held() {
                    had.entry(topic).or_default().insert(index);
                }
                Some(ClassicMember {
                    id: id.to_string(),
                    instance_id: metadata.instance_id.clone(),
                    client_id: metadata.client_id.clone(),
                    client_host: metadata.client_host.clone(),
                    rebalance_timeout_ms: metadata.rebalance_timeout_ms,
                    session_timeout_ms: classic.session_timeout_ms,
                    protocols: classic.protocols.clone(),
                    assignment: blobs::write_assignment(&had, blobs::version(classic), context.image),
                })
            })
            .collect();
        let protocol = common_protocol(&members)?;
        Some(ClassicGroup { generation: self.group_epoch, protocol, members })
    }
}

/// The records of a group of the new protocol in which every member has what it had in the classic one.
fn from_classic(
    classic: &ClassicGroup,
    image: &Image,
    now: Now,
) -> Result<Vec<ConsumerGroupRecord>, MigrationError> {
    let epoch = classic.generation;
    let state = State::default();
    let mut draft = Draft::of(&state);
    for (member, had) in classic.members.iter().zip(had_by(&classic.members, image)?) {
        let id: MemberId = member.id.as_str().into();
        let metadata = metadata_of(member).ok_or_else(|| unreadable(member))?;
        let current = CurrentAssignment {
            epoch,
            previous_epoch: epoch,
            state: MemberState::Stable,
            assigned: owned_since(&had, epoch),
            revoking: Owned::new(),
        };
        draft.push(ConsumerGroupRecord::MemberMetadata(id.clone(), Some(Arc::new(metadata))));
        draft.push(ConsumerGroupRecord::TargetAssignmentMember(id.clone(), Some(Arc::new(had))));
        draft.push(ConsumerGroupRecord::CurrentMemberAssignment(id, Some(Arc::new(current))));
    }
    // Nobody says what there was to read in that generation, nor that all of it was assigned. As if there had been
    // nothing, another epoch begins at once, also where the one that joins is in the group already, by its instance.
    let metadata_hash = topics::hash(&[], image);
    draft.push(ConsumerGroupRecord::Metadata(Some(GroupEpoch { epoch, metadata_hash })));
    draft
        .push(ConsumerGroupRecord::TargetAssignmentMetadata(Some(TargetEpoch { epoch, at: Some(now.wall) })));
    Ok(draft.finish(None))
}

/// What each member may be reading: what it was assigned, and what else it said it has when it joined. A cooperative one
/// goes on reading that until it is told to give it back, and between two rebalances not all of it is assigned.
///
/// Of two that say so, it is the one's that got it in the higher generation; what is assigned is of the highest.
fn had_by(members: &[ClassicMember], image: &Image) -> Result<Vec<Partitions>, MigrationError> {
    let mut had = Vec::with_capacity(members.len());
    let mut claims = Vec::with_capacity(members.len());
    let mut taken = Partitions::new();
    for (at, member) in members.iter().enumerate() {
        let assigned = blobs::read_assignment(&member.assignment, image);
        let assigned = assigned.ok_or_else(|| unreadable(member))?;
        for (topic, indexes) in &assigned {
            taken.entry(*topic).or_default().extend(indexes);
        }
        had.push(assigned);
        let blob = member.protocols.first().map(|(_, blob)| blob).ok_or_else(|| unreadable(member))?;
        let said = blobs::read_subscription(blob).ok_or_else(|| unreadable(member))?;
        claims.push((said.generation, at, said.owned(image)));
    }
    claims.sort_by_key(|(generation, at, _)| (std::cmp::Reverse(*generation), *at));
    for (_, at, owned) in claims {
        for (topic, indexes) in owned {
            let taken = taken.entry(topic).or_default();
            let free = indexes.into_iter().filter(|index| taken.insert(*index));
            had[at].entry(topic).or_default().extend(free);
        }
    }
    had.iter_mut().for_each(|had| had.retain(|_, indexes| !indexes.is_empty()));
    Ok(had)
}

fn unreadable(member: &ClassicMember) -> MigrationError {
    MigrationError::Unreadable(base::excerpt(&member.id, 128))
}

/// What a member of the classic protocol says of itself; `None` if its subscription cannot be read.
fn metadata_of(member: &ClassicMember) -> Option<MemberMetadata> {
    let subscription = blobs::read_subscription(&member.protocols.first()?.1)?;
    Some(MemberMetadata {
        instance_id: member.instance_id.clone(),
        rack_id: subscription.rack,
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        topics: subscription.topics,
        regex: None,
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        assignor: None,
        classic: Some(ClassicMetadata {
            session_timeout_ms: member.session_timeout_ms,
            protocols: member.protocols.clone(),
        }),
    })
}

/// The assignor that all members know: the first one prefers it most.
fn common_protocol(members: &[ClassicMember]) -> Option<String> {
    let known =
        |name: &String| members.iter().all(|member| member.protocols.iter().any(|(it, _)| it == name));
    members.first()?.protocols.iter().map(|(name, _)| name).find(|name| known(name)).cloned()
}
