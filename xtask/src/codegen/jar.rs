//! Reads files out of a jar, which is a zip archive, and finds the jars of a Kafka release.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

const END_SIGNATURE: &[u8] = b"PK\x05\x06";
const ENTRY_SIGNATURE: &[u8] = b"PK\x01\x02";
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// The path of a jar in the local Maven repository; Maven fetches it if it is not there.
pub(super) fn from_maven(artifact: &str, version: &str) -> Result<PathBuf> {
    let home = std::env::var_os("HOME").context("HOME is not set")?;
    let name = format!("{artifact}-{version}.jar");
    let folder = Path::new(&home).join(".m2/repository/org/apache/kafka").join(artifact).join(version);
    let path = folder.join(name);
    if !path.exists() {
        let coordinates = format!("-Dartifact=org.apache.kafka:{artifact}:{version}");
        let mut maven = Command::new("mvn");
        maven.args(["--batch-mode", "--quiet", "dependency:get", "-Dtransitive=false", &coordinates]);
        ensure!(maven.status().context("mvn")?.success(), "Maven cannot fetch {artifact} {version}");
    }
    Ok(path)
}

/// The texts under a folder of a jar, by name without the folder.
pub(super) fn texts(jar: &Path, folder: &str) -> Result<Vec<(String, String)>> {
    let bytes = fs::read(jar).with_context(|| jar.display().to_string())?;
    let mut texts = Vec::new();
    for entry in entries(&bytes).with_context(|| format!("{} is not a jar", jar.display()))? {
        let Some(name) = entry.name.strip_prefix(folder) else { continue };
        if name.ends_with(".json") {
            texts.push((name.to_owned(), entry.text(&bytes).with_context(|| entry.name.clone())?));
        }
    }
    texts.sort();
    Ok(texts)
}

struct Entry {
    name: String,
    method: u16,
    packed_len: usize,
    at: usize,
}

/// What the directory at the end of the archive lists.
fn entries(zip: &[u8]) -> Result<Vec<Entry>> {
    let end = zip.windows(4).rposition(|window| window == END_SIGNATURE).context("no end of directory")?;
    let count = u16_at(zip, end + 10)?;
    let mut at = u32_at(zip, end + 16)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        ensure!(zip.get(at..at + 4) == Some(ENTRY_SIGNATURE), "no entry at {at}");
        let name_len = usize::from(u16_at(zip, at + 28)?);
        let extra_len = usize::from(u16_at(zip, at + 30)?) + usize::from(u16_at(zip, at + 32)?);
        let name = zip.get(at + 46..at + 46 + name_len).context("short")?;
        entries.push(Entry {
            name: String::from_utf8_lossy(name).into_owned(),
            method: u16_at(zip, at + 10)?,
            packed_len: u32_at(zip, at + 20)?,
            at: u32_at(zip, at + 42)?,
        });
        at += 46 + name_len + extra_len;
    }
    Ok(entries)
}

impl Entry {
    fn text(&self, zip: &[u8]) -> Result<String> {
        let names_len = usize::from(u16_at(zip, self.at + 26)?) + usize::from(u16_at(zip, self.at + 28)?);
        let start = self.at + 30 + names_len;
        let mut packed = zip.get(start..start + self.packed_len).context("short")?;
        let mut text = String::new();
        match self.method {
            STORED => packed.read_to_string(&mut text)?,
            DEFLATED => flate2::read::DeflateDecoder::new(packed).read_to_string(&mut text)?,
            method => anyhow::bail!("compression method {method}"),
        };
        Ok(text)
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    let bytes = bytes.get(at..at + 2).context("short")?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<usize> {
    let (low, high) = (u16_at(bytes, at)?, u16_at(bytes, at + 2)?);
    Ok(usize::from(high) << 16 | usize::from(low))
}
