//! What a program is told when it starts.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Result, bail};

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

/// The first port of a cluster: all that it needs are free.
pub fn free_cluster_port() -> Result<u16> {
    // Below those of outgoing connections even with what is added for the nodes' own.
    const LAST: u16 = 22_700;
    const TRIES: u16 = 1000;
    for _ in 0..TRIES {
        // Two that are looked for at the same time have no port in common.
        let port = 20_000 + free_port()? % ((LAST - 20_000) / NODES) * NODES;
        let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        let all = |above: u16| (0..NODES).all(|at| is_free(port + above + at));
        if [0, HTTP_ABOVE, CLUSTER_ABOVE].into_iter().all(all) {
            return Ok(port);
        }
    }
    bail!("no ports are free for a cluster")
}

/// A port that nothing listens on. Below those that the kernel gives to outgoing connections, so that no
/// connection takes it before the node does.
pub fn free_port() -> Result<u16> {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that run at the same time start their search apart.
    let start = (process::id().wrapping_mul(97) % u32::from(COUNT)) as u16;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + start.wrapping_add(step) % COUNT;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port is free")
}
