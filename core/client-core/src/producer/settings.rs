//! How a producer behaves.

use std::time::Duration;

use records::Compression;

use crate::backoff::Backoff;
use crate::links::LinksSettings;

/// Who has to have a record before it counts as written; Kafka's `acks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// Nobody: no answer is waited for, and the offset is never known.
    None,
    /// The partition's leader.
    Leader,
    /// Every in-sync replica.
    All,
}

impl Acks {
    /// As the protocol says it.
    pub const fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

/// The settings of a producer, with the names and meanings of Kafka's.
#[derive(Clone, Debug)]
pub struct ProducerSettings {
    /// `acks`.
    pub acks: Acks,
    /// `enable.idempotence`: the broker refuses what it has, so that a retry never writes a record
    /// twice. Needs [`Acks::All`].
    pub idempotence: bool,
    /// `batch.size`, in bytes before compression. A batch leaves earlier when its connection is free.
    pub batch_bytes_max: usize,
    /// `linger.ms`: how long the first record of a batch waits for others although it could leave, and after
    /// which it leaves although other requests are without their answer. Zero: as soon as there is none.
    pub linger: Duration,
    /// `buffer.memory`, in bytes: what records that are not acknowledged may occupy.
    pub memory_bytes_max: usize,
    /// What the producer's user keeps for each record until it is done, in bytes: it counts as memory that
    /// the record occupies.
    pub kept_bytes_per_record: usize,
    /// `max.request.size`, in bytes, of a request and of a record before compression.
    pub request_bytes_max: usize,
    /// `max.in.flight.requests.per.connection`.
    pub in_flight_max: usize,
    /// `compression.type`.
    pub compression: Compression,
    /// `compression.*.level`; the codec's own if `None`.
    pub compression_level: Option<i32>,
    /// `delivery.timeout.ms`: from `send` to the last word about the record.
    pub delivery_timeout: Duration,
    /// How long the broker may take to have all replicas write; `request.timeout.ms` as it is sent.
    pub acks_timeout: Duration,
    /// `retry.backoff.ms` and `retry.backoff.max.ms`.
    pub retry: Backoff,
    /// `metadata.max.age.ms`.
    pub metadata_age_max: Duration,
    /// `metadata.max.idle.ms`: a topic that nothing was written to for so long is not asked for any more.
    pub metadata_idle_max: Duration,
    /// How to connect.
    pub links: LinksSettings,
}

impl Default for ProducerSettings {
    fn default() -> Self {
        Self {
            acks: Acks::All,
            idempotence: true,
            batch_bytes_max: 128 << 10,
            linger: Duration::ZERO,
            memory_bytes_max: 32 << 20,
            kept_bytes_per_record: 0,
            request_bytes_max: 1 << 20,
            in_flight_max: 5,
            compression: Compression::None,
            compression_level: None,
            delivery_timeout: Duration::from_secs(120),
            acks_timeout: Duration::from_secs(30),
            retry: Backoff { first: Duration::from_millis(100), max: Duration::from_secs(1) },
            metadata_age_max: Duration::from_secs(300),
            metadata_idle_max: Duration::from_secs(300),
            links: LinksSettings::default(),
        }
    }
}
