//! Where things are: this folder, and what `install.sh` put into `.cache` (or `CONFORMANCE_HOME`).

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

/// A path in `tests/conformance`.
pub fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The folder that `install.sh` fills.
pub fn home() -> PathBuf {
    env::var_os("CONFORMANCE_HOME").map_or_else(|| here(".cache"), PathBuf::from)
}

/// A path that `install.sh` makes.
pub fn installed(path: &str) -> Result<PathBuf> {
    let full = home().join(path);
    ensure!(full.exists(), "{} is missing: run tests/conformance/install.sh", full.display());
    Ok(full)
}

/// The `vltava` binary: `VLTAVA_BIN`, or that of the build this test is from.
pub fn vltava() -> Result<PathBuf> {
    if let Some(named) = env::var_os("VLTAVA_BIN") {
        return Ok(named.into());
    }
    let binary = build().join("vltava");
    ensure!(binary.exists(), "{} is missing: run cargo build, or set VLTAVA_BIN", binary.display());
    Ok(binary)
}

/// The folder of the programs of the build that this test is from.
pub fn build() -> PathBuf {
    let test = env::current_exe().unwrap_or_default();
    let is_profile = |folder: &&Path| {
        folder.file_name().is_some_and(|name| name == "debug" || name == "release" || name == "dist")
    };
    test.ancestors().find(is_profile).unwrap_or(Path::new("target/debug")).to_owned()
}
