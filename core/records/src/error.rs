//! Why bytes are not a batch, and the code of Kafka that says so.

use base::{ErrorCode, TimestampMs};

use crate::compress::DecompressError;

/// Why bytes are refused as a batch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The batch goes on after the bytes end.
    #[error("a batch needs {need} bytes, but there are {have}")]
    Truncated {
        /// What the header takes, or what it says the batch takes.
        need: usize,
        /// What there is.
        have: usize,
    },
    /// Bytes follow where one batch was expected.
    #[error("{0} bytes follow the batch")]
    Trailing(usize),
    /// A length below that of a header, or past what a file can hold.
    #[error("the batch says its length is {0}")]
    Length(i32),
    /// A format other than 2.
    #[error("the batch has format {0}; only format 2 is supported")]
    Magic(i8),
    /// More bytes than allowed.
    #[error("the batch has {size} bytes, more than the {max} allowed")]
    TooLarge {
        /// Bytes of the batch.
        size: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The bytes are not those that were written.
    #[error("the batch says its checksum is {said:#010x}, but it is {is:#010x}")]
    Crc {
        /// The one in the header.
        said: u32,
        /// The one of the bytes.
        is: u32,
    },
    /// A compression that does not exist.
    #[error("the batch has unknown compression {0}")]
    Compression(u8),
    /// The records cannot be decompressed.
    #[error("the records cannot be decompressed: {0}")]
    Decompress(#[from] DecompressError),
    /// A producer's batch starts at 0; the leader gives it its place.
    #[error("the batch starts at offset {0} instead of 0")]
    BaseOffset(i64),
    /// A stored batch whose offsets are negative, run out, or are fewer than its records.
    #[error("the batch has {records} records at offsets {base} to {base} + {delta}")]
    Offsets {
        /// Its base offset.
        base: i64,
        /// Its last offset delta.
        delta: i32,
        /// How many records it says it has.
        records: i32,
    },
    /// The count of records is not that of offsets, or there is none.
    #[error("the batch has {records} records, but its last offset delta is {delta}")]
    Count {
        /// How many records it says it has.
        records: i32,
        /// Its last offset delta.
        delta: i32,
    },
    /// A record that cannot be read.
    #[error("record {index} of the batch {what}")]
    Record {
        /// Its place in the batch.
        index: i32,
        /// What is wrong.
        what: Malformed,
    },
    /// Bytes are left when all records were read.
    #[error("{0} bytes follow the last record of the batch")]
    RecordsTrailing(usize),
    /// A compressed record that is larger than allowed once it is not.
    #[error("record {index} of the batch has {size} bytes decompressed, more than the {max} allowed")]
    RecordTooLarge {
        /// Its place in the batch.
        index: i32,
        /// Its bytes.
        size: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// A compacted topic keeps the newest record of a key, so a record must have one.
    #[error("record {index} of the batch has no key, which a compacted topic requires")]
    KeyMissing {
        /// Its place in the batch.
        index: i32,
    },
    /// Only brokers write control batches.
    #[error("clients may not write control batches")]
    Control,
    /// Only brokers mark batches for deletion.
    #[error("clients may not set a delete horizon")]
    DeleteHorizon,
    /// Only brokers stamp the time of appending.
    #[error("clients may not set the timestamp type to LogAppendTime")]
    TimestampType,
    /// A timestamp that runs out of its range.
    #[error("record {index} of the batch lies {delta} ms after {base}")]
    Timestamp {
        /// Its place in the batch.
        index: i32,
        /// The batch's base timestamp.
        base: TimestampMs,
        /// The record's delta.
        delta: i64,
    },
    /// A producer id without an epoch or a sequence, or a transaction without a producer id.
    #[error(
        "producer {id}, epoch {epoch}, sequence {sequence}{} do not go together",
        if *.transactional { ", in a transaction," } else { "" }
    )]
    Producer {
        /// The producer id.
        id: i64,
        /// The producer epoch.
        epoch: i16,
        /// The first sequence.
        sequence: i32,
        /// Whether the batch is part of a transaction.
        transactional: bool,
    },
}

/// What is wrong with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Its length is no number, negative, or goes past the batch.
    #[error("has a wrong length")]
    Length,
    /// Its attributes, timestamp or offset are missing or too long.
    #[error("has a wrong attribute, timestamp or offset field")]
    Fields,
    /// Its key goes past the record.
    #[error("has a wrong key length")]
    Key,
    /// Its value goes past the record.
    #[error("has a wrong value length")]
    Value,
    /// Its headers are miscounted or go past the record.
    #[error("has wrong headers")]
    Headers,
    /// Its fields end before its length.
    #[error("is longer than its fields")]
    Leftover,
    /// Its offset is not one more than that of the record before.
    #[error("has a wrong offset delta")]
    OffsetDelta,
}

impl BatchError {
    /// The code Kafka gives for it.
    ///
    /// A client retries CORRUPT_MESSAGE, so it stands for damage on the way; what the producer wrote
    /// wrong is INVALID_RECORD, and it splits a batch after MESSAGE_TOO_LARGE.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::Length(_) | Self::Crc { .. } | Self::Offsets { .. } => ErrorCode::CorruptMessage,
            // Formats 0 and 1 are old producers; there has never been another.
            Self::Magic(magic) if !(0..=1).contains(magic) => ErrorCode::CorruptMessage,
            Self::TooLarge { .. } | Self::Decompress(DecompressError::TooLarge { .. }) => {
                ErrorCode::MessageTooLarge
            }
            Self::Compression(_) => ErrorCode::UnsupportedCompressionType,
            Self::TimestampType | Self::Timestamp { .. } => ErrorCode::InvalidTimestamp,
            Self::Truncated { .. }
            | Self::Trailing(_)
            | Self::Magic(_)
            | Self::Decompress(_)
            | Self::BaseOffset(_)
            | Self::Count { .. }
            | Self::Record { .. }
            | Self::RecordsTrailing(_)
            | Self::RecordTooLarge { .. }
            | Self::KeyMissing { .. }
            | Self::Control
            | Self::DeleteHorizon
            | Self::Producer { .. } => ErrorCode::InvalidRecord,
        }
    }
}
