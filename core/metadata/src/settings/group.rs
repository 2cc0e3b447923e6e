//! What groups of consumers are given, and the topic that keeps what they commit.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::reader::Reader;
use super::setting::{SettingError, Value};
use super::{find_broker, find_group};
use crate::parts::ConfigMap;

/// A broker's settings that its group coordinators read.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSettings {
    /// `group.initial.rebalance.delay.ms`: how long a new group waits for more members, at most.
    pub initial_rebalance_delay_max: Duration,
    /// `group.min.session.timeout.ms`.
    pub session_timeout_min: Duration,
    /// `group.max.session.timeout.ms`.
    pub session_timeout_max: Duration,
    /// `group.max.size`: how many members one group has at most.
    pub members_max: usize,
    /// `group.consumer.max.size`: how many members one group of the new protocol has at most.
    pub consumer_members_max: usize,
    /// `group.consumer.session.timeout.ms`.
    pub consumer_session_timeout: Duration,
    /// `group.consumer.min.session.timeout.ms` and `group.consumer.max.session.timeout.ms`.
    pub consumer_session_timeout_range: RangeInclusive<Duration>,
    /// `group.consumer.heartbeat.interval.ms`.
    pub consumer_heartbeat_interval: Duration,
    /// `group.consumer.min.heartbeat.interval.ms` and `group.consumer.max.heartbeat.interval.ms`.
    pub consumer_heartbeat_interval_range: RangeInclusive<Duration>,
    /// `group.consumer.assignment.interval.ms`.
    pub consumer_assignment_interval: Duration,
    /// `group.consumer.min.assignment.interval.ms` and `group.consumer.max.assignment.interval.ms`.
    pub consumer_assignment_interval_range: RangeInclusive<Duration>,
    /// `group.consumer.regex.refresh.interval.ms`.
    pub consumer_regex_refresh_interval: Duration,
    /// `group.consumer.assignors`, by name; the first one is that of members that ask for none.
    pub consumer_assignors: Vec<String>,
    /// `group.consumer.migration.policy`.
    pub consumer_migration_policy: String,
    /// `group.disconnect.shortens.session`.
    pub disconnect_shortens_session: bool,
    /// `offsets.commit.timeout.ms`.
    pub commit_timeout: Duration,
    /// `offset.metadata.max.bytes`.
    pub offset_metadata_bytes_max: usize,
    /// `offsets.retention.minutes`.
    pub offsets_retention: Duration,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval: Duration,
    /// `offsets.topic.num.partitions`.
    pub topic_partitions: i32,
    /// `offsets.topic.replication.factor`; `None` lets the cluster choose.
    pub topic_replication_factor: Option<i16>,
    /// `offsets.topic.segment.bytes`.
    pub topic_segment_bytes: i32,
}

impl GroupSettings {
    pub(super) fn read(reader: &Reader<'_>) -> Self {
        let minutes = u64::try_from(reader.number("offsets.retention.minutes")).unwrap_or(0);
        Self {
            initial_rebalance_delay_max: reader.duration("group.initial.rebalance.delay.ms"),
            session_timeout_min: reader.duration("group.min.session.timeout.ms"),
            session_timeout_max: reader.duration("group.max.session.timeout.ms"),
            members_max: reader.count("group.max.size"),
            consumer_members_max: reader.count("group.consumer.max.size"),
            consumer_session_timeout: reader.duration("group.consumer.session.timeout.ms"),
            consumer_session_timeout_range: range(
                reader,
                "group.consumer.min.session.timeout.ms",
                "group.consumer.max.session.timeout.ms",
            ),
            consumer_heartbeat_interval: reader.duration("group.consumer.heartbeat.interval.ms"),
            consumer_heartbeat_interval_range: range(
                reader,
                "group.consumer.min.heartbeat.interval.ms",
                "group.consumer.max.heartbeat.interval.ms",
            ),
            consumer_assignment_interval: reader.duration("group.consumer.assignment.interval.ms"),
            consumer_assignment_interval_range: range(
                reader,
                "group.consumer.min.assignment.interval.ms",
                "group.consumer.max.assignment.interval.ms",
            ),
            consumer_regex_refresh_interval: reader.duration("group.consumer.regex.refresh.interval.ms"),
            consumer_assignors: reader.list("group.consumer.assignors"),
            consumer_migration_policy: reader.text("group.consumer.migration.policy"),
            disconnect_shortens_session: reader.is_on("group.disconnect.shortens.session"),
            commit_timeout: reader.duration("offsets.commit.timeout.ms"),
            offset_metadata_bytes_max: reader.count("offset.metadata.max.bytes"),
            offsets_retention: Duration::from_secs(60 * minutes),
            offsets_retention_check_interval: reader.duration("offsets.retention.check.interval.ms"),
            topic_partitions: reader.int("offsets.topic.num.partitions"),
            topic_replication_factor: reader.given("offsets.topic.replication.factor"),
            topic_segment_bytes: reader.int("offsets.topic.segment.bytes"),
        }
    }
}

/// What groups may choose, of the new protocol's settings that have bounds.
fn range(reader: &Reader<'_>, min: &str, max: &str) -> RangeInclusive<Duration> {
    reader.duration(min)..=reader.duration(max)
}

/// Checks what would be a group's overrides: each alone, then against the bounds that brokers are given at start.
///
/// # Errors
/// In Kafka's words.
pub fn validate_group(overrides: &ConfigMap, fixed: &ConfigMap) -> Result<(), SettingError> {
    for (name, value) in overrides {
        let setting = find_group(name).ok_or_else(|| SettingError::UnknownGroupSetting(name.clone()))?;
        let Value::Number(number) = setting.parse(value)? else { continue };
        let rest = name.strip_prefix("consumer.").unwrap_or(name);
        let (min, max) = (format!("group.consumer.min.{rest}"), format!("group.consumer.max.{rest}"));
        if bound(&min, fixed).is_some_and(|min| number < min) {
            return Err(SettingError::Conflict(format!("{name} must be greater than or equal to {min}")));
        }
        if bound(&max, fixed).is_some_and(|max| number > max) {
            return Err(SettingError::Conflict(format!("{name} must be less than or equal to {max}")));
        }
    }
    Ok(())
}

fn bound(name: &str, fixed: &ConfigMap) -> Option<i64> {
    let setting = find_broker(name)?;
    match setting.parse(fixed.get(name).map(String::as_str).or(setting.default)?) {
        Ok(Value::Number(number)) => Some(number),
        Ok(_) | Err(_) => None,
    }
}
