//! What the stories share: the node, clients that write for them, and the Java with the tools.

use std::process;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vltava_conformance::Program;
use vltava_conformance::driver::{How, Place};
use vltava_conformance::matrix::{self, Client};
use vltava_conformance::record::{Bytes, Record};
use vltava_conformance::suite::Suite;
use vltava_conformance::tools::{Said, Tools};

/// How soon all that a node told is what it shows: a topic that is created may come into view later.
const VISIBLE_MAX: Duration = Duration::from_secs(10);

pub(crate) const PROMISE: How = How { compression: "none", acks: "all", idempotent: true };

#[derive(Default)]
pub(crate) struct Toolbox {
    pub(crate) suite: Suite,
    tools: Arc<Mutex<Option<Tools>>>,
}

impl Toolbox {
    /// The same tools for another program.
    pub(crate) fn beside(&self, program: Program) -> Self {
        Self { suite: Suite::on(program), tools: Arc::clone(&self.tools) }
    }

    /// Runs a tool against the node.
    pub(crate) fn run(&self, name: &str, arguments: &[&str]) -> Result<Said> {
        self.run_with(name, arguments, "")
    }

    /// Runs it with something on its standard input.
    pub(crate) fn run_with(&self, name: &str, arguments: &[&str], stdin: &str) -> Result<Said> {
        let bootstrap = self.suite.bootstrap()?;
        let arguments = [&["--bootstrap-server", &bootstrap], arguments].concat();
        self.run_alone(name, &arguments, stdin)
    }

    /// Runs it without the address of the node.
    pub(crate) fn run_alone(&self, name: &str, arguments: &[&str], stdin: &str) -> Result<Said> {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if tools.is_none() {
            *tools = Some(Tools::start()?);
        }
        let tools = tools.as_mut().context("it was started above")?;
        tools.run(name, arguments, stdin).with_context(|| format!("{name} {}", arguments.join(" ")))
    }

    /// Makes a topic whose name has the story in it, and waits until it can be used.
    pub(crate) fn create(&self, story: &str, partitions: i32) -> Result<String> {
        let topic = topic(story);
        self.suite.tell(&writer()?, |driver| self.suite.create(driver, &topic, partitions, &[]))?;
        Ok(topic)
    }

    /// Writes small records with these timestamps, in one batch.
    pub(crate) fn write(&self, topic: &str, partition: i32, timestamps: &[i64]) -> Result<()> {
        let record = |timestamp: &i64| Record {
            key: Some(Bytes::from("key")),
            value: Some(Bytes::from("value")),
            headers: Vec::new(),
            timestamp: Some(*timestamp),
        };
        let records: Vec<_> = timestamps.iter().map(record).collect();
        self.suite
            .tell(&writer()?, |driver| driver.produce(Place { topic, partition }, PROMISE, &records))?;
        Ok(())
    }
}

/// The client that prepares what the tools look at.
pub(crate) fn writer() -> Result<Client> {
    let clients = matrix::clients()?;
    clients.into_iter().find(|client| client.name == "librdkafka").context("librdkafka is in matrix.toml")
}

/// A topic's name, not used by an earlier run on a server that was there already.
pub(crate) fn topic(story: &str) -> String {
    format!("{story}-{}", process::id())
}

/// Tries until it works: for what a node may show a little later than it answered.
pub(crate) fn eventually(look: impl FnMut() -> Result<()>) -> Result<()> {
    eventually_in(VISIBLE_MAX, look)
}

/// Tries for this long.
pub(crate) fn eventually_in(longest: Duration, mut look: impl FnMut() -> Result<()>) -> Result<()> {
    let deadline = Instant::now() + longest;
    while let Err(error) = look() {
        if Instant::now() > deadline {
            return Err(error);
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
