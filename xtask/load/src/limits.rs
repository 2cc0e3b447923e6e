//! What the machine can do at all: the same bytes on the same ways, and nothing else. `vltava bench` measures
//! it, too, and has the code.

use std::path::Path;

use anyhow::{Context, Result};
use bench::ceiling::streams;
use serde_json::{Value, json};

/// Sends so many bytes through a socket into a new file, back out of it, and from it into another one; files are
/// beside the one that is named.
pub(crate) fn run(file: &Path, bytes: u64) -> Result<Value> {
    let dir = file.parent().context("a file is in a folder")?;
    let found = streams(dir, bytes, 1)?;
    Ok(json!({
        "bytes": bytes,
        "write_bytes_per_sec": found.write_bytes_per_sec,
        "read_bytes_per_sec": found.read_bytes_per_sec,
        "copy_bytes_per_sec": found.copy_bytes_per_sec,
    }))
}
