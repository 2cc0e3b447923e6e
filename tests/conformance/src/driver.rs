//! A foreign client, through its driver.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::group::{Joining, Seen};
use crate::line::LineProcess;
use crate::matrix::Client;
use crate::record::{Bytes, Many, Record, Stored};

/// A partition of a topic.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The topic.
    pub topic: &'a str,
    /// Its partition.
    pub partition: i32,
}

/// How a producer is set.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// `none`, `gzip`, `snappy`, `lz4` or `zstd`.
    pub compression: &'static str,
    /// `0`, `1` or `all`.
    pub acks: &'static str,
    /// Only with `all`.
    pub idempotent: bool,
}

/// Where a consumer starts.
#[derive(Clone, Copy, Debug)]
pub enum From {
    /// At an offset.
    Offset(i64),
    /// At the first record of this time or later.
    Timestamp(i64),
}

/// What a bulk read gave.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ReadMany {
    /// Offset of the first record.
    pub first: Option<i64>,
    /// Offset of the last record.
    pub last: Option<i64>,
    /// How many.
    pub count: u64,
    /// See `drivers/PROTOCOL.md`.
    pub digest: String,
}

/// A client's driver. It ends when this is dropped.
#[derive(Debug)]
pub struct Driver {
    client: Client,
    process: LineProcess,
    version: String,
}

impl Driver {
    /// Starts it.
    pub fn start(client: &Client, bootstrap: &str) -> Result<Self> {
        let words = client.command(bootstrap);
        let (program, arguments) = words.split_first().context("matrix.toml: run is empty")?;
        let mut command = Command::new(program);
        command.args(arguments);
        let mut process = LineProcess::start(&client.name, command)?;
        let ready = process.answer().context("run tests/conformance/install.sh")?;
        let version = ready["ready"].as_str().unwrap_or_default().to_owned();
        Ok(Self { client: client.clone(), process, version })
    }

    /// Which client it is.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its name and version, in its own words.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Makes a topic.
    pub fn create(&mut self, topic: &str, partitions: i32, configs: &[(&str, &str)]) -> Result<()> {
        let configs: Value = configs.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
        self.ask(json!({"op": "create", "topic": topic, "partitions": partitions, "configs": configs}))?;
        Ok(())
    }

    /// How many partitions a topic has.
    pub fn partitions(&mut self, topic: &str) -> Result<i32> {
        let answer = self.ask(json!({"op": "metadata", "topic": topic}))?;
        field(&answer, "partitions")
    }

    /// Writes records one by one and answers their offsets, None where the client learns none.
    pub fn produce(&mut self, at: Place<'_>, how: How, records: &[Record]) -> Result<Vec<Option<i64>>> {
        let answer = self.ask(with(json!({"op": "produce", "records": records}), at, Some(how)))?;
        field(&answer, "offsets")
    }

    /// Writes records that the driver makes; answers the offsets of the first and the last, `None` where
    /// the client learns none.
    pub fn produce_many(
        &mut self,
        at: Place<'_>,
        how: How,
        many: &Many,
    ) -> Result<(Option<i64>, Option<i64>)> {
        let mut command = with(json!(many), at, Some(how));
        command["op"] = json!("produce_many");
        let answer = self.ask(command)?;
        Ok((field(&answer, "first")?, field(&answer, "last")?))
    }

    /// Writes a record of each key without saying where to; answers the partitions it chose.
    pub fn place(&mut self, topic: &str, keys: &[Bytes]) -> Result<Vec<i32>> {
        field(&self.ask(json!({"op": "place", "topic": topic, "keys": keys}))?, "partitions")
    }

    /// Writes the records of some transactions by turns; each is committed, or aborted.
    pub fn transactions(
        &mut self,
        at: Place<'_>,
        compression: &str,
        transactions: &[(bool, Vec<Record>)],
    ) -> Result<()> {
        let spelled = |(commit, records): &(bool, Vec<Record>)| json!({"commit": commit, "records": records});
        let transactions: Vec<_> = transactions.iter().map(spelled).collect();
        let command = json!({"op": "transactions", "compression": compression, "transactions": transactions});
        self.ask(with(command, at, None))?;
        Ok(())
    }

    /// Reads records that are committed, or also those that are not.
    pub fn consume_isolated(&mut self, at: Place<'_>, isolation: &str, count: usize) -> Result<Vec<Stored>> {
        let command = json!({"op": "consume", "count": count, "offset": 0, "isolation": isolation});
        field(&self.ask(with(command, at, None))?, "records")
    }

