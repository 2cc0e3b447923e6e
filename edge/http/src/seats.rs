//! Who may ask: each address has a share, so that one cannot keep the others from asking.
//!
//! Beyond it, and beyond what all may have together, there are a few seats for those who ask after
//! health and nothing else: an orchestrator that gets no answer kills the node.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A few dashboards and scrapers.
const SEATS_MAX: usize = 256;
/// Of one address (one /64 for IPv6).
const SEATS_PER_ADDRESS_MAX: usize = 32;
/// For health alone, when the others are taken.
const SPARE_MAX: usize = 64;
/// Of one address.
const SPARE_PER_ADDRESS_MAX: usize = 16;

/// What a seat is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All there is to ask.
    Any,
    /// Health, and that at once.
    Health,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Seats(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    any: Count,
    health: Count,
}

#[derive(Debug, Default)]
struct Count {
    all: usize,
    addresses: HashMap<IpAddr, usize>,
}

/// A connection's place; dropping it makes room.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Seats,
    address: IpAddr,
    pub(crate) kind: Kind,
}

impl Seats {
    /// A seat for a connection from this address; `None` if it has to be closed.
    pub(crate) fn take(&self, address: IpAddr) -> Option<Seat> {
        let address = base::counted_as(address);
        let mut taken = self.lock();
        let kind = if taken.any.take(address, SEATS_MAX, SEATS_PER_ADDRESS_MAX) {
            Kind::Any
        } else if taken.health.take(address, SPARE_MAX, SPARE_PER_ADDRESS_MAX) {
            Kind::Health
        } else {
            return None;
        };
        Some(Seat { seats: self.clone(), address, kind })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        // Every change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Count {
    fn take(&mut self, address: IpAddr, max: usize, per_address_max: usize) -> bool {
        let of_address = self.addresses.get(&address).copied().unwrap_or(0);
        if self.all >= max || of_address >= per_address_max {
            return false;
        }
        self.all += 1;
        self.addresses.insert(address, of_address + 1);
        true
    }

    fn leave(&mut self, address: IpAddr) {
        self.all -= 1;
        if let Some(count) = self.addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&address);
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        match self.kind {
            Kind::Any => taken.any.leave(self.address),
            Kind::Health => taken.health.leave(self.address),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn kinds(seats: &Seats, address: IpAddr, count: usize) -> (Vec<Seat>, [usize; 2]) {
        let taken: Vec<Seat> = (0..count).filter_map(|_| seats.take(address)).collect();
        let of = |kind| taken.iter().filter(|seat| seat.kind == kind).count();
        let counts = [of(Kind::Any), of(Kind::Health)];
        (taken, counts)
    }

    #[test]
    fn an_address_has_its_share_and_others_theirs() {
        let seats = Seats::default();
        let (first, counts) = kinds(&seats, [10, 0, 0, 1].into(), 100);
        assert_eq!(counts, [SEATS_PER_ADDRESS_MAX, SPARE_PER_ADDRESS_MAX]);
        let (second, counts) = kinds(&seats, [10, 0, 0, 2].into(), 1);
        assert_eq!(counts, [1, 0]);
        drop((first, second));
        let taken = seats.lock();
        assert_eq!((taken.any.all, taken.health.all), (0, 0));
        assert!(taken.any.addresses.is_empty() && taken.health.addresses.is_empty());
    }

    #[test]
    fn all_together_have_an_end() {
        let seats = Seats::default();
        let mut held = Vec::new();
        let mut counts = [0, 0];
        for last in 0..100 {
            let (taken, of) = kinds(&seats, [10, 0, 0, last].into(), 20);
            counts = [counts[0] + of[0], counts[1] + of[1]];
            held.push(taken);
        }
        assert_eq!(counts, [SEATS_MAX, SPARE_MAX]);
    }

    #[test]
    fn a_host_has_a_whole_network_of_ipv6() {
        let seats = Seats::default();
        let addresses = (0..100u16).map(|last| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last)));
        let held: Vec<_> = addresses.filter_map(|address| seats.take(address)).collect();
        assert_eq!(held.len(), SEATS_PER_ADDRESS_MAX + SPARE_PER_ADDRESS_MAX);
    }
}
