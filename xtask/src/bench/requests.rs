//! The questions that tell whether a broker serves, and how soon it did.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};

use super::wire::{Asker, In, Out, batch};

/// Nothing that is measured takes longer.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
/// Between two tries to reach a broker that starts.
const TRY_EVERY: Duration = Duration::from_millis(1);
/// What a fetch may bring from one partition and in all.
const FETCH_BYTES: (i32, i32) = (1 << 20, 50 << 20);

const PRODUCE: (i16, i16) = (0, 3);
const FETCH: (i16, i16) = (1, 4);
const LIST_OFFSETS: (i16, i16) = (2, 1);
const METADATA: (i16, i16) = (3, 1);
const OFFSET_FETCH: (i16, i16) = (9, 2);
const API_VERSIONS: (i16, i16) = (18, 0);
const CREATE_TOPICS: (i16, i16) = (19, 2);

const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
const NOT_LEADER_OR_FOLLOWER: i16 = 6;

/// A partition of a topic.
pub(super) type Place = (String, i32);

/// Asks ApiVersions and Metadata as soon as a broker lets us, and says when it answered.
pub(super) fn first_metadata(
    address: SocketAddr,
    since: Instant,
    is_alive: impl Fn() -> bool,
) -> Result<(Asker, Duration)> {
    loop {
        let tried = Asker::connect(address, PATIENCE).and_then(|mut asker| {
            versions(&mut asker)?;
            leaders(&mut asker)?;
            Ok(asker)
        });
        match tried {
            Ok(asker) => return Ok((asker, since.elapsed())),
            Err(error) if since.elapsed() > PATIENCE => return Err(error),
            Err(_) => ensure!(is_alive(), "the broker ended while it started"),
        }
        std::thread::sleep(TRY_EVERY);
    }
}

/// The keys of the requests that a broker answers.
fn versions(asker: &mut Asker) -> Result<Vec<i16>> {
    let mut answer = asker.ask(API_VERSIONS.0, API_VERSIONS.1, Out::default())?;
    ensure!(answer.i16()? == 0, "ApiVersions is refused");
    answer.each(|api| {
        let key = api.i16()?;
        api.i16()?;
        api.i16()?;
        Ok(key)
    })
}

/// Whether a broker says that it answers requests with this key.
pub(super) fn serves(asker: &mut Asker, key: i16) -> Result<bool> {
    Ok(versions(asker)?.contains(&key))
}

/// What a group has committed of a partition; None while its coordinator does not say.
pub(super) fn committed(asker: &mut Asker, group: &str, (topic, index): (&str, i32)) -> Result<Option<i64>> {
    let mut body = Out::default();
    body.string(group).len(1).string(topic).len(1).i32(index);
    let mut answer = asker.ask(OFFSET_FETCH.0, OFFSET_FETCH.1, body)?;
    let topics = answer.each(|topic| {
        topic.string()?;
        topic.each(|partition| {
            partition.i32()?;
            let offset = partition.i64()?;
            partition.string()?;
            Ok((partition.i16()?, offset))
        })
    })?;
    let error = answer.i16()?;
    let found = topics.into_iter().flatten().find(|_| error == 0);
    Ok(found.filter(|(error, _)| *error == 0).map(|(_, offset)| offset))
}

/// The partitions of all topics that have a leader.
pub(super) fn leaders(asker: &mut Asker) -> Result<Vec<Place>> {
    Ok(known(asker)?.led.into_iter().map(|(place, _)| place).collect())
}

/// What a broker knows of its cluster.
struct Known {
    brokers: usize,
    /// Partitions that have a leader, and how many replicas of them are in sync.
    led: Vec<(Place, usize)>,
}

fn known(asker: &mut Asker) -> Result<Known> {
    let mut body = Out::default();
    body.i32(-1);
    let mut answer = asker.ask(METADATA.0, METADATA.1, body)?;
    let brokers = answer.each(|broker| {
        broker.i32()?;
        broker.string()?;
        broker.i32()?;
        broker.string()
    })?;
    ensure!(!brokers.is_empty(), "a cluster without brokers");
    answer.i32()?;
    let topics = answer.each(|topic| {
        topic.i16()?;
        let name = topic.string()?;
        topic.i8()?;
        let led = topic.each(|partition| {
            let error = partition.i16()?;
            let (index, leader) = (partition.i32()?, partition.i32()?);
            partition.each(In::i32)?;
            let in_sync = partition.each(In::i32)?.len();
            Ok((error == 0 && leader >= 0).then_some((index, in_sync)))
        })?;
        Ok(led
            .into_iter()
            .flatten()
            .map(|(index, in_sync)| ((name.clone(), index), in_sync))
            .collect::<Vec<_>>())
    })?;
    Ok(Known { brokers: brokers.len(), led: topics.into_iter().flatten().collect() })
}

