//! What an operator sets for groups of the new protocol, and what a request may do wrong in one.

use std::ops::RangeInclusive;
use std::time::Duration;

use base::ErrorCode;
use metadata::ConfigMap;

use crate::assign::Assignor;
use crate::limits::{GROUP_BYTES_MAX, MEMBER_BYTES_FREE, MEMBER_BYTES_MAX};

/// Which groups may change their protocol while they read: `group.consumer.migration.policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MigrationPolicy {
    /// Both ways.
    #[default]
    Bidirectional,
    /// From the classic protocol to the new one.
    Upgrade,
    /// From the new protocol to the classic one.
    Downgrade,
    /// None.
    Disabled,
}

impl MigrationPolicy {
    /// The policy of this name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "bidirectional" => Self::Bidirectional,
            "upgrade" => Self::Upgrade,
            "downgrade" => Self::Downgrade,
            "disabled" => Self::Disabled,
            _ => return None,
        })
    }

    /// Whether a classic group may become one of the new protocol.
    pub const fn may_upgrade(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Upgrade)
    }

    /// Whether a group of the new protocol may become a classic one.
    pub const fn may_downgrade(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Downgrade)
    }
}

/// What an operator sets for groups of the new protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct ConsumerGroupSettings {
    /// Members at most: `group.consumer.max.size`.
    pub size_max: usize,
    /// How long a member may be silent: `group.consumer.session.timeout.ms`.
    pub session_timeout: Duration,
    /// What a group may set for it: `group.consumer.min.session.timeout.ms` and `max`.
    pub session_timeout_range: RangeInclusive<Duration>,
    /// How often a member that has nothing to wait for is heard: `group.consumer.heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// What a group may set for it: `group.consumer.min.heartbeat.interval.ms` and `max`.
    pub heartbeat_interval_range: RangeInclusive<Duration>,
    /// How far apart targets are made at least: `group.consumer.assignment.interval.ms`.
    pub assignment_interval: Duration,
    /// What a group may set for it: `group.consumer.min.assignment.interval.ms` and `max`.
    pub assignment_interval_range: RangeInclusive<Duration>,
    /// How long what a pattern of a subscription matched counts before it is looked up again, whatever the metadata
    /// says: `group.consumer.regex.refresh.interval.ms`.
    pub regex_refresh_interval: Duration,
    /// The assignors that members may ask for, the default one first: `group.consumer.assignors`.
    pub assignors: Vec<Assignor>,
    /// Which groups may change their protocol: `group.consumer.migration.policy`.
    pub migration: MigrationPolicy,
}

impl Default for ConsumerGroupSettings {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            size_max: 1000,
            session_timeout: seconds(45),
            session_timeout_range: seconds(45)..=seconds(60),
            heartbeat_interval: seconds(5),
            heartbeat_interval_range: seconds(5)..=seconds(15),
            assignment_interval: seconds(1),
            assignment_interval_range: Duration::ZERO..=seconds(15),
            regex_refresh_interval: seconds(600),
            assignors: Assignor::ALL.to_vec(),
            migration: MigrationPolicy::default(),
        }
    }
}

impl ConsumerGroupSettings {
    /// With what is set for one group. A value outside of its range counts as the end of the range that it passes:
    /// the range may have changed since it was set.
    pub fn for_group(&self, configs: &ConfigMap) -> Self {
        let set = |name: &str, default: Duration, range: &RangeInclusive<Duration>| {
            let said = configs.get(name).and_then(|text| text.trim().parse().ok()).map(Duration::from_millis);
            said.map_or(default, |it| it.max(*range.start()).min(*range.end()))
        };
        Self {
            session_timeout: set(
                "consumer.session.timeout.ms",
                self.session_timeout,
                &self.session_timeout_range,
            ),
            heartbeat_interval: set(
                "consumer.heartbeat.interval.ms",
                self.heartbeat_interval,
                &self.heartbeat_interval_range,
            ),
            assignment_interval: set(
                "consumer.assignment.interval.ms",
                self.assignment_interval,
                &self.assignment_interval_range,
            ),
            ..self.clone()
        }
    }
}

