//! Files that people write: read strictly, and told where they are wrong.
//!
//! A field that nobody reads would change nothing and look as if it did. So an unknown one is an error,
//! which says on what line it is and what was probably meant.

use std::fmt;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// The fields of a file, or of a part of one.
pub(crate) type Fields = Map<String, Value>;

/// Settings by their names, as the brokers and clients of Kafka have them.
pub(crate) type Settings = std::collections::BTreeMap<String, String>;

/// A file with its text.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// What errors call it.
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

impl Source<'_> {
    pub(crate) fn fields(&self) -> Result<Fields> {
        let value: yaml_serde::Value =
            yaml_serde::from_str(self.text).map_err(|error| anyhow!("{}: {error}", self.name))?;
        match serde_json::to_value(value).with_context(|| self.name.to_owned())? {
            Value::Object(fields) => Ok(fields),
            Value::Null => bail!("{}: it is empty", self.name),
            _ => bail!("{}: expected fields, each on a line of its own: `name: value`", self.name),
        }
    }

    /// Fails at the first field that is none of these.
    pub(crate) fn only(&self, fields: &Fields, known: &[String]) -> Result<()> {
        let Some(unknown) = fields.keys().find(|field| !known.contains(field)) else { return Ok(()) };
        let place = self.place(unknown);
        match nearest(unknown, known) {
            Some(near) => bail!("{place}: unknown field `{unknown}`: did you mean `{near}`?"),
            None => bail!("{place}: unknown field `{unknown}`; there are {}", known.join(", ")),
        }
    }

    /// Reads fields into a type all of whose fields have defaults.
    pub(crate) fn typed<T: DeserializeOwned>(&self, fields: &Fields) -> Result<T> {
        let whole = serde_json::from_value(Value::Object(fields.clone()));
        whole.map_err(|error| {
            // The error does not say which field it is about: the one that cannot be read alone.
            let alone = fields.iter().find_map(|(name, value)| {
                let only: Fields = [(name.clone(), value.clone())].into_iter().collect();
                let read: Result<T, _> = serde_json::from_value(Value::Object(only));
                read.err().map(|error| anyhow!("{}: {name}: {error}", self.place(name)))
            });
            alone.unwrap_or_else(|| anyhow!("{}: {error}", self.name))
        })
    }

    /// The file, with the line that a field is on.
    fn place(&self, field: &str) -> String {
        let is_it = |line: &str| {
            let line = line.trim_start().trim_start_matches(['"', '\'']);
            line.strip_prefix(field)
                .is_some_and(|rest| rest.trim_start_matches(['"', '\'', ' ']).starts_with(':'))
        };
        match self.text.lines().position(is_it) {
            Some(at) => format!("{}:{}", self.name, at + 1),
            None => self.name.to_owned(),
        }
    }
}

/// The names of the fields of a type.
pub(crate) fn names<T: Default + Serialize>() -> Vec<String> {
    match serde_json::to_value(T::default()) {
        Ok(Value::Object(fields)) => fields.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

/// Reads settings whose values are texts, numbers, or true and false.
pub(crate) fn settings<'de, D: Deserializer<'de>>(from: D) -> Result<Settings, D::Error> {
    let fields = Fields::deserialize(from)?;
    let pair = |(name, value): (String, Value)| match scalar(&value) {
        Some(text) => Ok((name, text)),
        None => Err(serde::de::Error::custom(format!("{name}: expected a text or a number"))),
    };
    fields.into_iter().map(pair).collect()
}

/// Reads a text that may look like a number.
pub(crate) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let value = Value::deserialize(from)?;
    scalar(&value).ok_or_else(|| serde::de::Error::custom("expected a text or a number"))
}

/// A value as text; `None` of what is made of several.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Reads `name=value` on lines of their own, as properties files have it.
pub(crate) fn properties(text: &str) -> Result<Settings> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '!']));
    let pair = |line: &str| {
        let (name, value) =
            line.split_once(['=', ':']).with_context(|| format!("`{line}` is no NAME=VALUE"))?;
        ensure!(!name.trim().is_empty(), "`{line}` is no NAME=VALUE");
        Ok((name.trim().to_owned(), value.trim().to_owned()))
    };
    lines.map(pair).collect()
}

/// What was probably meant, if something is near enough.
pub(crate) fn nearest<'a, T: AsRef<str>>(name: &str, known: &'a [T]) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace(['-', '.', ' '], "_");
    let wanted = plain(name);
    let distances = known.iter().map(|known| (distance(&wanted, &plain(known.as_ref())), known.as_ref()));
    let (distance, near) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= (wanted.chars().count() / 3).max(1)).then_some(near)
}

/// How many letters have to be put in, taken out or exchanged (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, letter) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, other) in b.iter().enumerate() {
            let exchanged = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = exchanged.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

/// A value as it stands in a table.
pub(crate) struct Shown<'a>(pub(crate) &'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match scalar(self.0) {
            Some(text) => f.write_str(&text),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Example {
        record_bytes: u32,
        partitions: u32,
        #[serde(deserialize_with = "settings")]
        producer: Settings,
    }

    fn read(text: &str) -> Result<Example> {
        let source = Source { name: "a.yaml", text };
        let fields = source.fields()?;
        source.only(&fields, &names::<Example>())?;
        source.typed(&fields)
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let cases = [
            (
                "partitions: 6\nrecrod_bytes: 1\n",
                "a.yaml:2: unknown field `recrod_bytes`: did you mean `record_bytes`?",
            ),
            ("recordBytes: 1", "a.yaml:1: unknown field `recordBytes`: did you mean `record_bytes`?"),
            ("colour: red", "a.yaml:1: unknown field `colour`; there are record_bytes, partitions, producer"),
            (
                "record_bytes: 1\n\npartitions: many",
                "a.yaml:3: partitions: invalid type: string \"many\", expected u32",
            ),
            ("partitions: -1", "a.yaml:1: partitions: invalid value: integer `-1`, expected u32"),
            ("producer: {linger.ms: [1, 2]}", "a.yaml:1: producer: linger.ms: expected a text or a number"),
            ("", "a.yaml: it is empty"),
            ("- 1", "a.yaml: expected fields, each on a line of its own: `name: value`"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text).expect_err(text).to_string(), expected, "{text}");
        }
        let twice = read("partitions: 1\npartitions: 2").expect_err("it is there twice").to_string();
        assert!(twice.starts_with("a.yaml: ") && twice.contains("duplicate"), "{twice}");
    }

    #[test]
    fn settings_are_texts() {
        let read =
            read("producer:\n  linger.ms: 5\n  acks: all\n  enable.idempotence: true").expect("it is right");
        let expected = [("acks", "all"), ("enable.idempotence", "true"), ("linger.ms", "5")];
        assert_eq!(read.producer, expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }

    #[test]
    fn properties_are_lines() {
        let text = "# acknowledged by all\nacks=all\n\nbatch.size = 1048576\n";
        let read = properties(text).expect("they are right");
        assert_eq!(read.len(), 2);
        assert_eq!(read["batch.size"], "1048576");
        assert!(properties("acks").is_err());
    }

    #[test]
    fn distances_are_counted() {
        for (a, b, letters) in [("", "abc", 3), ("kitten", "sitting", 3), ("flaw", "lawn", 2), ("a", "a", 0)]
        {
            assert_eq!(distance(a, b), letters, "{a} {b}");
        }
    }
}
