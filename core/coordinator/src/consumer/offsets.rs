//! Whether a member may commit and read offsets.

use base::{PartitionIndex, TopicId};

use super::ConsumerGroup;
use super::member::Member;
use super::settings::ConsumerGroupError;

/// The first version of OffsetCommit that knows members of the new protocol.
const COMMIT_VERSION_MIN: i16 = 9;

/// For which partitions a commit may be taken.
#[derive(Debug, Clone, Copy)]
pub enum CommitRight<'a> {
    /// For all.
    All,
    /// For those that the member had in an older epoch and still has (KIP-1251).
    HeldSince(&'a Member, i32),
}

impl CommitRight<'_> {
    /// Whether a commit for this partition may be taken; `None` stands for a topic that is not there.
    ///
    /// # Errors
    /// If the member has it no longer, or only since a later epoch.
    pub fn check(&self, topic: Option<TopicId>, index: PartitionIndex) -> Result<(), ConsumerGroupError> {
        let Self::HeldSince(member, received) = *self else { return Ok(()) };
        let lists = [&member.current.assigned, &member.current.revoking];
        let since =
            topic.and_then(|topic| lists.into_iter().find_map(|owned| owned.get(&topic)?.get(&index)));
        match since {
            Some(since) if *since <= received => Ok(()),
            _ => Err(ConsumerGroupError::StaleEpoch { received, expected: member.current.epoch }),
        }
    }
}

impl ConsumerGroup {
    /// Whether a commit of offsets is from somebody who may commit, and for which partitions. `version` is that of
    /// an OffsetCommit; `None` for a commit within a transaction.
    ///
    /// # Errors
    /// If there is no such member, or it is in another epoch.
    pub fn validate_offset_commit(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
        member_epoch: i32,
        version: Option<i16>,
    ) -> Result<CommitRight<'_>, ConsumerGroupError> {
        // A tool, or a consumer that only keeps its offsets here.
        if member_epoch < 0 && self.is_empty() {
            return Ok(CommitRight::All);
        }
        // A transaction need not say who it is.
        if version.is_none() && member_epoch == -1 && member_id.is_empty() && instance_id.is_none() {
            return Ok(CommitRight::All);
        }
        let member = self.known_member(member_id)?;
        if version.is_some_and(|version| version < COMMIT_VERSION_MIN) && !member.is_classic() {
            return Err(ConsumerGroupError::OldCommit);
        }
        let is_older = member_epoch < member.current.epoch && member_epoch > 0 && !member.is_classic();
        match is_older {
            true => Ok(CommitRight::HeldSince(member, member_epoch)),
            false => check_epoch(member, member_epoch).map(|()| CommitRight::All),
        }
    }

    /// Whether offsets may be read: a tool says neither member nor epoch.
    ///
    /// # Errors
    /// If there is no such member, or it is in another epoch.
    pub fn validate_offset_fetch(
        &self,
        member_id: Option<&str>,
        member_epoch: i32,
    ) -> Result<(), ConsumerGroupError> {
        match member_id {
            None if member_epoch < 0 => Ok(()),
            id => check_epoch(self.known_member(id.unwrap_or_default())?, member_epoch),
        }
    }

    pub(super) fn known_member(&self, id: &str) -> Result<&Member, ConsumerGroupError> {
        self.member(id).ok_or_else(|| self.no_member(id))
    }

    pub(super) fn no_member(&self, id: &str) -> ConsumerGroupError {
        ConsumerGroupError::NoMember { member: base::excerpt(id, 128), group: self.id.clone() }
    }
}

fn check_epoch(member: &Member, received: i32) -> Result<(), ConsumerGroupError> {
    let expected = member.current.epoch;
    match (received == expected, member.is_classic()) {
        (true, _) => Ok(()),
        (false, true) => Err(ConsumerGroupError::IllegalGeneration { received, expected }),
        (false, false) => Err(ConsumerGroupError::StaleEpoch { received, expected }),
    }
}
