//! The metadata log as it is in memory: every entry from the newest snapshot's neighbourhood on.
//!
//! ```text
//!   index     first                        last
//!   ──────────┬──────┬────────────┬────────┬
//!   offset    start  │   one entry is one batch, of any number of records
//! ```
//!
//! Snapshots are taken after so many bytes that all entries behind them fit in memory. So readers, the
//! other nodes above all, never wait for the disk; only writing does.

use std::collections::VecDeque;
use std::ops::Range;

use base::{LeaderEpoch, Offset, TimestampMs};
use openraft::EntryPayload;

use crate::batch::{self, Author};
use crate::error::Malformed;
use crate::files::LogStart;
use crate::types::{Entry, LogId, Membership, Vote, epoch};

/// An entry and the offset behind it.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) entry: Entry,
    pub(crate) end: Offset,
}

impl Kept {
    pub(crate) fn size_bytes(&self) -> usize {
        self.entry.stored.as_ref().map_or(0, |bytes| bytes.len())
    }
}

/// The log in memory, and what goes with it.
#[derive(Debug)]
pub(crate) struct Memory {
    /// This node.
    pub(crate) node: u64,
    /// The index of the first entry.
    pub(crate) first: u64,
    /// The entry before the first, if one was purged.
    pub(crate) before: Option<LogId>,
    /// Where the first entry begins.
    pub(crate) start: Offset,
    pub(crate) kept: VecDeque<Kept>,
    pub(crate) vote: Option<Vote>,
    pub(crate) committed: Option<LogId>,
    /// Who votes, as the newest entry that says it has it.
    pub(crate) members: Membership,
    /// Who voted where the log begins.
    members_before: Membership,
    /// The newest snapshot: its last entry and the offset behind.
    pub(crate) snapshot: Option<(LogId, Offset)>,
}

impl Memory {
    pub(crate) fn new(node: u64) -> Self {
        Self {
            node,
            first: 0,
            before: None,
            start: Offset::ZERO,
            kept: VecDeque::new(),
            vote: None,
            committed: None,
            members: Membership::default(),
            members_before: Membership::default(),
            snapshot: None,
        }
    }

    /// The last entry; the one before the first if there is none.
    pub(crate) fn last(&self) -> Option<LogId> {
        self.kept.back().map(|kept| kept.entry.log_id).or(self.before)
    }

    /// The offset behind the last entry.
    pub(crate) fn end(&self) -> Offset {
        self.kept.back().map_or(self.start, |kept| kept.end)
    }

