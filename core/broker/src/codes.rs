//! Kafka's codes for what a partition refuses.

use base::ErrorCode;
use replica::{AppendError, FetchError};
use storage::ProducerError;

/// Kafka's code for a failed read.
pub(crate) fn fetch_error(error: &FetchError) -> ErrorCode {
    match error {
        FetchError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        FetchError::Fenced { .. } => ErrorCode::FencedLeaderEpoch,
        FetchError::UnknownEpoch { .. } => ErrorCode::UnknownLeaderEpoch,
        FetchError::NotLeader | FetchError::UnknownReplica(_) => ErrorCode::NotLeaderOrFollower,
        FetchError::NotAvailable => ErrorCode::OffsetNotAvailable,
        FetchError::Disk(_) | FetchError::Retired => ErrorCode::KafkaStorageError,
        FetchError::Damaged(_) => ErrorCode::CorruptMessage,
    }
}

/// Kafka's code for a batch that was not appended.
pub(crate) fn append_error(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::Retired => ErrorCode::KafkaStorageError,
        AppendError::NotLeader => ErrorCode::NotLeaderOrFollower,
        AppendError::NotEnoughReplicas { .. } => ErrorCode::NotEnoughReplicas,
        AppendError::Log(error) => log_error(error),
    }
}

fn log_error(error: &storage::AppendError) -> ErrorCode {
    use storage::AppendError as Error;
    match error {
        Error::Poisoned(_) | Error::Disk(_) => ErrorCode::KafkaStorageError,
        Error::Fenced { .. } => ErrorCode::FencedLeaderEpoch,
        Error::TooLarge { .. } => ErrorCode::RecordListTooLarge,
        Error::NotNext { .. } | Error::OffsetsExhausted(_) => ErrorCode::KafkaStorageError,
        Error::Marker(_) => ErrorCode::InvalidRecord,
        Error::Producer(error) => match error {
            ProducerError::OldEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            ProducerError::OutOfSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
            ProducerError::InTransaction { .. } => ErrorCode::InvalidTxnState,
            ProducerError::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        },
    }
}
