//! Whether a read would wait for the disk, and how to wait for it elsewhere.
//!
//! `sendfile` on an I/O thread must find its pages in the page cache: a cold page stops all
//! connections of that thread. So the range is probed first, and what is cold is warmed on a thread
//! that may block.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use storage::disk::{DiskError, DiskFile};

/// The kernel reads ahead, and evicts, in about this much: one probe stands for so many bytes.
const PROBE_EVERY: u64 = 128 << 10;
const WARM_AT_ONCE: usize = 256 << 10;

/// Whether `len` bytes from `position` are, as far as a few probes can tell, in the page cache.
///
/// A file without a descriptor is never waited for. Where the kernel cannot say, the answer is no.
pub fn is_cached(file: &dyn DiskFile, position: u64, len: u64) -> bool {
    let Some(descriptor) = file.descriptor() else { return true };
    // SAFETY: a `DiskFile` keeps its descriptor open, and `file` outlives this function.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let Some(last) = len.checked_sub(1).map(|rest| position.saturating_add(rest)) else { return true };
    let mut at = position;
    while at < last {
        if !is_byte_cached(descriptor, at) {
            return false;
        }
        at = at.saturating_add(PROBE_EVERY);
    }
    is_byte_cached(descriptor, last)
}

fn is_byte_cached(file: BorrowedFd<'_>, position: u64) -> bool {
    let mut byte = [0];
    loop {
        match preadv2(file, &mut [IoSliceMut::new(&mut byte)], position, ReadWriteFlags::NOWAIT) {
            Err(Errno::INTR) => {}
            // Beyond the end there is nothing to wait for.
            read => return read.is_ok(),
        }
    }
}

/// Reads `len` bytes from `position` into the page cache. Blocks; to be called where that is fine.
pub fn warm(file: &dyn DiskFile, position: u64, len: u64) -> Result<(), DiskError> {
    advise(file, position, len);
    let mut buffer = vec![0; WARM_AT_ONCE.min(usize::try_from(len).unwrap_or(WARM_AT_ONCE))];
    let end = position.saturating_add(len);
    let mut at = position;
    while at < end {
        let wanted = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let read = file.read_at(&mut buffer[..wanted], at)?;
        if read == 0 {
            break;
        }
        at += read as u64;
    }
    Ok(())
}

/// Tells the kernel the whole range at once, so that the disk sees large reads.
fn advise(file: &dyn DiskFile, position: u64, len: u64) {
    let Some(descriptor) = file.descriptor() else { return };
    // SAFETY: a `DiskFile` keeps its descriptor open, and `file` outlives this function.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    if let Some(len) = std::num::NonZeroU64::new(len) {
        // Advice that is not taken costs time, nothing else.
        let _ = fadvise(descriptor, position, Some(len), Advice::WillNeed);
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;
    use std::path::Path;

    use storage::disk::{Disk, OpenMode};

    use super::*;
    use crate::FsDisk;

    #[test]
    fn what_was_written_is_cached_until_it_is_dropped_and_warmed_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = FsDisk::new(dir.path()).open(Path::new("segment"), OpenMode::Create).unwrap();
        let bytes = vec![7; 1 << 20];
        file.write_at(&[IoSlice::new(&bytes)], 0).unwrap();
        file.sync().unwrap();
        assert!(is_cached(&*file, 0, 1 << 20));
        assert!(is_cached(&*file, 5, 0));

        // SAFETY: `file` lives until the end of the test.
        let descriptor = unsafe { BorrowedFd::borrow_raw(file.descriptor().unwrap()) };
        fadvise(descriptor, 0, None, Advice::DontNeed).unwrap();
        // A file system in memory, as /tmp may be, has nothing to drop.
        let dropped = !is_cached(&*file, 0, 1 << 20);
        warm(&*file, 0, 1 << 20).unwrap();
        assert!(is_cached(&*file, 0, 1 << 20), "dropped: {dropped}");
    }

    #[test]
    fn a_range_beyond_the_end_is_nothing_to_wait_for() {
        let dir = tempfile::tempdir().unwrap();
        let file = FsDisk::new(dir.path()).open(Path::new("segment"), OpenMode::Create).unwrap();
        assert!(is_cached(&*file, 1 << 40, 1 << 20));
        warm(&*file, 1 << 40, 1 << 20).unwrap();
    }
}
