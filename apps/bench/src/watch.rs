//! What a thread that sends sees of the time.

use std::time::Duration;

use client::producer::{Delivery, Producer, Record, SendError};
use hdrhistogram::Histogram;

use crate::histogram::histogram;
use crate::schedule::Punctuality;

/// Calls of `send` for each that is timed, when they follow each other without a wait.
const CALLS_OF_A_LOOK: u64 = 8;

/// See the module.
#[derive(Debug)]
pub struct Watch {
    /// When it looked last.
    pub seen: Duration,
    /// How long calls of send took, in nanoseconds.
    pub call: Histogram<u64>,
    /// How late records were sent that count.
    pub punctuality: Punctuality,
}

impl Watch {
    /// One that looked just now.
    pub fn new(seen: Duration) -> Self {
        Self { seen, call: histogram(), punctuality: Punctuality::default() }
    }

    /// Sends a record: which of the thread's it is, when it was due, and whether its times count.
    ///
    /// # Errors
    /// What the producer says of the record.
    #[inline]
    pub fn send(
        &mut self,
        producer: &Producer,
        record: &Record<'_>,
        (index, due, counts): (u64, Option<Duration>, bool),
    ) -> Result<Delivery, SendError> {
        // Where nothing was waited for, each look at the clock would be measured, too: one call stands for
        // several.
        let stands_for = if due.is_some_and(|due| due > self.seen) { 1 } else { CALLS_OF_A_LOOK };
        if !index.is_multiple_of(stands_for) {
            if let Some(due) = due.filter(|_| counts) {
                self.punctuality.record(self.seen.saturating_sub(due));
            }
            return producer.send_blocking(record);
        }
        let before = producer.elapsed();
        let sent = producer.send_blocking(record);
        self.seen = producer.elapsed();
        if counts {
            self.call.saturating_record_n((self.seen - before).as_nanos() as u64, stands_for);
            if let Some(due) = due {
                self.punctuality.record(before.saturating_sub(due));
            }
        }
        sent
    }
}
