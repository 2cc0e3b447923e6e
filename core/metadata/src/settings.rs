//! Every setting there is, in one typed table.
//!
//! ```text
//!   topic override ─▶ broker, dynamic ─▶ every broker, dynamic ─▶ file and command line ─▶ default
//!   retention.ms      log.retention.ms, then .minutes, then .hours                         604800000
//! ```
//!
//! The table knows of each setting its name (Kafka's, where Kafka has it), type, default, range, who may
//! change it, and why it is as it is. What a request may set, what `DescribeConfigs` answers, what
//! `vltava config` prints and what the documents say all come from it.

mod broker;
mod broker_table;
mod cluster;
mod describe;
mod group;
mod group_table;
mod kept;
mod listener;
mod properties;
mod reader;
mod render;
mod setting;
#[cfg(test)]
mod tests;
mod topic;
mod topic_table;

pub use broker::{BrokerSettings, CORDONED_DIRS, StartError};
pub use cluster::{ClusterAddress, ClusterPeer, Roles};
pub use describe::{Described, Layers, Source, Synonym, describe_broker, describe_group, describe_topic};
pub use group::{GroupSettings, validate_group};
pub use kept::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC, is_book, is_internal, keep, with_kept};
pub use listener::{Listener, SecurityProtocol};
pub use properties::{PropertyError, parse_properties};
pub use render::render_markdown;
pub use setting::{Allowed, INSYNC_MIN, Kind, Scope, Setting, SettingError, Value};
pub use topic::{
    Cleanup, CompressionType, FlushPolicy, ThrottledReplicas, TimestampType, TopicSettings, UNCLEAN_ELECTION,
    allows_unclean_election, insync_replicas_min,
};

use crate::parts::ConfigMap;

/// Every setting: a topic's first, then a group's, then a broker's, each by name.
pub fn all() -> impl Iterator<Item = &'static Setting> {
    topic_table::TOPIC.iter().chain(group_table::GROUP).chain(broker_table::BROKER)
}

/// A topic's settings, by name.
pub fn topic_settings() -> &'static [Setting] {
    topic_table::TOPIC
}

/// A group's settings, by name.
pub fn group_settings() -> &'static [Setting] {
    group_table::GROUP
}

/// A broker's settings, by name.
pub fn broker_settings() -> &'static [Setting] {
    broker_table::BROKER
}

/// A setting of topics, by name.
pub fn find_topic(name: &str) -> Option<&'static Setting> {
    find_in(topic_table::TOPIC, name)
}

/// A setting of groups, by name.
pub fn find_group(name: &str) -> Option<&'static Setting> {
    find_in(group_table::GROUP, name)
}

/// A setting of brokers, by name.
pub fn find_broker(name: &str) -> Option<&'static Setting> {
    find_in(broker_table::BROKER, name)
}

/// A setting by name; a topic's if both have one.
pub fn find(name: &str) -> Option<&'static Setting> {
    find_topic(name).or_else(|| find_broker(name))
}

/// Checks what would be a topic's overrides: each alone, then those that depend on each other.
pub fn validate_topic(overrides: &ConfigMap) -> Result<(), SettingError> {
    for (name, value) in overrides {
        let setting = find_topic(name).ok_or_else(|| SettingError::UnknownTopicSetting(name.clone()))?;
        setting.parse(value)?;
    }
    topic::validate_together(overrides)
}

/// Checks what would be a broker's dynamic overrides.
pub fn validate_broker(overrides: &ConfigMap) -> Result<(), SettingError> {
    for (name, value) in overrides {
        let setting = find_broker(name).ok_or_else(|| SettingError::UnknownBrokerSetting(name.clone()))?;
        if setting.scope != Scope::BrokerDynamic {
            return Err(SettingError::ReadOnly(name.clone()));
        }
        setting.parse(value)?;
    }
    Ok(())
}

fn find_in(table: &'static [Setting], name: &str) -> Option<&'static Setting> {
    table.binary_search_by(|setting| setting.name.cmp(name)).ok().and_then(|at| table.get(at))
}
