//! What can go wrong between a client and a cluster.

use std::io;
use std::time::Duration;

use base::ErrorCode;
use wire::{ApiKey, DecodeError, EncodeError, FrameError};

/// Why a request has no answer, or what the answer refused.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers at the address.
    #[error("cannot connect to {address}: {reason}")]
    Connect {
        /// Host and port, as they were given.
        address: String,
        /// What the system says.
        reason: io::Error,
    },
    /// The connection broke.
    #[error("the connection to {address} broke: {reason}")]
    Broken {
        /// The broker.
        address: String,
        /// What the system says.
        reason: io::Error,
    },
    /// The broker closed the connection: that is how it answers what it cannot read or does not allow.
    #[error("{address} closed the connection with {unanswered} requests unanswered")]
    Closed {
        /// The broker.
        address: String,
        /// How many requests it leaves without an answer.
        unanswered: usize,
    },
    /// The answer did not come in time.
    #[error("no answer from {address} within {} ms", after.as_millis())]
    TimedOut {
        /// The broker.
        address: String,
        /// How long it was waited for.
        after: Duration,
    },
    /// Broker and client have no version of the API in common.
    #[error("{address} does not speak any version of {api} that this client knows")]
    Unsupported {
        /// The broker.
        address: String,
        /// The API.
        api: ApiKey,
    },
    /// Answers come in the order of the requests; this one did not.
    #[error("the answer to request {expected} was due, but that to {found} came")]
    OutOfOrder {
        /// The correlation id that was due.
        expected: i32,
        /// The one that came.
        found: i32,
    },
    /// An earlier request failed: its answer may still come, so nothing more can be asked here.
    #[error("the connection to {address} is of no use since a request on it failed: connect anew")]
    GivenUp {
        /// The broker.
        address: String,
    },
    /// A request whose answer is waited for must be the only one.
    #[error("{0} requests are in flight: take their answers first")]
    InFlight(usize),
    /// An answer was waited for that no request asked for.
    #[error("no request is in flight")]
    NothingInFlight,
    /// The size of an answer makes no sense.
    #[error("the answer is no frame: {0}")]
    Frame(#[from] FrameError),
    /// The answer cannot be read.
    #[error("the answer cannot be read: {0}")]
    Decode(#[from] DecodeError),
    /// The request cannot be said in the version.
    #[error("the request cannot be written: {0}")]
    Encode(#[from] EncodeError),
    /// The broker answered, and the answer is no.
    #[error("{what}: {}{}", code.name(), message.as_ref().map(|text| format!(": {text}")).unwrap_or_default())]
    Refused {
        /// What was asked for: `topic orders`, `setting retention.ms`, …
        what: String,
        /// Kafka's code.
        code: ErrorCode,
        /// What the broker says about it.
        message: Option<String>,
    },
    /// The answer lacks what was asked for.
    #[error("the answer says nothing about {0}")]
    Missing(String),
}

impl ClientError {
    /// Whether the same request may succeed later.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::Broken { .. }
            | Self::Closed { .. }
            | Self::TimedOut { .. }
            | Self::GivenUp { .. } => true,
            Self::Refused { code, .. } => code.is_retriable(),
            Self::Unsupported { .. }
            | Self::OutOfOrder { .. }
            | Self::InFlight(_)
            | Self::NothingInFlight
            | Self::Frame(_)
            | Self::Decode(_)
            | Self::Encode(_)
            | Self::Missing(_) => false,
        }
    }

    /// Fails if a broker's code in an answer about `what` is not "no error".
    pub fn check(what: impl Fn() -> String, code: i16, message: Option<&str>) -> Result<(), Self> {
        let code = ErrorCode::from_i16(code).unwrap_or(ErrorCode::UnknownServerError);
        if code.is_none() {
            return Ok(());
        }
        let message = message.filter(|text| !text.is_empty()).unwrap_or(code.message());
        Err(Self::Refused { what: what(), code, message: Some(message.to_owned()) })
    }
}
