//! What is sent back: bytes, and ranges of files between them that are never copied here.

use std::fmt::Debug;
use std::io;
use std::sync::Arc;

/// A file that parts of an answer lie in.
pub trait SendFile: Send + Sync + Debug {
    /// The operating system's number for it, which stays open and stays this file's for as long as
    /// the object lives; `None` if there is none, then the bytes are read.
    fn descriptor(&self) -> Option<i32>;
    /// Reads from `position` until the buffer is full or the file ends; how many bytes were read.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;
    /// A part of it that was promised could not be sent: it cannot be read, or is not there.
    fn on_unreadable(&self);
}

/// A part of a file.
#[derive(Debug, Clone)]
pub struct FileRange {
    /// The file.
    pub file: Arc<dyn SendFile>,
    /// Where the part begins.
    pub position: u64,
    /// How long it is.
    pub len: u32,
}

impl FileRange {
    /// The file, as messages name it.
    pub(crate) fn name(&self) -> String {
        format!("{:?}", self.file)
    }
}

/// One answer, its four bytes of length included.
///
/// ```text
///   bytes   |size header partition 0|partition 1|tail|
///                                   ▲           ▲
///   files                        range       range      each at a place in `bytes`, in order
/// ```
#[derive(Debug, Default)]
pub struct Answer {
    /// Everything that is not in a file.
    pub bytes: Vec<u8>,
    /// File ranges, each with the place in `bytes` before which it is sent; places never go back.
    pub files: Vec<(usize, FileRange)>,
}

impl Answer {
    /// An answer without file ranges.
    pub fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, files: Vec::new() }
    }

    /// How many bytes it is on the wire.
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64 + self.files.iter().map(|(_, range)| u64::from(range.len)).sum::<u64>()
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
