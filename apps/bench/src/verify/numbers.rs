//! A set of numbers that come almost in order.

use std::ops::Range;

use anyhow::{Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A set of numbers that come almost in order: bits, in pages, of which those that are full need no room.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    pages: Vec<Page>,
    /// Pages that take room.
    open: usize,
    /// One above the highest.
    end: u64,
}

#[derive(Debug, Default)]
pub(super) enum Page {
    #[default]
    Empty,
    Open(Box<Bits>),
    Full,
}

#[derive(Debug)]
pub(super) struct Bits {
    words: [u64; PAGE_NUMBERS / 64],
    count: usize,
}

pub(super) const PAGE_NUMBERS: usize = 1 << 15;
/// 4 KiB each: 256 MiB. Records that are read in any order, but from the front of each partition, leave
/// only those pages open that some partition has not reached.
const OPEN_MAX: usize = 1 << 16;
/// 16 bytes each: 64 MiB, and 137 thousand million records.
const PAGES_MAX: u64 = 1 << 22;

impl Page {
    /// One above the highest in it, if there is any.
    fn end((place, page): (usize, &Self)) -> Option<u64> {
        let within = match page {
            Self::Empty => return None,
            Self::Full => PAGE_NUMBERS as u64,
            Self::Open(bits) => {
                let (at, word) = bits.words.iter().enumerate().rev().find(|(_, word)| **word != 0)?;
                at as u64 * 64 + 64 - u64::from(word.leading_zeros())
            }
        };
        Some((place * PAGE_NUMBERS) as u64 + within)
    }

    /// The lowest that is in both.
    fn first_of_both(&self, other: &Self) -> Option<usize> {
        let word = |page: &Self, at: usize| match page {
            Self::Empty => 0,
            Self::Open(bits) => bits.words[at],
            Self::Full => u64::MAX,
        };
        let both = (0..PAGE_NUMBERS / 64).map(|at| (at, word(self, at) & word(other, at)));
        let (at, word) = both.into_iter().find(|(_, word)| *word != 0)?;
        Some(at * 64 + word.trailing_zeros() as usize)
    }

    fn absorb(&mut self, other: Self) -> u64 {
        let both = match (&mut *self, other) {
            (_, Self::Empty) => return 0,
            (Self::Empty, other) => {
                *self = other;
                return 0;
            }
            (Self::Full, Self::Full) => return PAGE_NUMBERS as u64,
            (Self::Full, Self::Open(others)) => return others.count as u64,
            (Self::Open(mine), Self::Full) => mine.count,
            (Self::Open(mine), Self::Open(others)) => {
                let before = mine.count + others.count;
                for (word, other) in mine.words.iter_mut().zip(others.words) {
                    *word |= other;
                }
                mine.count = mine.words.iter().map(|word| word.count_ones() as usize).sum();
                let both = before - mine.count;
                if mine.count < PAGE_NUMBERS {
                    return both as u64;
                }
                both
            }
        };
        *self = Self::Full;
        both as u64
    }
}

/// Nothing, `all`, or the bits as base64, from the lowest on.
impl Serialize for Page {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Empty => to.serialize_str(""),
            Self::Full => to.serialize_str(ALL),
            Self::Open(bits) => {
                let bytes: Vec<u8> = bits.words.iter().flat_map(|word| word.to_le_bytes()).collect();
                to.serialize_str(&BASE64_STANDARD.encode(bytes))
            }
        }
    }
}

const ALL: &str = "all";

impl<'de> Deserialize<'de> for Page {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match &*text {
            "" => return Ok(Self::Empty),
            ALL => return Ok(Self::Full),
            _ => {}
        }
        let bytes = BASE64_STANDARD.decode(text).map_err(D::Error::custom)?;
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || words.len() != PAGE_NUMBERS / 64 {
            return Err(D::Error::custom("a page has another size"));
        }
        let mut bits = Box::new(Bits { words: [0; PAGE_NUMBERS / 64], count: 0 });
        for (word, bytes) in bits.words.iter_mut().zip(words) {
            *word = u64::from_le_bytes(*bytes);
            bits.count += word.count_ones() as usize;
        }
        Ok(match bits.count {
            0 => Self::Empty,
            PAGE_NUMBERS => Self::Full,
            _ => Self::Open(bits),
        })
    }
}

impl Numbers {
    /// What is in them, from the first page on.
    pub(super) fn into_pages(self) -> Vec<Page> {
        self.pages
    }

    /// Those of these pages, the first of which is not the first of all.
    pub(super) fn of_pages(first: u64, pages: Vec<Page>) -> Result<Self> {
        let end = first.saturating_add(pages.len() as u64);
        ensure!(
            end <= PAGES_MAX,
            "record {} is further than can be verified",
            end.saturating_mul(PAGE_NUMBERS as u64)
        );
        let mut all: Vec<Page> = std::iter::repeat_with(Page::default).take(first as usize).collect();
        all.extend(pages);
        let mut numbers = Self { pages: all, open: 0, end: 0 };
        numbers.open = numbers.pages.iter().filter(|page| matches!(page, Page::Open(_))).count();
        numbers.end = numbers.pages.iter().enumerate().rev().find_map(Page::end).unwrap_or(0);
        Ok(numbers)
    }

