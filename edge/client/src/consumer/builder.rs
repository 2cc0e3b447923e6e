//! The settings of a consumer, chosen one by one.

mod group;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::Duration;

use base::Effects;
use client_core::Chance;
use client_core::consumer::{self as core, ConsumerSettings, Isolation, Reset};
use client_core::group::GroupSettings;
use parking_lot::Mutex;
use records::Scratch;

use super::{Consumer, Shared, State, drive};
use crate::address;
use crate::clock::Clock;
use crate::driver::Driver;
use crate::producer::{BuildError, PropertyError};
use crate::waits::{self, Waits};
use crate::wires::Spare;

/// Chooses the settings of a [`Consumer`]. The names in the documentation are Kafka's.
#[derive(Debug, Clone)]
#[must_use]
pub struct ConsumerBuilder {
    bootstrap_servers: String,
    settings: ConsumerSettings,
    /// Without a name there is none.
    group: GroupSettings,
}

impl ConsumerBuilder {
    pub(super) fn new(bootstrap_servers: &str) -> Self {
        Self {
            bootstrap_servers: bootstrap_servers.to_owned(),
            settings: ConsumerSettings::default(),
            group: GroupSettings::new(""),
        }
    }

    /// `isolation.level`.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.settings.isolation = isolation;
        self
    }

    /// `auto.offset.reset`: where to go on when the position is not in the log any more.
    pub fn reset(mut self, reset: Reset) -> Self {
        self.settings.reset = reset;
        self
    }

    /// `fetch.min.bytes`.
    pub fn fetch_bytes_min(mut self, bytes: i32) -> Self {
        self.settings.fetch_bytes_min = bytes;
        self
    }

    /// `fetch.max.wait.ms`.
    pub fn fetch_wait_max(mut self, wait: Duration) -> Self {
        self.settings.fetch_wait_max = wait;
        self
    }

    /// `fetch.max.bytes`: of one answer.
    pub fn fetch_bytes_max(mut self, bytes: i32) -> Self {
        self.settings.fetch_bytes_max = bytes;
        self
    }

    /// `max.partition.fetch.bytes`.
    pub fn partition_bytes_max(mut self, bytes: i32) -> Self {
        self.settings.partition_bytes_max = bytes;
        self
    }

    /// How many bytes may wait unread before nothing more is asked for.
    pub fn prefetch_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.prefetch_bytes_max = bytes;
        self
    }

    /// `check.crcs`; on unless chosen.
    pub fn check_crcs(mut self, is_on: bool) -> Self {
        self.settings.check_crcs = is_on;
        self
    }

    /// `client.rack`: where it is. Brokers whose `replica.selector.class` is rack-aware have it read from a replica
    /// there (KIP-392), and assignors that look at it give it partitions that have one.
    pub fn rack(mut self, rack: &str) -> Self {
        self.settings.rack = Some(rack.into());
        self
    }

    /// `request.timeout.ms`.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.links.request_timeout = timeout;
        self
    }

    /// `client.id`.
    pub fn client_id(mut self, id: &str) -> Self {
        self.settings.links.client_id = id.into();
        self
    }

    /// Takes a setting by the name that Kafka's clients have for it.
    pub fn set(self, name: &str, value: &str) -> Result<Self, PropertyError> {
        let wrong = |wanted| PropertyError::Value { name: name.to_owned(), value: value.to_owned(), wanted };
        let bytes = || value.trim().parse().map_err(|_| wrong("a number of bytes"));
        let time = || {
            let milliseconds = value.trim().parse().map_err(|_| wrong("a number of milliseconds"))?;
            Ok(Duration::from_millis(milliseconds))
        };
        Ok(match name {
            "fetch.min.bytes" => self.fetch_bytes_min(bytes()?),
            "fetch.max.bytes" => self.fetch_bytes_max(bytes()?),
            "max.partition.fetch.bytes" => self.partition_bytes_max(bytes()?),
            "fetch.max.wait.ms" => self.fetch_wait_max(time()?),
            "request.timeout.ms" => self.request_timeout(time()?),
            "check.crcs" => self.check_crcs(value.trim().parse().map_err(|_| wrong("true or false"))?),
            "client.id" => self.client_id(value),
            "client.rack" => self.rack(value.trim()),
            "isolation.level" => match value.trim() {
                "read_uncommitted" => self.isolation(Isolation::ReadUncommitted),
                "read_committed" => self.isolation(Isolation::ReadCommitted),
                _ => return Err(wrong("read_uncommitted or read_committed")),
            },
            "auto.offset.reset" => match value.trim() {
                "earliest" => self.reset(Reset::Earliest),
                "latest" => self.reset(Reset::Latest),
                "none" => self.reset(Reset::None),
                _ => return Err(wrong("earliest, latest or none")),
            },
            name if group::is_setting(name) => self.set_of_group(name, value)?,
            _ => {
                let mut builder = self;
                let ConsumerSettings { retry, metadata_age_max, links, .. } = &mut builder.settings;
                let waits = Waits { retry, metadata_age_max, links };
                let Some(wait) = waits.named(name) else {
                    return Err(PropertyError::Unknown { name: name.to_owned(), of: "consumer" });
                };
                *wait = time()?;
                builder
            }
        })
    }

    /// What is chosen so far, by Kafka's names, with the defaults of the rest: for a tool to show.
    pub fn properties(&self) -> Vec<(&'static str, String)> {
        let settings = &self.settings;
        let isolation = match settings.isolation {
            Isolation::ReadUncommitted => "read_uncommitted",
            Isolation::ReadCommitted => "read_committed",
        };
        let reset = match settings.reset {
            Reset::Earliest => "earliest",
            Reset::Latest => "latest",
            Reset::None => "none",
        };
        let mut all = self.group_properties();
        all.extend([
            ("fetch.min.bytes", settings.fetch_bytes_min.to_string()),
            ("fetch.max.bytes", settings.fetch_bytes_max.to_string()),
            ("max.partition.fetch.bytes", settings.partition_bytes_max.to_string()),
            ("fetch.max.wait.ms", settings.fetch_wait_max.as_millis().to_string()),
            ("check.crcs", settings.check_crcs.to_string()),
            ("isolation.level", isolation.to_owned()),
            ("auto.offset.reset", reset.to_owned()),
            ("request.timeout.ms", settings.links.request_timeout.as_millis().to_string()),
            // Kafka has no such setting.
            ("prefetch.bytes", settings.prefetch_bytes_max.to_string()),
        ]);
        all.extend(settings.rack.iter().map(|rack| ("client.rack", rack.to_string())));
        all
    }

    /// Starts the consumer. Connections are made when something is assigned.
    pub fn build(self) -> Result<Consumer, BuildError> {
        let bootstrap = address::parse(&self.bootstrap_servers)?;
        check(&self.settings)?;
        let group = self.build_group(&bootstrap)?;
        let core = core::Consumer::new(self.settings, bootstrap, Chance::new(rand::random()));
        let spare = Spare::default();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                core,
                effects: Effects::new(),
                group,
                arrived: VecDeque::new(),
                reader: None,
                is_stopping: false,
                has_ended: false,
            }),
            driver: Driver::new(spare.clone())?,
            clock: Clock::start(),
            spare,
            has_rebalances: AtomicBool::new(false),
            asked: AtomicU64::new(0),
        });
        let driven = shared.clone();
        let run = move || {
            let end = drive::End(driven);
            end.0.driver.run(&*end.0);
        };
        let thread = thread::Builder::new().name("consumer".to_owned()).spawn(run)?;
        Ok(Consumer {
            shared,
            thread: Some(thread),
            current: None,
            unglanced_bytes: 0,
            rest: None,
            scratch: Scratch::default(),
            listener: None,
            is_closed: false,
            is_dropped: false,
        })
    }
}

