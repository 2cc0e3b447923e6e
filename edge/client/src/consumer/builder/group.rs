//! The settings of a member of a group.

use std::time::Duration;

use client_core::consumer::Isolation;
use client_core::group::{Assignor, GroupProtocol, GroupSettings, Membership};
use client_core::{Address, Chance};

use super::ConsumerBuilder;
use crate::consumer::Group;
use crate::producer::{BuildError, PropertyError};

/// Kafka's names of them.
const NAMES: [&str; 10] = [
    "group.id",
    "group.instance.id",
    "group.protocol",
    "partition.assignment.strategy",
    "group.remote.assignor",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "enable.auto.commit",
    "auto.commit.interval.ms",
];
/// Kafka's default; the interval is chosen apart from whether there is any.
const AUTO_COMMIT_INTERVAL: Duration = Duration::from_secs(5);
/// Short enough to be said in the protocol, and added to any time.
const TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

pub(super) fn is_setting(name: &str) -> bool {
    NAMES.contains(&name)
}

impl ConsumerBuilder {
    /// `group.id`: in whose name [`subscribe`](crate::consumer::Consumer::subscribe) reads and offsets are
    /// committed.
    pub fn group_id(mut self, id: &str) -> Self {
        self.group.group_id = id.into();
        self
    }

    /// `group.instance.id`: who comes back with it within the session goes on with what it had (KIP-345).
    pub fn group_instance_id(mut self, id: &str) -> Self {
        self.group.instance_id = Some(id.into());
        self
    }

    /// `group.protocol`; unless chosen, the consumer protocol (KIP-848) where the brokers have it, else the
    /// classic one.
    pub fn group_protocol(mut self, protocol: GroupProtocol) -> Self {
        self.group.protocol = protocol;
        self
    }

    /// `partition.assignment.strategy`, the one that is liked best first; of the classic protocol.
    pub fn assignors(mut self, assignors: impl IntoIterator<Item = Assignor>) -> Self {
        self.group.assignors = assignors.into_iter().collect();
        self
    }

    /// `group.remote.assignor`, of the consumer protocol: `uniform`, `range`, or what else the brokers have.
    pub fn remote_assignor(mut self, name: &str) -> Self {
        self.group.remote_assignor = Some(name.into());
        self
    }

