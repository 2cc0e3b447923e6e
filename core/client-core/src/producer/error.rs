//! Why a record was not taken, or not written.

use std::sync::Arc;

use base::{ErrorCode, PartitionIndex};

/// Why a record was not taken. Nothing of it was kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// There is no room for it now.
    #[error("the producer's memory is full: records come faster than the brokers take them")]
    Full,
    /// The topic is not known yet; it is being asked for.
    #[error("the cluster has not said yet what it knows of the topic{}", because(why.as_deref()))]
    TopicNotKnownYet {
        /// What is in the way, for people, if anything is.
        why: Option<Arc<str>>,
    },
    /// The cluster refuses the topic.
    #[error("topic {topic}: {}", code.message())]
    Topic {
        /// The topic.
        topic: String,
        /// Kafka's code.
        code: ErrorCode,
    },
    /// The topic has fewer partitions.
    #[error("topic {topic} has {count} partitions, and no partition {index}")]
    Partition {
        /// The topic.
        topic: String,
        /// What was asked for.
        index: PartitionIndex,
        /// How many there are.
        count: usize,
    },
    /// No request can hold it.
    #[error("the record has {size} bytes, more than max.request.size and buffer.memory allow ({max})")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The limit.
        max: usize,
    },
    /// No record is that old.
    #[error("timestamp {0} lies before 1970")]
    Timestamp(i64),
    /// The producer was closed.
    #[error("the producer is closed")]
    Closed,
    /// The producer can write nothing more.
    #[error("the producer failed: {}", .0.message())]
    Failed(ErrorCode),
}

impl AppendError {
    /// Whether the same record may be taken later.
    pub const fn is_retriable(&self) -> bool {
        matches!(self, Self::Full | Self::TopicNotKnownYet { .. })
    }

    /// Whether no record will ever be taken again: another producer is needed.
    pub const fn is_fatal(&self) -> bool {
        matches!(self, Self::Closed | Self::Failed(_))
    }
}

/// Why the records of a batch were not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// The broker refused them, for good.
    #[error("the broker refused the records: {}{}{}", code.name(), told(*code, message.as_deref()), if *may_be_written { doubt(true) } else { "" })]
    Refused {
        /// Kafka's code.
        code: ErrorCode,
        /// What the broker says about it.
        message: Option<String>,
        /// Whether an earlier try has no answer, so that they may be in the log all the same.
        may_be_written: bool,
    },
    /// Time ran out.
    #[error("not acknowledged within delivery.timeout.ms{}{}{}", said(*last), because(trouble.as_deref()), doubt(*may_be_written))]
    TimedOut {
        /// The last refusal, if there was one.
        last: Option<ErrorCode>,
        /// What else was in the way since they were taken, for people: why a connection ended, or what the
        /// cluster says of the topic.
        trouble: Option<Arc<str>>,
        /// Whether they were sent and the answer is missing, so that they may be in the log all the same.
        may_be_written: bool,
    },
    /// The producer can write nothing more, these as little as any others.
    #[error("the producer failed: {}{}", code.message(), doubt(*may_be_written))]
    Failed {
        /// Kafka's code.
        code: ErrorCode,
        /// Whether they were sent, so that they may be in the log all the same.
        may_be_written: bool,
    },
    /// The producer was closed before they were acknowledged.
    #[error("the producer was closed first{}", doubt(*may_be_written))]
    Closed {
        /// Whether they were sent, so that they may be in the log all the same.
        may_be_written: bool,
    },
}

fn doubt(may_be_written: bool) -> &'static str {
    if may_be_written { "; the records may have been written" } else { "; the records were not written" }
}

/// What a broker says about a refusal, or what is to be done about one of which it says nothing.
fn told(code: ErrorCode, message: Option<&str>) -> String {
    match (message, code) {
        (Some(text), _) => format!(": {text}"),
        (None, ErrorCode::MessageTooLarge) => {
            ": a batch is larger than max.message.bytes of the topic; one of several records is split first"
                .to_owned()
        }
        (None, _) => String::new(),
    }
}

fn because(why: Option<&str>) -> String {
    why.map(|why| format!(": {why}")).unwrap_or_default()
}

fn said(last: Option<ErrorCode>) -> String {
    // That there was no answer is what the client itself calls so.
    last.filter(|&code| code != ErrorCode::NetworkException)
        .map(|code| format!(" (the broker last said {})", code.name()))
        .unwrap_or_default()
}

impl DeliveryError {
    /// Whether the records may be in the log although this error says they were not acknowledged.
    pub const fn may_be_written(&self) -> bool {
        match self {
            Self::Refused { may_be_written, .. }
            | Self::TimedOut { may_be_written, .. }
            | Self::Failed { may_be_written, .. }
            | Self::Closed { may_be_written } => *may_be_written,
        }
    }

    /// Whether the same records may be written if they are sent again.
    pub const fn is_retriable(&self) -> bool {
        match self {
            Self::Refused { code, .. } => code.is_retriable(),
            Self::TimedOut { .. } => true,
            Self::Failed { .. } | Self::Closed { .. } => false,
        }
    }

    /// Whether the producer is of no use any more: another is needed, whether for these records or others.
    pub const fn is_fatal(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Closed { .. })
    }
}
