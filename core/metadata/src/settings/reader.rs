//! Values of a broker's settings, by name.

use std::time::Duration;

use super::cluster::{ClusterAddress, ClusterPeer, ROLES, Roles, parse_addresses, parse_peers};
use super::find_broker;
use super::listener::Listener;
use super::setting::{Setting, SettingError, Value};
use crate::parts::ConfigMap;

/// Reads settings of the table by name; all values in `fixed` were parsed before.
pub(super) struct Reader<'a> {
    pub(super) fixed: &'a ConfigMap,
}

impl Reader<'_> {
    fn setting(name: &str) -> &'static Setting {
        find_broker(name).expect("the reader asks for settings of the table")
    }

    pub(super) fn value(&self, name: &str) -> Option<Value> {
        let setting = Self::setting(name);
        let text = self.fixed.get(name).map(String::as_str).or(setting.default)?;
        Some(setting.parse(text).expect("it was parsed before"))
    }

    pub(super) fn number(&self, name: &str) -> i64 {
        match self.value(name) {
            Some(Value::Number(number)) => number,
            other => panic!("{name} is {other:?}, no number"),
        }
    }

    pub(super) fn int(&self, name: &str) -> i32 {
        i32::try_from(self.number(name)).unwrap_or(i32::MAX)
    }

    pub(super) fn bytes(&self, name: &str) -> u32 {
        u32::try_from(self.number(name)).unwrap_or(u32::MAX)
    }

    pub(super) fn count(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).unwrap_or(0)
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        Duration::from_millis(u64::try_from(self.number(name)).unwrap_or(0))
    }

    /// A number that says "no limit" by being the largest there is.
    pub(super) fn limit(&self, name: &str) -> Option<u64> {
        u64::try_from(self.number(name)).ok().filter(|limit| *limit < i64::MAX.unsigned_abs())
    }

    /// A speed that says "no limit" by being more than any disk can do.
    pub(super) fn speed(&self, name: &str) -> Option<u64> {
        self.value(name)?.double().map(|speed| speed.max(1.0) as u64).filter(|&speed| speed < 1 << 50)
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        self.value(name) == Some(Value::Boolean(true))
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.value(name).map(|value| value.to_string()).unwrap_or_default()
    }

    /// A number that counts only if somebody gave it.
    pub(super) fn given(&self, name: &str) -> Option<i16> {
        self.fixed.get(name)?;
        i16::try_from(self.number(name)).ok()
    }

    pub(super) fn list(&self, name: &str) -> Vec<String> {
        match self.value(name) {
            Some(Value::List(parts)) => parts,
            other => panic!("{name} is {other:?}, no list"),
        }
    }

    pub(super) fn optional(&self, name: &str) -> Option<String> {
        Some(self.text(name)).filter(|text| !text.is_empty())
    }

    pub(super) fn address(&self, name: &str) -> Result<Option<ClusterAddress>, SettingError> {
        let Some(text) = self.optional(name) else { return Ok(None) };
        let invalid = |why| SettingError::Invalid { name: name.to_owned(), value: text.clone(), why };
        ClusterAddress::parse(&text).map(Some).map_err(invalid)
    }

    pub(super) fn peers(&self, name: &str) -> Result<Vec<ClusterPeer>, SettingError> {
        let Some(Value::List(parts)) = self.value(name) else { return Ok(Vec::new()) };
        parse_peers(&parts).map_err(|why| SettingError::Invalid {
            name: name.to_owned(),
            value: parts.join(","),
            why,
        })
    }

    pub(super) fn roles(&self) -> Result<Roles, SettingError> {
        let Some(Value::List(parts)) = self.value(ROLES) else {
            return Roles::parse(&[]).map_err(SettingError::Conflict);
        };
        let invalid = |why| SettingError::Invalid { name: ROLES.to_owned(), value: parts.join(","), why };
        Roles::parse(&parts).map_err(invalid)
    }

    pub(super) fn addresses(&self, name: &str) -> Result<Vec<ClusterAddress>, SettingError> {
        let Some(Value::List(parts)) = self.value(name) else { return Ok(Vec::new()) };
        let invalid = |why| SettingError::Invalid { name: name.to_owned(), value: parts.join(","), why };
        parse_addresses(&parts).map_err(invalid)
    }

    /// Where clients are served, on a node that others reach here.
    pub(super) fn listeners_at(&self, home: Option<&ClusterAddress>) -> Result<Vec<Listener>, SettingError> {
        let mut listeners = self.listeners("listeners")?.unwrap_or_default();
        if let Some(home) = home.filter(|home| !home.is_loopback() && !self.fixed.contains_key("listeners")) {
            // Whoever tells the other nodes where this one is wants it to be reached there.
            listeners.iter_mut().for_each(|listener| listener.host.clone_from(&home.host));
        }
        Ok(listeners)
    }

    pub(super) fn listeners(&self, name: &str) -> Result<Option<Vec<Listener>>, SettingError> {
        let Some(Value::List(parts)) = self.value(name) else { return Ok(None) };
        let listeners = Listener::parse_all(&parts).map_err(|why| SettingError::Invalid {
            name: name.to_owned(),
            value: parts.join(","),
            why,
        })?;
        Ok(Some(listeners))
    }
}
