//! Out of a group, in good order or not.
//!
//! What was read is committed first, in a generation that the group knows. A classic group may be about to change it:
//!
//! ```text
//!   joining ── all have come ──▶ leading ──▶ syncing ──▶ stable: commit in the new generation ──▶ LeaveGroup
//!      └────── others are awaited ──▶ break the connection off: commit in the old one ──────────────┘
//! ```
//!
//! A broker answers JoinGroup before it looks at anything that was sent behind it, so that who wants to go while others
//! are awaited has to say so on another connection; and until all have come, the generation is the old one.
//!
//! **Invariant:** who leaves owns nothing: whatever the group says meanwhile, nothing is given to its owner.

use std::collections::BTreeSet;
use std::time::Duration;

use base::{Now, TopicPartition};
use wire::ApiKey;
use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};

use super::classic::Stage;
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

/// How long JoinGroup may take to be answered if all have come: a way there and back. A consumer that is dropped waits for
/// a second in all, and has to have the time to go by another connection.
const ALL_MEET_WITHIN: Duration = Duration::from_millis(300);

/// A member that leaves as soon as what it read is committed.
#[derive(Debug)]
pub(super) struct Leaving {
    /// Until when it waits for that.
    until: Duration,
    /// Until when it waits for an answer to JoinGroup.
    joins_until: Duration,
    /// What it owned. It says nothing any more upon which others might get it, before it says that it leaves.
    owned: BTreeSet<TopicPartition>,
}

impl Leaving {
    /// When it stops waiting for something.
    pub(super) fn deadline(&self, now: Now) -> Option<Duration> {
        [self.joins_until, self.until].into_iter().filter(|&at| at > now.elapsed).min()
    }
}

impl Membership {
    /// Leaves its group: the owner reads nothing of what it owned any more. What was read is committed first,
    /// if that is done by itself, as is what was committed before and is still on its way.
    pub fn unsubscribe(&mut self, now: Now) {
        if !matches!(self.life, Life::Classic(_) | Life::Epochs(_)) {
            self.subscription = None;
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
        // That was the last that it commits as a member.
        self.subscription = None;
        let mut owned = self.ownership.on_left();
        self.offsets.forget(&owned);
        // It may have subscribed again before it was gone.
        owned.extend(self.leaving.take().into_iter().flat_map(|before| before.owned));
        let joins_until = now.elapsed.saturating_add(ALL_MEET_WITHIN);
        self.leaving = Some(Leaving { until, joins_until, owned });
    }

    /// Whether it is in no group, and nothing of it is on its way.
    pub fn has_left(&self) -> bool {
        let is_out = matches!(self.life, Life::Out | Life::Failed) && self.leaving.is_none();
        is_out && !self.is_goodbye_asked && self.offsets.has_committed()
    }

    pub(super) fn keep_leaving(&mut self, now: Now) {
        let Some(leaving) = &self.leaving else { return };
        let is_over = leaving.until <= now.elapsed;
        let has_committed = self.offsets.has_committed_as_member();
        let is_pressed = if has_committed { self.has_place() } else { leaving.joins_until <= now.elapsed };
        if is_pressed {
            self.stop_joining(now);
        }
        if !has_committed && !is_over {
            // A meeting for which all have come ends with the generation to commit in.
            self.lead(now);
            self.sync(now);
            return;
        }
        if self.has_place() {
            match self.usable_coordinator(now) {
                Some(peer) => self.say_goodbye(peer, now),
                None if is_over => {}
                None => return,
            }
        }
        assert!(self.ownership.owned.is_empty(), "who leaves owns nothing: {:?}", self.ownership);
        self.leaving = None;
        let next = if self.subscription.is_some() { Life::Arriving } else { Life::Out };
        self.begin_life(next);
    }

    /// Does not wait for the others, if it has joined and they have not: what it has to say gets past its JoinGroup by
    /// another connection only.
    fn stop_joining(&mut self, now: Now) {
        if !matches!(&self.life, Life::Classic(classic) if matches!(classic.stage, Stage::Joining)) {
            return;
        }
        let (life, coordinator) = (self.life_number, self.coordinator);
        let is_such = |asked: &Asked| matches!(asked, Asked::Join(of) if *of == life);
        if let Some(connection) = self.links.asked_on(is_such) {
            self.close_connection(connection, now);
            // Nothing speaks against the broker.
            self.coordinator = coordinator;
        }
    }

    /// Whether nobody else can own it: this member does, or did until it began to leave.
    pub(super) fn is_kept(&self, of: &TopicPartition) -> bool {
        let had = self.leaving.as_ref().is_some_and(|leaving| leaving.owned.contains(of));
        had || self.ownership.owned.contains(of)
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
