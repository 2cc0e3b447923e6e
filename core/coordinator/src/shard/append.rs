//! What is decided goes into the log, and what is in the log is so.

use std::sync::Arc;

use base::{Effects, ErrorCode, Now, Offset};

use super::{Effect, Shard, Write, coordinator_error, first_part, reply_all, turn};
use crate::group::Group;
use crate::group_record::{GroupRecord, Record};
use crate::outcome::Outcome;
use crate::request::{Speaker, Speech};
use crate::settings::Step;

impl Shard {
    /// Turns what was decided into effects.
    pub(super) fn carry_out(&mut self, now: Now, outcome: Outcome, splits: bool, out: &mut Effects<Effect>) {
        let Outcome { replies, read_to, records, held, counts, counts_held, of_group, turn } = outcome;
        counts.into_iter().for_each(|count| out.push(Effect::Count(count)));
        replies.into_iter().for_each(|(ticket, it)| self.reply_once(now.elapsed, read_to, ticket, it, out));
        if records.is_empty() {
            assert!(held.is_empty(), "nothing is written that these could wait for: {held:?}");
            return;
        }
        let (mut rest, since) = (records, now.elapsed);
        while splits && first_part(&rest) < rest.len() {
            let later = rest.split_off(first_part(&rest));
            let records: Arc<[Record]> = std::mem::replace(&mut rest, later).into();
            let (held, counts) = (vec![], vec![]);
            let part = Write {
                records,
                held,
                since,
                counts,
                of_group: None,
                turn: None,
                goes_on: true,
                joins: None,
            };
            self.append(part, out);
        }
        let (records, counts) = (rest.into(), counts_held);
        let write = Write { records, held, since, counts, of_group, turn, goes_on: false, joins: None };
        self.append(write, out);
    }

    pub(super) fn append(&mut self, write: Write, out: &mut Effects<Effect>) {
        out.push(Effect::Append { records: write.records.clone() });
        self.appending.push_back(write);
    }

    /// What was to be appended at `now` is at the end of the leader's log, which ends at `Ok`, or is not in it.
    pub fn on_appended(&mut self, now: Now, result: Result<Offset, ErrorCode>, out: &mut Effects<Effect>) {
        if let Ok(end) = result {
            self.replay_written(now, end, out);
        }
        // Until here who waits for it is with it, whatever happens.
        let write = self.appending.pop_front().expect("only what was asked for is appended");
        match result {
            Ok(end) => self.take_in(now, write, end, out),
            Err(error) => self.give_up(now, write, coordinator_error(error), out),
        }
    }

    fn replay_written(&mut self, now: Now, end: Offset, out: &mut Effects<Effect>) {
        assert!(end > self.end, "a log that grew ends at {end}, but ended at {} before", self.end);
        let write = self.appending.front().expect("only what was asked for is appended");
        self.end = end;
        let turned = write.turn.is_some().then_some(write.of_group.as_deref()).flatten();
        if let Some(group) = turned.and_then(|id| self.groups.get_mut(id)) {
            // Those of the old protocol come back, and find the new one.
            turn::refuse_waiting(group, ErrorCode::RebalanceInProgress, out);
        }
        for record in &*write.records {
            let decoded = GroupRecord::decode(&record.key, record.value.as_deref());
            let decoded = decoded.expect("what is written here can be read here");
            let decoded = decoded.expect("only kinds that are kept here are written");
            self.groups.replay(decoded, (end, now.wall));
        }
    }

    fn take_in(&mut self, now: Now, write: Write, end: Offset, out: &mut Effects<Effect>) {
        if let Some(error) = self.part_failed.filter(|_| !write.goes_on) {
            self.part_failed = None;
            return reply_all(write.held.into_iter().map(|(ticket, it)| (ticket, it.failed(error))), out);
        }
        write.counts.into_iter().for_each(|count| out.push(Effect::Count(count)));
        let since = write.since;
        write.held.into_iter().for_each(|(ticket, it)| self.reply_once(since, end, ticket, it, out));
        if let Some((connection, group, member)) = write.joins {
            let said = Speaker { group: &group, member: &member, by: Speech::Heartbeat };
            self.groups.heard(since, connection, &said);
        }
        if let Some(id) = write.of_group {
            self.turn(now, &id, write.turn, out);
            self.settle(&id);
        }
    }

    fn give_up(&mut self, now: Now, write: Write, error: ErrorCode, out: &mut Effects<Effect>) {
        self.part_failed = write.goes_on.then_some(error);
        reply_all(write.held.into_iter().map(|(ticket, it)| (ticket, it.failed(error))), out);
        let Some(id) = write.of_group else { return };
        let mut outcome = Outcome::default();
        // A group of the new protocol has nothing to take back: its timers try again.
        if let Some(classic) = self.groups.get_mut(&id).and_then(Group::classic_mut)
            && write.turn.is_none()
        {
            classic.on_write_lost(&Step { now, settings: &self.settings }, error, &mut outcome);
        }
        self.carry_out(now, outcome, false, out);
        self.settle(&id);
    }
}
