//! What is known of one setting, and how its value is read.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The setting that says how many replicas an acknowledged record has. All nodes must mean the same by it: who
/// may lead depends on it (KIP-966).
pub const INSYNC_MIN: &str = "min.insync.replicas";

/// One setting.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// Its name; Kafka's where Kafka has the setting.
    pub name: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// What it is when nobody sets it; `None` is "not set", which [`Setting::reason`] explains.
    pub default: Option<&'static str>,
    /// Which values are taken.
    pub allowed: Allowed,
    /// What it does, in a sentence or two.
    pub doc: &'static str,
    /// Why the default is what it is, or who turns it and when.
    pub reason: &'static str,
    /// Whose it is and when it can change.
    pub scope: Scope,
    /// For a topic's setting: the broker's settings that give its default, first one first, each with
    /// the factor from its unit to this one's.
    pub synonyms: &'static [(&'static str, i64)],
}

/// The type of a value; the names are Kafka's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// Text.
    String,
    /// A whole number of 32 bits.
    Int,
    /// A whole number of 16 bits.
    Short,
    /// A whole number of 64 bits.
    Long,
    /// A number with a fraction.
    Double,
    /// Texts between commas.
    List,
    /// The name of a class, or of what stands for it.
    Class,
    /// Text that nobody may read back.
    Password,
}

/// Which values are taken, beyond those of the type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Allowed {
    /// All.
    Any,
    /// Numbers from here.
    AtLeast(i64),
    /// Numbers from here, and those below 0, which all say that there is no limit.
    LimitFrom(i64),
    /// Numbers from here to there, both included.
    Between(i64, i64),
    /// Numbers from here to there, both included, or this one besides.
    BetweenOr(i64, i64, i64),
    /// Fractions from here to there, both included.
    Ratio(f64, f64),
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// Any of these texts.
    ListOf(&'static [&'static str]),
    /// `partition:broker` pairs, or `*` alone.
    ThrottledReplicas,
    /// `NAME://host:port` each.
    Listeners,
    /// At least one, none of them empty.
    NotEmpty,
    /// Of this form, which whoever reads it checks.
    Form(&'static str),
}

/// Whose setting, and when it can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A topic's; changes while the node runs.
    Topic,
    /// A group's; changes while the node runs.
    Group,
    /// A broker's; read once, at start.
    BrokerStatic,
    /// A broker's; changes while the node runs.
    BrokerDynamic,
}

/// A value of a setting, read.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Of [`Kind::Boolean`].
    Boolean(bool),
    /// Of [`Kind::Int`], [`Kind::Short`] and [`Kind::Long`].
    Number(i64),
    /// Of [`Kind::Double`].
    Double(f64),
    /// Of [`Kind::String`], [`Kind::Class`] and [`Kind::Password`].
    Text(String),
    /// Of [`Kind::List`].
    List(Vec<String>),
}

impl Value {
    /// The number of a double.
    pub(super) fn double(&self) -> Option<f64> {
        if let Self::Double(number) = self { Some(*number) } else { None }
    }
}

/// Why a value was not taken; the words are Kafka's where Kafka has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum SettingError {
    /// No topic setting is called that.
    #[error("Unknown topic config name: {0}")]
    UnknownTopicSetting(String),
    /// No group setting is called that.
    #[error("Unknown group config name: {0}")]
    UnknownGroupSetting(String),
    /// No broker setting is called that.
    #[error("Unknown broker config name: {0}")]
    UnknownBrokerSetting(String),
    /// The value does not fit.
    #[error("Invalid value {value} for configuration {name}: {why}")]
    Invalid {
        /// The setting.
        name: String,
        /// What was given; hidden when it is a secret.
        value: String,
        /// What would have been allowed.
        why: String,
    },
    /// Values that fit alone do not fit together.
    #[error("{0}")]
    Conflict(String),
    /// A topic in which the cluster keeps its books is always set so.
    #[error("{name} of {topic} is always {value}: with anything else, what is kept there could be lost")]
    Kept {
        /// The topic.
        topic: String,
        /// The setting.
        name: String,
        /// What it always is.
        value: String,
    },
    /// It is read at start and never again.
    #[error("Cannot update these configs dynamically: [{0}]")]
    ReadOnly(String),
}