/// Waits until a broker knows so many brokers, itself included.
pub(super) fn await_brokers(asker: &mut Asker, count: usize) -> Result<()> {
    until(|| Ok((known(asker)?.brokers == count).then_some(())))
        .with_context(|| format!("waiting for a cluster of {count} brokers"))
}

/// Makes a topic on one broker.
pub(super) fn create_topic(asker: &mut Asker, name: &str, partitions: u32) -> Result<()> {
    create_replicated(asker, name, (partitions, 1), &[])
}

/// Makes a topic with so many partitions, of so many replicas each.
pub(super) fn create_replicated(
    asker: &mut Asker,
    name: &str,
    (partitions, replicas): (u32, u16),
    settings: &[(&str, &str)],
) -> Result<()> {
    let mut body = Out::default();
    body.len(1).string(name).len(partitions as usize).i16(replicas.cast_signed()).len(0);
    body.len(settings.len());
    for (name, value) in settings {
        body.string(name).string(value);
    }
    body.i32(i32::try_from(PATIENCE.as_millis())?).i8(0);
    let mut answer = asker.ask(CREATE_TOPICS.0, CREATE_TOPICS.1, body)?;
    answer.i32()?;
    for (topic, error, message) in
        answer.each(|topic| Ok((topic.string()?, topic.i16()?, topic.string()?)))?
    {
        ensure!(error == 0, "{topic} is not made: error {error} {message}");
    }
    Ok(())
}

/// How many replicas of each partition of a topic are in sync, for those that have a leader.
pub(super) fn in_sync(asker: &mut Asker, topic: &str) -> Result<BTreeMap<Place, usize>> {
    Ok(known(asker)?.led.into_iter().filter(|(place, _)| place.0 == topic).collect())
}

/// How many records of a topic the leaders say that consumers may read: of brokers that are asked for all of
/// its partitions, each leader answers for its own. None if not every partition is answered for.
pub(super) fn readable(askers: &mut [Asker], places: &[Place]) -> Result<Option<i64>> {
    let mut found = BTreeMap::new();
    for asker in askers {
        let answers = ends(asker, places)?.into_iter().filter(|answer| answer.error == 0);
        found.extend(answers.map(|answer| (answer.place, answer.value)));
    }
    Ok((found.len() == places.len()).then(|| found.values().sum()))
}

/// Waits until that many partitions have a leader.
pub(super) fn await_leaders(asker: &mut Asker, partitions: usize) -> Result<Vec<Place>> {
    until(|| {
        let led = leaders(asker)?;
        Ok((led.len() >= partitions).then_some(led))
    })
    .with_context(|| format!("waiting for {partitions} partitions to have a leader"))
}

/// Waits until every partition says where its end is.
pub(super) fn await_ends(asker: &mut Asker, places: &[Place]) -> Result<BTreeMap<Place, i64>> {
    let mut refused = Vec::new();
    until(|| {
        let (ends, others): (Vec<_>, Vec<_>) =
            ends(asker, places)?.into_iter().partition(|answer| answer.error == 0);
        refused = others;
        let ends: BTreeMap<Place, i64> =
            ends.into_iter().map(|answer| (answer.place, answer.value)).collect();
        Ok((ends.len() == places.len()).then_some(ends))
    })
    .with_context(|| format!("ListOffsets is not answered by every partition; refused: {}", some(&refused)))
}

/// Waits until every partition with records has given its last one.
pub(super) fn await_last_records(asker: &mut Asker, ends: &BTreeMap<Place, i64>) -> Result<()> {
    let mut missing: BTreeMap<Place, i64> =
        ends.iter().filter(|(_, end)| **end > 0).map(|(place, end)| (place.clone(), end - 1)).collect();
    let mut refused = Vec::new();
    until(|| {
        let answers = fetched(asker, &missing)?;
        let (brought, others): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| answer.error == 0 && answer.value > 0);
        refused = others;
        for answer in brought {
            missing.remove(&answer.place);
        }
        Ok(missing.is_empty().then_some(()))
    })
    .with_context(|| {
        format!("Fetch is not answered by every partition; empty or refused: {}", some(&refused))
    })
}

/// What one partition answered.
#[derive(Debug)]
struct Answer {
    place: Place,
    error: i16,
    /// An offset, or a number of bytes.
    value: i64,
}

/// How many, and the first of them.
fn some(answers: &[Answer]) -> String {
    format!("{}, {:?}", answers.len(), answers.first())
}

/// Tries again and again, for as long as anything may take.
fn until<T>(mut answered: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = answered()? {
            return Ok(answer);
        }
        if Instant::now() > deadline {
            bail!("not within {} s", PATIENCE.as_secs());
        }
        std::thread::sleep(TRY_EVERY);
    }
}

