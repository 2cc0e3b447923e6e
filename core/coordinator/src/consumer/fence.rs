//! Members leave, or are taken out because they were silent or too slow.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;

use super::classic_group::ClassicGroup;
use super::heartbeat::{Decision, HeartbeatReply, find};
use super::member::{CurrentAssignment, EPOCH_LEFT_STATIC, Member, MemberId, MemberState, Owned};
use super::record::ConsumerGroupRecord;
use super::settings::ConsumerGroupError;
use super::subscription::RebalanceCause;
use super::{ConsumerGroup, Context, Draft, Soft, targets};

/// How long to wait before a member is taken out again if the records of the first time were not taken.
const RETRY: Duration = Duration::from_secs(1);

/// What the time has brought.
#[derive(Debug, Clone, PartialEq)]
pub struct Ticked {
    /// To be appended, and replayed once they are.
    pub records: Vec<ConsumerGroupRecord>,
    /// Who is taken out.
    pub fenced: Vec<Fenced>,
    /// The classic group that this one becomes.
    pub downgrade: Option<ClassicGroup>,
}

/// A member that is taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fenced {
    /// Who.
    pub member: MemberId,
    /// Why.
    pub because: FencedBecause,
}

/// Why a member is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FencedBecause {
    /// It was silent for longer than its session.
    Silent,
    /// It did not give back in time what it should not have, or did not join again in time.
    Slow,
}

impl ConsumerGroup {
    /// A member leaves for good, or for a while if it is static and says so.
    pub(super) fn leave(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        context: &Context<'_>,
    ) -> Result<Decision, ConsumerGroupError> {
        let id = find(&self.state, request, &self.id)?;
        if let Some(downgrade) = self.downgraded(&BTreeSet::from([id.clone()]), context)
            && request.member_epoch != EPOCH_LEFT_STATIC
        {
            let (reply, rebalance) = (left(&id, request), Some(RebalanceCause::Left));
            let (records, downgrade) = (self.tombstones(), Some(downgrade));
            return Ok(Decision { records, reply, rebalance, reconciled: None, downgrade });
        }
        let Self { state, soft, .. } = self;
        let mut draft = Draft::of(state);
        let (last, cause) = if request.member_epoch == EPOCH_LEFT_STATIC {
            let current = away(&state.members[&id].current);
            (Some(ConsumerGroupRecord::CurrentMemberAssignment(id.clone(), Some(Arc::new(current)))), None)
        } else {
            remove(&mut draft, std::slice::from_ref(&id));
            rebalance(&mut draft, soft, context);
            (None, Some(RebalanceCause::Left))
        };
        soft.revocations.clear(&id);
        let reply = left(&id, request);
        let records = draft.finish(last);
        Ok(Decision { records, reply, rebalance: cause, reconciled: None, downgrade: None })
    }

    /// Takes out whoever is due, and makes targets that are.
    pub fn on_tick(&mut self, context: &Context<'_>) -> Ticked {
        let now = context.now.elapsed;
        let Self { state, soft, .. } = self;
        let mut fenced: Vec<Fenced> = Vec::new();
        for (timers, because) in
            [(&mut soft.sessions, FencedBecause::Silent), (&mut soft.revocations, FencedBecause::Slow)]
        {
            for member in timers.due(now) {
                let is_slow = |it: &Member| {
                    it.current.state == MemberState::UnrevokedPartitions
                        || (it.is_classic() && it.current.epoch < state.target_epoch)
                };
                let found = state.members.get(&member);
                let is_due = found.is_some_and(|it| because == FencedBecause::Silent || is_slow(it));
                if !is_due {
                    // It is gone, or the records that made it were not taken.
                    timers.clear(&member);
                    continue;
                }
                timers.set(&member, now + RETRY);
                if !fenced.iter().any(|it| it.member == member) {
                    fenced.push(Fenced { member, because });
                }
            }
        }
        let ids: Vec<MemberId> = fenced.iter().map(|it| it.member.clone()).collect();
        if let Some(downgrade) =
            self.downgraded(&ids.iter().cloned().collect(), context).filter(|_| !ids.is_empty())
        {
            return Ticked { records: self.tombstones(), fenced, downgrade: Some(downgrade) };
        }
        let Self { state, soft, .. } = self;
        let mut draft = Draft::of(state);
        if !fenced.is_empty() {
            remove(&mut draft, &ids);
            rebalance(&mut draft, soft, context);
        } else if targets::is_due(state, soft.assigned, context.now, context.settings) {
            targets::make(&mut draft, context.image, context.now, context.settings);
            soft.on_targets(now);
        }
        Ticked { records: draft.finish(None), fenced, downgrade: None }
    }
}

/// Takes members away.
pub(super) fn remove(draft: &mut Draft<'_>, members: &[MemberId]) {
    for id in members {
        draft.push(ConsumerGroupRecord::CurrentMemberAssignment(id.clone(), None));
        draft.push(ConsumerGroupRecord::TargetAssignmentMember(id.clone(), None));
        draft.push(ConsumerGroupRecord::MemberMetadata(id.clone(), None));
    }
    targets::forget_regexes(draft);
}

/// Begins the next epoch after members left.
pub(super) fn rebalance(draft: &mut Draft<'_>, soft: &mut Soft, context: &Context<'_>) {
    let hash = targets::metadata_hash(draft.state(), context.image);
    targets::bump(draft, hash);
    if targets::is_due(draft.state(), soft.assigned, context.now, context.settings) {
        targets::make(draft, context.image, context.now, context.settings);
        soft.on_targets(context.now.elapsed);
    }
}

/// What a member is answered that leaves.
fn left(id: &MemberId, request: &ConsumerGroupHeartbeatRequest<'_>) -> HeartbeatReply {
    HeartbeatReply {
        member_id: id.to_string(),
        member_epoch: request.member_epoch,
        heartbeat_interval: Duration::ZERO,
        assignment: None,
    }
}

/// A static member is away: it keeps what it had, but for what it should have given back, which it no longer has.
fn away(current: &CurrentAssignment) -> CurrentAssignment {
    let state = match current.state {
        MemberState::UnrevokedPartitions => MemberState::Stable,
        state => state,
    };
    CurrentAssignment { epoch: EPOCH_LEFT_STATIC, state, revoking: Owned::new(), ..current.clone() }
}
