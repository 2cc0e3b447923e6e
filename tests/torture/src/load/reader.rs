//! Those who read: all the time, from anywhere, and at the end from every replica.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base::{ErrorCode, Offset, PartitionIndex};
use client::consumer::{Batch, ConsumeError, Consumer, Reset, Start};
use client::raw::FetchLimits;
use client::{ClientError, Connection, Scratch};
use e2e::Chance;
use records::{BatchHeader, StoredBatch};

use super::Shared;
use crate::cluster::TOPIC;
use crate::history::{Event, Run};
use crate::value;

/// One wait for records.
const POLL_MAX: Duration = Duration::from_millis(200);
/// After a failure, before the next try.
const AGAIN: Duration = Duration::from_millis(200);

/// Reads all partitions from their beginning, on and on.
pub(super) fn tail(shared: &Shared) -> Result<()> {
    let mut reader = Reader::new(shared, "tail", vec![0; shared.partitions as usize])?;
    while !shared.stop.is_set() {
        reader.poll()?;
    }
    Ok(())
}

/// Goes somewhere else every few seconds.
pub(super) fn seeker(shared: &Shared, seed: u64) -> Result<()> {
    let mut chance = Chance::new(!seed);
    let mut reader = Reader::new(shared, "seeker", vec![0; shared.partitions as usize])?;
    while !shared.stop.is_set() {
        let until = Instant::now() + Duration::from_millis(chance.pick(500..4_000));
        while Instant::now() < until && !shared.stop.is_set() {
            reader.poll()?;
        }
        reader.go_back(&mut chance);
    }
    Ok(())
}

struct Reader<'a> {
    shared: &'a Shared,
    who: u32,
    consumer: Consumer,
    scratch: Scratch,
    /// By partition: the next offset.
    next: Vec<i64>,
    /// By partition: the furthest it was.
    reached: Vec<i64>,
}

impl<'a> Reader<'a> {
    fn new(shared: &'a Shared, name: &str, from: Vec<i64>) -> Result<Self> {
        let consumer = Consumer::builder(&shared.bootstrap)
            .client_id(&format!("torture-{name}"))
            .reset(Reset::None)
            .request_timeout(Duration::from_secs(5))
            .build()?;
        let (who, scratch) = (shared.reader(name), Scratch::default());
        let mut reader = Self { shared, who, consumer, scratch, reached: from.clone(), next: from };
        reader.assign();
        Ok(reader)
    }

    fn assign(&mut self) {
        for (partition, offset) in (0..).zip(&self.next) {
            self.shared.history.push(Event::Assign { who: self.who, partition, offset: *offset });
        }
        let places = (0..).zip(&self.next).map(|(index, at)| (TOPIC, index, Start::Offset(Offset(*at))));
        self.consumer.assign(places);
        // Those that were assigned already would go on where they are.
        for (partition, offset) in (0..).zip(&self.next) {
            self.consumer.seek(TOPIC, partition, Start::Offset(Offset(*offset)));
        }
    }

    /// Somewhere before the furthest it was.
    fn go_back(&mut self, chance: &mut Chance) {
        for (next, reached) in self.next.iter_mut().zip(&self.reached) {
            // Near the end as often as anywhere.
            let far = if chance.one_in(2) { (*reached).min(500) } else { *reached };
            *next = reached - chance.pick(0..far as u64 + 1) as i64;
        }
        self.assign();
    }

    fn poll(&mut self) -> Result<()> {
        let (who, history) = (self.who, &self.shared.history);
        let failure = match self.consumer.next_batch_within(POLL_MAX) {
            Ok(None) => return Ok(()),
            Ok(Some(batch)) => {
                let partition = batch.partition().0;
                let (runs, corrupt) = read(&batch, &mut self.scratch);
                let next = &mut self.next[partition as usize];
                if let Some(Run(offset, .., count)) = runs.last() {
                    *next = offset + i64::from(*count);
                    let reached = &mut self.reached[partition as usize];
                    *reached = (*reached).max(*next);
                    history.push(Event::Poll { who, partition, runs });
                }
                if let Some((offset, why)) = corrupt {
                    history.push(Event::Corrupt { who, partition, offset, why });
                }
                return Ok(());
            }
            Err(failure) => failure,
        };
        let partition = failure.partition.0;
        let offset = self.next[partition as usize];
        match &failure.error {
            ConsumeError::OutOfRange(_) | ConsumeError::Truncated { .. } => {
                let why = failure.error.to_string();
                history.push(Event::Refused { who, partition, offset, why });
            }
            ConsumeError::Corrupt { at, error } => {
                let (offset, why) = (at.0, error.to_string());
                history.push(Event::Corrupt { who, partition, offset, why });
            }
            // It will be tried again, and the last reads tell.
            ConsumeError::NoOffset | ConsumeError::Group(_) | ConsumeError::Refused(_) => {}
        }
        self.shared.stop.wait(AGAIN);
        history.push(Event::Assign { who, partition, offset });
        self.consumer.seek(TOPIC, partition, Start::Offset(Offset(offset)));
        Ok(())
    }
}

