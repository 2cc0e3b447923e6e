//! Nodes that are dead, as far as their sockets say.

use std::time::Duration;

use base::{BrokerEpoch, BrokerId, Now};
use controller::{BrokerSuspected, Command};

use super::waiting::Asker;
use super::{ControlFailed, ControlThread, News};

/// For how long it is remembered that a node was dead.
const SUSPECTED_MAX: Duration = Duration::from_secs(10);

impl ControlThread {
    /// Looks again at those who died when there was nobody to be told, and at the one who led before: the
    /// controller may have died with them.
    pub(super) fn probe_suspects(&mut self, now: Now) {
        self.state.suspects.retain(|_, at| now.elapsed.saturating_sub(*at) < SUSPECTED_MAX);
        let predecessor = self.state.predecessor.filter(|node| !self.state.suspects.contains_key(node));
        for node in self.state.suspects.keys().copied().chain(predecessor) {
            let Some(link) = self.links.get(node) else { continue };
            let control = self.control.clone();
            self.cluster.spawn(async move {
                if link.is_dead().await {
                    control.tell(News::Dead(node));
                }
            });
        }
    }

    /// A node is dead, as far as its socket says.
    pub(super) fn suspect(&mut self, now: Now, node: BrokerId) -> Result<(), ControlFailed> {
        self.state.suspects.insert(node, now.elapsed);
        if let Some(member) = self.seat.member() {
            self.cluster.spawn(async move { member.on_leader_gone(node).await });
        }
        let Some(epoch) = self.broker_epoch(node) else { return Ok(()) };
        let command = BrokerSuspected { suspect: node, epoch, by: self.node };
        self.give(Asker::Nobody, Command::BrokerSuspected(command))
    }

    fn broker_epoch(&self, node: BrokerId) -> Option<BrokerEpoch> {
        let broker = self.controller.image().broker(node)?;
        (!broker.fenced).then_some(broker.epoch)
    }
}
