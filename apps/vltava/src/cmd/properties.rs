//! Files of settings for a client, as Kafka's own tools take them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Reads a file of properties as Java has them: `name=value` or `name: value` to a line, `#` and `!`
/// before a comment.
pub(super) fn read(path: &Path) -> Result<Vec<(String, String)>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '!']));
    let pair = |line: &str| {
        let at = line.find(['=', ':']).unwrap_or(line.len());
        let value = line.get(at + 1..).unwrap_or_default();
        (line[..at].trim().to_owned(), value.trim().to_owned())
    };
    Ok(lines.map(pair).collect())
}
