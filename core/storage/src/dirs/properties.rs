//! `meta.properties`: whose a log directory is, as a Java properties file.
//!
//! ```text
//!   version=1
//!   cluster.id=5L6g3nShT-eMCtK--X86sw
//!   node.id=1
//!   directory.id=TtJdFzJ2SYq2XQ3pQWg0Mg
//!   vltava.metadata.directory.id=TtJdFzJ2SYq2XQ3pQWg0Mg
//!   vltava.joins=true
//! ```
//!
//! The last two are ours. One names the directory that has the metadata log, so that a node which was
//! started without it does not begin a new one. The other is there if the node began its life in a cluster that
//! others had founded: it never founds that cluster itself. Kafka passes over what it does not know.

use base::{BrokerId, Uuid};

const VERSION: &str = "1";
const METADATA_DIRECTORY: &str = "vltava.metadata.directory.id";
const JOINS: &str = "vltava.joins";

/// Whose a log directory is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaProperties {
    /// The cluster.
    pub cluster_id: String,
    /// The node.
    pub node_id: BrokerId,
    /// The directory itself; zero if it was never given an id.
    pub directory_id: Uuid,
    /// The directory of this node that has the metadata log; zero if it does not say.
    pub metadata_directory: Uuid,
    /// Whether others had founded the cluster when the node came to it.
    pub joins: bool,
}

/// Why `meta.properties` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PropertiesError {
    /// It is not text.
    #[error("not a text file")]
    NotText,
    /// A property is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A property has a value it cannot have.
    #[error("{key} is {value:?}")]
    Bad {
        /// Which property.
        key: &'static str,
        /// Its value, cut to a length that can be shown.
        value: String,
    },
}

impl MetaProperties {
    /// The text of the file.
    pub fn format(&self) -> String {
        let Self { cluster_id, node_id, directory_id, metadata_directory, joins } = self;
        let mut text = format!(
            "version={VERSION}\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={directory_id}\n"
        );
        if !metadata_directory.is_zero() {
            text += &format!("{METADATA_DIRECTORY}={metadata_directory}\n");
        }
        if *joins {
            text += &format!("{JOINS}=true\n");
        }
        text
    }

    /// Reads the text of the file. Properties that are not known are passed over.
    pub fn parse(bytes: &[u8]) -> Result<Self, PropertiesError> {
        let text = std::str::from_utf8(bytes).map_err(|_| PropertiesError::NotText)?;
        let find = |key: &'static str| properties(text).find(|(found, _)| *found == key).map(|(_, v)| v);
        let required = |key: &'static str| find(key).ok_or(PropertiesError::Missing(key));
        let bad = |key: &'static str, value: &str| PropertiesError::Bad {
            key,
            value: value.chars().take(80).collect(),
        };
        let version = required("version")?;
        if version != VERSION {
            return Err(bad("version", version));
        }
        let node_id = required("node.id")?;
        let id = |key: &'static str| match find(key) {
            Some(id) => id.parse().map_err(|_| bad(key, id)),
            None => Ok(Uuid::ZERO),
        };
        Ok(Self {
            cluster_id: required("cluster.id")?.to_owned(),
            node_id: BrokerId(node_id.parse().map_err(|_| bad("node.id", node_id))?),
            directory_id: id("directory.id")?,
            metadata_directory: id(METADATA_DIRECTORY)?,
            joins: find(JOINS) == Some("true"),
        })
    }
}

/// Keys and values. Java writes no escapes into the values that stand here.
fn properties(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with(['#', '!']));
    lines.filter_map(|line| line.split_once('=')).map(|(key, value)| (key.trim(), value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kafka_writes_is_read() {
        let text = "#\n#Thu Jan 01 00:00:00 UTC 2026\ncluster.id=5L6g3nShT-eMCtK--X86sw\ndirectory.id=TtJdFzJ2SYq2XQ3pQWg0Mg\nnode.id=7\nversion=1\n";
        let found = MetaProperties::parse(text.as_bytes()).expect("well formed");
        assert_eq!(found.cluster_id, "5L6g3nShT-eMCtK--X86sw");
        assert_eq!(found.node_id, BrokerId(7));
        assert_eq!(found.directory_id.to_string(), "TtJdFzJ2SYq2XQ3pQWg0Mg");
        assert_eq!(MetaProperties::parse(found.format().as_bytes()), Ok(found.clone()));
        let ours = MetaProperties { metadata_directory: Uuid([3; 16]), joins: true, ..found };
        assert_eq!(MetaProperties::parse(ours.format().as_bytes()), Ok(ours));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        let cases: [(&[u8], PropertiesError); 4] = [
            (b"\xff", PropertiesError::NotText),
            (b"node.id=1\n", PropertiesError::Missing("version")),
            (b"version=1\nnode.id=1\n", PropertiesError::Missing("cluster.id")),
            (
                b"version=1\ncluster.id=x\nnode.id=one\n",
                PropertiesError::Bad { key: "node.id", value: "one".to_owned() },
            ),
        ];
        for (bytes, error) in cases {
            assert_eq!(MetaProperties::parse(bytes), Err(error));
        }
    }
}
