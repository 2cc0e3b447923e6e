//! A member of a consumer group: which partitions its owner reads, and how far they were read.
//!
//! ```text
//!   subscribe ──▶ find the coordinator ──▶ join ──▶ heartbeats ──▶ a target: what the member is to own
//!                                                                    │
//!        release ◀── Revoking: what is owned and not in the target ◀─┤
//!           └─▶ commit what was read ─▶ owned no more                │
//!               Assigned, with the committed offsets ◀── the rest ◀──┘
//! ```
//!
//! The owner, a consumer, reads what it was told with [`Effect::Assigned`] until it is told otherwise. What it
//! is to give up it goes on owning until it says so with [`Membership::release`], so that whatever it is in
//! the middle of can be finished; then what was read of it is committed, and only then the group hears of it.
//! What was [`Effect::Lost`] may be another's already; and the member may be one anew, and own it again, before
//! its owner has heard of that.
//!
//! A group has one of two protocols. In the classic one all members meet, and one of them says who reads what
//! (`classic`, `leading`, `assignor`); in the consumer protocol the coordinator says so to each of them apart
//! (`epochs`, KIP-848). Both end in a target, and what comes after it is the same.
//!
//! The machine has connections of its own: what its coordinator is told need not wait behind a fetch.
//!
//! **Invariant:** the group is told that a partition was given up only after the owner has said so; as long as
//! the coordinator takes this member for one, no other can own what it owns. Nothing that an owner read before
//! a loss is committed after it.

mod assignor; // who reads what
mod subscription;

mod blobs; // what members tell each other
mod classic; // one protocol
mod epochs; // the other
mod joining; // JoinGroup, SyncGroup: what is said and answered
mod leading;
mod leaving;

mod ownership; // what follows from both
mod reconcile;

mod answers;
mod coordinator;
mod offsets;
mod silence; // of coordinators
mod topics;

mod error;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Effects, LeaderEpoch, Now, Offset, TopicName, TopicPartition, Uuid};

use crate::chance::Chance;
use crate::cluster::{Address, Cluster};
use crate::inquiry::Inquiry;
use crate::links::{ConnectionId, Links, NetEffect, Peer};

pub(crate) use blobs::{decode_assignment, decode_subscription};

pub use assignor::{Assignment, Assignor, Member, Members};
pub use error::GroupError;
pub use settings::{GroupProtocol, GroupSettings};
pub use subscription::{Pattern, PatternError, Subscription};

use classic::Classic;
use epochs::{Epochs, Said};
use leaving::Leaving;
use offsets::Offsets;
use ownership::Ownership;
use topics::Topics;

/// A place in a partition, as it is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetAndMetadata {
    /// The next record to be read.
    pub offset: Offset,
    /// Who led when the record before it was written, counted in leaders; says whether the log was cut since
    /// (KIP-320).
    pub leader_epoch: LeaderEpoch,
    /// Whatever its committer wants to say; at most 4096 bytes, unless the broker is told otherwise.
    pub metadata: Arc<str>,
}

impl OffsetAndMetadata {
    /// An offset, and nothing that is known of it.
    pub fn at(offset: Offset) -> Self {
        Self { offset, leader_epoch: LeaderEpoch::NONE, metadata: Arc::default() }
    }
}

/// What was committed of some partitions; `None` where nothing was.
pub type CommittedOffsets = BTreeMap<TopicPartition, Option<OffsetAndMetadata>>;

/// One commit. No other ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommitId(pub u64);

/// One question for committed offsets. No other ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FetchId(pub u64);

/// One demand to give partitions up. No other ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RevocationId(pub u64);

