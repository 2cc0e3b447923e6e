//! What is said of a group before anything else, whatever was asked of it.

use std::fmt;

use client::admin::{GroupCoordinator, GroupDescription};
use serde_json::{Value, json};

use crate::cmd::cluster::movement::counted;

/// A group, and who keeps it if that is known.
pub(super) struct Head<'a> {
    pub(super) group: &'a GroupDescription,
    pub(super) coordinator: Option<&'a GroupCoordinator>,
}

impl Head<'_> {
    /// The protocol that its members speak, as Kafka calls the type of a group.
    const fn kind(&self) -> &'static str {
        if self.group.epochs.is_some() { "consumer" } else { "classic" }
    }

    /// For programs.
    pub(super) fn as_value(&self) -> Value {
        let Self { group, coordinator } = self;
        json!({
            "group": group.group_id,
            "type": self.kind(),
            "state": group.state,
            "protocol_type": group.protocol_type,
            "assignor": group.assignor,
            "epoch": group.epochs.map(|(epoch, _)| epoch),
            "assignment_epoch": group.epochs.map(|(_, epoch)| epoch),
            "coordinator": coordinator.map(|it| json!({ "id": it.id.0, "host": it.host, "port": it.port })),
        })
    }
}

/// For people, on one line.
impl fmt::Display for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, coordinator } = self;
        write!(f, "Group {}  {}, {} protocol", group.group_id, group.state, self.kind())?;
        if !group.assignor.is_empty() {
            write!(f, " ({})", group.assignor)?;
        }
        write!(f, ", {}", counted(group.members.len(), "member"))?;
        match coordinator {
            Some(it) => write!(f, ", kept by broker {} at {}:{}", it.id, it.host, it.port),
            None => Ok(()),
        }
    }
}
