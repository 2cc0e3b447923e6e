//! What a simulated broker keeps, and what it does to what it was given.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{LeaderEpoch, Offset};
use records::{BatchHeader, HEADER_BYTES, Scratch, StoredBatch};
use vltava_bench::mark::{Found, Mark, due_ns};

/// What becomes of a batch that is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// It is not kept.
    Lose,
    /// It is kept twice.
    Duplicate,
    /// It is kept behind the next one for its partition.
    Reorder,
    /// The last byte of the value of its last record is another, and the batch says that it is right.
    Corrupt,
}

/// A record, as its mark has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) number: u64,
    pub(crate) due_ns: u64,
}

/// The batches of one partition.
#[derive(Debug, Default)]
pub(crate) struct Log {
    batches: Vec<(i64, Vec<u8>)>,
    end: i64,
    held: Option<Vec<u8>>,
}

impl Log {
    pub(crate) const fn end(&self) -> i64 {
        self.end
    }

    /// Keeps a batch, or does what it was told to do instead.
    pub(crate) fn append(&mut self, batch: &[u8], lie: Option<Lie>) {
        match lie {
            Some(Lie::Lose) => {}
            Some(Lie::Reorder) => self.held = Some(batch.to_vec()),
            Some(Lie::Corrupt) => self.keep(corrupted(batch)),
            Some(Lie::Duplicate) => {
                self.keep(batch.to_vec());
                self.keep(batch.to_vec());
            }
            None => {
                self.keep(batch.to_vec());
                if let Some(held) = self.held.take() {
                    self.keep(held);
                }
            }
        }
    }

    fn keep(&mut self, mut batch: Vec<u8>) {
        let mut header = BatchHeader::parse(&batch).expect("a client made it");
        header.place(Offset(self.end), LeaderEpoch(0));
        batch[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        self.batches.push((self.end, batch));
        self.end += i64::from(header.records_count);
    }

    /// Whole batches from the one with this offset on, up to about so many bytes.
    pub(crate) fn read(&self, from: i64, bytes_max: usize) -> Vec<u8> {
        let first = self.batches.partition_point(|(base, _)| *base <= from).saturating_sub(1);
        let mut bytes = Vec::new();
        for (_, batch) in self.batches.iter().skip(first).take_while(|_| from < self.end) {
            if !bytes.is_empty() && bytes.len() + batch.len() > bytes_max {
                break;
            }
            bytes.extend_from_slice(batch);
        }
        bytes
    }
}

/// All partitions of all topics.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    topics: BTreeMap<String, Vec<Log>>,
}

impl Logs {
    pub(crate) fn create(&mut self, topic: &str, partitions: i32) {
        let partitions = (0..partitions).map(|_| Log::default()).collect();
        self.topics.insert(topic.to_owned(), partitions);
    }

    pub(crate) fn delete(&mut self, topic: &str) {
        self.topics.remove(topic);
    }

    pub(crate) fn partitions(&self, topic: &str) -> Option<usize> {
        self.topics.get(topic).map(Vec::len)
    }

    pub(crate) fn get(&self, topic: &str, partition: i32) -> Option<&Log> {
        self.topics.get(topic)?.get(usize::try_from(partition).ok()?)
    }

    pub(crate) fn get_mut(&mut self, topic: &str, partition: i32) -> Option<&mut Log> {
        self.topics.get_mut(topic)?.get_mut(usize::try_from(partition).ok()?)
    }
}

/// What the marks of a batch say.
pub(crate) fn sent(batch: &[u8]) -> Vec<Sent> {
    let mut scratch = Scratch::default();
    let batch = StoredBatch::check(batch).expect("a client made it");
    let records = batch.records(&mut scratch).expect("a client made it");
    let of = |record: records::Record<'_>| match Mark::find(&record) {
        Found::Sent(mark) => {
            let due_ns = due_ns(&record).expect("it is long enough");
            Sent { number: mark.number, due_ns }
        }
        found => panic!("the harness marks its records: {found:?}"),
    };
    records.map(|record| of(record.expect("a client made it"))).collect()
}

/// When the records of batches were due, those whose marks are what was sent.
pub(crate) fn dues(mut batches: &[u8]) -> Vec<Duration> {
    let (mut scratch, mut dues) = (Scratch::default(), Vec::new());
    while !batches.is_empty() {
        let size = BatchHeader::parse(batches).expect("it was kept").size_bytes();
        let (batch, behind) = batches.split_at(size);
        let batch = StoredBatch::check(batch).expect("it was kept");
        for record in batch.records(&mut scratch).expect("it was kept") {
            let record = record.expect("it was kept");
            if let Found::Sent(_) = Mark::find(&record) {
                dues.extend(due_ns(&record).map(Duration::from_nanos));
            }
        }
        batches = behind;
    }
    dues
}

/// Another batch that is right by its checksum: only the mark within can tell.
fn corrupted(batch: &[u8]) -> Vec<u8> {
    let mut batch = batch.to_vec();
    // Behind the value stands the number of headers, which is one byte.
    let at = batch.len() - 2;
    batch[at] ^= 1;
    let mut header = BatchHeader::parse(&batch).expect("a client made it");
    header.crc = header.compute_crc(&batch[HEADER_BYTES..]);
    batch[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    batch
}
