//! Brokers that say nothing: cut off, stopped, or hung.
//!
//! A fetch may be parked as long as `fetch.max.wait.ms` says; who has not answered a while after that may be no leader
//! any more. Others are asked, also what the silent one was asked about the cluster, and if it is so, its connection is
//! given up.

use base::{BrokerId, Now, TopicPartition};

use super::{Asked, Consumer};
use crate::links::{ASK_EVERY, Peer};

impl Consumer {
    /// Asks others about brokers that are silent, and leaves those that lead no more what they were asked for.
    pub(super) fn leave_the_silent(&mut self, now: Now) {
        let silent = self.links.silent(now);
        if !silent.is_empty() && self.told_at + ASK_EVERY <= now.elapsed {
            self.metadata.is_for_the_late |= !self.metadata.is_wanted;
            self.metadata.is_wanted = true;
            self.metadata.is_asked &= self.links.is_owed(now, |asked| matches!(asked, Asked::Metadata));
        }
        for (connection, peer) in silent {
            if self.is_replaced(peer) {
                self.links.on_late(connection, now);
                self.close_connection(connection, now);
            }
        }
    }

    /// Whether another broker leads a partition by now that this one was asked for.
    fn is_replaced(&self, peer: Peer) -> bool {
        let Peer::Broker(broker) = peer else { return false };
        let is_moved = |of: &TopicPartition| {
            let leader = self.parts.get(of).and_then(|part| part.leader);
            leader.is_some_and(|leader| leader != broker)
        };
        self.links.asked(peer).any(|asked| match asked {
            Asked::Metadata => false,
            Asked::Offsets(parts) => parts.iter().any(|(of, _)| is_moved(of)),
            Asked::Fetch => self.is_any_told(broker, is_moved),
        })
    }

    pub(super) fn is_any_told(&self, broker: BrokerId, is_such: impl Fn(&TopicPartition) -> bool) -> bool {
        self.sessions.get(&broker).is_some_and(|session| session.partitions().any(is_such))
    }
}
