//! Many connections on one thread: frames out, frames in.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use anyhow::{Context, Result};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use wire::frame_len;

/// What is looked at in one turn.
const EVENTS: usize = 1024;
/// What is read at once.
const READ_BYTES: usize = 64 << 10;
/// A longer answer is none.
const FRAME_BYTES_MAX: usize = 256 << 20;

/// A connection; no other of the same [`Wires`] ever has the same.
pub(super) type WireId = usize;

/// What happened to a connection.
pub(super) enum Heard {
    /// It stands.
    Connected(WireId),
    /// A frame came, without its size.
    Frame(WireId, Vec<u8>),
    /// It ended, or could not be opened.
    Closed(WireId),
}

/// Connections.
pub(super) struct Wires {
    poll: Poll,
    events: Events,
    open: BTreeMap<WireId, Wire>,
    next: WireId,
    chunk: Vec<u8>,
}

struct Wire {
    stream: TcpStream,
    is_connected: bool,
    unsent: Vec<u8>,
    arrived: Vec<u8>,
}

impl Wires {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS),
            open: BTreeMap::new(),
            next: 0,
            chunk: vec![0; READ_BYTES],
        })
    }

    /// Begins a connection, from an address of this machine's own if one is named.
    pub(super) fn connect(&mut self, address: SocketAddr, from: Option<Ipv4Addr>) -> Result<WireId> {
        let stream = from.map_or_else(|| TcpStream::connect(address), |from| connect_from(from, address));
        let mut stream = stream.with_context(|| format!("cannot connect to {address}"))?;
        let id = self.next;
        self.next += 1;
        self.poll.registry().register(&mut stream, Token(id), Interest::READABLE | Interest::WRITABLE)?;
        self.open.insert(id, Wire { stream, is_connected: false, unsent: Vec::new(), arrived: Vec::new() });
        Ok(id)
    }

    /// Sends a frame, size included, behind what was sent before. One that is not open takes nothing, and it was
    /// said already that it ended.
    pub(super) fn send(&mut self, id: WireId, frame: &[u8]) {
        if let Some(wire) = self.open.get_mut(&id) {
            wire.unsent.extend_from_slice(frame);
            // An error comes again when it is next looked at.
            let _ = wire.flush();
        }
    }

    /// Closes one, and says nothing of it.
    pub(super) fn close(&mut self, id: WireId) {
        // The system forgets what is closed by itself.
        drop(self.open.remove(&id));
    }

    /// Waits for something to happen, but no longer than this.
    pub(super) fn wait(&mut self, timeout: Duration, heard: &mut Vec<Heard>) -> Result<()> {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            polled => polled?,
        }
        for event in &self.events {
            let Token(id) = event.token();
            let Some(wire) = self.open.get_mut(&id) else { continue };
            if wire.serve((id, event.is_read_closed()), &mut self.chunk, heard).is_err() {
                self.open.remove(&id);
                heard.push(Heard::Closed(id));
            }
        }
        Ok(())
    }
}

fn connect_from(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    match net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(TcpStream::from_std(std::net::TcpStream::from(socket)))
}

impl Wire {
    fn serve(
        &mut self,
        (id, ends): (WireId, bool),
        chunk: &mut [u8],
        heard: &mut Vec<Heard>,
    ) -> io::Result<()> {
        if !self.is_connected {
            if let Some(error) = self.stream.take_error()? {
                return Err(error);
            }
            match self.stream.peer_addr() {
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
                peer => drop(peer?),
            }
            self.stream.set_nodelay(true)?;
            self.is_connected = true;
            heard.push(Heard::Connected(id));
        }
        self.flush()?;
        let read = self.fill(chunk, ends);
        // What came before the end counts.
        self.cut(id, heard)?;
        read
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let done = loop {
            if !self.is_connected || sent == self.unsent.len() {
                break Ok(());
            }
            match self.stream.write(&self.unsent[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.unsent.drain(..sent);
        done
    }

    /// Takes in all that came, and its end if that was told.
    fn fill(&mut self, chunk: &mut [u8], ends: bool) -> io::Result<()> {
        loop {
            match self.stream.read(chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.arrived.extend_from_slice(&chunk[..count]);
                    if count < chunk.len() && !ends {
                        // Nothing is left: what comes from here on is told anew.
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Cuts what came into frames.
    fn cut(&mut self, id: WireId, heard: &mut Vec<Heard>) -> io::Result<()> {
        let mut at = 0;
        while let Some(prefix) = self.arrived[at..].first_chunk() {
            let len = frame_len(*prefix, FRAME_BYTES_MAX).map_err(io::Error::other)?;
            let Some(frame) = self.arrived.get(at + 4..at + 4 + len) else { break };
            heard.push(Heard::Frame(id, frame.to_vec()));
            at += 4 + len;
        }
        self.arrived.drain(..at);
        Ok(())
    }
}
