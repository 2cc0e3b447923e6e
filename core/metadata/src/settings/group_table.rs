//! The settings of groups of the new protocol, by name.

use super::setting::Allowed::{self, AtLeast};
use super::setting::Kind::Int;
use super::setting::{Scope, Setting};

/// Sorted by name.
pub(super) const GROUP: &[Setting] = &[
    group("consumer.assignment.interval.ms", "1000", AtLeast(0))
        .from(&[("group.consumer.assignment.interval.ms", 1)])
        .doc("How far apart the members of the group are told anew what to read, at least.")
        .why("Kafka's default: members that come or go together are one rebalance."),
    group("consumer.heartbeat.interval.ms", "5000", AtLeast(1))
        .from(&[("group.consumer.heartbeat.interval.ms", 1)])
        .doc("How often members of the group are to be heard; one that waits for others is asked for more.")
        .why("Kafka's default."),
    group("consumer.session.timeout.ms", "45000", AtLeast(1))
        .from(&[("group.consumer.session.timeout.ms", 1)])
        .doc("How long a member of the group may be silent before others read what it had.")
        .why("Kafka's default."),
];

const fn group(name: &'static str, default: &'static str, allowed: Allowed) -> Setting {
    Setting {
        name,
        kind: Int,
        default: Some(default),
        allowed,
        doc: "",
        reason: "",
        scope: Scope::Group,
        synonyms: &[],
    }
}
