//! The settings of a producer, chosen one by one.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use base::Effects;
use client_core::Chance;
use client_core::producer::{self as core, Acks, ProducerSettings};
use parking_lot::Mutex;
use records::Compression;

use super::delivery::{DeliveryReport, OnDelivery, Reported};
use super::partitioner::{Partitioner, Unplaced};
use super::{Lease, Producer, Shared, State, drive};
use crate::address::{self, AddressError};
use crate::clock::{Clock, Reading};
use crate::driver::Driver;
use crate::waits::{self, Waits};
use crate::wires::Spare;

/// Why there is no producer.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The bootstrap servers cannot be read.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Settings that do not go together, or a value that makes no sense.
    #[error("{0}")]
    Settings(&'static str),
    /// The system gives it no thread, or nothing to wait for sockets with.
    #[error("the client's thread cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// Chooses the settings of a [`Producer`]. The names in the documentation are Kafka's.
#[derive(Clone)]
#[must_use]
pub struct ProducerBuilder {
    bootstrap_servers: String,
    settings: ProducerSettings,
    is_idempotence_chosen: bool,
    block_max: Duration,
    on_delivery: Option<OnDelivery>,
    partitioner: Option<Partitioner>,
    /// By the name of the codec.
    levels: Vec<(&'static str, i32)>,
}

impl ProducerBuilder {
    pub(super) fn new(bootstrap_servers: &str) -> Self {
        Self {
            bootstrap_servers: bootstrap_servers.to_owned(),
            settings: ProducerSettings::default(),
            is_idempotence_chosen: false,
            block_max: Duration::from_secs(60),
            on_delivery: None,
            partitioner: None,
            levels: Vec::new(),
        }
    }

    /// `acks`; all in-sync replicas unless chosen. Without all of them the producer is not idempotent.
    pub fn acks(mut self, acks: Acks) -> Self {
        self.settings.acks = acks;
        self
    }

    /// `enable.idempotence`; on unless chosen, if `acks` allows it.
    pub fn idempotence(mut self, is_on: bool) -> Self {
        self.settings.idempotence = is_on;
        self.is_idempotence_chosen = true;
        self
    }

    /// `batch.size`, in bytes.
    pub fn batch_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.batch_bytes_max = bytes;
        self
    }

    /// `linger.ms`: how long the first record of a batch waits for others although it could leave, and after
    /// which it leaves although other requests are without their answer. 0: as soon as there is none.
    /// Records gather anyway while a request is on its way, so there is seldom a reason for it.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.settings.linger = linger;
        self
    }

    /// `buffer.memory`, in bytes.
    pub fn memory_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.memory_bytes_max = bytes;
        self
    }

    /// `max.request.size`, in bytes.
    pub fn request_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.request_bytes_max = bytes;
        self
    }

    /// `max.in.flight.requests.per.connection`.
    pub fn in_flight_max(mut self, requests: usize) -> Self {
        self.settings.in_flight_max = requests;
        self
    }

    /// `compression.type`, and how hard.
    pub fn compression(mut self, compression: Compression, level: Option<i32>) -> Self {
        self.settings.compression = compression;
        self.settings.compression_level = level;
        self
    }

    pub(super) fn level_of(mut self, codec: &'static str, level: i32) -> Self {
        self.levels.push((codec, level));
        self
    }

    pub(super) fn waits(&mut self) -> Waits<'_> {
        let ProducerSettings { retry, metadata_age_max, links, .. } = &mut self.settings;
        Waits { retry, metadata_age_max, links }
    }

    pub(super) const fn compression_level(&self) -> Option<i32> {
        self.settings.compression_level
    }

    /// `delivery.timeout.ms`: from `send` to the last word about the record.
    pub fn delivery_timeout(mut self, timeout: Duration) -> Self {
        self.settings.delivery_timeout = timeout;
        self
    }

    /// `request.timeout.ms`.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.links.request_timeout = timeout;
        self.settings.acks_timeout = timeout;
        self
    }

    /// `client.id`.
    pub fn client_id(mut self, id: &str) -> Self {
        self.settings.links.client_id = id.into();
        self
    }

    /// `max.block.ms`: how long `send` waits for room, or for the first word about a topic.
    pub fn block_max(mut self, time: Duration) -> Self {
        self.block_max = time;
        self
    }

    /// Calls this for every batch whose fate is known, with its records. It runs on the
    /// producer's own thread: what it takes, the next request waits, and what it waits for of this
    /// producer never comes.
    pub fn on_delivery(mut self, report: impl Fn(&DeliveryReport<'_>) + Send + Sync + 'static) -> Self {
        self.on_delivery = Some(Arc::new(report));
        self
    }

    /// How hard the codec that is chosen is to try; its own level if `None`.
    fn level_chosen(&self) -> Option<i32> {
        let chosen = self.settings.compression.name();
        let of_codec = || self.levels.iter().rfind(|(name, _)| *name == chosen).map(|&(_, level)| level);
        self.settings.compression_level.or_else(of_codec)
    }

    /// What is chosen so far, by Kafka's names, with the defaults of the rest: for a tool to show.
    pub fn properties(&self) -> Vec<(&'static str, String)> {
        let settings = &self.settings;
        let acks = match settings.acks {
            Acks::None => "0",
            Acks::Leader => "1",
            Acks::All => "all",
        };
        let is_idempotent =
            if self.is_idempotence_chosen { settings.idempotence } else { settings.acks == Acks::All };
        let ms = |time: Duration| time.as_millis().to_string();
        let mut properties = vec![
            ("acks", acks.to_owned()),
            ("enable.idempotence", is_idempotent.to_string()),
            ("batch.size", settings.batch_bytes_max.to_string()),
            ("linger.ms", ms(settings.linger)),
            ("compression.type", settings.compression.name().to_owned()),
            ("buffer.memory", settings.memory_bytes_max.to_string()),
            ("max.request.size", settings.request_bytes_max.to_string()),
            ("max.in.flight.requests.per.connection", settings.in_flight_max.to_string()),
            ("delivery.timeout.ms", ms(settings.delivery_timeout)),
            ("request.timeout.ms", ms(settings.links.request_timeout)),
            ("max.block.ms", ms(self.block_max)),
        ];
        let level =
            self.level_chosen().map_or_else(|| "the codec's own".to_owned(), |level| level.to_string());
        match settings.compression {
            Compression::None | Compression::Snappy => {}
            Compression::Gzip => properties.push(("compression.gzip.level", level)),
            Compression::Lz4 => properties.push(("compression.lz4.level", level)),
            Compression::Zstd => properties.push(("compression.zstd.level", level)),
        }
        properties
    }

    /// Chooses partitions, where [`Record::partition`](super::Record::partition) does not: by the index, or
    /// `None` to have the choice made as without this. It runs in every `send`, on the thread that sends.
    /// An index that the topic does not have is an error of `send`.
    ///
    /// ```
    /// # use vltava_client::producer::{Producer, Unplaced};
    /// // What is urgent goes to the first partition; the rest goes by its key, or where there is room.
    /// let choose = |record: &Unplaced<'_>| (record.key == Some(b"urgent")).then_some(0);
    /// let producer = Producer::builder("127.0.0.1:9092").partitioner(choose).build()?;
    /// # Ok::<(), vltava_client::producer::BuildError>(())
    /// ```
    pub fn partitioner(
        mut self,
        choose: impl Fn(&Unplaced<'_>) -> Option<i32> + Send + Sync + 'static,
    ) -> Self {
        self.partitioner = Some(Arc::new(choose));
        self
    }

    /// Starts the producer. Connections are made when there is something to ask.
    pub fn build(mut self) -> Result<Producer, BuildError> {
        let bootstrap = address::parse(&self.bootstrap_servers)?;
        if !self.is_idempotence_chosen {
            self.settings.idempotence = self.settings.acks == Acks::All;
        }
        self.settings.compression_level = self.level_chosen();
        check(&self.settings)?;
        // A batch has to fit into a request.
        self.settings.batch_bytes_max = self.settings.batch_bytes_max.min(self.settings.request_bytes_max);
        if self.on_delivery.is_some() {
            self.settings.kept_bytes_per_record = size_of::<Reported>();
        }
        let chance = Chance::new(rand::random());
        let compression = (self.settings.compression, self.settings.compression_level);
        let compressors = (compression.0 != Compression::None).then(drive::compressors).transpose()?;
        let driver = Driver::new(Spare::default())?;
        let shared = Arc::new_cyclic(|itself| Shared {
            state: Mutex::new(State {
                core: core::Producer::new(self.settings, bootstrap, chance),
                effects: Effects::new(),
                fates: Vec::new(),
                reported: Vec::new(),
                unreported: Vec::new(),
                settling: Vec::new(),
                reported_spare: Vec::new(),
                reading: Reading::default(),
                waiting: super::Waiting::default(),
                is_stopping: false,
            }),
            driver,
            compressed: Mutex::default(),
            itself: itself.clone(),
            clock: Clock::start(),
            block_max: self.block_max,
            compression,
            compressors,
            on_delivery: self.on_delivery,
            partitioner: self.partitioner,
        });
        let driven = shared.clone();
        let run = move || {
            let end = drive::End(driven);
            end.0.driver.run(&*end.0);
        };
        let thread = thread::Builder::new().name("producer".to_owned()).spawn(run)?;
        let lease = Lease { shared: shared.clone(), thread: Mutex::new(Some(thread)) };
        Ok(Producer { shared, _lease: Arc::new(lease) })
    }
}

/// A broker may ask for half of a batch, which is decompressed for that, and no more than this.
const COMPRESSED_BATCH_BYTES_MAX: usize = 256 << 20;

fn check(settings: &ProducerSettings) -> Result<(), BuildError> {
    let wrong = |what| Err(BuildError::Settings(what));
    if settings.idempotence && settings.acks != Acks::All {
        return wrong("enable.idempotence needs acks=all");
    }
    if settings.idempotence && settings.in_flight_max > 5 {
        return wrong("enable.idempotence allows at most 5 for max.in.flight.requests.per.connection");
    }
    if settings.in_flight_max == 0 {
        return wrong("max.in.flight.requests.per.connection must be 1 at least");
    }
    if settings.batch_bytes_max < 512 || settings.batch_bytes_max > 1 << 30 {
        return wrong("batch.size must be between 512 bytes and 1 GiB");
    }
    let batch_bytes = settings.batch_bytes_max.min(settings.request_bytes_max);
    if settings.compression != Compression::None && batch_bytes > COMPRESSED_BATCH_BYTES_MAX {
        return wrong("batch.size must be 256 MiB at most where batches are compressed");
    }
    if settings.request_bytes_max < 1024 || settings.request_bytes_max > 1 << 30 {
        return wrong("max.request.size must be between 1 KiB and 1 GiB");
    }
    if settings.links.client_id.len() > 1024 {
        return wrong("client.id must be 1024 bytes at most");
    }
    let times = [settings.delivery_timeout, settings.links.request_timeout, settings.linger];
    if times.iter().any(|&time| time > super::LONGEST) {
        return wrong("no timeout may be longer than a year");
    }
    if !waits::are_in_bounds(&settings.retry, settings.metadata_age_max, &settings.links) {
        return wrong(waits::OUT_OF_BOUNDS);
    }
    if settings.memory_bytes_max < settings.batch_bytes_max {
        return wrong("buffer.memory must be batch.size at least");
    }
    Ok(())
}
