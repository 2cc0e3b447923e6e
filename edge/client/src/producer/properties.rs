//! A producer's settings by Kafka's names, as property files and command lines have them.

use std::time::Duration;

use client_core::producer::Acks;

use super::ProducerBuilder;

/// Why a property was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// There is no such setting, or not here.
    #[error("{name} is not a setting of this {of}")]
    Unknown {
        /// What was said.
        name: String,
        /// Whose setting it should be: `producer`, `consumer` or `admin`.
        of: &'static str,
    },
    /// The setting has no such value.
    #[error("{name}={value}: {wanted}")]
    Value {
        /// The setting.
        name: String,
        /// What was said.
        value: String,
        /// What may be said.
        wanted: &'static str,
    },
}

impl ProducerBuilder {
    /// Takes a setting by the name that Kafka's clients have for it: `acks`, `linger.ms`, …
    ///
    /// ```
    /// # use vltava_client::producer::Producer;
    /// let builder = Producer::builder("127.0.0.1:9092").set("linger.ms", "5")?.set("compression.type", "zstd")?;
    /// assert!(builder.set("acks", "most").is_err());
    /// # Ok::<(), vltava_client::producer::PropertyError>(())
    /// ```
    pub fn set(self, name: &str, value: &str) -> Result<Self, PropertyError> {
        let of = |wanted| Property { name, value, wanted };
        Ok(match name {
            "acks" => self.acks(of("0, 1, all or -1").acks()?),
            "enable.idempotence" => self.idempotence(of("true or false").parse()?),
            "batch.size" => self.batch_bytes_max(of("a number of bytes").parse()?),
            "linger.ms" => self.linger(of(MILLISECONDS).duration()?),
            "buffer.memory" => self.memory_bytes_max(of("a number of bytes").parse()?),
            "max.request.size" => self.request_bytes_max(of("a number of bytes").parse()?),
            "max.in.flight.requests.per.connection" => {
                self.in_flight_max(of("a number of requests").parse()?)
            }
            "compression.type" => {
                let compression = of("none, gzip, snappy, lz4 or zstd").parse()?;
                let level = self.compression_level();
                self.compression(compression, level)
            }
            "compression.gzip.level" => self.level_of("gzip", of("a level").parse()?),
            "compression.lz4.level" => self.level_of("lz4", of("a level").parse()?),
            "compression.zstd.level" => self.level_of("zstd", of("a level").parse()?),
            "delivery.timeout.ms" => self.delivery_timeout(of(MILLISECONDS).duration()?),
            "request.timeout.ms" => self.request_timeout(of(MILLISECONDS).duration()?),
            "max.block.ms" => self.block_max(of(MILLISECONDS).duration()?),
            "client.id" => self.client_id(value),
            _ => {
                let mut builder = self;
                let Some(wait) = builder.waits().named(name) else {
                    return Err(PropertyError::Unknown { name: name.to_owned(), of: "producer" });
                };
                *wait = of(MILLISECONDS).duration()?;
                builder
            }
        })
    }
}

const MILLISECONDS: &str = "a number of milliseconds";

struct Property<'a> {
    name: &'a str,
    value: &'a str,
    wanted: &'static str,
}

impl Property<'_> {
    fn wrong(&self) -> PropertyError {
        let (name, value) = (self.name.to_owned(), self.value.to_owned());
        PropertyError::Value { name, value, wanted: self.wanted }
    }

    fn parse<T: std::str::FromStr>(&self) -> Result<T, PropertyError> {
        self.value.trim().parse().map_err(|_| self.wrong())
    }

    fn duration(&self) -> Result<Duration, PropertyError> {
        self.parse().map(Duration::from_millis)
    }

    fn acks(&self) -> Result<Acks, PropertyError> {
        match self.value.trim() {
            "0" => Ok(Acks::None),
            "1" => Ok(Acks::Leader),
            "all" | "-1" => Ok(Acks::All),
            _ => Err(self.wrong()),
        }
    }
}
