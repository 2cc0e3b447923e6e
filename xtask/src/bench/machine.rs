//! Where and with what something was measured.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::broker::Site;
use super::load::kafka_home;

/// What must be known to compare one measurement with another.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) date: String,
    pub(super) command: String,
    pub(super) runs: usize,
    /// The commit the tree was at, and whether it held more.
    pub(super) commit: String,
    pub(super) versions: String,
    pub(super) machine: String,
    /// Programs that wanted to run when it began, and when it ended.
    pub(super) load_before: String,
    pub(super) load_after: String,
}

impl Stamp {
    /// Of the time before a part is measured.
    pub(super) fn begin(root: &Path, site: &Site, runs: usize) -> Result<Self> {
        Ok(Self {
            date: said("date", &["-u", "+%Y-%m-%d %H:%M UTC"])?,
            command: String::new(),
            runs,
            commit: commit(root)?,
            versions: versions(site)?,
            machine: machine(&site.dir)?,
            load_before: load()?,
            load_after: String::new(),
        })
    }

    /// And of that after.
    pub(super) fn end(self) -> Result<Self> {
        Ok(Self { load_after: load()?, ..self })
    }
}

fn said(program: &str, arguments: &[&str]) -> Result<String> {
    let output =
        Command::new(program).args(arguments).output().with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "{program} failed: {}", String::from_utf8_lossy(&output.stderr));
    // Java tells its version on the error output.
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

fn commit(root: &Path) -> Result<String> {
    let root = root.display().to_string();
    let commit = said("git", &["-C", &root, "rev-parse", "--short=12", "HEAD"])?;
    let changed = said("git", &["-C", &root, "status", "--porcelain", "--untracked-files=no"])?;
    Ok(if changed.is_empty() { commit } else { format!("{commit} with changes") })
}

fn versions(site: &Site) -> Result<String> {
    let vltava = said(&site.vltava.display().to_string(), &["--version"])?;
    let java = said("java", &["-version"])?;
    let java = java.lines().next().unwrap_or_default().replace('"', "");
    let rust = said("rustc", &["--version"])?;
    let mut kafka = String::new();
    for jar in std::fs::read_dir(kafka_home(site)?.join("libs"))? {
        let name = jar?.file_name().to_string_lossy().into_owned();
        if let Some(version) = name.strip_prefix("kafka-clients-").and_then(|name| name.strip_suffix(".jar"))
        {
            kafka = version.to_owned();
        }
    }
    let librdkafka = match &site.load {
        Some(load) => {
            format!("; librdkafka {}", said(&load.display().to_string(), &["version"])?.replace('"', ""))
        }
        None => String::new(),
    };
    let built = if site.built { "built with --profile dist" } else { "a binary given by hand" };
    Ok(format!("{vltava}, {built}; Apache Kafka {kafka}, brokers and clients; {java}{librdkafka}; {rust}"))
}

fn machine(dir: &Path) -> Result<String> {
    let cpus = std::fs::read_to_string("/proc/cpuinfo")?;
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let model = field(&cpus, "model name").unwrap_or_else(|| "a processor without a name".to_owned());
    let cores = std::thread::available_parallelism()?;
    let memory = field(&std::fs::read_to_string("/proc/meminfo")?, "MemTotal").unwrap_or_default();
    let memory: f64 = memory.trim_end_matches(" kB").parse()?;
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let (kind, options) = file_system(dir)?;
    Ok(format!(
        "{cores} cores of {model}; {:.1} GiB of memory; Linux {}; data on {kind} ({options}); at most {} open files",
        memory / 1024.0 / 1024.0,
        kernel.trim(),
        open_files_max()?
    ))
}

/// How many files a process may open if it asks for as many as it may.
fn open_files_max() -> Result<String> {
    let limits = std::fs::read_to_string("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let hard = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(hard.context("no limit of open files")?.to_owned())
}

/// The kind and options of the file system that a directory lies on.
fn file_system(dir: &Path) -> Result<(String, String)> {
    let dir = dir.canonicalize()?;
    let mounts = std::fs::read_to_string("/proc/mounts")?;
    let mounts = mounts.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let at = fields.get(1).filter(|at| dir.starts_with(at))?;
        Some((at.len(), (*fields.get(2)?).to_owned(), (*fields.get(3)?).to_owned()))
    });
    // Of two mounts on one place the later one is seen.
    let (_, kind, options) = mounts.max_by_key(|(len, ..)| *len).context("no file system")?;
    Ok((kind, options))
}

fn load() -> Result<String> {
    let text = std::fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_described() {
        let text = machine(&std::env::temp_dir()).unwrap();
        assert!(text.contains("cores of") && text.contains("Linux"), "{text}");
        assert!(load().unwrap().parse::<f64>().is_ok());
    }
}
