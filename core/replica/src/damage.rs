//! Damage: a disk gives back what it was not given, or nothing. Whoever reads it finds out, and asks for the
//! same again.
//!
//! ```text
//!   fetch: the same again ─▶ Suspect ─▶ check_plan ─ run, outside any lock ─▶ on_damage: another can lead
//!                                                                              └─▶ Damaged: given up, filled anew
//! ```

use base::{Effects, Offset};
use storage::disk::{DiskError, Failed};
use storage::{Check, LookupError};

use crate::fetch::Reader;
use crate::partition::{Effect, Partition};
use crate::role::Role;

impl Partition {
    /// A reader is given records.
    pub(crate) fn note_given(&mut self, reader: Reader, from: Offset, out: &mut Effects<Effect>) {
        let given = match (reader, &mut self.role) {
            (Reader::Follower(id), Role::Leader(leader)) => leader.given(id.broker),
            (Reader::Consumer | Reader::Nearby, _) => Some(&mut self.given),
            (Reader::Follower(_), _) => None,
        };
        if given.is_some_and(|given| given.note(from)) && !self.failed {
            out.push(Effect::Suspect(from));
        }
    }

    /// What is to be looked at after [`Effect::Suspect`], outside any lock.
    pub fn check_plan(&mut self, at: Offset) -> Result<Check, LookupError> {
        if let Some(why) = &self.unreadable {
            return Err(why.clone());
        }
        let plan = self.log.check_plan(at);
        // Whatever came of it, files may have been opened.
        self.log.on_read(at);
        plan
    }

    /// Stored records are damaged, or cannot be read. `can_be_replaced` is whether the metadata have another replica
    /// with all that is committed, which can lead at once: then this one is given up. Otherwise it serves what it
    /// has, for nobody else does. Whether it was given up.
    pub fn on_damage(&mut self, why: &LookupError, can_be_replaced: bool, out: &mut Effects<Effect>) -> bool {
        // For want of descriptors or memory nothing is known of what is stored.
        let is_of_log = !matches!(why, LookupError::Disk(error) if error.failed != Failed::File);
        if self.failed || !can_be_replaced || !is_of_log {
            // Whoever finds it again says it again.
            (self.unreadable, self.was_refused) = (None, false);
            return false;
        }
        self.failed = true;
        out.push(Effect::Damaged(why.clone()));
        true
    }

    /// The disk refused an append. If it was one of the log's files, twice in a row, it does not pass: the log is looked
    /// at, for no reader need come by that file.
    pub(crate) fn append_refused(&mut self, why: &DiskError, out: &mut Effects<Effect>) {
        self.fail(why.clone(), out);
        if !self.failed && why.failed == Failed::File && std::mem::replace(&mut self.was_refused, true) {
            self.unreadable = Some(why.clone().into());
            out.push(Effect::Suspect(self.log.end()));
        }
    }

    pub(crate) fn append_went_well(&mut self) {
        if std::mem::take(&mut self.was_refused) {
            self.unreadable = None;
        }
    }

    /// A cut at an offset found stored records damaged, or could not read them. If that was midway, the log is of no
    /// use any more, whoever else has its records.
    pub(crate) fn cut_found_damage(&mut self, at: Offset, why: LookupError, out: &mut Effects<Effect>) {
        if self.failed {
            return;
        }
        self.failed = self.log.poison().is_some();
        if self.failed {
            out.push(Effect::Damaged(why));
        } else {
            self.unreadable = Some(why);
            out.push(Effect::Suspect(at));
        }
    }
}
