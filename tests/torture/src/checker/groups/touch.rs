//! Which members may not know what their groups said last.
//!
//! ```text
//!   in touch ── away: stopped, cut off ──▶ away ── back ──▶ late ── a commit that it makes is acknowledged ──▶ in touch
//!                                                             what it was told before it reads only now
//! ```

use std::collections::BTreeMap;

use crate::history::Away;

/// A member that is away, or late.
#[derive(Debug)]
struct Late {
    since: u64,
    /// Why it is away, if it is; the gravest.
    away: Option<(Away, u64)>,
    /// Since when it is not away any more.
    back_at: u64,
}

/// By member: what may be old.
#[derive(Debug, Default)]
pub(super) struct Touch {
    late: BTreeMap<u32, Late>,
}

impl Touch {
    pub(super) fn away(&mut self, who: u32, why: Away, at: u64) {
        let late = self.late.entry(who).or_insert(Late { since: at, away: None, back_at: at });
        // Who is stopped finds out itself that it stood still, and says so as well.
        late.away = Some(late.away.map_or((why, at), |(before, since)| (before.min(why), since)));
    }

    /// Why it was away, and for how long; nothing if that was told already.
    pub(super) fn back(&mut self, who: u32, at: u64) -> Option<(Away, u64)> {
        let late = self.late.get_mut(&who)?;
        late.back_at = at;
        late.away.take().map(|(why, since)| (why, at - since))
    }

    /// A commit that it made at a time was acknowledged: it knew then who it was.
    pub(super) fn heard_of(&mut self, who: u32, since: u64) {
        if self.late.get(&who).is_some_and(|late| late.away.is_none() && late.back_at < since) {
            self.late.remove(&who);
        }
    }

    /// From which time on it may not know what its group said; nothing if it does.
    pub(super) fn late_since(&self, who: u32) -> Option<u64> {
        self.late.get(&who).map(|late| late.since)
    }
}
