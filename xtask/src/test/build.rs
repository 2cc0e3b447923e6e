//! Calls Cargo: once for what is released, once for all test programs.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// A built program with tests in it.
#[derive(Debug)]
pub(super) struct Program {
    /// The package it belongs to.
    pub(super) package: String,
    /// The library, binary or test it was made from.
    pub(super) target: String,
    /// Where tests expect to be started.
    pub(super) folder: PathBuf,
    /// The executable.
    pub(super) path: PathBuf,
}

impl Program {
    /// What the table calls it.
    pub(super) fn title(&self) -> String {
        let library = self.package.trim_start_matches("vltava-");
        if self.target.trim_start_matches("vltava_").replace('_', "-") == library {
            library.to_owned()
        } else {
            format!("{library}: {}", self.target)
        }
    }
}

/// One line of `cargo --message-format=json`, as far as it matters here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Builds the binary as users run it and the simulator, which is slow unless it is optimised.
pub(super) fn release(root: &Path) -> Result<()> {
    let status = cargo(root)
        .args(["build", "--release", "--package", "vltava", "--package", "vltava-sim"])
        .status()?;
    if !status.success() {
        bail!("the binary does not build");
    }
    Ok(())
}

/// Builds every test of the workspace and says which programs came of it.
pub(super) fn tests(root: &Path) -> Result<Vec<Program>> {
    let mut child = cargo(root)
        .args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"])
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = child.stdout.take().context("the output of Cargo is a pipe")?;
    let mut programs = Vec::new();
    for line in BufReader::new(lines).lines() {
        programs.extend(program_of(&line?));
    }
    if !child.wait()?.success() {
        bail!("the tests do not build");
    }
    programs.sort_by(|a, b| (&a.package, &a.target).cmp(&(&b.package, &b.target)));
    Ok(programs)
}

/// The program that a message of Cargo speaks of.
fn program_of(line: &str) -> Option<Program> {
    let message: Message = serde_json::from_str(line).ok()?;
    // Examples, and binaries that tests start, are built as well and are no tests.
    if message.reason != "compiler-artifact" || !message.profile?.test {
        return None;
    }
    let folder = message.manifest_path?.parent()?.to_path_buf();
    let name = folder.file_name()?.to_str()?.to_owned();
    let package = if ["vltava", "xtask"].contains(&&*name) { name } else { format!("vltava-{name}") };
    Some(Program { package, target: message.target?.name, folder, path: message.executable? })
}

/// Where `release` put a program.
pub(super) fn released(root: &Path, name: &str) -> PathBuf {
    target(root).join("release").join(name)
}

/// Where Cargo puts what it makes.
pub(super) fn target(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    root.join(target)
}

/// The Cargo that runs this, in the root of the workspace.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_among_the_messages() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/w/tests/e2e/Cargo.toml",
            "target":{"name":"crash","kind":["test"]},"profile":{"test":true},"executable":"/w/target/debug/deps/crash-1"}"#;
        let program = program_of(line).expect("the line names one");
        assert_eq!((program.package.as_str(), program.title().as_str()), ("vltava-e2e", "e2e: crash"));
        assert_eq!(program.folder, Path::new("/w/tests/e2e"));
        assert!(program_of(r#"{"reason":"build-finished","success":true}"#).is_none());
        assert!(program_of(&line.replace("\"/w/target/debug/deps/crash-1\"", "null")).is_none());
        assert!(program_of(&line.replace("true", "false")).is_none());
    }
}
