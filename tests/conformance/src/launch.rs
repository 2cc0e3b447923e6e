//! What a program is told when it starts.

use std::net::SocketAddr;
use std::path::Path;

/// What a program needs to be told to start.
pub(crate) struct Launch<'a> {
    pub(crate) data_dir: &'a Path,
    pub(crate) address: SocketAddr,
    pub(crate) advertised: SocketAddr,
    /// HTTP of ours, the controller of Kafka.
    pub(crate) side_port: u16,
    pub(crate) settings: &'a [(String, String)],
}
