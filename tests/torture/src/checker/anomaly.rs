//! What can be found, and how much of it is kept.

use std::collections::BTreeMap;
use std::fmt;

use super::GroupAnomaly;

/// A value: who wrote it, and its number.
pub type Value = (u32, u64);

/// Who says what is at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The acknowledgement of a producer.
    Acknowledged,
    /// This reader.
    Polled(u32),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acknowledged => f.write_str("its producer"),
            Self::Polled(who) => write!(f, "reader {who}"),
        }
    }
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// Acknowledged, and not in the log at the end.
    Lost {
        /// Where.
        partition: i32,
        /// At which offset it was acknowledged, if its producer was told.
        offset: Option<i64>,
        /// What.
        value: Value,
    },
    /// A reader saw it, and it is not in the log at the end.
    Vanished {
        /// Where.
        partition: i32,
        /// At which offset it was seen.
        offset: i64,
        /// What.
        value: Value,
    },
    /// One value of an idempotent producer at two offsets.
    Duplicate {
        /// Where.
        partition: i32,
        /// What.
        value: Value,
        /// The offsets.
        offsets: (i64, i64),
    },
    /// Acknowledged values of an idempotent producer that lie in another order than they were sent in.
    Reordered {
        /// Where.
        partition: i32,
        /// The values in the order they were sent in.
        values: (Value, Value),
        /// Their offsets.
        offsets: (i64, i64),
    },
    /// A batch that an idempotent producer's sequence forbids: repeated, out of order, or of an old epoch.
    OutOfSequence {
        /// Where.
        partition: i32,
        /// At which offset.
        offset: i64,
        /// The producer's id and epoch.
        producer: (i64, i16),
        /// The sequence of its first record.
        sequence: i32,
        /// The epoch and sequence that were due.
        due: (i16, i32),
    },
    /// Two values at one offset.
    Inconsistent {
        /// Where.
        partition: i32,
        /// At which offset.
        offset: i64,
        /// The values, in the order they were claimed in.
        values: (Value, Value),
        /// Who claims the second.
        source: Source,
    },
    /// A value that nobody sent.
    Phantom {
        /// Where.
        partition: i32,
        /// At which offset.
        offset: i64,
        /// What.
        value: Value,
    },
    /// A value in a partition that it was not sent to.
    Misplaced {
        /// Where it is.
        partition: i32,
        /// At which offset.
        offset: i64,
        /// What.
        value: Value,
        /// Where it was sent.
        sent_to: i32,
    },
    /// A value of which the producer was told that it is not written.
    FailedAppears {
        /// Where.
        partition: i32,
        /// At which offset.
        offset: i64,
        /// What.
        value: Value,
    },
    /// A reader that was to read on without a gap passed over records.
    Skipped {
        /// Who.
        who: u32,
        /// Where.
        partition: i32,
        /// What was to come next, and what came.
        offsets: (i64, i64),
    },
    /// A reader that was to read on went back.
    WentBack {
        /// Who.
        who: u32,
        /// Where.
        partition: i32,
        /// What was to come next, and what came.
        offsets: (i64, i64),
    },
    /// A reader was told that a place it had reached is not in the log.
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
    /// Bytes that nobody wrote.
    Corrupt {
        /// Who read them.
        who: u32,
        /// Where.
        partition: i32,
        /// At which offset.
        offset: i64,
        /// What is wrong.
        why: String,
    },
    /// Nobody read the partition after everything was healed.
    Unread {
        /// Which.
        partition: i32,
    },
    /// The last read did not come to the end.
    Short {
        /// Who.
        who: u32,
        /// Where.
        partition: i32,
        /// How far it came.
        reached: i64,
        /// Where the end is.
        end: i64,
    },
    /// Something that no group may do.
    Group(GroupAnomaly),
    /// The history itself makes no sense: a fault of the harness or of a client.
    Nonsense {
        /// What is wrong with it.
        what: String,
    },
}

