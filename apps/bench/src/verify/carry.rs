//! What a checker saw, in pieces that fit into messages, so that another machine can go on with it.
//!
//! Nothing is left out: whoever takes all pieces of several checkers knows of each number whether it came, and
//! whether it came to two of them.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::numbers::{Numbers, Page};
use super::{Checker, Verdict, WRITERS_MAX, Writer};

/// 4 KiB each, and a third more as text.
const PAGES_OF_A_PIECE: usize = 256;
/// A topic has no more partitions in any measurement.
const PLACES_MAX: usize = 1 << 20;

/// See the module.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Piece {
    /// What was found, once among all pieces.
    verdict: Option<Verdict>,
    writer: Option<Part>,
}

/// Of one sender.
#[derive(Debug, Serialize, Deserialize)]
struct Part {
    run: u64,
    sender: u16,
    /// The first and the last number in each place, once among all its pieces.
    spans: Vec<Option<(u64, u64)>>,
    first_page: u64,
    pages: Vec<Page>,
}

impl Checker {
    /// All that it saw.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Piece> {
        let verdict = Piece { verdict: Some(self.verdict), writer: None };
        let pieces = self.writers.into_iter().flat_map(|Writer { run, sender, numbers, mut spans }| {
            let mut pages = numbers.into_pages().into_iter().peekable();
            let mut first_page = 0;
            let mut chunks = Vec::new();
            while pages.peek().is_some() {
                let pages: Vec<Page> = pages.by_ref().take(PAGES_OF_A_PIECE).collect();
                let next = first_page + pages.len() as u64;
                let part = Part { run, sender, spans: std::mem::take(&mut spans), first_page, pages };
                chunks.push(Piece { verdict: None, writer: Some(part) });
                first_page = next;
            }
            chunks
        });
        std::iter::once(verdict).chain(pieces)
    }

    /// Adds what another one saw.
    pub(crate) fn absorb_piece(&mut self, piece: Piece) -> Result<()> {
        let Piece { verdict, writer } = piece;
        let mut other = Self::new(self.run);
        other.verdict = verdict.unwrap_or_default();
        if let Some(Part { run, sender, spans, first_page, pages }) = writer {
            ensure!(spans.len() <= PLACES_MAX, "it has more than {PLACES_MAX} places");
            ensure!(self.writers.len() <= WRITERS_MAX, "more than {WRITERS_MAX} senders wrote there");
            let numbers = Numbers::of_pages(first_page, pages)?;
            other.writers.push(Writer { run, sender, numbers, spans });
        }
        self.absorb(other)
    }
}
