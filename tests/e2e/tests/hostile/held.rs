//! Connections that give nothing and take nothing, held open.
//!
//! Who sends too slowly is closed after 30 seconds. Who takes no answer may be a consumer that works on
//! what it has, and is let be for longer than a test lasts: what it must not do is cost memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use base::{Offset, PartitionIndex};
use client::raw::{FetchLimits, fetch_request};
use vltava_e2e::wait;
use wire::encode_request;

use crate::target::{Attacker, TOPIC, Target, request};

const HALF_FRAMES: usize = 50;
const SLOW: usize = 20;
/// Those of each kind who take no answer.
const GREEDY: usize = 10;
/// How long an attacker waits before it believes that the node takes no more.
const PATIENCE: Duration = Duration::from_millis(200);
/// Between two bytes of a slow one; this is what it does, not what it waits for.
const BETWEEN_BYTES: Duration = Duration::from_millis(250);

const NOTICED_MAX: Duration = Duration::from_secs(5);

/// What is held open.
pub(crate) struct Held {
    greedy: Vec<Attacker>,
    half_frames: Vec<Attacker>,
    slow: JoinHandle<usize>,
    over: Arc<AtomicBool>,
}

/// Opens them all.
pub(crate) fn open(target: &Target) -> Result<Held> {
    let (half_frames, greedy) = (half_frames(target)?, greedy(target)?);
    let over = Arc::new(AtomicBool::new(false));
    let mut slow = (0..SLOW).map(|_| target.connect()).collect::<Result<Vec<_>>>()?;
    let is_over = Arc::clone(&over);
    let slow = thread::spawn(move || drip(&mut slow, &is_over));
    Ok(Held { greedy, half_frames, slow, over })
}

impl Held {
    /// How many of them the node is to let be.
    pub(crate) fn let_be(&self) -> usize {
        self.greedy.len()
    }

    /// Lets go of them. The slow ones must have noticed that nobody listens.
    pub(crate) fn end(self) -> Result<()> {
        // A sender learns of a close from the answer to what it sends next.
        let noticed =
            wait::until("the slow senders notice", NOTICED_MAX, || Ok(self.slow.is_finished().then_some(())));
        self.over.store(true, Ordering::Relaxed);
        let left = self.slow.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        noticed.with_context(|| format!("{left} slow senders are still listened to"))?;
        drop((self.greedy, self.half_frames));
        Ok(())
    }
}

/// A length and then nothing, a part of a length, a part of a request.
fn half_frames(target: &Target) -> Result<Vec<Attacker>> {
    let mut open = Vec::new();
    for index in 0..HALF_FRAMES {
        let mut attacker = target.connect()?;
        let whole = request(3, 12, true, &[0; 500]);
        attacker.send(&whole[..[3, 4, 11, 100, whole.len() - 1][index % 5]]);
        open.push(attacker);
    }
    Ok(open)
}

/// Those who ask and never take an answer.
fn greedy(target: &Target) -> Result<Vec<Attacker>> {
    const REQUESTS: usize = 100_000;
    let versions = request(18, 0, false, &[]).repeat(REQUESTS);
    let limits = FetchLimits::default();
    let fetch = fetch_request(TOPIC, PartitionIndex(0), Offset::ZERO, limits);
    let fetches = encode_request(7, None, 12, &fetch)?.bytes.repeat(1_000);
    let mut open = Vec::new();
    for bytes in [versions, fetches] {
        for _ in 0..GREEDY {
            let mut attacker = target.connect()?;
            attacker.send_until_full(&bytes, PATIENCE)?;
            open.push(attacker);
        }
    }
    Ok(open)
}

/// Sends a frame byte by byte to each, until it is over or none of them is listened to. How many are.
fn drip(slow: &mut Vec<Attacker>, over: &AtomicBool) -> usize {
    let frame = request(3, 12, true, &[0; 4_000]);
    for byte in &frame {
        slow.retain_mut(|attacker| attacker.try_send(&[*byte]));
        if slow.is_empty() || over.load(Ordering::Relaxed) {
            break;
        }
        thread::sleep(BETWEEN_BYTES);
    }
    slow.len()
}
