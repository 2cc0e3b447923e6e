//! The shards of the group coordinator in a process: those whose partitions of `__consumer_offsets` it leads.
//!
//! ```text
//!   metadata ── leads ──▶ a shard that loads ── the log, a piece at a time ──▶ answers
//!           └── leads no more ──▶ taken out, and who waits is told
//!   requests ── ask ──▶ shard ── append ──▶ partition ── committed ──▶ bell ──▶ answers
//! ```
//!
//! As in `edge/server`, but in one thread: a bell that rings in the middle of a step is looked at once that step is
//! through.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{LeaderEpoch, Now, Offset, PartitionIndex};
use broker::groups::{OFFSETS_TOPIC, await_committed};
use coordinator::{Count, Shard};

use super::cell::lock;
use super::shard_cell::ShardCell;
use super::{Act, Process};
use crate::cluster::keyed::{KeyedRecord, read_keyed};
use crate::cluster::plant::{Plant, is_loaded};

/// How much of a log is read at a time: little, so that much happens in between.
const READ_BYTES: u32 = 2_000;

/// How long commits are gathered: long for one turn of a thread, so that several come together.
const TURN: Duration = Duration::from_millis(2);

/// How far the log of a shard is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    from: Offset,
    end: Offset,
}

impl Process {
    /// The shards that live here.
    pub(crate) fn shards(&self) -> Vec<Arc<ShardCell>> {
        self.doors.shard_cells()
    }

    /// Takes up the shards that this node leads from here on, and lets go of those that it leads no more.
    pub(super) fn take_roles(&mut self, now: Now) {
        if !self.is_acting {
            return;
        }
        let Some(topic) = self.image.topic(OFFSETS_TOPIC).cloned() else { return };
        let mut kept = BTreeMap::new();
        let before = self.shards();
        for partition in topic.partitions().iter().filter(|it| it.leader == self.id) {
            let Some(cell) = self.doors.cell((topic.id, partition.index)) else { continue };
            let epoch = partition.leader_epoch;
            let is_known = |shard: &&Arc<ShardCell>| {
                let is_same = shard.epoch == epoch || self.plant == Some(Plant::ShardKept);
                is_same && Arc::ptr_eq(&shard.cell, &cell)
            };
            let shard = before.iter().find(is_known).cloned().unwrap_or_else(|| {
                self.acts.push_back(Act::Load(partition.index, epoch));
                ShardCell::new(cell, epoch, self.shard_settings.clone(), &self.doors.clock, &self.outbox)
            });
            kept.insert(partition.index, shard);
        }
        if self.plant == Some(Plant::ShardKept) {
            for shard in &before {
                kept.entry(shard.index()).or_insert_with(|| Arc::clone(shard));
            }
        }
        let is_gone = |shard: &&Arc<ShardCell>| !kept.values().any(|it| Arc::ptr_eq(it, shard));
        let gone: Vec<_> = before.iter().filter(is_gone).cloned().collect();
        *lock(&self.doors.shards) = kept;
        for shard in gone {
            self.loads.remove(&shard.index());
            shard.step(now, |shard, out| shard.on_unload(out));
        }
    }

    /// Reads more of the log of a shard into it.
    pub(crate) fn load_on(&mut self, now: Now, index: PartitionIndex, epoch: LeaderEpoch) {
        let shard = self
            .doors
            .shard_cell(index)
            .filter(|shard| shard.epoch == epoch && !shard.with(Shard::is_active));
        if let Some(shard) = shard {
            self.load_some(now, &shard);
        }
        self.settle(now);
    }

    /// Another shard takes the place of one whose log could not be read, and reads it again.
    fn load_anew(&mut self, now: Now, unread: &ShardCell) {
        self.loads.remove(&unread.index());
        unread.step(now, |shard, out| shard.on_unload(out));
        if self.plant == Some(Plant::UnreadIsLeft) {
            return;
        }
        let (cell, settings) = (Arc::clone(&unread.cell), self.shard_settings.clone());
        let shard = ShardCell::new(cell, unread.epoch, settings, &self.doors.clock, &self.outbox);
        lock(&self.doors.shards).insert(unread.index(), shard);
        self.acts.push_back(Act::Load(unread.index(), unread.epoch));
    }