/// Why a request to a group of the new protocol is refused; the words are Kafka's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsumerGroupError {
    /// A field says what it must not, or does not say what it must.
    #[error("{0}")]
    Invalid(&'static str),
    /// What the member says of itself is too long.
    #[error(
        "The subscription of a member must not be longer than {MEMBER_BYTES_MAX} bytes, and those of a group together not \
         than {GROUP_BYTES_MAX}, but for members with less than {MEMBER_BYTES_FREE}."
    )]
    TooLong,
    /// There is no such group.
    #[error("Consumer group {0} not found.")]
    NoGroup(String),
    /// There is no such member.
    #[error("Member {member} is not a member of group {group}.")]
    NoMember {
        /// Who asks.
        member: String,
        /// The group.
        group: String,
    },
    /// There is no such static member.
    #[error("Instance id {0} is unknown.")]
    NoInstance(String),
    /// The group has as many members as it may.
    #[error("The consumer group has reached its maximum capacity of {0} members.")]
    Full(usize),
    /// Nobody knows the assignor.
    #[error("ServerAssignor {name} is not supported. Supported assignors: {known}.")]
    UnsupportedAssignor {
        /// The one that is asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The pattern is not one.
    #[error("SubscribedTopicRegex `{regex}` is not a valid regular expression: {reason}.")]
    InvalidRegex {
        /// The pattern.
        regex: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The group has as many different patterns as it may. Kafka has no such bound.
    #[error(
        "The members of the group have {0} different SubscribedTopicRegex already, and there may not be more: have them share one."
    )]
    TooManyRegexes(usize),
    /// The static member is there, and did not leave.
    #[error(
        "Static member {member} with instance id {instance} cannot join the group because the instance id is owned by {owner} member."
    )]
    UnreleasedInstance {
        /// Who asks.
        member: String,
        /// As which static member.
        instance: String,
        /// Who that is.
        owner: String,
    },
    /// The static member is somebody else by now.
    #[error("Static member {member} with instance id {instance} was fenced by member {owner}.")]
    FencedInstance {
        /// Who asks.
        member: String,
        /// As which static member.
        instance: String,
        /// Who that is.
        owner: String,
    },
    /// The member is not in the epoch that it says.
    #[error(
        "The consumer group member has a {compared} member epoch ({received}) than the one known by the group coordinator ({known}). The member must abandon all its partitions and rejoin."
    )]
    FencedEpoch {
        /// `greater` or `smaller`.
        compared: &'static str,
        /// What it says.
        received: i32,
        /// What it should say.
        known: i32,
    },
    /// The member's state is one that this release does not know.
    #[error(
        "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
    )]
    UnknownState,
    /// The member is in another epoch, and may not commit or read offsets in this one.
    #[error("The received member epoch {received} does not match the expected member epoch {expected}.")]
    StaleEpoch {
        /// What it says.
        received: i32,
        /// What it should say.
        expected: i32,
    },
    /// The same of a member of the classic protocol.
    #[error("The received generation id {received} does not match the expected member epoch {expected}.")]
    IllegalGeneration {
        /// What it says.
        received: i32,
        /// What it should say.
        expected: i32,
    },
    /// The request is too old for a member of the new protocol.
    #[error("OffsetCommit version 9 or above must be used by members using the modern group protocol")]
    OldCommit,
    /// The group has members.
    #[error("The group is not empty.")]
    NotEmpty,
}

impl ConsumerGroupError {
    /// Kafka's code for it.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid(_) | Self::TooLong => ErrorCode::InvalidRequest,
            Self::NoGroup(_) => ErrorCode::GroupIdNotFound,
            Self::NoMember { .. } | Self::NoInstance(_) => ErrorCode::UnknownMemberId,
            Self::Full(_) => ErrorCode::GroupMaxSizeReached,
            Self::UnsupportedAssignor { .. } => ErrorCode::UnsupportedAssignor,
            Self::InvalidRegex { .. } | Self::TooManyRegexes(_) => ErrorCode::InvalidRegularExpression,
            Self::UnreleasedInstance { .. } => ErrorCode::UnreleasedInstanceId,
            Self::FencedInstance { .. } => ErrorCode::FencedInstanceId,
            Self::FencedEpoch { .. } | Self::UnknownState => ErrorCode::FencedMemberEpoch,
            Self::StaleEpoch { .. } => ErrorCode::StaleMemberEpoch,
            Self::IllegalGeneration { .. } => ErrorCode::IllegalGeneration,
            Self::OldCommit => ErrorCode::UnsupportedVersion,
            Self::NotEmpty => ErrorCode::NonEmptyGroup,
        }
    }
}
