//! Who waits for a client's sockets: a thread of its own, or a caller that needs what comes.
//!
//! ```text
//!   caller that blocks ──┐          ┌── poll: sleeps until a socket or the bell wakes it
//!                        ├── seat ──┤
//!   the client's thread ─┘          └── turn: wires ──▶ machine ──▶ wires
//! ```
//!
//! A thread that sleeps has to be woken, which takes longer than anything else on the way of a record. So
//! whoever blocks until something comes waits for the sockets itself, and finds it there; the client's own
//! thread leaves the seat to callers while they use it, and takes it again when none did for a moment.
//!
//! **Invariant:** at any time somebody sits in the seat, or will within [`COVER_AFTER`].

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use mio::{Poll, Token, Waker};
use parking_lot::{Mutex, MutexGuard};

use crate::bell::Bell;
use crate::clock::Clock;
use crate::wires::{Event, Spare, Wires};

/// When callers have left the seat alone for so long, the client's thread takes it.
const COVER_AFTER: Duration = Duration::from_millis(2);
/// How soon a caller that waits for the seat looks whether it needs it still, and how late at most: twice as late each
/// time, for there may be hundreds.
const LOOK_AFTER: Duration = Duration::from_millis(1);
const LOOK_AFTER_MAX: Duration = Duration::from_millis(32);
/// Instead of a time.
const NOT_ASLEEP: u64 = 0;
/// No connection is called so.
const BELL: Token = Token(usize::MAX);
const EVENTS_MAX: usize = 64;

thread_local! {
    /// Whether this thread sits in the seat of some client.
    static IN_SEAT: Cell<bool> = const { Cell::new(false) };
}

/// What decides, and those who wait for it.
pub(crate) trait Machine {
    /// Whom to tell what, once nothing is locked any more.
    type Told: Default;

    /// Tells the machine what happened, if anything did, and performs what it decides. When it is to be
    /// stepped although nothing happens.
    fn step(&self, happened: Option<Event>, wires: &mut Wires, told: &mut Self::Told) -> Option<Duration>;

    /// Tells everybody.
    fn tell(&self, told: Self::Told, by: By);

    /// Whether the client is gone.
    fn is_stopping(&self) -> bool;

    /// The clock of its deadlines.
    fn clock(&self) -> &Clock;
}

/// Who runs something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// The client's own thread.
    Itself,
    /// A thread of the one who uses the client.
    Caller,
}

/// Drives the machine of one client.
#[derive(Debug)]
pub(crate) struct Driver {
    seat: Mutex<Seat>,
    wires: Mutex<Wires>,
    bell: Arc<Bell>,
    /// Until when whoever sits in the seat sleeps, in nanoseconds of the clock, or [`NOT_ASLEEP`].
    sleeps_until_ns: AtomicU64,
    /// Callers that sit in the seat or want to.
    callers: AtomicUsize,
    /// A caller sat in the seat since the client's thread looked last.
    is_driven: AtomicBool,
    /// The client's thread waits until the callers have left.
    is_parked: AtomicBool,
    thread: OnceLock<Thread>,
}

/// A caller in the seat, or in front of it; it leaves whatever happens.
struct Seated<'a> {
    driver: &'a Driver,
    seat: Option<MutexGuard<'a, Seat>>,
    /// In that of another client, whose turn led here.
    was_seated: bool,
}

impl Seated<'_> {
    fn seat(&mut self) -> &mut Seat {
        self.seat.as_mut().expect("it is taken before, and given up when this is dropped")
    }
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        let driver = self.driver;
        IN_SEAT.set(self.was_seated);
        driver.is_driven.store(true, Ordering::SeqCst);
        self.seat = None;
        driver.callers.fetch_sub(1, Ordering::SeqCst);
        if driver.is_parked.load(Ordering::SeqCst)
            && let Some(thread) = driver.thread.get()
        {
            thread.unpark();
        }
    }
}

#[derive(Debug)]
struct Seat {
    poll: Poll,
    events: mio::Events,
}

