//! What a client knows of the cluster: its brokers, and who leads what.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base::{BrokerId, ErrorCode, LeaderEpoch, PartitionIndex, TopicId};
use wire::messages::metadata::{MetadataResponse, MetadataResponseTopic};

/// Where to connect to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// A name or an IP address.
    pub host: Arc<str>,
    /// The port.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Who leads a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The broker; `None` while there is none.
    pub broker: Option<BrokerId>,
    /// Since when, counted in leaders (KIP-320).
    pub epoch: LeaderEpoch,
}

/// A topic as the client last saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMetadata {
    /// Its id; the zero id if the broker is too old to say.
    pub id: TopicId,
    /// Its partitions, each with its leader.
    pub partitions: Vec<Leader>,
}

/// What is known.
#[derive(Debug, Default)]
pub struct Cluster {
    brokers: BTreeMap<BrokerId, Address>,
    topics: BTreeMap<Arc<str>, TopicMetadata>,
}

impl Cluster {
    /// The brokers and where they are.
    pub const fn brokers(&self) -> &BTreeMap<BrokerId, Address> {
        &self.brokers
    }

    /// A topic, if it is known.
    pub fn topic(&self, name: &str) -> Option<&TopicMetadata> {
        self.topics.get(name)
    }

    /// Somebody named a broker: where it is. `None` if that is nowhere.
    pub(crate) fn learn_broker(&mut self, id: i32, host: &str, port: i32) -> Option<BrokerId> {
        let id = BrokerId(id);
        self.brokers.insert(id, address(host, port).filter(|_| id.0 >= 0)?);
        Some(id)
    }

    /// A topic is of no interest any more.
    pub fn forget(&mut self, name: &str) {
        self.topics.remove(name);
    }

    /// Learns from an answer to Metadata; what it says of each topic that it could not tell of.
    pub fn absorb(&mut self, answer: &MetadataResponse<'_>) -> Vec<(Arc<str>, ErrorCode)> {
        if !answer.brokers.is_empty() {
            let brokers = answer.brokers.iter();
            let brokers = brokers.filter_map(|b| Some((BrokerId(b.node_id), address(b.host, b.port)?)));
            self.brokers = brokers.collect();
        }
        let mut refused = Vec::new();
        for topic in &answer.topics {
            let Some(name) = topic.name else { continue };
            let code = ErrorCode::from_i16(topic.error_code).unwrap_or(ErrorCode::UnknownServerError);
            match code {
                ErrorCode::None => self.absorb_topic(name, topic),
                code => refused.push((name.into(), code)),
            }
        }
        refused
    }

    fn absorb_topic(&mut self, name: &str, said: &MetadataResponseTopic<'_>) {
        let id = TopicId(said.topic_id);
        let known = self.topics.remove(name).filter(|known| known.id == id);
        let mut partitions = known.map(|known| known.partitions).unwrap_or_default();
        // They are all said, from 0 on. A topic never loses one while it has its id, though a broker that
        // lags may say fewer.
        if partitions.len() < said.partitions.len() {
            partitions.resize(said.partitions.len(), Leader { broker: None, epoch: LeaderEpoch::NONE });
        }
        for part in &said.partitions {
            let place =
                usize::try_from(part.partition_index).ok().and_then(|index| partitions.get_mut(index));
            let Some(place) = place else { continue };
            let broker = Some(BrokerId(part.leader_id)).filter(|id| id.0 >= 0);
            place.learn(Leader { broker, epoch: LeaderEpoch(part.leader_epoch) });
        }
        self.topics.insert(name.into(), TopicMetadata { id, partitions });
    }

    /// Learns from the hint of a broker that does not lead a partition any more (KIP-951), with the
    /// brokers that it names: id, host, port. Whether it is news: only a later leader is. A broker that
    /// names whom we know, or nobody can say when, would send us in a circle.
    pub fn absorb_hint<'a>(
        &mut self,
        topic: &str,
        index: PartitionIndex,
        leader: Leader,
        mut nodes: impl Iterator<Item = (i32, &'a str, i32)>,
    ) -> bool {
        let Some(id) = leader.broker else { return false };
        let place = self.topics.get_mut(topic);
        let index = usize::try_from(index.0).ok();
        let Some(place) = place.zip(index).and_then(|(topic, index)| topic.partitions.get_mut(index)) else {
            return false;
        };
        if leader.epoch <= place.epoch {
            return false;
        }
        let named = nodes.find(|&(node, ..)| node == id.0).and_then(|(_, host, port)| address(host, port));
        if let Some(address) = named {
            self.brokers.insert(id, address);
        }
        self.brokers.contains_key(&id) && place.learn(leader)
    }
}

impl Leader {
    /// Takes what was said if it is not older than what is known; whether it is news.
    fn learn(&mut self, said: Self) -> bool {
        // A broker too old to say the epoch is believed.
        let is_older = said.epoch != LeaderEpoch::NONE && said.epoch < self.epoch;
        if is_older || *self == said {
            return false;
        }
        *self = said;
        true
    }
}

fn address(host: &str, port: i32) -> Option<Address> {
    Some(Address { host: host.into(), port: u16::try_from(port).ok()? })
}

#[cfg(test)]
mod tests {
    use wire::messages::metadata::{MetadataResponseBroker, MetadataResponsePartition};

    use super::*;

    fn leader(broker: i32, epoch: i32) -> Leader {
        Leader { broker: Some(BrokerId(broker)), epoch: LeaderEpoch(epoch) }
    }

    #[test]
    fn only_a_later_leader_is_news_as_a_hint() {
        let part = MetadataResponsePartition { leader_id: 1, leader_epoch: 5, ..Default::default() };
        let topic = MetadataResponseTopic { name: Some("a"), partitions: vec![part], ..Default::default() };
        let broker = MetadataResponseBroker { node_id: 1, host: "one", port: 9_092, ..Default::default() };
        let mut cluster = Cluster::default();
        let said = MetadataResponse { brokers: vec![broker], topics: vec![topic], ..Default::default() };
        assert!(cluster.absorb(&said).is_empty());
        let mut hint = |leader| {
            let nodes = [(2, "two", 9_092)].into_iter();
            let is_news = cluster.absorb_hint("a", PartitionIndex(0), leader, nodes);
            (is_news, cluster.brokers().len())
        };
        assert_eq!(hint(leader(2, 5)), (false, 1), "of the same epoch");
        assert_eq!(hint(leader(2, -1)), (false, 1), "of nobody knows when");
        assert_eq!(hint(leader(2, 6)), (true, 2), "later");
        assert_eq!(hint(leader(1, 5)), (false, 2), "of the past");
    }
}
