//! What happened, as those who took part saw it: one event a line, in JSON, and in memory for the checker.
//!
//! ```text
//!   {"at":17,"event":"invoke","by":3,"partition":0,"first":100,"count":5}
//!   {"at":29,"event":"ok","by":3,"partition":0,"first":100,"count":5,"offset":771}
//!   {"at":31,"event":"poll","who":1,"partition":0,"runs":[[771,3,100,5]]}
//! ```
//!
//! A value is who wrote it and as its how-manieth; neighbours are written down together. `at` is
//! CLOCK_MONOTONIC in nanoseconds, which all processes of a machine share.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Records that lie side by side: offset and number of the first, one more in both for each that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run(
    /// Offset of the first.
    pub i64,
    /// Who wrote them.
    pub u32,
    /// The number of the first.
    pub u64,
    /// How many.
    pub u32,
);

/// Values that one producer sends to one partition together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Who.
    pub by: u32,
    /// Where to.
    pub partition: i32,
    /// The number of the first.
    pub first: u64,
    /// How many.
    pub count: u32,
}

/// What a producer promises of values that it sends more than once, because it has no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promises {
    /// That each is written once, in the order they were sent in.
    #[default]
    OnceInOrder,
    /// The order. It goes on under a new epoch after errors that it does not understand, and sends again
    /// what may be written already, as librdkafka does.
    Order,
    /// Nothing.
    Nothing,
}

/// Why a member of a group does not hear of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Away {
    /// SIGSTOP.
    Stopped,
    /// Nothing passes along its cable, one way or both.
    CutOff,
    /// The machine let its process wait, as the process found out afterwards.
    StoodStill,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A producer begins.
    Producer {
        /// Its number.
        by: u32,
        /// What it is, for people.
        name: String,
        /// What it promises.
        promises: Promises,
    },
    /// Values are about to be sent.
    Invoke(Sent),
    /// They were acknowledged by all in-sync replicas.
    Ok {
        /// Which.
        #[serde(flatten)]
        sent: Sent,
        /// The offset of the first; `None` if the producer was only told that they are there already, as an
        /// idempotent one may be after a retry.
        offset: Option<i64>,
    },
    /// What became of them is not known: they may be written, now or later.
    Info {
        /// Which.
        #[serde(flatten)]
        sent: Sent,
        /// Why.
        why: String,
    },
    /// They are not written and never will be.
    Fail {
        /// Which.
        #[serde(flatten)]
        sent: Sent,
        /// Why.
        why: String,
    },
    /// A reader begins.
    Reader {
        /// Its number.
        who: u32,
        /// What it is, for people.
        name: String,
    },
    /// A reader goes to an offset of a partition, to read on from there without a gap.
    Assign {
        /// Who.
        who: u32,
        /// Where.
        partition: i32,
        /// From which offset.
        offset: i64,
    },
    /// It was given records.
    Poll {
        /// Who.
        who: u32,
        /// Where.
        partition: i32,
        /// What, in the order of offsets.
        runs: Vec<Run>,
    },
    /// A batch of a partition in the last read of its leader, as its header says.
    Batch {
        /// Where.
        partition: i32,
        /// The offset of its first record.
        offset: i64,
        /// The producer id that a broker gave out.
        producer: i64,
        /// The epoch of that id.
        epoch: i16,
        /// The sequence of its first record.
        sequence: i32,
        /// How many records it has.
        count: u32,
    },
    /// It was given bytes that nobody wrote.
    Corrupt {
        /// Who.
        who: u32,
        /// Where.
        partition: i32,
        /// At which offset.
        offset: i64,
        /// What is wrong.
        why: String,
    },
    /// It was told that its place is not in the log.
    Refused {
        /// Who.
        who: u32,
        /// Where.
        partition: i32,
        /// The place.
        offset: i64,
        /// In which words.
        why: String,
    },
    /// It has read a partition up to its end, after everything was healed.
    Final {
        /// Who.
        who: u32,
        /// Where.
        partition: i32,
        /// The end.
        end: i64,
    },
    /// A reader is to be a member of a group.
    Member {
        /// Who.
        who: u32,
        /// Of which.
        group: u32,
    },
    /// Its group gave it these partitions.
    Assigned {
        /// Who.
        who: u32,
        /// Which.
        partitions: Vec<i32>,
    },
    /// It reads these no more, because its group wants them back, which has not heard of it yet.
    Revoked {
        /// Who.
        who: u32,
        /// Which.
        partitions: Vec<i32>,
    },
    /// It was told that these may be another's already.
    Lost {
        /// Who.
        who: u32,
        /// Which.
        partitions: Vec<i32>,
    },
    /// From now on it hears late what its group says, or not at all.
    Away {
        /// Who.
        who: u32,
        /// Why.
        why: Away,
    },
    /// That is over, and what it was told before may lie there unread.
    Back {
        /// Who.
        who: u32,
    },
    /// It is about to leave, and gives back whatever it has.
    Leaving {
        /// Who.
        who: u32,
    },
    /// Its process is gone.
    Gone {
        /// Who.
        who: u32,
        /// Whether it was killed.
        killed: bool,
    },
    /// It is about to commit.
    Commit {
        /// Who.
        who: u32,
        /// As its how-manieth commit.
        number: u64,
        /// Partition, and the offset of the record to be read next.
        offsets: Vec<(i32, i64)>,
    },
    /// A commit was acknowledged. One that was not may be made all the same, unless it was refused.
    Committed {
        /// Whose.
        who: u32,
        /// Which.
        number: u64,
    },
    /// A commit was not acknowledged.
    Uncommitted {
        /// Whose.
        who: u32,
        /// Which.
        number: u64,
        /// In which words.
        why: String,
    },
    /// Somebody who is no member asked what a group has committed, and was told.
    Told {
        /// Which group.
        group: u32,
        /// When it was asked; it was told at the time of the line.
        since: u64,
        /// Partition and offset; what is missing is not committed.
        offsets: Vec<(i32, i64)>,
        /// Whether everything was read and committed before, or should have been.
        last: bool,
    },
    /// Something is done to the cluster.
    Fault {
        /// What.
        what: String,
    },
}