impl Driver {
    /// Nobody sits there yet.
    pub(crate) fn new(spare: Spare) -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), BELL)?;
        let bell = Arc::new(Bell::new(waker));
        let wires = Wires::new(poll.registry().try_clone()?, bell.clone(), spare);
        Ok(Self {
            seat: Mutex::new(Seat { poll, events: mio::Events::with_capacity(EVENTS_MAX) }),
            wires: Mutex::new(wires),
            bell,
            sleeps_until_ns: AtomicU64::new(NOT_ASLEEP),
            callers: AtomicUsize::new(0),
            is_driven: AtomicBool::new(false),
            is_parked: AtomicBool::new(false),
            thread: OnceLock::new(),
        })
    }

    /// Whether this thread can wait for the sockets: not if it does already.
    pub(crate) fn may_drive(&self) -> bool {
        let is_itself = |thread: &Thread| thread.id() == thread::current().id();
        !IN_SEAT.get() && !self.thread.get().is_some_and(is_itself)
    }

    /// Something is to be done soon: wakes whoever sleeps in the seat.
    pub(crate) fn ring(&self) {
        self.bell.ring();
    }

    /// The client is gone: wakes its thread, wherever it is, and waits for its end, unless that waits for
    /// this very thread.
    pub(crate) fn stop(&self, thread: Option<JoinHandle<()>>) {
        self.bell.ring();
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
        // What is told to somebody, by the client's thread or by a caller in its seat, may drop the client.
        let is_itself = |thread: &JoinHandle<()>| thread.thread().id() == thread::current().id();
        if let Some(thread) = thread.filter(|thread| !is_itself(thread) && !IN_SEAT.get()) {
            // It ends by itself; one that panicked has said so already.
            let _ = thread.join();
        }
    }

    /// What the client's own thread does, until the client is gone.
    pub(crate) fn run<M: Machine>(&self, machine: &M) {
        self.thread.get_or_init(thread::current);
        loop {
            while self.is_driven.swap(false, Ordering::SeqCst) && !machine.is_stopping() {
                thread::park_timeout(COVER_AFTER);
            }
            if self.wait_for_callers() {
                // The one that left may come back at once.
                continue;
            }
            let Some(mut seat) = self.seat.try_lock() else { continue };
            // Asked before the turn, so that what was given up with the end is told in it.
            let is_stopping = machine.is_stopping();
            let deadline = self.turn(machine, By::Itself, || false);
            if is_stopping {
                return;
            }
            self.sleep(&mut seat, machine.clock(), deadline);
        }
    }

    /// Waits until a caller leaves the seat, if one wants it. It rings only once, so it is not to be overtaken.
    fn wait_for_callers(&self) -> bool {
        self.is_parked.store(true, Ordering::SeqCst);
        let is_wanted = self.callers.load(Ordering::SeqCst) > 0;
        if is_wanted {
            thread::park();
        }
        self.is_parked.store(false, Ordering::SeqCst);
        is_wanted
    }

    /// Waits on the caller's thread until what it waits for is done, or until that time.
    pub(crate) fn drive<M: Machine>(
        &self,
        machine: &M,
        until: Option<Duration>,
        is_done: impl Fn() -> bool + Copy,
    ) {
        let left = || match until {
            _ if is_done() => Duration::ZERO,
            Some(until) => until.saturating_sub(machine.clock().now().elapsed),
            None => Duration::MAX,
        };
        let Some(mut seat) = self.take_seat(left) else { return };
        // What was rung for until now is done in the first turn.
        self.bell.silence();
        loop {
            let deadline = self.turn(machine, By::Caller, is_done);
            if left().is_zero() || machine.is_stopping() {
                break;
            }
            let first = [deadline, until].into_iter().flatten().min();
            self.sleep(seat.seat(), machine.clock(), first);
        }
    }

    /// Takes in what has come already, if callers have the seat and none sits there: what is sent need not
    /// wait in the socket until the caller has nothing else to do.
    pub(crate) fn glance<M: Machine>(&self, machine: &M) {
        if !self.is_driven.load(Ordering::SeqCst) {
            return;
        }
        let Some(mut seat) = self.seat.try_lock() else { return };
        // The client's own thread goes on resting.
        self.is_driven.store(true, Ordering::SeqCst);
        let Seat { poll, events } = &mut *seat;
        let _ = poll.poll(events, Some(Duration::ZERO));
        self.wires.lock().note(&seat.events);
        self.turn(machine, By::Caller, || false);
    }

    /// `None` if there is no time left for it before the seat is free: another caller sits there for as long as it
    /// waits, and does meanwhile what others wait for.
    fn take_seat(&self, left: impl Fn() -> Duration) -> Option<Seated<'_>> {
        self.callers.fetch_add(1, Ordering::SeqCst);
        let mut seated = Seated { driver: self, seat: self.seat.try_lock(), was_seated: IN_SEAT.get() };
        if seated.seat.is_none() {
            self.bell.ring();
        }
        let mut patience = LOOK_AFTER;
        while seated.seat.is_none() {
            seated.seat = self.seat.try_lock_for(patience);
            patience = (2 * patience).min(LOOK_AFTER_MAX).min(left());
            if seated.seat.is_none() && patience.is_zero() {
                return None;
            }
        }
        IN_SEAT.set(true);
        Some(seated)
    }

    /// Does on the caller's thread what the machine decides now, unless somebody is at it already. Whether
    /// it is done.
    pub(crate) fn try_turn<M: Machine>(&self, machine: &M) -> bool {
        let Some(mut wires) = self.wires.try_lock() else { return false };
        let mut told = M::Told::default();
        let deadline = machine.step(None, &mut wires, &mut told);
        let has_next = wires.has_next();
        drop(wires);
        machine.tell(told, By::Caller);
        // Whoever sits in the seat may not know of that, nor of this deadline.
        let sleeps_until_ns = self.sleeps_until_ns.load(Ordering::SeqCst);
        if has_next || sleeps_until_ns == NOT_ASLEEP || deadline.map_or(u64::MAX, nanos) < sleeps_until_ns {
            self.bell.ring();
        }
        true
    }

    /// Tells the machine all that happened, or as much as it takes until `is_done`. When it is to be
    /// stepped next.
    fn turn<M: Machine>(&self, machine: &M, by: By, is_done: impl Fn() -> bool) -> Option<Duration> {
        loop {
            let mut told = M::Told::default();
            let (deadline, is_over) = {
                let mut wires = self.wires.lock();
                let happened = wires.next();
                let nothing_happened = happened.is_none();
                let deadline = machine.step(happened, &mut wires, &mut told);
                // What was performed may have gone out, or gone wrong, at once.
                (deadline, nothing_happened && !wires.has_next())
            };
            machine.tell(told, by);
            if is_over || is_done() {
                return deadline;
            }
        }
    }

    fn sleep(&self, seat: &mut Seat, clock: &Clock, deadline: Option<Duration>) {
        self.sleeps_until_ns.store(deadline.map_or(u64::MAX, nanos), Ordering::SeqCst);
        let timeout = match self.bell.begin_sleep() {
            true => deadline.map(|deadline| deadline.saturating_sub(clock.now().elapsed)),
            false => Some(Duration::ZERO),
        };
        // An interrupted sleep is a short one. Nothing else can fail here that a machine could mend.
        let _ = seat.poll.poll(&mut seat.events, timeout);
        self.bell.silence();
        self.sleeps_until_ns.store(NOT_ASLEEP, Ordering::SeqCst);
        self.wires.lock().note(&seat.events);
    }
}

