//! A static member that comes back under a new id, and what nobody would read if all stayed as it is (KIP-345).
//!
//! | what was, when it went | what nobody reads, if nothing is assigned anew |
//! |---|---|
//! | it was to give something back, and to join again once it had (KIP-429) | what it would have given back |
//! | it is started again with other topics | the new ones |
//! | it leads, and there are partitions that nobody was given | these: whoever leads takes what it sees first for what there was (KIP-814) |
//!
//! Kafka has all of them go on until something else makes the group rebalance.

use std::collections::BTreeSet;

use metadata::Image;
use wire::messages::consumer_protocol_assignment::ConsumerProtocolAssignment;
use wire::messages::consumer_protocol_subscription::ConsumerProtocolSubscription;
use wire::{Decoder, Message};

use super::ClassicGroup;

/// Partitions, by the names of their topics.
type Named = BTreeSet<(Box<str>, i32)>;

impl ClassicGroup {
    /// Whether something would be left without a reader if a member that came back, and `said` this when it joined
    /// last, went on with what it was assigned. What cannot be read says nothing.
    pub(super) fn leaves_orphans(&self, id: &str, said: Option<&[u8]>, image: &Image) -> bool {
        let member = self.members.get(id).filter(|_| self.speaks_consumer());
        let says = member.zip(self.protocol.as_deref()).and_then(|(it, protocol)| it.metadata(protocol));
        let (Some(member), Some(before), Some(after)) =
            (member, said.and_then(subscribed), says.and_then(|says| subscribed(says)))
        else {
            return false;
        };
        let gives_back = || assigned(&member.assignment).is_some_and(|has| !before.owned.is_subset(&has));
        after.topics != before.topics || gives_back() || (self.is_leader(id) && self.has_orphans(image))
    }

    /// Whether a member goes on to read while its group meets: it said what it has, which who rebalances eagerly has
    /// given up by then (KIP-429).
    pub(super) fn reads_on(&self, id: &str) -> bool {
        let member = self.members.get(id).filter(|_| self.speaks_consumer());
        let says = member.zip(self.protocol.as_deref()).and_then(|(it, protocol)| it.metadata(protocol));
        says.and_then(|says| subscribed(says)).is_some_and(|said| !said.owned.is_empty())
    }

    /// Whether nobody was given some of what there is in the topics that its members read.
    fn has_orphans(&self, image: &Image) -> bool {
        let Some(topics) = &self.subscribed else { return false };
        let given: Option<Vec<Named>> =
            self.members.values().map(|member| assigned(&member.assignment)).collect();
        let Some(given) = given else { return false };
        let given: BTreeSet<(&str, i32)> =
            given.iter().flatten().map(|(topic, index)| (&**topic, *index)).collect();
        topics.iter().filter_map(|name| image.topic(name)).any(|topic| {
            let mut indexes = topic.partitions().iter().map(|partition| partition.index.0);
            indexes.any(|index| !given.contains(&(topic.name.as_str(), index)))
        })
    }
}

/// What a consumer said of itself.
struct Subscribed {
    topics: BTreeSet<Box<str>>,
    /// What it had; nothing if it rebalances eagerly.
    owned: Named,
}

fn subscribed(metadata: &[u8]) -> Option<Subscribed> {
    let mut d = Decoder::new(metadata);
    let version = d.i16().ok()?.min(*ConsumerProtocolSubscription::VERSIONS.end());
    let said = ConsumerProtocolSubscription::decode(&mut d, version).ok()?;
    let owned = said.owned_partitions.iter().map(|of| (of.topic, &of.partitions[..]));
    Some(Subscribed { topics: said.topics.into_iter().map(Box::from).collect(), owned: named(owned) })
}

/// What the leader gave to a member; `None` if it did not say, also not that it is nothing.
fn assigned(assignment: &[u8]) -> Option<Named> {
    let mut d = Decoder::new(assignment);
    let version = d.i16().ok()?.min(*ConsumerProtocolAssignment::VERSIONS.end());
    let given = ConsumerProtocolAssignment::decode(&mut d, version).ok()?;
    Some(named(given.assigned_partitions.iter().map(|of| (of.topic, &of.partitions[..]))))
}

fn named<'a>(of: impl Iterator<Item = (&'a str, &'a [i32])>) -> Named {
    of.flat_map(|(topic, indexes)| indexes.iter().map(move |index| (Box::from(topic), *index))).collect()
}