    fn load_some(&mut self, now: Now, shard: &Arc<ShardCell>) {
        let index = shard.index();
        let bounds = shard.cell.with(|it| Load { from: it.log().start(), end: it.log().end() });
        let load = self.loads.get(&index).copied().unwrap_or(bounds);
        if !shard.is_led() {
            // It is about to be taken away.
            return;
        }
        let read = shard.cell.with(|it| read_keyed(it.log(), load.from, load.end, READ_BYTES));
        let (records, mut next) = match read {
            Ok(read) => read,
            Err(why) => {
                self.say(format!("{} cannot be loaded: {why}", shard.cell.name));
                self.suspects.insert(shard.cell.key, load.from);
                return self.load_anew(now, shard);
            }
        };
        let has_gap = |records: &[KeyedRecord]| {
            let first = records.first().map(|record| record.offset);
            first.is_some_and(|first| first > load.from)
                || records.windows(2).any(|pair| pair[1].offset > pair[0].offset.next())
        };
        if self.plant == Some(Plant::LoadEndsAtGap) && has_gap(&records) {
            next = load.end;
        }
        let committed = shard.cell.with(|it| it.high_watermark());
        let is_read = |record: &&KeyedRecord| {
            let is_committed = self.plant != Some(Plant::OnlyCommittedLoaded) || record.offset < committed;
            is_committed && is_loaded(self.plant, record)
        };
        shard.step(now, |shard, _| {
            for record in records.iter().filter(is_read) {
                let read =
                    shard.on_record((record.offset, record.time), Some(&record.key), record.value.as_deref());
                read.expect("what a coordinator wrote can be read");
            }
        });
        if next < load.end {
            self.loads.insert(index, Load { from: next, end: load.end });
            return self.acts.push_back(Act::Load(index, shard.epoch));
        }
        self.loads.remove(&index);
        let committed = match self.plant {
            Some(Plant::ReplyUncommitted) => Offset(i64::MAX),
            _ => await_committed(&*shard.cell, load.end, &shard.waiter()),
        };
        shard.step(now, |shard, out| shard.on_loaded(now, (load.end, committed), &self.image, out));
        let (groups, offsets) = shard.with(|shard| (shard.group_count(), shard.offset_count()));
        self.say(format!("coordinates {} with {groups} groups, {offsets} offsets", shard.cell.name));
    }

    /// The bell of a shard rang.
    pub(super) fn on_rung(&mut self, now: Now, index: PartitionIndex) {
        let Some(shard) = self.doors.shard_cell(index) else { return };
        let committed = shard.cell.with(|it| (it.epoch() == shard.epoch).then(|| it.high_watermark()));
        if let Some(committed) = committed {
            shard.step(now, |shard, out| shard.on_committed(committed, out));
        }
    }

    /// Tells what shards counted, but for what is counted all the time.
    pub(super) fn say_counted(&mut self) {
        for (index, count) in self.outbox.take_counted() {
            if !matches!(count, Count::OffsetsCommitted(_) | Count::Reconciled { .. }) {
                self.say(format!("groups of {index}: {count:?}"));
            }
        }
    }

    /// Steps the shards for which it is time.
    pub(super) fn keep_shards(&mut self, now: Now) {
        for shard in self.shards() {
            if shard.with(turn_end).is_some_and(|end| end <= now.elapsed) {
                // Whatever the step is, commits that were gathered are written before.
                shard.step(now, |_, _| {});
            }
            if shard.with(Shard::deadline).is_some_and(|due| due <= now.elapsed) {
                shard.step(now, |shard, out| shard.on_tick(now, &self.image, out));
            }
        }
    }

    pub(super) fn shards_deadline(&self) -> Option<Duration> {
        let due = |shard: &Arc<ShardCell>| [shard.with(Shard::deadline), shard.with(turn_end)];
        self.shards().iter().flat_map(due).flatten().min()
    }
}

/// When commits are written that a shard has gathered.
fn turn_end(shard: &Shard) -> Option<Duration> {
    shard.gathered_since().map(|since| since + TURN)
}
