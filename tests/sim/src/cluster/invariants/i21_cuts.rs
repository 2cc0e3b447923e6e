//! I21: no replica cuts off what is committed, unless an unclean election was asked for.

use base::Offset;

use super::{Look, violation};
use crate::violation::Violation;

/// `verified` is up to where it was known to have what is committed.
pub(crate) fn check(look: &Look<'_>, verified: Offset, found: &mut Vec<Violation>) {
    for cut in look.cuts {
        if cut.to < verified.min(cut.from) || cut.to < cut.committed {
            let what = format!(
                "node {} {}: {cut:?}, and has what is committed up to {verified}",
                look.node, look.cell.name
            );
            violation(found, "I21 cuts", what);
        }
    }
}
