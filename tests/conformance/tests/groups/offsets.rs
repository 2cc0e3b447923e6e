//! Where members begin: at what their group has committed, or else where they are told to.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Instant;

use anyhow::{Result, ensure};
use vltava_conformance::group::{Joining, Read, Seen};
use vltava_conformance::suite::Suite;

use crate::scene::{PARTITIONS, Part, Scene, WAIT_MAX, wait};

/// A member that comes after another reads on where that one's commits are.
pub(crate) fn resume(suite: &Suite, part: &Part) -> Result<()> {
    let scene = Scene::new(suite, "resume", part, 3)?;
    let committed = [Some(1), Some(2), Some(3), None];
    suite.tell(&part.client, |before| {
        before.join(&scene.joining(part))?;
        scene.wait_until_read(&mut [before], 0)?;
        before.commit(&scene.topic, &committed)?;
        scene.check_committed(before, &committed)?;
        before.leave()
    })?;
    suite.tell(&part.client, |after| {
        scene.check_committed(after, &committed)?;
        after.join(&scene.joining(part))?;
        let from = committed.map(|offset| offset.unwrap_or(0)..scene.end);
        let wanted: BTreeSet<_> = (0..).zip(from).flat_map(records).collect();
        let read = |seen: &Seen| seen.records.iter().copied().collect();
        let seen = wait(&mut [after], "the rest is read", |seen| wanted.is_subset(&read(&seen[0])))?;
        ensure!(read(&seen[0]) == wanted, "{:?}, not {wanted:?}", seen[0]);
        after.leave()
    })
}

fn records((partition, offsets): (i32, Range<i64>)) -> impl Iterator<Item = Read> {
    offsets.map(move |offset| Read { partition, offset })
}

/// A member that names a pattern reads a topic that comes later: the server sees that there is another one.
pub(crate) fn pattern(suite: &Suite, part: &Part) -> Result<()> {
    let first = Scene::new(suite, "pattern", part, 0)?;
    suite.tell(&part.client, |driver| {
        let pattern = format!("{}.*", first.topic);
        let mut joining = first.joining(part);
        joining.pattern = Some(&pattern);
        driver.join(&joining)?;
        first.wait_until_shared(&mut [driver])?;
        // Whatever is read is of this one.
        let later = Scene::named(suite, format!("{}-later", first.topic), 2)?;
        later.wait_until_read(&mut [driver], 0)?;
        driver.leave()
    })
}

/// A member that is told to begin at the end reads nothing that was there before.
pub(crate) fn reset(suite: &Suite, part: &Part) -> Result<()> {
    let mut scene = Scene::new(suite, "reset", part, 3)?;
    suite.tell(&part.client, |driver| {
        scene.check_committed(driver, &[None; PARTITIONS as usize])?;
        let topic = scene.topic.clone();
        let mut joining = Joining::new(&topic, &topic, part.protocol);
        joining.reset = "latest";
        driver.join(&joining)?;
        scene.wait_until_shared(&mut [driver])?;
        let old = scene.end;
        // It asks where the end is some time after it was given a partition.
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            scene.write(1)?;
            let mut begun = BTreeMap::new();
            driver.member()?.records.iter().for_each(|read| *begun.entry(read.partition).or_insert(0) += 1);
            if begun.len() == PARTITIONS as usize {
                break;
            }
            let end = scene.end;
            ensure!(Instant::now() < deadline, "read of each partition, up to {end}: {begun:?} records");
        }
        let from = scene.end;
        scene.write(1)?;
        let seen = scene.wait_until_read(&mut [driver], from)?;
        ensure!(seen[0].records.iter().all(|read| read.offset >= old), "old records: {seen:?}");
        driver.leave()
    })
}
