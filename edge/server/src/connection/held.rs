//! Memory that a connection holds for answers: those that wait in its queue, and those on their way.
//!
//! ```text
//!   a request's turn ──▶ it is worked on ──▶ queued ──▶ sending ──▶ given back
//!        ▲ waits for memory, if others do            (charged from the queue on)
//! ```
//!
//! How large an answer will be is known when it is made, so one is charged after the fact. But while
//! anybody waits for memory nobody's next request is worked on before there is room: what is held
//! without being paid for is at most an answer of each I/O thread.

use net::{Charge, MemoryBudget, WriteLimits};
use tokio::time::Instant;

/// What a connection may hold without being charged: most answers are far smaller.
const BYTES_FREE: u64 = 64 << 10;
/// No further request is taken in once a connection holds this much. One answer may be larger.
const BYTES_MAX: u64 = 1 << 20;
/// What must be free for a request when memory is short.
const TURN_BYTES: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Held {
    charge: Charge,
    queued: u64,
    sending: u64,
}

impl Held {
    pub(super) fn new(budget: &MemoryBudget) -> Self {
        Self { charge: budget.charge(), queued: 0, sending: 0 }
    }

    /// Something was queued.
    pub(super) fn queued(&mut self, bytes: u64) {
        self.queued += bytes;
        self.charge.ask_for(self.due());
    }

    /// Something left the queue.
    pub(super) fn unqueued(&mut self, bytes: u64) {
        self.queued -= bytes;
    }

    /// An answer is on its way.
    pub(super) fn sending(&mut self, bytes: u64) {
        self.sending += bytes;
        self.charge.ask_for(self.due());
    }

    /// All that was on its way is sent.
    pub(super) fn sent(&mut self) {
        self.sending = 0;
    }

    /// Gives back what is not needed for what is held.
    pub(super) fn give_back(&mut self) {
        let due = self.due();
        if due <= self.charge.bytes() {
            self.charge.leave_queue();
            self.charge.shrink_to(due);
        }
    }

    /// Whether so much is held that no more should be asked for.
    pub(super) fn is_full(&self) -> bool {
        self.queued + self.sending >= BYTES_MAX
    }

    /// Whether there is memory for one more request.
    pub(super) fn has_turn(&mut self) -> bool {
        let wanted = self.wanted();
        self.charge.ask_for(wanted)
    }

    /// Waits for [`Self::has_turn`].
    pub(super) async fn turn(&mut self) {
        let wanted = self.wanted();
        self.charge.grow_to(wanted).await;
    }

    /// Whether something is held that is charged.
    pub(super) fn is_charged(&self) -> bool {
        self.charge.bytes() > 0
    }

    /// Whether others wait for memory of which this holds some.
    pub(super) fn is_missed(&self) -> bool {
        self.is_charged() && self.charge.budget().is_short()
    }

    fn due(&self) -> u64 {
        (self.queued + self.sending).saturating_sub(BYTES_FREE)
    }

    fn wanted(&self) -> u64 {
        self.due() + if self.charge.budget().is_short() { TURN_BYTES } else { 0 }
    }
}

/// How fast a peer takes its answers: looked at in stretches, for what the system's buffers take at first
/// says nothing of it.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
    /// How many bytes waited then.
    bytes: u64,
}

impl Pace {
    /// So many bytes wait.
    pub(super) fn new(bytes: u64) -> Self {
        Self { since: Instant::now(), bytes }
    }

    /// So many bytes wait now: whether fewer went than must, since a stretch that is over began.
    pub(super) fn is_slow(&mut self, bytes: u64, limits: &WriteLimits) -> bool {
        let elapsed = self.since.elapsed();
        if elapsed < limits.short_time_max {
            return false;
        }
        let due = elapsed.as_secs() * u64::from(limits.bytes_per_second_min);
        if self.bytes - bytes < due {
            return true;
        }
        *self = Self::new(bytes);
        false
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_taken_long_ago_does_not_count() {
        let limits = WriteLimits::default();
        let stretch = limits.short_time_max;
        let enough = stretch.as_secs() * u64::from(limits.bytes_per_second_min);
        let mut pace = Pace::new(10 << 20);
        assert!(!pace.is_slow(10 << 20, &limits));
        let mut left = 5 << 20;
        tokio::time::advance(stretch).await;
        assert!(!pace.is_slow(left, &limits));
        tokio::time::advance(stretch - Duration::from_secs(1)).await;
        assert!(!pace.is_slow(left, &limits));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(pace.is_slow(left - enough + 1, &limits));
        left -= enough;
        assert!(!pace.is_slow(left, &limits));
        tokio::time::advance(stretch * 3).await;
        assert!(pace.is_slow(left - enough, &limits));
    }

    #[tokio::test]
    async fn what_is_held_is_charged_from_the_queue_to_the_socket() {
        let budget = MemoryBudget::new(10 << 20);
        let mut held = Held::new(&budget);
        held.queued(BYTES_FREE);
        assert_eq!(budget.used(), 0);
        held.queued(100_000);
        assert_eq!(budget.used(), 100_000);
        held.unqueued(100_000);
        held.sending(150_000);
        assert_eq!(budget.used(), 150_000);
        held.sent();
        held.give_back();
        assert_eq!(budget.used(), 0);
        assert!(!held.is_full());
        held.queued(BYTES_MAX);
        assert!(held.is_full());
    }

    #[tokio::test]
    async fn nobody_is_served_more_while_somebody_waits() {
        let budget = MemoryBudget::new(1 << 20);
        let (mut first, mut second, mut third) = (Held::new(&budget), Held::new(&budget), Held::new(&budget));
        first.queued(BYTES_FREE + (1 << 20));
        assert!(!first.is_missed());
        // Made already, so it is there; but it is not paid for.
        second.queued(BYTES_FREE + 1000);
        assert!(!second.has_turn() && !third.has_turn());
        assert!(first.is_missed());
        first.unqueued(BYTES_FREE + (1 << 20));
        first.give_back();
        assert!(second.has_turn() && third.has_turn());
        drop((second, third));
        assert_eq!(budget.used(), 0);
        assert!(!budget.is_short());
    }
}
