//! Other people's programs: `ip`, `nft`, `ss`, `mount`.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs a command to its end; fails if it does. What it says.
pub(crate) fn run(words: &[&str]) -> Result<String> {
    run_with(words, "")
}

/// Runs a command with this input.
pub(crate) fn run_with(words: &[&str], input: &str) -> Result<String> {
    let (program, arguments) = words.split_first().context("no command")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not want to hear it says so itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", words.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
