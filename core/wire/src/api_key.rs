//! The APIs there are: their keys, their versions, and who serves them.

use std::fmt;
use std::ops::RangeInclusive;

pub use crate::messages::api_keys::ApiKey;
use crate::messages::api_keys::facts;

/// What is known of an API without reading a message.
pub(crate) struct Facts {
    pub(crate) name: &'static str,
    pub(crate) versions: RangeInclusive<i16>,
    /// The last version is not released: its form may change.
    pub(crate) last_unstable: bool,
    pub(crate) flexible_since: Option<i16>,
    pub(crate) listeners: Listeners,
}

/// The kinds of listener on which Kafka serves an API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listeners {
    /// Where clients and brokers come.
    pub broker: bool,
    /// Where members of the quorum come.
    pub controller: bool,
}

impl ApiKey {
    /// The API with this key.
    pub fn from_i16(code: i16) -> Option<Self> {
        Self::ALL.binary_search_by_key(&code, |key| key.code()).ok().map(|at| Self::ALL[at])
    }

    /// Its key.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// Kafka's name of it.
    pub const fn name(self) -> &'static str {
        facts(self).name
    }

    /// The released versions.
    pub const fn versions(self) -> RangeInclusive<i16> {
        let facts = facts(self);
        let last = *facts.versions.end() - facts.last_unstable as i16;
        *facts.versions.start()..=last
    }

    /// The versions that can be decoded and encoded: the released ones, and one more if it is being
    /// worked on.
    pub const fn versions_with_unstable(self) -> RangeInclusive<i16> {
        facts(self).versions
    }

    /// The first version with compact lengths and tagged fields, if there is one.
    pub const fn flexible_since(self) -> Option<i16> {
        facts(self).flexible_since
    }

    /// Whether a version has compact lengths and tagged fields.
    pub const fn is_flexible(self, version: i16) -> bool {
        matches!(facts(self).flexible_since, Some(since) if version >= since)
    }

    /// Where Kafka serves it.
    pub const fn listeners(self) -> Listeners {
        facts(self).listeners
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests;
