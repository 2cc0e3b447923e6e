//! What one machine does of a run that several do together.
//!
//! ```text
//!   job ─▶ ready? ─▶ … when all begin ─▶ its senders and readers ─▶ what they sent
//!                                                 … where everything ends ─▶ what they read
//! ```
//!
//! Who sends and who reads is shared out by number, and each keeps to the schedule that it has of its number: so
//! the load is the same, however many machines make it.

use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::read::Reading;
use super::send::payload;
use super::{Both, Clock, Ends, Run, Sent, Shift, Show, Stage, Target, Timing, Topics, Window};
use crate::driver::Driver;
use crate::meter::Measured;
use crate::resources::Sources;
use crate::verify::Checker;
use crate::workload::Workload;

/// Which of the senders, and of the readers, are one machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// Which machine it is, from 0 on.
    pub(crate) of: u32,
    /// How many there are.
    pub(crate) among: u32,
}

impl Share {
    /// There is only one machine.
    pub(crate) const ALL: Self = Self { of: 0, among: 1 };

    /// Whether this number is its.
    pub(crate) const fn has(self, number: u32) -> bool {
        number % self.among == self.of
    }
}

/// What is to be done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) run: u64,
    pub(crate) servers: String,
    pub(crate) driver: Driver,
    pub(crate) workload: Workload,
    pub(crate) topics: Vec<String>,
    pub(crate) share: Share,
    pub(crate) phase: Phase,
}

/// Which part of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// Send, and read beside it.
    Both,
    /// Send, unmeasured.
    Fill,
    /// Read what is stored, up to these ends.
    Drain(Ends),
}

/// When it begins, by the clock of the machine that is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start {
    pub(crate) at: Duration,
    pub(crate) shift: Shift,
}

/// What comes from whoever had it done, while it is done.
pub(crate) struct Told<'a> {
    pub(crate) start: mpsc::Receiver<Start>,
    pub(crate) ends: mpsc::Receiver<Ends>,
    /// Set once nobody wants it any more.
    pub(crate) stop: &'a AtomicBool,
}

/// What is told meanwhile.
pub(crate) enum Progress<'a> {
    /// It can begin.
    Ready,
    /// A second is over.
    Window(&'a Window<'a>),
    /// Its senders are done.
    Sent(&'a Sent),
    /// It is done.
    Done(Done),
}

/// What is known at the end, beside what was sent.
pub(crate) struct Done {
    pub(crate) written: Measured,
    pub(crate) read: Measured,
    /// Of each subscription: what was seen of marks, and how many records there were.
    pub(crate) seen: Vec<(Checker, u64)>,
}

/// Longer than that a machine does not wait to be told that all begin, or where everything ends.
const GONE: &str = "whoever had it done went away";

impl Job {
    /// Does it, and tells of it.
    pub(crate) fn perform(
        self,
        told: &Told<'_>,
        tell: &mut dyn FnMut(Progress<'_>) -> Result<()>,
    ) -> Result<()> {
        let Self { run, servers, driver, workload, topics, share, phase } = self;
        ensure!(share.of < share.among, "it has no share of the load");
        // What brokers use is seen from where the run was asked for.
        let sources = Sources::default();
        let (driver, workload) = (&driver, &workload);
        let target = Target {
            servers: &servers,
            sources,
            driver,
            workload,
            stop: told.stop,
            read_for: Duration::ZERO,
        };
        let topics = Topics::known(topics, workload);
        let mut stage = Stage::of(target, share, topics, run);
        stage.must_be_ready()?;
        tell(Progress::Ready)?;
        let Start { at, shift } = told.start.recv().context(GONE)?;
        stage.shift = shift;
        let late = stage.clock.now().checked_sub(at);
        ensure!(late.is_none(), "it was told to begin {late:?} after it should have begun");
        stage.run().part(phase, at, told, tell)
    }
}

impl Stage<'_> {
    /// Fails if something is missing that would only be missed when the others have begun.
    fn must_be_ready(&self) -> Result<()> {
        payload(self.target.workload)?;
        // What is wrong with their settings, whoever makes them is told.
        drop((self.clients.producer()?, self.clients.consumer()?));
        let topics = self.clients.admin()?.describe_topics(self.topics.names().iter().cloned()).wait();
        for topic in topics {
            topic.with_context(|| {
                format!("it cannot find the topics of the run at {}", self.target.servers)
            })?;
        }
        Ok(())
    }
}

impl Run<'_> {
    fn part(
        &self,
        phase: Phase,
        at: Duration,
        told: &Told<'_>,
        tell: &mut dyn FnMut(Progress<'_>) -> Result<()>,
    ) -> Result<()> {
        // Whoever is not there any more is missed by what comes from it next, and not by what goes to it.
        let (mut written, mut read) = (Measured::default(), Measured::default());
        let mut seen = Vec::new();
        match phase {
            Phase::Both => {
                let tell = &std::cell::RefCell::new(&mut *tell);
                let show: &mut Show<'_> = &mut |window| {
                    let _ = (tell.borrow_mut())(Progress::Window(window));
                };
                let timing = Timing::of(self.target.workload, at);
                let both = self.both((timing, self.counters(false)), show, &mut |sent, watch, show| {
                    (tell.borrow_mut())(Progress::Sent(sent))?;
                    watch.until(&told.ends, &self.clock, show).context(GONE)
                })?;
                let Both { readers, written: of_senders, read: of_readers, .. } = both;
                (written, read) = (of_senders, of_readers);
                seen = readers.into_parts();
            }
            Phase::Fill => tell(Progress::Sent(&self.fill(at)?))?,
            Phase::Drain(ends) => {
                let show: &mut Show<'_> = &mut |window| {
                    let _ = tell(Progress::Window(window));
                };
                let reading = Reading::prepare(self, (at, at), false)?;
                let (readers, _) = self.drain(&reading, ends, (at, self.counters(false)), show)?;
                (read, seen) = (reading.measured(), readers.into_parts());
            }
        }
        // Times of one machine mean nothing to another.
        for measured in [&mut written, &mut read] {
            measured.last = self.shift.shared(measured.last);
        }
        tell(Progress::Done(Done { written, read, seen }))
    }
}

impl Clock {
    /// A time by it that the tags of records can tell exactly, so far from now.
    pub(crate) fn soon(&self, after: Duration) -> Duration {
        super::tag::exact(self.now() + after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everyone_is_somewhere_and_nobody_twice() {
        for among in 1..=5 {
            let shares = (0..among).map(|of| Share { of, among });
            let all: Vec<u32> =
                shares.flat_map(|share| (0..7).filter(move |number| share.has(*number))).collect();
            let mut sorted = all.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..7).collect::<Vec<_>>(), "{among}: {all:?}");
        }
    }
}
