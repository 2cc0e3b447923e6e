//! Writes the documents that are made from tables of the code.
//!
//! The tables are in crates that this tool does not depend on, so the tests that compare the documents
//! with them do the writing.

use std::path::Path;

use anyhow::{Result, bail};

use crate::test::cargo;

/// Writes them under `root`.
pub(crate) fn run(root: &Path) -> Result<()> {
    let status = cargo(root)
        .args(["test", "--quiet", "--package", "vltava", "--test", "documents"])
        .env("UPDATE_EXPECT", "1")
        .status()?;
    if !status.success() {
        bail!("the documents could not be written");
    }
    Ok(())
}
