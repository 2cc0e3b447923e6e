//! Writes the code that is generated from tables, or checks that it is fresh.
//!
//! ```text
//!   Kafka's jars ── extract ──▶ schema/*.txt ── parse ──▶ Message ── rust ──▶ *.rs ── rustfmt ──▶ the tree
//! ```
//!
//! The schema files are facts about the protocol and are in the tree; so only who takes up a new Kafka
//! needs its jars.

mod emit;
mod extract;
mod jar;
mod names;
mod ranges;
mod schema;
mod tree;

use std::path::Path;

use anyhow::{Result, bail};

/// One set of messages: where its facts are and where its code goes.
struct Set {
    schema: &'static str,
    code: &'static str,
    /// What its files are.
    about: &'static str,
    style: emit::Style,
}

const SETS: &[Set] = &[
    Set {
        schema: "core/wire/schema",
        code: "core/wire/src/messages",
        about: "Every message, by API.",
        style: emit::Style::Wire,
    },
    Set {
        schema: "core/metadata/schema",
        code: "core/metadata/src/record",
        about: "Every record of Kafka's metadata log, as it is on disk.",
        style: emit::Style::Record,
    },
    Set {
        schema: "core/coordinator/schema",
        code: "core/coordinator/src/record",
        about: "Every record of Kafka's group coordinator: its key and its value, as they are on disk.",
        style: emit::Style::Record,
    },
];

/// `cargo xtask codegen` with these arguments.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> Result<()> {
    match arguments {
        [] => generate(root),
        ["--check"] => check(root),
        ["--extract", jars @ ..] => {
            extract::run(root, jars)?;
            generate(root)
        }
        _ => bail!("cargo xtask codegen [--check | --extract [JAR...]]"),
    }
}

/// Writes everything that is generated, and takes away what is generated no more.
fn generate(root: &Path) -> Result<()> {
    for set in SETS {
        let files = tree::formatted(root, files_of(root, set)?)?;
        tree::write(&root.join(set.code), &files)?;
    }
    Ok(())
}

/// Fails if a generated file is not what it would be if it were generated again.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut stale = Vec::new();
    for set in SETS {
        let files = tree::formatted(root, files_of(root, set)?)?;
        stale.extend(tree::differences(&root.join(set.code), &files)?);
    }
    if stale.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = stale.iter().map(|path| path.display().to_string()).collect();
    bail!("run `cargo xtask codegen`; stale are {}", names.join(", "))
}

fn files_of(root: &Path, set: &Set) -> Result<tree::Files> {
    let mut messages = Vec::new();
    for (stem, text) in tree::read(&root.join(set.schema), "txt")? {
        messages.push((stem.clone(), schema::parse(&text).map_err(|e| e.context(format!("{stem}.txt")))?));
    }
    emit::files(set, &messages)
}

#[cfg(test)]
mod tests {
    #[test]
    fn generated_code_is_fresh() {
        super::check(&crate::workspace::root()).expect("fresh");
    }

    #[test]
    fn the_text_of_a_schema_says_all_there_is() {
        for set in super::SETS {
            let files = super::tree::read(&crate::workspace::root().join(set.schema), "txt").expect("files");
            assert!(!files.is_empty());
            for (stem, text) in files {
                let messages = super::schema::parse(&text).expect("a schema");
                assert_eq!(super::schema::print(&messages), text, "{stem}");
            }
        }
    }
}