    fn next_index(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    fn at(&self, index: u64) -> Option<usize> {
        let at = usize::try_from(index.checked_sub(self.first)?).ok()?;
        (at < self.kept.len()).then_some(at)
    }

    pub(crate) fn get(&self, index: u64) -> Option<&Kept> {
        self.at(index).and_then(|at| self.kept.get(at))
    }

    /// The offset behind the entry of this index.
    pub(crate) fn end_of(&self, index: u64) -> Option<Offset> {
        match self.get(index) {
            Some(kept) => Some(kept.end),
            None if self.before.is_some_and(|before| before.index == index) => Some(self.start),
            None => None,
        }
    }

    /// The place of the last entry that ends at `offset` or before.
    pub(crate) fn ending_by(&self, offset: Offset) -> Option<LogId> {
        let at = self.kept.partition_point(|kept| kept.end <= offset);
        match at.checked_sub(1) {
            Some(at) => self.kept.get(at).map(|kept| kept.entry.log_id),
            None => self.before.filter(|_| self.start <= offset),
        }
    }

    /// The entries whose first offset is `from` or later.
    pub(crate) fn behind(&self, from: Offset) -> impl Iterator<Item = &Kept> {
        self.kept.range(self.kept.partition_point(|kept| kept.end <= from)..)
    }

    /// The epoch that the log is in right before `offset`, and whether an entry ends there.
    pub(crate) fn epoch_before(&self, offset: Offset) -> Option<LeaderEpoch> {
        let last = self.ending_by(offset)?;
        (self.end_of(last.index) == Some(offset)).then(|| epoch(last.leader_id.term))
    }

    /// Puts an entry at the end, as the batch that it is there.
    pub(crate) fn append(&mut self, mut entry: Entry, now: TimestampMs) -> Result<Kept, Malformed> {
        if self.kept.is_empty() && self.before.is_none() {
            self.first = entry.log_id.index;
        }
        let index = entry.log_id.index;
        if index != self.next_index() || Some(entry.log_id) <= self.last() {
            let last = self.last();
            return Err(Malformed(format!("entry {} does not follow {last:?}", entry.log_id)));
        }
        let author = Author { node: self.node, members: &self.members, now };
        let bytes = batch::place(&entry, self.end(), &author)?;
        if let EntryPayload::Normal(records) = &mut entry.payload {
            records.0 = bytes.clone();
        }
        if let EntryPayload::Membership(members) = &entry.payload {
            self.members = members.clone();
        }
        let header = records::BatchHeader::parse(&bytes).map_err(|error| Malformed(error.to_string()))?;
        entry.stored = Some(bytes);
        let kept = Kept { entry, end: header.next_offset() };
        self.kept.push_back(kept.clone());
        Ok(kept)
    }

    /// Drops what follows an entry, or all there is. The new end.
    pub(crate) fn truncate_after(&mut self, last: Option<LogId>) -> Offset {
        let keep = last.map_or(0, |last| (last.index + 1).saturating_sub(self.first));
        self.kept.truncate(usize::try_from(keep).unwrap_or(usize::MAX));
        self.members = self.members_of_kept(None).unwrap_or_else(|| self.members_before.clone());
        self.end()
    }

    /// Who votes by the newest entry that says so, of those behind another.
    fn members_of_kept(&self, behind: Option<LogId>) -> Option<Membership> {
        let newer = |kept: &&Kept| behind.is_none_or(|last| kept.entry.log_id > last);
        self.kept.iter().rev().take_while(newer).find_map(|kept| match &kept.entry.payload {
            EntryPayload::Membership(members) => Some(members.clone()),
            EntryPayload::Blank | EntryPayload::Normal(_) => None,
        })
    }

    /// Who votes where a snapshot ends, which is where the log begins unless it has entries behind. Those that the log
    /// still has before that say nothing more.
    pub(crate) fn set_members_before(&mut self, last: LogId, members: Membership) {
        self.members = self.members_of_kept(Some(last)).unwrap_or_else(|| members.clone());
        self.members_before = members;
    }

    /// Drops what comes up to an entry, that one too. The log begins behind it, even if it never had it.
    pub(crate) fn purge(&mut self, upto: LogId) -> LogStart {
        let is_next = upto.index + 1 == self.first && !self.kept.is_empty();
        let is_here = if is_next { Some(self.start) } else { self.end_of(upto.index) };
        let offset = match (is_here, self.snapshot) {
            (Some(end), _) => end,
            (None, Some((last, end))) if last.index == upto.index => end,
            (None, _) => self.end(),
        };
        match self.at(upto.index) {
            Some(at) => {
                for kept in self.kept.drain(..=at) {
                    if let EntryPayload::Membership(members) = kept.entry.payload {
                        self.members_before = members;
                    }
                }
            }
            None if is_next => {}
            // What it has is not what the others have: the snapshot says who votes.
            None => self.kept.clear(),
        }
        (self.first, self.before, self.start) = (upto.index + 1, Some(upto), offset);
        LogStart { offset, before: upto, void: is_here.is_none() }
    }

    /// Entries of these indexes, as far as they are there; no more than `bytes_max`, but one at least.
    pub(crate) fn range(&self, indexes: Range<u64>, bytes_max: usize) -> Vec<Entry> {
        let from = indexes.start.max(self.first);
        let to = indexes.end.min(self.next_index());
        let mut found = Vec::new();
        let mut bytes = 0usize;
        for index in from..to {
            let Some(kept) = self.get(index) else { break };
            bytes = bytes.saturating_add(kept.size_bytes());
            if bytes > bytes_max && !found.is_empty() {
                break;
            }
            found.push(kept.entry.clone());
        }
        found
    }
}
