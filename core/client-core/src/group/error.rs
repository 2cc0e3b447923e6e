//! What goes wrong between a member and its group.

use base::ErrorCode;

/// Why an offset was not committed, or a member is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The coordinator refuses.
    #[error("the group's coordinator says {}: {}", .0.name(), .0.message())]
    Refused(ErrorCode),
    /// The partitions may be another's by now: what was read is read again by whom they went to. Kafka's
    /// CommitFailedException.
    #[error("this member lost its place in the group, or the partitions, before the offsets were committed")]
    NotOwner,
    /// No answer, or none that says yes, in time.
    #[error("the group's coordinator did not answer in time{}", .0.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
    TimedOut(Option<String>),
    /// The coordinator does not speak the group's protocol.
    #[error("the group's coordinator does not speak the protocol {0}")]
    Unsupported(&'static str),
    /// No group can be asked this: a name is too long for the protocol.
    #[error("this cannot be said in Kafka's protocol")]
    Unsayable,
    /// The consumer has no group.
    #[error("the consumer has no group.id")]
    NoGroup,
    /// The consumer came to an end first.
    #[error("the consumer has ended; the offsets may have been committed")]
    Closed,
}

impl GroupError {
    /// Kafka's code, if the coordinator refused.
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused(code) => Some(*code),
            _ => None,
        }
    }
}
