//! Groups whose members the server tells what to read (KIP-848).
//!
//! ```text
//!   heartbeat ─▶ who is in it, what it wants ─▶ group epoch ─▶ targets, for all members ─▶ target epoch
//!                                                                      │
//!       reply ◀── what this member may read now ◀── one step of it towards its target ─▶ member epoch
//! ```
//!
//! Every member goes its own way to its target, at its own pace: who keeps what it has never stops reading. What a
//! member should no longer have goes to another once the member says that it no longer has it, or is taken out of
//! the group because it took too long.
//!
//! A decision is records and a reply. Nothing of what the records say is changed before they are replayed; only
//! timers change at once.
//!
//! **Invariant:** a partition is told to a member only if nobody else was told it, or all who were have given it back
//! or are out of the group. Epochs do not go back.

mod classic; // and from one protocol to the other
mod classic_group;
mod describe;
mod draft;
mod fence;
mod heartbeat; // start here
mod member;
mod offsets;
mod re2;
mod reconcile;
mod record;
mod settings;
mod state;
mod subscription;
mod targets;
#[cfg(test)]
mod tests;
mod timers;
mod topics;

use std::time::Duration;

use base::{Now, Offset};
use metadata::Image;

use crate::link::{Link, patience};

pub use classic::{ClassicJoin, ClassicJoined, LeftTogether, MigrationError, PROTOCOL_TYPE};
pub use classic_group::{ClassicGroup, ClassicMember};
pub use describe::{GroupDescription, GroupState, MemberDescription, TopicIndexes};
pub use fence::{Fenced, FencedBecause, Ticked};
pub use heartbeat::{Decision, HeartbeatReply};
pub use member::{
    Caller, ClassicMetadata, CurrentAssignment, EPOCH_JOIN, EPOCH_LEAVE, EPOCH_LEFT_STATIC, Member, MemberId,
    MemberMetadata, MemberState, Owned,
};
pub use offsets::CommitRight;
pub use record::{ConsumerGroupRecord, GroupEpoch, ResolvedRegex, TargetEpoch};
pub use settings::{ConsumerGroupError, ConsumerGroupSettings, MigrationPolicy};
pub use subscription::RebalanceCause;

use draft::Draft;
use state::State;
use timers::Timers;

/// How soon a member should ask again that waits for something, or whose group has just changed (ADR 0024). A wait ends
/// when somebody else is heard, so this is what it costs the one who waits.
const HURRY: Duration = Duration::from_millis(300);
/// So that the members of a group that hurry ask a thousand times a second together, at most.
const BEAT_OF_MEMBER: Duration = Duration::from_millis(1);

/// A group of the new protocol.
#[derive(Debug)]
pub struct ConsumerGroup {
    id: String,
    state: State,
    soft: Soft,
}

/// What a decision rests on beside the group itself.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The time.
    pub now: Now,
    /// The cluster.
    pub image: &'a Image,
    /// The settings of this group.
    pub settings: &'a ConsumerGroupSettings,
}

/// What no record says.
#[derive(Debug, Default)]
struct Soft {
    /// When each member was silent for too long.
    sessions: Timers,
    /// When each member that should give something back took too long.
    revocations: Timers,
    /// When targets were made last.
    assigned: Option<Duration>,
    /// When this coordinator made them last; none yet if it took over since.
    changed: Option<Duration>,
    /// The patterns that members have.
    patterns: topics::Patterns,
    /// When all of them were last looked up.
    resolved: Option<Duration>,
    /// The end of the metadata in which nothing new was found.
    seen: Option<Offset>,
}

