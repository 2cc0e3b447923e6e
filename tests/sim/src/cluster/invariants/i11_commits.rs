//! I11: a commit that was acknowledged is committed, and stays whatever fails after; a committed offset changes only
//! by a later commit, and is not put back by another process than the one that committed it; and who asks is told what
//! is committed, and at least as much as was so when it asked.
//!
//! That holds of whoever answers: a coordinator that others may have replaced says nothing.

use base::Offset;

use super::violation;
use crate::cluster::groups::{Groups, Mark, Place};
use crate::violation::Violation;

const NAME: &str = "I11 commits";

/// A commit took effect behind another: nobody is put back by somebody else, since whoever takes over begins where the
/// one before came to.
pub(crate) fn check_next(place: &Place, before: Option<&Mark>, mark: &Mark, found: &mut Vec<Violation>) {
    let process = |mark: &Mark| mark.name.rsplit_once('.').map(|(process, _)| process.to_owned());
    if let Some(before) = before
        && mark.offset < before.offset
        && process(mark) != process(before)
    {
        violation(found, NAME, format!("{place:?} is put back from {before:?} to {mark:?}"));
    }
}

/// A member was told that its commit is committed.
pub(crate) fn check_acked(place: &Place, mark: &Mark, groups: &Groups, found: &mut Vec<Violation>) {
    if !groups.commits(place).iter().any(|commit| commit.upto.as_ref() == Some(mark)) {
        let last = groups.commits(place).last();
        violation(
            found,
            NAME,
            format!("{place:?}: {mark:?} was acknowledged, and is not committed; {last:?} is"),
        );
    }
}

/// Somebody was told how far a group came; `told` is `None` if nothing was committed. When it asked, the log was
/// committed up to `since`.
pub(crate) fn check_told(
    place: &Place,
    node: usize,
    (told, since): (Option<&Mark>, Offset),
    groups: &Groups,
    found: &mut Vec<Violation>,
) {
    let commits = groups.commits(place);
    let old = commits.partition_point(|commit| commit.at < since);
    // The last of the old ones, and all that came after.
    let possible = &commits[old.saturating_sub(1)..];
    let is_possible = match told {
        None => old == 0 || possible.iter().any(|commit| commit.upto.is_none()),
        Some(mark) => possible.iter().any(|commit| commit.upto.as_ref() == Some(mark)),
    };
    if !is_possible {
        let what = format!("{place:?}: node {node} says {told:?}, asked at {since} of the log: {possible:?}");
        violation(found, NAME, what);
    }
}
