//! Where two crates that do not know each other meet: the log's files and the socket's.

use std::io;
use std::sync::Arc;

use broker::session::Answer;
use storage::disk::DiskFile;

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
