//! Who waits for the producer: for room, one after the other; for a topic, or for a time.
//!
//! Room goes to whoever came first. Were it for anybody to take, small records would use up what comes free
//! before there is enough for a large one, and whoever asks without waiting would always be ahead.
//!
//! **Invariant:** whoever is first for room is woken when room may have come, and when it leaves, the next is.

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

/// One who waits, as long as it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Room,
    /// A topic, or the end of the wait.
    Other,
}

#[derive(Debug)]
struct Waiter {
    ticket: Ticket,
    until: Duration,
    waker: Waker,
}

/// All who wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    ticket_next: u64,
    /// In the order in which they came.
    for_room: VecDeque<Waiter>,
    others: VecDeque<Waiter>,
}

/// One who does not wait any more. To be dropped when nothing is locked: a waker may do anything then.
#[must_use]
pub(super) struct Left {
    _waker: Waker,
    /// Whose turn it is instead.
    next: Option<Waker>,
}

impl Left {
    pub(super) fn wake_next(self) {
        if let Some(next) = self.next {
            next.wake();
        }
    }
}

impl Waiting {
    /// Whether nobody was there for room before.
    #[inline]
    pub(super) fn is_turn(&self, ticket: Option<Ticket>) -> bool {
        self.for_room.front().is_none_or(|first| Some(first.ticket) == ticket)
    }

    /// Waits, in the place that it has if it waits for the same already; else behind all others.
    pub(super) fn wait(
        &mut self,
        ticket: &mut Option<Ticket>,
        wanted: Wanted,
        (until, waker): (Duration, &Waker),
    ) -> Option<Left> {
        let queue = self.queue(wanted);
        if let Some(waiter) = queue.iter_mut().find(|waiter| Some(waiter.ticket) == *ticket) {
            waiter.waker.clone_from(waker);
            return None;
        }
        let left = self.leave(ticket);
        let new = Ticket(self.ticket_next);
        self.ticket_next += 1;
        *ticket = Some(new);
        self.queue(wanted).push_back(Waiter { ticket: new, until, waker: waker.clone() });
        left
    }

    fn queue(&mut self, wanted: Wanted) -> &mut VecDeque<Waiter> {
        match wanted {
            Wanted::Room => &mut self.for_room,
            Wanted::Other => &mut self.others,
        }
    }

    /// Does not wait any more.
    pub(super) fn leave(&mut self, ticket: &mut Option<Ticket>) -> Option<Left> {
        let ticket = ticket.take()?;
        let find = |queue: &VecDeque<Waiter>| queue.iter().position(|waiter| waiter.ticket == ticket);
        if let Some(place) = find(&self.others) {
            let waiter = self.others.remove(place)?;
            return Some(Left { _waker: waiter.waker, next: None });
        }
        let place = find(&self.for_room)?;
        let waiter = self.for_room.remove(place)?;
        let next = self.for_room.front().filter(|_| place == 0).map(|first| first.waker.clone());
        Some(Left { _waker: waiter.waker, next })
    }

    /// There may be room now, or a topic may be known: whom to wake.
    pub(super) fn try_again(&mut self, woken: &mut Vec<Waker>) {
        // The first for room keeps its turn until it has used it.
        woken.extend(self.for_room.front().map(|first| first.waker.clone()));
        woken.extend(self.others.drain(..).map(|waiter| waiter.waker));
    }

    /// Those whose time is over wait no more: whom to wake.
    pub(super) fn expire(&mut self, now: Duration, woken: &mut Vec<Waker>) {
        let first = self.for_room.front().map(|first| first.ticket);
        for queue in [&mut self.for_room, &mut self.others] {
            queue.retain(|waiter| {
                let is_over = waiter.until <= now;
                if is_over {
                    woken.push(waiter.waker.clone());
                }
                !is_over
            });
        }
        let next = self.for_room.front().filter(|next| Some(next.ticket) != first);
        woken.extend(next.map(|next| next.waker.clone()));
    }

