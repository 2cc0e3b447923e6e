//! Whether the disk has room for a run: a node with a full disk refuses what it is asked, politely and
//! for long, so a run without room fails late, slowly and in a hundred places.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::build;
use crate::room;

/// What the tests write at the same time, above all disks of brokers; and what nodes keep free.
const TESTS_BYTES: u64 = 15 << 30;
/// What Cargo makes of an empty target folder.
const BUILD_BYTES: u64 = 8 << 30;

/// Fails if there is less room than a run needs.
pub(super) fn check(root: &Path) -> Result<()> {
    let target = build::target(root);
    let built = target.join("debug/deps").is_dir();
    // The folder may not be there yet; what it will be made in is.
    let target = existing(&target);
    let temporary = std::env::temp_dir();
    let build_bytes = if built { 0 } else { BUILD_BYTES };
    if device(&target)? == device(&temporary)? {
        return enough(&temporary, TESTS_BYTES + build_bytes);
    }
    enough(&target, build_bytes)?;
    enough(&temporary, TESTS_BYTES)
}

fn enough(folder: &Path, wanted: u64) -> Result<()> {
    let advice = "set CARGO_TARGET_DIR and TMPDIR to folders on a larger disk";
    room::enough(folder, wanted, "a run of all tests", advice)
}

fn existing(folder: &Path) -> PathBuf {
    folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

fn device(folder: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let metadata = folder.metadata().with_context(|| format!("cannot look at {}", folder.display()))?;
    Ok(metadata.dev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_to_be_made_is_in_one_that_is_there() -> Result<()> {
        let folder = tempfile::tempdir()?;
        assert_eq!(existing(&folder.path().join("not/yet")), folder.path());
        Ok(())
    }
}
