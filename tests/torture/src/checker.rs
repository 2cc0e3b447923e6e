//! Says what a history has that no log may have. No I/O, no clock: lines in, a verdict out.
//!
//! ```text
//!   ok  ────────┐ claims (partition, offset) = value      one value at an offset, ever      I2
//!   polls ──────┤                                         one offset of a value             I4
//!   final reads ┘                                         what was acknowledged is there    I1
//!   members ────── own, read, commit                      one owner, nothing goes back      I11
//! ```
//!
//! All sends are looked at first, so it does not matter whether a writer in another process wrote down its
//! sends before a reader wrote down what it saw. Then each line is looked at once, in their order, and at
//! last each value and each offset: O(n log n).
//!
//! An *info* send may be in the log or not; neither is wrong. A send that *failed* must not be.

mod anomaly; // what can be found
mod log; // what is claimed of a partition's offsets
mod readers; // what a reader may see next
mod sends; // what is known of each value
mod sequences; // what brokers promise idempotent producers

mod groups; // what a group may do

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

pub use anomaly::{Anomaly, Found, Kind, Source, Value};
pub use groups::{GroupAnomaly, GroupCounts};

use crate::history::{Event, Line, Run, Sent};
use log::Log;
use readers::Readers;
use sends::{Outcome, Sends};
use sequences::Sequences;

/// What was counted on the way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Values that producers were about to send.
    pub sent: u64,
    /// Of those: acknowledged.
    pub acknowledged: u64,
    /// Of those: nobody knows.
    pub unknown: u64,
    /// Of those whose fate nobody knew: found in the log.
    pub unknown_found: u64,
    /// Of those: refused, and not written.
    pub failed: u64,
    /// Values that are at another offset too, because their producer sent them again under a new epoch.
    pub resent: u64,
    /// Records that readers were given, final reads included.
    pub polled: u64,
    /// Records in the logs at the end.
    pub logged: u64,
    /// What members of groups did.
    pub groups: GroupCounts,
}

/// What the checker says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What it counted.
    pub counts: Counts,
    /// What must not be.
    pub found: Found,
}

/// Looks at a history.
pub fn check(lines: &[Line]) -> Verdict {
    let mut checker = Checker::default();
    for line in lines {
        checker.sends.take_down(&line.event, &mut checker.found);
    }
    for line in lines {
        checker.look_at(&line.event);
    }
    let (groups, found) = groups::check(lines);
    found.into_iter().for_each(|of| checker.found.add(Anomaly::Group(of)));
    let mut verdict = checker.settle();
    verdict.counts.groups = groups;
    verdict
}

#[derive(Default)]
struct Checker {
    sends: Sends,
    readers: Readers,
    logs: BTreeMap<i32, Log>,
    sequences: Sequences,
    polled: u64,
    resent: u64,
    found: Found,
}

impl Checker {
    fn look_at(&mut self, event: &Event) {
        match event {
            Event::Ok { sent, offset: Some(offset) } => self.acknowledged(sent, *offset),
            Event::Assign { who, partition, offset } => self.readers.assign(*who, *partition, *offset),
            Event::Poll { who, partition, runs } => {
                runs.iter().for_each(|run| self.polled(*who, *partition, run));
            }
            Event::Corrupt { who, partition, offset, why } => {
                let why = why.clone();
                self.found.add(Anomaly::Corrupt { who: *who, partition: *partition, offset: *offset, why });
            }
            Event::Refused { who, partition, offset, why } => {
                let why = why.clone();
                self.found.add(Anomaly::Refused { who: *who, partition: *partition, offset: *offset, why });
            }
            Event::Batch { .. } => self.sequences.look_at(event, &mut self.found),
            Event::Final { who, partition, end } => self.read_up_to(*who, *partition, *end),
            // Taken down before.
            Event::Producer { .. } | Event::Invoke(_) | Event::Ok { offset: None, .. } => {}
            Event::Info { .. } | Event::Fail { .. } => {}
            Event::Reader { .. } | Event::Fault { .. } => {}
            // Looked at in the order of their times.
            Event::Member { .. } | Event::Leaving { .. } | Event::Gone { .. } => {}
            Event::Assigned { .. } | Event::Revoked { .. } | Event::Lost { .. } => {}
            Event::Commit { .. } | Event::Committed { .. } | Event::Uncommitted { .. } => {}
            Event::Told { .. } | Event::Away { .. } | Event::Back { .. } => {}
        }
    }

