//! I2: an offset has one value, for all who ever read it; and nobody reads what is not committed.

use base::Offset;

use super::violation;
use crate::cluster::truth::History;
use crate::violation::Violation;

/// A reader was given a record.
pub(crate) fn check_read(
    history: &History,
    from: usize,
    (offset, value): (Offset, u64),
    found: &mut Vec<Violation>,
) {
    let there = history.value_at(offset);
    if history.is_broken || there == Some(value) {
        return;
    }
    let what = format!(
        "{} {offset} was read from node {from} as {value}, and is {there:?}; committed up to {}",
        history.name, history.end
    );
    violation(found, "I2 one value", what);
}
