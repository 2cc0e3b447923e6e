//! Looks at stored records that somebody could not use: whether they are damaged, or cannot be read.
//!
//! A replica whose records are damaged is given up if another has them and can lead at once; the controller hears
//! of it, and the hosting thread has it begin anew. If nobody else has them it goes on: all else is still good.

use std::sync::mpsc;
use std::time::Duration;

use broker::directories::can_be_replaced;
use broker::replication::PartitionKey;
use storage::{Check, LookupError};
use tracing::error;

use crate::housekeeping::{Housekeeping, goes_on};
use crate::partition::PartitionCell;

/// How often it is looked for suspects. What is suspected without need costs the reading of a mebibyte, of one
/// partition at most so often.
const LOOKS_EVERY: Duration = Duration::from_secs(1);

/// Partitions that are looked at in one go: readers who ask for the same again and again, as many do together, are not
/// to keep a disk busy.
const PARTITIONS_MAX: usize = 64;

impl Housekeeping {
    /// Looks at what is suspected. It can wait for a disk that tries for long to read.
    pub(crate) fn run_checks(self, stop: &mpsc::Receiver<()>) {
        while goes_on(stop, LOOKS_EVERY) {
            self.check_suspects();
        }
    }

    pub(crate) fn check_suspects(&self) {
        if self.dir.is_retired() {
            return;
        }
        for _ in 0..PARTITIONS_MAX {
            let Some((key, at)) = self.dir.next_suspect() else { return };
            let cell = self.table.get(key.0, key.1).filter(|cell| !cell.is_offline());
            let Some(cell) = cell else { continue };
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
    pub(crate) fn on_damage(&self, cell: &PartitionCell, why: &LookupError) {
        let image = self.image.load();
        let (topic, index): PartitionKey = (cell.topic, cell.name.partition);
        let me = cell.with(|partition| partition.broker());
        let can_be_replaced =
            image.partition(topic, index).is_some_and(|partition| can_be_replaced(me, &image, partition));
        let is_given_up = cell.act(|partition, out| partition.on_damage(why, can_be_replaced, out));
        if is_given_up {
            return;
        }
        self.dir.metrics.log.damages.inc();
        if let Some(unsaid) = self.dir.complaints.next(self.dir.since.elapsed()) {
            error!(
                partition = %cell.name, dir = %self.dir.path.display(), %why, unsaid,
                "stored records are damaged or cannot be read, and no replica that has them can lead now: readers come no \
                 further; look at the disk, bring the other replicas back, or put the partition's directory back from a \
                 backup"
            );
        }
    }
}
