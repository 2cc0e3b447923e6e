//! What became of the records.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use client::producer::{DeliveryError, DeliveryReport};

/// Counted on the producer's thread, looked at by the sender's.
#[derive(Default)]
pub(super) struct Tally {
    written: AtomicU64,
    failed: AtomicU64,
    first: Mutex<Option<(u64, DeliveryError)>>,
    is_told: AtomicBool,
}

impl Tally {
    pub(super) fn on_delivery(&self, report: &DeliveryReport<'_>) {
        let records = report.records.len() as u64;
        let Err(error) = report.outcome else {
            self.written.fetch_add(records, Ordering::Relaxed);
            return;
        };
        self.failed.fetch_add(records, Ordering::Relaxed);
        let tag = report.records.first().map_or(0, |record| record.tag);
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(known, _)| tag < *known) {
            *first = Some((tag, error.clone()));
        }
    }

    /// Whether a record was not written.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed) > 0
    }

    /// The first record that was not written, and why.
    pub(super) fn failure(&self) -> Option<(u64, DeliveryError)> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether somebody has begun to tell how it ended; from now on somebody has.
    pub(super) fn is_told(&self) -> bool {
        self.is_told.swap(true, Ordering::Relaxed)
    }

    pub(super) fn in_words(&self) -> String {
        let [written, failed] = [&self.written, &self.failed].map(|count| count.load(Ordering::Relaxed));
        let records = if written == 1 { "record was" } else { "records were" };
        match failed {
            0 => format!("{written} {records} written"),
            1 => format!("{written} {records} written, 1 was not"),
            failed => format!("{written} {records} written, {failed} were not"),
        }
    }
}