/// What the member needs done.
#[derive(Debug)]
pub enum Effect {
    /// Something with a connection.
    Net(NetEffect),
    /// The owner may read these, too, each from what was committed of it; if nothing was, from where it
    /// likes.
    Assigned(CommittedOffsets),
    /// The owner is to stop reading these as soon as it can, and then to [`Membership::release`] them.
    Revoking {
        /// Which demand this is.
        id: RevocationId,
        /// The partitions.
        partitions: BTreeSet<TopicPartition>,
    },
    /// The owner must not read these any more: the group took the member for dead, and others may read them
    /// already. A demand to give some of them up is void. It says when it knows, with
    /// [`Membership::on_loss_heard`].
    Lost(BTreeSet<TopicPartition>),
    /// What became of a commit.
    Committed {
        /// Which.
        id: CommitId,
        /// Whether all of it is committed.
        result: Result<(), GroupError>,
    },
    /// What was found out about committed offsets.
    Fetched {
        /// For which question.
        id: FetchId,
        /// The offsets.
        result: Result<CommittedOffsets, GroupError>,
    },
    /// The member cannot be one. It tries again when it is subscribed again.
    Failed(GroupError),
}

/// What a request was about. Those of a life that is over have no say.
#[derive(Debug)]
enum Asked {
    Coordinator,
    Metadata(topics::Need),
    Join(u32),
    Sync(u32),
    Heartbeat(u32),
    ConsumerHeartbeat(u32, Said),
    Leave,
    Commit,
    Offsets(Vec<FetchId>),
}

/// Where the member stands.
#[derive(Debug)]
enum Life {
    /// In no group: nothing is subscribed.
    Out,
    /// It joins when it is known how.
    Arriving,
    /// In a group with the classic protocol.
    Classic(Classic),
    /// In one with the consumer protocol.
    Epochs(Epochs),
    /// It gave up its place since its owner asked for nothing, and comes back when that does.
    Resting,
    /// It cannot be a member.
    Failed,
}

/// When the owner last asked for records.
#[derive(Debug, Default)]
struct Polled {
    /// It waits for some.
    is_waiting: bool,
    at: Duration,
}

/// A member of a group, or one who only commits for it.
#[derive(Debug)]
pub struct Membership {
    settings: GroupSettings,
    links: Links<Asked>,
    net: Effects<NetEffect>,
    out: Effects<Effect>,
    cluster: Cluster,
    chance: Chance,
    coordinator: Option<BrokerId>,
    finding: Inquiry,
    /// When somebody last said who keeps the group, or why nobody does.
    found_at: Duration,
    subscription: Option<Subscription>,
    life: Life,
    /// Counts lives, to know answers for an earlier one.
    life_number: u32,
    leaving: Option<Leaving>,
    /// The group was told that it leaves, and has not answered.
    is_goodbye_asked: bool,
    polled: Polled,
    /// Requests of the protocol that failed in a row, and when the next may leave.
    failures: u32,
    retry_at: Duration,
    /// When a static member gave up a JoinGroup without a member id that was not answered: a coordinator that hangs
    /// may yet take it for somebody who comes back under this name, and fence who sent it.
    doubtful_join_at: Option<Duration>,
    topics: Topics,
    ownership: Ownership,
    offsets: Offsets,
    /// Brokers that live elsewhere by now, and what was asked of them.
    moved: Vec<(Peer, Vec<Asked>)>,
}

impl Membership {
    /// Its connections are called from this number on, so that they can live beside a consumer's.
    pub const CONNECTIONS_FROM: ConnectionId = ConnectionId(1 << 60);

    /// A member of nothing yet, that knows nobody but these addresses.
    pub fn new(settings: GroupSettings, bootstrap: Vec<Address>, mut chance: Chance) -> Self {
        let links = Links::new(settings.links.clone(), bootstrap, Chance::new(chance.next_u64()));
        Self {
            settings,
            links: links.with_ids_from(Self::CONNECTIONS_FROM.0),
            net: Effects::new(),
            out: Effects::new(),
            cluster: Cluster::default(),
            chance,
            coordinator: None,
            finding: Inquiry::default(),
            found_at: Duration::ZERO,
            subscription: None,
            life: Life::Out,
            life_number: 0,
            leaving: None,
            is_goodbye_asked: false,
            polled: Polled::default(),
            failures: 0,
            retry_at: Duration::ZERO,
            doubtful_join_at: None,
            topics: Topics::default(),
            ownership: Ownership::default(),
            offsets: Offsets::default(),
            moved: Vec::new(),
        }
    }

