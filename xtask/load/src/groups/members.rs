//! As many members as partitions: they join all at once; then one of them crashes.
//!
//! ```text
//!   subscribe ─▶ each has one ─▶ records for one who reads ─▶ quiet ─▶ crash ─▶ dropped ─▶ all have an owner again
//!   └──── join ─────────────┘                                         └────── settled ────────────────────────┘
//! ```
//!
//! **Invariant:** no partition ever has two owners, by what the members themselves were told; else it is an error.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::crowd::Crowd;
use super::owners::Owners;
use super::setup::{Setup, shared};
use super::watched::{Looking, Steady, Waiting, is_stable};
use super::{as_millis, connect};

/// Longer than this nothing takes.
const JOIN_TIME_MAX: Duration = Duration::from_secs(120);
/// The one that is watched is looked at so long after all has settled, too.
const AFTER: Duration = Duration::from_secs(1);
/// How many heartbeats of each member nothing happens for.
const QUIET_HEARTBEATS: u32 = 4;
/// How long the members may take to leave.
const LEAVE_TIME_MAX: Duration = Duration::from_secs(10);

/// Does it, and says how long it took.
pub(super) fn run(setup: &Setup<'_>) -> Result<Value> {
    let (broker, topic, group, count) = (setup.broker, setup.topic, setup.group, setup.members);
    ensure!(count > 3, "too few members to tell them apart");
    let owners = shared(Owners::default());
    // The last of them is the one that reads.
    let reader = count - 1;
    let mut crowd = Crowd::new(setup, reader, owners.clone())?;
    let waiting = Waiting::new(setup, reader, owners.clone())?;
    let began = Instant::now();
    crowd.subscribe(topic)?;
    let watched = waiting.subscribe();
    let joined = crowd.until("one partition each", JOIN_TIME_MAX, |owners| Ok(owners.is_even(count)))?;
    if setup.only_joins {
        watched.end()?;
        crowd.leave(LEAVE_TIME_MAX)?;
        return Ok(json!({ "join_ms": as_millis(joined - began) }));
    }

    let place = owners.lock().partition(reader).context("the reader has a partition")?;
    let partitions = i32::try_from(count)?;
    // It may be given the one beside its own.
    let around = [place, (place + 1) % partitions, (place + partitions - 1) % partitions];
    let steady = Steady::start(broker, topic, around.to_vec())?;
    let mut connection = connect(broker)?;
    crowd.until("a first record", JOIN_TIME_MAX, |_| Ok(watched.has_read()))?;
    crowd.until("a stable group", JOIN_TIME_MAX, |_| is_stable(&mut connection, group))?;
    crowd.spread(setup.heard_every())?;
    watched.begin();
    crowd.rest(setup.heard_every() * QUIET_HEARTBEATS)?;
    let quiet = watched.longest_pause_ms();

    let other = (place + partitions / 2) % partitions;
    let crashing = owners.lock().owner(other).context("each partition has an owner")?;
    ensure!(crashing != reader, "the reader is not to crash");
    let looking = Looking::start(broker, group);
    watched.begin();
    let crashed = Instant::now();
    crowd.crash(crashing);
    let settled =
        crowd.until("an owner for each partition", JOIN_TIME_MAX, |owners| Ok(owners.is_whole(count)))?;
    crowd.rest(AFTER)?;
    let pause = watched.longest_pause_ms();
    let dropped = looking.end()?;
    steady.end()?;
    watched.end()?;
    crowd.leave(LEAVE_TIME_MAX)?;
    Ok(json!({
        "join_ms": as_millis(joined - began),
        "settled_ms": as_millis(settled - crashed),
        "dropped_ms": dropped.map(|at| as_millis(at - crashed)),
        "settled_after_ms": dropped.map(|at| as_millis(settled.saturating_duration_since(at))),
        "quiet_pause_ms": quiet,
        "pause_ms": pause,
    }))
}
