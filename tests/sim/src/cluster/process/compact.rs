//! Compaction in a process: one log after the other, and something else may happen between any two steps of it.

use std::sync::Arc;

use base::{Effects, Now, Offset};
use broker::host::HostedPartition;
use replica::{Effect, Partition};
use storage::checkpoint::PartitionOffsets;
use storage::{Committed, Compaction, CompactionError, LookupError, Swap};

use super::Process;
use super::cell::Cell;
use crate::cluster::plant::Plant;

/// Bytes that the keys of one compaction may take: so few that it takes several.
const MAP_BYTES_MAX: usize = 4_096;

/// A compaction that was begun.
pub(super) struct Compacting {
    cell: Arc<Cell>,
    compaction: Compaction,
    swap: Option<Swap>,
}

impl Process {
    /// Begins a compaction of one of the logs that are to be compacted, or takes the next step of the one that
    /// was begun. `draw` says of which.
    pub(crate) fn compact(&mut self, now: Now, draw: usize) {
        match self.compacting.take() {
            None => self.begin_compaction(now, draw),
            Some(begun) => {
                let cell = Arc::clone(&begun.cell);
                match go_on(now, begun) {
                    Ok(Some(begun)) => self.compacting = Some(begun),
                    Ok(None) => self.note_clean_offset(now, &cell),
                    Err(CompactionError::Disk(why)) => self.on_disk_error(now, cell.home, &why),
                    Err(why) => {
                        self.say(format!("{} cannot be compacted: {why}", cell.name));
                        if let CompactionError::Damaged { segment, position, damage } = why {
                            self.on_damage(&cell, &LookupError::Damaged { segment, position, damage });
                        }
                    }
                }
            }
        }
        self.settle(now);
    }

    fn begin_compaction(&mut self, now: Now, draw: usize) {
        let compacts = |cell: &&Arc<Cell>| cell.settings().cleanup.compact;
        let cells: Vec<_> = self.cells.values().filter(compacts).cloned().collect();
        let Some(cell) = cells.get(draw % cells.len().max(1)).cloned() else { return };
        if self.plant == Some(Plant::CompactIsDelete) {
            return cell.with(|partition| {
                if let Ok(Some(dirt)) = partition.dirt(now) {
                    drop(partition.log_mut().delete_records(dirt.upto));
                }
            });
        }
        let forgets = self.plant == Some(Plant::TombstonesForgotten);
        let plan = |partition: &mut Partition, out: &mut Effects<Effect>| match forgets {
            true => {
                let committed = Committed { upto: partition.high_watermark(), by_all: true };
                partition
                    .log_mut()
                    .compaction_plan(now, committed, MAP_BYTES_MAX)
                    .map_err(CompactionError::from)
            }
            false => partition.compaction_plan(now, MAP_BYTES_MAX, out),
        };
        match cell.act(plan) {
            Ok(Some(compaction)) => {
                self.compacting = Some(Compacting { cell, compaction, swap: None });
            }
            Ok(None) => {}
            Err(why) => self.say(format!("{} cannot be compacted: {why}", cell.name)),
        }
    }

    /// Writes down how far a log was compacted.
    fn note_clean_offset(&mut self, now: Now, cell: &Arc<Cell>) {
        // What was taken away may have left its name to another log by now.
        if !self.cells.get(&cell.key).is_some_and(|it| Arc::ptr_eq(it, cell)) {
            return;
        }
        let upto: Offset = cell.with(|partition| partition.log().clean_upto());
        self.say(format!("compacted {} up to {upto}", cell.name));
        let clean = PartitionOffsets::from_iter([(cell.name.clone(), upto)]);
        if let Err(why) = self.homes[cell.home].dir.save_clean_offsets(clean) {
            self.on_disk_error(now, cell.home, &why);
        }
    }
}

/// Takes a step; `None` if it was the last, or the compaction is to be given up.
fn go_on(now: Now, mut begun: Compacting) -> Result<Option<Compacting>, CompactionError> {
    let cell = Arc::clone(&begun.cell);
    if let Some(swap) = begun.swap.take() {
        let swapped = swap.run();
        let counts = cell.act(|partition, out| partition.on_swapped(now, swapped, out))?;
        return Ok(counts.then_some(begun));
    }
    match begun.compaction.next(&mut |_| true) {
        Ok(Some(rewritten)) => {
            let swap = cell.act(|partition, out| partition.on_rewritten(rewritten, out))?;
            Ok(swap.map(|swap| Compacting { swap: Some(swap), ..begun }))
        }
        Ok(None) => {
            let compacted = begun.compaction.finish();
            cell.with(|partition| partition.on_compacted(&compacted));
            Ok(None)
        }
        Err(error) => Err(cell.act(|partition, out| partition.compaction_failed(error, out))),
    }
}
