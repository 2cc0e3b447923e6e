//! Answers that wait: produce requests for their commit, fetch requests for data, deletions until what they
//! deleted does not come back.
//!
//! One list a partition, held beside it under the partition's lock, so that "is it there yet?" and
//! "then wake me" cannot be separated by an append.
//!
//! ```text
//!   produce acks=all ── not committed up to its end ──▶ await_commit(end) ─┐
//!   fetch            ── fewer than min bytes         ──▶ await_data        ─┤
//!   follower's fetch ── nothing behind its end       ──▶ await_growth      ─┤
//!                                                                          ▼
//!   append, flush ── high watermark moved ──▶ committed(hw) ──▶ wake, by the edge, after the lock
//!                                                                          ▲
//!   delete records ── start not saved, or not known to all in sync ──▶ await_start ──┤
//!   checkpoint, follower's fetch ── it is                     ──▶ deleted(upto) ─────┘
//! ```
//!
//! A waiter is named by its connection. It looks again when it is woken and may find that it has to
//! wait on; waking too often is harmless, never waking is not.

use std::fmt;
use std::sync::Arc;

use base::Offset;

/// Tells a connection to look at its parked requests again. Must not block.
pub trait Wake: Send + Sync {
    /// Rings the bell.
    fn wake(&self);
}

/// Who waits: one number a connection, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaiterId(pub u64);

/// A connection that can be told to look again.
#[derive(Clone)]
pub struct Waiter {
    /// Which connection.
    pub id: WaiterId,
    /// Its bell.
    pub bell: Arc<dyn Wake>,
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Waiter({})", self.id.0)
    }
}

/// The connections that wait for one partition.
///
/// Bounded by the connections: each waits at most once for data, and at most once for each batch and
/// each deletion of the requests that it has in flight.
#[derive(Debug, Default)]
pub struct Parked {
    commits: Vec<(Offset, Waiter)>,
    data: Vec<Waiter>,
    growth: Vec<Waiter>,
    starts: Vec<(Offset, Waiter)>,
}

impl Parked {
    /// Wakes `waiter` once the high watermark has reached `end`.
    pub fn await_commit(&mut self, end: Offset, waiter: Waiter) {
        self.commits.push((end, waiter));
    }

    /// Wakes `waiter` at the next move of the high watermark.
    pub fn await_data(&mut self, waiter: Waiter) {
        add_once(waiter, &mut self.data);
    }

    /// Wakes `waiter` when something is appended, or the high watermark moves.
    pub fn await_growth(&mut self, waiter: Waiter) {
        add_once(waiter, &mut self.growth);
    }

    /// Wakes `waiter` once what lies below `start` does not come back.
    pub fn await_start(&mut self, start: Offset, waiter: Waiter) {
        self.starts.push((start, waiter));
    }

    /// Forgets that `id` waits for data, committed or not.
    pub fn leave_data(&mut self, id: WaiterId) {
        self.data.retain(|waiter| waiter.id != id);
        self.growth.retain(|waiter| waiter.id != id);
    }

    /// Forgets that `id` waits for a commit up to `end`: its time is up.
    pub fn leave_commit(&mut self, end: Offset, id: WaiterId) {
        leave_one(end, id, &mut self.commits);
    }

    /// Whether somebody waits for that.
    pub fn awaits_start(&self) -> bool {
        !self.starts.is_empty()
    }

    /// Forgets that `id` waits for `start`: its time is up.
    pub fn leave_start(&mut self, start: Offset, id: WaiterId) {
        leave_one(start, id, &mut self.starts);
    }

    /// Forgets all that `id` waits for: its connection is gone.
    pub fn leave(&mut self, id: WaiterId) {
        self.leave_data(id);
        self.commits.retain(|(_, waiter)| waiter.id != id);
        self.starts.retain(|(_, waiter)| waiter.id != id);
    }

    /// The high watermark is now `high_watermark`: who is to be woken.
    pub fn committed(&mut self, high_watermark: Offset, mut wake: impl FnMut(Waiter)) {
        self.data.drain(..).chain(self.growth.drain(..)).for_each(&mut wake);
        wake_up_to(high_watermark, &mut self.commits, wake);
    }

    /// Something was appended: who is to be woken.
    pub fn grown(&mut self, wake: impl FnMut(Waiter)) {
        self.growth.drain(..).for_each(wake);
    }

    /// What lies below `upto` does not come back: who is to be woken.
    pub fn deleted(&mut self, upto: Offset, wake: impl FnMut(Waiter)) {
        wake_up_to(upto, &mut self.starts, wake);
    }

