//! Logs that another program wrote: offsets in them may have gaps, because its compaction dropped
//! records, although nothing that we know of the topic says so.
//!
//! ```text
//!   version: 0
//!   end_offset: 4711       gaps below are compaction's; behind it we wrote, without any
//! ```
//!
//! Kafka leaves a file with a name that it does not know alone.

use base::Offset;

use crate::disk::DiskError;
use crate::home::Home;

const FILE: &str = "vltava-adopted";
const BYTES_MAX: u64 = 4096;

/// Below which offset gaps are no damage.
pub(super) fn gaps_below(home: &Home) -> Result<Offset, DiskError> {
    let bytes = home.disk.read(&home.child(FILE), BYTES_MAX)?;
    // One that is there and makes no sense has rotted: a gap that is taken for damage costs records.
    Ok(bytes.map_or(Offset::ZERO, |bytes| parse(&bytes).unwrap_or(Offset(i64::MAX))))
}

/// Notes, durably, that gaps below this offset are no damage.
pub(super) fn allow_gaps_below(home: &Home, end: Offset) -> Result<(), DiskError> {
    let text = format!("version: 0\nend_offset: {end}\n");
    home.disk.replace(&home.child(FILE), text.as_bytes())
}

fn parse(bytes: &[u8]) -> Option<Offset> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    let is_known = lines.next()? == "version: 0";
    let end = lines.next()?.strip_prefix("end_offset: ")?.parse().ok().map(Offset)?;
    is_known.then_some(end)
}
