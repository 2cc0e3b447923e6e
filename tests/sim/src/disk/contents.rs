//! One file: what the page cache shows, and what the media would give back after a power cut.
//!
//! ```text
//!   cached  |aaaaaaaa|bbbbbbbb|cccccccc|cc      every read
//!   media   |aaaaaaaa|........|cccccccc|        after a power cut; the second sector is still dirty
//! ```
//!
//! Length and bytes become durable separately: a length without its bytes reads as zeroes, bytes
//! without their length are gone.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::random::Random;

/// The unit that a drive writes whole.
pub const SECTOR_BYTES: usize = 512;
/// The unit in which the page cache is written back.
pub const PAGE_BYTES: usize = 4096;
const SECTORS_PER_PAGE: usize = PAGE_BYTES / SECTOR_BYTES;

/// How a power cut treats what was not behind a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerCut {
    /// Chances in a thousand that a dirty unit, a length or a name was written all the same.
    pub kept_per_thousand: u32,
    /// Whether pages tear: each of their sectors is decided alone.
    pub torn: bool,
    /// Whether a sector that was allocated but not written shows old rubbish in place of zeroes.
    pub rubbish: bool,
}

/// The two sides of one file.
#[derive(Debug, Clone, Default)]
pub(super) struct Contents {
    cached: Vec<u8>,
    /// May reach beyond `media_len`: bytes that were written back before their length was.
    media: Vec<u8>,
    media_len: usize,
    /// Sectors whose cached bytes are not on the media.
    dirty: BTreeSet<usize>,
    /// Every length since `media_len`, oldest first.
    lens: Vec<usize>,
}

impl Contents {
    /// What the page cache shows.
    pub(super) fn cached(&self) -> &[u8] {
        &self.cached
    }

    /// What is certain to be there after a power cut.
    pub(super) fn on_media(&self) -> &[u8] {
        &self.media[..self.media_len.min(self.media.len())]
    }

