//! Sockets: performs what a machine of `client_core` wants done with its connections. Nothing here waits.

mod frames; // what comes
mod low_water; // how much of it is worth waking up for
mod spare;
mod stream; // bytes in and out

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use client_core::{Address, ConnectionId, NetEffect, Outgoing};
use mio::{Registry, Token};
use wire::Part;

use crate::bell::Bell;
use frames::Frames;
use stream::Stream;

pub(crate) use spare::Spare;

/// What happened on a connection.
#[derive(Debug)]
pub(crate) enum Event {
    /// It stands.
    Connected(ConnectionId),
    /// It ended, or could not be opened; why, for people.
    Closed(ConnectionId, String),
    /// A frame came; without its size.
    Frame(ConnectionId, Vec<u8>),
    /// A request without an answer went out.
    Written(ConnectionId),
}

/// More names than any cluster has brokers.
const PASSED_OVER_MAX: usize = 1_000;
/// The kernel takes no more parts than this in one call.
const PARTS_MAX: usize = 1_024;

/// The connections of one client.
#[derive(Debug)]
pub(crate) struct Wires {
    registry: Registry,
    bell: Arc<Bell>,
    open: HashMap<ConnectionId, Wire>,
    /// Connections that may have something to do.
    ready: VecDeque<ConnectionId>,
    // Bounded by what was asked for: an event is the end of something the machine began.
    happened: VecDeque<Event>,
    /// How many of the addresses of a name were begun with in vain: the next try begins behind them.
    passed_over: HashMap<String, usize>,
    /// Names that are being looked up, each on a thread of its own: that may take long.
    lookups: Lookups,
    spare: Spare,
}

#[derive(Debug)]
struct Lookups {
    pending: usize,
    found: Receiver<(ConnectionId, io::Result<Vec<SocketAddr>>)>,
    found_out: Sender<(ConnectionId, io::Result<Vec<SocketAddr>>)>,
}

/// One connection, from the wish for it to its end.
#[derive(Debug, Default)]
struct Wire {
    /// As people know it.
    address: String,
    stream: Option<Stream>,
    /// Addresses that were not tried yet, the last first.
    untried: Vec<SocketAddr>,
    tried: usize,
    is_connected: bool,
    is_listed: bool,
    is_readable: bool,
    is_writable: bool,
    /// Nothing more comes after what is there: a short read is not the end of it.
    is_read_closed: bool,
    frames: Frames,
    // Bounded by the requests that the machine lets be in flight.
    outgoing: VecDeque<Outgoing>,
    /// Bytes of the first that went out already.
    gone_bytes: usize,
}

impl Wires {
    /// No connections yet. What becomes of them is told to whoever polls `registry`'s poll; the end of a
    /// lookup rings `bell`.
    pub(crate) fn new(registry: Registry, bell: Arc<Bell>, spare: Spare) -> Self {
        let (found_out, found) = channel();
        Self {
            registry,
            bell,
            open: HashMap::new(),
            ready: VecDeque::new(),
            happened: VecDeque::new(),
            passed_over: HashMap::new(),
            lookups: Lookups { pending: 0, found, found_out },
            spare,
        }
    }

    /// Performs an effect. What can be written is written at once.
    pub(crate) fn perform(&mut self, effect: NetEffect) {
        match effect {
            NetEffect::Connect { connection, address } => self.connect(connection, &address),
            NetEffect::Send { connection, outgoing } => {
                // One that just ended is about to say so.
                let Some(wire) = self.open.get_mut(&connection) else { return };
                wire.outgoing.push_back(outgoing);
                if let Err(ended) = wire.write(connection, &mut self.happened) {
                    self.end(connection, &ended);
                }
            }
            NetEffect::Close { connection } => {
                if let Some(stream) = self.open.get(&connection).and_then(|wire| wire.stream.as_ref()) {
                    stream.discard();
                }
                self.close(connection);
            }
        }
    }

