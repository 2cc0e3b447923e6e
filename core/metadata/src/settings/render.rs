//! The table of settings as a document.

use std::fmt::Write;

use super::setting::{Scope, Setting};
use super::{broker_settings, group_settings, topic_settings};

/// All settings as Markdown: name, type, default, range, what it does and why it is as it is.
pub fn render_markdown() -> String {
    let mut out = String::from(
        "# Settings\n\nGenerated from the table in `core/metadata`. Names are Kafka's, except where Kafka has no such setting.\n",
    );
    section(
        &mut out,
        "Broker",
        "In the file given by `--config`, or as `--set name=value`, which wins. The file has a line `name=value` for each, as Kafka's `server.properties`, or is TOML if its name ends in `.toml`: `[log] dirs = [\"a\", \"b\"]` is `log.dirs=a,b`. What changes *live* is changed with Kafka's `kafka-configs.sh --alter --entity-type brokers --entity-name ID` (or `--entity-default`) `--add-config name=value`. What is logged the environment variable `VLTAVA_LOG` says: a level, such as `debug`, or `target=level` pairs.",
        broker_settings(),
    );
    section(
        &mut out,
        "Topic",
        "With `vltava topic create --config name=value` or `vltava topic alter`; what a topic does not say, its broker does.",
        topic_settings(),
    );
    section(
        &mut out,
        "Group",
        "Of groups that speak the new protocol (KIP-848): with Kafka's `kafka-configs.sh --alter --group name --add-config name=value`; what a group does not say, its coordinator does, and keeps it within the bounds of its own settings.",
        group_settings(),
    );
    out
}

fn section(out: &mut String, title: &str, how: &str, settings: &[Setting]) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\n## {title}\n\n{how}\n\n");
    out.push_str("| Setting | Type | Default | Allowed | Changes | What it does, and why |\n");
    out.push_str("|---|---|---|---|---|---|\n");
    for setting in settings {
        let default = setting.default.map_or("*not set*".to_owned(), |default| match default {
            "" => "*empty*".to_owned(),
            default => format!("`{default}`"),
        });
        let _ = writeln!(
            out,
            "| `{}` | {} | {default} | {} | {} | {} *{}* |",
            setting.name,
            setting.kind.name(),
            cell(&setting.range()),
            changes(setting.scope),
            cell(&setting.documentation()),
            cell(setting.reason),
        );
    }
}

fn changes(scope: Scope) -> &'static str {
    match scope {
        Scope::Topic | Scope::Group | Scope::BrokerDynamic => "live",
        Scope::BrokerStatic => "at start",
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
