//! What brokers promise idempotent producers, whoever they are: in a partition, the batches of one epoch of a
//! producer id have sequences without a gap or a repetition, and no batch of an older epoch comes behind one
//! of a newer.

use std::collections::BTreeMap;

use super::anomaly::{Anomaly, Found};
use crate::history::Event;

/// By partition and producer id: the newest epoch, and the sequence that is due.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    due: BTreeMap<(i32, i64), (i16, i32)>,
}

impl Sequences {
    /// The next batch of a partition, in the order of offsets.
    pub(super) fn look_at(&mut self, event: &Event, found: &mut Found) {
        let &Event::Batch { partition, offset, producer, epoch, sequence, count } = event else { return };
        if producer < 0 {
            return;
        }
        let (newest, due) = self.due.entry((partition, producer)).or_insert((epoch, 0));
        if epoch > *newest {
            (*newest, *due) = (epoch, 0);
        }
        if epoch < *newest || sequence != *due {
            let (producer, due) = ((producer, epoch), (*newest, *due));
            found.add(Anomaly::OutOfSequence { partition, offset, producer, sequence, due });
        }
        if epoch == *newest {
            *due = ((i64::from(sequence) + i64::from(count)) & i64::from(i32::MAX)) as i32;
        }
    }
}
