//! Our node opens topic directories that Kafka wrote.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use vltava_conformance::driver::Driver;
use vltava_conformance::node::{Node, Program, Setup};
use vltava_conformance::stories::CODECS;

use crate::dump::{partition_folder, read, write};
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
    let node = Node::start(Setup::from_env()?.in_dir(&data_dir))?;
    read(&mut Driver::start(&writer()?, &node.bootstrap())?).with_context(|| node.log_tail())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
