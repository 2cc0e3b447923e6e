//! The files of a generated directory: reads, formats, compares, writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Texts by file name.
pub(super) type Files = BTreeMap<String, String>;

/// The files of a directory that have this extension, by name without it. A missing directory is empty.
pub(super) fn read(directory: &Path, extension: &str) -> Result<Files> {
    let mut files = Files::new();
    if !directory.exists() {
        return Ok(files);
    }
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            files.insert(stem, fs::read_to_string(&path)?);
        }
    }
    Ok(files)
}

/// The files as `cargo fmt` would leave them.
pub(super) fn formatted(root: &Path, files: Files) -> Result<Files> {
    let work = tempfile::tempdir()?;
    for (name, text) in &files {
        fs::write(work.path().join(name), text)?;
    }
    // rustfmt finds the others through the `mod` lines of the first.
    let status = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(root.join("rustfmt.toml"))
        .arg(work.path().join("mod.rs"))
        .status()
        .context("rustfmt")?;
    ensure!(status.success(), "rustfmt refuses the generated code");
    files.into_keys().map(|name| Ok((name.clone(), fs::read_to_string(work.path().join(&name))?))).collect()
}

/// Writes the files and removes Rust files that are not among them.
pub(super) fn write(directory: &Path, files: &Files) -> Result<()> {
    fs::create_dir_all(directory)?;
    for path in differences(directory, files)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match files.get(&name) {
            Some(text) => fs::write(&path, text)?,
            None => fs::remove_file(&path)?,
        }
    }
    Ok(())
}

/// The files that are missing, changed, or too many.
pub(super) fn differences(directory: &Path, files: &Files) -> Result<Vec<PathBuf>> {
    let found = read(directory, "rs")?;
    let changed = files.keys().filter(|name| found.get(name.trim_end_matches(".rs")) != files.get(*name));
    let extra = found.keys().map(|stem| format!("{stem}.rs")).filter(|name| !files.contains_key(name));
    Ok(changed.cloned().chain(extra).map(|name| directory.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_missing_changed_or_too_many_are_told() {
        let directory = tempfile::tempdir().expect("a folder");
        let text = |text: &str| text.to_owned();
        let files = Files::from([("a.rs".into(), text("a")), ("b.rs".into(), text("b"))]);
        write(directory.path(), &files).expect("written");
        assert!(differences(directory.path(), &files).expect("compared").is_empty());
        fs::write(directory.path().join("a.rs"), "changed").expect("written");
        fs::remove_file(directory.path().join("b.rs")).expect("removed");
        fs::write(directory.path().join("c.rs"), "extra").expect("written");
        let stale = differences(directory.path(), &files).expect("compared");
        let names: Vec<_> = stale.iter().filter_map(|path| path.file_name()).collect();
        assert_eq!(names, ["a.rs", "b.rs", "c.rs"]);
        write(directory.path(), &files).expect("written");
        assert!(differences(directory.path(), &files).expect("compared").is_empty());
    }
}
