//! The controller, stepped: commands and what the quorum tells go in, proposals and answers come out.
//!
//! ```text
//!   command ─▶ decide ─▶ records ─▶ image with them ─▶ next command
//!                           │
//!                           ├─ forming ─▶ proposed ─▶ committed ─▶ answers, and what changed
//!                           │  several commands a batch, some batches at a time
//!                           └─ lost: nobody leads here any more ─▶ NotController
//! ```
//!
//! **Invariant:** what is answered is committed, and so is all that the decision was made on.

use std::collections::VecDeque;
use std::time::Duration;

use base::{BrokerId, Effects, LeaderEpoch, Now, Offset};
use metadata::settings::UNCLEAN_ELECTION;
use metadata::{Delta, Image, MetadataRecord};

use crate::command::{Command, Reply};
use crate::controller::Controller;
use crate::error::ControllerError;
use crate::office::{Batch, CommandId, Office, Term};
use crate::quorum::{Committed, Proposal, QuorumEvent};
use crate::{BATCH_BYTES_MAX, RECORDS_PER_BATCH};

/// Batches that may be on their way at a time: enough to hide that each takes a round trip and two flushes,
/// few enough that commands gather in the next one meanwhile.
const PROPOSALS_MAX: usize = 4;

/// What the caller has to do, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Give it to the quorum.
    Propose(Proposal),
    /// Answer a command. Who was answered finds what was decided in any image that reaches to `end`.
    Answer {
        /// Which one.
        id: CommandId,
        /// What to answer.
        result: Result<Reply, ControllerError>,
        /// The end of the metadata that has all of it.
        end: Offset,
    },
    /// This was committed: [`Controller::image`] has it, and the node must act on it.
    Changed(Delta),
    /// A broker was silent for so long that it is fenced.
    Silent {
        /// Which one.
        broker: BrokerId,
        /// How long it was not heard.
        silence: Duration,
    },
}

impl Controller {
    /// The quorum tells something.
    pub fn on_event(&mut self, now: Now, event: QuorumEvent, out: &mut Effects<Effect>) {
        match event {
            QuorumEvent::Committed(committed) => self.on_committed(now, committed, out),
            QuorumEvent::Snapshot(image) => self.on_snapshot(image, out),
            QuorumEvent::Elected { epoch } => self.on_elected(now, epoch, out),
            QuorumEvent::Following { leader, .. } => {
                self.predecessor = leader.or(self.predecessor);
                self.resign(leader, out);
            }
        }
        self.propose(out);
    }

    /// A command is to be carried out. It is answered sooner or later, or never if the node ends.
    pub fn on_command(&mut self, now: Now, id: CommandId, command: &Command, out: &mut Effects<Effect>) {
        let end = self.committed.end();
        match &self.office {
            Office::Vacant { active } => {
                let result = Err(ControllerError::NotController { active: *active });
                return out.push(Effect::Answer { id, result, end });
            }
            Office::Held(term) if term.is_full(command) => {
                return out.push(Effect::Answer { id, result: Err(ControllerError::Busy), end });
            }
            Office::Held(_) => {}
        }
        self.note_pause(now);
        let (result, records) = match self.handle(now, command) {
            Ok((_, records)) if is_too_much(&records, command.may_be_split()) => {
                let why = "The records of one request would take too much, or no record can hold one of its texts or lists: ask for less.".into();
                (Err(ControllerError::PolicyViolation(why)), Vec::new())
            }
            Ok((reply, records)) => (Ok(reply), records),
            Err(refused) => (Err(refused), Vec::new()),
        };
        let may_elect = records.iter().any(is_about_elections);
        self.enqueue(records, command.may_be_split());
        if may_elect {
            // Whoever allows one waits for it.
            self.enqueue(self.electorate().fill_vacancies(None), true);
        }
        let heard = match command {
            Command::BrokerHeartbeat(heartbeat) if result.is_ok() => Some(heartbeat.id),
            _ => None,
        };
        self.answer_later(now, (id, result), heard, out);
        self.propose(out);
    }

    /// It was time.
    pub fn on_tick(&mut self, now: Now, out: &mut Effects<Effect>) {
        if !self.is_active() {
            return;
        }
        self.note_pause(now);
        while let Some((broker, silence, records)) = self.fence_silent(now) {
            if !records.is_empty() {
                out.push(Effect::Silent { broker, silence });
            }
            self.enqueue(records, true);
        }
        if let Office::Held(term) = &mut self.office
            && term.balance_at.is_some_and(|at| at <= now.elapsed)
        {
            term.balance_at = self.settings.balance_interval.map(|interval| now.elapsed + interval);
            let mut records = self.electorate().fill_vacancies(None);
            if records.is_empty() {
                records = self.balance_leaders();
            }
            self.enqueue(records, true);
        }
        self.propose(out);
    }

