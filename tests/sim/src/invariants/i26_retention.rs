//! I26: nothing leaves the log at its front but what may: below the high watermark, and either too old,
//! or too much, or deleted on request. What must go does go. What was deleted stays deleted.

use base::Offset;

use crate::found::Found;
use crate::violation::Violation;
use crate::world::{Retention, World};

const NAME: &str = "I26 retention";

/// Judges the last retention, and the start that the last restart found.
pub fn check(world: &World, found: &mut Vec<Violation>) {
    let mut complain = |what: String| found.push(Violation { invariant: NAME, what });
    if let Some(log) = &world.log
        && log.start() > world.high_watermark.max(world.promised.log_start)
    {
        complain(format!("start {} beyond high watermark {}", log.start(), world.high_watermark));
    }
    if let Some(retention) = &world.retention {
        check_deleted(world, retention, &mut complain);
    }
    if let Some(restart) = &world.restart
        && let Found::Opened { state, .. } = &restart.found
    {
        let (low, high) = restart.start;
        if state.edges.start < low || state.edges.start > high {
            let start = state.edges.start;
            complain(format!("start {start} after a restart, should be {low} to {high}"));
        }
    }
}

fn check_deleted(world: &World, retention: &Retention, complain: &mut dyn FnMut(String)) {
    let Retention { before, start, high_watermark, .. } = retention;
    if *start > *high_watermark {
        complain(format!("deleted up to {start}, beyond high watermark {high_watermark}"));
    }
    let young = last_young(world, retention);
    let allowed = world.options.settings.retention_bytes.filter(|_| world.options.settings.deletes);
    if let Some(young) = young {
        let deleted = world.model.bytes(before.start, young).len() as u64;
        let left = retention.bytes_before.saturating_sub(deleted);
        if allowed.is_none_or(|allowed| left < allowed) {
            complain(format!(
                "deleted records up to {young} that are neither old nor too much: {retention:?}"
            ));
        }
    }
    check_kept(world, retention, complain);
}

/// What is left may not have to go: the first segment holds something that may be read, is not too
/// much, and is not too old; or not all of it is below the high watermark.
fn check_kept(world: &World, retention: &Retention, complain: &mut dyn FnMut(String)) {
    let segments = world.segments();
    let Some(&(base, bytes)) = segments.first() else { return };
    let end = segments.get(1).map_or(world.model.end, |&(next, _)| next);
    let is_last = segments.len() == 1;
    if end > retention.high_watermark || (is_last && bytes == 0) {
        return;
    }
    if !is_last && end <= retention.start {
        complain(format!("kept the segment {base}..{end}, which nobody may read: {retention:?}"));
    }
    let settings = &world.options.settings;
    if !settings.deletes {
        return;
    }
    let size: u64 = segments.iter().map(|(_, bytes)| bytes).sum();
    if settings.retention_bytes.is_some_and(|allowed| size.saturating_sub(allowed) >= bytes.max(1)) {
        complain(format!("kept the segment {base}..{end} of {bytes} bytes in {size}: {retention:?}"));
    }
    let batches = world.model.from(base).iter().take_while(|batch| batch.next() <= end);
    let newest = batches.map(|batch| batch.header.max_timestamp).max().filter(|newest| newest.is_some());
    let is_old = |max| newest.is_some_and(|newest| retention.now.wall.saturating_since(newest) > max);
    if settings.retention_age.is_some_and(is_old) {
        complain(format!("kept the segment {base}..{end}, all of which is too old: {retention:?}"));
    }
}

/// Where the last of the deleted batches ends that is not too old.
fn last_young(world: &World, retention: &Retention) -> Option<Offset> {
    let age_max = world.options.settings.retention_age;
    let deleted = world.model.from(retention.before.start).iter();
    let deleted = deleted.take_while(|batch| batch.next() <= retention.start);
    let young = deleted.filter(|batch| {
        let age = retention.now.wall.saturating_since(batch.header.max_timestamp);
        age_max.is_none_or(|max| age <= max)
    });
    young.last().map(|batch| batch.next())
}