    /// The partition is gone from here, or is led by another: everybody has to look again.
    pub fn gone(&mut self, mut wake: impl FnMut(Waiter)) {
        self.data.drain(..).chain(self.growth.drain(..)).for_each(&mut wake);
        self.commits.drain(..).chain(self.starts.drain(..)).for_each(|(_, waiter)| wake(waiter));
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.commits.len() + self.data.len() + self.growth.len() + self.starts.len()
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn add_once(waiter: Waiter, waiting: &mut Vec<Waiter>) {
    if !waiting.iter().any(|known| known.id == waiter.id) {
        waiting.push(waiter);
    }
}

/// One only: another request of the same connection may wait for the same.
fn leave_one(awaited: Offset, id: WaiterId, waiting: &mut Vec<(Offset, Waiter)>) {
    if let Some(place) = waiting.iter().position(|(it, waiter)| *it == awaited && waiter.id == id) {
        waiting.swap_remove(place);
    }
}

fn wake_up_to(reached: Offset, waiting: &mut Vec<(Offset, Waiter)>, mut wake: impl FnMut(Waiter)) {
    let mut last = None;
    for (_, waiter) in waiting.extract_if(.., |(awaited, _)| *awaited <= reached) {
        // A shard of the group coordinator waits for each of its appends.
        if last.replace(waiter.id) != Some(waiter.id) {
            wake(waiter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Silent;
    impl Wake for Silent {
        fn wake(&self) {}
    }

    fn waiter(id: u64) -> Waiter {
        Waiter { id: WaiterId(id), bell: Arc::new(Silent) }
    }

    fn woken(parked: &mut Parked, high_watermark: i64) -> Vec<u64> {
        let mut ids = Vec::new();
        parked.committed(Offset(high_watermark), |waiter| ids.push(waiter.id.0));
        ids
    }

    #[test]
    fn a_commit_wakes_those_it_covers_and_everyone_who_waits_for_data() {
        let mut parked = Parked::default();
        parked.await_commit(Offset(10), waiter(1));
        parked.await_commit(Offset(20), waiter(2));
        parked.await_data(waiter(3));
        parked.await_data(waiter(3));
        assert_eq!(parked.len(), 3);
        assert_eq!(woken(&mut parked, 10), [3, 1]);
        assert_eq!(woken(&mut parked, 19), [] as [u64; 0]);
        assert_eq!(woken(&mut parked, 20), [2]);
        assert!(parked.is_empty());
    }

    #[test]
    fn who_waits_for_several_things_that_come_at_once_is_woken_once() {
        let mut parked = Parked::default();
        for end in 1..=10 {
            parked.await_commit(Offset(end), waiter(1));
        }
        parked.await_commit(Offset(5), waiter(2));
        assert_eq!(woken(&mut parked, 9), [1, 2]);
        assert_eq!(woken(&mut parked, 10), [1]);
        assert!(parked.is_empty());
    }

    #[test]
    fn what_is_appended_wakes_followers_and_no_consumer() {
        let mut parked = Parked::default();
        parked.await_data(waiter(1));
        parked.await_growth(waiter(2));
        let mut ids = Vec::new();
        parked.grown(|waiter| ids.push(waiter.id.0));
        assert_eq!((ids, parked.len()), (vec![2], 1));
        parked.await_growth(waiter(2));
        assert_eq!(woken(&mut parked, 1), [1, 2]);
    }

    #[test]
    fn one_whose_time_is_up_waits_no_more_for_that_commit() {
        let mut parked = Parked::default();
        parked.await_commit(Offset(1), waiter(1));
        parked.await_commit(Offset(2), waiter(1));
        parked.await_commit(Offset(1), waiter(2));
        parked.leave_commit(Offset(1), WaiterId(1));
        parked.leave_commit(Offset(9), WaiterId(1));
        assert_eq!(woken(&mut parked, 1), [2]);
        assert_eq!(woken(&mut parked, 2), [1]);
    }

    #[test]
    fn a_saved_start_wakes_those_who_wait_for_it_and_nobody_else() {
        let mut parked = Parked::default();
        parked.await_start(Offset(3), waiter(1));
        parked.await_start(Offset(7), waiter(2));
        parked.await_commit(Offset(3), waiter(3));
        assert_eq!(woken(&mut parked, 2), [] as [u64; 0]);
        let mut ids = Vec::new();
        parked.deleted(Offset(3), |waiter| ids.push(waiter.id.0));
        assert_eq!((ids, parked.len()), (vec![1], 2));
        let mut ids = Vec::new();
        parked.gone(|waiter| ids.push(waiter.id.0));
        assert_eq!((ids, parked.is_empty()), (vec![3, 2], true));
    }

    #[test]
    fn a_connection_that_left_is_not_woken() {
        let mut parked = Parked::default();
        parked.await_commit(Offset(1), waiter(1));
        parked.await_start(Offset(1), waiter(1));
        parked.await_data(waiter(1));
        parked.leave(WaiterId(1));
        assert!(parked.is_empty());
    }
}
