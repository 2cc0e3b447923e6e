//! Who may connect: caps and rates, in all and per address.
//!
//! A cap that is reached refuses. A rate that is exceeded delays: in all, by leaving connections in
//! the backlog; per address, by holding the connection, which counts against the caps, before it is
//! served. IPv6 addresses are counted by their /64, which is what one host has.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::counted_as;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limits::ListenerLimits;

/// Addresses that are remembered although nothing of theirs is open, for the sake of their rate.
const QUIET_ADDRESSES_MAX: usize = 4_096;

/// Decides about new connections and counts the open ones.
#[derive(Debug, Clone)]
pub struct Admission(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: ListenerLimits,
    counts: ListenerCounts,
    state: Mutex<State>,
    /// Told when the last connection has ended.
    empty: Notify,
}

#[derive(Debug, Default)]
struct State {
    open: usize,
    addresses: HashMap<IpAddr, Address>,
}

#[derive(Debug)]
struct Address {
    open: usize,
    rate: Rate,
}

/// Numbers about a listener, to be read at any time.
#[derive(Debug, Default)]
pub struct ListenerCounts {
    /// Connections that are open.
    pub open: AtomicU64,
    /// Connections that were let in.
    pub accepted: AtomicU64,
    /// Connections that were held because their address came too fast.
    pub delayed: AtomicU64,
    /// Connections refused because there were too many in all.
    pub refused_total: AtomicU64,
    /// Connections refused because there were too many from their address.
    pub refused_address: AtomicU64,
    /// Times that accepting failed, as when the process may open no more files.
    pub accept_errors: AtomicU64,
}

/// What becomes of a new connection.
#[derive(Debug)]
pub enum Admitted {
    /// Serve it.
    Serve(Seat),
    /// Serve it at that time.
    After(Seat, Instant),
    /// Close it.
    Refuse(Refusal),
}

/// Why a connection was not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// As many as there may be are open.
    #[error("{0} connections are open, the most there may be")]
    Total(usize),
    /// As many as there may be from its address are open.
    #[error("{0} connections from this address are open, the most there may be")]
    Address(usize),
}

/// One connection's place among those that are open; dropping it makes room.
#[derive(Debug)]
pub struct Seat {
    admission: Admission,
    address: IpAddr,
}

impl Admission {
    /// Nobody is connected.
    pub fn new(limits: ListenerLimits) -> Self {
        Self(Arc::new(Shared {
            limits,
            counts: ListenerCounts::default(),
            state: Mutex::default(),
            empty: Notify::new(),
        }))
    }

    /// Decides about a connection from `address`.
    pub fn admit(&self, address: IpAddr, now: Instant) -> Admitted {
        let address = counted_as(address);
        let shared = &*self.0;
        let mut state = self.lock();
        if state.open >= shared.limits.connections_max {
            shared.counts.refused_total.fetch_add(1, Ordering::Relaxed);
            return Admitted::Refuse(Refusal::Total(state.open));
        }
        state.forget_quiet(now);
        let from = state.addresses.entry(address).or_insert(Address { open: 0, rate: Rate::new(now) });
        if from.open >= shared.limits.connections_per_ip_max {
            shared.counts.refused_address.fetch_add(1, Ordering::Relaxed);
            return Admitted::Refuse(Refusal::Address(from.open));
        }
        from.open += 1;
        let at = from.rate.take(now, shared.limits.accepts_per_ip_per_second);
        state.open += 1;
        shared.counts.open.store(state.open as u64, Ordering::Relaxed);
        shared.counts.accepted.fetch_add(1, Ordering::Relaxed);
        drop(state);
        let seat = Seat { admission: self.clone(), address };
        if at <= now {
            return Admitted::Serve(seat);
        }
        shared.counts.delayed.fetch_add(1, Ordering::Relaxed);
        Admitted::After(seat, at)
    }

    /// The numbers.
    pub fn counts(&self) -> &ListenerCounts {
        &self.0.counts
    }

    /// The limits it decides by.
    pub fn limits(&self) -> &ListenerLimits {
        &self.0.limits
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.lock().open
    }