    /// Reads records.
    pub fn consume(&mut self, at: Place<'_>, from: From, count: usize) -> Result<Vec<Stored>> {
        let mut command = with(json!({"op": "consume", "count": count}), at, None);
        match from {
            From::Offset(offset) => command["offset"] = json!(offset),
            From::Timestamp(timestamp) => command["timestamp"] = json!(timestamp),
        }
        let answer = self.ask(command)?;
        field(&answer, "records")
    }

    /// Reads many records and answers their digest.
    pub fn consume_many(&mut self, at: Place<'_>, offset: i64, count: u64) -> Result<ReadMany> {
        let command = json!({"op": "consume_many", "offset": offset, "count": count});
        let answer = self.ask(with(command, at, None))?;
        ReadMany::deserialize(&answer).with_context(|| answer.to_string())
    }

    /// The offset of the first record of this time or later.
    pub fn offset_for_time(&mut self, at: Place<'_>, timestamp: i64) -> Result<Option<i64>> {
        let answer = self.ask(with(json!({"op": "offset_for_time", "timestamp": timestamp}), at, None))?;
        field(&answer, "offset")
    }

    /// The first offset of a partition, and the one after its last record.
    pub fn offsets(&mut self, at: Place<'_>) -> Result<(i64, i64)> {
        let answer = self.ask(with(json!({"op": "offsets"}), at, None))?;
        Ok((field(&answer, "start")?, field(&answer, "end")?))
    }

    /// Makes the driver a member of a group. It joins and polls by itself until it leaves.
    pub fn join(&mut self, joining: &Joining<'_>) -> Result<()> {
        let mut command = json!(joining);
        command["op"] = json!("join");
        self.ask(command)?;
        Ok(())
    }

    /// What the member was given and what it read, all since it joined.
    pub fn member(&mut self) -> Result<Seen> {
        let answer = self.ask(json!({"op": "member"}))?;
        Seen::deserialize(&answer).with_context(|| answer.to_string())
    }

    /// The member commits these offsets, by partition.
    pub fn commit(&mut self, topic: &str, offsets: &[Option<i64>]) -> Result<()> {
        self.ask(json!({"op": "commit", "topic": topic, "offsets": offsets}))?;
        Ok(())
    }

    /// What a group has committed of the first partitions of a topic.
    pub fn committed(&mut self, group: &str, topic: &str, partitions: usize) -> Result<Vec<Option<i64>>> {
        field(&self.ask(committed(group, topic, partitions))?, "offsets")
    }

    /// Asks the same and waits for nothing; [`Self::told_committed`] has the answer.
    pub fn ask_committed(&mut self, group: &str, topic: &str, partitions: usize) -> Result<()> {
        self.process.send(&committed(group, topic, partitions))
    }

    /// What the client was told since, or why it gave up; None while it asks.
    pub fn told_committed(&mut self) -> Result<Option<Result<Vec<Option<i64>>, String>>> {
        let Some(answer) = self.process.answered()? else { return Ok(None) };
        Ok(Some(match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(field(&answer, "offsets")?),
        }))
    }

    /// The member leaves in good order; one that is static leaves its place to whoever comes under its name.
    pub fn leave(&mut self) -> Result<()> {
        self.ask(json!({"op": "leave"}))?;
        Ok(())
    }

    /// Ends the driver, and its member, as a crash does.
    pub fn kill(mut self) -> Result<()> {
        self.process.kill()
    }

    fn ask(&mut self, command: Value) -> Result<Value> {
        let answer = self.process.ask(&command)?;
        if let Some(error) = answer.get("error") {
            let op = command["op"].as_str().unwrap_or_default();
            bail!("{} {op}: {}", self.client.name, error.as_str().unwrap_or_default());
        }
        Ok(answer)
    }
}

fn committed(group: &str, topic: &str, partitions: usize) -> Value {
    json!({"op": "committed", "group": group, "topic": topic, "partitions": partitions})
}

fn with(mut command: Value, at: Place<'_>, how: Option<How>) -> Value {
    command["topic"] = json!(at.topic);
    command["partition"] = json!(at.partition);
    if let Some(How { compression, acks, idempotent }) = how {
        command["compression"] = json!(compression);
        command["acks"] = json!(acks);
        command["idempotent"] = json!(idempotent);
    }
    command
}

fn field<T: DeserializeOwned>(answer: &Value, name: &str) -> Result<T> {
    T::deserialize(&answer[name]).with_context(|| format!("{name} in {answer}"))
}