    fn acknowledged(&mut self, sent: &Sent, offset: i64) {
        for index in 0..u64::from(sent.count) {
            let value = (sent.by, sent.first + index);
            self.claim(sent.partition, offset + index as i64, value, Source::Acknowledged);
        }
    }

    fn polled(&mut self, who: u32, partition: i32, run: &Run) {
        let &Run(offset, by, first, count) = run;
        self.polled += u64::from(count);
        self.readers.poll(who, partition, offset, count, &mut self.found);
        for index in 0..u64::from(count) {
            let (offset, value) = (offset + index as i64, (by, first + index));
            match self.sends.get(value) {
                None => self.found.add(Anomaly::Phantom { partition, offset, value }),
                Some(sent) if sent.partition != partition => {
                    self.found.add(Anomaly::Misplaced { partition, offset, value, sent_to: sent.partition });
                }
                Some(_) => {}
            }
            self.claim(partition, offset, value, Source::Polled(who));
        }
    }

    /// Somebody says that a value is at an offset.
    fn claim(&mut self, partition: i32, offset: i64, value: (u32, u64), source: Source) {
        let log = self.logs.entry(partition).or_default();
        match log.claim(offset, value, source) {
            log::Claim::New => match self.sends.place(value, offset) {
                None => {}
                Some((_, true)) => self.resent += 1,
                Some((other, false)) => {
                    self.found.add(Anomaly::Duplicate { partition, value, offsets: (other, offset) });
                }
            },
            log::Claim::Known => {}
            log::Claim::Other(other) => {
                let values = (other, value);
                self.found.add(Anomaly::Inconsistent { partition, offset, values, source });
            }
        }
    }

    fn read_up_to(&mut self, who: u32, partition: i32, end: i64) {
        let reached = self.readers.position(who, partition);
        if reached != Some(end) {
            self.found.add(Anomaly::Short { who, partition, reached: reached.unwrap_or(0), end });
        }
        self.logs.entry(partition).or_default().read_finally(who, end);
    }

    /// What can be said only when everything is known.
    fn settle(mut self) -> Verdict {
        let mut counts = Counts { polled: self.polled, resent: self.resent, ..Counts::default() };
        for (partition, log) in &self.logs {
            let Some(end) = log.final_end() else { continue };
            counts.logged += end.max(0) as u64;
            for (offset, value) in log.seen_and_gone() {
                self.found.add(Anomaly::Vanished { partition: *partition, offset, value });
            }
        }
        let Self { sends, logs, found, .. } = &mut self;
        for partition in sends.partitions() {
            if logs.get(partition).is_none_or(|log| log.final_end().is_none()) {
                found.add(Anomaly::Unread { partition: *partition });
            }
        }
        for (value, sent) in sends.each() {
            counts.sent += 1;
            match sent.outcome {
                Outcome::Acknowledged(offset) => {
                    counts.acknowledged += 1;
                    let Some(log) = logs.get(&sent.partition).filter(|log| log.final_end().is_some()) else {
                        continue;
                    };
                    // Where it is said to be; anywhere, if nobody said.
                    let at = offset.or(sent.place);
                    if at.is_none_or(|at| !log.has_finally(at, value)) {
                        found.add(Anomaly::Lost { partition: sent.partition, offset, value });
                    }
                }
                Outcome::Open | Outcome::Unknown => {
                    counts.unknown += 1;
                    counts.unknown_found += u64::from(sent.place.is_some());
                }
                Outcome::Failed => {
                    counts.failed += 1;
                    if let Some(offset) = sent.place {
                        found.add(Anomaly::FailedAppears { partition: sent.partition, offset, value });
                    }
                }
            }
        }
        sends.reordered(found);
        Verdict { counts, found: self.found }
    }
}
