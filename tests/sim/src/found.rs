//! What a restart had to find, and what it found.

use std::path::PathBuf;

use base::{LeaderEpoch, Offset};
use storage::{OpenError, ProducerView};

use crate::model::Model;

/// The edges of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Edges {
    /// The first offset.
    pub start: Offset,
    /// The next offset.
    pub end: Offset,
}

/// What a log knows, in a form that can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// Start and end.
    pub edges: Edges,
    /// Leader epochs and where they began.
    pub epochs: Vec<(LeaderEpoch, Offset)>,
    /// Producers.
    pub producers: Vec<ProducerView>,
}

/// How the server went down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// In order; everything is on the media.
    Clean,
    /// The process was killed; the page cache stays.
    Killed,
    /// The power was cut.
    PowerCut,
}

/// What a restart had to find, and what it found.
#[derive(Debug, Clone)]
pub struct Restart {
    /// How the server went down.
    pub stop: Stop,
    /// What was written, what was only being written included.
    pub history: Model,
    /// Up to where batches must be there.
    pub must_end: Offset,
    /// Between which offsets the log must start.
    pub start: (Offset, Offset),
    /// Where the log may begin anew, empty.
    pub empty_at: Vec<Offset>,
    /// The least that the recovery point can have been; 0 if the log starts behind it.
    pub recovery_point: Offset,
    /// Up to where the files hold what was written.
    pub intact: Offset,
    /// Whether the disk broke a promise.
    pub harmed: bool,
    /// What was found.
    pub found: Found,
}

/// What a restart found.
#[derive(Debug, Clone)]
pub enum Found {
    /// A log.
    Opened {
        /// What it knows.
        state: State,
        /// Its records, or why they cannot be read.
        content: Result<Vec<u8>, String>,
        /// What it knows when it is recovered once more, if that was tried.
        again: Option<State>,
        /// Up to where its records are on the media.
        on_media: Offset,
    },
    /// Durable records are damaged, says the log.
    Quarantined {
        /// What it says.
        error: OpenError,
        /// A file of records that it changed all the same.
        changed: Option<PathBuf>,
    },
    /// It could not be opened.
    Refused {
        /// Why.
        error: String,
    },
}

impl Restart {
    /// Whether what was found is a prefix of what was written, long enough.
    pub fn judge(&self) -> Result<(), String> {
        let (state, content, on_media) = match &self.found {
            Found::Opened { state, content, on_media, .. } => (state, content, *on_media),
            Found::Quarantined { .. } if self.harmed => return Ok(()),
            Found::Quarantined { error, .. } => return Err(format!("nothing is damaged, and yet: {error}")),
            Found::Refused { error } => return Err(format!("cannot be opened: {error}")),
        };
        let Edges { start, end } = state.edges;
        let must_end = if self.harmed { self.must_end.min(self.intact) } else { self.must_end };
        if end < must_end {
            return Err(format!("the log ends at {end}, but {must_end} was promised"));
        }
        if start == end && self.empty_at.contains(&start) {
            return Ok(());
        }
        if end > self.history.end || !self.history.is_boundary(end) {
            return Err(format!("the log ends at {end}, where no batch that was written ends"));
        }
        // Damage that recovery had no reason to meet is the reader's to find, by the checksum.
        let known = if self.harmed { end.min(self.intact) } else { end };
        if on_media < known {
            return Err(format!("the log ends at {end}, and on the media at {on_media}"));
        }
        let expected = self.history.bytes(start.min(known), known);
        match content {
            Ok(content) if content.starts_with(&expected) => Ok(()),
            Ok(_) => Err(format!("the records of {start}..{known} are not those that were written")),
            Err(_) if self.harmed => Ok(()),
            Err(error) => Err(format!("the records of {start}..{end} cannot be read: {error}")),
        }
    }

    /// Whether batches are gone that were promised, because damage was cut.
    pub(crate) fn is_shorter_than_promised(&self) -> bool {
        matches!(&self.found, Found::Opened { state, .. } if state.edges.end < self.must_end)
    }

    /// Whether the log has damage in it that recovery did not meet, be it before its start: producers are
    /// found again from there, too.
    pub(crate) fn is_undetected(&self) -> bool {
        match &self.found {
            Found::Opened { state: State { edges, .. }, .. } => self.harmed && self.intact < edges.end,
            Found::Quarantined { .. } | Found::Refused { .. } => false,
        }
    }
}

/// A byte that rotted, so that it can be made good again.
#[derive(Debug, Clone)]
pub struct Rotten {
    /// In which file.
    pub path: PathBuf,
    /// Where.
    pub position: usize,
    /// Which bits.
    pub mask: u8,
    /// Whether a restart may write down what it made of it, so that it cannot be made good.
    pub lasts: bool,
}
