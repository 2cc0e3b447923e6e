//! Membership by the consumer protocol (KIP-848): the coordinator tells each member what it is to own.
//!
//! ```text
//!   epoch 0: what it wants ──▶ epoch n, and what it is to own ──▶ it gives up, says so, and takes
//!                                      ▲                                  │
//!                                      └──────── what it owns ────────────┘
//! ```
//!
//! A heartbeat says only what changed since the last that was answered; null is "as before". After one that
//! was not answered, or refused, everything is said again. What the member is about to take counts as owned: it may
//! have taken it by the time that the coordinator hears of it, which gives to others what it is not told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{ErrorCode, Now, PartitionIndex, TopicName, TopicPartition, Uuid};
use wire::ApiKey;
use wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
};

use super::{Asked, GroupError, GroupProtocol, Life, Membership, Ownership, Subscription, millis};
use crate::chance::Chance;
use crate::links::Asking;

/// From here on the member makes its own id, and the coordinator resolves patterns.
const VERSION_OWN_ID_MIN: i16 = 1;
/// What may lie between two heartbeats, whatever the coordinator says.
const INTERVAL_BOUNDS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(3600);

/// What a heartbeat said that need not be said again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    subscription_number: u32,
    claimed: BTreeSet<TopicPartition>,
}

/// A member.
#[derive(Debug)]
pub(super) struct Epochs {
    version: i16,
    pub(super) member_id: Arc<str>,
    /// 0 until the coordinator has taken it in.
    pub(super) epoch: i32,
    pub(super) is_asked: bool,
    pub(super) due: Duration,
    interval: Duration,
    said: Option<Said>,
    /// The coordinator changed what it is to own, and was not told since that this is done; what it is not told
    /// is given up, it does not give to others.
    owes_word: bool,
    /// What it is to own, as the coordinator said it last.
    assigned: BTreeMap<Uuid, Vec<i32>>,
    /// By which id each topic was assigned last: that is the one of which it owns something. Another of the same name may
    /// be known, which was deleted since.
    ids: BTreeMap<TopicName, Uuid>,
    /// Topics of it that nobody has said the names of.
    pub(super) unresolved: BTreeSet<Uuid>,
}

