//! The facts of a message, and the text form in which they are kept in the tree.
//!
//! ```text
//!   request MetadataRequest key 3 versions 0-13 flexible 9+ listeners broker
//!     Topics []MetadataRequestTopic 0+ nullable 1+
//!       TopicId uuid 10+ ignorable
//!       Name string 0+ nullable 10+
//!     AllowAutoTopicCreation bool 4+ default true
//! ```
//!
//! One line per field: name, type, versions, and what else is true of it; the fields of a struct are
//! indented under the first field of its type. A struct that several fields share stands by itself
//! under the message, as `struct NAME VERSIONS`.

use std::fmt::Write;

use anyhow::{Context, Result, anyhow, bail, ensure};

use super::ranges::Range;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Response,
    /// Neither: the content of a record or of a field.
    Data,
    /// A record of the metadata log.
    Record,
    /// The key of a record of a coordinator's log.
    Key,
    /// The value of a record of a coordinator's log.
    Value,
}

const KINDS: &[(&str, Kind)] = &[
    ("request", Kind::Request),
    ("response", Kind::Response),
    ("data", Kind::Data),
    ("record", Kind::Record),
    ("key", Kind::Key),
    ("value", Kind::Value),
];

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) key: Option<i16>,
    pub(crate) versions: Range,
    pub(crate) last_unstable: bool,
    pub(crate) flexible: Range,
    pub(crate) listeners: Vec<String>,
    pub(crate) fields: Vec<Field>,
    pub(crate) structs: Vec<Struct>,
}

/// A struct that several fields share.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) versions: Range,
    pub(crate) fields: Vec<Field>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// Kafka's name of the type, without the brackets of an array.
    pub(crate) of: String,
    pub(crate) array: bool,
    pub(crate) versions: Range,
    pub(crate) nullable: Range,
    pub(crate) tag: Option<u32>,
    pub(crate) default: Option<String>,
    pub(crate) ignorable: bool,
    /// The fields of the struct, if it is defined here.
    pub(crate) fields: Vec<Field>,
}

impl Field {
    /// Whether it is a struct or an array of structs.
    pub(crate) fn is_struct(&self) -> bool {
        self.of.starts_with(|c: char| c.is_ascii_uppercase())
    }
}

/// The text form of messages that belong together.
pub(crate) fn print(messages: &[Message]) -> String {
    let mut text = String::new();
    for (at, message) in messages.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        let kind = KINDS.iter().find(|(_, kind)| *kind == message.kind).map_or("", |(word, _)| word);
        let _ = write!(text, "{kind} {}", message.name);
        if let Some(key) = message.key {
            let _ = write!(text, " key {key}");
        }
        let _ = write!(text, " versions {}", message.versions);
        if message.last_unstable {
            text.push_str(" last-unstable");
        }
        let _ = write!(text, " flexible {}", message.flexible);
        if !message.listeners.is_empty() {
            let _ = write!(text, " listeners {}", message.listeners.join(","));
        }
        text.push('\n');
        print_fields(&mut text, &message.fields, 1);
        for shared in &message.structs {
            let _ = writeln!(text, "struct {} {}", shared.name, shared.versions);
            print_fields(&mut text, &shared.fields, 1);
        }
    }
    text
}

fn print_fields(text: &mut String, fields: &[Field], depth: usize) {
    for field in fields {
        let brackets = if field.array { "[]" } else { "" };
        let indent = "  ".repeat(depth);
        let _ = write!(text, "{indent}{} {brackets}{} {}", field.name, field.of, field.versions);
        if !field.nullable.is_empty() {
            let _ = write!(text, " nullable {}", field.nullable);
        }
        if let Some(tag) = field.tag {
            let _ = write!(text, " tag {tag}");
        }
        if let Some(default) = &field.default {
            let _ = write!(text, " default {default}");
        }
        if field.ignorable {
            text.push_str(" ignorable");
        }
        text.push('\n');
        print_fields(text, &field.fields, depth + 1);
    }
}

