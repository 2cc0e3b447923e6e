//! What can be found of groups.

use std::fmt;

/// Something that no group may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupAnomaly {
    /// A member was in touch with its group, and owned a partition after another had been given it.
    TwoOwners {
        /// Which group.
        group: u32,
        /// Which partition.
        partition: i32,
        /// The one, and who was given it meanwhile.
        members: (u32, u32),
        /// For how long, milliseconds.
        ms: u64,
    },
    /// A commit was acknowledged that a member made after its partition had become another's.
    Fenced {
        /// Which group.
        group: u32,
        /// Which partition.
        partition: i32,
        /// Who made it.
        who: u32,
        /// Whose it was.
        owner: u32,
        /// What was committed.
        offset: i64,
    },
    /// A commit was acknowledged that is less than what was committed before it was made.
    CommittedBack {
        /// Which group.
        group: u32,
        /// Which partition.
        partition: i32,
        /// Who made it.
        who: u32,
        /// What was committed, and what is.
        offsets: (i64, i64),
    },
    /// A member began before what was committed when it was given the partition.
    ResumedBack {
        /// Which group.
        group: u32,
        /// Which partition.
        partition: i32,
        /// Who.
        who: u32,
        /// What was committed, and where it began.
        offsets: (i64, i64),
    },
    /// Less is told to be committed than was before that was asked.
    ToldBack {
        /// Which group.
        group: u32,
        /// Which partition.
        partition: i32,
        /// What was committed, and what is told; -1 is nothing.
        offsets: (i64, i64),
    },
    /// More is committed than anybody wanted.
    Beyond {
        /// Which group.
        group: u32,
        /// Which partition.
        partition: i32,
        /// What is.
        offset: i64,
        /// The most that a member had wanted; -1 is nothing.
        most: i64,
    },
    /// A member was given records of a partition that it did not own.
    Unowned {
        /// Which group.
        group: u32,
        /// Which partition.
        partition: i32,
        /// Who.
        who: u32,
        /// The first of them.
        offset: i64,
    },
    /// Records that no member was given.
    Undelivered {
        /// Which group.
        group: u32,
        /// Which partition.
        partition: i32,
        /// From the first to before the second.
        offsets: (i64, i64),
    },
    /// Not everything is committed, though there was time.
    Uncommitted {
        /// Which group.
        group: u32,
        /// Which partition.
        partition: i32,
        /// What is; -1 is nothing.
        offset: i64,
        /// Where the partition ends.
        end: i64,
    },
    /// Nobody was told at the end what is committed.
    Unasked {
        /// Which group.
        group: u32,
    },
    /// The history itself makes no sense.
    Nonsense {
        /// What is wrong with it.
        what: String,
    },
}

impl GroupAnomaly {
    /// What it is called.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::TwoOwners { .. } => "two owners",
            Self::Fenced { .. } => "fenced commit",
            Self::CommittedBack { .. } | Self::ResumedBack { .. } | Self::ToldBack { .. } => {
                "commit went back"
            }
            Self::Beyond { .. } => "commit from nowhere",
            Self::Unowned { .. } => "not owned",
            Self::Undelivered { .. } => "undelivered",
            Self::Uncommitted { .. } => "uncommitted",
            Self::Unasked { .. } => "unasked",
            Self::Nonsense { .. } => "nonsense",
        }
    }
}

impl fmt::Display for GroupAnomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoOwners { group, partition, members: (one, other), ms } => {
                let of = Of(*group, *partition);
                write!(f, "{one} owned {of} for {ms} ms after {other} had been given it, and was in touch")
            }
            Self::Fenced { group, partition, who, owner, offset } => {
                let of = Of(*group, *partition);
                write!(f, "{who} committed {of}@{offset}, which had become {owner}'s")
            }
            Self::CommittedBack { group, partition, who, offsets: (before, after) } => {
                let of = Of(*group, *partition);
                write!(f, "{who} committed {of}@{after}, where {before} was committed")
            }
            Self::ResumedBack { group, partition, who, offsets: (before, after) } => {
                let of = Of(*group, *partition);
                write!(f, "{who} began to read {of} at {after}, where {before} was committed")
            }
            Self::ToldBack { group, partition, offsets: (before, after) } => {
                let of = Of(*group, *partition);
                write!(f, "{of}@{after} is told to be committed, where {before} was before")
            }
            Self::Beyond { group, partition, offset, most } => {
                let of = Of(*group, *partition);
                write!(f, "{of}@{offset} is committed, but nobody had wanted more than {most}")
            }
            Self::Unowned { group, partition, who, offset } => {
                write!(f, "{who} was given {}@{offset}, and does not own it", Of(*group, *partition))
            }
            Self::Undelivered { group, partition, offsets: (from, to) } => {
                write!(f, "no member was given {}@{from}..{to}", Of(*group, *partition))
            }
            Self::Uncommitted { group, partition, offset, end } => {
                write!(f, "{} is committed up to {offset} of {end}", Of(*group, *partition))
            }
            Self::Nonsense { what } => f.write_str(what),
            Self::Unasked { group } => write!(f, "group {group} was not asked at the end"),
        }
    }
}

/// A partition of a group, for people.
struct Of(u32, i32);

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {}, {}", self.0, self.1)
    }
}
