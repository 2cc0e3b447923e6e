//! Says which build this is: the commit, if there is one, with a `+` if what the program is made of differs from it, and
//! the profile.

use std::path::Path;
use std::process::Command;

/// What the program is made of, from the root.
const SOURCES: [&str; 7] =
    ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo", "core", "edge", "apps"];
const ROOT: &str = "../..";

fn main() {
    let mut build = Vec::new();
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        let changes = git(&[&["--no-optional-locks", "status", "--porcelain", "--"], &SOURCES[..]].concat());
        build.push(if changes.is_some_and(|changes| changes.is_empty()) { commit } else { commit + "+" });
        // It grows with each commit, and whenever another one is checked out.
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    // target/PROFILE/build/PACKAGE/out
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    if let Some(profile) = Path::new(&out).ancestors().nth(3).and_then(Path::file_name) {
        build.push(profile.to_string_lossy().into_owned());
    }
    println!("cargo::rustc-env=VLTAVA_BUILD={}", build.join(", "));
    SOURCES.iter().for_each(|path| println!("cargo::rerun-if-changed={ROOT}/{path}"));
}

/// What git says of the tree; nothing where it is not there, or this is no working copy.
fn git(arguments: &[&str]) -> Option<String> {
    let said = Command::new("git").args(["-C", ROOT]).args(arguments).output().ok()?;
    let text = String::from_utf8(said.stdout).ok().filter(|_| said.status.success())?;
    Some(text.trim().to_owned())
}
