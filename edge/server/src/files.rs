//! Where two crates that do not know each other meet: the log's files and the socket's.

use std::io;
use std::sync::Arc;

use broker::call::Answer;
use storage::FileSlice;
use storage::disk::DiskFile;

use crate::node::Node;

/// A file of the log, as the socket wants it.
#[derive(Debug)]
struct LogFile(Arc<dyn DiskFile>);

impl net::SendFile for LogFile {
    fn descriptor(&self) -> Option<i32> {
        self.0.descriptor()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.0.read_at(buffer, position).map_err(io::Error::other)
    }
}

/// Stretches shorter than this are read by the one system call that sends them, cold or not.
const PROBED_BYTES_MIN: u32 = 4 << 10;

/// How much behind a stretch is wanted in the page cache with it, at least; else as much as it is long.
const AHEAD_BYTES_MIN: u64 = 128 << 10;

/// How far a stretch reaches with what its reader is likely to ask for next. To find the end of that, headers
/// within it are read by the thread that answers, which must not wait for the disk either.
fn reach(slice: &FileSlice) -> u64 {
    let len = u64::from(slice.len);
    len + len.max(AHEAD_BYTES_MIN)
}

/// Brings what is not in the page cache there, on a thread that may wait for the disk: `sendfile`
/// would make all connections of this one wait with it.
pub(crate) async fn warm(node: &Node, slices: &[FileSlice]) {
    let is_cold = |slice: &&FileSlice| {
        slice.len >= PROBED_BYTES_MIN && !disk::is_cached(slice.file.as_ref(), slice.position, reach(slice))
    };
    let cold: Vec<FileSlice> = slices.iter().filter(is_cold).cloned().collect();
    if cold.is_empty() {
        return;
    }
    node.metrics.fetch.cold_reads.add(cold.len() as u64);
    let warmed = tokio::task::spawn_blocking(move || {
        for slice in cold {
            // What cannot be read now cannot be sent either, and the writer will say so.
            let _ = disk::warm(slice.file.as_ref(), slice.position, reach(&slice));
        }
    });
    // A panic of the thread was reported by the panic hook; the writer reads for itself.
    let _ = warmed.await;
}

/// Fills the holes of an answer with the slices that belong there.
pub(crate) fn for_socket(answer: Answer) -> net::Answer {
    let Answer { frame, slices } = answer;
    let mut files = Vec::with_capacity(slices.len());
    let mut slices = slices.into_iter();
    for hole in frame.holes {
        let mut missing = hole.len;
        while missing > 0 {
            let slice = slices.next().expect("the slices of an answer fill its holes");
            missing = missing.checked_sub(slice.len).expect("a slice lies within its hole");
            let file = Arc::new(LogFile(slice.file));
            files.push((hole.at, net::FileRange { file, position: slice.position, len: slice.len }));
        }
    }
    net::Answer { bytes: frame.bytes, files }
}
