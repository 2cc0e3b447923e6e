//! Very many offsets, all in one partition of `__consumer_offsets`: whoever loads them, loads them by itself.

use std::time::Instant;
use std::{slice, thread};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use wire::messages::offset_fetch::OffsetFetchResponse;
use wire::{ApiKey, encode_request};

use super::commit::{commit, fetch, fetched, is_passing, refusal};
use super::dialogue::{Dialogue, hold};
use super::{LOOK_EVERY, OFFSET_FETCH_VERSION, coordinators, read as read_answer};
use crate::PATIENCE;

/// How many partitions a group has committed, of as many that the topic has.
const PARTITIONS: i32 = 100;
/// `offsets.topic.num.partitions`, which nobody changes.
const SHARDS: i32 = 50;
/// How many groups are asked about at once.
const CONNECTIONS: usize = 16;

struct Offsets<'a> {
    topic: &'a str,
    groups: Vec<String>,
    is_read: bool,
    /// The next group.
    next: usize,
    /// The group that is asked about on each connection.
    asked: Vec<Option<usize>>,
    /// Groups that had no coordinator yet.
    again: Vec<usize>,
    /// Groups that are done.
    done: usize,
    /// How long a coordinator may be away.
    until: Instant,
}

/// Commits so many.
pub(super) fn write(broker: &str, topic: &str, count: usize) -> Result<Value> {
    run(broker, topic, count, false)
}

/// Finds them again, each with its value.
pub(super) fn read(broker: &str, topic: &str, count: usize) -> Result<Value> {
    run(broker, topic, count, true)
}

fn run(broker: &str, topic: &str, count: usize, is_read: bool) -> Result<Value> {
    let groups = groups(count.div_ceil(PARTITIONS as usize));
    let last = groups.last().context("no offsets")?.clone();
    let coordinator = coordinators(broker, slice::from_ref(&last))?[0];
    let (next, done, again) = (0, 0, Vec::new());
    let asked = vec![None; CONNECTIONS];
    let since = Instant::now();
    let until = since + PATIENCE;
    let mut offsets = Offsets { topic, groups, is_read, next, asked, again, done, until };
    hold(&[coordinator; CONNECTIONS], &mut offsets)?;
    let seconds = since.elapsed().as_secs_f64();
    let groups = offsets.groups.len();
    ensure!(offsets.done == groups, "{} of {groups} groups are done", offsets.done);
    let offsets = groups * PARTITIONS as usize;
    Ok(
        json!({ "offsets": offsets, "seconds": seconds, "per_sec": offsets as f64 / seconds, "last_group": last }),
    )
}

/// Groups whose offsets are in one partition of `__consumer_offsets`.
fn groups(count: usize) -> Vec<String> {
    let names = (0..).map(|number| format!("loaded-{number}"));
    names.filter(|name| shard(name) == shard("loaded-0")).take(count).collect()
}

/// In which partition of `__consumer_offsets` a group is: by Java's hash of its name.
fn shard(group: &str) -> i32 {
    let hash = group.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    (hash & i32::MAX) % SHARDS
}

/// What is committed there, so that each is known from all others.
fn offset(group: usize, partition: i32) -> i64 {
    group as i64 * i64::from(PARTITIONS) + i64::from(partition)
}

impl Dialogue for Offsets<'_> {
    fn next(&mut self, place: usize) -> Result<Option<Vec<u8>>> {
        let number = self.again.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        let Some(group) = self.groups.get(number) else { return Ok(None) };
        self.asked[place] = Some(number);
        if self.is_read {
            let partitions: Vec<i32> = (0..PARTITIONS).collect();
            let request = fetch(group, self.topic, &partitions);
            return Ok(Some(encode_request(0, Some("bench"), OFFSET_FETCH_VERSION, &request)?.bytes));
        }
        let offsets: Vec<(i32, i64)> = (0..PARTITIONS).map(|index| (index, offset(number, index))).collect();
        commit(group, self.topic, &offsets).map(Some)
    }

    fn on_answer(&mut self, place: usize, frame: &[u8]) -> Result<()> {
        let number = self.asked[place].take().context("an answer to nothing")?;
        if self.is_read {
            let said: OffsetFetchResponse<'_> =
                read_answer(frame, ApiKey::OffsetFetch, OFFSET_FETCH_VERSION)?;
            let code = said.groups.first().map_or(0, |group| group.error_code);
            if is_passing(code) && Instant::now() < self.until {
                // A Kafka that has just started may load twice: once as the leader that it was before.
                thread::sleep(LOOK_EVERY);
                self.again.push(number);
                return Ok(());
            }
            let mut found = fetched(&said)?;
            found.sort_unstable();
            let is_right =
                found.iter().copied().eq((0..PARTITIONS).map(|index| (index, offset(number, index))));
            ensure!(is_right, "{} has {found:?}", self.groups[number]);
            self.done += 1;
            return Ok(());
        }
        match refusal(frame)? {
            None => self.done += 1,
            // It has just been made.
            Some(code) if is_passing(code) && self.done == 0 => self.again.push(number),
            Some(code) => bail!("{}: a commit is refused with error {code}", self.groups[number]),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_hashed_as_java_does() {
        // "polygenelubricants".hashCode() is Integer.MIN_VALUE.
        assert_eq!((shard("polygenelubricants"), shard(""), shard("a")), (0, 0, 97 % SHARDS));
        let groups = groups(3);
        assert!(groups.len() == 3 && groups.iter().all(|name| shard(name) == shard("loaded-0")));
    }
}