    /// `session.timeout.ms`, of the classic protocol.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.group.session_timeout = timeout;
        self
    }

    /// `heartbeat.interval.ms`, of the classic protocol.
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.group.heartbeat_interval = interval;
        self
    }

    /// `max.poll.interval.ms`: who asks for no record for so long gives up its place.
    pub fn poll_interval_max(mut self, interval: Duration) -> Self {
        self.group.poll_interval_max = interval;
        self
    }

    /// `enable.auto.commit` and `auto.commit.interval.ms`: how often what was read is committed, also by hand;
    /// on, every five seconds, unless chosen. A record counts as read when the next is asked for; `None` leaves
    /// it to [`commit`](crate::consumer::Consumer::commit).
    pub fn auto_commit(mut self, interval: Option<Duration>) -> Self {
        self.group.auto_commit = interval;
        self
    }

    pub(super) fn set_of_group(self, name: &str, value: &str) -> Result<Self, PropertyError> {
        let wrong = |wanted| PropertyError::Value { name: name.to_owned(), value: value.to_owned(), wanted };
        let value = value.trim();
        let time = || {
            let milliseconds = value.parse().map_err(|_| wrong("a number of milliseconds"))?;
            Ok(Duration::from_millis(milliseconds))
        };
        let interval = self.group.auto_commit;
        Ok(match name {
            "group.id" => self.group_id(value),
            "group.instance.id" => self.group_instance_id(value),
            "group.remote.assignor" => self.remote_assignor(value),
            "session.timeout.ms" => self.session_timeout(time()?),
            "heartbeat.interval.ms" => self.heartbeat_interval(time()?),
            "max.poll.interval.ms" => self.poll_interval_max(time()?),
            "auto.commit.interval.ms" => self.auto_commit(Some(time()?)),
            "enable.auto.commit" => match value {
                "true" => self.auto_commit(Some(interval.unwrap_or(AUTO_COMMIT_INTERVAL))),
                "false" => self.auto_commit(None),
                _ => return Err(wrong("true or false")),
            },
            "group.protocol" => match value.to_ascii_lowercase().as_str() {
                "auto" => self.group_protocol(GroupProtocol::Auto),
                "classic" => self.group_protocol(GroupProtocol::Classic),
                "consumer" => self.group_protocol(GroupProtocol::Consumer),
                _ => return Err(wrong("auto, classic or consumer")),
            },
            "partition.assignment.strategy" => {
                let named = value.split(',').map(|name| Assignor::named(name.trim()));
                let assignors: Option<Vec<Assignor>> = named.collect();
                self.assignors(assignors.ok_or_else(|| wrong("range, roundrobin or cooperative-sticky"))?)
            }
            _ => return Err(PropertyError::Unknown { name: name.to_owned(), of: "consumer" }),
        })
    }

    /// What is chosen for a group, if there is one.
    pub(super) fn group_properties(&self) -> Vec<(&'static str, String)> {
        let group = &self.group;
        if group.group_id.is_empty() {
            return Vec::new();
        }
        let protocol = match group.protocol {
            GroupProtocol::Auto => "auto",
            GroupProtocol::Classic => "classic",
            GroupProtocol::Consumer => "consumer",
        };
        let assignors: Vec<&str> = group.assignors.iter().map(|assignor| assignor.name()).collect();
        let mut all = vec![
            ("group.id", group.group_id.to_string()),
            ("group.protocol", protocol.to_owned()),
            ("partition.assignment.strategy", assignors.join(",")),
            ("session.timeout.ms", group.session_timeout.as_millis().to_string()),
            ("heartbeat.interval.ms", group.heartbeat_interval.as_millis().to_string()),
            ("max.poll.interval.ms", group.poll_interval_max.as_millis().to_string()),
            ("enable.auto.commit", group.auto_commit.is_some().to_string()),
        ];
        let named =
            [("group.instance.id", &group.instance_id), ("group.remote.assignor", &group.remote_assignor)];
        all.extend(named.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?.to_string()))));
        let interval = group.auto_commit.map(|interval| interval.as_millis().to_string());
        all.extend(interval.map(|interval| ("auto.commit.interval.ms", interval)));
        all
    }

    /// The member, with what it has in common with the reader.
    pub(super) fn build_group(&self, bootstrap: &[Address]) -> Result<Option<Group>, BuildError> {
        if self.group.group_id.is_empty() {
            return Ok(None);
        }
        check(&self.group)?;
        let settings = GroupSettings {
            requires_stable: self.settings.isolation == Isolation::ReadCommitted,
            rack: self.settings.rack.clone(),
            retry: self.settings.retry,
            metadata_age_max: self.settings.metadata_age_max,
            links: self.settings.links.clone(),
            ..self.group.clone()
        };
        let chance = Chance::new(rand::random());
        Ok(Some(Group::new(Membership::new(settings, bootstrap.to_vec(), chance))))
    }
}

fn check(group: &GroupSettings) -> Result<(), BuildError> {
    let wrong = |what| Err(BuildError::Settings(what));
    let least = Duration::from_millis(1);
    let times = [group.session_timeout, group.heartbeat_interval, group.poll_interval_max];
    if times.iter().chain(&group.auto_commit).any(|time| !(least..=TIMEOUT_MAX).contains(time)) {
        return wrong("the times of a group must be 1 ms at least, and 24 days at most");
    }
    if group.heartbeat_interval >= group.session_timeout {
        return wrong("heartbeat.interval.ms must be less than session.timeout.ms");
    }
    if group.assignors.is_empty() {
        return wrong("partition.assignment.strategy must name at least one");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::consumer::Consumer;

    #[test]
    fn a_group_is_chosen_by_kafkas_names() {
        let chosen = [
            ("group.id", "billing"),
            ("group.protocol", "classic"),
            ("partition.assignment.strategy", "cooperative-sticky,range"),
            ("enable.auto.commit", "false"),
            ("session.timeout.ms", "10000"),
        ];
        let mut builder = Consumer::builder("127.0.0.1:1");
        for (name, value) in chosen {
            builder = builder.set(name, value).expect("it is one");
        }
        let properties = builder.properties();
        for (name, value) in chosen {
            assert!(properties.contains(&(name, value.to_owned())), "{name}");
        }
        assert!(builder.clone().build().is_ok());
        assert!(builder.clone().set("group.protocol", "modern").is_err());
        assert!(builder.set("heartbeat.interval.ms", "10000").is_ok_and(|it| it.build().is_err()));
    }
}