    /// Takes note of what the poll says.
    pub(crate) fn note(&mut self, events: &mio::Events) {
        for event in events {
            let connection = ConnectionId(event.token().0 as u64);
            // The bell, or one that was closed meanwhile.
            let Some(wire) = self.open.get_mut(&connection) else { continue };
            wire.is_readable |= event.is_readable() || event.is_read_closed() || event.is_error();
            wire.is_writable |= event.is_writable() || event.is_write_closed() || event.is_error();
            wire.is_read_closed |= event.is_read_closed() || event.is_error();
            if !std::mem::replace(&mut wire.is_listed, true) {
                self.ready.push_back(connection);
            }
        }
    }

    /// Whether something happened that was not told yet.
    pub(crate) fn has_next(&self) -> bool {
        !self.happened.is_empty()
    }

    /// What happened next, if anything did.
    pub(crate) fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.happened.pop_front() {
                return Some(event);
            }
            if self.lookups.pending > 0
                && let Ok((connection, found)) = self.lookups.found.try_recv()
            {
                self.lookups.pending -= 1;
                self.on_found(connection, found);
                continue;
            }
            let connection = *self.ready.front()?;
            let Some(wire) = self.open.get_mut(&connection) else {
                self.ready.pop_front();
                continue;
            };
            match wire.advance(connection, &self.registry, &mut self.happened, &self.spare) {
                Ok(Some(frame)) => {
                    // Others have their turn before its next.
                    self.ready.rotate_left(1);
                    return Some(Event::Frame(connection, frame));
                }
                Ok(None) => {
                    wire.is_listed = false;
                    self.ready.pop_front();
                }
                Err(ended) => self.end(connection, &ended),
            }
        }
    }

    fn connect(&mut self, connection: ConnectionId, address: &Address) {
        self.open.insert(connection, Wire { address: address.to_string(), ..Wire::default() });
        let (host, port) = (address.host.clone(), address.port);
        if let Ok(ip) = host.parse::<IpAddr>() {
            return self.on_found(connection, Ok(vec![SocketAddr::new(ip, port)]));
        }
        let (out, bell) = (self.lookups.found_out.clone(), self.bell.clone());
        let lookup = move || {
            let found = (&*host, port).to_socket_addrs().map(Iterator::collect);
            // Nobody may be left who wants to know.
            let _ = out.send((connection, found));
            bell.ring();
        };
        match std::thread::Builder::new().name("lookup".to_owned()).spawn(lookup) {
            Ok(_detached) => self.lookups.pending += 1,
            Err(error) => self.end(connection, &error),
        }
    }

    fn on_found(&mut self, connection: ConnectionId, found: io::Result<Vec<SocketAddr>>) {
        let Some(wire) = self.open.get_mut(&connection) else { return };
        let tried = found.and_then(|found| {
            let passed_over = self.passed_over.get(&wire.address).copied().unwrap_or(0);
            wire.untried = found;
            let begin = passed_over % wire.untried.len().max(1);
            wire.untried.rotate_left(begin);
            wire.untried.reverse();
            let none = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            wire.try_next(connection, &self.registry, none)
        });
        if let Err(error) = tried {
            self.end(connection, &error);
        }
    }

    /// It ended by itself. The machine tries again whatever it was; people want to know.
    fn end(&mut self, connection: ConnectionId, error: &io::Error) {
        let why = self.open.get(&connection).map(|wire| wire.in_words(error)).unwrap_or_default();
        self.close(connection);
        self.happened.push_back(Event::Closed(connection, why));
    }

    fn close(&mut self, connection: ConnectionId) {
        self.ready.retain(|&ready| ready != connection);
        // What was told of it before is of no use any more.
        self.happened.retain(|event| event.connection() != connection);
        let Some(wire) = self.open.remove(&connection) else { return };
        if !wire.is_connected && !wire.untried.is_empty() && self.passed_over.len() < PASSED_OVER_MAX {
            // It was given up while one address said nothing; others were not tried.
            *self.passed_over.entry(wire.address).or_default() += wire.tried;
        }
        if let Some(mut stream) = wire.stream {
            stream.leave(&self.registry);
        }
    }
}

impl Event {
    const fn connection(&self) -> ConnectionId {
        match self {
            Self::Connected(id) | Self::Closed(id, _) | Self::Frame(id, _) | Self::Written(id) => *id,
        }
    }
}

