//! Flushes, checkpoints, who lags, and an orderly end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base::{Now, Offset};
use broker::directories::can_be_replaced;
use broker::host::Effect;
use storage::disk::DiskError;
use storage::{Check, FlushScope, LookupError};

use super::cell::Cell;
use super::{Act, PartitionKey, Process};
use crate::cluster::plant::Plant;

/// When what is due.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    checkpoint_at: Duration,
    /// When a checkpoint that was begun is written.
    write_at: Option<Duration>,
    isr_at: Duration,
    flush_at: Duration,
    /// Whose start is to be written down, and when.
    starts: BTreeSet<PartitionKey>,
    starts_at: Duration,
}

/// How often it is looked whether a flush is due by time.
const FLUSHES_EVERY: Duration = Duration::from_millis(50);

impl Process {
    /// Does what a step of a partition asked for.
    pub(super) fn perform(&mut self, now: Now, key: PartitionKey, effect: Effect) {
        match effect {
            Effect::Flush => self.ask_flush(key, false),
            Effect::Appended { .. } => {}
            Effect::Wake(waiter) => waiter.bell.wake(),
            Effect::AlterIsr(proposal) => self.proposals.add(key, proposal),
            Effect::FetchOn => self.follow_on(now, key),
            Effect::SaveStart => self.ask_for_start(now, key),
            Effect::LowerRecoveryPoint(upto) => self.cut(now, key, upto),
            Effect::Truncated { from, to, committed } => {
                self.acts.push_back(Act::Truncated { key, from, to, committed });
            }
            Effect::Retire(error) | Effect::Offline(error) => self.on_cell_error(now, key, &error),
            Effect::Refused(error) => self.say(format!("the disk refused: {error}")),
            Effect::Suspect(at) => drop(self.suspects.insert(key, at)),
            Effect::Damaged(why) => {
                if let Some(cell) = self.cells.get(&key).cloned() {
                    self.say(format!("gives {} up, which is damaged: {why}", cell.name));
                    cell.on_damaged();
                }
            }
        }
    }

    /// Looks at what somebody could not use.
    fn check_suspects(&mut self) {
        for (key, at) in std::mem::take(&mut self.suspects) {
            let Some(cell) = self.cells.get(&key).cloned() else { continue };
            let look = || cell.with(|partition| partition.check_plan(at)).and_then(Check::run);
            // What cannot be read once may be read the next time.
            let looked =
                look().or_else(|why| if matches!(why, LookupError::Disk(_)) { look() } else { Err(why) });
            if let Err(why) = looked {
                self.on_damage(&cell, &why);
            }
        }
    }

    /// Stored records of a partition are damaged, or cannot be read.
    pub(super) fn on_damage(&mut self, cell: &Cell, why: &LookupError) {
        if self.plant == Some(Plant::DamageKept) {
            return;
        }
        let (id, image) = (self.id, Arc::clone(&self.image));
        let partition = image.partition(cell.key.0, cell.key.1);
        let can_be_replaced = partition.is_some_and(|partition| can_be_replaced(id, &image, partition));
        if !cell.act(|partition, out| partition.on_damage(why, can_be_replaced, out)) {
            self.say(format!("keeps {}, which is damaged: {why}", cell.name));
        }
    }

    fn on_cell_error(&mut self, now: Now, key: PartitionKey, error: &DiskError) {
        if let Some(cell) = self.cells.get(&key).cloned() {
            cell.retire();
            self.on_disk_error(now, cell.home, error);
        }
    }

    fn cut(&mut self, now: Now, key: PartitionKey, upto: Offset) {
        let Some(cell) = self.cells.get(&key).cloned() else { return };
        let notes = cell.with(|partition| partition.notes_of_cut());
        let Some(notes) = notes.filter(|notes| notes.recovery_point == upto) else { return };
        match self.homes[cell.home].dir.note_cut(&cell.name, notes) {
            Ok(()) => {
                let cut = cell.act(|partition, out| partition.cut(now, upto, out));
                if let Err(why) = cut {
                    self.say(format!("{} cannot be cut: {why}", cell.name));
                }
            }
            Err(why) => {
                self.on_disk_error(now, cell.home, &why);
                cell.act(|partition, out| partition.put_off_cut(out));
            }
        }
    }

    /// Has it written down soon where a log starts: with those of others that come meanwhile.
    pub(super) fn ask_for_start(&mut self, now: Now, key: PartitionKey) {
        if self.upkeep.starts.is_empty() {
            self.upkeep.starts_at = now.elapsed + FLUSHES_EVERY;
        }
        self.upkeep.starts.insert(key);
    }

