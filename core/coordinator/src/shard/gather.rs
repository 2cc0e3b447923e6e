//! Commits of offsets that come together are written together.
//!
//! ```text
//!   commit ─▶ decided ─▶ gathered ── the caller's turn ends, or anything else is asked ─▶ appended, all as one batch
//! ```
//!
//! To write a batch, check it, have it flushed and replicated and hear that it was costs more than the record of a
//! commit in it. So a caller that serves many connections takes in all commits that are there before it releases them.
//! One that comes alone waits for nothing.
//!
//! **Invariant:** nothing is decided on what was committed before: offsets are gathered only of groups that are there,
//! and released before any step but another commit. So it is as if each had been appended when it came.

use std::time::Duration;

use base::{Effects, Now};

use super::{Effect, Shard, WRITE_BYTES_MAX, Write};
use crate::group_record::Record;
use crate::outcome::{Count, Outcome};
use crate::request::Ticket;
use crate::response::Response;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    records: Vec<Record>,
    bytes: usize,
    pub(super) held: Vec<(Ticket, Response)>,
    counts: Vec<Count>,
    /// When the first of them came.
    since: Duration,
}

impl Shard {
    /// Since when commits wait to be appended; `None` if there are none. Whoever asked for them to be made
    /// [releases](Self::release) them soon, and whoever steps the shard before, unless the step is another commit.
    pub fn gathered_since(&self) -> Option<Duration> {
        self.has_gathered().then_some(self.gathered.since)
    }

    fn has_gathered(&self) -> bool {
        !self.gathered.held.is_empty()
    }

    /// Has the commits appended that were gathered.
    pub fn release(&mut self, out: &mut Effects<Effect>) {
        if !self.has_gathered() {
            return;
        }
        let Gathered { records, held, counts, since, .. } = std::mem::take(&mut self.gathered);
        let records = records.into();
        let write =
            Write { records, held, since, counts, of_group: None, turn: None, goes_on: false, joins: None };
        self.append(write, out);
    }

    /// Whether a commit of this group is gathered. One that makes a group is not: there may be too many.
    pub(super) fn gathers(&self, group: &str) -> bool {
        self.groups.get(group).is_some()
    }

    /// Takes in what was decided of a commit.
    pub(super) fn gather(&mut self, now: Now, outcome: Outcome, out: &mut Effects<Effect>) {
        let bytes: usize = outcome.records.iter().map(Record::bytes).sum();
        if outcome.records.is_empty() || bytes > WRITE_BYTES_MAX {
            // A large one alone may be more than the log takes.
            self.release(out);
            return self.carry_out(now, outcome, false, out);
        }
        let gathered = &mut self.gathered;
        if gathered.held.is_empty() {
            gathered.since = now.elapsed;
        }
        gathered.bytes += bytes;
        gathered.records.extend(outcome.records);
        gathered.held.extend(outcome.held);
        gathered.counts.extend(outcome.counts_held);
        let replies = Outcome { replies: outcome.replies, counts: outcome.counts, ..Outcome::default() };
        self.carry_out(now, replies, false, out);
        if self.gathered.bytes > WRITE_BYTES_MAX {
            self.release(out);
        }
    }

    /// When those who gathered have waited for too long.
    pub(super) fn gathered_due(&self) -> Option<Duration> {
        self.gathered_since().map(|since| since + self.settings.commit_timeout)
    }

    /// The caller must have done what it was told; and only another commit may find some that are gathered.
    pub(super) fn assert_steps(&self, commits: bool) {
        assert!(self.appending.is_empty(), "what is to be appended is appended before the next step");
        assert!(
            commits || !self.has_gathered(),
            "what was gathered is released before anything else is decided"
        );
    }
}
