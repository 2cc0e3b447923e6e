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

use crate::disk::{DiskError, Failed};
use crate::home::Home;

const FILE: &str = "vltava-adopted";
const BYTES_MAX: u64 = 4096;

/// Below which offset gaps are no damage.
pub(super) fn gaps_below(home: &Home) -> Result<Offset, DiskError> {
    // One that cannot be read is there, at least, and a gap that is taken for damage costs records.
    match home.disk.read(&home.child(FILE), BYTES_MAX) {
        Ok(None) => Ok(Offset::ZERO),
        Ok(Some(bytes)) => Ok(parse(&bytes).unwrap_or(Offset(i64::MAX))),
        Err(error) if error.failed == Failed::File => Ok(Offset(i64::MAX)),
        Err(error) => Err(error),
    }
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