    fn ask_flush(&mut self, key: PartitionKey, for_checkpoint: bool) {
        let flushing = self.flushes.entry(key).or_default();
        flushing.for_checkpoint |= for_checkpoint;
        if !flushing.is_asked {
            flushing.is_asked = true;
            if flushing.running.is_none() {
                self.acts.push_back(Act::Flush(key));
            }
        }
    }

    /// A flush begins. Whether there is anything to bring to the disk.
    pub(crate) fn begin_flush(&mut self, now: Now, key: PartitionKey) -> bool {
        let (Some(flushing), Some(cell)) = (self.flushes.get_mut(&key), self.cells.get(&key)) else {
            return false;
        };
        flushing.is_asked = false;
        let scope = match std::mem::take(&mut flushing.for_checkpoint) {
            true => FlushScope::Checkpoint,
            false => FlushScope::Records,
        };
        flushing.running = cell.act(|partition, out| partition.flush_plan(scope, out));
        let has_begun = flushing.running.is_some();
        self.settle(now);
        has_begun
    }

    /// A flush is through.
    pub(crate) fn end_flush(&mut self, now: Now, key: PartitionKey) {
        let (Some(flushing), Some(cell)) = (self.flushes.get_mut(&key), self.cells.get(&key)) else { return };
        if let Some(flush) = flushing.running.take() {
            let result = flush.run();
            if flushing.is_asked {
                self.acts.push_back(Act::Flush(key));
            }
            cell.act(|partition, out| partition.on_flushed(result, out));
        }
        self.settle(now);
    }

    /// What is done now and then.
    pub(super) fn keep_house(&mut self, now: Now) {
        if !self.is_acting {
            return;
        }
        if now.elapsed >= self.upkeep.flush_at {
            self.upkeep.flush_at = now.elapsed + FLUSHES_EVERY;
            let is_due = |cell: &&Arc<Cell>| cell.with(|it| it.flush_is_due(now));
            let due: Vec<_> = self.cells.values().filter(is_due).map(|cell| cell.key).collect();
            due.into_iter().for_each(|key| self.ask_flush(key, false));
        }
        if now.elapsed >= self.upkeep.starts_at {
            let asked = std::mem::take(&mut self.upkeep.starts);
            asked.into_iter().for_each(|key| self.save_start(now, key));
        }
        if now.elapsed >= self.upkeep.isr_at {
            self.upkeep.isr_at = now.elapsed + self.times.lag_max / 2;
            let lag_max = self.times.lag_max;
            for cell in self.cells.values() {
                cell.act(|partition, out| partition.check_isr(now, lag_max, out));
            }
            self.check_suspects();
            self.give_up_lost(now);
        }
        if now.elapsed >= self.upkeep.checkpoint_at {
            self.upkeep.checkpoint_at = now.elapsed + self.times.checkpoint_every;
            self.upkeep.write_at = Some(now.elapsed + self.times.checkpoint_every / 4);
            let is_behind = |cell: &&Arc<Cell>| cell.with(|it| it.log().recovery_point() < it.log().end());
            let behind: Vec<_> = self.cells.values().filter(is_behind).map(|cell| cell.key).collect();
            behind.into_iter().for_each(|key| self.ask_flush(key, true));
        }
        if self.upkeep.write_at.is_some_and(|at| now.elapsed >= at) {
            self.upkeep.write_at = None;
            self.write_checkpoints(now);
        }
    }

    pub(super) fn upkeep_deadline(&self) -> Option<Duration> {
        let &Upkeep { checkpoint_at, write_at, isr_at, flush_at, ref starts, starts_at } = &self.upkeep;
        let is_timed = |cell: &Arc<Cell>| {
            cell.with(|it| matches!(it.settings().policy, replica::FlushPolicy::Interval { .. }))
        };
        let flush_at = self.cells.values().any(is_timed).then_some(flush_at);
        let starts_at = (!starts.is_empty()).then_some(starts_at);
        let own = [Some(checkpoint_at), write_at, Some(isr_at), flush_at, starts_at];
        let own = if self.is_acting { own } else { [None; 5] };
        own.into_iter().chain([self.placing_deadline(), self.proposals_deadline()]).flatten().min()
    }

    /// Everything is brought to the disk, and it is said that it is.
    pub(super) fn end_in_order(&mut self, now: Now) {
        // What was never opened is as the last stop left it, but for the mark.
        let mut is_clean = self.is_acting;
        let homes = if self.is_acting { self.homes.len() } else { 0 };
        for at in 0..homes {
            if self.homes[at].has_failed || self.has_offline_in(at) {
                is_clean = false;
            } else if let Err(why) = self.close_home(at) {
                self.on_disk_error(now, at, &why);
                is_clean = false;
            }
        }
        if !self.has_ended {
            self.acts.push_back(Act::Exit { is_clean });
            self.has_ended = true;
        }
    }
}
