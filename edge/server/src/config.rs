//! From command line and file to settings.

use std::path::{Path, PathBuf};

use metadata::settings::{BrokerSettings, PropertyError, StartError, parse_properties};

use crate::ServerArgs;

/// Why the settings cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the settings file {path}: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line of it is not a property.
    #[error("{path}: {source}", path = path.display())]
    Property {
        /// The file.
        path: PathBuf,
        /// Which line, and why.
        source: PropertyError,
    },
    /// It is not TOML.
    #[error("{path}: {message}", path = path.display())]
    Toml {
        /// The file.
        path: PathBuf,
        /// Where, and why.
        message: String,
    },
    /// A setting is unknown or does not fit.
    #[error(transparent)]
    Setting(#[from] StartError),
}

/// What was set, the file's first, so that the command line wins.
pub(crate) fn settings(args: &ServerArgs) -> Result<BrokerSettings, ConfigError> {
    let mut given = match &args.config {
        Some(path) => read(path)?,
        None => Vec::new(),
    };
    given.extend(args.set.iter().cloned());
    if !args.data_dirs.is_empty() {
        let dirs: Vec<String> = args.data_dirs.iter().map(|dir| dir.display().to_string()).collect();
        given.push(("log.dirs".to_owned(), dirs.join(",")));
    }
    if let Some(listen) = &args.listen {
        let listener = if listen.contains("://") { listen.clone() } else { format!("PLAINTEXT://{listen}") };
        given.push(("listeners".to_owned(), listener));
    }
    if let Some(listen) = &args.http_listen {
        given.push(("http.listen".to_owned(), listen.clone()));
    }
    Ok(BrokerSettings::parse(given)?)
}

/// A `.toml` file, or else one of Kafka's `.properties`.
fn read(path: &Path) -> Result<Vec<(String, String)>, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    if path.extension().is_none_or(|extension| extension != "toml") {
        return parse_properties(&text)
            .map_err(|source| ConfigError::Property { path: path.to_owned(), source });
    }
    let wrong = |message: String| ConfigError::Toml { path: path.to_owned(), message };
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    let mut settings = Vec::new();
    flatten("", &table, &mut settings).map_err(wrong)?;
    Ok(settings)
}

/// `[log] dirs = ["a", "b"]` is `log.dirs = a,b`.
fn flatten(prefix: &str, table: &toml::Table, settings: &mut Vec<(String, String)>) -> Result<(), String> {
    for (key, value) in table {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&name, inner, settings)?,
            toml::Value::Array(items) => {
                let texts: Result<Vec<String>, String> =
                    items.iter().map(|item| scalar(&name, item)).collect();
                settings.push((name, texts?.join(",")));
            }
            _ => {
                let text = scalar(&name, value)?;
                settings.push((name, text));
            }
        }
    }
    Ok(())
}

fn scalar(name: &str, value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        toml::Value::Boolean(on) => Ok(on.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
            Err(format!("{name}: a setting is a text, a number, true or false, or a list of these"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, name: &str) -> Vec<(String, String)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        read(&path).unwrap()
    }

    #[test]
    fn a_toml_file_may_nest_what_a_property_spells_out() {
        let nested =
            of("node.id = 3\n[log]\ndirs = [\"a\", \"b\"]\n[auto.create.topics]\nenable = false\n", "v.toml");
        let plain = of("node.id=3\nlog.dirs=a,b\nauto.create.topics.enable=false\n", "v.properties");
        let sorted = |mut settings: Vec<(String, String)>| {
            settings.sort();
            settings
        };
        assert_eq!(sorted(nested), sorted(plain));
    }

    #[test]
    fn the_command_line_wins_over_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.properties");
        std::fs::write(&path, "node.id=3\nnum.partitions=2\n").unwrap();
        let set = vec![("num.partitions".to_owned(), "5".to_owned())];
        let args = ServerArgs { config: Some(path), set, ..ServerArgs::default() };
        let settings = settings(&args).unwrap();
        assert_eq!((settings.node_id.0, settings.partitions_default), (3, 5));
    }
}
