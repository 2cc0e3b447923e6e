//! Requests behind one that waits for as long as it is let: what lies in the queue of a connection.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base::{Offset, PartitionIndex};
use client::raw::{FetchLimits, fetch_request};
use vltava_e2e::{Chance, process, wait};
use wire::encode_request;
use wire::messages::metadata::{MetadataRequest, MetadataRequestTopic};

use crate::target::{ANSWER_MAX, Attacker, TOPIC, Target, request};

/// Connections that hoard.
const HOARDERS: usize = 20;
/// What they may cost in all: a queue, a request and some buffers each, not all that they ask for.
const HOARD_BYTES_MAX: u64 = 60 << 20;
/// More requests than a connection may have in flight.
const PIPELINED: usize = 100;
const GONE_MAX: Duration = Duration::from_secs(20);

/// A fetch that is never satisfied and never times out.
fn endless_fetch() -> Result<Vec<u8>> {
    let limits = FetchLimits { bytes_min: i32::MAX, wait_ms_max: i32::MAX, bytes_max: 1 };
    Ok(encode_request(1, None, 12, &fetch_request(TOPIC, PartitionIndex(0), Offset::ZERO, limits))?.bytes)
}

fn versions() -> Vec<u8> {
    request(18, 0, false, &[])
}

/// Small requests with large answers, which nobody can take before the fetch in front of them is answered.
pub(crate) fn hoards(target: &Target, _: &mut Chance) -> Result<()> {
    let before = process::taken(target.pid)?;
    let name = "n".repeat(240);
    let topic = || MetadataRequestTopic { name: Some(&name), ..MetadataRequestTopic::default() };
    let large = MetadataRequest {
        topics: Some((0..1_000).map(|_| topic()).collect()),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    };
    let large = encode_request(2, None, 9, &large)?.bytes;
    let mut open = Vec::new();
    for _ in 0..HOARDERS {
        let mut attacker = target.connect()?;
        attacker.send(&endless_fetch()?);
        attacker.send_until_full(&large.repeat(PIPELINED), Duration::from_millis(200))?;
        open.push(attacker);
    }
    let grown = process::taken(target.pid)?.resident.saturating_sub(before.resident);
    ensure!(grown < HOARD_BYTES_MAX, "{HOARDERS} queues cost {grown} bytes");
    leave(target, open, before.sockets)
}

/// Full queues whose clients leave: nobody reads from them, and it is seen all the same.
pub(crate) fn abandoned(target: &Target, _: &mut Chance) -> Result<()> {
    let before = process::taken(target.pid)?.sockets;
    let mut open = Vec::new();
    for _ in 0..HOARDERS {
        let mut attacker = target.connect()?;
        attacker.send(&[endless_fetch()?, versions().repeat(PIPELINED)].concat());
        open.push(attacker);
    }
    leave(target, open, before)
}

fn leave(target: &Target, open: Vec<Attacker>, sockets: usize) -> Result<()> {
    open.into_iter().try_for_each(Attacker::reset)?;
    wait::until("the node lets go of those who left", GONE_MAX, || {
        let now = process::taken(target.pid)?.sockets;
        Ok((now <= sockets + crate::SOCKETS_MORE).then_some(()))
    })
}

/// What came before a frame that cannot be, or before the client's end, is answered.
pub(crate) fn ends(target: &Target, chance: &mut Chance) -> Result<()> {
    const ANSWERED: usize = 5;
    let limits = FetchLimits { bytes_min: i32::MAX, wait_ms_max: 100, bytes_max: 1 };
    let fetch = fetch_request(TOPIC, PartitionIndex(0), Offset::ZERO, limits);
    let good = [encode_request(1, None, 12, &fetch)?.bytes, versions().repeat(ANSWERED - 1)].concat();
    let endings: [&[u8]; 5] = [b"", &[0xff; 4], b"GET / HTTP/1.1\r\n\r\n", &[0; 4], &[0, 0, 0, 9, 1]];
    for ending in endings {
        for junk in [0, 100_000] {
            let mut attacker = target.connect()?;
            // Behind a bad frame it does not matter what comes; behind a good one it would be another.
            let junk = if ending.len() < 4 || ending[0] == 0 { Vec::new() } else { chance.bytes(junk) };
            attacker.send(&[&good, ending, &junk].concat());
            attacker.end();
            for number in 0..ANSWERED {
                attacker.answer().with_context(|| format!("answer {number} before {ending:?}"))?;
            }
            let rest = attacker.until_closed(ANSWER_MAX)?;
            ensure!(rest.is_empty(), "{ending:?} is answered with {} bytes", rest.len());
        }
    }
    Ok(())
}
