//! OffsetCommit: what is sent, and what is answered.

use std::collections::{BTreeMap, VecDeque};

use base::{ErrorCode, Now, PartitionIndex, TopicName, TopicPartition, Uuid};
use wire::ApiKey;
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};

use super::{Commit, Committer};
use crate::group::{Asked, GroupError, Life, Membership, OffsetAndMetadata};
use crate::links::Asking;

/// Later ones name topics by id only, which a by-standing committer does not know.
const VERSION_MAX: i16 = 9;
/// From here on a member of the consumer protocol can commit.
const VERSION_EPOCHS_MIN: i16 = 9;
/// From here on a request can say the instance id.
const VERSION_INSTANCE_MIN: i16 = 7;

/// A coordinator may hear of a new topic later than its reader. Of which it was said so often that it is not there, is
/// gone: whoever goes on until it is made anew would say of the new one how far the old one was read.
const UNKNOWN_TOPIC_TRIES_MAX: u8 = 4;

/// What becomes of a commit after an answer.
enum Verdict {
    Done,
    Again,
    Failed(GroupError),
}

impl Membership {
    /// Sends all that waits in one request, the later of two about the same partition.
    pub(super) fn send_commits(&mut self, now: Now) {
        if self.offsets.is_committing || self.offsets.queued.is_empty() {
            return;
        }
        // Who has nothing to say need not be anybody.
        while self.offsets.queued.front().is_some_and(|commit| commit.of.is_empty()) {
            if let Some(commit) = self.offsets.queued.pop_front() {
                self.settle_commit(commit, Ok(()));
            }
        }
        let mut later = VecDeque::new();
        if self.leaving.is_some() {
            // As a member's it would be believed, of partitions that are others'.
            (later, self.offsets.queued) =
                self.offsets.queued.drain(..).partition(|commit| commit.made_in.is_none());
        }
        self.send_queued(now);
        self.offsets.queued.extend(later);
    }

    fn send_queued(&mut self, now: Now) {
        if self.offsets.queued.is_empty() {
            return;
        }
        let committer = self.committer();
        let generation = match committer {
            Committer::Member(generation) => generation,
            Committer::Outsider => -1,
            Committer::Later => return,
            Committer::Nobody => {
                for commit in std::mem::take(&mut self.offsets.queued) {
                    self.settle_commit(commit, Err(GroupError::NotOwner));
                }
                return;
            }
        };
        let Some(peer) = self.usable_coordinator(now) else { return };
        let Ok(version) = self.links.version(peer, ApiKey::OffsetCommit) else {
            return self.fail_offsets(&GroupError::Unsupported("OffsetCommit"));
        };
        let version = version.min(VERSION_MAX);
        if version < VERSION_EPOCHS_MIN && matches!(self.life, Life::Epochs(_)) {
            return self.fail_offsets(&GroupError::Unsupported("OffsetCommit of the consumer protocol"));
        }
        let commits = self.take_sendable(generation);
        if commits.is_empty() {
            return;
        }
        let mut merged: BTreeMap<&TopicPartition, &OffsetAndMetadata> = BTreeMap::new();
        for commit in &commits {
            merged.extend(&commit.of);
        }
        let is_member = committer != Committer::Outsider;
        let member_id = self.identity().0.to_owned();
        let instance_id = self.settings.instance_id.as_deref();
        let request = OffsetCommitRequest {
            group_id: &self.settings.group_id,
            generation_id_or_member_epoch: generation,
            member_id: if is_member { &member_id } else { "" },
            group_instance_id: instance_id.filter(|_| is_member && version >= VERSION_INSTANCE_MIN),
            topics: topics(&merged),
            ..OffsetCommitRequest::default()
        };
        let asking = Asking { version, about: Asked::Commit, fills: Vec::new(), is_answered: true };
        let sent = self.links.send((peer, now), &request, asking, &mut self.net);
        if sent.is_ok() {
            self.offsets.is_committing = true;
            self.offsets.in_flight = commits;
            return;
        }
        for commit in commits {
            self.settle_commit(commit, Err(GroupError::Unsayable));
        }
    }

    /// What was made by an earlier generation, of partitions that are not owned any more, may be another's to
    /// commit; so may be all that was made in an earlier life, which ended with the loss of all that was owned,
    /// even if some of that is owned again.
    fn take_sendable(&mut self, generation: i32) -> Vec<Commit> {
        let (mut sendable, mut outdated) = (Vec::new(), Vec::new());
        // Outsiders have none.
        let made_in = (generation >= 0).then_some((self.life_number, generation));
        for mut commit in std::mem::take(&mut self.offsets.queued) {
            let owns_all = || commit.of.keys().all(|of| self.is_kept(of));
            let life = |made_in: Option<(u32, i32)>| made_in.map(|(life, _)| life);
            if commit.made_in == made_in || (life(commit.made_in) == life(made_in) && owns_all()) {
                commit.made_in = made_in;
                sendable.push(commit);
            } else {
                outdated.push(commit);
            }
        }
        for commit in outdated {
            self.settle_commit(commit, Err(GroupError::NotOwner));
        }
        sendable
    }

