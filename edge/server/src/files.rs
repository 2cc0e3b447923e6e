//! Where two crates that do not know each other meet: the log's files and the socket.

use std::io;
use std::sync::Arc;

use broker::call::{Answer, CloseReason};
use storage::FileSlice;
use storage::disk::DiskFile;
use tracing::error;

use crate::node::Node;
use crate::suspects::Suspects;

/// A file of the log, as the socket wants it.
#[derive(Debug)]
struct LogFile {
    file: Arc<dyn DiskFile>,
    suspects: Arc<Suspects>,
}

impl net::SendFile for LogFile {
    fn descriptor(&self) -> Option<i32> {
        self.file.descriptor()
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position).map_err(io::Error::other)
    }

    fn on_unreadable(&self) {
        self.suspects.add(&self.file);
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

/// Brings what is not in the page cache there, on a thread that may wait for the disk: `sendfile` would make all
/// connections of this one wait with it. What cannot be read is left out of the answer: if it were found only when it
/// is sent, the connection would have to end, and with it all else that is asked for there.
pub(crate) async fn readable(node: &Node, answer: Answer) -> Result<Answer, CloseReason> {
    let slow = |(at, slice): (usize, &FileSlice)| {
        let is_suspect = node.suspects.has(&slice.file);
        let is_cold = slice.len >= PROBED_BYTES_MIN && (is_short(slice) || !is_cached(slice));
        (is_suspect || is_cold).then(|| (at, slice.clone(), is_suspect))
    };
    let cold: Vec<(usize, FileSlice, bool)> = answer.slices.iter().enumerate().filter_map(slow).collect();
    if cold.is_empty() {
        return Ok(answer);
    }
    node.metrics.fetch.cold_reads.add(cold.len() as u64);
    let read = tokio::task::spawn_blocking(move || {
        let failed = |(at, slice, is_suspect)| Some((at, read(&slice, is_suspect).err()?, slice));
        cold.into_iter().filter_map(failed).collect()
    });
    // A panic of the thread was reported by the panic hook; the writer reads for itself.
    let failed: Vec<(usize, String, FileSlice)> = read.await.unwrap_or_default();
    if failed.is_empty() {
        return Ok(answer);
    }
    let mut is_unreadable = vec![false; answer.slices.len()];
    for (at, why, slice) in failed {
        is_unreadable[at] = true;
        node.suspects.add(&slice.file);
        node.metrics.fetch.failed_reads.inc();
        if let Some(unsaid) = node.complaints.next(node.clock.now().elapsed) {
            error!(%why, unsaid, "records cannot be read: whoever asks for them is told that the storage failed");
        }
    }
    answer.without_unreadable(&is_unreadable)
}

fn is_cached(slice: &FileSlice) -> bool {
    disk::is_cached(slice.file.as_ref(), slice.position, reach(slice))
}

/// Whether the file ends before the stretch does.
fn is_short(slice: &FileSlice) -> bool {
    slice.file.len().is_ok_and(|len| len < slice.position + u64::from(slice.len))
}

/// Reads what is missing of a stretch, or all of a suspect one, and what is likely to be asked for next. Says why the
/// stretch cannot be read.
fn read(slice: &FileSlice, is_suspect: bool) -> Result<(), String> {
    const AT_ONCE: usize = 64 << 10;
    let file = slice.file.as_ref();
    disk::advise(file, slice.position, reach(slice));
    let mut buffer = vec![0; AT_ONCE.min(slice.len as usize)];
    let (mut at, end) = (slice.position, slice.position + u64::from(slice.len));
    while at < end {
        let wanted = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        // A file that is too short has nothing there to be missing.
        if is_suspect || is_short(slice) || !disk::is_cached(file, at, wanted as u64) {
            let read = file.read_at(&mut buffer[..wanted], at).map_err(|why| why.to_string())?;
            if read < wanted {
                return Err(format!("{:?} ends {} bytes before them", slice.file, end - at - read as u64));
            }
        }
        at += wanted as u64;
    }
    // What cannot be read of the rest, whoever asks for it will hear.
    let _ = disk::warm(file, end, reach(slice) - u64::from(slice.len));
    Ok(())
}

/// Fills the holes of an answer with the slices that belong there.
pub(crate) fn for_socket(node: &Node, answer: Answer) -> net::Answer {
    let Answer { frame, slices, .. } = answer;
    let mut files = Vec::with_capacity(slices.len());
    let mut slices = slices.into_iter();
    for hole in frame.holes {
        let mut missing = hole.len;
        while missing > 0 {
            let slice = slices.next().expect("the slices of an answer fill its holes");
            missing = missing.checked_sub(slice.len).expect("a slice lies within its hole");
            let file = Arc::new(LogFile { file: slice.file, suspects: Arc::clone(&node.suspects) });
            files.push((hole.at, net::FileRange { file, position: slice.position, len: slice.len }));
        }
    }
    net::Answer { bytes: frame.bytes, files }
}
