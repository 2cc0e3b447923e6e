//! Says which build this is: the commit, if there is one, whether anything differs from it, and the profile.

use std::path::Path;
use std::process::Command;

/// What the program is made of, from this package.
const SOURCES: [&str; 4] = ["../../Cargo.lock", "../../core", "../../edge", "../../apps"];

fn main() {
    let mut build = Vec::new();
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        let changes = git(&["--no-optional-locks", "status", "--porcelain", "--untracked-files=no"]);
        build.push(if changes.is_none_or(|changes| changes.is_empty()) { commit } else { commit + "+" });
        // It grows with each commit, and whenever another one is checked out.
        if let Some(path) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    // target/PROFILE/build/PACKAGE/out
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    if let Some(profile) = Path::new(&out).ancestors().nth(3).and_then(Path::file_name) {
        build.push(profile.to_string_lossy().into_owned());
    }
    println!("cargo::rustc-env=VLTAVA_BUILD={}", build.join(", "));
    SOURCES.iter().for_each(|path| println!("cargo::rerun-if-changed={path}"));
}

/// What git says; nothing where it is not there, or this is no working copy.
fn git(arguments: &[&str]) -> Option<String> {
    let said = Command::new("git").args(arguments).output().ok().filter(|said| said.status.success())?;
    String::from_utf8(said.stdout).ok().map(|text| text.trim().to_owned())
}