    pub(in crate::group) fn on_committed(&mut self, said: &OffsetCommitResponse<'_>, now: Now) {
        self.offsets.is_committing = false;
        let mut codes: BTreeMap<TopicPartition, ErrorCode> = BTreeMap::new();
        for topic in &said.topics {
            let Ok(name) = TopicName::new(topic.name) else { continue };
            for part in &topic.partitions {
                let partition = PartitionIndex(part.partition_index);
                let code = ErrorCode::from_i16(part.error_code).unwrap_or(ErrorCode::UnknownServerError);
                codes.insert(TopicPartition { topic: name.clone(), partition }, code);
            }
        }
        for code in codes.values() {
            self.note_commit_code(*code, now);
        }
        let mut again = Vec::new();
        for mut commit in std::mem::take(&mut self.offsets.in_flight) {
            let is_unknown = |of: &&TopicPartition| codes.get(*of).copied().is_some_and(is_unknown_topic);
            commit.unknown += u8::from(commit.of.keys().any(|of| is_unknown(&of)));
            let is_gone = commit.unknown >= UNKNOWN_TOPIC_TRIES_MAX;
            if is_gone {
                // Nor does it say so by itself.
                commit.of.keys().filter(is_unknown).for_each(|of| drop(self.offsets.read.remove(of)));
            }
            match verdict(&commit, &codes, (self.may_be_made_later(&commit), is_gone)) {
                Verdict::Done => self.settle_commit(commit, Ok(())),
                Verdict::Again => {
                    // What of it is done is not made again: that would go behind what was committed since.
                    let is_done = |of: &TopicPartition, _: &mut _| codes.get(of) == Some(&ErrorCode::None);
                    let done = commit.of.extract_if(.., is_done).map(|(of, upto)| (of, upto.offset));
                    self.offsets.committed.extend(done);
                    again.push(commit);
                }
                Verdict::Failed(error) => self.settle_commit(commit, Err(error)),
            }
        }
        if again.is_empty() {
            self.offsets.failures = 0;
        } else {
            self.offsets.put_back(again);
            self.offsets_failed_once(now);
        }
    }

    /// Whether a commit that was made in an outdated generation can be made in a later one: who leaves learns of none but
    /// by what it has asked already.
    fn may_be_made_later(&self, commit: &Commit) -> bool {
        let is_asking = matches!(&self.life, Life::Epochs(epochs) if epochs.is_asked);
        let is_outdated = commit.made_in.is_none_or(|of| self.committer() != Committer::Member(of.1));
        self.leaving.is_none() || is_asking || is_outdated
    }

    /// What an answer says of the coordinator and of the member's place.
    fn note_commit_code(&mut self, code: ErrorCode, now: Now) {
        match code {
            ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable => self.lose_coordinator(),
            // What it is to make of that, the next heartbeat says.
            ErrorCode::UnknownMemberId
            | ErrorCode::GroupIdNotFound
            | ErrorCode::IllegalGeneration
            | ErrorCode::RebalanceInProgress
            | ErrorCode::StaleMemberEpoch
            | ErrorCode::FencedMemberEpoch
            | ErrorCode::FencedInstanceId => match &mut self.life {
                Life::Classic(classic) => classic.heartbeat_due = now.elapsed,
                Life::Epochs(epochs) => epochs.due = now.elapsed,
                Life::Out | Life::Arriving | Life::Resting | Life::Failed => {}
            },
            _ => {}
        }
    }

    /// The commit that was on its way gets no answer: it is made again.
    pub(in crate::group) fn on_commit_lost(&mut self, now: Now) {
        self.offsets.is_committing = false;
        let commits = std::mem::take(&mut self.offsets.in_flight);
        self.offsets.put_back(commits);
        self.offsets_failed_once(now);
    }
}

fn topics<'a>(
    merged: &BTreeMap<&'a TopicPartition, &'a OffsetAndMetadata>,
) -> Vec<OffsetCommitRequestTopic<'a>> {
    let mut topics: Vec<OffsetCommitRequestTopic<'a>> = Vec::new();
    for (of, upto) in merged {
        let name = of.topic.as_str();
        if topics.last().is_none_or(|topic| topic.name != name) {
            topics.push(OffsetCommitRequestTopic { name, topic_id: Uuid::ZERO, partitions: Vec::new() });
        }
        topics.last_mut().expect("one was pushed").partitions.push(OffsetCommitRequestPartition {
            partition_index: of.partition.0,
            committed_offset: upto.offset.0,
            committed_leader_epoch: upto.leader_epoch.0,
            committed_metadata: Some(&upto.metadata),
        });
    }
    topics
}

const fn is_unknown_topic(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId)
}

fn verdict(
    commit: &Commit,
    codes: &BTreeMap<TopicPartition, ErrorCode>,
    (may_be_made_later, is_gone): (bool, bool),
) -> Verdict {
    let mut is_again = false;
    for of in commit.of.keys() {
        // What is not said of it may not have been done.
        match codes.get(of).copied().unwrap_or(ErrorCode::UnknownServerError) {
            ErrorCode::None => {}
            ErrorCode::UnknownMemberId
            | ErrorCode::GroupIdNotFound
            | ErrorCode::IllegalGeneration
            | ErrorCode::FencedMemberEpoch
            | ErrorCode::FencedInstanceId => return Verdict::Failed(GroupError::NotOwner),
            // With the next generation, or the epoch that the next heartbeat brings.
            ErrorCode::RebalanceInProgress | ErrorCode::StaleMemberEpoch if may_be_made_later => {
                is_again = true;
            }
            code @ (ErrorCode::RebalanceInProgress | ErrorCode::StaleMemberEpoch) => {
                return Verdict::Failed(GroupError::Refused(code));
            }
            code if is_gone && is_unknown_topic(code) => return Verdict::Failed(GroupError::Refused(code)),
            code if code.is_retriable() => is_again = true,
            code => return Verdict::Failed(GroupError::Refused(code)),
        }
    }
    if is_again { Verdict::Again } else { Verdict::Done }
}