/// Writes one record into each of these partitions of a topic.
pub(super) fn produce_to_each(asker: &mut Asker, topic: &str, partitions: u32) -> Result<()> {
    let mut left: Vec<i32> = (0..partitions).map(|partition| partition as i32).collect();
    until(|| {
        left = not_taken(asker, topic, &left)?;
        Ok(left.is_empty().then_some(()))
    })
    .with_context(|| format!("waiting for {topic} to take a record in each partition"))
}

/// Writes one record into each of these partitions, and says which were not ready for it: a Kafka tells
/// of a leader before that has got to know itself.
fn not_taken(asker: &mut Asker, topic: &str, partitions: &[i32]) -> Result<Vec<i32>> {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let batch = batch(i64::try_from(time.as_millis())?, b"one record of a topic with few");
    let mut body = Out::default();
    body.i16(-1).i16(1).i32(i32::try_from(PATIENCE.as_millis())?);
    body.len(1).string(topic).len(partitions.len());
    for partition in partitions {
        body.i32(*partition).len(batch.0.len()).raw(&batch.0);
    }
    let mut answer = asker.ask(PRODUCE.0, PRODUCE.1, body)?;
    let errors = answer.each(|topic| {
        topic.string()?;
        topic.each(|partition| {
            let (index, error) = (partition.i32()?, partition.i16()?);
            partition.i64()?;
            partition.i64()?;
            Ok((index, error))
        })
    })?;
    let mut left = Vec::new();
    for (index, error) in errors.into_iter().flatten() {
        match error {
            0 => {}
            UNKNOWN_TOPIC_OR_PARTITION | NOT_LEADER_OR_FOLLOWER => left.push(index),
            _ => bail!("{topic}-{index} does not take a record: error {error}"),
        }
    }
    Ok(left)
}

fn ends(asker: &mut Asker, places: &[Place]) -> Result<Vec<Answer>> {
    let mut body = Out::default();
    body.i32(-1);
    by_topic(&mut body, places.iter().map(|place| (place, ())), |body, ()| {
        body.i64(-1);
    });
    let mut answer = asker.ask(LIST_OFFSETS.0, LIST_OFFSETS.1, body)?;
    let topics = answer.each(|topic| {
        let name = topic.string()?;
        topic.each(|partition| {
            let (index, error) = (partition.i32()?, partition.i16()?);
            partition.i64()?;
            let value = partition.i64()?;
            Ok(Answer { place: (name.clone(), index), error, value })
        })
    })?;
    Ok(topics.into_iter().flatten().collect())
}

fn fetched(asker: &mut Asker, from: &BTreeMap<Place, i64>) -> Result<Vec<Answer>> {
    let mut body = Out::default();
    body.i32(-1).i32(0).i32(1).i32(FETCH_BYTES.1).i8(0);
    by_topic(&mut body, from.iter(), |body, offset| {
        body.i64(*offset).i32(FETCH_BYTES.0);
    });
    let mut answer = asker.ask(FETCH.0, FETCH.1, body)?;
    answer.i32()?;
    let topics = answer.each(|topic| {
        let name = topic.string()?;
        topic.each(|partition| {
            let (index, error) = (partition.i32()?, partition.i16()?);
            partition.i64()?;
            partition.i64()?;
            partition.each(|aborted| Ok((aborted.i64()?, aborted.i64()?)))?;
            let value = i64::try_from(partition.skip_bytes()?)?;
            Ok(Answer { place: (name.clone(), index), error, value })
        })
    })?;
    Ok(topics.into_iter().flatten().collect())
}

/// Topics with their partitions, as most requests have them; `more` follows each partition's index.
fn by_topic<'a, T>(body: &mut Out, places: impl Iterator<Item = (&'a Place, T)>, more: impl Fn(&mut Out, T)) {
    let mut topics: BTreeMap<&str, (usize, Out)> = BTreeMap::new();
    for ((topic, index), value) in places {
        let (count, partitions) = topics.entry(topic).or_default();
        *count += 1;
        more(partitions.i32(*index), value);
    }
    body.len(topics.len());
    for (topic, (count, partitions)) in topics {
        body.string(topic).len(count).raw(&partitions.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_listed_by_topic() {
        let places = [("b".to_owned(), 1), ("a".to_owned(), 0), ("b".to_owned(), 2)];
        let mut listed = Out::default();
        by_topic(&mut listed, places.iter().map(|place| (place, ())), |_, ()| {});
        let mut wanted = Out::default();
        wanted.len(2).string("a").len(1).i32(0).string("b").len(2).i32(1).i32(2);
        assert_eq!(listed.0, wanted.0);
    }
}
