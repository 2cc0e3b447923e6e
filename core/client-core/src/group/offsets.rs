//! Committed offsets: told to the coordinator in the order in which they were committed, and asked for.
//!
//! One commit is on its way at a time, and takes with it all that were made meanwhile; so a try that is made
//! again never overtakes a later commit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::{Now, Offset, TopicPartition};

use super::{CommitId, CommittedOffsets, Effect, FetchId, GroupError, Life, Membership, OffsetAndMetadata};

mod commit;
mod fetch;

/// Whom to tell what became of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// The owner, who asked for it.
    Owner,
    /// Nobody but this machine.
    Itself,
}

#[derive(Debug)]
pub(super) struct Commit {
    id: CommitId,
    of: BTreeMap<TopicPartition, OffsetAndMetadata>,
    until: Duration,
    told_to: For,
    /// The life and generation of the member that made it; `None` of who was in no group, or about to leave it.
    made_in: Option<(u32, i32)>,
    /// How often the coordinator said that a topic of it is not there.
    unknown: u8,
}

#[derive(Debug)]
struct Fetch {
    of: BTreeSet<TopicPartition>,
    /// `None`: for as long as it takes.
    until: Option<Duration>,
    is_asked: bool,
}

/// What is to be committed, and what is asked for.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    id_next: u64,
    queued: VecDeque<Commit>,
    /// Those that are on their way in one request.
    in_flight: Vec<Commit>,
    is_committing: bool,
    fetches: BTreeMap<FetchId, Fetch>,
    failures: u32,
    retry_at: Duration,
    /// How far the owner has read.
    read: BTreeMap<TopicPartition, OffsetAndMetadata>,
    /// What is known to be committed.
    committed: BTreeMap<TopicPartition, Offset>,
    /// Something was read since the last commit that was made by itself.
    is_dirty: bool,
    auto_at: Duration,
}

impl Offsets {
    pub(super) fn on_read(&mut self, of: &TopicPartition, upto: OffsetAndMetadata) {
        self.is_dirty = true;
        match self.read.get_mut(of) {
            Some(place) => *place = upto,
            None => {
                self.read.insert(of.clone(), upto);
            }
        }
    }

    /// The owner is about to read a partition.
    pub(super) fn begin(&mut self, of: &TopicPartition, committed: Option<&OffsetAndMetadata>) {
        self.read.remove(of);
        match committed {
            Some(committed) => self.committed.insert(of.clone(), committed.offset),
            None => self.committed.remove(of),
        };
    }

    /// These are another's by now.
    pub(super) fn forget(&mut self, gone: &BTreeSet<TopicPartition>) {
        for of in gone {
            self.read.remove(of);
            self.committed.remove(of);
        }
    }

    /// How far these were read, where that is not committed.
    pub(super) fn unsaved(
        &self,
        among: &BTreeSet<TopicPartition>,
    ) -> BTreeMap<TopicPartition, OffsetAndMetadata> {
        let read = self.read.iter().filter(|(of, upto)| {
            among.contains(*of) && self.committed.get(*of).is_none_or(|&known| known != upto.offset)
        });
        read.map(|(of, upto)| (of.clone(), upto.clone())).collect()
    }

    /// Whether nothing is on its way, nor to be sent.
    pub(super) fn is_idle(&self) -> bool {
        self.has_committed() && self.fetches.is_empty()
    }

    pub(super) fn has_committed(&self) -> bool {
        self.queued.is_empty() && self.in_flight.is_empty()
    }

    /// Whether nothing is to be committed that was committed as a member.
    pub(super) fn has_committed_as_member(&self) -> bool {
        self.queued.iter().all(|commit| commit.made_in.is_none()) && self.in_flight.is_empty()
    }

    pub(super) fn deadline(&self, auto_commit: Option<Duration>, now: Now) -> Option<Duration> {
        let untils = self.queued.iter().chain(&self.in_flight).map(|commit| commit.until);
        let fetches = self.fetches.values().filter_map(|fetch| fetch.until);
        let auto = (auto_commit.is_some() && self.is_dirty).then_some(self.auto_at);
        let retry = (!self.is_idle()).then_some(self.retry_at);
        untils.chain(fetches).chain(auto).chain(retry).filter(|&at| at > now.elapsed).min()
    }

    fn id(&mut self) -> u64 {
        self.id_next += 1;
        self.id_next
    }

