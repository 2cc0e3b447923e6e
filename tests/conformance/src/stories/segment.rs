//! The segments of a partition, as files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::CODECS;
use crate::driver::{How, Place};

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

/// What the header of a stored batch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StoredBatch {
    /// The place of its compression in [`super::CODECS`].
    pub(super) codec: u8,
    /// Whether an idempotent producer wrote it.
    pub(super) idempotent: bool,
}

/// What kinds of batches occur in a partition.
///
///   0 ........... 8 ..... 12 .... 16 ..... 17 .. 21 ......... 23 … 43 ......... 51
///   | base offset | bytes | epoch | magic | crc | attributes | … | producer id |      bytes: what follows them
pub(super) fn batches(data_dir: &Path, at: Place<'_>) -> Result<BTreeSet<StoredBatch>> {
    let mut found = BTreeSet::new();
    for path in segments(data_dir, at)? {
        let bytes = fs::read(&path)?;
        let mut rest = bytes.as_slice();
        while let Some(header) = rest.get(..51).filter(|header| header[16] == 2) {
            // None is -1: all bits.
            found.insert(StoredBatch { codec: header[22] & 7, idempotent: header[43] & 0x80 == 0 });
            let length = [header[8], header[9], header[10], header[11]];
            let next = 12 + u32::from_be_bytes(length) as usize;
            rest = rest.get(next..).unwrap_or_default();
        }
    }
    Ok(found)
}

/// Fails unless a partition is stored as its producer was told to write.
pub(super) fn check_stored(data_dir: &Path, at: Place<'_>, how: How) -> Result<()> {
    let found = batches(data_dir, at)?;
    let code = CODECS.iter().position(|codec| *codec == how.compression).map(|code| code as u8);
    // A batch that compression makes longer is left as it is.
    let codec = found.iter().any(|batch| Some(batch.codec) == code);
    let idempotent = found.iter().all(|batch| batch.idempotent == how.idempotent);
    ensure!(codec && idempotent, "{how:?} is stored as {found:?}");
    Ok(())
}
