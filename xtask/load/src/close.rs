//! Closes a producer of ours whose buffer is full, and says how long that took.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::producer::{Acks, Producer, Record, SendError};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::Letters;

/// Records are offered so long before it is closed.
const OFFERED_FOR: Duration = Duration::from_secs(2);
/// Between two tries while the buffer is full.
const REST: Duration = Duration::from_micros(100);

/// A process that does nothing until this is gone.
struct Stopped(Pid);

impl Stopped {
    fn new(pid: i32) -> Result<Self> {
        let pid = Pid::from_raw(pid).context("0 is no process")?;
        kill_process(pid, Signal::STOP)?;
        Ok(Self(pid))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // One that has ended need not go on.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// Offers more than is taken, then closes with the buffer full; while a process, the broker, is stopped, if
/// one is named.
pub(crate) fn run(
    broker: &str,
    topic: &str,
    bytes: (usize, usize),
    timeout: Duration,
    stopped: Option<i32>,
) -> Result<Value> {
    let (record_bytes, buffer_bytes) = bytes;
    let producer = Producer::builder(broker).acks(Acks::Leader).memory_bytes_max(buffer_bytes).build()?;
    let mut letters = Letters::new(record_bytes);
    producer.send_blocking(&Record::to(topic).value(letters.next()))?.wait().context("the first record")?;
    let _stopped = stopped.map(Stopped::new).transpose()?;
    let (since, mut taken, mut refused) = (Instant::now(), 0_u64, 0_u64);
    let mut is_full = false;
    while since.elapsed() < OFFERED_FOR || !is_full {
        let offered = producer.try_send(&Record::to(topic).value(letters.next()));
        is_full = matches!(offered, Err(SendError::Full));
        match offered {
            Ok(_) => taken += 1,
            Err(SendError::Full) => {
                refused += 1;
                std::thread::sleep(REST);
            }
            Err(error) => return Err(error.into()),
        }
        ensure!(since.elapsed() < crate::PATIENCE, "the buffer is not full after a minute");
    }
    let used = producer.memory_used_bytes();
    let since = Instant::now();
    let given_up = producer.close_blocking(timeout);
    let closed = since.elapsed();
    Ok(json!({
        "taken": taken,
        "refused": refused,
        "memory_used_bytes": used,
        "timeout_ms": timeout.as_millis() as u64,
        "close_ms": closed.as_secs_f64() * 1e3,
        "given_up": given_up,
    }))
}