impl Epochs {
    /// One who speaks this version of the protocol.
    pub(super) fn new(version: i16, chance: &mut Chance) -> Self {
        let bits = u128::from(chance.next_u64()) << 64 | u128::from(chance.next_u64());
        let own_id = (version >= VERSION_OWN_ID_MIN).then(|| Uuid::from_random(bits).to_string());
        Self {
            version,
            member_id: own_id.unwrap_or_default().into(),
            epoch: 0,
            is_asked: false,
            due: Duration::ZERO,
            interval: Duration::from_secs(5),
            said: None,
            owes_word: false,
            assigned: BTreeMap::new(),
            ids: BTreeMap::new(),
            unresolved: BTreeSet::new(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        (!self.is_asked).then_some(self.due)
    }

    /// Whether it is the coordinator that resolves patterns.
    pub(super) const fn says_patterns(&self) -> bool {
        self.version >= VERSION_OWN_ID_MIN
    }
}

impl Membership {
    pub(super) fn epochs(&mut self) -> Option<&mut Epochs> {
        match &mut self.life {
            Life::Epochs(epochs) => Some(epochs),
            _ => None,
        }
    }

    pub(super) fn keep_epochs(&mut self, now: Now) {
        let Life::Epochs(epochs) = &self.life else { return };
        let number = self.topics.subscription_number;
        let is_known = |said: &Said| {
            // What it is about to take need not be said before that is done.
            let Ownership { owned, .. } = &self.ownership;
            let is_said = said.claimed == *owned || said.claimed == self.ownership.claimed();
            said.subscription_number == number && is_said
        };
        let is_done = epochs.owes_word && !self.ownership.is_busy();
        let is_news = is_done || !epochs.said.as_ref().is_some_and(is_known);
        if epochs.is_asked || self.retry_at > now.elapsed || !(is_news || epochs.due <= now.elapsed) {
            return;
        }
        let is_pattern = matches!(self.subscription, Some(Subscription::Pattern(_)));
        if is_pattern && !epochs.says_patterns() && self.topics.matching.is_none() {
            self.topics.inquiry.is_wanted = true;
            return;
        }
        self.say(now);
    }

    /// Says what the coordinator does not know yet.
    fn say(&mut self, now: Now) {
        let Some(peer) = self.usable_coordinator(now) else { return };
        let saying =
            Said { subscription_number: self.topics.subscription_number, claimed: self.ownership.claimed() };
        let wanted = self.wanted_topics();
        let claimed = self.by_id(&saying.claimed);
        let is_busy = self.ownership.is_busy();
        let Ok(version) = self.links.version(peer, ApiKey::ConsumerGroupHeartbeat) else {
            return self.fail(GroupError::Unsupported("consumer"));
        };
        let Life::Epochs(epochs) = &mut self.life else { return };
        let before = epochs.said.as_ref();
        let is_whole = before.is_none();
        let says_topics =
            before.is_none_or(|before| before.subscription_number != saying.subscription_number);
        let says_claimed = epochs.owes_word || before.is_none_or(|before| before.claimed != saying.claimed);
        let pattern = match &self.subscription {
            Some(Subscription::Pattern(pattern)) if epochs.version >= VERSION_OWN_ID_MIN => Some(pattern),
            _ => None,
        };
        // Who wants what fits a pattern takes back the names that it may have said before.
        let names = match (&wanted, pattern) {
            (_, Some(_)) => Some(Vec::new()),
            (Some(topics), None) => Some(topics.iter().map(|topic| topic.as_str()).collect()),
            (None, None) => None,
        };
        // And the other way about, if there was a before.
        let may_have_been = epochs.epoch > 0 && version >= VERSION_OWN_ID_MIN;
        let regex = pattern.map(|pattern| pattern.as_str()).or(may_have_been.then_some(""));
        let request = ConsumerGroupHeartbeatRequest {
            group_id: &self.settings.group_id,
            member_id: &epochs.member_id,
            member_epoch: epochs.epoch,
            instance_id: self.settings.instance_id.as_deref(),
            rack_id: self.settings.rack.as_deref().filter(|_| is_whole),
            rebalance_timeout_ms: if is_whole { millis(self.settings.poll_interval_max) } else { -1 },
            subscribed_topic_names: names.filter(|_| says_topics),
            subscribed_topic_regex: regex.filter(|_| says_topics),
            server_assignor: self.settings.remote_assignor.as_deref().filter(|_| is_whole),
            topic_partitions: says_claimed.then_some(claimed),
        };
        let about = Asked::ConsumerHeartbeat(self.life_number, saying);
        let asking = Asking { version, about, fills: Vec::new(), is_answered: true };
        match self.links.send((peer, now), &request, asking, &mut self.net) {
            Ok(()) => {
                epochs.is_asked = true;
                epochs.owes_word &= is_busy;
            }
            Err(_) => self.fail(GroupError::Unsayable),
        }
    }

    /// Partitions, as the protocol says them.
    fn by_id(&self, parts: &BTreeSet<TopicPartition>) -> Vec<ConsumerGroupHeartbeatRequestTopicPartitions> {
        let Life::Epochs(Epochs { ids, .. }) = &self.life else { return Vec::new() };
        let mut named: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
        for part in parts {
            if let Some(&id) = ids.get(&part.topic) {
                named.entry(id).or_default().push(part.partition.0);
            }
        }
        let said =
            |(topic_id, partitions)| ConsumerGroupHeartbeatRequestTopicPartitions { topic_id, partitions };
        named.into_iter().map(said).collect()
    }

    pub(super) fn on_consumer_heartbeat(
        &mut self,
        (life, saying): (u32, Said),
        said: &ConsumerGroupHeartbeatResponse<'_>,
        now: Now,
    ) {
        if life != self.life_number {
            return;
        }
        let Some(epochs) = self.epochs() else { return };
        epochs.is_asked = false;
        let code = ErrorCode::from_i16(said.error_code).unwrap_or(ErrorCode::UnknownServerError);
        if !code.is_none() {
            epochs.said = None;
            return self.on_epochs_refused(code, now);
        }
        epochs.said = Some(saying);
        epochs.epoch = said.member_epoch;
        if let Some(id) = said.member_id.filter(|id| !id.is_empty()) {
            epochs.member_id = id.into();
        }
        let interval = Duration::from_millis(u64::try_from(said.heartbeat_interval_ms).unwrap_or(0));
        epochs.interval = interval.clamp(*INTERVAL_BOUNDS.start(), *INTERVAL_BOUNDS.end());
        epochs.due = now.elapsed.saturating_add(epochs.interval);
        self.succeeded();
        if let Some(assignment) = &said.assignment {
            let parts = assignment.topic_partitions.iter();
            let assigned = parts.map(|topic| (topic.topic_id, topic.partitions.clone())).collect();
            if let Some(epochs) = self.epochs() {
                epochs.owes_word |= epochs.assigned != assigned;
                epochs.assigned = assigned;
            }
            if self.resolve_target() {
                self.topics.inquiry.is_wanted = true;
            }
        }
    }

    /// Names what it is to own; whether the names of some topics are still to be found out.
    pub(super) fn resolve_target(&mut self) -> bool {
        let Life::Epochs(epochs) = &self.life else { return false };
        if epochs.epoch <= 0 {
            return false;
        }
        let (mut target, mut unresolved, mut ids) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for (&id, parts) in &epochs.assigned {
            let Some(name) = self.name_of(id) else {
                unresolved.insert(id);
                continue;
            };
            let of = |&index: &i32| TopicPartition { topic: name.clone(), partition: PartitionIndex(index) };
            target.extend(parts.iter().filter(|&&index| index >= 0).map(of));
            ids.push((name.clone(), id));
        }
        self.aim_at(target);
        let is_open = !unresolved.is_empty();
        if let Some(epochs) = self.epochs() {
            epochs.unresolved = unresolved;
            epochs.ids.extend(ids);
        }
        is_open
    }

    fn on_epochs_refused(&mut self, code: ErrorCode, now: Now) {
        let Some(epochs) = self.epochs() else { return };
        let was_in = epochs.epoch > 0;
        match code {
            ErrorCode::GroupIdNotFound if !was_in => self.fail(GroupError::Refused(code)),
            // What it had is another's. It comes back as it came. If nobody else was in the group, that may be gone.
            ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch | ErrorCode::GroupIdNotFound => {
                let (version, member_id) = (epochs.version, epochs.member_id.clone());
                self.lose();
                let epochs = Epochs { member_id, ..Epochs::new(version, &mut self.chance) };
                self.begin_life(Life::Epochs(epochs));
            }
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => {
                self.lose_coordinator();
                self.failed_once(now);
            }
            // Whoever had this instance id has not left yet; its session ends in time.
            ErrorCode::UnreleasedInstanceId => self.failed_once(now),
            // The API is there, but the group's protocol is switched off.
            ErrorCode::UnsupportedVersion if self.settings.protocol == GroupProtocol::Auto => {
                self.lose();
                self.begin_classic();
            }
            code if code.is_retriable() || code == ErrorCode::UnknownServerError => self.failed_once(now),
            code => self.fail(GroupError::Refused(code)),
        }
    }

    /// A heartbeat gets no answer: what it said is said again.
    pub(super) fn on_consumer_heartbeat_lost(&mut self, life: u32, now: Now) {
        if life != self.life_number {
            return;
        }
        if let Some(epochs) = self.epochs() {
            epochs.is_asked = false;
            epochs.said = None;
        }
        self.failed_once(now);
    }
}
