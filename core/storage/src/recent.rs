//! Where the newest batches of the growing segment lie, so that readers at the tail of a log are
//! served without a look at the disk.

use std::collections::VecDeque;

use base::Offset;

/// Enough for consumers that are some dozens of batches behind, at 1.5 KiB per log that is in use.
const BATCHES_MAX: usize = 128;

/// A place in a segment where a batch begins, or where its bytes end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    /// The first offset there.
    pub(crate) offset: Offset,
    pub(crate) position: u32,
}

#[derive(Debug, Clone, Copy)]
struct Batch {
    base: u32,
    last: u32,
    position: u32,
}

/// The newest batches of one segment, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    batches: VecDeque<Batch>,
}

impl Recent {
    /// Notes a batch behind the others.
    pub(crate) fn push(&mut self, segment: Offset, base: Offset, last: Offset, position: u32) {
        let delta = |offset: Offset| offset.checked_since(segment).map(|delta| delta.0);
        let (Some(base), Some(last)) = (delta(base), delta(last)) else { return };
        if self.batches.len() == BATCHES_MAX {
            self.batches.pop_front();
        }
        self.batches.push_back(Batch { base, last, position });
    }

    /// The first batch that reaches `target` or beyond; `None` if that may lie before what is known
    /// here, or behind it.
    pub(crate) fn reaching(&self, segment: Offset, target: Offset) -> Option<Spot> {
        let target = target.checked_since(segment)?.0;
        let oldest = self.batches.front()?;
        if target < oldest.base {
            return None;
        }
        let i = self.batches.partition_point(|batch| batch.last < target);
        self.batches.get(i).map(|&batch| spot(segment, batch))
    }

    /// The last batch that begins at or before `position`; `None` if that may lie before what is known
    /// here.
    pub(crate) fn beginning_by(&self, segment: Offset, position: u32) -> Option<Spot> {
        let i = self.batches.partition_point(|batch| batch.position <= position);
        i.checked_sub(1).map(|i| spot(segment, self.batches[i]))
    }

    /// Forgets everything and gives the memory back.
    pub(crate) fn clear(&mut self) {
        self.batches = VecDeque::new();
    }
}

fn spot(segment: Offset, batch: Batch) -> Spot {
    Spot { offset: Offset(segment.0.saturating_add(i64::from(batch.base))), position: batch.position }
}