/// Reads the text form.
pub(crate) fn parse(text: &str) -> Result<Vec<Message>> {
    let mut messages = Vec::<Message>::new();
    let mut lines = text.lines().filter(|line| !line.trim().is_empty()).peekable();
    while let Some(line) = lines.next() {
        let mut words = line.split(' ');
        let first = words.next().unwrap_or_default();
        let mut fields = Vec::new();
        let indented = |line: &&str| line.starts_with(' ');
        let mut body = Vec::new();
        while let Some(line) = lines.next_if(indented) {
            body.push(line);
        }
        let mut at = 0;
        parse_fields(&body, &mut at, 2, &mut fields)?;
        if first == "struct" {
            let name = words.next().context("a struct without a name")?.to_owned();
            let versions = words.next().context("a struct without versions")?.parse()?;
            let message = messages.last_mut().context("a struct before any message")?;
            message.structs.push(Struct { name, versions, fields });
        } else {
            messages.push(parse_message(line, fields)?);
        }
    }
    Ok(messages)
}

fn parse_message(line: &str, fields: Vec<Field>) -> Result<Message> {
    let mut words = line.split(' ');
    let first = words.next().unwrap_or_default();
    let (_, kind) = KINDS.iter().find(|(word, _)| *word == first).context(format!("what is {first:?}?"))?;
    let name = words.next().context("a message without a name")?.to_owned();
    let mut message = Message {
        kind: *kind,
        name,
        key: None,
        versions: Range::NONE,
        last_unstable: false,
        flexible: Range::NONE,
        listeners: Vec::new(),
        fields,
        structs: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| anyhow!("{word} without a value"));
        match word {
            "key" => message.key = Some(value()?.parse()?),
            "versions" => message.versions = value()?.parse()?,
            "last-unstable" => message.last_unstable = true,
            "flexible" => message.flexible = value()?.parse()?,
            "listeners" => message.listeners = value()?.split(',').map(str::to_owned).collect(),
            _ => bail!("what is {word:?} in {line:?}?"),
        }
    }
    Ok(message)
}

/// Reads the fields from `lines[*at]` on that are indented by `indent`, and what is under them.
fn parse_fields(lines: &[&str], at: &mut usize, indent: usize, fields: &mut Vec<Field>) -> Result<()> {
    while let Some(line) = lines.get(*at) {
        let depth = line.len() - line.trim_start().len();
        if depth < indent {
            break;
        }
        if depth > indent {
            let parent = fields.last_mut().with_context(|| format!("nothing is above {line:?}"))?;
            ensure!(parent.is_struct(), "{} cannot have fields", parent.name);
            parse_fields(lines, at, indent + 2, &mut parent.fields)?;
            continue;
        }
        fields.push(parse_field(line.trim())?);
        *at += 1;
    }
    Ok(())
}

fn parse_field(line: &str) -> Result<Field> {
    let mut words = line.split(' ');
    let mut next = |what: &str| words.next().ok_or_else(|| anyhow!("{line:?} has no {what}"));
    let name = next("name")?.to_owned();
    let of = next("type")?;
    let versions = next("versions")?.parse()?;
    let (array, of) = of.strip_prefix("[]").map_or((false, of), |of| (true, of));
    let mut field = Field {
        name,
        of: of.to_owned(),
        array,
        versions,
        nullable: Range::NONE,
        tag: None,
        default: None,
        ignorable: false,
        fields: Vec::new(),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| anyhow!("{word} without a value"));
        match word {
            "nullable" => field.nullable = value()?.parse()?,
            "tag" => field.tag = Some(value()?.parse()?),
            "default" => field.default = Some(value()?.to_owned()),
            "ignorable" => field.ignorable = true,
            _ => bail!("what is {word:?} in {line:?}?"),
        }
    }
    Ok(field)
}
