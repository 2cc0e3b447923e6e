//! I13: a look-up by time finds the first record that is as late, and the record with the largest
//! timestamp is found.

use base::{Offset, TimestampMs};
use storage::{Log, TimestampedOffset};

use crate::random::Random;
use crate::violation::Violation;
use crate::world::World;

const NAME: &str = "I13 timestamp lookup";
/// How many times are looked up each time.
const TARGETS: usize = 6;

/// Looks some times up, when that is due.
pub fn check(world: &mut World, found: &mut Vec<Violation>) {
    if !world.look_closely {
        return;
    }
    // A look-up closes the files that it opened, so it borrows the log alone.
    let Some(mut log) = world.log.take() else { return };
    check_log(world, &mut log, found);
    world.log = Some(log);
}

fn check_log(world: &World, log: &mut Log, found: &mut Vec<Violation>) {
    let mut complain = |what: String| found.push(Violation { invariant: NAME, what });
    let records: Vec<(Offset, TimestampMs)> = world.model.timestamps().collect();
    let mut random = Random::stream(world.seed ^ world.trace.count(), "lookup");
    for target in targets(&records, &mut random) {
        let expected = records.iter().copied().find(|&(_, timestamp)| timestamp >= target);
        let answer = log.offset_for_timestamp(target);
        world.trace.event(format!("look {target} up: {answer:?}"));
        match answer {
            Ok(answer) if same(world, answer, expected) => {}
            other => complain(format!("of {target} is {other:?}, should be {expected:?}")),
        }
    }
    check_max(world, log, &records, &mut complain);
}

fn check_max(
    world: &World,
    log: &mut Log,
    records: &[(Offset, TimestampMs)],
    complain: &mut dyn FnMut(String),
) {
    let largest = records.iter().map(|&(_, timestamp)| timestamp).max().filter(|max| max.is_some());
    let expected = records.iter().copied().find(|&(_, timestamp)| Some(timestamp) == largest);
    let answer = log.max_timestamp();
    world.trace.event(format!("look the largest up: {answer:?}"));
    match answer {
        Ok(answer) if same(world, answer, expected) => {}
        other => complain(format!("of the largest is {other:?}, should be {expected:?}")),
    }
}

fn same(world: &World, answer: Option<TimestampedOffset>, expected: Option<(Offset, TimestampMs)>) -> bool {
    match (answer, expected) {
        (None, None) => true,
        (Some(answer), Some((offset, timestamp))) => {
            let epoch = world.model.batch_of(offset).map(|batch| batch.header.leader_epoch);
            (answer.offset, answer.timestamp, Some(answer.epoch)) == (offset, timestamp, epoch)
        }
        _ => false,
    }
}

/// Times worth looking up: those of records, those just beside them, and the ends.
fn targets(records: &[(Offset, TimestampMs)], random: &mut Random) -> Vec<TimestampMs> {
    let mut targets = vec![TimestampMs(0), TimestampMs(i64::MAX)];
    if !records.is_empty() {
        targets.extend((0..TARGETS).map(|_| {
            let (_, timestamp) = records[random.index(records.len())];
            TimestampMs((timestamp.0 + random.pick(&[-1, 0, 0, 1])).max(0))
        }));
    }
    targets
}
