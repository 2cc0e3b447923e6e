//! Indexes and snapshots: entries of one size, one behind the other.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result};
use base::Offset;
use serde_json::{Value, json};
use storage::{AbortedTxn, OffsetEntry, TimeEntry, parse_snapshot};

use super::line::Lines;
use crate::output::utc;

/// A snapshot is read whole; one of more producers than a broker keeps is damage.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;

/// Prints an offset index. Kafka makes them long in advance: what was not used yet is zeroes.
pub(super) fn offsets(path: &Path, base: Offset, lines: &mut Lines<'_>) -> Result<()> {
    let mut last = None;
    each::<{ OffsetEntry::BYTES }>(path, lines, |position, bytes, lines| {
        let entry = OffsetEntry::from_bytes(bytes);
        lines.found(
            "entry",
            &[("offset", json!(entry.offset(base).0)), ("position", json!(entry.position))],
        )?;
        if last.is_some_and(|last: OffsetEntry| entry.delta <= last.delta || entry.position <= last.position)
        {
            lines.damage(position, "the entry does not follow the one before it")?;
        }
        last = Some(entry);
        Ok(())
    })
}

/// Prints a time index.
pub(super) fn times(path: &Path, base: Offset, lines: &mut Lines<'_>) -> Result<()> {
    let mut last = None;
    each::<{ TimeEntry::BYTES }>(path, lines, |position, bytes, lines| {
        let entry = TimeEntry::from_bytes(bytes);
        let time = if entry.timestamp.is_some() { json!(utc(entry.timestamp.0)) } else { Value::Null };
        lines.found(
            "entry",
            &[
                ("timestamp", json!(entry.timestamp.0)),
                ("time", time),
                ("offset", json!(entry.offset(base).0)),
            ],
        )?;
        if last.is_some_and(|last: TimeEntry| entry.timestamp < last.timestamp || entry.delta < last.delta) {
            lines.damage(position, "the entry does not follow the one before it")?;
        }
        last = Some(entry);
        Ok(())
    })
}

/// Prints a transaction index.
pub(super) fn aborted(path: &Path, lines: &mut Lines<'_>) -> Result<()> {
    each::<{ AbortedTxn::BYTES }>(path, lines, |position, bytes, lines| match AbortedTxn::read(bytes) {
        Some(entry) => lines.found(
            "aborted",
            &[
                ("producer", json!(entry.producer_id.0)),
                ("first_offset", json!(entry.first_offset.0)),
                ("last_offset", json!(entry.last_offset.0)),
                ("last_stable_offset", json!(entry.last_stable_offset.0)),
            ],
        ),
        None => lines.damage(position, "the entry makes no sense"),
    })
}

/// Prints a producer snapshot.
pub(super) fn producers(path: &Path, lines: &mut Lines<'_>) -> Result<()> {
    let mut bytes = Vec::new();
    File::open(path).context("cannot open it")?.take(SNAPSHOT_BYTES_MAX).read_to_end(&mut bytes)?;
    let entries = match parse_snapshot(&bytes) {
        Ok(entries) => entries,
        Err(error) => return lines.damage(0, &error.to_string()),
    };
    for entry in entries {
        let transaction = entry.transaction_start.0;
        lines.found(
            "producer",
            &[
                ("id", json!(entry.producer_id.0)),
                ("epoch", json!(entry.epoch.0)),
                ("last_sequence", json!(entry.last_sequence.0)),
                ("last_offset", json!(entry.last_offset.0)),
                ("offset_delta", json!(entry.offset_delta)),
                ("time", json!(utc(entry.timestamp.0))),
                ("coordinator_epoch", json!(entry.coordinator_epoch)),
                ("transaction_start", if transaction < 0 { Value::Null } else { json!(transaction) }),
            ],
        )?;
    }
    Ok(())
}

/// Calls `entry` with each entry of `N` bytes and its position, up to the first of nothing but zeroes
/// that only zeroes follow.
fn each<const N: usize>(
    path: &Path,
    lines: &mut Lines<'_>,
    mut entry: impl FnMut(u64, &[u8; N], &mut Lines<'_>) -> Result<()>,
) -> Result<()> {
    let file = File::open(path).context("cannot open it")?;
    let (len, mut file) = (file.metadata()?.len(), BufReader::new(file));
    let mut zeroes_from = None;
    for position in (0..len / N as u64).map(|index| index * N as u64) {
        let mut bytes = [0; N];
        file.read_exact(&mut bytes)?;
        if bytes == [0; N] {
            zeroes_from.get_or_insert(position);
            continue;
        }
        if let Some(from) = zeroes_from.take() {
            lines.damage(from, "zeroes between entries")?;
        }
        entry(position, &bytes, lines)?;
    }
    if let Some(from) = zeroes_from {
        lines.found("zeroes", &[("position", json!(from)), ("bytes", json!(len - from))])?;
    } else if len % N as u64 != 0 {
        lines.damage(len - len % N as u64, "the last entry is torn")?;
    }
    Ok(())
}