    /// When the time of the first of them is over.
    pub(super) fn deadline(&self) -> Option<Duration> {
        self.for_room.iter().chain(&self.others).map(|waiter| waiter.until).min()
    }

    /// Nobody waits any more: whom to wake.
    pub(super) fn end(&mut self, woken: &mut Vec<Waker>) {
        woken.extend(self.for_room.drain(..).chain(self.others.drain(..)).map(|waiter| waiter.waker));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Somebody who can wait, and how often it was woken.
    struct Somebody {
        woken: Arc<Woken>,
        ticket: Option<Ticket>,
    }

    impl Somebody {
        fn waits(waiting: &mut Waiting, wanted: Wanted, until_s: u64) -> Self {
            let mut somebody = Self { woken: Arc::default(), ticket: None };
            somebody.wait(waiting, wanted, until_s);
            somebody
        }

        fn wait(&mut self, waiting: &mut Waiting, wanted: Wanted, until_s: u64) {
            let waker = Waker::from(self.woken.clone());
            let left = waiting.wait(&mut self.ticket, wanted, (Duration::from_secs(until_s), &waker));
            left.into_iter().for_each(Left::wake_next);
        }

        fn leave(&mut self, waiting: &mut Waiting) {
            waiting.leave(&mut self.ticket).into_iter().for_each(Left::wake_next);
        }

        fn times(&self) -> usize {
            self.woken.0.load(Ordering::SeqCst)
        }
    }

    fn wake(waiting: &mut Waiting, whom: impl Fn(&mut Waiting, &mut Vec<Waker>)) {
        let mut woken = Vec::new();
        whom(waiting, &mut woken);
        woken.into_iter().for_each(Waker::wake);
    }

    #[test]
    fn room_goes_to_whoever_came_first() {
        let mut waiting = Waiting::default();
        assert!(waiting.is_turn(None));
        let mut all = [9, 9, 9].map(|until| Somebody::waits(&mut waiting, Wanted::Room, until));
        let topic = Somebody::waits(&mut waiting, Wanted::Other, 9);
        wake(&mut waiting, Waiting::try_again);
        assert_eq!((all.each_ref().map(Somebody::times), topic.times()), ([1, 0, 0], 1));
        let turns = all.each_ref().map(|somebody| waiting.is_turn(somebody.ticket));
        assert_eq!((turns, waiting.is_turn(None)), ([true, false, false], false));
        // There was not enough: it keeps its place.
        all[0].wait(&mut waiting, Wanted::Room, 9);
        assert!(waiting.is_turn(all[0].ticket));
        // The one in the middle gives up, which is nobody's turn; then the first had its turn.
        all[1].leave(&mut waiting);
        assert_eq!(all.each_ref().map(Somebody::times), [1, 0, 0]);
        all[0].leave(&mut waiting);
        assert_eq!(all.each_ref().map(Somebody::times), [1, 0, 1]);
        assert!(waiting.is_turn(all[2].ticket));
        all[2].wait(&mut waiting, Wanted::Other, 9);
        assert!(waiting.is_turn(None), "it waits for a topic now");
    }

    #[test]
    fn the_next_learns_of_a_first_whose_time_is_over() {
        let mut waiting = Waiting::default();
        let all = [3, 2, 9, 9].map(|until| Somebody::waits(&mut waiting, Wanted::Room, until));
        assert_eq!(waiting.deadline(), Some(Duration::from_secs(2)));
        wake(&mut waiting, |waiting, woken| waiting.expire(Duration::from_secs(2), woken));
        assert_eq!(all.each_ref().map(Somebody::times), [0, 1, 0, 0]);
        wake(&mut waiting, |waiting, woken| waiting.expire(Duration::from_secs(5), woken));
        assert_eq!(all.each_ref().map(Somebody::times), [1, 1, 1, 0]);
        assert!(waiting.is_turn(all[2].ticket));
        wake(&mut waiting, Waiting::end);
        assert_eq!(all.each_ref().map(Somebody::times), [1, 1, 2, 1]);
        assert_eq!((waiting.deadline(), waiting.is_turn(None)), (None, true));
    }
}