    /// When to step it although nothing happens.
    pub fn deadline(&self) -> Option<Duration> {
        let Office::Held(term) = &self.office else { return None };
        let pulse = term.stepped + self.settings.heartbeat_interval;
        [Some(pulse), term.balance_at, self.sessions.next_end()].into_iter().flatten().min()
    }

    /// Whether it decides: what it decides may still be lost.
    pub fn is_active(&self) -> bool {
        matches!(self.office, Office::Held(_))
    }

    /// A controller that was not running itself cannot tell who was silent meanwhile.
    fn note_pause(&mut self, now: Now) {
        let Office::Held(term) = &mut self.office else { return };
        if now.elapsed.saturating_sub(term.stepped) > self.settings.session_timeout / 2 {
            self.sessions.extend_all(now);
        }
        term.stepped = term.stepped.max(now.elapsed);
    }

    fn on_elected(&mut self, now: Now, epoch: LeaderEpoch, out: &mut Effects<Effect>) {
        self.resign(None, out);
        self.image = self.committed.clone();
        self.sessions.begin(self.image.brokers_alive().map(|broker| broker.id), now);
        // The voters did not hear from it any more. If it lives all the same, it hears of this controller at once.
        if let Some(before) = self.predecessor.take().filter(|before| *before != self.settings.node_id) {
            self.sessions.suspect(before, now, self.settings.heartbeat_interval);
        }
        self.office = Office::Held(Term {
            epoch,
            proposed: VecDeque::new(),
            forming: VecDeque::new(),
            records_waiting: 0,
            answers_waiting: 0,
            stepped: now.elapsed,
            balance_at: self.settings.balance_interval.map(|interval| now.elapsed + interval),
        });
        let features = match self.image.features().is_empty() {
            true => Self::bootstrap(),
            false => self.features_missing(),
        };
        self.enqueue(features, false);
        self.enqueue(self.settings_for_all(), false);
        // The controller before this one may have ended between two batches.
        let records = self.electorate().fill_vacancies(None);
        self.enqueue(records, true);
    }

    fn resign(&mut self, active: Option<BrokerId>, out: &mut Effects<Effect>) {
        let before = std::mem::replace(&mut self.office, Office::Vacant { active });
        if let Office::Held(term) = before {
            let refused = ControllerError::NotController { active };
            let waiting = term.proposed.into_iter().chain(term.forming);
            for (id, _) in waiting.flat_map(|batch| batch.answers) {
                out.push(Effect::Answer { id, result: Err(refused.clone()), end: self.committed.end() });
            }
            self.image = self.committed.clone();
            self.sessions.clear();
        }
    }

    fn on_snapshot(&mut self, image: Image, out: &mut Effects<Effect>) {
        let delta = Delta::between(&self.committed, &image);
        self.committed = image;
        self.image = self.committed.clone();
        if !delta.is_empty() {
            out.push(Effect::Changed(delta));
        }
    }

    fn on_committed(&mut self, now: Now, committed: Committed, out: &mut Effects<Effect>) {
        let Committed { epoch, records, end } = committed;
        let own = match &mut self.office {
            Office::Held(term) if term.epoch == epoch && !records.is_empty() => term.proposed.pop_front(),
            Office::Held(_) | Office::Vacant { .. } => None,
        };
        let Some(batch) = own else {
            let mut delta = Delta::default();
            records.iter().for_each(|record| self.committed.replay(record, &mut delta));
            self.committed.set_end(end);
            match &self.office {
                Office::Vacant { .. } => self.image = self.committed.clone(),
                Office::Held(term) => self.image.set_end(term.end_after(end)),
            }
            if !delta.is_empty() {
                out.push(Effect::Changed(delta));
            }
            return;
        };
        debug_assert_eq!(
            batch.len,
            records.len(),
            "batches are committed in the order they were proposed in"
        );
        batch.heard.iter().for_each(|broker| self.sessions.answered(*broker, now));
        self.take_in(batch, &records, end, out);
    }

    /// A batch of this controller's own is committed.
    fn take_in(&mut self, batch: Batch, records: &[MetadataRecord], end: Offset, out: &mut Effects<Effect>) {
        let Office::Held(term) = &mut self.office else { return };
        term.records_waiting -= batch.len;
        term.answers_waiting -= batch.answers.len();
        if term.records_waiting == 0 {
            // Nothing was decided since: the image is what is committed.
            self.image.set_end(end);
            self.committed = self.image.clone();
        } else {
            let mut delta = Delta::default();
            records.iter().for_each(|record| self.committed.replay(record, &mut delta));
            self.committed.set_end(end);
            self.image.set_end(term.end_after(end));
        }
        if !batch.delta.is_empty() {
            out.push(Effect::Changed(batch.delta));
        }
        for (id, result) in batch.answers {
            out.push(Effect::Answer { id, result, end });
        }
    }

