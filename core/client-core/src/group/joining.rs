//! JoinGroup and SyncGroup: how the members of a classic group meet.

use std::time::Duration;

use base::{ErrorCode, Now};
use wire::ApiKey;
use wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};

use super::classic::{Leading, Stage, VERSION_INSTANCE_MIN};
use super::{Asked, GroupError, Life, Member, Membership, blobs, millis};
use crate::links::Asking;

/// What a consumer's protocol is called among others, such as Connect's.
const PROTOCOL_TYPE: &str = "consumer";
/// A coordinator that hung for longer finds its sessions over, and its groups elsewhere.
const LATE_MAX: Duration = Duration::from_secs(120);
/// From here on JoinGroup can say the instance id (KIP-345).
const JOIN_VERSION_INSTANCE_MIN: i16 = 5;

impl Membership {
    /// Joins, once the owner has given up what has to be.
    pub(super) fn join(&mut self, now: Now) {
        let Some(Stage::Preparing) = self.classic().map(|classic| &classic.stage) else { return };
        let is_cooperative = self.classic().is_some_and(|classic| classic.is_cooperative);
        let has_given_up = is_cooperative || self.ownership.owned.is_empty();
        if self.ownership.revoking.is_some() || !has_given_up || self.retry_at > now.elapsed {
            return;
        }
        let Some(topics) = self.wanted_topics() else {
            self.topics.inquiry.is_wanted = true;
            return;
        };
        let Some(peer) = self.usable_coordinator(now) else { return };
        let waits = self.meeting(now);
        let Life::Classic(classic) = &mut self.life else { return };
        let (owned, generation) = (self.ownership.owned.clone(), classic.generation);
        let said = Member { instance_id: None, topics, owned, generation };
        let metadata = blobs::encode_subscription(&said, self.settings.rack.as_deref());
        let version = self.links.version(peer, ApiKey::JoinGroup);
        let (Ok(version), Ok(metadata)) = (version, metadata) else {
            return self.fail(GroupError::Unsupported("classic"));
        };
        let protocols = self.settings.assignors.iter();
        let protocols =
            protocols.map(|assignor| JoinGroupRequestProtocol { name: assignor.name(), metadata: &metadata });
        let instance_id = self.settings.instance_id.as_deref();
        let request = JoinGroupRequest {
            group_id: &self.settings.group_id,
            session_timeout_ms: millis(self.settings.session_timeout),
            rebalance_timeout_ms: millis(self.settings.poll_interval_max),
            member_id: &classic.member_id,
            group_instance_id: instance_id.filter(|_| version >= JOIN_VERSION_INSTANCE_MIN),
            protocol_type: PROTOCOL_TYPE,
            protocols: protocols.collect(),
            reason: None,
        };
        let about = Asked::Join(self.life_number);
        let asking = Asking { version, about, fills: Vec::new(), is_answered: true };
        match self.links.send_patiently((peer, waits), &request, asking, &mut self.net) {
            Ok(()) => {
                classic.stage = Stage::Joining;
                classic.wants_rejoin = false;
            }
            Err(_) => self.fail(GroupError::Unsayable),
        }
    }

    pub(super) fn on_joined(&mut self, life: u32, said: &JoinGroupResponse<'_>, now: Now) {
        if life != self.life_number {
            return;
        }
        let Some(classic) = self.classic() else { return };
        let code = ErrorCode::from_i16(said.error_code).unwrap_or(ErrorCode::UnknownServerError);
        match code {
            ErrorCode::None => {}
            // Only who comes back with the id that it is given takes a place.
            ErrorCode::MemberIdRequired => {
                classic.member_id = said.member_id.into();
                classic.stage = Stage::Preparing;
                return;
            }
            ErrorCode::RebalanceInProgress => {
                classic.stage = Stage::Preparing;
                return self.failed_once(now);
            }
            code => {
                classic.stage = Stage::Preparing;
                return self.on_classic_refused(code, now);
            }
        }
        let has_missed_one =
            classic.generation >= 0 && said.generation_id.saturating_sub(1) > classic.generation;
        if has_missed_one && (self.leaving.is_some() || !self.ownership.owned.is_empty()) {
            // A static member keeps its place in a generation that it slept through, but what it owned may have been
            // given to another then, and what it would commit of it in this one would be believed.
            return self.begin_classic_anew(said.member_id.into());
        }
        let Some(classic) = self.classic() else { return };
        classic.member_id = said.member_id.into();
        classic.generation = said.generation_id;
        classic.protocol = said.protocol_name.unwrap_or_default().into();
        classic.led = None;
        if said.leader == said.member_id {
            classic.stage = Stage::Leading(Leading::read(said));
        } else {
            classic.stage = Stage::Assigned(Vec::new());
        }
        self.succeeded();
    }