    /// Wants to read these topics from now on, instead of what it wanted before.
    pub fn subscribe(&mut self, subscription: Subscription, now: Now) {
        self.subscription = Some(subscription);
        self.topics.subscribed_anew();
        self.polled.at = now.elapsed;
        match &mut self.life {
            Life::Out | Life::Failed => self.begin_life(Life::Arriving),
            Life::Classic(classic) => classic.wants_rejoin = true,
            Life::Arriving | Life::Epochs(_) | Life::Resting => {}
        }
    }

    /// The owner asks for records; it gets none before [`Membership::on_given`], and waits as long. Whether
    /// there is something to do because of that.
    pub fn on_waiting(&mut self, now: Now) -> bool {
        self.polled = Polled { is_waiting: true, at: now.elapsed };
        let is_back = matches!(self.life, Life::Resting);
        if is_back {
            self.begin_life(Life::Arriving);
        }
        is_back
    }

    /// The owner has asked for records since this was called last, and got them at once.
    pub const fn on_polled(&mut self, now: Now) {
        self.polled.at = now.elapsed;
    }

    /// The owner was given something, or stopped waiting: from now on it is busy with that.
    pub const fn on_given(&mut self, now: Now) {
        self.polled = Polled { is_waiting: false, at: now.elapsed };
    }

    /// How far a partition was read: this is committed when that is done by itself.
    pub fn on_read(&mut self, of: &TopicPartition, upto: OffsetAndMetadata) {
        self.offsets.on_read(of, upto);
    }

    /// Whether what was read is committed from time to time, and before it is given up.
    pub const fn commits_by_itself(&self) -> bool {
        self.settings.auto_commit.is_some()
    }

    /// Whether it wants to read topics as a member of its group.
    pub const fn is_subscribed(&self) -> bool {
        self.subscription.is_some()
    }

    /// What the owner was told to read and has not given up.
    pub const fn owned(&self) -> &BTreeSet<TopicPartition> {
        &self.ownership.owned
    }

    /// The group.
    pub fn group_id(&self) -> &str {
        &self.settings.group_id
    }

    /// `group.instance.id`.
    pub fn instance_id(&self) -> Option<&str> {
        self.settings.instance_id.as_deref()
    }

    /// The member id, and the generation or member epoch, as who sends offsets with a transaction has to know
    /// them (KIP-447); `""` and -1 while it is no member.
    pub fn identity(&self) -> (&str, i32) {
        match &self.life {
            Life::Classic(classic) => (&classic.member_id, classic.generation),
            Life::Epochs(epochs) => (&epochs.member_id, epochs.epoch),
            Life::Out | Life::Arriving | Life::Resting | Life::Failed => ("", -1),
        }
    }

    /// Why it is no member yet, for people; `None` if nothing is known to be in the way.
    pub fn trouble(&self) -> Option<String> {
        if matches!(self.life, Life::Out | Life::Failed) && self.offsets.is_idle() {
            return None;
        }
        if let Some(code) = self.finding_trouble() {
            return Some(code);
        }
        match self.coordinator {
            None => self.links.trouble(None, Duration::ZERO).map(|(_, why)| why.as_ref().to_owned()),
            Some(id) => self.links.why_lost(Peer::Broker(id)).map(|why| why.as_ref().to_owned()),
        }
    }

    /// Does what can be done now: after a change, and when [`Membership::deadline`] is over.
    pub fn step(&mut self, now: Now, effects: &mut Effects<Effect>) {
        for connection in self.links.late(now) {
            self.links.on_late(connection, now);
            self.close_connection(connection, now);
        }
        for (peer, unanswered) in std::mem::take(&mut self.moved) {
            self.on_unanswered(Some(peer), unanswered, now);
        }
        self.pass_questions_on(now);
        self.watch_owner(now);
        self.find_coordinator(now);
        self.reconcile(now);
        self.keep_membership(now);
        // What that decided takes effect at once.
        self.reconcile(now);
        self.keep_offsets(now);
        self.keep_topics_known(now);
        for effect in self.out.drain() {
            effects.push(effect);
        }
        for effect in self.net.drain() {
            effects.push(Effect::Net(effect));
        }
    }