/// A longer answer might not fit a frame, with what stands around the records.
const FETCH_BYTES_MAX: i32 = 200 << 20;
/// Short enough to be added to any time.
const REQUEST_TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

fn check(settings: &ConsumerSettings) -> Result<(), BuildError> {
    let wrong = |what| Err(BuildError::Settings(what));
    if settings.prefetch_bytes_max == 0 {
        return wrong("at least 1 byte must be allowed to wait unread");
    }
    if !(1..=FETCH_BYTES_MAX).contains(&settings.fetch_bytes_max) {
        return wrong("fetch.max.bytes must be between 1 byte and 200 MiB");
    }
    if settings.partition_bytes_max < 1 {
        return wrong("max.partition.fetch.bytes must be 1 at least");
    }
    if settings.links.client_id.len() > 1024 {
        return wrong("client.id must be 1024 bytes at most");
    }
    if settings.rack.as_ref().is_some_and(|rack| rack.len() > 1024) {
        return wrong("client.rack must be 1024 bytes at most");
    }
    if settings.links.request_timeout > REQUEST_TIMEOUT_MAX {
        return wrong("request.timeout.ms must be a day at most");
    }
    if !waits::are_in_bounds(&settings.retry, settings.metadata_age_max, &settings.links) {
        return wrong(waits::OUT_OF_BOUNDS);
    }
    if settings.fetch_wait_max >= settings.links.request_timeout {
        return wrong("fetch.max.wait.ms must be less than request.timeout.ms");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_would_never_read_are_refused() {
        let refused: [fn(ConsumerBuilder) -> ConsumerBuilder; 10] = [
            |builder| builder.client_id(&"x".repeat(1_025)),
            |builder| builder.rack(&"x".repeat(1_025)),
            |builder| builder.prefetch_bytes_max(0),
            |builder| builder.fetch_bytes_max(0),
            |builder| builder.fetch_bytes_max(FETCH_BYTES_MAX + 1),
            |builder| builder.partition_bytes_max(0),
            |builder| builder.fetch_wait_max(Duration::from_secs(30)),
            |builder| builder.fetch_wait_max(Duration::MAX),
            |builder| builder.request_timeout(Duration::from_millis(500)),
            |builder| builder.request_timeout(Duration::MAX),
        ];
        for (number, choose) in refused.into_iter().enumerate() {
            let built = choose(Consumer::builder("127.0.0.1:1")).build();
            assert!(matches!(built, Err(BuildError::Settings(_))), "{number}");
        }
        assert!(Consumer::builder("127.0.0.1:1").build().is_ok());
    }
}
