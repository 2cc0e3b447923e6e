//! The house rules as a test: what can be checked by looking at the tree is checked here.
//!
//! Each rule is one module with one `check`; a finding names the place, what is wrong, and what to do.
//! `cargo xtask tidy` prints the findings, `cargo test -p xtask` fails on them.

mod exceptions;
mod files;
mod layers;
mod maps;
mod modules;
mod paths;
mod sizes;
mod source;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use files::Tree;

/// One broken rule at one place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    place: String,
    wrong: String,
}

impl Finding {
    fn new(place: impl Into<String>, wrong: impl Into<String>) -> Self {
        Self { place: place.into(), wrong: wrong.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.wrong)
    }
}

/// Checks the tree under `root` and prints what is wrong.
pub(crate) fn run(root: &Path) -> Result<()> {
    let found = check(root)?;
    for finding in &found {
        println!("{finding}");
    }
    if found.is_empty() {
        println!("tidy");
        return Ok(());
    }
    bail!("{} broken rules", found.len())
}

/// Everything that is wrong in the tree under `root`, ordered by place.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let tree = Tree::read(root)?;
    let mut found = Vec::new();
    layers::check(&tree, &mut found)?;
    modules::check(&tree, &mut found);
    sizes::check(&tree, &exceptions::EXCEPTIONS, &mut found);
    words::check(&tree, &mut found);
    paths::check(&tree, &mut found);
    maps::check(&tree, &mut found);
    found.sort();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let found = check(&crate::workspace::root()).expect("the tree can be read");
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }
}
