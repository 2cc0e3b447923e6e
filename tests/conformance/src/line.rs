//! A process that answers each line of JSON with one line of JSON.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Above what a driver itself waits for, so that its own error is heard.
const ANSWER_MAX: Duration = Duration::from_secs(120);
const END_MAX: Duration = Duration::from_secs(5);

/// The process. It ends when this is dropped.
#[derive(Debug)]
pub struct LineProcess {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl LineProcess {
    /// Starts it. What it writes to stderr joins ours.
    pub fn start(name: &str, mut command: Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let program = command.get_program().to_owned();
        let mut child = command
            .spawn()
            .with_context(|| format!("{name}: cannot start {program:?}: run tests/conformance/install.sh"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("stdout is a pipe")?;
        let (sender, lines) = mpsc::channel();
        // A read of a pipe has no deadline; a receive from a channel has. The thread ends with the pipe.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { name: name.to_owned(), child, stdin, lines })
    }

    /// Sends a command and waits for its answer.
    pub fn ask(&mut self, command: &Value) -> Result<Value> {
        self.send(command)?;
        self.answer()
    }

    /// Sends a command.
    pub fn send(&mut self, command: &Value) -> Result<()> {
        let stdin = self.stdin.as_mut().context("stdin is open")?;
        writeln!(stdin, "{command}").and_then(|()| stdin.flush()).with_context(|| self.name.clone())
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits for the next line.
    pub fn answer(&mut self) -> Result<Value> {
        match self.lines.recv_timeout(ANSWER_MAX) {
            Ok(line) => self.read(&line),
            Err(RecvTimeoutError::Timeout) => bail!("{} does not answer", self.name),
            Err(RecvTimeoutError::Disconnected) => bail!("{} has ended", self.name),
        }
    }

    /// The next line, if it is there.
    pub fn answered(&mut self) -> Result<Option<Value>> {
        match self.lines.try_recv() {
            Ok(line) => self.read(&line).map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => bail!("{} has ended", self.name),
        }
    }

    fn read(&self, line: &str) -> Result<Value> {
        serde_json::from_str(line).with_context(|| format!("{}: {line}", self.name))
    }
}

impl Drop for LineProcess {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + END_MAX;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
