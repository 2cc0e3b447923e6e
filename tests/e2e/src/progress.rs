//! How far a load has come, for those who wait for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;

use crate::wait;

/// How far a load has come, and how it is ended.
#[derive(Debug, Default)]
pub struct Progress {
    batches: AtomicU64,
    stopped: AtomicBool,
}

impl Progress {
    /// Waits until some more batches were acknowledged.
    pub fn wait_for_batches(&self, count: u64) -> Result<()> {
        let target = self.batches.load(Ordering::Relaxed) + count;
        wait::until(&format!("{count} batches are acknowledged"), Duration::from_secs(20), || {
            Ok((self.batches.load(Ordering::Relaxed) >= target).then_some(()))
        })
    }

    /// A batch was acknowledged.
    pub fn acknowledged(&self) {
        self.batches.fetch_add(1, Ordering::Relaxed);
    }

    /// How many batches were acknowledged.
    pub fn batches(&self) -> u64 {
        self.batches.load(Ordering::Relaxed)
    }

    /// Sends and reads no more than is under way.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether to go on.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
