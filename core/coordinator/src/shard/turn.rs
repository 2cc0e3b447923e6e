//! Groups that change their protocol while they are read (KIP-848).
//!
//! What takes the group away under its old protocol and what makes it under the new one is one append: no coordinator
//! ever loads half of it. What does not last begins once that is replayed.

use base::{Effects, ErrorCode, Now};

use super::{Effect, Shard, reply_all};
use crate::group::{Group, GroupKind};
use crate::outcome::{Outcome, Turn};
use crate::response::{JoinedGroup, Response, SyncedGroup};
use crate::settings::Step;

/// Who waits in a classic group is told why it does so in vain.
pub(super) fn refuse_waiting(group: &mut Group, error: ErrorCode, out: &mut Effects<Effect>) {
    let Some(classic) = group.classic_mut() else { return };
    let (joining, syncing) = classic.take_waiting();
    let joined = Response::JoinGroup(JoinedGroup::refused(error, ""));
    reply_all(joining.into_iter().map(|ticket| (ticket, joined.clone())), out);
    let synced = Response::SyncGroup(SyncedGroup::refused(error));
    reply_all(syncing.into_iter().map(|ticket| (ticket, synced.clone())), out);
}

impl Shard {
    /// The records that turn a group were replayed.
    pub(super) fn turn(&mut self, now: Now, id: &str, turn: Option<Turn>, out: &mut Effects<Effect>) {
        let Some(group) = self.groups.get_mut(id) else { return };
        let mut outcome = Outcome::default();
        match (turn, &mut group.kind) {
            (Some(Turn::Consumer(settings)), GroupKind::Consumer(consumers)) => {
                consumers.settings = settings;
                consumers.group.on_begun(now, &consumers.settings);
            }
            (Some(Turn::Classic), GroupKind::Classic(classic)) => {
                classic.on_loaded(&Step { now, settings: &self.settings }, &mut outcome);
                // Who left was counted when that was decided.
                outcome.counts.clear();
            }
            (None, _) => return,
            (Some(turn), kind) => panic!("a group that turned is what it was written as: {turn:?} {kind:?}"),
        }
        self.carry_out(now, outcome, false, out);
    }
}
