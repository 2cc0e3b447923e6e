//! `vltava perf` against a node that this test starts.

mod kafka; // the arguments of Kafka's tools, and their lines
#[path = "../node/mod.rs"]
mod node;
mod results; // what Kafka's tools do not have

use std::process::{Command, Output};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use client::Scratch;
use client::consumer::{Consumer, Start};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;

use node::Node;

impl Node {
    fn perf(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vltava"));
        command.arg("perf").args(arguments).args(["--bootstrap-server", &self.address]);
        command.output().expect("the binary starts")
    }

    fn says(&self, arguments: &[&str]) -> Vec<String> {
        let output = self.perf(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }
}

impl Node {
    /// Keys and values of a topic's only partition, up to so many.
    fn records(&self, topic: &str, count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut consumer = Consumer::builder(&self.address).build().expect("the settings are fine");
        consumer.assign([(topic, 0, Start::Earliest)]);
        let (mut scratch, mut records) = (Scratch::default(), Vec::new());
        while records.len() < count {
            let batch = consumer.next_batch_within(Duration::from_secs(10)).expect("it can be read");
            let batch = batch.expect("there is more");
            for record in batch.records(&mut scratch).expect("it is a batch") {
                let record = record.expect("it is a record");
                let bytes = |bytes: Option<&[u8]>| bytes.unwrap_or_default().to_vec();
                records.push((bytes(record.key), bytes(record.value)));
            }
        }
        records
    }
}

/// The last line, which is one object.
fn object(lines: &[String]) -> Value {
    let line = lines.last().expect("there is a line");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}
