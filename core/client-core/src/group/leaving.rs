//! Out of a group, in good order or not.

use std::time::Duration;

use base::Now;
use wire::ApiKey;
use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};

use super::offsets::For;
use super::{Asked, Life, Membership};
use crate::links::{Asking, LinksSettings, Peer};

/// From here on LeaveGroup names several members (KIP-345).
const VERSION_BATCHED_MIN: i16 = 3;
/// From here on each can say why.
const VERSION_REASON_MIN: i16 = 5;
/// Whoever says this epoch leaves.
const LEAVES: i32 = -1;
/// A static member says this: it will be back (KIP-848).
const LEAVES_FOR_A_WHILE: i32 = -2;

/// A member that leaves as soon as what it read is committed.
#[derive(Debug)]
pub(super) struct Leaving {
    /// Until when it waits for that.
    pub(super) until: Duration,
}

impl Membership {
    /// Leaves its group: the owner reads nothing of what it owned any more. What was read is committed first,
    /// if that is done by itself, as is what was committed before and is still on its way.
    pub fn unsubscribe(&mut self, now: Now) {
        self.subscription = None;
        if !matches!(self.life, Life::Classic(_) | Life::Epochs(_)) {
            self.ownership.on_left();
            return self.begin_life(Life::Out);
        }
        let LinksSettings { request_timeout, .. } = self.settings.links;
        let until = now.elapsed.saturating_add(request_timeout);
        if self.settings.auto_commit.is_some() {
            let unsaved = self.offsets.unsaved(&self.ownership.owned);
            if !unsaved.is_empty() {
                self.queue_commit(unsaved, until, For::Itself);
            }
        }
        let gone = self.ownership.on_left();
        self.offsets.forget(&gone);
        self.leaving = Some(Leaving { until });
    }

    /// Whether it is in no group, and nothing of it is on its way.
    pub fn has_left(&self) -> bool {
        let is_out = matches!(self.life, Life::Out | Life::Failed) && self.leaving.is_none();
        is_out && !self.is_goodbye_asked && self.offsets.has_committed()
    }

    pub(super) fn keep_leaving(&mut self, now: Now) {
        let Some(leaving) = &self.leaving else { return };
        let is_over = leaving.until <= now.elapsed;
        if !is_over && !self.offsets.has_committed() {
            return;
        }
        if self.has_place() && !is_over {
            let Some(peer) = self.usable_coordinator(now) else { return };
            self.say_goodbye(peer, now);
        }
        self.leaving = None;
        let next = if self.subscription.is_some() { Life::Arriving } else { Life::Out };
        self.begin_life(next);
    }

    /// The owner asks for nothing: whatever it has is another's from now on.
    pub(super) fn give_up_place(&mut self, now: Now) {
        // Who cannot be told finds out by itself.
        if let Some(peer) = self.usable_coordinator(now).filter(|_| self.has_place()) {
            self.say_goodbye(peer, now);
        }
        self.lose();
        self.begin_life(if self.polled.is_waiting { Life::Arriving } else { Life::Resting });
    }

    /// Whether the group knows of it.
    fn has_place(&self) -> bool {
        match &self.life {
            // One that comes back is waited for, and its place with it.
            Life::Classic(classic) => !classic.member_id.is_empty() && self.settings.instance_id.is_none(),
            Life::Epochs(epochs) => epochs.epoch > 0 || epochs.is_asked,
            Life::Out | Life::Arriving | Life::Resting | Life::Failed => false,
        }
    }

    fn say_goodbye(&mut self, peer: Peer, now: Now) {
        let group_id = &*self.settings.group_id;
        let instance_id = self.settings.instance_id.as_deref();
        let asking = |version| Asking { version, about: Asked::Leave, fills: Vec::new(), is_answered: true };
        let (links, net) = (&mut self.links, &mut self.net);
        let sent = match &self.life {
            Life::Classic(classic) => {
                let Ok(version) = links.version(peer, ApiKey::LeaveGroup) else { return };
                let member_id = &*classic.member_id;
                let reason = (version >= VERSION_REASON_MIN).then_some("the consumer is done");
                let member = MemberIdentity { member_id, group_instance_id: None, reason };
                let request = if version >= VERSION_BATCHED_MIN {
                    LeaveGroupRequest { group_id, members: vec![member], ..LeaveGroupRequest::default() }
                } else {
                    LeaveGroupRequest { group_id, member_id, ..LeaveGroupRequest::default() }
                };
                links.send((peer, now), &request, asking(version), net)
            }
            Life::Epochs(epochs) => {
                let Ok(version) = links.version(peer, ApiKey::ConsumerGroupHeartbeat) else { return };
                let request = ConsumerGroupHeartbeatRequest {
                    group_id,
                    member_id: &epochs.member_id,
                    member_epoch: if instance_id.is_some() { LEAVES_FOR_A_WHILE } else { LEAVES },
                    instance_id,
                    ..ConsumerGroupHeartbeatRequest::default()
                };
                links.send((peer, now), &request, asking(version), net)
            }
            Life::Out | Life::Arriving | Life::Resting | Life::Failed => return,
        };
        // It need not be said: the session ends in time.
        self.is_goodbye_asked = sent.is_ok();
    }
}
