//! librdkafka, in a process of its own: `drivers/librdkafka.py`, which writes lines of the history.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conformance::home;
use e2e::wait;

use super::Shared;
use crate::cluster::TOPIC;
use crate::history::{Line, Promises};

/// After it was told to stop: its own delivery timeout, and some.
const END_MAX: Duration = Duration::from_secs(50);

/// Writes until it is to stop.
pub(super) fn run(shared: &Shared, rate: u32) -> Result<()> {
    while !shared.stop.is_set() {
        // One that failed for good is followed by another.
        one_life(shared, rate)?;
        shared.stop.wait(Duration::from_millis(500));
    }
    Ok(())
}

fn one_life(shared: &Shared, rate: u32) -> Result<()> {
    let by = shared.producer("librdkafka", Promises::Order);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers/librdkafka.py");
    let mut child = Command::new(home::installed("python/bin/python")?)
        .arg(script)
        .args([&shared.bootstrap, TOPIC, &by.to_string()])
        .args([&shared.partitions.to_string(), &rate.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("python")?;
    let stdin = child.stdin.take();
    let stop = shared.stop.clone();
    let interrupted = shared.interrupted.clone();
    // The end of its input tells it to stop; a word in it, to wait for nothing.
    thread::spawn(move || {
        while !stop.wait(Duration::from_secs(1)) {}
        if let (Some(mut stdin), true) = (stdin, interrupted.is_set()) {
            // It may have ended.
            let _ = stdin.write_all(b"now");
        }
    });
    let said = take_down(shared, &mut child);
    if said.is_err() {
        // Nobody hears what it says any more.
        child.kill()?;
    }
    let ended = wait::until("librdkafka ends", END_MAX, || Ok(child.try_wait()?));
    if ended.is_err() {
        child.kill()?;
        child.wait()?;
    }
    said?;
    ensure!(ended?.success() || !shared.stop.is_set(), "the librdkafka producer failed");
    Ok(())
}

fn take_down(shared: &Shared, child: &mut Child) -> Result<()> {
    let lines = BufReader::new(child.stdout.take().context("its output is a pipe")?);
    for line in lines.lines() {
        let line = line?;
        let line: Line = serde_json::from_str(&line).with_context(|| line.clone())?;
        shared.history.push_line(line);
    }
    Ok(())
}
