//! The groups of a shard: what is kept of each, and when each wants to be looked at.
//!
//! A group comes to be with its first member or its first offset, and is gone with its tombstone, or when nothing of
//! it is left. Ids are chosen by peers, so the map is a tree.
//!
//! **Invariant:** a group's timer is never later than its deadline; it may be earlier, since a heartbeat moves only
//! the deadline.

pub(crate) mod classic;
mod consumers; // of both protocols, in one group

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{Offset, TimestampMs};
use metadata::{ConfigResource, Image};

use crate::consumer::{ConsumerGroupRecord, ConsumerGroupSettings};
use crate::group_record::GroupRecord;
use crate::link::Links;
use crate::offsets::GroupOffsets;
use crate::request::{ConnectionId, Speaker};
use classic::ClassicGroup;
pub(crate) use consumers::{Consumers, Place, count};

/// Groups of one shard that requests may make: each takes memory for as long as its offsets are kept. What a log has
/// is loaded, however many they are.
pub(crate) const GROUPS_MAX: usize = 10_000;

/// How late the timers of groups are looked at when nothing is wrong.
const LATE: Duration = Duration::from_secs(1);
/// How long members are waited for that may have spoken while nobody listened.
const GRACE: Duration = Duration::from_secs(1);

/// A group and its offsets.
#[derive(Debug)]
pub(crate) struct Group {
    /// How far it came.
    pub(crate) offsets: GroupOffsets,
    /// Who is in it.
    pub(crate) kind: GroupKind,
    /// The end of the log after the last record that is about it, or that took one of its name away.
    pub(crate) written_to: Offset,
    /// When it is looked at next.
    timer: Option<Duration>,
    /// How its members are reached.
    links: Links,
}

/// Which protocol the members of a group speak.
#[derive(Debug)]
pub(crate) enum GroupKind {
    /// JoinGroup and SyncGroup; also a group that only has offsets.
    Classic(ClassicGroup),
    /// ConsumerGroupHeartbeat; some of its members may still speak the classic protocol (KIP-848).
    Consumer(Box<Consumers>),
}

impl GroupKind {
    /// As Kafka calls it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Classic(_) => "classic",
            Self::Consumer(_) => "consumer",
        }
    }

    fn member_count(&self) -> usize {
        match self {
            Self::Classic(classic) => classic.member_count(),
            Self::Consumer(consumers) => consumers.group.members().len(),
        }
    }

    pub(crate) fn has_member(&self, id: &str) -> bool {
        match self {
            Self::Classic(classic) => classic.has_member(id),
            Self::Consumer(consumers) => consumers.group.member(id).is_some(),
        }
    }

    /// The state of the group, as Kafka calls it.
    pub(crate) fn state_name(&self) -> &'static str {
        match self {
            Self::Classic(classic) => classic.state().name(),
            Self::Consumer(consumers) => consumers.group.state().name(),
        }
    }
}

impl Group {
    fn new(id: Arc<str>, written_to: Offset) -> Self {
        Self {
            offsets: GroupOffsets::default(),
            kind: GroupKind::Classic(ClassicGroup::new(id)),
            written_to,
            timer: None,
            links: Links::default(),
        }
    }

    /// Whether nothing of it is left.
    fn is_blank(&self) -> bool {
        self.offsets.is_empty()
            && match &self.kind {
                GroupKind::Classic(classic) => classic.is_blank(),
                GroupKind::Consumer(consumers) => consumers.group.is_blank(),
            }
    }

    /// When it wants to be looked at.
    fn deadline(&self) -> Option<Duration> {
        match &self.kind {
            GroupKind::Classic(classic) => classic.deadline(),
            GroupKind::Consumer(consumers) => consumers.group.deadline(&consumers.settings),
        }
    }

    /// Whether its members may need offsets of a topic.
    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.kind {
            GroupKind::Classic(classic) => classic.is_subscribed_to(topic),
            GroupKind::Consumer(consumers) => consumers.group.is_subscribed(topic),
        }
    }

    /// Its members, if they speak the classic protocol alone.
    pub(crate) fn classic_mut(&mut self) -> Option<&mut ClassicGroup> {
        match &mut self.kind {
            GroupKind::Classic(classic) => Some(classic),
            GroupKind::Consumer(_) => None,
        }
    }

    /// Its members, if some speak the new protocol.
    pub(crate) fn consumers_mut(&mut self) -> Option<&mut Consumers> {
        match &mut self.kind {
            GroupKind::Classic(_) => None,
            GroupKind::Consumer(consumers) => Some(consumers),
        }
    }
}