impl Setting {
    /// Reads a value, and checks it.
    pub fn parse(&self, text: &str) -> Result<Value, SettingError> {
        self.kind.parse(text).and_then(|value| self.allowed.check(&value).map(|()| value)).map_err(|why| {
            let value =
                if self.is_sensitive() { "[hidden]".to_owned() } else { base::excerpt(text, EXCERPT_CHARS) };
            SettingError::Invalid { name: self.name.to_owned(), value, why }
        })
    }

    /// What it does, for people: a broker's setting that gives a topic's default says so.
    pub fn documentation(&self) -> String {
        if !self.doc.is_empty() {
            return self.doc.to_owned();
        }
        let of = super::topic_settings().iter().find(|topic| topic.synonyms.iter().any(|s| s.0 == self.name));
        of.map(|topic| format!("The default of the topic setting {}: {}", topic.name, topic.doc))
            .unwrap_or_default()
    }

    /// Which values are taken, for people: never empty.
    pub fn range(&self) -> String {
        match (self.allowed, self.kind) {
            (Allowed::Any, Kind::Boolean) => "true or false".to_owned(),
            (Allowed::Any, Kind::Int | Kind::Short | Kind::Long) => "any whole number".to_owned(),
            (Allowed::Any, Kind::Double) => "any number".to_owned(),
            (Allowed::Any, Kind::String | Kind::List | Kind::Class | Kind::Password) => "any text".to_owned(),
            (allowed, _) => allowed.to_string(),
        }
    }

    /// Whether its value is a secret.
    pub fn is_sensitive(&self) -> bool {
        self.kind == Kind::Password
    }

    /// Whether it is read once, at start.
    pub fn is_read_only(&self) -> bool {
        self.scope == Scope::BrokerStatic
    }
}

/// Values come from anyone: an error repeats only the beginning of a long one.
const EXCERPT_CHARS: usize = 128;

impl Kind {
    /// Kafka's number for it in `DescribeConfigs`.
    pub const fn code(self) -> i8 {
        match self {
            Self::Boolean => 1,
            Self::String => 2,
            Self::Int => 3,
            Self::Short => 4,
            Self::Long => 5,
            Self::Double => 6,
            Self::List => 7,
            Self::Class => 8,
            Self::Password => 9,
        }
    }

    /// Kafka's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Int => "int",
            Self::Short => "short",
            Self::Long => "long",
            Self::Double => "double",
            Self::List => "list",
            Self::Class => "class",
            Self::Password => "password",
        }
    }

    fn parse(self, text: &str) -> Result<Value, String> {
        let text = text.trim();
        match self {
            Self::Boolean if text.eq_ignore_ascii_case("true") => Ok(Value::Boolean(true)),
            Self::Boolean if text.eq_ignore_ascii_case("false") => Ok(Value::Boolean(false)),
            Self::Boolean => Err("Expected value to be either true or false".into()),
            Self::Int => whole::<i32>(text, "INT").map(|n| Value::Number(n.into())),
            Self::Short => whole::<i16>(text, "SHORT").map(|n| Value::Number(n.into())),
            Self::Long => whole::<i64>(text, "LONG").map(Value::Number),
            Self::Double => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Value::Double(number)),
                _ => Err("Not a number of type DOUBLE".into()),
            },
            Self::List => Ok(Value::List(split_list(text))),
            Self::String | Self::Class | Self::Password => Ok(Value::Text(text.into())),
        }
    }
}

fn whole<N: std::str::FromStr>(text: &str, kind: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("Not a number of type {kind}"))
}

/// The parts of a list; an empty text has none.
pub(super) fn split_list(text: &str) -> Vec<String> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    text.split(',').map(|part| part.trim().to_owned()).collect()
}