impl ConsumerGroup {
    /// A group of which nothing is known.
    pub fn new(id: &str) -> Self {
        Self { id: id.to_owned(), state: State::default(), soft: Soft::default() }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Takes in a record that was written.
    pub fn replay(&mut self, record: &ConsumerGroupRecord) {
        self.state.replay(record);
    }

    /// All records of its partition were replayed: sessions begin anew.
    pub fn on_loaded(&mut self, now: Now, settings: &ConsumerGroupSettings) {
        self.soft.assigned = Some(now.elapsed);
        for (id, member) in &self.state.members {
            self.soft.sessions.set(id, now.elapsed + session_timeout(member, settings));
            if member.current.state == MemberState::UnrevokedPartitions {
                self.soft.revocations.set(id, now.elapsed + rebalance_timeout(member));
            }
        }
    }

    /// The records with which it begins, or speaks this protocol from here on, were replayed: its first targets are among
    /// them.
    pub fn on_begun(&mut self, now: Now, settings: &ConsumerGroupSettings) {
        self.on_loaded(now, settings);
        self.soft.on_targets(now.elapsed);
    }

    /// A member's connection is closed. A static one keeps its session: it is there to outlast that.
    pub(crate) fn on_disconnected(
        &mut self,
        now: Duration,
        member_id: &str,
        link: &Link,
        settings: &ConsumerGroupSettings,
    ) {
        let Some((id, member)) = self.state.members.get_key_value(member_id) else { return };
        if member.metadata.instance_id.is_some() {
            return;
        }
        let interval = match &member.metadata.classic {
            Some(classic) => link.interval_within(millis(classic.session_timeout_ms)),
            // That is what it is told.
            None => settings.heartbeat_interval,
        };
        self.soft.sessions.hasten(id, now + patience(interval));
    }

    /// Whether any record says that it is there.
    pub fn exists(&self) -> bool {
        self.state.exists()
    }

    /// Whether no record says anything of it: also not in a log that is only read in part.
    pub fn is_blank(&self) -> bool {
        self.state == State::default()
    }

    /// All that its records say.
    #[cfg(test)]
    pub(crate) fn lasting(&self) -> String {
        format!("{:?}", self.state)
    }

    /// Its epoch.
    pub(crate) fn epoch(&self) -> i32 {
        self.state.group_epoch
    }

    /// What the members but for this one say of themselves, in bytes.
    pub(crate) fn bytes_of_others(&self, member_id: &str) -> usize {
        let others = self.state.members.iter().filter(|(id, _)| ***id != *member_id);
        others.map(|(_, member)| member.metadata.bytes()).sum()
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.state.members.is_empty()
    }

    /// Its members, by id.
    pub fn members(&self) -> impl ExactSizeIterator<Item = (&MemberId, &Member)> {
        self.state.members.iter()
    }

    /// A member.
    pub fn member(&self, id: &str) -> Option<&Member> {
        self.state.members.get(id)
    }

    /// Whether somebody wants to read a topic: its offsets must not be deleted.
    pub fn is_subscribed(&self, topic: &str) -> bool {
        self.state.is_subscribed(topic)
    }

    /// When [`on_tick`](Self::on_tick) is due, by the clock that never goes back.
    pub fn deadline(&self, settings: &ConsumerGroupSettings) -> Option<Duration> {
        let late = self.state.group_epoch > self.state.target_epoch && !self.is_empty();
        let targets = self.soft.assigned.filter(|_| late).map(|at| at + settings.assignment_interval);
        [self.soft.sessions.next(), self.soft.revocations.next(), targets].into_iter().flatten().min()
    }

    /// The records that take the group away.
    ///
    /// # Errors
    /// If it has members.
    pub fn delete(&self) -> Result<Vec<ConsumerGroupRecord>, ConsumerGroupError> {
        match self.is_empty() {
            true => Ok(self.tombstones()),
            false => Err(ConsumerGroupError::NotEmpty),
        }
    }

    /// The records that take away all that records said.
    pub(crate) fn tombstones(&self) -> Vec<ConsumerGroupRecord> {
        let state = &self.state;
        let mut records: Vec<ConsumerGroupRecord> = Vec::new();
        let members = || state.members.keys().cloned();
        records.extend(members().map(|id| ConsumerGroupRecord::CurrentMemberAssignment(id, None)));
        let targets = state.targets.keys().cloned();
        records.extend(targets.map(|id| ConsumerGroupRecord::TargetAssignmentMember(id, None)));
        records.push(ConsumerGroupRecord::TargetAssignmentMetadata(None));
        records.extend(members().map(|id| ConsumerGroupRecord::MemberMetadata(id, None)));
        let regexes = state.regexes.keys().cloned();
        records.extend(regexes.map(|regex| ConsumerGroupRecord::RegularExpression(regex, None)));
        if state.has_partition_metadata {
            records.push(ConsumerGroupRecord::PartitionMetadata(None));
        }
        records.push(ConsumerGroupRecord::Metadata(None));
        records
    }
}

/// How long a member may be silent. One of the classic protocol said so itself.
fn session_timeout(member: &Member, settings: &ConsumerGroupSettings) -> Duration {
    match &member.metadata.classic {
        Some(classic) => millis(classic.session_timeout_ms),
        None => settings.session_timeout,
    }
}

/// How long a member may take to give something back.
fn rebalance_timeout(member: &Member) -> Duration {
    millis(member.metadata.rebalance_timeout_ms)
}

fn millis(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
