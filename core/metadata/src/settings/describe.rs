//! Where a value comes from: what `DescribeConfigs` answers.

use super::kept::with_kept;
use super::setting::{Allowed, INSYNC_MIN, Setting};
use super::{broker_settings, find_broker, group_settings, topic_settings};
use crate::parts::ConfigMap;

/// What was set for a broker, from the nearest to the farthest.
#[derive(Debug, Clone, Copy)]
pub struct Layers<'a> {
    /// For this broker, while it runs.
    pub broker: &'a ConfigMap,
    /// For every broker, while it runs.
    pub default_broker: &'a ConfigMap,
    /// In its file and on its command line, at start.
    pub fixed: &'a ConfigMap,
}

/// Which layer a value comes from; the numbers are Kafka's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Set for the topic.
    Topic = 1,
    /// Set for the broker, while it runs.
    Broker = 2,
    /// Set for every broker, while it runs.
    DefaultBroker = 3,
    /// Set in the broker's file or on its command line.
    Static = 4,
    /// Set by nobody.
    Default = 5,
    /// Set for the group.
    Group = 8,
}

impl Source {
    /// Kafka's number for it.
    pub const fn code(self) -> i8 {
        self as i8
    }
}

/// A value that a setting has, or would have if what comes before it were taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synonym {
    /// The setting that has it: the same one or one it falls back on.
    pub name: &'static str,
    /// As it was written.
    pub value: String,
    /// Which layer it is from.
    pub source: Source,
}

/// A setting with its value and where that is from.
#[derive(Debug, Clone)]
pub struct Described {
    /// The setting.
    pub setting: &'static Setting,
    /// Its value, in its own unit; `None` when there is none.
    pub value: Option<String>,
    /// Where the value is from.
    pub source: Source,
    /// All the values it could have, the one it has first.
    pub synonyms: Vec<Synonym>,
}

/// A topic's settings, by name: those of a topic that is called so.
pub fn describe_topic<'a>(
    topic: &str,
    overrides: &'a ConfigMap,
    layers: Layers<'a>,
) -> impl Iterator<Item = Described> + 'a {
    let overrides = with_kept(topic, overrides);
    topic_settings().iter().map(move |setting| {
        let own = overrides.get(setting.name).map(|value| Synonym {
            name: setting.name,
            value: value.clone(),
            source: Source::Topic,
        });
        let synonyms: Vec<Synonym> = own.into_iter().chain(layers.of_topic(setting)).collect();
        let source = synonyms.first().map_or(Source::Default, |first| first.source);
        let value = resolve(setting, &overrides, layers);
        Described { setting, value: Some(value), source, synonyms }
    })
}

/// A group's settings, by name.
pub fn describe_group<'a>(
    overrides: &'a ConfigMap,
    layers: Layers<'a>,
) -> impl Iterator<Item = Described> + 'a {
    group_settings().iter().map(move |setting| {
        let own = overrides.get(setting.name).map(|value| Synonym {
            name: setting.name,
            value: value.clone(),
            source: Source::Group,
        });
        let synonyms: Vec<Synonym> = own.into_iter().chain(layers.of_topic(setting)).collect();
        let source = synonyms.first().map_or(Source::Default, |first| first.source);
        let value = resolve(setting, overrides, layers);
        Described { setting, value: Some(value), source, synonyms }
    })
}

/// A broker's settings, by name.
pub fn describe_broker(layers: Layers<'_>) -> impl Iterator<Item = Described> + '_ {
    broker_settings().iter().map(move |setting| {
        let synonyms: Vec<Synonym> =
            chain(setting.name).into_iter().flat_map(|name| layers.of_broker(name)).collect();
        let first = synonyms.iter().find(|synonym| synonym.name == setting.name);
        let source = first.map_or(Source::Default, |first| first.source);
        Described { setting, value: first.map(|first| first.value.clone()), source, synonyms }
    })
}

/// What a topic's setting is, in the end and in its own unit. What is set and does not parse is passed
/// over: it was checked when it was set, by a node that may have known more.
pub(super) fn resolve(setting: &Setting, overrides: &ConfigMap, layers: Layers<'_>) -> String {
    if let Some(value) = overrides.get(setting.name).filter(|value| setting.parse(value).is_ok()) {
        return value.clone();
    }
    for &(name, factor) in setting.synonyms {
        let fixed = layers.fixed.get(name).filter(|_| is_each_nodes_own(name));
        let values = [layers.broker.get(name), layers.default_broker.get(name), fixed];
        let scaled = values.into_iter().flatten().find_map(|value| scale(setting, value, (name, factor)));
        if let Some(value) = scaled {
            return value;
        }
    }
    setting.default.unwrap_or_default().to_owned()
}

/// Whether what a node was given at start counts for the topics on it. Not where all nodes must mean the same: the
/// controller that is elected says for all of them what it was given.
fn is_each_nodes_own(name: &str) -> bool {
    name != INSYNC_MIN
}

/// A value of a broker's setting in the unit of the topic's. Any number below zero says that there is no limit, where
/// there may be none: a topic takes only -1 for it.
fn scale(setting: &Setting, value: &str, (name, factor): (&str, i64)) -> Option<String> {
    let may_be_unlimited =
        || find_broker(name).is_some_and(|broker| matches!(broker.allowed, Allowed::LimitFrom(_)));
    let scaled = match value.trim().parse::<i64>() {
        Ok(number) if number < 0 && may_be_unlimited() => "-1".to_owned(),
        Ok(number) if factor != 1 => number.saturating_mul(factor).to_string(),
        _ => value.to_owned(),
    };
    setting.parse(&scaled).ok().map(|_| scaled)
}

/// A broker's setting and those it falls back on.
fn chain(name: &'static str) -> Vec<&'static str> {
    let names = topic_settings().iter().map(|topic| topic.synonyms).find_map(|synonyms| {
        let at = synonyms.iter().position(|(known, _)| *known == name)?;
        Some(synonyms[at..].iter().map(|(name, _)| *name).collect())
    });
    names.unwrap_or_else(|| vec![name])
}

impl Layers<'_> {
    fn of_topic(self, setting: &'static Setting) -> impl Iterator<Item = Synonym> {
        let counts = |synonym: &Synonym| synonym.source != Source::Static || is_each_nodes_own(synonym.name);
        setting.synonyms.iter().flat_map(move |(name, _)| self.of_broker(name)).filter(counts)
    }

    fn of_broker(self, name: &'static str) -> Vec<Synonym> {
        let setting = find_broker(name);
        let of = |map: &ConfigMap, source| {
            map.get(name).map(|value| Synonym { name, value: value.clone(), source })
        };
        let default = setting.and_then(|setting| setting.default).map(|value| Synonym {
            name,
            value: value.to_owned(),
            source: Source::Default,
        });
        [
            of(self.broker, Source::Broker),
            of(self.default_broker, Source::DefaultBroker),
            of(self.fixed, Source::Static),
            default,
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
