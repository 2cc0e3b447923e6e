//! `vltava config`: every setting there is, from the table the node itself reads.

use std::io::Write;

use anyhow::{Result, bail};
use metadata::settings::{self, Scope, Setting};
use serde_json::{Value, json};

use crate::output::wrapped;

/// Explanations are broken into lines of this length.
const LINE_CHARS: usize = 96;

/// Explain the settings: defaults, ranges and reasons
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Answer with JSON, for programs
    #[arg(long, global = true)]
    json: bool,
    /// Answer with Markdown, for documents
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Explain one setting
    Show {
        /// Its name, or a part of it
        name: String,
    },
}

const EXAMPLES: &str = "\
Examples:
  vltava config
  vltava config show retention.ms
  vltava config --json | jq '.[] | select(.scope == \"topic\") | .name'";

pub(crate) fn run(arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    match &arguments.command {
        Some(Command::Show { name }) => show(&found(name)?, arguments.json, out),
        None if arguments.markdown => Ok(out.write_all(settings::render_markdown().as_bytes())?),
        None if arguments.json => Ok(writeln!(out, "{:#}", all_json())?),
        None => list(out),
    }
}

/// The settings of a name; if there are none, those whose name holds it.
fn found(name: &str) -> Result<Vec<&'static Setting>> {
    let exact: Vec<&Setting> = settings::all().filter(|setting| setting.name == name).collect();
    if !exact.is_empty() {
        return Ok(exact);
    }
    let similar: Vec<&Setting> = settings::all().filter(|setting| setting.name.contains(name)).collect();
    if similar.is_empty() {
        bail!("there is no setting with {name:?} in its name; `vltava config` lists them all");
    }
    Ok(similar)
}

fn show(found: &[&Setting], as_json: bool, out: &mut dyn Write) -> Result<()> {
    if as_json {
        let values: Vec<Value> = found.iter().map(|setting| setting_json(setting)).collect();
        return Ok(writeln!(out, "{:#}", Value::Array(values))?);
    }
    found.iter().try_for_each(|setting| explain(setting, out))
}

fn list(out: &mut dyn Write) -> Result<()> {
    let tables = [
        ("Broker", settings::broker_settings()),
        ("Topic", settings::topic_settings()),
        ("Group", settings::group_settings()),
    ];
    for (title, settings) in tables {
        writeln!(out, "{title} settings\n")?;
        settings.iter().try_for_each(|setting| explain(setting, out))?;
    }
    Ok(())
}

fn explain(setting: &Setting, out: &mut dyn Write) -> Result<()> {
    let changes = if setting.is_read_only() { "read at start" } else { "changes while the node runs" };
    writeln!(out, "{} = {}", setting.name, shown_default(setting))?;
    writeln!(out, "    {} · {changes}", takes(setting))?;
    for text in [setting.documentation().as_str(), setting.reason] {
        for line in wrapped(text, LINE_CHARS) {
            writeln!(out, "    {line}")?;
        }
    }
    for (name, factor) in setting.synonyms {
        let unit = if *factor == 1 { String::new() } else { format!(" × {factor}") };
        writeln!(out, "    else the broker's {name}{unit}")?;
    }
    Ok(writeln!(out)?)
}

fn all_json() -> Value {
    settings::all().map(setting_json).collect()
}

fn setting_json(setting: &Setting) -> Value {
    json!({
        "name": setting.name,
        "scope": match setting.scope {
            Scope::Topic => "topic",
            Scope::Group => "group",
            Scope::BrokerStatic | Scope::BrokerDynamic => "broker",
        },
        "type": setting.kind.name(),
        "default": setting.default,
        "allowed": setting.range(),
        "read_only": setting.is_read_only(),
        "sensitive": setting.is_sensitive(),
        "documentation": setting.documentation(),
        "reason": setting.reason,
        "synonyms": setting.synonyms.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
    })
}

fn shown_default(setting: &Setting) -> String {
    match setting.default {
        None => "(not set)".to_owned(),
        Some("") => "(empty)".to_owned(),
        Some(default) => default.to_owned(),
    }
}

fn takes(setting: &Setting) -> String {
    format!("{}: {}", setting.kind.name(), setting.range())
}
