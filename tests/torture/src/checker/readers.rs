//! What a reader may see next: it goes where it is sent, and on from there without a gap.

use std::collections::HashMap;

use super::anomaly::{Anomaly, Found};

/// By reader and partition: the offset that is due.
#[derive(Debug, Default)]
pub(super) struct Readers {
    due: HashMap<(u32, i32), i64>,
}

impl Readers {
    pub(super) fn assign(&mut self, who: u32, partition: i32, offset: i64) {
        self.due.insert((who, partition), offset);
    }

    pub(super) fn poll(&mut self, who: u32, partition: i32, offset: i64, count: u32, found: &mut Found) {
        let due = self.due.entry((who, partition)).or_insert(offset);
        let offsets = (*due, offset);
        if offset > *due {
            found.add(Anomaly::Skipped { who, partition, offsets });
        } else if offset < *due {
            found.add(Anomaly::WentBack { who, partition, offsets });
        }
        *due = offset + i64::from(count);
    }

    /// How far a reader has come.
    pub(super) fn position(&self, who: u32, partition: i32) -> Option<i64> {
        self.due.get(&(who, partition)).copied()
    }
}
