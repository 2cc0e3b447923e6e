//! One thing found in a file, as text or as JSON.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use base::TimestampMs;
use serde_json::{Map, Value, json};

use crate::output::utc;

/// Where what is found goes.
pub(super) struct Lines<'a> {
    out: &'a mut dyn Write,
    json: bool,
    damaged: usize,
}

impl<'a> Lines<'a> {
    pub(super) fn new(out: &'a mut dyn Write, json: bool) -> Self {
        Self { out, json, damaged: 0 }
    }

    /// How many places were damaged.
    pub(super) fn damaged(&self) -> usize {
        self.damaged
    }

    /// What follows is from this file.
    pub(super) fn file(&mut self, path: &Path) -> Result<()> {
        if self.json {
            return Ok(writeln!(
                self.out,
                "{}",
                json!({ "type": "file", "path": path.display().to_string() })
            )?);
        }
        Ok(writeln!(self.out, "{}", path.display())?)
    }

    /// Something found: its type, and its fields in the order they are shown. Fields that are null are
    /// not shown to people.
    pub(super) fn found(&mut self, of: &str, fields: &[(&str, Value)]) -> Result<()> {
        if self.json {
            let mut object = Map::new();
            object.insert("type".to_owned(), json!(of));
            object.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
            return Ok(writeln!(self.out, "{}", Value::Object(object))?);
        }
        // What lies within something else is indented below it.
        let indent = if of == "record" { "    " } else { "  " };
        write!(self.out, "{indent}{of}")?;
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            match value {
                Value::String(text) => write!(self.out, " {name}={text}")?,
                value => write!(self.out, " {name}={value}")?,
            }
        }
        Ok(writeln!(self.out)?)
    }

    /// A place where the file is not what it should be.
    pub(super) fn damage(&mut self, position: u64, what: &str) -> Result<()> {
        self.damaged += 1;
        self.found("damage", &[("position", json!(position)), ("what", json!(what))])
    }
}

/// Bytes for people and JSON: as text if they are text, else in hexadecimal.
pub(super) fn shown(bytes: Option<&[u8]>) -> Value {
    let Some(bytes) = bytes else { return Value::Null };
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(char::is_control) => json!(text),
        _ => json!(bytes.iter().fold("0x".to_owned(), |hex, byte| hex + &format!("{byte:02x}"))),
    }
}

/// A time for people and JSON; null if none is known.
pub(super) fn time(at: TimestampMs) -> Value {
    if at.is_some() { json!(utc(at.0)) } else { Value::Null }
}