fn nanos(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does what another thread tells it, once it is rung.
    struct Counter {
        clock: Clock,
        /// What was told, and what a step has taken over of it.
        told: AtomicU64,
        taken: AtomicU64,
        is_stopping: AtomicBool,
    }

    impl Machine for Counter {
        type Told = ();

        fn step(&self, _: Option<Event>, _: &mut Wires, (): &mut ()) -> Option<Duration> {
            self.taken.store(self.told.load(Ordering::SeqCst), Ordering::SeqCst);
            None
        }

        fn tell(&self, (): (), _: By) {}

        fn is_stopping(&self) -> bool {
            self.is_stopping.load(Ordering::SeqCst)
        }

        fn clock(&self) -> &Clock {
            &self.clock
        }
    }

    fn counter() -> Counter {
        Counter {
            clock: Clock::start(),
            told: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// Who has to wait for the seat gets what it waits for from the one who sits there, and waits no longer than it
    /// said, however long the other sits.
    #[test]
    fn nobody_waits_behind_another_for_nothing() {
        let driver = Arc::new(Driver::new(Spare::default()).expect("a poll"));
        let counter = Arc::new(counter());
        let sitting = {
            let (driver, counter) = (driver.clone(), counter.clone());
            thread::spawn(move || driver.drive(&*counter, None, || false))
        };
        while !driver.seat.is_locked() {
            thread::yield_now();
        }
        let (done, is_done) = std::sync::mpsc::channel();
        let (its_driver, its_counter) = (driver.clone(), counter.clone());
        thread::spawn(move || {
            let until = its_counter.clock.now().elapsed + Duration::from_millis(20);
            its_driver.drive(&*its_counter, Some(until), || false);
            assert!(its_counter.clock.now().elapsed >= until);
            its_counter.told.store(1, Ordering::SeqCst);
            its_driver.drive(&*its_counter, None, || its_counter.taken.load(Ordering::SeqCst) == 1);
            done.send(its_driver.seat.is_locked()).expect("somebody listens");
        });
        let is_another_there = is_done.recv_timeout(Duration::from_secs(60)).expect("it waits no longer");
        assert!(is_another_there);
        counter.is_stopping.store(true, Ordering::SeqCst);
        driver.ring();
        sitting.join().expect("it leaves");
    }

    /// Who rings is heard, whoever sits in the seat, however it changes hands, and whoever works beside.
    #[test]
    fn no_ring_is_lost() {
        const ROUNDS: u64 = 2_000;
        let driver = Arc::new(Driver::new(Spare::default()).expect("a poll"));
        let counter = Arc::new(counter());
        let wanted = Arc::new(AtomicU64::new(0));
        let with = |work: fn(&Driver, &Counter, &AtomicU64)| {
            let (driver, counter, wanted) = (driver.clone(), counter.clone(), wanted.clone());
            thread::spawn(move || work(&driver, &counter, &wanted))
        };
        let own = with(|driver, counter, _| driver.run(counter));
        let ringer = with(|driver, counter, wanted| {
            for number in 1..=ROUNDS {
                while wanted.load(Ordering::SeqCst) < number {
                    thread::yield_now();
                }
                counter.told.store(number, Ordering::SeqCst);
                driver.ring();
            }
        });
        let beside = with(|driver, counter, wanted| {
            while wanted.load(Ordering::SeqCst) < ROUNDS {
                driver.try_turn(counter);
                driver.glance(counter);
                thread::yield_now();
            }
        });
        let (done, is_done) = std::sync::mpsc::channel();
        let (its_driver, its_counter, its_wanted) = (driver.clone(), counter.clone(), wanted.clone());
        thread::spawn(move || {
            for number in 1..=ROUNDS {
                its_wanted.store(number, Ordering::SeqCst);
                let is_taken = || its_counter.taken.load(Ordering::SeqCst) >= number;
                match number % 7 {
                    // The client's thread is to see to it.
                    0 => {
                        while !is_taken() {
                            thread::yield_now();
                        }
                    }
                    _ => its_driver.drive(&*its_counter, None, is_taken),
                }
            }
            // Nobody listens any more if it took too long.
            let _ = done.send(());
        });
        is_done.recv_timeout(Duration::from_secs(60)).expect("no ring is lost");
        ringer.join().expect("it rings");
        beside.join().expect("it works beside");
        counter.is_stopping.store(true, Ordering::SeqCst);
        driver.stop(Some(own));
    }
}
