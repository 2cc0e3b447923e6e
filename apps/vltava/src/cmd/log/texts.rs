//! The small text files of a log directory.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::json;
use storage::checkpoint::{parse_epochs, parse_offsets, parse_partition_metadata};
use storage::dirs::MetaProperties;

use super::line::Lines;

/// Prints a checkpoint of offsets.
pub(super) fn offsets(path: &Path, lines: &mut Lines<'_>) -> Result<()> {
    match parse_offsets(&read(path)?) {
        Ok(offsets) => offsets.iter().try_for_each(|(at, offset)| {
            let topic = json!(at.topic.as_str());
            let partition = json!(at.partition.0);
            lines.found(
                "partition",
                &[("topic", topic), ("partition", partition), ("offset", json!(offset.0))],
            )
        }),
        Err(error) => lines.damage(0, &error.to_string()),
    }
}

/// Prints where leader epochs began.
pub(super) fn epochs(path: &Path, lines: &mut Lines<'_>) -> Result<()> {
    match parse_epochs(&read(path)?) {
        Ok(epochs) => epochs.iter().try_for_each(|(epoch, start)| {
            lines.found("epoch", &[("epoch", json!(epoch.0)), ("start_offset", json!(start.0))])
        }),
        Err(error) => lines.damage(0, &error.to_string()),
    }
}

/// Prints whose partition it is.
pub(super) fn partition_metadata(path: &Path, lines: &mut Lines<'_>) -> Result<()> {
    match parse_partition_metadata(&read(path)?) {
        Ok(id) => lines.found("topic", &[("id", json!(id.to_string()))]),
        Err(error) => lines.damage(0, &error.to_string()),
    }
}

/// Prints whose log directory it is.
pub(super) fn meta_properties(path: &Path, lines: &mut Lines<'_>) -> Result<()> {
    match MetaProperties::parse(&read(path)?) {
        Ok(properties) => lines.found(
            "directory",
            &[
                ("cluster", json!(properties.cluster_id)),
                ("node", json!(properties.node_id.0)),
                ("id", json!(properties.directory_id.to_string())),
            ],
        ),
        Err(error) => lines.damage(0, &error.to_string()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).context("cannot read it")
}
