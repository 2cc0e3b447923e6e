//! Which broker keeps the group, and how to get there.

use base::{ErrorCode, Now};
use wire::ApiKey;
use wire::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};

use super::{Asked, GroupError, Life, Membership};
use crate::links::{Asking, Peer};

/// From here on a request names several groups (KIP-699).
const VERSION_BATCHED_MIN: i16 = 4;

impl Membership {
    /// The coordinator, if it can be asked now; if not, it is looked for, or a connection is begun.
    pub(super) fn usable_coordinator(&mut self, now: Now) -> Option<Peer> {
        let peer = Peer::Broker(self.coordinator?);
        if !self.links.knows(peer) {
            self.lose_coordinator();
            return None;
        }
        self.links.want(peer, now, &mut self.net).then_some(peer)
    }

    /// It is not the coordinator, or cannot be reached.
    pub(super) const fn lose_coordinator(&mut self) {
        self.coordinator = None;
    }

    pub(super) fn find_coordinator(&mut self, now: Now) {
        let is_of_use = !matches!(self.life, Life::Out | Life::Resting | Life::Failed)
            || self.leaving.is_some()
            || self.is_goodbye_asked
            || !self.offsets.is_idle();
        let is_missing = self.coordinator.is_none() || self.is_coordinator_in_doubt(now);
        self.finding.is_wanted = is_missing && is_of_use;
        self.finding.is_for_the_late = self.coordinator.is_some();
        if !self.finding.is_due(now) {
            return;
        }
        let Some(peer) = self.links.want_any(self.finding.in_vain(now), now, &mut self.net) else { return };
        let Ok(version) = self.links.version(peer, ApiKey::FindCoordinator) else {
            return self.finding.failed(&self.settings.retry, now, &mut self.chance);
        };
        let group = &*self.settings.group_id;
        let request = if version >= VERSION_BATCHED_MIN {
            FindCoordinatorRequest { coordinator_keys: vec![group], ..FindCoordinatorRequest::default() }
        } else {
            FindCoordinatorRequest { key: group, ..FindCoordinatorRequest::default() }
        };
        let asking = Asking { version, about: Asked::Coordinator, fills: Vec::new(), is_answered: true };
        match self.links.send((peer, now), &request, asking, &mut self.net) {
            Ok(()) => self.finding.asked(Some(peer), now),
            Err(_) => {
                self.fail_offsets(&GroupError::Unsayable);
                self.fail(GroupError::Unsayable);
            }
        }
    }

    pub(super) fn on_coordinator(&mut self, said: &FindCoordinatorResponse<'_>, now: Now) {
        let (code, id, host, port) = match said.coordinators.first() {
            Some(found) => (found.error_code, found.node_id, found.host, found.port),
            None => (said.error_code, said.node_id, said.host, said.port),
        };
        let code = ErrorCode::from_i16(code).unwrap_or(ErrorCode::UnknownServerError);
        self.topics.coordinator_code = code;
        let found = code.is_none().then(|| self.cluster.learn_broker(id, host, port)).flatten();
        self.found_at = now.elapsed;
        if let Some(found) = found {
            self.finding.settled();
            self.follow_coordinator(found, now);
            self.learn_brokers();
            return;
        }
        if code.is_none() || code.is_retriable() || code == ErrorCode::UnknownServerError {
            return self.finding.failed(&self.settings.retry, now, &mut self.chance);
        }
        self.finding.settled();
        self.fail_offsets(&GroupError::Refused(code));
        self.fail(GroupError::Refused(code));
    }

    /// Takes over where the brokers are.
    pub(super) fn learn_brokers(&mut self) {
        self.moved.extend(self.links.set_brokers(self.cluster.brokers(), &mut self.net));
    }

    /// What the cluster says instead of naming the coordinator.
    pub(super) fn finding_trouble(&self) -> Option<String> {
        let code = self.topics.coordinator_code;
        let is_said = self.coordinator.is_none() && !code.is_none();
        is_said.then(|| format!("the cluster says {} of group {}", code.name(), self.settings.group_id))
    }
}
