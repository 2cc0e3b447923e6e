//! Kafka's command-line tools, by class, in one Java (`tools/Tools.java`).

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::json;

use crate::kafka;
use crate::line::LineProcess;

/// The Java that runs them. It ends when this is dropped.
#[derive(Debug)]
pub struct Tools {
    process: LineProcess,
}

/// What a tool said.
#[derive(Clone, Debug, Deserialize)]
pub struct Said {
    /// Its exit code.
    pub exit: i32,
    /// Its standard output.
    pub out: String,
    /// Its standard error, with the log.
    pub err: String,
}

impl Tools {
    /// Starts it.
    pub fn start() -> Result<Self> {
        let mut command = kafka::java("512m")?;
        command.arg("Tools");
        Ok(Self { process: LineProcess::start("Kafka's tools", command)? })
    }

    /// Runs a tool to its end.
    pub fn run(&mut self, name: &str, arguments: &[&str], stdin: &str) -> Result<Said> {
        let command = json!({"class": class(name), "args": arguments, "stdin": stdin});
        let answer = self.process.ask(&command)?;
        Said::deserialize(&answer).with_context(|| answer.to_string())
    }
}

fn class(name: &str) -> String {
    let package = match name {
        "ConfigCommand" => "kafka.admin",
        "ConsoleConsumer" => "org.apache.kafka.tools.consumer",
        "ConsumerGroupCommand" => "org.apache.kafka.tools.consumer.group",
        "ReassignPartitionsCommand" => "org.apache.kafka.tools.reassign",
        _ => "org.apache.kafka.tools",
    };
    format!("{package}.{name}")
}

impl Said {
    /// Checks that it did its work and logged no error; answers its output.
    pub fn done(self) -> Result<String> {
        let complains = self.err.contains("ERROR") || self.err.contains("Exception");
        ensure!(self.exit == 0 && !complains, "{self}");
        Ok(self.out)
    }

    /// Checks that it failed, and that it told why.
    pub fn fails_with(self, words: &str) -> Result<()> {
        ensure!(self.exit != 0, "it should fail: {self}");
        let told = self.out.contains(words) || self.err.contains(words);
        ensure!(told, "{words:?} is not told: {self}");
        Ok(())
    }
}

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {}\n{}\n{}", self.exit, self.out.trim_end(), self.err.trim_end())
    }
}