    /// Whether it was not there before.
    #[inline]
    pub(super) fn insert(&mut self, number: u64) -> Result<bool> {
        let (page, at) = (number / PAGE_NUMBERS as u64, (number % PAGE_NUMBERS as u64) as usize);
        ensure!(page < PAGES_MAX, "record {number} is further than can be verified");
        let page = page as usize;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, Page::default);
        }
        self.end = self.end.max(number + 1);
        let Page::Open(bits) = &mut self.pages[page] else { return self.insert_anew(page, at) };
        let (word, bit) = (&mut bits.words[at / 64], 1 << (at % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        bits.count += usize::from(is_new);
        if bits.count == PAGE_NUMBERS {
            self.pages[page] = Page::Full;
            self.open -= 1;
        }
        Ok(is_new)
    }

    #[cold]
    fn insert_anew(&mut self, page: usize, at: usize) -> Result<bool> {
        if matches!(self.pages[page], Page::Full) {
            return Ok(false);
        }
        ensure!(self.open < OPEN_MAX, "the records are in too many places to be verified");
        let mut bits = Box::new(Bits { words: [0; PAGE_NUMBERS / 64], count: 1 });
        bits.words[at / 64] = 1 << (at % 64);
        self.pages[page] = Page::Open(bits);
        self.open += 1;
        Ok(true)
    }

    /// Adds others; how many were in both, and the first of them.
    pub(super) fn absorb(&mut self, other: Self) -> (u64, Option<u64>) {
        let (mut both, mut first) = (0, None);
        self.end = self.end.max(other.end);
        if self.pages.len() < other.pages.len() {
            self.pages.resize_with(other.pages.len(), Page::default);
        }
        for (place, (mine, others)) in self.pages.iter_mut().zip(other.pages).enumerate() {
            if first.is_none() {
                first = mine.first_of_both(&others).map(|within| (place * PAGE_NUMBERS + within) as u64);
            }
            both += mine.absorb(others);
        }
        self.open = self.pages.iter().filter(|page| matches!(page, Page::Open(_))).count();
        (both, first)
    }

    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let at = (number % PAGE_NUMBERS as u64) as usize;
        match self.pages.get((number / PAGE_NUMBERS as u64) as usize) {
            Some(Page::Full) => true,
            Some(Page::Open(bits)) => bits.words[at / 64] & (1 << (at % 64)) != 0,
            Some(Page::Empty) | None => false,
        }
    }

    /// How many of a range are not there, and the first of them.
    pub(super) fn missing(&self, range: Range<u64>) -> (u64, Option<u64>) {
        let (mut missing, mut first, mut at) = (0, None, range.start);
        while at < range.end {
            let page_end = (at / PAGE_NUMBERS as u64 + 1) * PAGE_NUMBERS as u64;
            let page = self.pages.get((at / PAGE_NUMBERS as u64) as usize);
            let (end, of_page) = match page {
                // Nothing lies beyond the last page.
                None => (range.end, range.end - at),
                Some(Page::Full) => (page_end.min(range.end), 0),
                Some(Page::Empty) => (page_end.min(range.end), page_end.min(range.end) - at),
                Some(Page::Open(_)) => {
                    let end = page_end.min(range.end);
                    (end, (at..end).filter(|&number| !self.contains(number)).count() as u64)
                }
            };
            if of_page > 0 && first.is_none() {
                first = (at..end).find(|&number| !self.contains(number));
            }
            missing += of_page;
            at = end;
        }
        (missing, first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_a_set() {
        let page = PAGE_NUMBERS as u64;
        let mut numbers = Numbers::default();
        for number in (0..page).rev().chain([page + 5, 3 * page]) {
            assert!(numbers.insert(number).expect("there is room"), "{number}");
            assert!(!numbers.insert(number).expect("there is room"), "{number}");
        }
        assert!(matches!(numbers.pages[..], [Page::Full, Page::Open(_), Page::Empty, Page::Open(_)]));
        assert_eq!((numbers.open, numbers.end()), (2, 3 * page + 1));
        assert_eq!(numbers.missing(0..page + 5), (5, Some(page)));
        assert_eq!(numbers.missing(10..3 * page + 1), (2 * page - 1, Some(page)));
        assert_eq!(numbers.missing(3 * page..4 * page + 2), (page + 1, Some(3 * page + 1)));
        assert_eq!(numbers.missing(9 * page..9 * page + 3), (3, Some(9 * page)));
        assert_eq!(numbers.missing(5..5), (0, None));
        // What a hostile record says costs nothing.
        assert!(numbers.insert((1 << 48) - 1).is_err());
    }
}
