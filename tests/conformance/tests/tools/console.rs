//! ConsoleProducer and ConsoleConsumer of a partition, ProducerPerformance.

use anyhow::{Context, Result, ensure};
use vltava_conformance::stories::CODECS;

use crate::toolbox::Toolbox;

const LINES: &str = "a:1,b:2\tk1=v1\na:\tk2=v2\nc:3\tk3=NULL\n";
const PRINT: [&str; 5] = ["print.key", "print.headers", "print.offset", "print.partition", "print.timestamp"];

pub(crate) fn console(toolbox: &Toolbox) -> Result<()> {
    let topic = toolbox.create("console", 1)?;
    for (round, codec) in CODECS.iter().enumerate() {
        write(toolbox, &topic, codec).with_context(|| codec.to_string())?;
        let read = read(toolbox, &topic, &(round * 3).to_string(), "3").with_context(|| codec.to_string())?;
        let want = [
            format!("Partition:0\tOffset:{}\ta:1,b:2\tk1\tv1", round * 3),
            format!("Partition:0\tOffset:{}\ta:\tk2\tv2", round * 3 + 1),
            format!("Partition:0\tOffset:{}\tc:3\tk3\tnull", round * 3 + 2),
        ];
        ensure!(read == want, "{codec}: {read:?}, not {want:?}");
    }
    let count = CODECS.len() * 3;
    ensure!(read(toolbox, &topic, "earliest", &count.to_string())?.len() == count, "from the earliest");
    Ok(())
}

fn write(toolbox: &Toolbox, topic: &str, codec: &str) -> Result<()> {
    let arguments = [
        ["--topic", topic],
        ["--compression-codec", codec],
        ["--request-required-acks", "all"],
        ["--reader-property", "parse.key=true"],
        ["--reader-property", "key.separator=="],
        ["--reader-property", "parse.headers=true"],
        ["--reader-property", "null.marker=NULL"],
    ];
    toolbox.run_with("ConsoleProducer", arguments.as_flattened(), LINES)?.done()?;
    Ok(())
}

/// What it prints of each record, but the timestamp.
fn read(toolbox: &Toolbox, topic: &str, offset: &str, count: &str) -> Result<Vec<String>> {
    let mut arguments = vec!["--topic", topic, "--partition", "0", "--offset", offset];
    arguments.extend(["--max-messages", count, "--timeout-ms", "20000"]);
    let print = PRINT.map(|part| format!("{part}=true"));
    for part in &print {
        arguments.extend(["--formatter-property", part]);
    }
    let out = toolbox.run("ConsoleConsumer", &arguments)?.done()?;
    let cut = |line: &str| {
        let (timestamp, rest) = line.split_once('\t')?;
        timestamp.starts_with("CreateTime:").then(|| rest.to_owned())
    };
    out.lines().map(|line| cut(line).with_context(|| line.to_owned())).collect()
}

pub(crate) fn producer_performance(toolbox: &Toolbox) -> Result<()> {
    let topic = toolbox.create("producer-performance", 3)?;
    let mut arguments = vec!["--topic", &topic, "--num-records", "50000", "--record-size", "100"];
    arguments.extend(["--throughput", "-1", "--command-property", "acks=all"]);
    let said = toolbox.run("ProducerPerformance", &arguments)?.done()?;
    ensure!(said.contains("50000 records sent"), "{said}");
    let ends = toolbox.run("GetOffsetShell", &["--topic", &topic])?.done()?;
    let end = |line: &str| line.rsplit(':').next().and_then(|offset| offset.parse::<u64>().ok());
    let sum: u64 = ends.lines().filter_map(end).sum();
    ensure!(sum == 50_000, "{ends}");
    Ok(())
}
