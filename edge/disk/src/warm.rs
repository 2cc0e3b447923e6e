//! Whether a read would wait for the disk, and how to wait for it elsewhere.
//!
//! `sendfile` on an I/O thread must find its pages in the page cache: a cold page stops all
//! connections of that thread. So the kernel is asked first, and what is cold is warmed on a thread
//! that may block.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::param::page_size;
use storage::disk::{DiskError, DiskFile};

/// A page that is still being read is found by reading a byte of it; the kernel reads at least this much at once.
const PROBE_EVERY: u64 = 256 << 10;
const WARM_AT_ONCE: usize = 256 << 10;

/// Whether all of the `len` bytes from `position` that the file has are in the page cache, and read.
///
/// A file without a descriptor is never waited for. Where the kernel cannot say, the answer is no; one older
/// than 6.5 is asked of every 256th KiB only.
pub fn is_cached(file: &dyn DiskFile, position: u64, len: u64) -> bool {
    let Some(descriptor) = file.descriptor() else { return true };
    // SAFETY: a `DiskFile` keeps its descriptor open, and `file` outlives this function.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let Ok(file_len) = file.len() else { return false };
    let end = position.saturating_add(len).min(file_len);
    if position >= end {
        return true;
    }
    let page = page_size() as u64;
    let pages = end.div_ceil(page) - position / page;
    if cached_pages(descriptor, position, end - position).is_some_and(|cached| cached < pages) {
        return false;
    }
    let mut at = position;
    while at < end - 1 {
        if !is_byte_cached(descriptor, at) {
            return false;
        }
        at = at.saturating_add(PROBE_EVERY);
    }
    is_byte_cached(descriptor, end - 1)
}

/// How many of the pages that hold these bytes are in the page cache, read or being read: cachestat(2). Nothing if
/// the kernel has no such call, or a sandbox does not let us make it.
fn cached_pages(file: BorrowedFd<'_>, position: u64, len: u64) -> Option<u64> {
    /// The same wherever Rust runs on Linux, but for MIPS, which counts from elsewhere.
    const CACHESTAT: libc::c_long = 451;
    let range = [position, len];
    // Cached, dirty, being written, evicted, evicted lately.
    let mut pages = [0u64; 5];
    // SAFETY: it reads two numbers, and writes five, of 64 bits.
    let answer = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), pages.as_mut_ptr(), 0) };
    (answer == 0).then_some(pages[0])
}

fn is_byte_cached(file: BorrowedFd<'_>, position: u64) -> bool {
    let mut byte = [0];
    loop {
        match preadv2(file, &mut [IoSliceMut::new(&mut byte)], position, ReadWriteFlags::NOWAIT) {
            Err(Errno::INTR) => {}
            read => return read.is_ok(),
        }
    }
}

/// Reads those of the `len` bytes from `position` that are not there into the page cache. Blocks; to be called
/// where that is fine.
pub fn warm(file: &dyn DiskFile, position: u64, len: u64) -> Result<(), DiskError> {
    advise(file, position, len);
    let mut buffer = vec![0; WARM_AT_ONCE.min(usize::try_from(len).unwrap_or(WARM_AT_ONCE))];
    let end = position.saturating_add(len);
    let mut at = position;
    while at < end {
        let wanted = buffer.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        if !is_cached(file, at, wanted as u64) && file.read_at(&mut buffer[..wanted], at)? == 0 {
            break;
        }
        at += wanted as u64;
    }
    Ok(())
}

/// Tells the kernel the whole range at once, so that the disk sees large reads.
pub fn advise(file: &dyn DiskFile, position: u64, len: u64) {
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
    use std::num::NonZeroU64;
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
        let page = NonZeroU64::new(page_size() as u64);
        fadvise(descriptor, 333 << 10 & !0xffff, page, Advice::DontNeed).unwrap();
        // One page is enough to wait for; but what holds it may be larger, and then stays.
        let one_dropped = !is_cached(&*file, 0, 1 << 20);
        fadvise(descriptor, 0, None, Advice::DontNeed).unwrap();
        // A file system in memory, as /tmp may be, has nothing to drop.
        let dropped = !is_cached(&*file, 0, 1 << 20);
        warm(&*file, 0, 1 << 20).unwrap();
        assert!(is_cached(&*file, 0, 1 << 20), "dropped: {dropped}, one: {one_dropped}");
    }

    #[test]
    fn a_range_beyond_the_end_is_nothing_to_wait_for() {
        let dir = tempfile::tempdir().unwrap();
        let file = FsDisk::new(dir.path()).open(Path::new("segment"), OpenMode::Create).unwrap();
        assert!(is_cached(&*file, 1 << 40, 1 << 20));
        warm(&*file, 1 << 40, 1 << 20).unwrap();
    }
}