/// An event and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub at: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

/// The time, as histories have it.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds of a history as a time.
pub fn since(from: u64, to: u64) -> Duration {
    Duration::from_nanos(to.saturating_sub(from))
}

/// A history that is being written, by all threads.
#[derive(Debug)]
pub struct History {
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    file: BufWriter<File>,
    lines: Vec<Line>,
}

impl History {
    /// A new one, kept in this file as well.
    pub fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { written: Mutex::new(Written { file: BufWriter::new(file), lines: Vec::new() }) })
    }

    /// Something happens now.
    pub fn push(&self, event: Event) {
        // Under the lock: whoever is earlier in the file was earlier.
        let mut written = self.lock();
        let at = now_ns();
        written.push(Line { at, event });
    }

    /// Something has happened, in another process.
    pub fn push_line(&self, line: Line) {
        self.lock().push(line);
    }

    /// Everything so far, looked at.
    pub fn look<T>(&self, look: impl FnOnce(&[Line]) -> T) -> T {
        look(&self.lock().lines)
    }

    /// Writes to the file what is not there yet.
    pub fn flush(&self) -> Result<()> {
        Ok(self.lock().file.flush()?)
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Written {
    fn push(&mut self, line: Line) {
        // A full disk must not end the run: the checker has it in memory.
        if serde_json::to_writer(&mut self.file, &line).is_ok() {
            let _ = self.file.write_all(b"\n");
        }
        self.lines.push(line);
    }
}

/// Reads a history from a file.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut lines = Vec::new();
    for (at, line) in BufReader::new(file).lines().enumerate() {
        let line = line?;
        let parsed = serde_json::from_str(&line);
        lines.push(parsed.with_context(|| format!("{}:{}: {line}", path.display(), at + 1))?);
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let history = History::create(&path).unwrap();
        let sent = Sent { by: 3, partition: 0, first: 100, count: 5 };
        let events = [
            Event::Producer { by: 3, name: "ours".to_owned(), promises: Promises::Order },
            Event::Invoke(sent),
            Event::Ok { sent, offset: Some(771) },
            Event::Info { sent, why: "no \"answer\"\n".to_owned() },
            Event::Poll { who: 1, partition: 0, runs: vec![Run(771, 3, 100, 5)] },
            Event::Final { who: 1, partition: 0, end: 776 },
            Event::Commit { who: 1, number: 3, offsets: vec![(0, 776)] },
            Event::Away { who: 1, why: Away::StoodStill },
            Event::Told { group: 0, since: 4, offsets: vec![(0, 776)], last: true },
        ];
        events.iter().for_each(|event| history.push(event.clone()));
        history.flush().unwrap();
        let read = read(&path).unwrap();
        assert!(read.iter().map(|line| &line.event).eq(&events));
        assert!(read.is_sorted_by_key(|line| line.at));
        assert!(history.look(|lines| lines == read));
    }
}
