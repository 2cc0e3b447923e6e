//! What a machine can do at all, as a table.

use super::Grid;
use crate::ceiling::Ceilings;
use crate::histogram::{MIB, in_words};

/// Bytes a second by each way that was measured.
pub(crate) fn rates(ceilings: &Ceilings) -> [(&'static str, Option<f64>); 8] {
    [
        ("disk, written past the page cache", ceilings.disk_direct_bytes_per_sec),
        ("disk, written and flushed", Some(ceilings.disk_flushed_bytes_per_sec)),
        ("page cache, appended to by one core", Some(ceilings.append_bytes_per_sec)),
        ("memory, copied by one core", Some(ceilings.memory_copy_bytes_per_sec)),
        ("sockets on loopback", Some(ceilings.loopback_bytes_per_sec)),
        ("a write: socket, checksum, file", Some(ceilings.write_bytes_per_sec)),
        ("a read: file, socket, checksum", Some(ceilings.read_bytes_per_sec)),
        ("a copy: file, socket, checksum, file", Some(ceilings.copy_bytes_per_sec)),
    ]
}

/// What a machine can do, for people: a row for each.
pub fn limits(ceilings: &Ceilings) -> Grid {
    let mut grid = Grid::new(["what this machine can do", "MiB/s", "p50", "p99"]);
    for (what, rate) in rates(ceilings) {
        let shown = rate.map_or_else(|| "–".to_owned(), |rate| format!("{:.0}", rate / MIB));
        grid.row([what.to_owned(), shown, String::new(), String::new()]);
    }
    let (p50, p99) = (in_words(ceilings.fdatasync_ns.p50), in_words(ceilings.fdatasync_ns.p99));
    grid.row(["4 KiB appended and flushed".to_owned(), String::new(), p50, p99]);
    grid
}