impl Anomaly {
    /// What it is called.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Lost { .. } => "lost",
            Self::Vanished { .. } => "vanished",
            Self::Duplicate { .. } => "duplicate",
            Self::Reordered { .. } => "reordered",
            Self::OutOfSequence { .. } => "out of sequence",
            Self::Inconsistent { .. } => "inconsistent",
            Self::Phantom { .. } => "phantom",
            Self::Misplaced { .. } => "misplaced",
            Self::FailedAppears { .. } => "failed appears",
            Self::Skipped { .. } => "skipped",
            Self::WentBack { .. } => "went back",
            Self::Refused { .. } => "refused",
            Self::Corrupt { .. } => "corrupt",
            Self::Unread { .. } => "unread",
            Self::Short { .. } => "short",
            Self::Group(of) => of.kind(),
            Self::Nonsense { .. } => "nonsense",
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |(by, number): Value| format!("{by}:{number}");
        match self {
            Self::Lost { partition, offset: Some(offset), value } => {
                write!(f, "{} was acknowledged at {partition}@{offset} and is not there", name(*value))
            }
            Self::Lost { partition, offset: None, value } => {
                write!(f, "{} was acknowledged in {partition} and is not there", name(*value))
            }
            Self::Vanished { partition, offset, value } => {
                write!(f, "{} was read at {partition}@{offset} and is not there", name(*value))
            }
            Self::Duplicate { partition, value, offsets: (a, b) } => {
                write!(f, "{} is at {partition}@{a} and at {b}", name(*value))
            }
            Self::Reordered { partition, values: (a, b), offsets: (at_a, at_b) } => {
                write!(f, "{} is at {partition}@{at_a}, but the later {} at {at_b}", name(*a), name(*b))
            }
            Self::OutOfSequence { partition, offset, producer: (id, epoch), sequence, due } => {
                let (of, next) = due;
                write!(
                    f,
                    "{partition}@{offset} is {sequence} of epoch {epoch} of producer id {id}, but {next} of epoch {of} was due"
                )
            }
            Self::Inconsistent { partition, offset, values: (a, b), source } => {
                write!(f, "{partition}@{offset} was {}, and is {} for {source}", name(*a), name(*b))
            }
            Self::Phantom { partition, offset, value } => {
                write!(f, "{} at {partition}@{offset} was never sent", name(*value))
            }
            Self::Misplaced { partition, offset, value, sent_to } => {
                write!(f, "{} at {partition}@{offset} was sent to partition {sent_to}", name(*value))
            }
            Self::FailedAppears { partition, offset, value } => {
                write!(f, "{} at {partition}@{offset} was said not to be written", name(*value))
            }
            Self::Skipped { who, partition, offsets: (due, came) } => {
                write!(f, "reader {who} was to read {partition}@{due} and was given {came}")
            }
            Self::WentBack { who, partition, offsets: (due, came) } => {
                write!(f, "reader {who} had read {partition} up to {due} and was given {came}")
            }
            Self::Refused { who, partition, offset, why } => {
                write!(f, "reader {who} had come to {partition}@{offset}: {why}")
            }
            Self::Corrupt { who, partition, offset, why } => {
                write!(f, "reader {who} at {partition}@{offset}: {why}")
            }
            Self::Unread { partition } => write!(f, "partition {partition} was not read at the end"),
            Self::Short { who, partition, reached, end } => {
                write!(f, "reader {who} read {partition} up to {reached} of {end}")
            }
            Self::Group(of) => of.fmt(f),
            Self::Nonsense { what } => f.write_str(what),
        }
    }
}

/// Of each kind, how many there are and the first of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    kinds: BTreeMap<&'static str, Kind>,
}

/// Anomalies of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Vec<Anomaly>,
}

/// Who has seen so many has seen enough.
const KEPT_MAX: usize = 20;

impl Found {
    /// One more.
    pub fn add(&mut self, anomaly: Anomaly) {
        let kind = self.kinds.entry(anomaly.kind()).or_default();
        kind.count += 1;
        if kind.first.len() < KEPT_MAX {
            kind.first.push(anomaly);
        }
    }

    /// How many of a kind.
    pub fn count(&self, kind: &str) -> u64 {
        self.kinds.get(kind).map_or(0, |kind| kind.count)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// By kind.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &Kind)> {
        self.kinds.iter().map(|(name, kind)| (*name, kind))
    }

    /// All but these kinds.
    #[must_use]
    pub fn without(&self, kinds: &[&str]) -> Self {
        let left = self.kinds.iter().filter(|(name, _)| !kinds.contains(name));
        Self { kinds: left.map(|(name, kind)| (*name, kind.clone())).collect() }
    }
}
