//! From a disk to a process that introduces itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{Effects, Uuid};
use broker::directories::LastStop;
use broker::lifecycle::{Lifecycle, LifecycleTimes};
use broker::replication::Proposals;
use controller::{Controller, ControllerSettings, InDoubt, RegisterBroker};
use coordinator::ShardSettings;
use metadata::settings::{BrokerSettings, Layers, TopicSettings};
use metadata::{ConfigResource, Endpoint, Image, Topic};
use records::Scratch;
use storage::dirs::LogDirError;
use storage::disk::Disk;

use super::cell::Outbox;
use super::command::Commands;
use super::doors::Doors;
use super::home::Home;
use super::host::Placing;
use super::keep::Upkeep;
use super::{CLUSTER, Process, Times};
use crate::cluster::plant::{Heard, Plant};
use crate::cluster::quorum::broker;

/// What a process is begun with.
pub(crate) struct Boot {
    pub(crate) node: usize,
    pub(crate) life: u32,
    pub(crate) seed: u64,
    pub(crate) settings: BrokerSettings,
    pub(crate) times: Times,
    pub(crate) shard_settings: ShardSettings,
    pub(crate) plant: Option<Plant>,
    pub(crate) disk: Arc<dyn Disk>,
}

impl Process {
    pub(crate) fn begin(boot: Boot) -> Result<Self, LogDirError> {
        let Boot { node, life, seed, settings, times, shard_settings, plant, disk } = boot;
        let id = broker(node);
        let salt = seed ^ (node as u64) << 56 ^ u64::from(life) << 32;
        let homes = Home::open_all(&disk, &settings.log_dirs, node, salt)?;
        let controller = Controller::new(ControllerSettings {
            cluster_id: Some(CLUSTER.to_owned()),
            ..ControllerSettings::from(&settings)
        });
        let mut process = Self {
            node,
            life,
            id,
            settings,
            times,
            plant,
            disk,
            homes,
            controller,
            decided: Effects::new(),
            active: None,
            led_at: None,
            image: Arc::new(Image::default()),
            lifecycle: None,
            lived: Effects::new(),
            epoch: None,
            is_acting: false,
            cells: BTreeMap::new(),
            doors: Arc::new(Doors::new(salt)),
            outbox: Arc::new(Outbox::default()),
            placing: Placing::default(),
            offline: BTreeMap::new(),
            incoming: BTreeMap::new(),
            waiters: BTreeMap::new(),
            commands: Commands::default(),
            follows: BTreeMap::new(),
            followed: BTreeMap::new(),
            proposals: Proposals::default(),
            proposals_at: None,
            flushes: BTreeMap::new(),
            suspects: BTreeMap::new(),
            shard_settings,
            loads: BTreeMap::new(),
            compacting: None,
            heard: Heard::default(),
            upkeep: Upkeep::default(),
            conn_next: 0,
            waiter_next: 0,
            scratch: Scratch::default(),
            acts: VecDeque::new(),
            has_ended: false,
        };
        process.introduce();
        Ok(process)
    }

    /// What it will say of itself.
    fn introduce(&mut self) {
        let incarnation = Uuid::from_random(u128::from(self.life) << 64 | (self.node as u128 + 1) << 32);
        let endpoint = |listener: &str, port| Endpoint {
            listener: listener.to_owned(),
            host: format!("node-{}", self.node),
            port,
            security_protocol: 0,
        };
        let LastStop { after_crash, previous_epoch, in_doubt } = self.last_stop();
        let is_silent = self.plant == Some(Plant::DoubtUnsaid);
        let in_doubt = if is_silent { InDoubt::Nothing } else { in_doubt };
        let registration = RegisterBroker {
            id: self.id,
            incarnation,
            cluster_id: CLUSTER.to_owned(),
            endpoints: vec![endpoint("PLAINTEXT", 9092)],
            cluster_address: Some(endpoint(Endpoint::CLUSTER, 9093)),
            features: Vec::new(),
            rack: None,
            log_dirs: self.homes.iter().map(|home| home.dir.id()).collect(),
            after_crash,
            previous_epoch,
            in_doubt,
            is_voter: true,
        };
        self.acts.push_back(super::Act::Say(format!(
            "begins; crashed: {}, in doubt: {:?}",
            registration.after_crash, registration.in_doubt
        )));
        let times = LifecycleTimes {
            heartbeat_every: self.settings.broker_heartbeat_interval,
            retry_after: self.times.retry_after,
            stop_max: Duration::from_secs(10),
            stuck_after: Duration::from_secs(5),
            unanswered_max: Duration::from_secs(2),
        };
        self.lifecycle = Some(Lifecycle::new(registration, times));
    }

    /// The settings of a topic in force here.
    pub(super) fn topic_settings(&self, topic: &Topic) -> TopicSettings {
        let layers = Layers {
            broker: self.image.configs(&ConfigResource::Broker(self.id)),
            default_broker: self.image.configs(&ConfigResource::DefaultBroker),
            fixed: &self.settings.fixed,
        };
        let overrides = self.image.configs(&ConfigResource::Topic(topic.name.clone()));
        TopicSettings::resolve(topic.name.as_str(), overrides, layers)
    }
}
