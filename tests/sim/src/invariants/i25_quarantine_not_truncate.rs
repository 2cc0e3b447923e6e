//! I25: damage to records that were durable is never taken for a torn end. The log refuses to open and
//! changes nothing, or has not met the damage yet and keeps everything around it.

use crate::found::Found;
use crate::violation::Violation;
use crate::world::World;

const NAME: &str = "I25 quarantine, not truncate";

/// Judges the last restart.
pub fn check(world: &World, found: &mut Vec<Violation>) {
    let Some(restart) = &world.restart else { return };
    let mut complain = |what: String| found.push(Violation { invariant: NAME, what });
    let below = restart.intact < restart.recovery_point;
    match &restart.found {
        Found::Quarantined { changed: Some(path), error } => {
            complain(format!("{error}, and yet {} was changed", path.display()));
        }
        Found::Opened { state, .. } if restart.harmed && below => {
            if state.edges.end < restart.recovery_point {
                let (end, point) = (state.edges.end, restart.recovery_point);
                complain(format!("cut at {end}, although {point} was durable; intact to {}", restart.intact));
            }
        }
        Found::Quarantined { .. } | Found::Opened { .. } | Found::Refused { .. } => {}
    }
}
