//! A node that a test starts.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A running node, killed when the test is done with it.
pub(crate) struct Node {
    process: Child,
    pub(crate) address: String,
    _data: TempDir,
}

impl Node {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts one with more arguments.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let data = tempfile::tempdir().expect("there is a place for data");
        let mut process = Command::new(env!("CARGO_BIN_EXE_vltava"))
            .args(["server", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--data-dir"])
            .arg(data.path())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let log = process.stderr.take().expect("the log is a pipe");
        let mut lines = BufReader::new(log).lines();
        let serving = lines.by_ref().map_while(Result::ok).find(|line| line.contains("serving"));
        let serving = serving.expect("the node says that it serves");
        let (_, address) = serving.split_once("kafka=").expect("the node says where");
        let address = address.split_whitespace().next().expect("an address follows").to_owned();
        // Nobody reads on, but the node must not block on its log.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, address, _data: data }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may be gone already, and then nothing is left to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
