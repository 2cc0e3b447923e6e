//! Reduces the message definitions in Kafka's jars to facts: no descriptions, no comments.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::names;
use super::ranges::Range;
use super::schema::{Field, Kind, Message, Struct, print};
use super::{jar, tree};

/// Which jar has definitions, in which folder, and where their facts go.
const SOURCES: &[(&str, &str, &str)] = &[
    ("kafka-clients", "common/message/", "core/wire/schema"),
    ("kafka-metadata", "common/metadata/", "core/metadata/schema"),
    ("kafka-group-coordinator", "common/message/", "core/coordinator/schema"),
];
/// The release whose protocol we speak.
const RELEASE: &str = "4.4.0";

/// Fields of ours in messages of Kafka's, which its tools pass over: the tags are far above those that Kafka gives
/// out in order.
const OURS: &[(&str, &str)] = &[(
    "PartitionRecord",
    r#"{"name": "UncleanEpoch", "type": "int32", "versions": "0+", "taggedVersions": "0+", "tag": 10000, "default": "-1"}"#,
)];

/// Writes the facts that are in these jars, or in those of the release named above.
pub(super) fn run(root: &Path, jars: &[&str]) -> Result<()> {
    if jars.is_empty() {
        return SOURCES.iter().try_for_each(|(artifact, folder, schema)| {
            take(root, &jar::from_maven(artifact, RELEASE)?, folder, schema)
        });
    }
    jars.iter().map(Path::new).try_for_each(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // The version follows: `kafka-clients-4.4.0.jar`.
        let is_of = |artifact: &str| {
            let rest = name.strip_prefix(artifact).and_then(|rest| rest.strip_prefix('-'));
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let Some((_, folder, schema)) = SOURCES.iter().find(|(artifact, ..)| is_of(artifact)) else {
            bail!("{} is none of the jars that have definitions", path.display());
        };
        take(root, path, folder, schema)
    })
}

fn take(root: &Path, jar: &Path, folder: &str, schema: &str) -> Result<()> {
    let texts = jar::texts(jar, folder)?;
    ensure!(!texts.is_empty(), "{} has no definitions in {folder}", jar.display());
    write(&root.join(schema), &texts)
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
        "coordinator-key" => Kind::Key,
        "coordinator-value" => Kind::Value,
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
    let name = string(&json, "name")?;
    let mut fields = fields(&json)?;
    for (_, ours) in OURS.iter().filter(|(of, _)| *of == name) {
        fields.push(field(&serde_json::from_str(ours)?)?);
    }
    let key = json.get("apiKey").and_then(Value::as_i64).map(i16::try_from).transpose()?;
    let listeners = list(&json, "listeners").filter_map(Value::as_str).map(str::to_owned).collect();
    Ok(Some(Message {
        kind,
        name: name.to_owned(),
        key,
        versions,
        last_unstable: truth(&json, "latestVersionUnstable"),
        flexible: range(&json, "flexibleVersions")?,
        listeners,
        fields,
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
    // A tagged field may leave it out.
    let versions = range(json, "versions").or_else(|_| range(json, "taggedVersions"))?;
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