    /// Waits until no connection is open.
    pub async fn emptied(&self) {
        loop {
            let told = self.0.empty.notified();
            if self.open() == 0 {
                return;
            }
            told.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything can panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave(&self, address: IpAddr) {
        let mut state = self.lock();
        state.open -= 1;
        self.0.counts.open.store(state.open as u64, Ordering::Relaxed);
        if let Some(from) = state.addresses.get_mut(&address) {
            from.open -= 1;
        }
        if state.open == 0 {
            self.0.empty.notify_waiters();
        }
    }
}

impl State {
    /// Drops addresses of which nothing is open and whose rate no longer matters.
    fn forget_quiet(&mut self, now: Instant) {
        if self.addresses.len() >= self.open + QUIET_ADDRESSES_MAX {
            self.addresses.retain(|_, from| from.open > 0 || from.rate.next > now);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.admission.leave(self.address);
    }
}

/// So many per second, with a burst of one second's worth.
#[derive(Debug)]
pub(crate) struct Rate {
    /// When the next one would come if all came evenly.
    next: Instant,
}

impl Rate {
    pub(crate) fn new(now: Instant) -> Self {
        Self { next: now }
    }

    /// Takes one turn; when it is.
    pub(crate) fn take(&mut self, now: Instant, per_second: u32) -> Instant {
        if per_second == 0 {
            return now;
        }
        let burst = Duration::from_secs(1);
        let turn = self.next.max(now);
        self.next = turn + burst / per_second;
        turn.checked_sub(burst - burst / per_second).map_or(now, |at| at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> ListenerLimits {
        ListenerLimits {
            connections_max: 5,
            connections_per_ip_max: 3,
            accepts_per_second: 0,
            accepts_per_ip_per_second: 0,
            drain_max: Duration::from_secs(1),
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn seat(admission: &Admission, from: &str) -> Result<Seat, Refusal> {
        match admission.admit(ip(from), Instant::now()) {
            Admitted::Serve(seat) | Admitted::After(seat, _) => Ok(seat),
            Admitted::Refuse(why) => Err(why),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_address_cannot_take_all() {
        let admission = Admission::new(limits());
        let mut seats: Vec<_> = (0..3).map(|_| seat(&admission, "10.0.0.1").unwrap()).collect();
        assert_eq!(seat(&admission, "10.0.0.1").unwrap_err(), Refusal::Address(3));
        assert_eq!(seat(&admission, "::ffff:10.0.0.1").unwrap_err(), Refusal::Address(3));
        seats.push(seat(&admission, "10.0.0.2").unwrap());
        seats.push(seat(&admission, "10.0.0.2").unwrap());
        assert_eq!(seat(&admission, "10.0.0.3").unwrap_err(), Refusal::Total(5));
        seats.remove(0);
        seats.push(seat(&admission, "10.0.0.1").unwrap());
        assert_eq!(admission.counts().refused_address.load(Ordering::Relaxed), 2);
        assert_eq!(admission.counts().refused_total.load(Ordering::Relaxed), 1);
        drop(seats);
        admission.emptied().await;
        assert_eq!(admission.counts().open.load(Ordering::Relaxed), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_ipv6_network_is_one_address() {
        let admission = Admission::new(limits());
        let seats: Vec<_> =
            ["2001:db8::1", "2001:db8::2", "2001:db8::3"].map(|from| seat(&admission, from).unwrap()).into();
        assert_eq!(seat(&admission, "2001:db8::4").unwrap_err(), Refusal::Address(3));
        assert!(seat(&admission, "2001:db8:0:1::1").is_ok());
        drop(seats);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_lets_a_burst_through_and_then_spreads() {
        let now = Instant::now();
        let mut rate = Rate::new(now);
        let turns: Vec<_> = (0..13).map(|_| (rate.take(now, 10) - now).as_millis()).collect();
        assert_eq!(turns, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 100, 200, 300]);
        let later = now + Duration::from_secs(60);
        assert_eq!(rate.take(later, 10), later);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fast_address_is_held_back_alone() {
        let admission = Admission::new(ListenerLimits { accepts_per_ip_per_second: 1, ..limits() });
        let now = Instant::now();
        let first = admission.admit(ip("10.0.0.1"), now);
        let second = admission.admit(ip("10.0.0.1"), now);
        let other = admission.admit(ip("10.0.0.2"), now);
        assert!(matches!(first, Admitted::Serve(_)));
        assert!(matches!(second, Admitted::After(_, at) if at == now + Duration::from_secs(1)));
        assert!(matches!(other, Admitted::Serve(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_that_left_are_forgotten() {
        let admission = Admission::new(ListenerLimits { accepts_per_ip_per_second: 1, ..limits() });
        for n in 0..3 * QUIET_ADDRESSES_MAX {
            let [_, _, a, b] = u32::try_from(n).unwrap().to_be_bytes();
            drop(admission.admit(IpAddr::from([10, 0, a, b]), Instant::now()));
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        assert!(admission.lock().addresses.len() <= QUIET_ADDRESSES_MAX);
    }
}