    /// Whether a power cut could take something away.
    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || !self.lens.is_empty()
    }

    /// Writes into the page cache; a gap before `position` becomes zeroes.
    pub(super) fn write(&mut self, position: usize, bytes: &[u8]) {
        let end = position + bytes.len();
        let changed = position.min(self.cached.len())..end;
        if end > self.cached.len() {
            self.cached.resize(end, 0);
            self.lens.push(end);
        }
        self.cached[position..end].copy_from_slice(bytes);
        self.soil(changed);
    }

    /// Cuts, or grows with zeroes, in the page cache.
    pub(super) fn set_len(&mut self, len: usize) {
        if len == self.cached.len() {
            return;
        }
        let old = self.cached.len();
        self.cached.resize(len, 0);
        self.lens.push(len);
        self.dirty.retain(|&sector| sector * SECTOR_BYTES < len);
        if len > old {
            self.soil(old..len);
        } else if !len.is_multiple_of(SECTOR_BYTES) {
            self.soil(len - 1..len);
        }
    }

    /// The barrier: everything is on the media.
    pub(super) fn sync(&mut self) {
        self.commit_lens(self.lens.len());
        for sector in std::mem::take(&mut self.dirty) {
            self.write_back(sector);
        }
        self.media.resize(self.media_len, 0);
    }

    /// The barrier that fails: some sectors reach the media, and the kernel forgets that the others
    /// were dirty, so that the next barrier says yes to what is not there.
    pub(super) fn fail_sync(&mut self, random: &mut Random) {
        for sector in std::mem::take(&mut self.dirty) {
            if random.chance(500) {
                self.write_back(sector);
            } else if random.chance(500) {
                self.evict(sector);
            }
        }
    }

    /// Reads from `position` on show what the media has, but for what is dirty.
    pub(super) fn forget_cached(&mut self, position: usize) {
        let sectors = self.cached.len().div_ceil(SECTOR_BYTES);
        let clean = (position / SECTOR_BYTES..sectors).filter(|sector| !self.dirty.contains(sector));
        clean.collect::<Vec<_>>().into_iter().for_each(|sector| self.evict(sector));
    }

    /// A barrier after which one sector is not on the media although the drive said so.
    pub(super) fn sync_but_one(&mut self, random: &mut Random) -> Option<Range<usize>> {
        self.commit_lens(self.lens.len());
        let sectors: Vec<usize> = self.dirty.iter().copied().collect();
        let lost = *sectors.get(random.index(sectors.len()))?;
        self.dirty.remove(&lost);
        self.sync();
        Some(self.sector(lost))
    }

    /// A barrier that writes one sector's bytes in the place of another's.
    pub(super) fn sync_misdirected(&mut self, random: &mut Random) -> Option<Range<usize>> {
        let lost = self.sync_but_one(random)?;
        let sectors = self.media_len.div_ceil(SECTOR_BYTES);
        let hit = self.sector(random.index(sectors));
        let bytes = self.cached[lost.clone()].to_vec();
        let len = bytes.len().min(hit.len());
        self.media[hit.start..hit.start + len].copy_from_slice(&bytes[..len]);
        Some(lost.start.min(hit.start)..lost.end.max(hit.end))
    }

    /// Writeback nobody asked for: some dirty sectors and some lengths become durable.
    pub(super) fn write_back_some(&mut self, random: &mut Random) {
        let sectors: Vec<usize> = self.dirty.iter().copied().collect();
        for sector in sectors {
            if random.chance(300) {
                self.dirty.remove(&sector);
                self.write_back(sector);
            }
        }
        if !self.lens.is_empty() && random.chance(300) {
            self.commit_lens(random.index(self.lens.len()) + 1);
        }
    }

    /// The power goes and comes back: what is cached now is what the media gave back.
    pub(super) fn cut_power(&mut self, cut: PowerCut, random: &mut Random) {
        let kept_lens = match cut.kept_per_thousand {
            0 => 0,
            1000.. => self.lens.len(),
            _ => random.index(self.lens.len() + 1),
        };
        self.commit_lens(kept_lens);
        let mut kept_page = (usize::MAX, false);
        for sector in std::mem::take(&mut self.dirty) {
            let page = sector / SECTORS_PER_PAGE;
            if cut.torn || kept_page.0 != page {
                kept_page = (page, random.chance(cut.kept_per_thousand));
            }
            if kept_page.1 {
                self.write_back(sector);
            } else if cut.rubbish && sector * SECTOR_BYTES >= self.media.len() {
                self.fill(sector, random);
            }
        }
        self.media.resize(self.media_len, 0);
        self.cached.clone_from(&self.media);
        self.lens.clear();
    }

    /// Rot: bytes change at rest, in the media and in what is read from it.
    pub(super) fn rot(&mut self, position: usize, mask: u8) {
        for side in [&mut self.media, &mut self.cached] {
            if let Some(byte) = side.get_mut(position) {
                *byte ^= mask;
            }
        }
    }

    fn soil(&mut self, bytes: Range<usize>) {
        if !bytes.is_empty() {
            self.dirty.extend(bytes.start / SECTOR_BYTES..=(bytes.end - 1) / SECTOR_BYTES);
        }
    }

    /// Makes the `count` oldest lengths durable. Where one of them is a cut, the media behind it is
    /// free again, and what was written there since has to be written once more.
    fn commit_lens(&mut self, count: usize) {
        let Some(&last) = self.lens[..count].last() else { return };
        let lowest = self.lens[..count].iter().copied().min().unwrap_or(last);
        if lowest < self.media.len() {
            let stale = lowest..self.media.len().min(self.cached.len());
            self.media.truncate(lowest);
            if stale.start < stale.end {
                self.soil(stale);
            }
        }
        self.media_len = last;
        self.lens.drain(..count);
    }

    fn sector(&self, sector: usize) -> Range<usize> {
        let start = sector * SECTOR_BYTES;
        start..(start + SECTOR_BYTES).min(self.cached.len()).max(start)
    }

    fn write_back(&mut self, sector: usize) {
        let range = self.sector(sector);
        let whole = (range.start + SECTOR_BYTES).max(range.end);
        if self.media.len() < whole {
            self.media.resize(whole, 0);
        }
        self.media[range.start..whole].fill(0);
        self.media[range.clone()].copy_from_slice(&self.cached[range]);
    }

    /// Drops the cached bytes, so that reads see what the media has.
    fn evict(&mut self, sector: usize) {
        for position in self.sector(sector) {
            self.cached[position] = self.media.get(position).copied().unwrap_or(0);
        }
    }

    fn fill(&mut self, sector: usize, random: &mut Random) {
        let start = sector * SECTOR_BYTES;
        self.media.resize(start, 0);
        self.media.extend((0..SECTOR_BYTES).map(|_| random.bits() as u8));
    }
}

#[cfg(test)]
mod tests;
