//! The bytes of a connection.
//!
//! TLS has its place here: its handshake goes on until [`Stream::is_open`], what is read and written passes
//! through it, and nothing above notices. Who the client is, with or without TLS, is said in the first words of
//! a connection (SASL): `client_core`'s link says those before any request.

use std::io::{self, IoSlice, Write};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustix::buffer::spare_capacity;
use rustix::net::{RecvFlags, sockopt};

use super::low_water::LowWater;

/// A socket that does not block.
#[derive(Debug)]
pub(super) struct Stream {
    socket: TcpStream,
    low_water: LowWater,
}

impl Stream {
    /// Begins to connect; the poll says of `token` when there is something to do.
    pub(super) fn begin(address: SocketAddr, registry: &Registry, token: Token) -> io::Result<Self> {
        let mut socket = TcpStream::connect(address)?;
        registry.register(&mut socket, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { socket, low_water: LowWater::default() })
    }

    /// Whether it can be used; the error if it never will be.
    pub(super) fn is_open(&self) -> io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        match self.socket.peer_addr() {
            Ok(_) => self.socket.set_nodelay(true).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes as much as the kernel takes at once.
    pub(super) fn write(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.write_vectored(parts)
    }

    /// Reads once, as much as `into` has room for. How much came; 0 at the end.
    pub(super) fn read(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        Ok(rustix::net::recv(&self.socket, spare_capacity(into), RecvFlags::empty())?.0)
    }

    /// So many bytes are missing before there is anything to do.
    pub(super) fn wait_for(&mut self, missing_bytes: usize) {
        self.low_water.set(&self.socket, missing_bytes);
    }

    /// Once it is closed the other end is not sent what it did not get yet. It would get that all the same, as soon as it
    /// can be reached: a commit that was given up and made again elsewhere would come behind later ones.
    pub(super) fn discard(&self) {
        // A socket that has ended has nothing left to send.
        let _ = sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }

    /// The poll says no more of it.
    pub(super) fn leave(&mut self, registry: &Registry) {
        // Closing takes it out of the poll as well.
        let _ = registry.deregister(&mut self.socket);
    }
}
