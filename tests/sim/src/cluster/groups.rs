//! What the logs of `__consumer_offsets` say of groups, as far as they are committed: the replay of all of it, by
//! whoever wrote it, compacted or not.

use std::collections::{BTreeMap, BTreeSet};

use base::Offset;
use coordinator::consumer::Member;

/// Whose offset: group, topic, partition.
pub(crate) type Place = (String, String, i32);

/// How far a group came in a partition, from some place of the log on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Where in the log it stands.
    pub(crate) at: Offset,
    /// How far; `None` if it was forgotten.
    pub(crate) upto: Option<Mark>,
}

/// An offset, and what its committer wrote beside it, which no other commit has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    pub(crate) offset: i64,
    pub(crate) name: String,
}

/// A member, and the generation or epoch that it says it is in.
pub(crate) type Sender = (String, i32);

/// A group of the new protocol, as its log has it.
#[derive(Debug, Default)]
pub(crate) struct ConsumerState {
    pub(crate) epoch: i32,
    pub(crate) target_epoch: i32,
    pub(crate) members: BTreeMap<String, Member>,
    /// Whether it had members when its epoch began.
    pub(crate) had_members: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) commits: BTreeMap<Place, Vec<Commit>>,
    /// The generation of each group in the classic protocol that its log has last.
    pub(crate) generations: BTreeMap<String, i32>,
    /// Groups of the new protocol.
    pub(crate) consumers: BTreeMap<String, ConsumerState>,
    /// The last generation or epoch of groups with members that are on their way to the other protocol.
    pub(crate) handed_over: BTreeMap<String, i32>,
    /// Who sent each commit, and in which generations or epochs, by its mark.
    pub(crate) sent_by: BTreeMap<String, BTreeSet<Sender>>,
    /// How many commits of each group were acknowledged.
    pub(crate) acked: BTreeMap<String, u64>,
}

impl Groups {
    /// A member sends a commit.
    pub(crate) fn on_sent(&mut self, mark: &str, sender: Sender) {
        self.sent_by.entry(mark.to_owned()).or_default().insert(sender);
    }

    /// All commits of a place, in the order in which they took effect.
    pub(crate) fn commits(&self, place: &Place) -> &[Commit] {
        self.commits.get(place).map_or(&[], Vec::as_slice)
    }
}