impl Wire {
    fn in_words(&self, error: &io::Error) -> String {
        let address = &self.address;
        match error.kind() {
            _ if !self.is_connected => format!("cannot connect to {address}: {error}"),
            io::ErrorKind::UnexpectedEof => format!("{address} closed the connection"),
            _ => format!("the connection to {address} broke: {error}"),
        }
    }

    /// Begins to connect to the next address; without one, the `last` error stays.
    fn try_next(
        &mut self,
        connection: ConnectionId,
        registry: &Registry,
        mut last: io::Error,
    ) -> io::Result<()> {
        let token = Token(usize::try_from(connection.0).map_err(io::Error::other)?);
        while let Some(address) = self.untried.pop() {
            self.tried += 1;
            (self.is_readable, self.is_writable, self.is_read_closed) = (false, false, false);
            match Stream::begin(address, registry, token) {
                Ok(stream) => {
                    self.stream = Some(stream);
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Does what can be done now: the next whole frame, or `None` if nothing more can be.
    fn advance(
        &mut self,
        connection: ConnectionId,
        registry: &Registry,
        happened: &mut VecDeque<Event>,
        spare: &Spare,
    ) -> io::Result<Option<Vec<u8>>> {
        if !self.is_connected {
            if !self.is_writable {
                return Ok(None);
            }
            if !self.finish_connecting(connection, registry)? {
                return Ok(None);
            }
            happened.push_back(Event::Connected(connection));
        }
        self.write(connection, happened)?;
        self.read(spare)
    }

    /// Whether it stands; if it was refused, the next address is tried.
    fn finish_connecting(&mut self, connection: ConnectionId, registry: &Registry) -> io::Result<bool> {
        let Some(stream) = &mut self.stream else { return Ok(false) };
        match stream.is_open() {
            Ok(true) => {
                self.is_connected = true;
                self.untried = Vec::new();
                Ok(true)
            }
            Ok(false) => {
                self.is_writable = false;
                Ok(false)
            }
            Err(error) => {
                stream.leave(registry);
                self.try_next(connection, registry, error).map(|()| false)
            }
        }
    }

    /// Writes what waits, as far as the kernel takes it.
    fn write(&mut self, connection: ConnectionId, happened: &mut VecDeque<Event>) -> io::Result<()> {
        let Some(stream) = self.stream.as_mut().filter(|_| self.is_connected) else { return Ok(()) };
        while self.is_writable
            && let Some(first) = self.outgoing.front()
        {
            let written = {
                let mut parts = parts(first);
                let mut left = &mut parts[..];
                IoSlice::advance_slices(&mut left, self.gone_bytes);
                let count = left.len().min(PARTS_MAX);
                stream.write(&left[..count])
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.gone_bytes += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_writable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if self.gone_bytes == first.frame.wire_len() {
                self.gone_bytes = 0;
                if first.is_unanswered {
                    happened.push_back(Event::Written(connection));
                }
                self.outgoing.pop_front();
            }
        }
        Ok(())
    }

    /// The next whole frame, once it is there.
    fn read(&mut self, spare: &Spare) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(frame) = self.frames.next(spare)? {
                return Ok(Some(frame));
            }
            let Some(stream) = &mut self.stream else { return Ok(None) };
            if !self.is_readable {
                stream.wait_for(self.frames.missing_bytes());
                return Ok(None);
            }
            match self.frames.fill(|into| stream.read(into)) {
                Ok(filled) if filled.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                // There was less than there was room for: the poll says when more comes.
                Ok(filled) => self.is_readable = filled.is_full || self.is_read_closed,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_readable = false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// All that a request consists of.
fn parts(outgoing: &Outgoing) -> Vec<IoSlice<'_>> {
    let mut fills = outgoing.fills.iter();
    let parts = outgoing.frame.parts().map(|part| match part {
        Part::Bytes(bytes) => IoSlice::new(bytes),
        Part::Hole(_) => IoSlice::new(fills.next().expect("each hole has its batch").bytes()),
    });
    parts.collect()
}
