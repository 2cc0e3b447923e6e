//! Why an admin could not do what it was asked.

use std::time::Duration;

use base::ErrorCode;
use wire::{ApiKey, EncodeError};

/// Why something was not done, or not found out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// The broker refuses, for good.
    #[error("{what}: {}: {}{}", code.name(), message.as_deref().unwrap_or(code.message()), doubt(*may_have_been_done))]
    Refused {
        /// What was asked for: `topic orders`, `partition orders-3`, …
        what: String,
        /// Kafka's code.
        code: ErrorCode,
        /// What the broker says about it.
        message: Option<String>,
        /// Whether an earlier try has no answer, so that this may be about what that one did.
        may_have_been_done: bool,
    },
    /// Time ran out.
    #[error("{what}: not done within {} ms: {cause}{}{}", after.as_millis(), trouble.as_ref().map(|trouble| format!(": {trouble}")).unwrap_or_default(), doubt(*may_have_been_done))]
    TimedOut {
        /// What was asked for.
        what: String,
        /// How long it was tried.
        after: Duration,
        /// What it failed for last.
        cause: Cause,
        /// What went wrong last with a connection, if that was it.
        trouble: Option<String>,
        /// Whether it was sent and an answer is missing, so that it may be done all the same.
        may_have_been_done: bool,
    },
    /// The cluster names no such broker.
    #[error("{what}: the cluster has no such broker, or it is down")]
    NoSuchBroker {
        /// What was asked for.
        what: String,
    },
    /// The broker is too old for it, or too new.
    #[error("{what}: the broker does not speak a version of {api} that can say this")]
    Unsupported {
        /// What was asked for.
        what: String,
        /// The API.
        api: ApiKey,
    },
    /// The request cannot be written.
    #[error("{what}: cannot be said in Kafka's protocol: {error}")]
    Unsayable {
        /// What was asked for.
        what: String,
        /// Why.
        error: EncodeError,
    },
    /// The broker answers and leaves this out.
    #[error("{what}: the broker's answer says nothing about it{}", doubt(*may_have_been_done))]
    Missing {
        /// What was asked for.
        what: String,
        /// Whether it was a command, which may have been carried out.
        may_have_been_done: bool,
    },
    /// It was named before in the same call.
    #[error("{what}: named twice")]
    Twice {
        /// What was asked for.
        what: String,
    },
    /// It was to be tried only, and cannot be.
    #[error("{what}: this cannot be tried, only done")]
    NoTrial {
        /// What was asked for.
        what: String,
    },
    /// The admin came to an end first.
    #[error("the admin's thread has ended; what was asked for may have been done")]
    Closed,
}

/// What something fails for, for the time being.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// Nobody can be asked: no connection stands.
    #[error("the broker to ask cannot be reached")]
    NotReached,
    /// The cluster has no controller, or does not say which broker it is.
    #[error("the cluster has no controller")]
    NoController,
    /// Nobody says which broker keeps the group.
    #[error("the coordinator of the group is not known")]
    NoCoordinator,
    /// The partition has no leader.
    #[error("the partition has no leader")]
    NoLeader,
    /// It was asked, and the connection ended before an answer came.
    #[error("a broker was asked and did not answer")]
    NoAnswer,
    /// The answer makes no sense.
    #[error("the answer cannot be read")]
    Unreadable,
    /// The broker refuses for now.
    #[error("the broker says {}: {}", .0.name(), .1.as_deref().unwrap_or(.0.message()))]
    Refused(ErrorCode, Option<String>),
}

fn doubt(may_have_been_done: bool) -> &'static str {
    if may_have_been_done { "; a try has no answer, so it may have been done" } else { "" }
}

impl AdminError {
    /// Whether what was asked for may have been done although this is an error. Never of a question, which
    /// does nothing.
    pub const fn may_have_been_done(&self) -> bool {
        match self {
            Self::Refused { may_have_been_done, .. }
            | Self::TimedOut { may_have_been_done, .. }
            | Self::Missing { may_have_been_done, .. } => *may_have_been_done,
            Self::Closed => true,
            Self::NoSuchBroker { .. }
            | Self::Unsupported { .. }
            | Self::Unsayable { .. }
            | Self::Twice { .. }
            | Self::NoTrial { .. } => false,
        }
    }

    /// Whether the same may succeed later.
    pub const fn is_retriable(&self) -> bool {
        match self {
            Self::Refused { code, .. } => code.is_retriable(),
            Self::TimedOut { .. } | Self::NoSuchBroker { .. } => true,
            Self::Unsupported { .. }
            | Self::Unsayable { .. }
            | Self::Missing { .. }
            | Self::Twice { .. }
            | Self::NoTrial { .. }
            | Self::Closed => false,
        }
    }

    /// Kafka's code, if a broker refused.
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}
