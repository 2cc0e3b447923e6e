//! What must be true of every run. One property, one file.

pub mod i03_dense_monotone;
pub mod i13_timestamp_lookup;
pub mod i24_recover_prefix;
pub mod i25_quarantine_not_truncate;
pub mod i26_retention;

use crate::violation::Violation;
use crate::world::World;

/// Looks at everything that must be true now.
pub fn check(world: &mut World) -> Vec<Violation> {
    let mut found = std::mem::take(&mut world.complaints);
    judge_restart(world, &mut found);
    if world.over {
        return found;
    }
    i26_retention::check(world, &mut found);
    i03_dense_monotone::check(world, &mut found);
    i13_timestamp_lookup::check(world, &mut found);
    world.note_edges();
    found
}

/// Looks at what must be true of the last restart, also if the log did not come back.
pub fn judge_restart(world: &World, found: &mut Vec<Violation>) {
    i24_recover_prefix::check(world, found);
    i25_quarantine_not_truncate::check(world, found);
}
