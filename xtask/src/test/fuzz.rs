//! The fuzz targets: built with a nightly compiler, as a fuzzer needs them, and run for a while each.
//!
//! They are a workspace of their own and no part of the long rings: to build them takes minutes, and a
//! toolchain that the rest does without.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

use super::build::cargo;
use super::report::{Outcome, Report};
use super::run::to_end;

/// Where the targets are declared.
const MANIFEST: &str = "tests/fuzz/Cargo.toml";
/// How long each target runs.
const TIME: Duration = Duration::from_secs(20);
/// What one input may take altogether, in MiB: the targets count what the code under test allocates.
const MEMORY_MIB_MAX: u32 = 1024;
/// As cargo-fuzz builds: what was reached is counted, and assertions are checked.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Clink-dead-code -Cdebug-assertions";

/// Builds the targets whose names have a word of `filter` in them, runs them, and fails if one found
/// something. Without a nightly toolchain it says so, and that is all.
pub(super) fn run(root: &Path, filter: &[&str], report: &mut Report) {
    let started = Instant::now();
    let Some(host) = nightly_host() else {
        let note = "skipped: no nightly toolchain is here: rustup toolchain install nightly".to_owned();
        println!("{note}");
        report.add(
            "fuzz",
            Outcome { passed: 0, failed: 0, time: started.elapsed(), note: Some(note), why: Vec::new() },
        );
        return;
    };
    let folder = root.join("tests/fuzz");
    let target_dir = folder.join("target/ring");
    let built = build(&folder, &host, &target_dir);
    let stands = built.is_ok();
    report.add("build fuzz targets", Outcome::of_step(built, started));
    if !stands {
        return;
    }
    let names = match targets(&folder) {
        Ok(names) => names,
        Err(error) => return report.add("fuzz", Outcome::of_step(Err(error), started)),
    };
    let wanted = |name: &&String| filter.is_empty() || filter.iter().any(|word| name.contains(word));
    let mut count = 0;
    for name in names.iter().filter(wanted) {
        count += 1;
        let program = target_dir.join(&host).join("release").join(name);
        report.add(format!("fuzz: {name}"), one(&folder, name, &program));
    }
    if count == 0 {
        let none = Err(anyhow!("there is no target with `{}` in its name", filter.join("` or `")));
        report.add("fuzz", Outcome::of_step(none, started));
    }
}

/// Fails if the targets do not compile any more: they are no part of the workspace, and nothing else that is built
/// every day would say so.
pub(super) fn compile(root: &Path) -> Result<()> {
    let mut command = cargo(root);
    // Beside what the workspace is checked with, which has most of it.
    command.args(["check", "--locked", "--manifest-path", MANIFEST, "--target-dir"]).arg(root.join("target"));
    if !command.status()?.success() {
        bail!("the fuzz targets do not compile");
    }
    Ok(())
}

/// Fails if the lock of the targets does not have what our crates depend on now.
pub(super) fn check_lock(root: &Path) -> Result<()> {
    let mut command = cargo(root);
    command.args(["metadata", "--locked", "--format-version", "1", "--manifest-path"]).arg(MANIFEST);
    let asked = command.stdout(Stdio::null()).stderr(Stdio::piped()).output()?;
    if !asked.status.success() {
        let complaint = String::from_utf8_lossy(&asked.stderr);
        bail!("cargo update --workspace --manifest-path {MANIFEST} may mend it: {}", complaint.trim());
    }
    Ok(())
}

/// What the nightly compiler builds for, if there is one.
fn nightly_host() -> Option<String> {
    let asked = Command::new("rustc").args(["+nightly", "-vV"]).stderr(Stdio::null()).output().ok()?;
    let said = String::from_utf8(asked.stdout).ok().filter(|_| asked.status.success())?;
    said.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

fn build(folder: &Path, host: &str, target_dir: &Path) -> Result<()> {
    // Through rustup: the Cargo that runs this is another toolchain's.
    let mut command = Command::new("cargo");
    command.args(["+nightly", "build", "--release", "--target", host]).current_dir(folder);
    command.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    command.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", target_dir);
    if !command.status()?.success() {
        bail!("the fuzz targets do not build");
    }
    Ok(())
}

/// The names of the targets, by their files.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder.join("fuzz_targets"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".rs").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// Runs one target on what it found in earlier runs and beyond.
fn one(folder: &Path, name: &str, program: &Path) -> Outcome {
    let started = Instant::now();
    let (corpus, artifacts) = (folder.join("corpus").join(name), folder.join("artifacts").join(name));
    let made = [&corpus, &artifacts].into_iter().try_for_each(std::fs::create_dir_all);
    if let Err(error) = made {
        return Outcome::of_step(Err(error.into()), started);
    }
    println!("── fuzz: {name}");
    let mut command = Command::new(program);
    command.current_dir(folder);
    command.args([
        format!("-max_total_time={}", TIME.as_secs()),
        format!("-rss_limit_mb={MEMORY_MIB_MAX}"),
        format!("-artifact_prefix={}", prefix(&artifacts).display()),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
    ]);
    command.arg(&corpus);
    Outcome::of_check(to_end(command, TIME), started)
}

/// A folder with a separator behind it, as libFuzzer wants it.
fn prefix(folder: &Path) -> PathBuf {
    folder.join("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_lacks_a_dependency_is_told() -> Result<()> {
        let root = tempfile::tempdir()?;
        let folder = root.path().join("tests/fuzz");
        for name in ["", "new"] {
            std::fs::create_dir_all(folder.join(name).join("src"))?;
            std::fs::write(folder.join(name).join("src/lib.rs"), "")?;
        }
        let declare = |dependencies: &str| {
            let package = "[package]\nname = \"targets\"\nedition = \"2024\"\n[workspace]\n";
            std::fs::write(folder.join("Cargo.toml"), format!("{package}[dependencies]\n{dependencies}"))
        };
        std::fs::write(folder.join("new/Cargo.toml"), "[package]\nname = \"new\"\n")?;
        std::fs::write(
            folder.join("Cargo.lock"),
            "version = 4\n[[package]]\nname = \"targets\"\nversion = \"0.0.0\"\n",
        )?;
        declare("")?;
        check_lock(root.path())?;
        declare("new = { path = \"new\" }\n")?;
        let refused = check_lock(root.path()).expect_err("it has no `new`").to_string();
        assert!(refused.contains("--locked") && refused.contains("cargo update"), "{refused}");
        Ok(())
    }
}