/// What a batch has, and what is wrong with it.
pub(crate) fn read(batch: &Batch<'_>, scratch: &mut Scratch) -> (Vec<Run>, Option<(i64, String)>) {
    let header = *batch.header();
    let mut runs = Vec::new();
    let records = match batch.records(scratch) {
        Ok(records) => records,
        Err(why) => return (runs, Some((header.base_offset.0, why.to_string()))),
    };
    for record in records {
        let at = match &record {
            Ok(record) => record.offset(&header).0,
            Err(_) => header.base_offset.0,
        };
        let of = record.map_err(|why| why.to_string()).and_then(|record| origin(record.value));
        match of {
            Ok(of) => add(&mut runs, at, of),
            Err(why) => return (runs, Some((at, why))),
        }
    }
    (runs, None)
}

fn origin(value: Option<&[u8]>) -> Result<(u32, u64), String> {
    value.and_then(value::origin).ok_or_else(|| "nobody writes such a value".to_owned())
}

fn add(runs: &mut Vec<Run>, offset: i64, (by, number): (u32, u64)) {
    if let Some(Run(first, of, from, count)) = runs.last_mut() {
        let follows =
            *of == by && *from + u64::from(*count) == number && *first + i64::from(*count) == offset;
        if follows {
            *count += 1;
            return;
        }
    }
    runs.push(Run(offset, by, number, 1));
}

/// Whose words are read at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The leader's, up to this end.
    Leader(i64),
    /// A follower's, as far as it goes.
    Follower,
}

/// Reads a partition from 0 as one broker has it. How many records; `None` if it does not serve it.
pub(crate) fn read_partition(
    shared: &Shared,
    connection: &mut Connection,
    partition: i32,
    of: Of,
    who: u32,
) -> Result<Option<u64>> {
    shared.history.push(Event::Assign { who, partition, offset: 0 });
    let (mut next, mut scratch) = (0, Scratch::default());
    loop {
        if matches!(of, Of::Leader(end) if next >= end) {
            break;
        }
        let limits = FetchLimits { wait_ms_max: 200, bytes_max: 8 << 20, ..FetchLimits::default() };
        let fetched = connection.fetch(TOPIC, PartitionIndex(partition), Offset(next), limits);
        let fetched = match fetched {
            Err(ClientError::Refused { code, .. }) if of == Of::Follower && is_no_reader_of(code) => {
                return Ok(None);
            }
            fetched => fetched.with_context(|| format!("partition {partition} at {next}"))?,
        };
        let before = next;
        for batch in records::batches(&fetched.records) {
            let batch = batch?;
            if matches!(of, Of::Leader(_)) && batch.header().base_offset.0 >= next {
                shared.history.push(written(partition, batch.header()));
            }
            let runs = runs_from(&batch, next, &mut scratch)?;
            if let Some(Run(offset, .., count)) = runs.last() {
                next = offset + i64::from(*count);
                shared.history.push(Event::Poll { who, partition, runs });
            }
        }
        match of {
            Of::Leader(end) if next == before => {
                bail!("partition {partition} gives nothing at {next} of {end}")
            }
            Of::Follower if next == before => break,
            _ => {}
        }
    }
    if let Of::Leader(end) = of {
        shared.history.push(Event::Final { who, partition, end });
    }
    Ok(Some(next as u64))
}

fn written(partition: i32, header: &BatchHeader) -> Event {
    Event::Batch {
        partition,
        offset: header.base_offset.0,
        producer: header.producer_id.0,
        epoch: header.producer_epoch.0,
        sequence: header.base_sequence.0,
        count: u32::try_from(header.records_count).unwrap_or(0),
    }
}

/// A follower that consumers may not read from says so.
fn is_no_reader_of(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotLeaderOrFollower | ErrorCode::OffsetNotAvailable | ErrorCode::OffsetOutOfRange
    )
}

fn runs_from(batch: &StoredBatch<'_>, from: i64, scratch: &mut Scratch) -> Result<Vec<Run>> {
    let header = *batch.header();
    let mut runs = Vec::new();
    for record in batch.records(scratch)? {
        let record = record?;
        let at = record.offset(&header).0;
        if at >= from {
            let of = origin(record.value).map_err(|why| anyhow::anyhow!("offset {at}: {why}"))?;
            add(&mut runs, at, of);
        }
    }
    Ok(runs)
}
