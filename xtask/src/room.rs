//! Whether a disk has room for what is about to be written.

use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Fails if less than `wanted` bytes are free where the folder is; `what` wants them, and `advice` is what else to do
/// than to make room.
pub(crate) fn enough(folder: &Path, wanted: u64, what: &str, advice: &str) -> Result<()> {
    let system = rustix::fs::statvfs(folder)
        .with_context(|| format!("cannot ask how much room is in {}", folder.display()))?;
    let free = system.f_bavail * system.f_frsize;
    ensure!(
        free >= wanted,
        "{} has {} GiB free, and {what} needs {}: make room, or {advice}",
        folder.display(),
        free >> 30,
        wanted >> 30,
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_room_says_where_and_how_much() -> Result<()> {
        let folder = tempfile::tempdir()?;
        enough(folder.path(), 0, "a run", "do not")?;
        let refused =
            enough(folder.path(), u64::MAX, "a run", "do not").map_err(|refusal| refusal.to_string());
        let refused = refused.expect_err("no disk is as large");
        assert!(refused.contains(&folder.path().display().to_string()), "{refused}");
        Ok(())
    }
}
