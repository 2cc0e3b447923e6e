//! The settings of an admin, chosen one by one.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use base::Effects;
use client_core::Chance;
use client_core::admin::{self as core, AdminSettings};
use parking_lot::Mutex;

use super::{Admin, LONGEST, Lease, Shared, State, drive};
use crate::address;
use crate::clock::Clock;
use crate::driver::Driver;
use crate::producer::{BuildError, PropertyError};
use crate::wires::Spare;

/// Chooses the settings of an [`Admin`]. The names in the documentation are Kafka's.
#[derive(Debug, Clone)]
#[must_use]
pub struct AdminBuilder {
    bootstrap_servers: String,
    settings: AdminSettings,
    timeout: Duration,
}

impl AdminBuilder {
    pub(super) fn new(bootstrap_servers: &str) -> Self {
        Self {
            bootstrap_servers: bootstrap_servers.to_owned(),
            settings: AdminSettings::default(),
            timeout: Duration::from_secs(60),
        }
    }

    /// `default.api.timeout.ms`: how long a call may take, with all its tries.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// `request.timeout.ms`: how long one broker is waited for before another is asked.
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
    ///
    /// ```
    /// # use vltava_client::admin::Admin;
    /// let builder = Admin::builder("127.0.0.1:9092").set("request.timeout.ms", "5000")?;
    /// assert!(builder.set("acks", "all").is_err());
    /// # Ok::<(), vltava_client::producer::PropertyError>(())
    /// ```
    pub fn set(self, name: &str, value: &str) -> Result<Self, PropertyError> {
        let wanted = "a number of milliseconds";
        let wrong = || PropertyError::Value { name: name.to_owned(), value: value.to_owned(), wanted };
        let time = || value.trim().parse().map(Duration::from_millis).map_err(|_| wrong());
        Ok(match name {
            "default.api.timeout.ms" => self.timeout(time()?),
            "request.timeout.ms" => self.request_timeout(time()?),
            "client.id" => self.client_id(value),
            _ => return Err(PropertyError::Unknown { name: name.to_owned(), of: "admin" }),
        })
    }

    /// Starts the admin. Connections are made when there is something to ask.
    pub fn build(self) -> Result<Admin, BuildError> {
        let bootstrap = address::parse(&self.bootstrap_servers)?;
        if self.settings.links.client_id.len() > 1024 {
            return Err(BuildError::Settings("client.id must be 1024 bytes at most"));
        }
        if self.timeout.max(self.settings.links.request_timeout) > LONGEST {
            return Err(BuildError::Settings("no timeout may be longer than a year"));
        }
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                core: core::Admin::new(self.settings, bootstrap, Chance::new(rand::random())),
                effects: Effects::new(),
                waiting: HashMap::new(),
                is_stopping: false,
                has_ended: false,
            }),
            driver: Driver::new(Spare::default())?,
            clock: Clock::start(),
        });
        let driven = shared.clone();
        let run = move || {
            let end = drive::End(driven);
            end.0.driver.run(&*end.0);
        };
        let thread = thread::Builder::new().name("admin".to_owned()).spawn(run)?;
        let lease = Lease { shared: shared.clone(), thread: Mutex::new(Some(thread)) };
        Ok(Admin { shared, _lease: Arc::new(lease), timeout: self.timeout, is_dry_run: false })
    }
}
