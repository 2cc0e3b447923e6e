//! Damage: a disk gives back what it was not given, or nothing. Whoever reads it finds out, and asks for the
//! same again.
//!
//! ```text
//!   fetch: the same again ─▶ Suspect ─▶ check_plan ─ run, outside any lock ─▶ on_damage: another can lead
//!                                                                              └─▶ Damaged: given up, filled anew
//! ```

use base::{Effects, Offset};
use storage::disk::Failed;
use storage::{Check, LookupError};

use crate::fetch::Reader;
use crate::partition::{Effect, Partition};
use crate::role::Role;

/// What a reader was given last, and how often in a row.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Given {
    from: Offset,
    times: u8,
}

impl Given {
    /// How often the same is given until it is looked at. Once more is given to whoever lost a connection; and
    /// readers of their own often ask for the same.
    const TIMES: u8 = 3;

    /// A reader is given what is at an offset. Whether that is worth a look now.
    fn note(&mut self, from: Offset) -> bool {
        if self.from != from {
            *self = Self { from, times: 0 };
        }
        self.times += 1;
        let is_due = self.times >= Self::TIMES;
        if is_due {
            self.times = 0;
        }
        is_due
    }
}

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
            return false;
        }
        self.failed = true;
        out.push(Effect::Damaged(why.clone()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_three_times_in_a_row_is_looked_at() {
        let mut given = Given::default();
        let looked: Vec<bool> = [5, 5, 7, 5, 5, 5, 5, 5, 5].map(|from| given.note(Offset(from))).into();
        assert_eq!(looked, [false, false, false, false, false, true, false, false, true]);
    }
}