/// All groups of a shard.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    by_id: BTreeMap<Arc<str>, Group>,
    timers: BTreeSet<(Duration, Arc<str>)>,
    /// Until when nothing happens that is due; may be over.
    grace: Option<Duration>,
    /// Offsets of all groups.
    offset_count: usize,
    /// The end of the log after the last record that took a group away: who is told that there is no such group
    /// waits for it.
    gone_to: Offset,
    /// What groups of the new protocol keep to for which nothing else is set.
    consumer_settings: Arc<ConsumerGroupSettings>,
}

impl Groups {
    /// None.
    pub(crate) fn new(consumer_settings: Arc<ConsumerGroupSettings>) -> Self {
        Self { consumer_settings, ..Self::default() }
    }

    /// What a group of the new protocol keeps to, in a cluster as it is.
    pub(crate) fn settings_of(&self, id: &str, image: &Image) -> Arc<ConsumerGroupSettings> {
        let configs = image.configs(&ConfigResource::Group(id.to_owned()));
        match configs.is_empty() {
            true => self.consumer_settings.clone(),
            false => Arc::new(self.consumer_settings.for_group(configs)),
        }
    }

    /// A group and its id; one of the new protocol keeps to what is set for it by now.
    pub(crate) fn look_up(&mut self, id: &str, image: &Image) -> Option<(Arc<str>, &mut Group)> {
        let (id, group) = self.by_id.get_key_value(id)?;
        let id = id.clone();
        let settings = match &group.kind {
            GroupKind::Classic(_) => None,
            GroupKind::Consumer(_) => Some(self.settings_of(&id, image)),
        };
        let group = self.by_id.get_mut(&id)?;
        if let (GroupKind::Consumer(consumers), Some(settings)) = (&mut group.kind, settings) {
            consumers.settings = settings;
        }
        Some((id, group))
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Group> {
        self.by_id.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &str) -> Option<&mut Group> {
        self.by_id.get_mut(id)
    }

    /// The group, made if it is not there. One that was there before may be gone by records that are not committed yet:
    /// who is told that nothing is in the new one waits for those.
    pub(crate) fn entry(&mut self, id: &str) -> &mut Group {
        if !self.by_id.contains_key(id) {
            let id = Arc::<str>::from(id);
            self.by_id.insert(id.clone(), Group::new(id, self.gone_to));
        }
        self.by_id.get_mut(id).expect("it was there or was put in")
    }

    /// The id that a group has or would have, to be shared with it.
    fn entry_id(&self, id: &str) -> Arc<str> {
        self.id_of(id).unwrap_or_else(|| id.into())
    }

    /// A group's id, shared with the group.
    pub(crate) fn id_of(&self, id: &str) -> Option<Arc<str>> {
        self.by_id.get_key_value(id).map(|(id, _)| id.clone())
    }

    /// Whether a request may make one more.
    pub(crate) fn has_room(&self) -> bool {
        self.by_id.len() < GROUPS_MAX
    }

    /// By id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Group)> {
        self.by_id.iter()
    }