    /// When to step it although nothing happens.
    pub fn deadline(&self, now: Now) -> Option<Duration> {
        let later = |at: Duration| Some(at).filter(|&at| at > now.elapsed);
        let heartbeat = match &self.life {
            Life::Classic(classic) => classic.deadline(),
            Life::Epochs(epochs) => epochs.deadline(),
            Life::Out | Life::Arriving | Life::Resting | Life::Failed => None,
        };
        let all = [
            self.links.deadline(now),
            self.finding.deadline(now),
            self.silence_deadline(now),
            self.topics.inquiry.deadline(now),
            later(self.retry_at),
            heartbeat.and_then(later),
            self.owner_deadline().and_then(later),
            self.offsets.deadline(self.settings.auto_commit, now),
            self.leaving.as_ref().and_then(|leaving| leaving.deadline(now)),
        ];
        all.into_iter().flatten().min()
    }

    fn begin_life(&mut self, life: Life) {
        self.life = life;
        self.life_number = self.life_number.wrapping_add(1);
        self.failures = 0;
        self.retry_at = Duration::ZERO;
    }

    /// Does what the member's life asks for now.
    fn keep_membership(&mut self, now: Now) {
        if self.leaving.is_some() {
            return self.keep_leaving(now);
        }
        if matches!(self.life, Life::Arriving) {
            self.choose_protocol(now);
        }
        match &self.life {
            Life::Classic(_) => self.keep_classic(now),
            Life::Epochs(_) => self.keep_epochs(now),
            Life::Out | Life::Arriving | Life::Resting | Life::Failed => {}
        }
    }

    /// The first that both sides speak, of those that are allowed.
    fn choose_protocol(&mut self, now: Now) {
        let Some(peer) = self.usable_coordinator(now) else { return };
        let version = self.links.version(peer, wire::ApiKey::ConsumerGroupHeartbeat).ok();
        match (self.settings.protocol, version) {
            (GroupProtocol::Consumer, None) => self.fail(GroupError::Unsupported("consumer")),
            (GroupProtocol::Auto | GroupProtocol::Consumer, Some(version)) => {
                let epochs = Epochs::new(version, &mut self.chance);
                self.begin_life(Life::Epochs(epochs));
            }
            (GroupProtocol::Auto, None) | (GroupProtocol::Classic, _) => self.begin_classic(),
        }
    }

    fn begin_classic(&mut self) {
        let classic = Classic::new(&self.settings);
        self.begin_life(Life::Classic(classic));
    }

    /// It cannot be a member.
    fn fail(&mut self, error: GroupError) {
        if matches!(self.life, Life::Out | Life::Failed) {
            return;
        }
        self.lose();
        self.leaving = None;
        self.begin_life(Life::Failed);
        self.out.push(Effect::Failed(error));
    }

    /// A request of the protocol failed: the next leaves after a while.
    fn failed_once(&mut self, now: Now) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = now.elapsed + self.settings.retry.after(self.failures, &mut self.chance);
    }

    const fn succeeded(&mut self) {
        self.failures = 0;
        self.retry_at = Duration::ZERO;
    }

    /// An owner that asks for nothing, or gives nothing back, for too long makes room for others.
    fn watch_owner(&mut self, now: Now) {
        if self.owner_deadline().is_some_and(|at| at <= now.elapsed) && self.leaving.is_none() {
            self.give_up_place(now);
        }
    }

    fn owner_deadline(&self) -> Option<Duration> {
        let is_member = matches!(self.life, Life::Classic(_) | Life::Epochs(_));
        let patience = self.settings.poll_interval_max;
        let polled = (!self.polled.is_waiting).then_some(self.polled.at);
        let since = [polled, self.ownership.revoking_since()].into_iter().flatten().min();
        since.filter(|_| is_member && self.leaving.is_none()).map(|at| at.saturating_add(patience))
    }

    /// The topics it wants by name: `None` while nobody has resolved the pattern.
    fn wanted_topics(&self) -> Option<BTreeSet<TopicName>> {
        match self.subscription.as_ref()? {
            Subscription::Topics(topics) => Some(topics.clone()),
            Subscription::Pattern(_) => self.topics.matching.clone(),
        }
    }

    fn name_of(&self, id: Uuid) -> Option<&TopicName> {
        self.topics.names.get(&id)
    }
}

/// As the protocol says a time.
fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