    /// These commits are to be tried again, before all that were made later.
    fn put_back(&mut self, commits: Vec<Commit>) {
        for commit in commits.into_iter().rev() {
            self.queued.push_front(commit);
        }
    }
}

/// As whom a commit is made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Committer {
    /// A member, and its generation or epoch.
    Member(i32),
    /// Somebody who has no part in assignments.
    Outsider,
    /// A member that is about to learn its generation.
    Later,
    /// A member that has lost its place.
    Nobody,
}

impl Membership {
    /// Commits these offsets for the group, until then at the latest; [`Effect::Committed`] follows. Offsets
    /// take effect in the order of these calls.
    pub fn commit(
        &mut self,
        offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
        until: Duration,
    ) -> CommitId {
        self.queue_commit(offsets, until, For::Owner)
    }

    /// Commits how far the owner has read, of what it owns, where that is not committed yet; as
    /// [`Membership::commit`] does. Of what it reads by hand all is committed: others may have changed it.
    pub fn commit_read(&mut self, until: Duration) -> CommitId {
        let read = match self.is_subscribed() {
            true => self.offsets.unsaved(&self.ownership.owned),
            false => self.offsets.read.clone(),
        };
        self.commit(read, until)
    }

    /// Commits what the owner has read and what is not committed yet, if that is done by itself and it may; nobody is
    /// told what becomes of it.
    pub fn commit_unsaved(&mut self, until: Duration) {
        if self.settings.auto_commit.is_none() || !self.may_commit() {
            return;
        }
        let unsaved = self.all_unsaved();
        if !unsaved.is_empty() {
            self.queue_commit(unsaved, until, For::Itself);
        }
    }

    /// Whether what the owner reads may be committed now: of a member what it owns; of who is in no group, or about to
    /// leave one, what it reads by hand, once it has left.
    pub fn may_commit(&self) -> bool {
        match self.committer() {
            Committer::Member(_) if self.is_subscribed() => true,
            Committer::Outsider => true,
            Committer::Member(_) | Committer::Later | Committer::Nobody => {
                self.leaving.is_some() && !self.is_subscribed()
            }
        }
    }

    /// How far the owner has read, of all that it may commit, where that is not committed yet.
    fn all_unsaved(&self) -> BTreeMap<TopicPartition, OffsetAndMetadata> {
        match self.is_subscribed() {
            true => self.offsets.unsaved(&self.ownership.owned),
            false => self.offsets.unsaved(&self.offsets.read.keys().cloned().collect()),
        }
    }

    /// The owner, who is subscribed to nothing, reads other partitions from now on, or none.
    pub fn read_others(&mut self) {
        self.offsets.read.clear();
        self.offsets.committed.clear();
        self.offsets.is_dirty = false;
    }

    /// The owner reads on from a place of a partition that is not known yet.
    pub fn read_elsewhere(&mut self, of: &TopicPartition) {
        self.offsets.read.remove(of);
    }

    /// How far the owner has read of these, where that is not committed yet.
    pub fn unsaved(&self, among: &BTreeSet<TopicPartition>) -> BTreeMap<TopicPartition, OffsetAndMetadata> {
        self.offsets.unsaved(among)
    }

    /// Asks what was committed of these partitions, until then at the latest; [`Effect::Fetched`] follows.
    pub fn fetch_committed(&mut self, of: BTreeSet<TopicPartition>, until: Duration) -> FetchId {
        self.queue_fetch(of, Some(until))
    }

    pub(super) fn queue_commit(
        &mut self,
        of: BTreeMap<TopicPartition, OffsetAndMetadata>,
        until: Duration,
        told_to: For,
    ) -> CommitId {
        let id = CommitId(self.offsets.id());
        let is_outsider = self.subscription.is_none();
        let made_in = (!is_outsider).then_some((self.life_number, self.identity().1));
        let commit = Commit { id, of, until, told_to, made_in, unknown: 0 };
        if told_to == For::Owner && self.ownership.is_unheard(commit.of.keys()) {
            self.settle_commit(commit, Err(GroupError::NotOwner));
        } else {
            self.offsets.queued.push_back(commit);
        }
        id
    }

    pub(super) fn queue_fetch(&mut self, of: BTreeSet<TopicPartition>, until: Option<Duration>) -> FetchId {
        let id = FetchId(self.offsets.id());
        self.offsets.fetches.insert(id, Fetch { of, until, is_asked: false });
        id
    }

