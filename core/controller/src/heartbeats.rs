//! What brokers say while they live, and what silence means.
//!
//! ```text
//!             heartbeat: ready                  heartbeat: about to stop
//!   fenced ──────────────────────▶ unfenced ───────────────────────────▶ in controlled shutdown
//!     ▲                               │  silence, suspicion                       │ nothing left to hand over,
//!     └───────────────────────────────┴───────────────────────────────────────────┘ and all others know
//! ```
//!
//! When a broker was heard last is soft state: it is not committed, and a new controller begins with a
//! whole session for every broker.

use std::time::Duration;

use base::{BrokerId, Now, Uuid};
use metadata::{Broker, BrokerChange, MetadataRecord};

use crate::brokers::change_of;
use crate::command::{BrokerHeartbeat, BrokerSuspected, HeartbeatReply};
use crate::controller::Controller;
use crate::electorate::is_online;
use crate::error::ControllerError;
use crate::revision::{IfNobody, Revision};
use crate::sessions::Heard;

type Records = Vec<MetadataRecord>;

impl Controller {
    pub(crate) fn broker_heartbeat(
        &mut self,
        now: Now,
        command: &BrokerHeartbeat,
    ) -> Result<(HeartbeatReply, Records), ControllerError> {
        let known = self.image.broker(command.id).ok_or(ControllerError::UnknownBroker(command.id))?;
        if known.epoch != command.epoch {
            return Err(ControllerError::StaleBrokerEpoch { expected: known.epoch, got: command.epoch });
        }
        let broker = Broker::clone(known);
        self.sessions.heard(&broker, now, command.metadata_end);
        let is_caught_up = command.metadata_end.0 > broker.epoch.0;
        let usable = usable_directories(&broker, &command.offline_log_dirs);
        if usable.len() < broker.log_dirs.len() {
            // All else may follow with the next heartbeat.
            let (records, is_fenced) = self.lose_directories(&broker, usable);
            return Ok((HeartbeatReply { is_caught_up, is_fenced, should_shut_down: false }, records));
        }
        // Who is alone goes on as it can.
        let may_go = broker.fenced || self.others_left(broker.id).next().is_some();
        let wants_fence = (command.wants_fence && may_go) || usable.is_empty();
        let (records, is_fenced, should_shut_down) = match (broker.fenced, command.wants_shutdown) {
            (true, true) => (Vec::new(), true, true),
            (true, false) if wants_fence || !is_caught_up => (Vec::new(), true, false),
            (true, false) => (self.unfence(&broker), false, false),
            (false, true) => self.shut_down(&broker),
            (false, false) if wants_fence => (self.fence(&broker), true, false),
            (false, false) => (Vec::new(), false, false),
        };
        if is_fenced {
            self.sessions.forget(broker.id);
        }
        Ok((HeartbeatReply { is_caught_up, is_fenced, should_shut_down }, records))
    }

    /// Other brokers that may lead, and are to stay.
    fn others_left(&self, broker: BrokerId) -> impl Iterator<Item = BrokerId> {
        let others = self.image.brokers_alive().filter(move |other| other.id != broker);
        others.filter(|other| !other.in_controlled_shutdown).map(|other| other.id)
    }

    /// The next step of a broker's way out; whether it is fenced, and whether it may stop.
    fn shut_down(&mut self, broker: &Broker) -> (Records, bool, bool) {
        let stopping = Broker { in_controlled_shutdown: true, ..broker.clone() };
        let mut records = self.take_from(broker.id, Some(stopping), IfNobody::Stay);
        if !broker.in_controlled_shutdown {
            let change = BrokerChange { in_controlled_shutdown: true, ..change_of(broker) };
            records.push(MetadataRecord::BrokerChange(change));
        }
        let end = base::Offset(self.image.end().0 + i64::try_from(records.len()).unwrap_or(i64::MAX));
        if !records.is_empty() {
            self.sessions.hands_over_until(broker.id, end);
        }
        if !self.sessions.all_know(broker.id, self.others_left(broker.id)) {
            return (records, false, false);
        }
        // What nobody else can lead stays where it is, and goes on with the broker's next life.
        let stopped = Broker { fenced: true, ..broker.clone() };
        let electorate = self.electorate_with(broker.id, Some(stopped));
        let given_up = electorate.revise_all(|topic, partition| {
            let is_meant = partition.leader == broker.id && electorate.allows_unclean(topic);
            let revision = || Revision::of(topic.id, partition).without(broker.id);
            is_meant.then(|| Revision { if_nobody: IfNobody::End, ..revision() })
        });
        records.extend(given_up);
        let change = BrokerChange { fenced: Some(true), ..change_of(broker) };
        records.push(MetadataRecord::BrokerChange(change));
        (records, true, true)
    }

    /// Directories of a broker failed, and what they kept of what was flushed before, nobody knows: its replicas
    /// there are in doubt until they have caught up in another life. Without any directory it is fenced.
    fn lose_directories(&mut self, broker: &Broker, usable: Vec<Uuid>) -> (Records, bool) {
        let fenced = broker.fenced || usable.is_empty();
        let after = Broker { fenced, log_dirs: usable.clone(), ..broker.clone() };
        let electorate = self.electorate_with(broker.id, Some(after));
        let changes = electorate.revise_all(|topic, partition| {
            let directory = partition.directory_of(broker.id)?;
            let is_lost = usable.is_empty() || !is_online(&usable, directory);
            is_lost.then(|| Revision::of(topic.id, partition).in_doubt(broker.id))?
        });
        let mut records: Records = changes.collect();
        let fenced = (fenced && !broker.fenced).then_some(true);
        let change = BrokerChange { fenced, log_dirs: Some(usable), ..change_of(broker) };
        records.push(MetadataRecord::BrokerChange(change));
        if fenced.is_some() {
            self.sessions.forget(broker.id);
        }
        (records, fenced.is_some() || broker.fenced)
    }

    pub(crate) fn broker_suspected(
        &mut self,
        now: Now,
        command: BrokerSuspected,
    ) -> Result<Records, ControllerError> {
        let suspect = self.image.broker(command.suspect);
        let suspect = suspect.ok_or(ControllerError::UnknownBroker(command.suspect))?;
        if suspect.epoch != command.epoch || suspect.fenced || suspect.id == self.settings.node_id {
            return Ok(Vec::new());
        }
        let is_silent = command.by == self.settings.node_id
            || self.sessions.suspect(suspect.id, now, self.settings.heartbeat_interval) == Heard::TooLongAgo;
        if !is_silent {
            return Ok(Vec::new());
        }
        let suspect = Broker::clone(suspect);
        self.sessions.forget(suspect.id);
        Ok(self.fence(&suspect))
    }

    /// Fences a broker whose session has ended; nothing if there is none any more.
    pub(crate) fn fence_silent(&mut self, now: Now) -> Option<(BrokerId, Duration, Records)> {
        let (id, silence) = self.sessions.expired(now)?;
        self.sessions.forget(id);
        let broker = self.image.broker(id).filter(|broker| !broker.fenced).map(|it| Broker::clone(it));
        Some((id, silence, broker.map_or_else(Vec::new, |broker| self.fence(&broker))))
    }
}

fn usable_directories(broker: &Broker, offline: &[Uuid]) -> Vec<Uuid> {
    broker.log_dirs.iter().filter(|directory| !offline.contains(directory)).copied().collect()
}
