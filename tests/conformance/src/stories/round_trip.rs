//! A client writes every shape of record, under every promise of a producer, and reads them back.

use anyhow::{Context, Result, ensure};

use super::STORY_MS;
use super::segment::check_stored;
use super::shapes::{STEP_MS, check_same, now_ms, shapes};
use crate::driver::{Driver, From, How, Place};
use crate::matrix::Client;
use crate::record::Stored;
use crate::suite::{Suite, topic};

/// One compression, four partitions: one for each of acks and idempotence that go together.
pub fn round_trip(suite: &Suite, client: &Client, compression: &'static str) -> Result<()> {
    let how = |acks, idempotent| How { compression, acks, idempotent };
    let hows = [how("0", false), how("1", false), how("all", false), how("all", true)];
    let topic = topic(&format!("round-trip-{compression}"), client);
    suite.tell(client, |driver| {
        suite.create(driver, &topic, hows.len() as i32, &[])?;
        let partitions = driver.partitions(&topic)?;
        ensure!(partitions == hows.len() as i32, "{partitions} partitions");
        for (partition, how) in (0..).zip(hows) {
            let at = Place { topic: &topic, partition };
            one(driver, at, how).with_context(|| format!("{how:?}"))?;
            if let Some(data_dir) = suite.data_dir() {
                check_stored(&data_dir, at, how)?;
            }
        }
        Ok(())
    })
}

fn one(driver: &mut Driver, at: Place<'_>, how: How) -> Result<()> {
    let client = driver.client().clone();
    let started = now_ms();
    let first = shapes(&client, &client, STORY_MS);
    let second = shapes(&client, &client, STORY_MS + first.len() as i64 * STEP_MS);
    let count = first.len() as i64;
    write(driver, at, how, &first, 0)?;
    // Under acks=0 nothing but a read tells that the first writes have arrived before the second.
    let read = driver.consume(at, From::Offset(0), first.len())?;
    check_same(&read, &first, 0, &(started..=now_ms()))?;
    write(driver, at, how, &second, count)?;

    let all = [first, second].concat();
    let clock = started..=now_ms();
    let stored = driver.consume(at, From::Offset(0), all.len())?;
    check_same(&stored, &all, 0, &clock)?;
    let offsets = driver.offsets(at)?;
    ensure!(offsets == (0, 2 * count), "the partition is {offsets:?}");

    // In the middle of a batch, and in the second one.
    for from in [1, count - 1, count + 2] {
        let rest = &all[from as usize..];
        let read = driver.consume(at, From::Offset(from), rest.len())?;
        check_same(&read, rest, from, &clock).with_context(|| format!("from {from}"))?;
        by_time(driver, at, &stored, from as usize)?;
    }
    let late = stored.iter().filter_map(|stored| stored.record.timestamp).max().unwrap_or(0) + 1;
    let found = driver.offset_for_time(at, late)?;
    ensure!(found.is_none(), "nothing is later than {late}, found {found:?}");
    Ok(())
}

fn write(
    driver: &mut Driver,
    at: Place<'_>,
    how: How,
    records: &[crate::record::Record],
    first: i64,
) -> Result<()> {
    let offsets = driver.produce(at, how, records)?;
    let told = |index: usize| (how.acks != "0").then_some(first + index as i64);
    let want: Vec<_> = (0..records.len()).map(told).collect();
    ensure!(offsets == want, "written at {offsets:?}, not {want:?}");
    Ok(())
}

/// Looks for the time of a record: the answer is the first record of that time or later.
fn by_time(driver: &mut Driver, at: Place<'_>, stored: &[Stored], index: usize) -> Result<()> {
    let timestamp = stored[index].record.timestamp.context("what is stored has a time")?;
    let is_later = |stored: &&Stored| stored.record.timestamp >= Some(timestamp);
    let first = stored.iter().position(|stored| is_later(&stored)).context("it is later than itself")?;
    let want = &stored[first..];
    let found = driver.offset_for_time(at, timestamp)?;
    ensure!(found == Some(want[0].offset), "offset {found:?} has time {timestamp}, not {}", want[0].offset);
    let read = driver.consume(at, From::Timestamp(timestamp), want.len())?;
    ensure!(read == want, "read from time {timestamp}:\n{read:?}\nstored:\n{want:?}");
    Ok(())
}
