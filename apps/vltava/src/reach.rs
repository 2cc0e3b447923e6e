//! Whether there is a server at all: people do not wait for one that was never started.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Nobody takes connections at any of the addresses; this is what was said at the last.
#[derive(Debug)]
pub(crate) struct Unreachable {
    address: String,
    pub(crate) reason: io::Error,
}

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot connect to {}: {}", self.address, self.reason)
    }
}

impl std::error::Error for Unreachable {}

/// Longer than this no connection takes that comes about.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Fails if nobody takes connections at any of these addresses, between commas.
pub(crate) fn reach(bootstrap_servers: &str, timeout: Duration) -> Result<(), Unreachable> {
    let mut last = None;
    for address in bootstrap_servers.split(',').map(str::trim).filter(|address| !address.is_empty()) {
        // Java's clients allow a listener's name in front.
        let bare = address.rsplit("://").next().unwrap_or(address);
        match connect(bare, timeout.min(CONNECT_MAX)) {
            Ok(()) => return Ok(()),
            Err(reason) => last = Some(Unreachable { address: address.to_owned(), reason }),
        }
    }
    // Without an address there is nobody to miss here; whoever reads them next says so.
    last.map_or(Ok(()), Err)
}

fn connect(address: &str, timeout: Duration) -> io::Result<()> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}
