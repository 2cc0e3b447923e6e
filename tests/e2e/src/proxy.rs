//! A proxy that breaks connections, holds them up, and repeats them.
//!
//! ```text
//!   client ── requests ──▶ proxy ── requests ──▶ node
//!          ◀── answers ───       ◀── answers ───
//! ```
//!
//! Every connection has one fault, which happens after so many bytes, or with the next ones after some time.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::chance::Chance;

/// What goes wrong with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// It breaks in the middle of a request.
    CutRequest,
    /// It breaks in the middle of an answer.
    CutAnswer,
    /// It breaks, and what was asked for is done without the client hearing of it.
    LostAnswers,
    /// Nothing passes any more, and nobody is told.
    Silent,
    /// Requests are held back, perhaps for longer than the client waits: then they arrive after the client
    /// has said the same on another connection.
    Late,
    /// It breaks, and a second connection says all that was said on it once more.
    Twice,
    /// Every piece takes its time, until it breaks.
    Slow,
}

/// How long a connection that is used lives at most.
const LIFE_MAX: Duration = Duration::from_secs(1);
/// How late requests are at most. Clients of stories wait half as long for an answer.
const LATE_MAX: Duration = Duration::from_secs(1);
/// How long a piece of a slow connection takes at most.
const PIECE_MAX: Duration = Duration::from_millis(10);
/// How long the node may take over what it was told, before the connection is closed behind it.
const NODE_TIME: Duration = Duration::from_millis(300);

/// Stands between clients and a node, until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    node: SocketAddr,
    is_over: AtomicBool,
    /// While it is off, connections live for ever.
    is_cruel: AtomicBool,
    happened: Mutex<BTreeMap<Fault, u64>>,
}

impl Proxy {
    /// On a port that is taken already, so that the node could be told of it first.
    pub fn on(listener: TcpListener, node: SocketAddr, seed: u64) -> Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            node,
            is_over: AtomicBool::new(false),
            is_cruel: AtomicBool::new(true),
            happened: Mutex::default(),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            let (mut chance, mut faults) = (Chance::new(seed), Vec::new());
            for client in listener.incoming() {
                if accepting.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let fault = Fault::draw(&mut faults, &mut chance);
                // One that cannot be made looks to the client like a node that is gone.
                let _ = client.and_then(|client| Line::start(&accepting, client, fault, &mut chance));
            }
        });
        Ok(Self { address, shared })
    }

    /// On a free port of this machine, for the node to be told of.
    pub fn listener() -> Result<(TcpListener, u16)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        Ok((listener, port))
    }

    /// Where clients connect to.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether there are faults.
    pub fn set_cruel(&self, is_cruel: bool) {
        self.shared.is_cruel.store(is_cruel, Ordering::Relaxed);
    }

    /// How often each fault happened.
    pub fn happened(&self) -> BTreeMap<Fault, u64> {
        self.shared.happened.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does something again and again, until every fault happened so often.
    pub fn until_each(&self, times: u64, mut act: impl FnMut() -> Result<()>) -> Result<()> {
        const TIME_MAX: Duration = Duration::from_secs(120);
        let ends = Instant::now() + TIME_MAX;
        loop {
            act()?;
            let happened = self.happened();
            if Fault::ALL.iter().all(|fault| happened.get(fault).is_some_and(|&count| count >= times)) {
                return Ok(());
            }
            ensure!(Instant::now() < ends, "in {TIME_MAX:?} only this happened: {happened:?}");
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // The listener's thread looks once more.
        let _ = TcpStream::connect(self.address);
    }
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::CutRequest,
        Self::CutAnswer,
        Self::LostAnswers,
        Self::Silent,
        Self::Late,
        Self::Twice,
        Self::Slow,
    ];

    /// The next of those that are left, which are all of them once none is: so no fault is rare for long.
    fn draw(left: &mut Vec<Self>, chance: &mut Chance) -> Self {
        if left.is_empty() {
            left.extend(Self::ALL);
        }
        left.swap_remove(chance.pick(0..left.len() as u64) as usize)
    }

    /// After how many bytes of requests it happens, and after how many of answers. A greeting takes a few
    /// hundred, and is met now and then as well; small numbers are as likely as large ones.
    fn draw_place(self, chance: &mut Chance) -> (Option<u64>, Option<u64>) {
        let mut below = |doublings: u64| Some(chance.pick(100..200) << chance.pick(0..doublings));
        match self {
            Self::CutRequest | Self::Late | Self::Slow => (below(13), None),
            Self::CutAnswer | Self::LostAnswers | Self::Silent | Self::Twice => (None, below(9)),
        }
    }
}

/// Where a fault happens.
#[derive(Debug, Clone, Copy)]
struct Place {
    bytes: u64,
    until: Instant,
}

impl Place {
    /// After so many bytes, or with the next ones after so long.
    fn after(bytes: u64, life: Duration) -> Option<Self> {
        Some(Self { bytes, until: Instant::now() + life })
    }
}

/// One connection.
struct Line {
    shared: Arc<Shared>,
    client: TcpStream,
    node: TcpStream,
    fault: Fault,
    late: Duration,
    is_silent: AtomicBool,
    /// All that the client said, if it is to be said twice.
    said: Mutex<Vec<u8>>,
}

