//! DumpLogSegments reads every file of a node that has stopped, and the node starts again with them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use vltava_conformance::driver::{Driver, How, Place};
use vltava_conformance::node::{Node, Setup};
use vltava_conformance::record::Many;
use vltava_conformance::stories::CODECS;
use vltava_conformance::suite;

use crate::toolbox::{Toolbox, writer};

pub(crate) const TOPIC: &str = "dumped";
/// Uncompressed, they fill several segments of the smallest size.
pub(crate) const COUNT: u64 = 30_000;
/// Small, so that a segment has many and its indexes have entries.
const BATCH_BYTES_MAX: usize = 16 << 10;

pub(crate) fn dump_log_segments(toolbox: &Toolbox) -> Result<()> {
    let mut node = Node::start(Setup::from_env()?)?;
    write(&mut Driver::start(&writer()?, &node.bootstrap())?)?;
    let status = node.stop()?;
    let told = node.log_tail();
    ensure!(status.success() || matches!(status.code(), Some(143)), "the node stopped with {status}: {told}");

    let data_dir = node.data_dir().context("the node is ours")?.to_owned();
    for (partition, codec) in (0..).zip(CODECS) {
        let folder = partition_folder(&data_dir, TOPIC, partition)?;
        one_partition(toolbox, &folder, codec).with_context(|| codec.to_owned())?;
    }
    node.start_again()?;
    read(&mut Driver::start(&writer()?, &node.bootstrap())?)
}

/// A partition for each compression, all with the same records.
pub(crate) fn write(driver: &mut Driver) -> Result<()> {
    let configs = [("segment.bytes", "1048576"), ("retention.ms", "-1")];
    driver.create(TOPIC, CODECS.len() as i32, &configs)?;
    suite::wait_for_leaders(driver, TOPIC, CODECS.len() as i32)?;
    for (partition, compression) in (0..).zip(CODECS) {
        let how = How { compression, acks: "all", idempotent: true };
        driver.produce_many(Place { topic: TOPIC, partition }, how, &many())?;
    }
    Ok(())
}

/// Reads back what [`write`] wrote.
pub(crate) fn read(driver: &mut Driver) -> Result<()> {
    let digest = many().digest(0..COUNT);
    suite::wait_for_leaders(driver, TOPIC, CODECS.len() as i32)?;
    for (partition, codec) in (0..).zip(CODECS) {
        let at = Place { topic: TOPIC, partition };
        ensure!(driver.offsets(at)? == (0, COUNT as i64), "{codec}: {:?}", driver.offsets(at)?);
        let read = driver.consume_many(at, 0, COUNT)?;
        ensure!(read.digest == digest && read.count == COUNT, "{codec}: {read:?}");
        let found = driver.offset_for_time(at, FIRST_MS + 12_345)?;
        ensure!(found == Some(12_345), "{codec}: {found:?} has the time of record 12345");
    }
    Ok(())
}

const FIRST_MS: i64 = 1_700_000_000_000;

fn many() -> Many {
    Many {
        seed: 4,
        count: COUNT,
        sizes: vec![120],
        timestamp: Some(FIRST_MS),
        batch_bytes_max: Some(BATCH_BYTES_MAX),
    }
}

fn one_partition(toolbox: &Toolbox, folder: &Path, codec: &str) -> Result<()> {
    let (mut records, mut indexed) = (0, 0);
    for path in files(folder)? {
        let name = path.display().to_string();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let dump = |option| toolbox.run_alone("DumpLogSegments", &["--files", &name, option], "");
        match extension {
            "log" => {
                let said = dump("--deep-iteration")?;
                check_quiet(&said.err, &said.out)?;
                ensure!(!said.out.contains("isvalid: false"), "{name} has an invalid batch");
                check_codec(&said.out, codec)?;
                records += said.out.lines().filter(|line| line.starts_with("| offset: ")).count();
            }
            "index" | "timeindex" => {
                let said = dump("--index-sanity-check")?;
                check_quiet(&said.err, &said.out)?;
                let passed = said.out.contains("passed sanity check");
                ensure!(passed || said.out.contains("is empty."), "{name}: {}", said.out);
                indexed += usize::from(passed && extension == "index");
                // Without options every entry is looked up in the log.
                let said = toolbox.run_alone("DumpLogSegments", &["--files", &name], "")?;
                check_quiet(&said.err, &said.out)?;
            }
            "snapshot" => {
                let said = dump("--deep-iteration")?;
                check_quiet(&said.err, &said.out)?;
                ensure!(said.out.contains("producerId: "), "{name}: {}", said.out);
            }
            _ => {}
        }
    }
    ensure!(indexed > 0, "no index has an entry in {}", folder.display());
    ensure!(records as u64 == COUNT, "{records} records in {}", folder.display());
    Ok(())
}

/// A producer leaves a batch as it is if that is shorter.
fn check_codec(out: &str, codec: &str) -> Result<()> {
    let of = |codec: &str| out.matches(&format!(" compresscodec: {codec} ")).count();
    let batches = out.matches("baseOffset: ").count();
    let plain = if codec == "none" { 0 } else { of("none") };
    ensure!(
        of(codec) > 0 && of(codec) + plain == batches,
        "{batches} batches, {} of them in {codec} and {plain} plain",
        of(codec)
    );
    Ok(())
}

/// The tool complains on stderr and goes on. It takes a segment's first record for a gap, of Kafka's too.
fn check_quiet(err: &str, out: &str) -> Result<()> {
    let heading = |line: &str| line.starts_with("Non-consecutive offsets in ");
    let first = |line: &str| line.trim_start().starts_with("-1 is followed by ");
    let complaint = err.lines().find(|line| !line.trim().is_empty() && !heading(line) && !first(line));
    ensure!(complaint.is_none(), "{err}\n{out}");
    Ok(())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        found.push(entry?.path());
    }
    found.sort();
    Ok(found)
}

/// The folder of a partition, in the data directory or a log directory in it.
pub(crate) fn partition_folder(data_dir: &Path, topic: &str, partition: i32) -> Result<PathBuf> {
    let name = format!("{topic}-{partition}");
    let folders = files(data_dir)?.into_iter().map(|folder| folder.join(&name));
    let found = [data_dir.join(&name)].into_iter().chain(folders).find(|folder| folder.is_dir());
    found.with_context(|| format!("{name} is not in {}", data_dir.display()))
}
