//! A node for the examples in the documentation.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::build::released;

const START_MAX: Duration = Duration::from_secs(20);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The node. It ends, and what it wrote goes, when this is dropped.
#[derive(Debug)]
pub(super) struct Node {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Node {
    /// Starts the binary that was built for release, and waits until it listens.
    pub(super) fn start(root: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        // The port of a listener that is closed at once: nothing else is given it so soon.
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let child = Command::new(released(root, "vltava"))
            .args(["server", "--http-listen", "127.0.0.1:0", "--listen", &address.to_string()])
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("the node does not start")?;
        let mut node = Self { child, address, _folder: folder };
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect(address).is_err() {
            let ended = node.child.try_wait()?;
            ensure!(ended.is_none() && Instant::now() < deadline, "the node does not listen on {address}");
            thread::sleep(LOOK_AGAIN);
        }
        Ok(node)
    }

    /// Where clients connect.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // One that has ended already is only collected.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
