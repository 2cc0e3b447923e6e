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
    world.disk.hold_faults(true);
    judge(world, &mut found);
    world.disk.hold_faults(false);
    found
}

fn judge(world: &mut World, found: &mut Vec<Violation>) {
    judge_restart(world, found);
    if world.over {
        return;
    }
    if world.doubted {
        i03_dense_monotone::check(world, found);
        world.over = true;
        return;
    }
    i26_retention::check(world, found);
    i03_dense_monotone::check(world, found);
    i13_timestamp_lookup::check(world, found);
    world.note_edges();
}

/// Looks at what must be true of the last restart, also if the log did not come back.
pub fn judge_restart(world: &mut World, found: &mut Vec<Violation>) {
    i24_recover_prefix::check(world, found);
    i25_quarantine_not_truncate::check(world, found);
}
