//! `matrix.toml`: clients × features.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::home;

/// What some clients cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Feature {
    /// Make a topic.
    Create,
    /// Give records timestamps of one's own.
    Timestamps,
    /// Send a header with a null value.
    NullHeader,
    /// Send two headers of one name.
    RepeatHeader,
    /// Send any byte.
    Binary,
    /// Send any byte in a header.
    BinaryHeader,
    /// Send empty keys and values that are not null.
    Empty,
    /// Send a record whose key and value are null.
    NullBoth,
    /// Put a key where Java's client puts it, and say where.
    JavaKeys,
    /// Write and read the records of a partition.
    Records,
    /// Be a member of a group.
    Groups,
    /// Be one by the protocol of KIP-848.
    Consumer,
    /// Keep what does not move, in a group of the classic protocol.
    Cooperative,
    /// Share partitions with others by the range assignor.
    Range,
    /// Come back under its name without a rebalance.
    Static,
    /// The same by the protocol of KIP-848.
    StaticConsumer,
}

/// A client and how it runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// Also its client id.
    pub name: String,
    run: Vec<String>,
    #[serde(default)]
    options: Vec<String>,
    /// With the reason.
    #[serde(default)]
    pub cannot: BTreeMap<Feature, String>,
    /// The same, of reading.
    #[serde(default)]
    pub cannot_read: BTreeMap<Feature, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Matrix {
    client: Vec<Client>,
}

/// All clients, in the order of the file.
pub fn clients() -> Result<Vec<Client>> {
    let path = home::here("matrix.toml");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let matrix: Matrix = toml::from_str(&text).context("matrix.toml")?;
    Ok(matrix.client)
}

impl Client {
    /// Whether it has the feature.
    pub fn can(&self, feature: Feature) -> bool {
        !self.cannot.contains_key(&feature)
    }

    /// Whether it shows what a client with the feature writes.
    pub fn can_read(&self, feature: Feature) -> bool {
        !self.cannot_read.contains_key(&feature)
    }

    /// Whether it is our own.
    pub fn is_ours(&self) -> bool {
        self.name == "vltava"
    }

    /// The words of the command that starts its driver.
    pub fn command(&self, bootstrap: &str) -> Vec<String> {
        let build = home::build().display().to_string();
        let home = home::home().display().to_string();
        let here = home::here("").display().to_string();
        let here = here.trim_end_matches('/');
        let place =
            |word: &String| word.replace("{home}", &home).replace("{here}", here).replace("{build}", &build);
        let mut words: Vec<_> = self.run.iter().map(place).collect();
        words.extend([bootstrap.to_owned(), self.name.clone()]);
        words.extend(self.options.iter().cloned());
        words
    }
}