impl Line {
    fn start(shared: &Arc<Shared>, client: TcpStream, fault: Fault, chance: &mut Chance) -> io::Result<()> {
        let node = TcpStream::connect(shared.node)?;
        client.set_nodelay(true)?;
        node.set_nodelay(true)?;
        let (requests_max, answers_max) = fault.draw_place(chance);
        let (life, late) = (chance.time(LIFE_MAX), chance.time(LATE_MAX));
        let [requests_max, answers_max] = [requests_max, answers_max].map(|bytes| Place::after(bytes?, life));
        let (mut pace_up, mut pace_down) = (Chance::new(chance.draw()), Chance::new(chance.draw()));
        let (is_silent, said) = (AtomicBool::new(false), Mutex::default());
        let line = Arc::new(Self { shared: shared.clone(), client, node, fault, late, is_silent, said });
        let (up, down) = (line.clone(), line);
        thread::spawn(move || {
            // However one direction ends, both have ended.
            let _ = up.requests(requests_max, &mut pace_up);
            up.close();
        });
        thread::spawn(move || {
            let _ = down.answers(answers_max, &mut pace_down);
            down.close();
        });
        Ok(())
    }

    fn requests(&self, mut place: Option<Place>, pace: &mut Chance) -> io::Result<()> {
        let (mut buffer, mut fault) = (vec![0; 16 << 10], self.fault);
        loop {
            let read = self.read(&self.client, &mut buffer, pace)?;
            if read == 0 {
                // What was said without waiting for an answer is done all the same.
                thread::sleep(NODE_TIME);
                return Ok(());
            }
            if self.is_silent.load(Ordering::Relaxed) {
                continue;
            }
            if self.fault == Fault::Twice {
                self.said.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..read]);
            }
            let passed = self.pass(fault, &mut place, read);
            (&self.node).write_all(&buffer[..passed])?;
            if passed < read {
                if fault != Fault::Late {
                    return Ok(());
                }
                // A connection that was only late would live for ever.
                fault = Fault::CutRequest;
                place = Place::after(u64::MAX, LIFE_MAX);
                self.hold_back(buffer[passed..read].to_vec())?;
            }
        }
    }

    /// Passes requests on when it is too late, or nearly so.
    fn hold_back(&self, mut held: Vec<u8>) -> io::Result<()> {
        let until = Instant::now() + self.late;
        let mut buffer = vec![0; 16 << 10];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.client.set_read_timeout(Some(left))?;
            match (&self.client).read(&mut buffer) {
                // The client has given up.
                Ok(0) => {
                    thread::sleep(until.saturating_duration_since(Instant::now()));
                    break;
                }
                Ok(read) => held.extend_from_slice(&buffer[..read]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(error) => return Err(error),
            }
        }
        self.client.set_read_timeout(None)?;
        (&self.node).write_all(&held)
    }

    fn answers(&self, mut place: Option<Place>, pace: &mut Chance) -> io::Result<()> {
        let mut buffer = vec![0; 16 << 10];
        // Whether the client hears anything.
        let mut is_heard = true;
        loop {
            let read = self.read(&self.node, &mut buffer, pace)?;
            if read == 0 {
                return Ok(());
            }
            if !is_heard {
                continue;
            }
            let passed = self.pass(self.fault, &mut place, read);
            // A client that is gone leaves the node to be listened to until it has done its work.
            is_heard = (&self.client).write_all(&buffer[..passed]).is_ok() && passed == read;
            if passed < read {
                match self.fault {
                    Fault::Silent => self.is_silent.store(true, Ordering::Relaxed),
                    Fault::LostAnswers => self.client.shutdown(Shutdown::Both)?,
                    Fault::Twice => return self.say_again(),
                    Fault::CutRequest | Fault::CutAnswer | Fault::Late | Fault::Slow => return Ok(()),
                }
            }
        }
    }

    fn say_again(&self) -> io::Result<()> {
        self.close();
        let said = std::mem::take(&mut *self.said.lock().unwrap_or_else(PoisonError::into_inner));
        thread::sleep(self.late / 10);
        let mut second = TcpStream::connect(self.shared.node)?;
        let mut answers = second.try_clone()?;
        thread::spawn(move || io::copy(&mut answers, &mut io::sink()));
        second.write_all(&said)?;
        thread::sleep(NODE_TIME);
        second.shutdown(Shutdown::Both)
    }

    fn read(&self, mut from: &TcpStream, buffer: &mut [u8], pace: &mut Chance) -> io::Result<usize> {
        let read = from.read(buffer)?;
        if self.fault == Fault::Slow && self.shared.is_cruel.load(Ordering::Relaxed) {
            thread::sleep(pace.time(PIECE_MAX));
        }
        Ok(read)
    }

    /// How much of what was read passes: less than all if it is time for the fault.
    fn pass(&self, fault: Fault, place: &mut Option<Place>, read: usize) -> usize {
        let Some(place) = place else { return read };
        if Instant::now() > place.until {
            place.bytes = place.bytes.min(read as u64 / 2);
        }
        let passed = read.min(usize::try_from(place.bytes).unwrap_or(usize::MAX));
        place.bytes -= passed as u64;
        if passed == read || !self.shared.is_cruel.load(Ordering::Relaxed) {
            return read;
        }
        let mut happened = self.shared.happened.lock().unwrap_or_else(PoisonError::into_inner);
        *happened.entry(fault).or_default() += 1;
        passed
    }

    fn close(&self) {
        let _ = (self.client.shutdown(Shutdown::Both), self.node.shutdown(Shutdown::Both));
    }
}
