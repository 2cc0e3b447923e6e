//! Where a node listens, as `listeners` writes it.

use std::fmt;

/// One listener: `PLAINTEXT://127.0.0.1:9092`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// Its name, in upper case.
    pub name: String,
    /// Where to listen, or what to tell clients; empty is "on every address".
    pub host: String,
    /// The port; 0 lets the system choose.
    pub port: u16,
    /// How the connection is protected.
    pub protocol: SecurityProtocol,
}

/// How a connection is protected; the numbers are Kafka's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityProtocol {
    /// Not at all.
    Plaintext,
    /// By TLS.
    Ssl,
    /// By a login, in the clear.
    SaslPlaintext,
    /// By a login, over TLS.
    SaslSsl,
}

impl SecurityProtocol {
    const ALL: [(Self, &'static str, i16); 4] = [
        (Self::Plaintext, "PLAINTEXT", 0),
        (Self::Ssl, "SSL", 1),
        (Self::SaslPlaintext, "SASL_PLAINTEXT", 2),
        (Self::SaslSsl, "SASL_SSL", 3),
    ];

    /// Kafka's name for it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(known, ..)| *known == self).map_or("", |(_, name, _)| name)
    }

    /// Kafka's number for it.
    pub fn code(self) -> i16 {
        Self::ALL.iter().find(|(known, ..)| *known == self).map_or(0, |(.., code)| *code)
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(protocol, ..)| *protocol)
    }
}

impl Listener {
    /// Reads a list of listeners; no two may have the same name, nor, unless it is 0, the same port.
    pub(super) fn parse_all(parts: &[String]) -> Result<Vec<Self>, String> {
        if parts.is_empty() {
            return Err("at least one listener is needed, as PLAINTEXT://127.0.0.1:9092".into());
        }
        let mut listeners: Vec<Self> = Vec::new();
        for part in parts {
            let listener = Self::parse(part)?;
            if listeners.iter().any(|other| other.name == listener.name) {
                return Err(format!("Each listener must have a different name: {}", listener.name));
            }
            if listener.port != 0 && listeners.iter().any(|other| other.conflicts(&listener)) {
                return Err(format!("Each listener must have a different port: {}", listener.port));
            }
            listeners.push(listener);
        }
        Ok(listeners)
    }

    fn conflicts(&self, other: &Self) -> bool {
        self.port == other.port && self.host == other.host
    }

    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text} is not NAME://host:port, as PLAINTEXT://127.0.0.1:9092");
        let (name, address) = text.split_once("://").ok_or_else(wrong)?;
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(wrong)?,
            None if host.contains(':') => return Err(wrong()),
            None => host,
        };
        let port = port.trim().parse().map_err(|_| wrong())?;
        let name = name.trim().to_ascii_uppercase();
        let protocol = SecurityProtocol::named(&name)
            .ok_or_else(|| format!("{name} is no security protocol: expected PLAINTEXT"))?;
        if protocol != SecurityProtocol::Plaintext {
            return Err(format!("listeners of {name} are not supported: expected PLAINTEXT"));
        }
        if !host.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'-' | b'_' | b':' | b'%')) {
            return Err(wrong());
        }
        Ok(Self { name, host: host.to_owned(), port, protocol })
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "{}://[{}]:{}", self.name, self.host, self.port)
        } else {
            write!(f, "{}://{}:{}", self.name, self.host, self.port)
        }
    }
}
