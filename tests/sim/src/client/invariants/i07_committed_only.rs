//! I7: a reader of committed records is lent none of a transaction that is open or was taken back.

use crate::violation::Violation;

const NAME: &str = "I7 only what is committed is read";

/// Looks at a record that is lent.
pub(in crate::client) fn check(
    is_committed_only: bool,
    is_committed: bool,
    what: impl FnOnce() -> String,
) -> Result<(), Violation> {
    match is_committed_only && !is_committed {
        true => Err(Violation { invariant: NAME, what: what() }),
        false => Ok(()),
    }
}
