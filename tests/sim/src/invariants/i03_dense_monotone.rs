//! I3: dense and monotone. Every batch begins where the one before it ends; what was appended is read
//! back, byte for byte; start and end never go back but by a cut.

use base::Offset;
use records::batches;
use storage::{Log, ReadError};

use crate::found::Edges;
use crate::random::Random;
use crate::trace::hash;
use crate::violation::Violation;
use crate::world::World;

const NAME: &str = "I3 dense and monotone";

/// Looks at the edges of the log, and closely at all of its bytes when that is due.
pub fn check(world: &World, found: &mut Vec<Violation>) {
    let Some(log) = &world.log else { return };
    let mut complain = |what: String| found.push(Violation { invariant: NAME, what });
    let Edges { start, end } = Edges { start: log.start(), end: log.end() };
    if start < world.seen.start || end < world.seen.end {
        complain(format!("edges went from {:?} back to {start}..{end}", world.seen));
    }
    if (start, end) != (world.model.start, world.model.end) {
        let model = &world.model;
        complain(format!("the log is {start}..{end}, appended was {}..{}", model.start, model.end));
    }
    if world.look_closely {
        let mut random = Random::stream(world.seed ^ world.trace.count(), "read");
        let bytes_max = random.between(0, 6000) as u32;
        if let Err(what) = check_bytes(world, log, bytes_max) {
            complain(what);
        }
        for _ in 0..4 {
            if let Err(what) = check_plan(world, log, &mut random) {
                complain(what);
            }
        }
    }
}

fn check_bytes(world: &World, log: &Log, bytes_max: u32) -> Result<(), String> {
    let read = World::read_all(log, log.start(), bytes_max).map_err(|error| unreadable(&error))?;
    world.trace.event(format!("read {} bytes {:x}", read.len(), hash(0, &read)));
    let mut expected = world.model.batch_of(log.start()).map_or(log.start(), |batch| batch.base());
    for batch in batches(&read) {
        let batch = batch.map_err(|error| format!("at {expected}: {error}"))?;
        if batch.base_offset() != expected {
            return Err(format!("a batch begins at {}, not at {expected}", batch.base_offset()));
        }
        expected = batch.next_offset();
    }
    if expected != log.end() {
        return Err(format!("batches end at {expected}, the log at {}", log.end()));
    }
    if read != world.model.bytes(log.start(), log.end()) {
        return Err("what is read is not what was appended".to_owned());
    }
    Ok(())
}

/// One fetch with arbitrary limits: whole batches, from the right one on, within the limits.
fn check_plan(world: &World, log: &Log, random: &mut Random) -> Result<(), String> {
    let len = (log.end() - log.start()) as u64;
    let from = Offset(log.start().0 + random.between(0, len) as i64);
    let upto = Offset(log.start().0 + random.between(0, len) as i64);
    let bytes_max = random.pick(&[0, 50, 500, 3000, 1 << 20]);
    let at_least_one = random.chance(500);
    let plan = log.plan_read(from, upto, bytes_max, at_least_one).map_err(|error| unreadable(&error))?;
    let what = || format!("plan {from}..{upto} of {bytes_max} bytes, at least one {at_least_one}: {plan:?}");
    let bytes = World::fetch(&plan).map_err(|error| unreadable(&error))?;
    world.trace.event(format!("fetch {} bytes {:x}, next {}", bytes.len(), hash(0, &bytes), plan.next));
    if plan.bytes as usize != bytes.len() || bytes != world.model.bytes(from, plan.next) {
        return Err(format!("other bytes than were appended: {}", what()));
    }
    let first = world.model.batch_of(from).filter(|batch| plan.bytes > 0 && batch.base() < upto);
    let alone = first.is_some_and(|batch| batch.next() == plan.next);
    let too_much = plan.bytes > bytes_max && !(at_least_one && alone);
    if too_much || plan.next > upto.max(from) || (plan.bytes > 0 && !world.model.is_boundary(plan.next)) {
        return Err(format!("beyond its limits: {}", what()));
    }
    let first = world.model.batch_of(from).filter(|batch| batch.next() <= upto);
    let fits = first.is_some_and(|batch| batch.bytes.len() as u32 <= bytes_max || at_least_one);
    if fits && plan.bytes == 0 {
        return Err(format!("nothing, although there is something: {}", what()));
    }
    Ok(())
}

fn unreadable(error: &ReadError) -> String {
    format!("cannot be read: {error}")
}