    /// Takes decided records into the image that the next decision is made on, and queues them.
    fn enqueue(&mut self, records: Vec<MetadataRecord>, may_be_split: bool) {
        let Office::Held(term) = &mut self.office else { return };
        let mut rest = records;
        while !rest.is_empty() {
            let together = if may_be_split { part_of_a_batch(&rest) } else { rest.len() };
            let later = rest.split_off(together);
            let chunk = std::mem::replace(&mut rest, later);
            let bytes = bytes_of(&chunk);
            term.records_waiting += chunk.len();
            let has_room = |batch: &&mut Batch| {
                batch.records.len() + chunk.len() <= RECORDS_PER_BATCH
                    && batch.bytes + bytes <= BATCH_BYTES_MAX
            };
            let batch = match term.forming.back_mut().filter(has_room) {
                Some(batch) => batch,
                None => term.forming.push_back_mut(Batch::default()),
            };
            chunk.iter().for_each(|record| self.image.replay(record, &mut batch.delta));
            batch.bytes += bytes;
            match batch.records.is_empty() {
                true => batch.records = chunk,
                false => batch.records.extend(chunk),
            }
        }
    }

    /// Answers once all is committed that was decided up to here; `heard` is whose heartbeat it is.
    fn answer_later(
        &mut self,
        now: Now,
        (id, result): (CommandId, Result<Reply, ControllerError>),
        heard: Option<BrokerId>,
        out: &mut Effects<Effect>,
    ) {
        let Office::Held(term) = &mut self.office else { return };
        match term.forming.back_mut().or(term.proposed.back_mut()) {
            Some(batch) => {
                batch.answers.push((id, result));
                batch.heard.extend(heard);
                term.answers_waiting += 1;
            }
            None => {
                heard.into_iter().for_each(|broker| self.sessions.answered(broker, now));
                out.push(Effect::Answer { id, result, end: self.committed.end() });
            }
        }
    }

    fn propose(&mut self, out: &mut Effects<Effect>) {
        let Office::Held(term) = &mut self.office else { return };
        while term.proposed.len() < PROPOSALS_MAX
            && let Some(mut batch) = term.forming.pop_front()
        {
            let records = std::mem::take(&mut batch.records);
            batch.len = records.len();
            out.push(Effect::Propose(Proposal { epoch: term.epoch, records }));
            term.proposed.push_back(batch);
        }
    }
}

/// Whether it may allow an unclean election that was not.
fn is_about_elections(record: &MetadataRecord) -> bool {
    let MetadataRecord::Config(change) = record else { return false };
    change.name == UNCLEAN_ELECTION && change.value.as_deref() != Some("false")
}

/// How many of the records go in one batch: one at least.
fn part_of_a_batch(records: &[MetadataRecord]) -> usize {
    let mut scratch = Vec::new();
    let ends = records.iter().take(RECORDS_PER_BATCH).scan(0_usize, |end, record| {
        *end = end.saturating_add(bytes_of_one(record, &mut scratch));
        Some(*end)
    });
    ends.take_while(|end| *end <= BATCH_BYTES_MAX).count().max(1)
}

/// Whether a batch cannot hold them, or one of them if they may go in several. Nothing that was decided may turn out to
/// fit nowhere: the quorum ends with it.
fn is_too_much(records: &[MetadataRecord], may_be_split: bool) -> bool {
    let mut scratch = Vec::new();
    match may_be_split {
        true => records.iter().any(|record| bytes_of_one(record, &mut scratch) > BATCH_BYTES_MAX),
        false => bytes_of(records) > BATCH_BYTES_MAX,
    }
}

/// What records take in a batch.
fn bytes_of(records: &[MetadataRecord]) -> usize {
    let mut scratch = Vec::new();
    records.iter().fold(0, |all, record| all.saturating_add(bytes_of_one(record, &mut scratch)))
}

fn bytes_of_one(record: &MetadataRecord, scratch: &mut Vec<u8>) -> usize {
    /// Its length, its number and its time, at most.
    const AROUND: usize = 24;
    scratch.clear();
    match record.encode(scratch) {
        Ok(()) => scratch.len() + AROUND,
        // What cannot be written fits nowhere.
        Err(_) => usize::MAX,
    }
}
