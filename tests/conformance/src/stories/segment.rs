//! The segments of a partition, as files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::driver::Place;

/// The segment files of a partition, in a log directory or one below it.
pub(super) fn segments(data_dir: &Path, at: Place<'_>) -> Result<Vec<PathBuf>> {
    let partition = format!("{}-{}", at.topic, at.partition);
    let mut folders = vec![data_dir.to_owned()];
    for entry in fs::read_dir(data_dir)? {
        folders.push(entry?.path());
    }
    let folder = folders.into_iter().map(|folder| folder.join(&partition)).find(|folder| folder.is_dir());
    let folder = folder.with_context(|| format!("{partition} is not in {}", data_dir.display()))?;
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The compressions that occur in a partition, by the last bits of their attributes.
///
///   0 ........... 8 ..... 12 .... 16 ..... 17 .. 21 ......... 23
///   | base offset | bytes | epoch | magic | crc | attributes | …     bytes: what follows them
pub(super) fn compressions(data_dir: &Path, at: Place<'_>) -> Result<BTreeSet<u8>> {
    let mut found = BTreeSet::new();
    for path in segments(data_dir, at)? {
        let bytes = fs::read(&path)?;
        let mut rest = bytes.as_slice();
        while let Some(header) = rest.get(..23).filter(|header| header[16] == 2) {
            found.insert(header[22] & 7);
            let length = [header[8], header[9], header[10], header[11]];
            let next = 12 + u32::from_be_bytes(length) as usize;
            rest = rest.get(next..).unwrap_or_default();
        }
    }
    Ok(found)
}
