//! The files of the tree, read once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Text files over this are data, not something a person wrote.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// Every file that git tracks or would track, with the text of those that are text.
pub(crate) struct Tree {
    /// Path relative to the root, with `/`.
    pub(crate) names: BTreeSet<String>,
    /// The text of each file that is valid UTF-8 and not large.
    pub(crate) texts: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the tree that git knows under `root`.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let listed = Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
            .current_dir(root)
            .output()
            .context("cannot run git, which lists the files to check")?;
        if !listed.status.success() {
            bail!("git ls-files failed: {}", String::from_utf8_lossy(&listed.stderr).trim());
        }
        let mut tree = Self { names: BTreeSet::new(), texts: BTreeMap::new() };
        for name in listed.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let name = String::from_utf8_lossy(name).into_owned();
            let path = root.join(&name);
            let Ok(kind) = path.symlink_metadata() else { continue };
            if kind.is_file() && kind.len() <= TEXT_BYTES_MAX {
                let bytes = std::fs::read(&path).with_context(|| format!("cannot read {name}"))?;
                if let Ok(text) = String::from_utf8(bytes) {
                    tree.texts.insert(name.clone(), text);
                }
            }
            tree.names.insert(name);
        }
        Ok(tree)
    }

    /// The Rust sources, by path.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .filter(|(name, _)| name.ends_with(".rs"))
            .map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Whether `name` is a file of the tree or a directory with files of the tree in it.
    pub(crate) fn has(&self, name: &str) -> bool {
        let name = name.trim_end_matches('/');
        let below = format!("{name}/");
        self.names.contains(name)
            || self.names.range(below.clone()..).next().is_some_and(|next| next.starts_with(&below))
    }
}

/// Directories that hold nothing but generated code.
const GENERATED: &[&str] = &["core/wire/src/messages/", "core/metadata/src/record/"];

/// Whether a file is written by `cargo xtask codegen`.
pub(crate) fn is_generated(name: &str) -> bool {
    GENERATED.iter().any(|dir| name.starts_with(dir))
}

/// Whether a file holds tests only.
pub(crate) fn is_tests(name: &str) -> bool {
    name.ends_with("/tests.rs") || name.contains("/tests/")
}
