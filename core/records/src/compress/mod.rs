//! Compression of records, as Java reads and writes it, never past a bound.
//!
//! | id | name   | what is written                          | what is read                      |
//! |----|--------|------------------------------------------|-----------------------------------|
//! | 1  | gzip   | one member                               | any number of members             |
//! | 2  | snappy | xerial framing, 32 KiB blocks            | xerial framing, or one raw block  |
//! | 3  | lz4    | one frame, independent blocks of 64 KiB  | one frame of independent blocks   |
//! | 4  | zstd   | one frame                                | any number of frames, window ≤ 27 |
//!
//! Bytes after the end of the data are refused: readers disagree about them, so records in them would
//! be there for some consumers and not for others.

mod gzip;
mod lz4;
mod output;
mod snappy;
mod xxh32;
mod zstd;

use std::str::FromStr;

pub(crate) use output::Output;

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// Deflate in gzip members. Levels 1 to 9, 6 by default.
    Gzip,
    /// Snappy. No levels.
    Snappy,
    /// LZ4. Levels are taken and not used: there is one encoder, the fast one.
    Lz4,
    /// Zstandard. Levels up to 22, 3 by default.
    Zstd,
}

/// An id or name that is no [`Compression`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown compression {0}")]
pub struct UnknownCompression(pub u8);

/// A name that is no [`Compression`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a compression: expected none, gzip, snappy, lz4 or zstd")]
pub struct UnknownCompressionName(String);

impl Compression {
    /// All of them, in the order of their ids.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The one with this id.
    pub fn from_id(id: u8) -> Result<Self, UnknownCompression> {
        Self::ALL.get(usize::from(id)).copied().ok_or(UnknownCompression(id))
    }

    /// Its id in the attributes of a batch.
    pub const fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// Its name in `compression.type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl FromStr for Compression {
    type Err = UnknownCompressionName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|of| of.name() == name);
        named.ok_or_else(|| UnknownCompressionName(name.chars().take(32).collect()))
    }
}

/// How far compressed bytes may grow: `ratio` times their size, but `floor` at any rate, and never
/// past `ceiling`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecompressBound {
    /// Bytes that even the smallest input may grow to.
    pub floor_bytes: usize,
    /// Times that a larger input may grow.
    pub ratio: usize,
    /// Bytes that no input may grow to more than.
    pub ceiling_bytes: usize,
}

impl Default for DecompressBound {
    /// Text in batches of a megabyte rarely shrinks to less than a fiftieth. What does has room in
    /// the floor; a bomb (zstd reaches 1:30 000) has not.
    fn default() -> Self {
        Self { floor_bytes: 16 << 20, ratio: 100, ceiling_bytes: Self::CEILING_BYTES }
    }
}

impl DecompressBound {
    /// The ceiling, if no other is asked for. A higher one than this makes batches that cannot be read.
    pub const CEILING_BYTES: usize = 256 << 20;

    /// What `compressed_bytes` may grow to.
    pub fn bytes_max(&self, compressed_bytes: usize) -> usize {
        compressed_bytes.saturating_mul(self.ratio).max(self.floor_bytes).min(self.ceiling_bytes)
    }
}

/// Why bytes cannot be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// They grow past the bound.
    #[error("they have more than the {max} bytes allowed")]
    TooLarge {
        /// The bound.
        max: usize,
    },
    /// They end too early.
    #[error("they end too early")]
    Truncated,
    /// They are not what the codec writes.
    #[error("{0}")]
    Malformed(&'static str),
}

/// What codecs keep between calls, made when first used. One per thread; starts empty.
#[derive(Default)]
pub struct Codecs {
    gzip: gzip::Gzip,
    snappy: snappy::Snappy,
    lz4: lz4::Lz4,
    zstd: zstd::Zstd,
}

impl Codecs {
    /// Appends `plain`, compressed, to `out`. A level out of the codec's range is taken for the
    /// nearest in it.
    pub fn compress(&mut self, to: Compression, level: Option<i32>, plain: &[u8], out: &mut Vec<u8>) {
        match to {
            Compression::None => out.extend_from_slice(plain),
            Compression::Gzip => self.gzip.compress(level, plain, out),
            Compression::Snappy => self.snappy.compress(plain, out),
            Compression::Lz4 => self.lz4.compress(plain, out),
            Compression::Zstd => self.zstd.compress(level, plain, out),
        }
    }

    /// Appends `packed`, decompressed, to `out`, or fails the moment that would append more than
    /// `bytes_max`; then `out` holds what came so far.
    ///
    /// `out` grows with what is really decompressed, whatever sizes `packed` declares.
    pub fn decompress(
        &mut self,
        from: Compression,
        packed: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        let mut out = Output::new(out, bytes_max);
        match from {
            Compression::None => out.append(packed),
            Compression::Gzip => self.gzip.decompress(packed, &mut out),
            Compression::Snappy => self.snappy.decompress(packed, &mut out),
            Compression::Lz4 => self.lz4.decompress(packed, &mut out),
            Compression::Zstd => self.zstd.decompress(packed, &mut out),
        }
    }
}

/// Room for the records of one compressed batch at a time, and the codecs' own; reused.
#[derive(Default)]
pub struct Scratch {
    pub(crate) codecs: Codecs,
    pub(crate) records: Vec<u8>,
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

/// Room that a scratch keeps after a batch. Larger ones are rare, and one would hold a thread's
/// memory for ever.
const KEPT_BYTES: usize = 4 << 20;

impl Scratch {
    /// The codecs, for bytes that are not a batch.
    pub const fn codecs(&mut self) -> &mut Codecs {
        &mut self.codecs
    }

    /// Decompresses `packed` into the scratch.
    pub(crate) fn decompress(
        &mut self,
        from: Compression,
        packed: &[u8],
        bytes_max: usize,
    ) -> Result<&[u8], DecompressError> {
        self.records.clear();
        self.codecs.decompress(from, packed, bytes_max, &mut self.records)?;
        Ok(&self.records)
    }

    /// Gives back the room of a batch that was larger than most.
    pub(crate) fn give_back(&mut self) {
        if self.records.capacity() > KEPT_BYTES {
            self.records = Vec::new();
        }
    }

    /// Appends `packed`, in another compression, to `out`.
    pub(crate) fn recompress(
        &mut self,
        (from, to): (Compression, Compression),
        level: Option<i32>,
        packed: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        if from == Compression::None {
            if packed.len() > bytes_max {
                return Err(DecompressError::TooLarge { max: bytes_max });
            }
            self.codecs.compress(to, level, packed, out);
            return Ok(());
        }
        let decompressed = self.decompress(from, packed, bytes_max).map(<[u8]>::len);
        if decompressed.is_ok() {
            self.codecs.compress(to, level, &self.records, out);
        }
        self.give_back();
        decompressed.map(|_| ())
    }
}

#[cfg(test)]
mod tests;
