//! Below which offset a log may have gaps: compaction leaves them, here, at the leader that a follower
//! fetched from, or in another program that wrote the log.
//!
//! ```text
//!   version: 0
//!   end_offset: 4711       gaps below are compaction's; behind it offsets follow each other
//! ```
//!
//! No segment begins below it before all records of the one before are on media: what the power took from its end
//! would look like a gap.
//!
//! Anywhere else a gap is damage: a file that a crash took. Kafka leaves a file with a name that it does
//! not know alone. The name is from the first logs that needed it, those that Kafka had compacted.

use base::Offset;

use crate::disk::DiskError;
use crate::home::Home;

const FILE: &str = "vltava-adopted";
const BYTES_MAX: u64 = 4096;

/// How far ahead of a gap that came from a leader more of them are allowed, at least: each time that this is
/// written down costs a barrier, and a compacted log has gaps everywhere.
const AHEAD_MIN: i64 = 4096;

/// Below which offset gaps are no damage.
pub(crate) fn gaps_below(home: &Home) -> Result<Offset, DiskError> {
    let bytes = home.disk.read(&home.child(FILE), BYTES_MAX)?;
    // One that is there and makes no sense has rotted: a gap that is taken for damage costs records.
    Ok(bytes.map_or(Offset::ZERO, |bytes| parse(&bytes).unwrap_or(Offset(i64::MAX))))
}

/// Notes, durably, that gaps below this offset are no damage.
pub(crate) fn allow_gaps_below(home: &Home, end: Offset) -> Result<(), DiskError> {
    let text = format!("version: 0\nend_offset: {end}\n");
    home.disk.replace(&home.child(FILE), text.as_bytes())
}

/// Up to where gaps are allowed when one that ends at `end` comes from a leader: a sixteenth ahead, so that
/// a log of any length that is fetched from its front has this written down some dozens of times.
pub(crate) fn ahead_of(end: Offset) -> Offset {
    Offset(end.0.saturating_add((end.0 / 16).max(AHEAD_MIN)))
}

fn parse(bytes: &[u8]) -> Option<Offset> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    let is_known = lines.next()? == "version: 0";
    let end = lines.next()?.strip_prefix("end_offset: ")?.parse().ok().map(Offset)?;
    is_known.then_some(end)
}
