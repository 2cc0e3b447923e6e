//! Who writes and who reads while the cluster is tortured.
//!
//! ```text
//!   producers of ours      one thread each, every partition in turn      ┐
//!   librdkafka             a process of its own, told the same           ├──▶ history
//!   tail                   reads all partitions on and on                │
//!   seeker                 goes somewhere else every few seconds         │
//!   members of groups      processes that come and go                    ┘
//! ```
//!
//! All of them ask for acks=all and are idempotent; what they do not hear of is *info*, never *fail*.

mod foreign;
mod members;
mod producer;
mod reader;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, anyhow};

use crate::history::{Event, History, Promises};
use crate::stop::Stop;

pub use members::{Crowd, Style};
pub use reader::Of;
pub(crate) use reader::{read, read_partition};

use members::Members;

/// How much of it.
#[derive(Clone, Debug)]
pub struct Amount {
    /// Partitions of the topic.
    pub partitions: i32,
    /// Producers of ours.
    pub producers: u32,
    /// Records a second of each of them.
    pub rate: u32,
    /// Whether librdkafka writes as well.
    pub librdkafka: bool,
    /// Whether there are readers.
    pub readers: bool,
    /// Groups, if there are any.
    pub crowd: Option<Crowd>,
    /// From which the seeker and the producers draw.
    pub seed: u64,
}

/// What those who write and read share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) bootstrap: String,
    pub(crate) history: Arc<History>,
    pub(crate) stop: Stop,
    /// Somebody is in a hurry: nothing is waited for any more.
    pub(crate) interrupted: Stop,
    pub(crate) partitions: i32,
    /// The next number for a producer or a reader.
    next: Arc<AtomicU32>,
}

impl Shared {
    /// A number that no other producer has.
    pub(crate) fn producer(&self, name: &str, promises: Promises) -> u32 {
        let by = self.next.fetch_add(1, Ordering::Relaxed);
        self.history.push(Event::Producer { by, name: name.to_owned(), promises });
        by
    }

    /// A number that no other reader has.
    pub(crate) fn reader(&self, name: &str) -> u32 {
        let who = self.next.fetch_add(1, Ordering::Relaxed);
        self.history.push(Event::Reader { who, name: name.to_owned() });
        who
    }
}

/// The load, running.
#[derive(Debug)]
pub struct Load {
    shared: Shared,
    writers: Vec<JoinHandle<Result<()>>>,
    readers: Vec<JoinHandle<Result<()>>>,
    reading: Stop,
    members: Option<Members>,
}

/// What became of the groups of a load.
#[derive(Debug, Default)]
pub struct GroupsEnd {
    /// How long they took to commit everything, once nothing was written any more; `None` if they did not.
    pub drained: Option<Duration>,
    /// What is wrong with members.
    pub wrong: Vec<String>,
    /// What is worth knowing.
    pub notes: Vec<String>,
}

impl Load {
    /// One that nobody bears yet. Threads are started from this one, and so in its namespace.
    pub fn new(bootstrap: String, history: Arc<History>, partitions: i32, interrupted: Stop) -> Self {
        let (stop, reading) = (Stop::default(), Stop::default());
        let next = Arc::new(AtomicU32::new(1));
        let shared = Shared { bootstrap, history, stop, interrupted, partitions, next };
        Self { shared, writers: Vec::new(), readers: Vec::new(), reading, members: None }
    }

    /// What final readers need.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Begins.
    pub fn begin(&mut self, amount: &Amount) -> Result<()> {
        for index in 0..amount.producers {
            let (shared, rate, seed) = (self.shared.clone(), amount.rate, amount.seed ^ u64::from(index));
            self.writers.push(spawn("writer", move || producer::run(&shared, rate, seed))?);
        }
        if amount.librdkafka {
            let (shared, rate) = (self.shared.clone(), amount.rate);
            self.writers.push(spawn("librdkafka", move || foreign::run(&shared, rate))?);
        }
        if amount.readers {
            let shared = Shared { stop: self.reading.clone(), ..self.shared.clone() };
            let tail = shared.clone();
            self.readers.push(spawn("tail", move || reader::tail(&tail))?);
            let seed = amount.seed;
            self.readers.push(spawn("seeker", move || reader::seeker(&shared, seed))?);
        }
        if let Some(crowd) = &amount.crowd {
            self.members = Some(Members::begin(self.shared.clone(), crowd.clone())?);
        }
        Ok(())
    }

    /// From now on no member of a group comes or goes.
    pub fn calm(&self) {
        self.members.iter().for_each(Members::calm);
    }

    /// Whether each group has read something of each partition since then.
    pub fn have_read_since(&self, at: u64) -> bool {
        self.members.as_ref().is_none_or(|members| members.have_read_since(at))
    }

    /// What groups have not read anything of since then, and who has it, for people.
    pub fn unread_since(&self, at: u64) -> Vec<String> {
        self.members.iter().flat_map(|members| members.unread_since(at)).collect()
    }

    /// Has groups, if there are any, commit everything that was written, in that time, and leave.
    pub fn end_groups(&mut self, time_max: Duration) -> Result<GroupsEnd> {
        let Some(members) = self.members.take() else { return Ok(GroupsEnd::default()) };
        let drained = members.drain(time_max);
        let (wrong, notes) = members.end()?;
        Ok(GroupsEnd { drained, wrong, notes })
    }

    /// No more is written; what was taken is waited for, a while.
    pub fn end_writing(&mut self) -> Result<()> {
        self.shared.stop.set();
        join(&mut self.writers)
    }

    /// Ends all of it.
    pub fn end(&mut self) -> Result<()> {
        let written = self.end_writing();
        self.reading.set();
        join(&mut self.readers).and(written)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // Who fails before the end has said why.
        let _ = self.end();
    }
}

fn spawn(name: &str, run: impl FnOnce() -> Result<()> + Send + 'static) -> Result<JoinHandle<Result<()>>> {
    Ok(thread::Builder::new().name(name.to_owned()).spawn(run)?)
}

fn join(threads: &mut Vec<JoinHandle<Result<()>>>) -> Result<()> {
    let mut joined = Ok(());
    // All of them, whatever the first says.
    for thread in threads.drain(..) {
        joined = joined.and(thread.join().unwrap_or_else(|_| Err(anyhow!("it panicked"))));
    }
    joined
}

/// Between two things that a thread does at so many a second.
fn pause(per_second: u32) -> Duration {
    Duration::from_secs(1) / per_second.max(1)
}
