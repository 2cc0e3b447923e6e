//! Memory that requests, or answers, may take together.
//!
//! A [`Charge`] is one connection's share. It grows as bytes arrive and gives back when dropped.
//! When the budget is spent a charge waits, its connection stops reading, and TCP slows the peer.
//!
//! Waiting while holding could lock all connections against each other, each with half a frame. So
//! a charge that holds something goes before one that holds nothing, and when there is no room for
//! the first of them, it alone may overdraw until it is dropped:
//!
//! ```text
//!   used ≤ bytes_max + the largest single charge
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// A bounded amount of memory, handed out in the order it was asked for.
#[derive(Debug, Clone)]
pub struct MemoryBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bytes_max: u64,
    /// Whether somebody waits; kept beside the state, for it is asked about before every request.
    short: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// Whether a charge is allowed to go over the budget.
    overdrawn: bool,
    /// Charges that hold something and want more.
    growing: VecDeque<Waiting>,
    /// Charges that hold nothing.
    starting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    bytes: u64,
    granted: oneshot::Sender<Charge>,
}

/// A share of a [`MemoryBudget`], given back when dropped.
#[derive(Debug)]
pub struct Charge {
    budget: MemoryBudget,
    bytes: u64,
    overdraft: bool,
    /// Its place in the queue, kept when the future that waited is dropped.
    turn: Option<oneshot::Receiver<Charge>>,
}

impl MemoryBudget {
    /// A budget of so many bytes.
    pub fn new(bytes_max: u64) -> Self {
        Self(Arc::new(Shared { bytes_max, short: AtomicBool::new(false), state: Mutex::default() }))
    }

    /// A charge of nothing, to be grown.
    pub fn charge(&self) -> Charge {
        Charge { budget: self.clone(), bytes: 0, overdraft: false, turn: None }
    }

    /// Waits for its turn, and then for room. More than the whole budget is given to who asks for it
    /// when nobody else has any.
    pub async fn acquire(&self, bytes: u64) -> Charge {
        let mut charge = self.charge();
        charge.grow_to(bytes).await;
        charge
    }

    /// How many bytes are handed out.
    pub fn used(&self) -> u64 {
        self.lock().used
    }

    /// How many bytes there are to hand out.
    pub fn bytes_max(&self) -> u64 {
        self.0.bytes_max
    }

    /// Whether somebody waits.
    pub fn is_short(&self) -> bool {
        self.0.short.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything can panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives to those who wait, in order, as long as there is room.
    fn grant(&self) {
        loop {
            let next = {
                let mut state = self.lock();
                let next = state.pop(self.0.bytes_max);
                let short = !(state.growing.is_empty() && state.starting.is_empty());
                self.0.short.store(short, Ordering::Relaxed);
                next
            };
            let Some((waiting, overdraft)) = next else { return };
            let charge = Charge { budget: self.clone(), bytes: waiting.bytes, overdraft, turn: None };
            if let Err(mut unwanted) = waiting.granted.send(charge) {
                // Given back here and not by drop, which would come back to this function.
                let bytes = std::mem::take(&mut unwanted.bytes);
                let overdraft = std::mem::take(&mut unwanted.overdraft);
                self.lock().put_back(bytes, overdraft);
            }
        }
    }
}

impl State {
    fn pop(&mut self, bytes_max: u64) -> Option<(Waiting, bool)> {
        self.growing.retain_front_open();
        self.starting.retain_front_open();
        if let Some(first) = self.growing.front() {
            let fits = self.used + first.bytes <= bytes_max;
            if !fits && self.overdrawn {
                return None;
            }
            self.used += first.bytes;
            self.overdrawn |= !fits;
            return self.growing.pop_front().map(|waiting| (waiting, !fits));
        }
        let first = self.starting.front()?;
        if self.used > 0 && self.used + first.bytes > bytes_max {
            return None;
        }
        self.used += first.bytes;
        self.starting.pop_front().map(|waiting| (waiting, false))
    }

    fn put_back(&mut self, bytes: u64, overdraft: bool) {
        assert!(bytes <= self.used, "gave back {bytes} of {}", self.used);
        self.used -= bytes;
        if overdraft {
            self.overdrawn = false;
        }
    }
}

trait RetainFrontOpen {
    fn retain_front_open(&mut self);
}

impl RetainFrontOpen for VecDeque<Waiting> {
    /// Forgets those at the front that no longer wait.
    fn retain_front_open(&mut self) {
        while self.front().is_some_and(|first| first.granted.is_closed()) {
            self.pop_front();
        }
    }
}

impl Charge {
    /// The budget it is a share of.
    pub fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    /// How many bytes it holds.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes more, up to `bytes` in all, if there is room and nobody waits for it.
    pub fn try_grow_to(&mut self, bytes: u64) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return true };
        let mut state = self.budget.lock();
        let first = state.growing.is_empty() && (self.bytes > 0 || state.starting.is_empty());
        let fits = state.used + more <= self.budget.0.bytes_max;
        if self.turn.is_some() || !(self.overdraft || first && fits) {
            return false;
        }
        state.used += more;
        drop(state);
        self.bytes = bytes;
        true
    }

    /// Takes more, up to `bytes` in all, waiting for it if need be. When the future is dropped the
    /// charge keeps its place and goes on waiting at the next call.
    pub async fn grow_to(&mut self, bytes: u64) {
        while !self.ask_for(bytes) {
            let Some(turn) = &mut self.turn else { continue };
            let more = turn.await.expect("a place in the queue ends with a grant");
            self.add(more);
        }
    }

    /// Takes more, up to `bytes` in all, if there is room; if not, waits in the queue for it, to be
    /// asked again or awaited by [`Self::grow_to`]. For memory that is in use already.
    pub fn ask_for(&mut self, bytes: u64) -> bool {
        self.claim();
        if self.try_grow_to(bytes) {
            return true;
        }
        if self.turn.is_none() {
            self.turn = Some(self.queue(bytes - self.bytes));
            self.budget.grant();
            self.claim();
        }
        bytes <= self.bytes
    }

    /// Waits no longer for more.
    pub fn leave_queue(&mut self) {
        if self.turn.take().is_some() {
            self.budget.grant();
        }
    }

    /// Takes what was granted.
    fn claim(&mut self) {
        if let Some(more) = self.turn.as_mut().and_then(|turn| turn.try_recv().ok()) {
            self.add(more);
        }
    }

    fn add(&mut self, mut more: Self) {
        self.turn = None;
        self.bytes += std::mem::take(&mut more.bytes);
        self.overdraft |= std::mem::take(&mut more.overdraft);
    }

    fn queue(&self, bytes: u64) -> oneshot::Receiver<Charge> {
        let (granted, turn) = oneshot::channel();
        let mut state = self.budget.lock();
        let queue = if self.bytes > 0 { &mut state.growing } else { &mut state.starting };
        queue.push_back(Waiting { bytes, granted });
        self.budget.0.short.store(true, Ordering::Relaxed);
        turn
    }

    /// Gives back all above `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        if bytes >= self.bytes {
            return;
        }
        let excess = self.bytes - bytes;
        self.bytes = bytes;
        // The right to overdraw ends with the charge that needed it, or when it is empty.
        let overdraft = bytes == 0 && std::mem::take(&mut self.overdraft);
        self.budget.lock().put_back(excess, overdraft);
        self.budget.grant();
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.leave_queue();
        if self.bytes > 0 || self.overdraft {
            let overdraft = std::mem::take(&mut self.overdraft);
            self.budget.lock().put_back(self.bytes, overdraft);
            self.budget.grant();
        }
    }
}

#[cfg(test)]
mod tests;
