//! Files that answers cannot be sent from without a look.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use storage::disk::DiskFile;

/// Files of which something could not be read: the kernel may say of a page that it has it, and have tried in vain to
/// read it. What is sent of them is read before.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    any: AtomicBool,
    files: Mutex<Vec<Weak<dyn DiskFile>>>,
}

impl Suspects {
    /// A disk with more of them is to be replaced. One that was pushed out costs a connection, and is here again.
    const FILES_MAX: usize = 1_000;

    pub(crate) fn has(&self, file: &Arc<dyn DiskFile>) -> bool {
        let is_it = |suspect: &Weak<dyn DiskFile>| std::ptr::addr_eq(suspect.as_ptr(), Arc::as_ptr(file));
        self.any.load(Ordering::Relaxed) && self.files.lock().iter().any(is_it)
    }

    pub(crate) fn add(&self, file: &Arc<dyn DiskFile>) {
        if self.has(file) {
            return;
        }
        let mut files = self.files.lock();
        files.retain(|file| file.strong_count() > 0);
        if files.len() >= Self::FILES_MAX {
            files.remove(0);
        }
        files.push(Arc::downgrade(file));
        self.any.store(true, Ordering::Relaxed);
    }
}