    /// Asks for what it gets; who leads says what each does.
    pub(super) fn sync(&mut self, now: Now) {
        if !matches!(&self.life, Life::Classic(classic) if matches!(classic.stage, Stage::Assigned(_))) {
            return;
        }
        if self.retry_at > now.elapsed {
            return;
        }
        let Some(peer) = self.usable_coordinator(now) else { return };
        let waits = self.meeting(now);
        let Life::Classic(classic) = &mut self.life else { return };
        let Stage::Assigned(assignments) = &classic.stage else { return };
        let Ok(version) = self.links.version(peer, ApiKey::SyncGroup) else {
            return self.fail(GroupError::Unsupported("classic"));
        };
        let assignments = assignments
            .iter()
            .map(|(member_id, bytes)| SyncGroupRequestAssignment { member_id, assignment: bytes });
        let instance_id = self.settings.instance_id.as_deref();
        let request = SyncGroupRequest {
            group_id: &self.settings.group_id,
            generation_id: classic.generation,
            member_id: &classic.member_id,
            group_instance_id: instance_id.filter(|_| version >= VERSION_INSTANCE_MIN),
            protocol_type: Some(PROTOCOL_TYPE),
            protocol_name: Some(&classic.protocol),
            assignments: assignments.collect(),
        };
        let about = Asked::Sync(self.life_number);
        let asking = Asking { version, about, fills: Vec::new(), is_answered: true };
        match self.links.send_patiently((peer, waits), &request, asking, &mut self.net) {
            Ok(()) => classic.stage = Stage::Syncing,
            Err(_) => self.fail(GroupError::Unsayable),
        }
    }

    pub(super) fn on_synced(&mut self, life: u32, said: &SyncGroupResponse<'_>, now: Now) {
        if life != self.life_number {
            return;
        }
        let interval = self.settings.heartbeat_interval;
        let Some(classic) = self.classic() else { return };
        let code = ErrorCode::from_i16(said.error_code).unwrap_or(ErrorCode::UnknownServerError);
        let parts = blobs::decode_assignment(said.assignment);
        match (code, parts) {
            (ErrorCode::None, Some(parts)) => {
                classic.stage = Stage::Stable;
                classic.is_heartbeat_asked = false;
                classic.heartbeat_due = now.elapsed.saturating_add(interval);
                self.aim_at(parts);
                self.succeeded();
            }
            // Another meeting has begun, or whoever led says what nobody understands.
            (ErrorCode::RebalanceInProgress, _) => self.prepare(),
            (ErrorCode::None, None) => {
                self.prepare();
                self.failed_once(now);
            }
            (code, _) => {
                self.prepare();
                self.on_classic_refused(code, now);
            }
        }
    }

    /// JoinGroup gets no answer.
    pub(super) fn on_join_lost(&mut self, life: u32, now: Now) {
        let is_unnamed = self.classic().is_some_and(|classic| classic.member_id.is_empty());
        if is_unnamed && life == self.life_number && self.settings.instance_id.is_some() {
            self.doubtful_join_at = Some(now.elapsed);
        }
        self.on_meeting_lost(life, now);
    }

    /// Whether who has this member's name by now may be itself, by a JoinGroup that came late; once, so that a real
    /// successor is fenced no more than that.
    pub(super) fn may_be_fenced_by_itself(&mut self, now: Now) -> bool {
        self.doubtful_join_at.take().is_some_and(|at| now.elapsed < at.saturating_add(LATE_MAX))
    }

    /// JoinGroup or SyncGroup gets no answer: it joins again.
    pub(super) fn on_meeting_lost(&mut self, life: u32, now: Now) {
        if life == self.life_number && self.classic().is_some() {
            self.prepare();
            self.failed_once(now);
        }
    }
}
