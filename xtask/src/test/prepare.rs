//! Installs what the long rings need and a fresh machine lacks.
//!
//! Rust itself is not among it: what runs this was built with it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A program the tests call.
struct Tool {
    command: &'static str,
    /// Arguments with which it must succeed, where being there is not enough.
    probe: &'static [&'static str],
    /// The Debian package that brings it.
    package: &'static str,
    used_for: &'static str,
}

const fn tool(command: &'static str, package: &'static str, used_for: &'static str) -> Tool {
    Tool { command, probe: &[], package, used_for }
}

const TOOLS: &[Tool] = &[
    tool("kcat", "kcat", "conformance, e2e: librdkafka from the command line"),
    Tool {
        command: "python3",
        // Debian packs what makes a virtual environment apart from Python.
        probe: &["-c", "import ensurepip, venv"],
        package: "python3-venv",
        used_for: "conformance: confluent-kafka, kafka-python and aiokafka",
    },
    tool("javac", "openjdk-17-jdk-headless", "conformance: Java clients and Kafka's own tools"),
    tool("mvn", "maven", "conformance: fetches the Java clients"),
    tool("go", "golang-go", "conformance: franz-go and sarama"),
    tool("npm", "npm", "conformance: kafkajs"),
    tool("mkfs.ext4", "e2fsprogs", "e2e: power cuts on a file system of their own"),
    tool("losetup", "mount", "e2e: power cuts on a file system of their own"),
    tool("ip", "iproute2", "torture: a network for each broker"),
    tool("chromium", "chromium", "e2e: opens the pages of benchmarks"),
    tool("nft", "nftables", "torture: partitions of that network"),
];

/// Installs missing packages, then the foreign clients of the conformance tests.
pub(super) fn install(root: &Path) -> Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !tool.works()).collect();
    if !missing.is_empty() {
        install_packages(&missing)?;
    }
    let script = root.join("tests/conformance/install.sh");
    if script.exists() {
        println!("── foreign clients");
        let status =
            Command::new(&script).status().with_context(|| format!("cannot run {}", script.display()))?;
        if !status.success() {
            bail!(
                "the foreign clients cannot be installed; what needs only Rust runs with `cargo xtask test --quick`"
            );
        }
    }
    Ok(())
}

fn install_packages(missing: &[&Tool]) -> Result<()> {
    let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    let by_hand = || {
        let mut text = String::from("the tests need programs that are not here:\n");
        for tool in missing {
            text.push_str(&format!("  {:10} {}\n", tool.command, tool.used_for));
        }
        text.push_str(&format!(
            "install them as root, on Debian with: apt-get install {}\n",
            packages.join(" ")
        ));
        text.push_str("or run only what needs nothing but Rust: cargo xtask test --quick");
        text
    };
    if !is_there("apt-get") || !is_root() {
        bail!("{}", by_hand());
    }
    println!("── packages: {}", packages.join(" "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .arg("--quiet=2")
            .args(arguments)
            .stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let install = [&["install", "--yes", "--no-install-recommends"], packages.as_slice()].concat();
    if !(apt(&["update"]) && apt(&install)) {
        bail!("apt-get failed; {}", by_hand());
    }
    Ok(())
}

impl Tool {
    fn works(&self) -> bool {
        let probe = || Command::new(self.command).args(self.probe).stderr(Stdio::null()).status();
        is_there(self.command) && (self.probe.is_empty() || probe().is_ok_and(|status| status.success()))
    }
}

/// Whether a command can be found. Those for administrators may lie outside of a user's path.
fn is_there(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.into_iter().any(|folder| folder.join(command).is_file())
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_on_the_path() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-command-anywhere"));
    }
}
