//! Reduces the message definitions in Kafka's jars to facts: no descriptions, no comments.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::names;
use super::ranges::Range;
use super::schema::{Field, Kind, Message, Struct, print};
use super::{jar, tree};

/// Where a jar has definitions, and where their facts go.
const FOLDERS: &[(&str, &str)] =
    &[("common/message/", "core/wire/schema"), ("common/metadata/", "core/metadata/schema")];
/// The release whose protocol we speak.
const RELEASE: &str = "4.4.0";
/// The jars of it that have definitions.
const ARTIFACTS: [&str; 2] = ["kafka-clients", "kafka-metadata"];

/// Writes the facts that are in these jars, or in those of the release named above.
pub(super) fn run(root: &Path, jars: &[&str]) -> Result<()> {
    let mut paths: Vec<PathBuf> = jars.iter().map(PathBuf::from).collect();
    if paths.is_empty() {
        for artifact in ARTIFACTS {
            paths.push(jar::from_maven(artifact, RELEASE)?);
        }
    }
    for path in paths {
        for (folder, schema) in FOLDERS {
            let texts = jar::texts(&path, folder)?;
            if !texts.is_empty() {
                write(&root.join(schema), &texts)?;
            }
        }
    }
    Ok(())
}

fn write(directory: &Path, texts: &[(String, String)]) -> Result<()> {
    // A request sorts before its response.
    let mut files = BTreeMap::<String, Vec<Message>>::new();
    for (name, text) in texts {
        if let Some(message) = message(text).with_context(|| name.clone())? {
            files.entry(names::snake(names::stem(&message.name))).or_default().push(message);
        }
    }
    fs::create_dir_all(directory)?;
    for stale in tree::read(directory, "txt")?.keys().filter(|stem| !files.contains_key(*stem)) {
        fs::remove_file(directory.join(format!("{stale}.txt")))?;
    }
    for (stem, messages) in files {
        fs::write(directory.join(format!("{stem}.txt")), print(&messages))?;
    }
    Ok(())
}

/// The facts of a definition; `None` for headers, which are written by hand, and for messages that
/// have no version any more.
fn message(text: &str) -> Result<Option<Message>> {
    let json: Value = serde_json::from_str(&without_comments(text))?;
    let kind = match string(&json, "type")? {
        "request" => Kind::Request,
        "response" => Kind::Response,
        "data" => Kind::Data,
        "metadata" => Kind::Record,
        "header" => return Ok(None),
        other => bail!("a message of type {other:?}"),
    };
    let versions = range(&json, "validVersions")?;
    if versions.is_empty() {
        return Ok(None);
    }
    let mut structs = Vec::new();
    for shared in list(&json, "commonStructs") {
        let name = string(shared, "name")?.to_owned();
        structs.push(Struct { name, versions: range(shared, "versions")?, fields: fields(shared)? });
    }
    let key = json.get("apiKey").and_then(Value::as_i64).map(i16::try_from).transpose()?;
    let listeners = list(&json, "listeners").filter_map(Value::as_str).map(str::to_owned).collect();
    Ok(Some(Message {
        kind,
        name: string(&json, "name")?.to_owned(),
        key,
        versions,
        last_unstable: truth(&json, "latestVersionUnstable"),
        flexible: range(&json, "flexibleVersions")?,
        listeners,
        fields: fields(&json)?,
        structs,
    }))
}

fn fields(json: &Value) -> Result<Vec<Field>> {
    list(json, "fields").map(field).collect()
}

fn field(json: &Value) -> Result<Field> {
    let name = string(json, "name")?;
    let of = string(json, "type")?;
    let (array, of) = of.strip_prefix("[]").map_or((false, of), |of| (true, of));
    let versions = range(json, "versions")?;
    let tag = json.get("tag").and_then(Value::as_u64).map(u32::try_from).transpose()?;
    if tag.is_some() && range(json, "taggedVersions")? != versions {
        bail!("{name} is tagged in some of its versions only");
    }
    let default = match json.get("default") {
        None => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(other) => Some(other.to_string()),
    };
    Ok(Field {
        name: name.to_owned(),
        of: of.to_owned(),
        array,
        versions,
        nullable: range(json, "nullableVersions").unwrap_or(Range::NONE),
        tag,
        default: default.filter(|text| !["", "0", "false"].contains(&text.as_str())),
        ignorable: truth(json, "ignorable"),
        fields: fields(json)?,
    })
}

fn string<'a>(json: &'a Value, key: &str) -> Result<&'a str> {
    json.get(key).and_then(Value::as_str).with_context(|| format!("no {key}"))
}

fn range(json: &Value, key: &str) -> Result<Range> {
    string(json, key)?.parse()
}

fn truth(json: &Value, key: &str) -> bool {
    json.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn list<'a>(json: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    json.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// JSON has no comments, but these files have: from `//` outside a string to the end of the line.
fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    for line in text.lines() {
        let (mut quoted, mut escaped, mut end) = (false, false, line.len());
        for (at, c) in line.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' if quoted => escaped = true,
                '"' => quoted = !quoted,
                '/' if !quoted && line[at..].starts_with("//") => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        kept.push_str(&line[..end]);
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_end_with_their_line_and_are_not_in_strings() {
        let text = "// first\n{\"a\": \"b // c\\\" // d\", // e\n\"f\": 1}";
        assert_eq!(without_comments(text), "\n{\"a\": \"b // c\\\" // d\", \n\"f\": 1}\n");
    }
}