    pub(super) fn keep_offsets(&mut self, now: Now) {
        self.commit_by_itself(now);
        self.expire_offsets(now);
        // The one for a taking that is void is of no use to anybody.
        let taking = self.ownership.taking.as_ref().map(|(id, _)| *id);
        self.offsets.fetches.retain(|id, fetch| fetch.until.is_some() || Some(*id) == taking);
        if self.offsets.retry_at > now.elapsed {
            return;
        }
        self.send_commits(now);
        self.send_fetches(now);
    }

    fn commit_by_itself(&mut self, now: Now) {
        let Some(interval) = self.settings.auto_commit else { return };
        if !self.offsets.is_dirty || self.offsets.auto_at > now.elapsed {
            return;
        }
        self.offsets.auto_at = now.elapsed.saturating_add(interval);
        // Who has no place for the moment commits once it has: nothing more may be read until then.
        self.offsets.is_dirty = !self.may_commit() && !self.all_unsaved().is_empty();
        // The next one says the same and more.
        self.commit_unsaved(now.elapsed.saturating_add(interval));
    }

    pub(super) fn committer(&self) -> Committer {
        match &self.life {
            Life::Classic(classic) => classic.committer(),
            Life::Epochs(epochs) if epochs.epoch > 0 => Committer::Member(epochs.epoch),
            Life::Out if self.subscription.is_none() => Committer::Outsider,
            Life::Epochs(_) | Life::Out | Life::Arriving | Life::Resting | Life::Failed => Committer::Nobody,
        }
    }

    /// Ends what took too long.
    fn expire_offsets(&mut self, now: Now) {
        let offsets = &mut self.offsets;
        let is_late = |commit: &Commit| commit.until <= now.elapsed;
        let (late, waiting): (VecDeque<_>, _) = offsets.queued.drain(..).partition(is_late);
        offsets.queued = waiting;
        let (late_in_flight, waiting): (Vec<_>, _) = offsets.in_flight.drain(..).partition(is_late);
        offsets.in_flight = waiting;
        let late_fetches = offsets.fetches.iter();
        let late_fetches = late_fetches.filter(|(_, fetch)| fetch.until.is_some_and(|at| at <= now.elapsed));
        let late_fetches: Vec<FetchId> = late_fetches.map(|(id, _)| *id).collect();
        for commit in late.into_iter().chain(late_in_flight) {
            let error = GroupError::TimedOut(self.trouble());
            self.settle_commit(commit, Err(error));
        }
        for id in late_fetches {
            self.offsets.fetches.remove(&id);
            let result = Err(GroupError::TimedOut(self.trouble()));
            self.out.push(Effect::Fetched { id, result });
        }
    }

    pub(super) fn settle_commit(&mut self, commit: Commit, result: Result<(), GroupError>) {
        self.ownership.on_settled(commit.id);
        if result.is_ok() {
            for (of, upto) in &commit.of {
                self.offsets.committed.insert(of.clone(), upto.offset);
            }
        } else {
            self.offsets.is_dirty = true;
        }
        if commit.told_to == For::Owner {
            self.out.push(Effect::Committed { id: commit.id, result });
        }
    }

    fn settle_fetch(&mut self, id: FetchId, result: Result<CommittedOffsets, GroupError>) {
        if self.offsets.fetches.remove(&id).is_none() {
            return;
        }
        let is_taking = self.ownership.taking.as_ref().is_some_and(|(taking, _)| *taking == id);
        match result {
            Ok(found) if is_taking => self.take(found),
            Err(error) if is_taking => self.fail(error),
            result => self.out.push(Effect::Fetched { id, result }),
        }
    }

    /// Nothing can be committed, nor asked for.
    pub(super) fn fail_offsets(&mut self, error: &GroupError) {
        let mut commits = std::mem::take(&mut self.offsets.in_flight);
        commits.extend(self.offsets.queued.drain(..));
        for commit in commits {
            self.settle_commit(commit, Err(error.clone()));
        }
        let asked: Vec<FetchId> = self.offsets.fetches.keys().copied().collect();
        for id in asked {
            self.settle_fetch(id, Err(error.clone()));
        }
    }

    fn offsets_failed_once(&mut self, now: Now) {
        self.offsets.failures = self.offsets.failures.saturating_add(1);
        self.offsets.retry_at =
            now.elapsed + self.settings.retry.after(self.offsets.failures, &mut self.chance);
    }
}
