//! Our node opens topic directories that Kafka wrote.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use vltava_conformance::driver::{Driver, How, Place};
use vltava_conformance::node::{Node, Program, Setup};
use vltava_conformance::record::Many;
use vltava_conformance::stories::CODECS;
use vltava_conformance::suite;

use crate::dump::{COUNT, TOPIC, partition_folder, read, write};
use crate::toolbox::{Toolbox, writer};

pub(crate) fn a_directory_that_kafka_wrote(_: &Toolbox) -> Result<()> {
    let mut kafka = Node::start(Setup::of(Program::Kafka))?;
    write(&mut Driver::start(&writer()?, &kafka.bootstrap())?)?;
    kafka.stop()?;

    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let written = kafka.data_dir().context("Kafka is ours")?;
    for partition in 0..CODECS.len() as i32 {
        copy(
            &partition_folder(written, "dumped", partition)?,
            &data_dir.join(format!("dumped-{partition}")),
        )?;
    }
    let mut node = Node::start(Setup::from_env()?.in_dir(&data_dir))?;
    read(&mut Driver::start(&writer()?, &node.bootstrap())?).with_context(|| node.log_tail())?;
    write_more(&node, COUNT).with_context(|| node.log_tail())?;
    node.kill()?;
    node.start_again()?;
    write_more(&node, COUNT + MORE).with_context(|| node.log_tail())
}

/// How many records are written to each partition that was taken in.
const MORE: u64 = 10;

/// Those who write now are not taken for those who wrote to Kafka: no id of a producer comes again.
fn write_more(node: &Node, end: u64) -> Result<()> {
    let mut driver = Driver::start(&writer()?, &node.bootstrap())?;
    suite::wait_for_leaders(&mut driver, TOPIC, CODECS.len() as i32)?;
    let more = Many { seed: 5, count: MORE, sizes: vec![50], timestamp: None, batch_bytes_max: None };
    let written = (Some(end as i64), Some((end + MORE) as i64 - 1));
    for (partition, compression) in (0..).zip(CODECS) {
        let at = Place { topic: TOPIC, partition };
        let how = How { compression, acks: "all", idempotent: true };
        let offsets = driver.produce_many(at, how, &more)?;
        ensure!(offsets == written, "{compression}: written at {offsets:?}, not {written:?}");
        let offsets = driver.offsets(at)?;
        ensure!(offsets == (0, (end + MORE) as i64), "{compression}: the partition is {offsets:?}");
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