impl Allowed {
    /// Whether a value is taken; if not, what would have been.
    fn check(&self, value: &Value) -> Result<(), String> {
        match (self, value) {
            (Self::AtLeast(low), Value::Number(n)) if n < low => Err(format!("Value must be at least {low}")),
            (Self::LimitFrom(low), Value::Number(n)) if (0..*low).contains(n) => {
                Err(format!("Value must be at least {low}, or below 0 for no limit"))
            }
            (Self::Between(low, high), Value::Number(n)) => between(*n, *low, *high),
            (Self::BetweenOr(low, high, besides), Value::Number(n)) if n != besides => {
                between(*n, *low, *high).map_err(|why| format!("{why}, or {besides}"))
            }
            (Self::Ratio(low, _), Value::Double(n)) if n < low => {
                Err(format!("Value must be at least {low}"))
            }
            (Self::Ratio(_, high), Value::Double(n)) if n > high => {
                Err(format!("Value must be no more than {high}"))
            }
            (Self::OneOf(words), Value::Text(text)) if !words.contains(&text.as_str()) => {
                Err(format!("String must be one of: {}", words.join(", ")))
            }
            (Self::ListOf(words), Value::List(list)) => list_of(words, list),
            (Self::ThrottledReplicas, Value::List(list)) => throttled_replicas(list),
            (Self::Listeners, Value::List(list)) => super::listener::Listener::parse_all(list).map(|_| ()),
            (Self::NotEmpty, Value::List(list)) if list.is_empty() || list.iter().any(String::is_empty) => {
                Err("Configuration cannot be empty".into())
            }
            (Self::NotEmpty, Value::Text(text)) if text.is_empty() => Err("String must be non-empty".into()),
            _ => Ok(()),
        }
    }
}

fn between(n: i64, low: i64, high: i64) -> Result<(), String> {
    if n < low {
        return Err(format!("Value must be at least {low}"));
    }
    if n > high {
        return Err(format!("Value must be no more than {high}"));
    }
    Ok(())
}

fn list_of(words: &[&str], list: &[String]) -> Result<(), String> {
    // The same word twice says no more than once: Kafka takes it, so old scripts may have it.
    if list.iter().all(|part| words.contains(&part.as_str())) {
        return Ok(());
    }
    Err(format!("String must be one of: {}", words.join(", ")))
}

fn throttled_replicas(list: &[String]) -> Result<(), String> {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let is_pair =
        |part: &String| part.split_once(':').is_some_and(|(p, b)| is_number(p.trim()) && is_number(b.trim()));
    if matches!(list, [all] if all == "*") || list.iter().all(is_pair) {
        return Ok(());
    }
    Err("Must be the literal '*' or a list of replicas in the following format: \
         [partitionId]:[brokerId],[partitionId]:[brokerId],..."
        .into())
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => Ok(()),
            Self::AtLeast(low) => write!(f, "{low} or more"),
            Self::LimitFrom(low) => write!(f, "{low} or more, or below 0 for no limit"),
            Self::Between(low, high) => write!(f, "{low} to {high}"),
            Self::BetweenOr(low, high, besides) => write!(f, "{low} to {high}, or {besides}"),
            Self::Ratio(low, high) => write!(f, "{low} to {high}"),
            Self::OneOf(words) => write!(f, "one of {}", words.join(", ")),
            Self::ListOf(words) => write!(f, "any of {}", words.join(", ")),
            Self::ThrottledReplicas => f.write_str("partition:broker pairs, or *"),
            Self::Listeners => f.write_str("NAME://host:port each"),
            Self::NotEmpty => f.write_str("not empty"),
            Self::Form(form) => f.write_str(form),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(on) => on.fmt(f),
            Self::Number(n) => n.fmt(f),
            Self::Double(n) => n.fmt(f),
            Self::Text(text) => f.write_str(text),
            Self::List(list) => f.write_str(&list.join(",")),
        }
    }
}
