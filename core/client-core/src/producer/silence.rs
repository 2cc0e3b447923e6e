//! Brokers that say nothing: cut off, stopped, or hung.
//!
//! Others are asked whether somebody else leads in their stead, also what the silent one was asked about the cluster,
//! and if it is so, the connection is given up: what it carried may have been written, and goes to the new leader,
//! who knows it again.

use std::time::Duration;

use base::{Effects, Now};

use super::{Asked, Effect, Producer};
use crate::links::{ASK_EVERY, Peer};

impl Producer {
    /// Asks others about brokers that are silent, and leaves those that lead no more what they were sent.
    pub(super) fn leave_the_silent(&mut self, now: Now, effects: &mut Effects<Effect>) {
        let silent = self.links.silent(now);
        if !silent.is_empty() && self.told_at + ASK_EVERY <= now.elapsed {
            self.metadata.is_for_the_late |= !self.metadata.is_wanted;
            self.metadata.is_wanted = true;
            self.metadata.is_asked &= self.links.is_owed(now, |asked| matches!(asked, Asked::Metadata));
            if self.awaited.is_asked && !self.links.is_owed(now, |asked| matches!(asked, Asked::Topics)) {
                self.on_topics_unanswered(now);
            }
            let is_asked = self.identity_inquiry.is_asked;
            if is_asked && !self.links.is_owed(now, |asked| matches!(asked, Asked::ProducerId)) {
                self.on_producer_id_unanswered(now);
            }
        }
        for (connection, peer) in silent {
            if self.is_replaced(peer) {
                self.links.on_late(connection, now);
                self.close_connection(connection, now, effects);
            }
        }
    }

    /// Whether another broker leads a partition by now that this one was sent a batch of.
    fn is_replaced(&self, peer: Peer) -> bool {
        let Peer::Broker(broker) = peer else { return false };
        let mut parts = self.links.asked(peer).flat_map(|asked| match asked {
            Asked::Produce(produced) => produced.parts.as_slice(),
            Asked::Metadata | Asked::Topics | Asked::ProducerId => &[],
        });
        parts.any(|(place, _)| {
            let partition = self.topics.get(place.topic).partitions.get(place.partition as usize);
            partition.and_then(|partition| partition.leader).is_some_and(|leader| leader != broker)
        })
    }

    /// When others can be asked again about a broker that is silent.
    pub(super) fn silence_deadline(&self, now: Now) -> Option<Duration> {
        self.links.ask_others_at(self.told_at, now)
    }
}
