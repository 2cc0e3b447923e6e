//! What a program is told when it starts.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

/// What a program needs to be told to start.
pub(crate) struct Launch<'a> {
    pub(crate) data_dir: &'a Path,
    pub(crate) address: SocketAddr,
    pub(crate) advertised: SocketAddr,
    /// HTTP of ours, the controller of Kafka.
    pub(crate) side_port: u16,
    pub(crate) settings: &'a [(String, String)],
}

/// A node of ours.
pub(crate) fn node(binary: &Path, launch: &Launch<'_>, more_data_dirs: &[PathBuf]) -> Command {
    let mut command = Command::new(binary);
    let http = SocketAddr::new(launch.address.ip(), launch.side_port);
    command
        .args([OsStr::new("server"), OsStr::new("--data-dir"), launch.data_dir.as_os_str()])
        .args(["--listen", &launch.address.to_string()])
        .args(["--set", &format!("http.listen={http}")]);
    if launch.advertised != launch.address {
        command.args(["--set", &format!("advertised.listeners=PLAINTEXT://{}", launch.advertised)]);
    }
    for data_dir in more_data_dirs {
        command.arg("--data-dir").arg(data_dir);
    }
    for (name, value) in launch.settings {
        command.args(["--set", &format!("{name}={value}")]);
    }
    command
}

/// How many nodes a cluster of ours has.
pub(crate) const NODES: u16 = 3;
/// What `vltava dev` ends with when all its nodes are there.
pub(crate) const READY: &str = "Ctrl-C stops it.";
/// From a node's port to that of its health, and to the one for nodes: `vltava help dev`.
pub(crate) const HTTP_ABOVE: u16 = 552;
const CLUSTER_ABOVE: u16 = 10_000;

/// A cluster of ours; clients begin at its first node.
pub(crate) fn cluster(binary: &Path, launch: &Launch<'_>) -> Command {
    let mut command = Command::new(binary);
    command.args(["dev", "--nodes", &NODES.to_string(), "--port", &launch.address.port().to_string()]);
    command.arg("--data-dir").arg(launch.data_dir);
    for (name, value) in launch.settings {
        command.args(["--set", &format!("{name}={value}")]);
    }
    command
}

/// All ports that are looked at: below those that the kernel gives to outgoing connections, so that no connection takes
/// one before the node does.
const PORTS: Range<u16> = 20_000..32_000;

/// The first port of a cluster: all that it needs are free, and claimed for this process.
pub fn free_cluster_port() -> Result<u16> {
    // Below those of outgoing connections even with what is added for the nodes' own.
    const LAST: u16 = 22_700;
    let places = (LAST - PORTS.start) / NODES;
    // Two that are looked for at the same time have no port in common.
    let mut tries = looked_at().take(places.into()).map(|port| PORTS.start + port % places * NODES);
    let all = |first: u16| {
        let above = |above: u16| (0..NODES).map(move |at| first + above + at);
        claim([0, HTTP_ABOVE, CLUSTER_ABOVE].into_iter().flat_map(above))
    };
    tries.find(|first| all(*first)).context("no ports are free for a cluster")
}

/// A port that nothing listens on, claimed for this process.
pub fn free_port() -> Result<u16> {
    looked_at().find(|port| claim([*port])).context("no port is free")
}

/// A port for clients of a node, and the one `apart` above it for other nodes, as nodes have it by default. Both are
/// claimed for this process.
pub fn free_node_port(apart: u16) -> Result<u16> {
    let first = PORTS.start..PORTS.end - apart;
    let mut ports = looked_at().filter(|port| first.contains(port));
    ports.find(|port| claim([*port, port + apart])).context("no two ports are free for a node")
}

/// Every port once, on from where the last search ended; processes that run at the same time start apart.
fn looked_at() -> impl Iterator<Item = u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.len() as u16;
    let start = (process::id().wrapping_mul(97) % u32::from(count)) as u16;
    let next = move |_| PORTS.start + start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % count;
    (0..count).map(next)
}

/// Claims ports until this process ends. Not if one of them is in use, or claimed by another process of these tests,
/// whose node may just be dead: clients that look for that one would find another.
fn claim(ports: impl IntoIterator<Item = u16>) -> bool {
    static CLAIMS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    let one = |port: u16| {
        // A name without a file, which is taken as long as this is open.
        let name = net::SocketAddr::from_abstract_name(format!("vltava-port-{port}")).ok()?;
        let claim = UnixListener::bind_addr(&name).ok()?;
        // Not by listening: a process that is started at this moment would have the socket, too, until it runs.
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err().then_some(())?;
        Some(claim)
    };
    let Some(claims) = ports.into_iter().map(one).collect::<Option<Vec<_>>>() else { return false };
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner).extend(claims);
    true
}
