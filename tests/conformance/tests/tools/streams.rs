//! A word count of Kafka Streams: instances come and go in good order, and each word is counted once.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use vltava_conformance::driver::{From, Place};
use vltava_conformance::kafka;
use vltava_conformance::line::LineProcess;
use vltava_conformance::record::{Bytes, Record};

use crate::toolbox::{PROMISE, Toolbox, eventually_in, topic, writer};

const PARTITIONS: i32 = 2;
/// Longer than the session of an instance that went, and the rebalances that follow.
const PATIENCE: Duration = Duration::from_secs(60);
const LINES: [&str; 3] = ["to be or not to be", "that is the question", "or is it not"];

struct WordCount<'a> {
    toolbox: &'a Toolbox,
    name: String,
    from: String,
    to: String,
}

pub(crate) fn word_count(toolbox: &Toolbox) -> Result<()> {
    let from = toolbox.create("words", PARTITIONS)?;
    let to = toolbox.create("counts", PARTITIONS)?;
    let app = WordCount { toolbox, name: topic("word-count"), from, to };
    let folder = tempfile::tempdir()?;
    let mut counted = BTreeMap::new();

    app.write(&mut counted)?;
    let mut first = app.start(&folder.path().join("1"))?;
    app.wait_for(&counted)?;
    // It shares with another; then that one is alone, and has to read what the first one counted.
    let mut second = app.start(&folder.path().join("2"))?;
    app.write(&mut counted)?;
    app.wait_for(&counted)?;
    stop(&mut first)?;
    app.write(&mut counted)?;
    app.wait_for(&counted)?;
    // And one comes back to a state that has grown old.
    let mut first = app.start(&folder.path().join("1"))?;
    app.write(&mut counted)?;
    app.wait_for(&counted)?;
    stop(&mut first)?;
    stop(&mut second)
}

fn stop(instance: &mut LineProcess) -> Result<()> {
    let said = instance.ask(&json!("stop"))?;
    ensure!(said["stopped"] == true, "{said}");
    Ok(())
}

impl WordCount<'_> {
    /// Waits until it runs.
    fn start(&self, state: &Path) -> Result<LineProcess> {
        let mut command = kafka::java("256m")?;
        // It warns of each topic of its own that is about to be made.
        command
            .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "WordCount"])
            .arg(self.toolbox.suite.bootstrap()?);
        command.args([&self.name, &self.from, &self.to]).arg(state);
        let mut instance = LineProcess::start("a word count", command)?;
        let said = instance.answer()?;
        ensure!(said["running"] == true, "{said}");
        Ok(instance)
    }

    /// Writes the lines to each partition, and counts their words.
    fn write(&self, counted: &mut BTreeMap<String, i64>) -> Result<()> {
        let record = |line: &&str| Record {
            key: None,
            value: Some(Bytes::from(*line)),
            headers: Vec::new(),
            timestamp: None,
        };
        let records: Vec<_> = LINES.iter().map(record).collect();
        self.toolbox.suite.tell(&writer()?, |driver| {
            for partition in 0..PARTITIONS {
                driver.produce(Place { topic: &self.from, partition }, PROMISE, &records)?;
                for word in LINES.iter().flat_map(|line| line.split(' ')) {
                    *counted.entry(word.to_owned()).or_default() += 1;
                }
            }
            Ok(())
        })
    }

    /// Waits until the last count of each word is this.
    fn wait_for(&self, counted: &BTreeMap<String, i64>) -> Result<()> {
        self.toolbox.suite.tell(&writer()?, |driver| {
            eventually_in(PATIENCE, || {
                let mut last = BTreeMap::new();
                for partition in 0..PARTITIONS {
                    let at = Place { topic: &self.to, partition };
                    let end = driver.offsets(at)?.1;
                    for stored in driver.consume(at, From::Offset(0), end as usize)? {
                        let Bytes(word) = stored.record.key.context("a word")?;
                        let Bytes(count) = stored.record.value.context("a count")?;
                        let count = i64::from_be_bytes(count[..].try_into()?);
                        last.insert(String::from_utf8(word)?, count);
                    }
                }
                ensure!(last == *counted, "counted {last:?}, not {counted:?}");
                Ok(())
            })
        })
    }
}
