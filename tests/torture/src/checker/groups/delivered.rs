//! Which offsets of a partition the members of a group were given.

/// Ranges, as they came.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    ranges: Vec<(i64, i64)>,
}

impl Delivered {
    /// From the first to before the second.
    pub(super) fn add(&mut self, from: i64, to: i64) {
        match self.ranges.last_mut() {
            Some((_, end)) if *end == from => *end = to,
            _ => self.ranges.push((from, to)),
        }
    }

    /// What is missing before an end.
    pub(super) fn missing(&mut self, end: i64) -> Vec<(i64, i64)> {
        self.ranges.sort_unstable();
        let (mut due, mut missing) = (0, Vec::new());
        for &(from, to) in &self.ranges {
            if from > due && due < end {
                missing.push((due, from.min(end)));
            }
            due = due.max(to);
        }
        if due < end {
            missing.push((due, end));
        }
        missing
    }
}