    /// By id, those behind `id`.
    pub(crate) fn after(&self, id: Option<&str>) -> impl Iterator<Item = (&Arc<str>, &Group)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = id.map_or(Unbounded, Excluded);
        self.by_id.range::<str, _>((from, Unbounded))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut Group)> {
        self.by_id.iter_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Offsets of all groups.
    pub(crate) fn offset_count(&self) -> usize {
        self.offset_count
    }

    /// What has to be committed before anybody is told about the group as it is.
    pub(crate) fn written_to(&self, id: &str) -> Offset {
        self.by_id.get(id).map_or(self.gone_to, |group| group.written_to)
    }

    /// Somebody says that it is a member; whether it is one.
    pub(crate) fn heard(&mut self, now: Duration, connection: ConnectionId, said: &Speaker<'_>) -> bool {
        let Some(Group { kind, links, .. }) = self.by_id.get_mut(said.group) else { return false };
        let is_member = kind.has_member(said.member);
        if is_member {
            links.heard(now, connection, said, (kind.member_count(), |id: &str| kind.has_member(id)));
        }
        is_member
    }

    /// A connection is closed over which a member spoke. If it did not speak over another since, it is waited for no
    /// longer than it takes to come back.
    pub(crate) fn on_disconnected(
        &mut self,
        now: Duration,
        connection: ConnectionId,
        (group, member): (&str, &str),
    ) {
        let Some(Group { kind, links, .. }) = self.by_id.get_mut(group) else { return };
        let Some(link) = links.closed(connection, member) else { return };
        match kind {
            GroupKind::Classic(classic) => classic.on_disconnected(now, member, link),
            GroupKind::Consumer(consumers) => {
                consumers.group.on_disconnected(now, member, link, &consumers.settings);
            }
        }
        self.arm(group);
    }

    /// Takes a record in that ends at `end` of the log, where it has this timestamp.
    pub(crate) fn replay(&mut self, record: GroupRecord<'_>, (end, time): (Offset, TimestampMs)) {
        let id = record.group();
        match record {
            GroupRecord::OffsetCommit { group, topic, partition, value: Some(value) } => {
                let group = self.entry(group);
                group.written_to = end;
                match group.offsets.put(topic, partition, value.into()) {
                    true => self.offset_count += 1,
                    // It was there, or the topic has a name that no topic can have.
                    false => self.remove_if_blank(id),
                }
            }
            GroupRecord::OffsetCommit { topic, partition, value: None, .. } => {
                let Some(group) = self.by_id.get_mut(id) else { return };
                group.written_to = end;
                self.offset_count -= usize::from(group.offsets.remove(topic, partition));
                self.remove_if_blank(id);
            }
            GroupRecord::GroupMetadata { group, value: Some(value) } => {
                let id = self.entry_id(group);
                let group = self.entry(&id);
                group.written_to = end;
                if group.classic_mut().is_none() {
                    group.kind = GroupKind::Classic(ClassicGroup::new(id));
                }
                if let Some(classic) = group.classic_mut() {
                    classic.replay(value);
                }
            }
            GroupRecord::GroupMetadata { value: None, .. } => {
                let Some(id) = self.id_of(id) else { return };
                let group = self.entry(&id);
                group.written_to = end;
                // One of the new protocol is taken away by its own records.
                if group.classic_mut().is_some() {
                    group.kind = GroupKind::Classic(ClassicGroup::new(id.clone()));
                }
                self.remove_if_blank(&id);
            }
            GroupRecord::ConsumerGroup { change, .. } => self.replay_consumer(id, &change, (end, time)),
        }
    }

    /// Takes in what changed in a group of the new protocol. What is said makes it one, what is taken back does not.
    fn replay_consumer(
        &mut self,
        id: &str,
        change: &ConsumerGroupRecord,
        (end, time): (Offset, TimestampMs),
    ) {
        let settings = self.consumer_settings.clone();
        if change.is_tombstone() {
            let Some(group) = self.by_id.get_mut(id) else { return };
            group.written_to = end;
            if let Some(consumers) = group.consumers_mut() {
                consumers.replay(change, time);
            }
            return self.remove_if_blank(id);
        }
        let group = self.entry(id);
        group.written_to = end;
        if group.consumers_mut().is_none() {
            group.kind = GroupKind::Consumer(Box::new(Consumers::new(id, settings)));
        }
        if let Some(consumers) = group.consumers_mut() {
            consumers.replay(change, time);
        }
    }

    /// Forgets a group of which nothing is left. Of whose members nothing is left may have any protocol.
    pub(crate) fn remove_if_blank(&mut self, id: &str) {
        let Some(shared) = self.id_of(id) else { return };
        if let Some(group) = self.by_id.get_mut(id)
            && group.consumers_mut().is_some_and(|it| it.group.is_blank())
        {
            group.kind = GroupKind::Classic(ClassicGroup::new(shared));
        }
        if self.by_id.get(id).is_some_and(Group::is_blank)
            && let Some((id, Group { written_to, timer, .. })) = self.by_id.remove_entry(id)
        {
            self.gone_to = self.gone_to.max(written_to);
            if let Some(at) = timer {
                self.timers.remove(&(at, id));
            }
        }
    }

    /// Looks again at when the group wants to be looked at.
    pub(crate) fn arm(&mut self, id: &str) {
        let Some(id) = self.id_of(id) else { return };
        let Some(group) = self.by_id.get_mut(&id) else { return };
        let (before, after) = (group.timer, group.deadline());
        if before == after {
            return;
        }
        group.timer = after;
        if let Some(at) = before {
            self.timers.remove(&(at, id.clone()));
        }
        if let Some(at) = after {
            self.timers.insert((at, id));
        }
    }

    /// Whether what is due happens. A process that stood still, or whose disk did, finds sessions over whose heartbeats
    /// wait in its sockets: these are read first.
    pub(crate) fn may_tick(&mut self, now: Duration) -> bool {
        let ended = match self.grace {
            Some(until) if now < until => return false,
            Some(until) => now - until <= LATE,
            None => false,
        };
        let is_late = self.timers.first().is_some_and(|(due, _)| now.saturating_sub(*due) > LATE);
        self.grace = (is_late && !ended).then_some(now + GRACE);
        self.grace.is_none()
    }

    /// The next group that is due, taken off the timers: whoever takes it arms it again.
    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<Arc<str>> {
        let (at, _) = self.timers.first()?;
        if *at > now {
            return None;
        }
        let (_, id) = self.timers.pop_first()?;
        if let Some(group) = self.by_id.get_mut(&id) {
            group.timer = None;
        }
        Some(id)
    }

    /// When the first group is looked at.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| self.grace.map_or(*at, |grace| grace.max(*at)))
    }
}
