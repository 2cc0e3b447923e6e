//! A coordinator that says nothing: cut off, stopped, or hung.
//!
//! Others are asked who keeps the group by now, also what the silent one was asked about the cluster, and if it is
//! another, the connection is given up: what it carried is said again to the new coordinator. As long as the same is
//! named, it is waited for.

use std::time::Duration;

use base::{BrokerId, Now};

use super::classic::Stage;
use super::{Asked, Life, Membership};
use crate::link::Waits;
use crate::links::{ASK_EVERY, Peer};

/// The members of a group may take so long to meet before others are asked about its coordinator, …
const MEETING: Duration = Duration::from_secs(5);
/// … and are, so long after each answer: it is the slowest member that is waited for, as a rule.
const ASK_EVERY_MEETING: Duration = Duration::from_secs(1);

/// A coordinator waits for the slowest member, and then answers; so much later it is late.
const REBALANCE_SLACK: Duration = Duration::from_secs(5);

impl Membership {
    /// Asks of others what those that are silent were asked about the cluster.
    pub(super) fn pass_questions_on(&mut self, now: Now) {
        let Self { links, finding, topics, .. } = self;
        finding.is_asked &= links.is_owed(now, |asked| matches!(asked, Asked::Coordinator));
        topics.inquiry.is_asked &= links.is_owed(now, |asked| matches!(asked, Asked::Metadata(_)));
    }

    /// Whether others are to be asked who keeps the group, since the one who does says nothing.
    pub(super) fn is_coordinator_in_doubt(&self, now: Now) -> bool {
        self.is_coordinator_silent(now) && self.ask_again_at() <= now.elapsed
    }

    fn is_coordinator_silent(&self, now: Now) -> bool {
        let Some(peer) = self.coordinator.map(Peer::Broker) else { return false };
        self.links.silent(now).iter().any(|&(_, silent)| silent == peer)
    }

    /// When the next question for the coordinator may leave.
    fn ask_again_at(&self) -> Duration {
        let is_meeting = match &self.life {
            Life::Classic(classic) => matches!(classic.stage, Stage::Joining | Stage::Syncing),
            Life::Out | Life::Arriving | Life::Epochs(_) | Life::Resting | Life::Failed => false,
        };
        self.found_at + if is_meeting { ASK_EVERY_MEETING } else { ASK_EVERY }
    }

    pub(super) fn silence_deadline(&self, now: Now) -> Option<Duration> {
        let at = Some(self.ask_again_at()).filter(|&at| at > now.elapsed);
        at.filter(|_| self.is_coordinator_silent(now))
    }

    /// A broker was named. One that says nothing is left for it; one that was heard meanwhile knows better.
    pub(super) fn follow_coordinator(&mut self, named: BrokerId, now: Now) {
        let old = self.coordinator.filter(|&old| old != named).map(Peer::Broker);
        let silent = self.links.silent(now);
        let silent = silent.into_iter().find(|&(_, peer)| Some(peer) == old);
        if let Some((connection, _)) = silent {
            self.links.on_late(connection, now);
            self.close_connection(connection, now);
        }
        self.coordinator.get_or_insert(named);
    }

    /// How long a request is waited for that is answered when all members have come.
    pub(super) fn meeting(&self, now: Now) -> Waits {
        let rebalance = self.settings.poll_interval_max.saturating_add(REBALANCE_SLACK);
        let until = now.elapsed.saturating_add(rebalance.max(self.settings.links.request_timeout));
        Waits { from: until.min(now.elapsed + MEETING), until }
    }
}
