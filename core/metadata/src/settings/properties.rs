//! A file of settings: `name = value`, one a line.
//!
//! Kafka's `server.properties` reads as it is; so does flat TOML. `#` and `!` begin a comment at the
//! beginning of a line; double quotes around a value are taken off.

/// A line that is no setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected name = value, found {found:?}")]
pub struct PropertyError {
    /// The line, from 1.
    pub line: usize,
    /// What it says.
    pub found: String,
}

/// Reads a file of settings. A name that comes twice counts as its last line says.
pub fn parse_properties(text: &str) -> Result<Vec<(String, String)>, PropertyError> {
    let mut properties = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let wrong = || PropertyError { line: at + 1, found: line.chars().take(80).collect() };
        let (name, value) = line.split_once('=').ok_or_else(wrong)?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(wrong());
        }
        let value =
            value.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')).unwrap_or(value).to_owned();
        properties.push((name.to_owned(), value));
    }
    Ok(properties)
}
