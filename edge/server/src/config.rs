//! From command line and file to settings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};

use metadata::settings::{BrokerSettings, ClusterAddress, PropertyError, StartError, parse_properties};

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
    match BrokerSettings::parse(given.iter().cloned()) {
        Err(StartError::Nowhere { towards, port }) => {
            let host = speaks_from(&towards).ok_or(StartError::Nowhere { towards, port })?.to_string();
            given.push(("cluster.listen".to_owned(), ClusterAddress { host, port }.to_string()));
            Ok(BrokerSettings::parse(given)?)
        }
        parsed => Ok(parsed?),
    }
}

/// The address from which this machine speaks with the first of these that it has a route to; one that only this machine
/// has only if there is no other.
fn speaks_from(others: &[ClusterAddress]) -> Option<IpAddr> {
    let known = others.iter().filter_map(|it| (&*it.host, it.port).to_socket_addrs().ok()).flatten();
    let mut own = known.filter_map(source_towards).peekable();
    let first = own.peek().copied();
    own.find(|address| !address.is_loopback()).or(first)
}

/// A datagram socket is told whom it would send to, and sends nothing.
fn source_towards(other: SocketAddr) -> Option<IpAddr> {
    let any = match other {
        SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(other).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_unspecified())
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

    #[test]
    fn who_joins_without_saying_where_it_is_is_where_it_speaks_from() {
        let args = |join: &str| ServerArgs {
            set: [("node.id", "4"), ("cluster.join", join)].map(|(n, v)| (n.to_owned(), v.to_owned())).into(),
            listen: Some("0.0.0.0:9095".to_owned()),
            ..ServerArgs::default()
        };
        let joins = settings(&args("127.0.0.1:19092")).unwrap();
        assert_eq!(joins.cluster_address().unwrap().to_string(), "127.0.0.1:19095");
        assert_eq!(joins.fixed["cluster.listen"], "127.0.0.1:19095", "whoever asks is told");
        // To everybody at once nobody is connected.
        let refused = settings(&args("255.255.255.255:19092")).unwrap_err();
        assert!(refused.to_string().contains("cluster.listen is not set"), "{refused}");
    }
}
