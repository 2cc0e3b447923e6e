//! What an image is made of.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicName, Uuid};
use serde::{Deserialize, Serialize};

/// Settings by name, as they were written.
pub type ConfigMap = BTreeMap<String, String>;

/// Whose settings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConfigResource {
    /// A topic's.
    Topic(TopicName),
    /// One broker's.
    Broker(BrokerId),
    /// Every broker's that has none of its own.
    DefaultBroker,
    /// A group's of consumers, whether there is one of this id or not.
    Group(String),
}

/// What a setting takes besides its words: in a snapshot, and in maps.
const SETTING_OVERHEAD_BYTES: usize = 64;

impl ConfigResource {
    /// What a setting of it takes, in bytes.
    pub fn setting_bytes(&self, name: &str, value: &str) -> usize {
        let own = match self {
            Self::Topic(name) => name.as_str().len(),
            Self::Group(id) => id.len(),
            Self::Broker(_) | Self::DefaultBroker => 0,
        };
        SETTING_OVERHEAD_BYTES + own + name.len() + value.len()
    }
}

impl fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(name) => write!(f, "topic {name}"),
            Self::Broker(id) => write!(f, "broker {id}"),
            Self::DefaultBroker => f.write_str("every broker"),
            Self::Group(id) => write!(f, "group {id}"),
        }
    }
}

/// A topic and its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Its id.
    pub id: TopicId,
    /// Its name.
    pub name: TopicName,
    /// By index; dense in all that a controller makes.
    partitions: Vec<Arc<Partition>>,
}

impl Topic {
    /// A topic without partitions.
    pub fn new(name: TopicName, id: TopicId) -> Self {
        Self { id, name, partitions: Vec::new() }
    }

    /// Its partitions, by index.
    pub fn partitions(&self) -> &[Arc<Partition>] {
        &self.partitions
    }

    /// One of its partitions.
    pub fn partition(&self, index: PartitionIndex) -> Option<&Arc<Partition>> {
        self.place(index).ok().and_then(|at| self.partitions.get(at))
    }

    /// Puts a partition in, in the place of one with the same index; whether there was none.
    pub(crate) fn put(&mut self, partition: Partition) -> bool {
        match self.place(partition.index) {
            Ok(at) => {
                self.partitions[at] = Arc::new(partition);
                false
            }
            Err(at) => {
                // A topic has few partitions or gets many at once: the first fits exactly.
                if self.partitions.is_empty() {
                    self.partitions.reserve_exact(1);
                }
                self.partitions.insert(at, Arc::new(partition));
                true
            }
        }
    }

    pub(crate) fn partition_mut(&mut self, index: PartitionIndex) -> Option<&mut Partition> {
        let at = self.place(index).ok()?;
        Some(Arc::make_mut(&mut self.partitions[at]))
    }

    fn place(&self, index: PartitionIndex) -> Result<usize, usize> {
        let guess = usize::try_from(index.0).unwrap_or(usize::MAX);
        match self.partitions.get(guess) {
            Some(partition) if partition.index == index => Ok(guess),
            _ => self.partitions.binary_search_by_key(&index, |partition| partition.index),
        }
    }
}

/// One partition: who has it, who leads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Which of its topic's partitions.
    pub index: PartitionIndex,
    /// Who leads it; [`BrokerId::NONE`] when nobody does.
    pub leader: BrokerId,
    /// Which leadership this is.
    pub leader_epoch: LeaderEpoch,
    /// Grows with every change of the partition.
    pub partition_epoch: i32,
    /// Whether the leader is recovering from an unclean election.
    pub recovering: bool,
    /// The last leadership that began with somebody who may have lacked what was committed; [`LeaderEpoch::NONE`]
    /// if none did. Kafka has no such word: whoever followed nobody since may have what that one lacked.
    pub unclean_epoch: LeaderEpoch,
    /// Who has it, in order of preference.
    pub replicas: Box<[BrokerId]>,
    /// Who has all of it.
    pub isr: Box<[BrokerId]>,
    /// The log directory of each replica, in the order of `replicas`.
    pub directories: Box<[Uuid]>,
    /// What is there only while replicas move or are missing.
    pub unsettled: Option<Box<Unsettled>>,
}

/// The part of a partition that is empty as long as all is well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unsettled {
    /// Replicas on their way in.
    pub adding: Vec<BrokerId>,
    /// Replicas on their way out.
    pub removing: Vec<BrokerId>,
    /// Replicas that left the in-sync set but have all that was committed.
    pub eligible: Vec<BrokerId>,
    /// The last of those that was known.
    pub last_known_eligible: Vec<BrokerId>,
}

impl Partition {
    /// The directory of a replica whose broker has not chosen one.
    pub const DIRECTORY_UNASSIGNED: Uuid = Uuid(1u128.to_be_bytes());
    /// The directory of a replica whose log cannot be served: it is damaged or gone, or its files failed.
    pub const DIRECTORY_LOST: Uuid = Uuid(2u128.to_be_bytes());

    /// The directory of a broker's replica; `None` if it has none.
    pub fn directory_of(&self, broker: BrokerId) -> Option<Uuid> {
        let place = self.replicas.iter().position(|replica| *replica == broker)?;
        self.directories.get(place).copied()
    }

    /// Replicas that left the in-sync set but have all that was committed.
    pub fn eligible(&self) -> &[BrokerId] {
        self.unsettled.as_ref().map_or(&[], |unsettled| &unsettled.eligible)
    }

    /// The eligible replicas that were known last.
    pub fn last_known_eligible(&self) -> &[BrokerId] {
        self.unsettled.as_ref().map_or(&[], |unsettled| &unsettled.last_known_eligible)
    }

    /// Replicas on their way in.
    pub fn adding(&self) -> &[BrokerId] {
        self.unsettled.as_ref().map_or(&[], |unsettled| &unsettled.adding)
    }

    /// Replicas on their way out.
    pub fn removing(&self) -> &[BrokerId] {
        self.unsettled.as_ref().map_or(&[], |unsettled| &unsettled.removing)
    }
}

/// A broker as it registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    /// Its `node.id`.
    pub id: BrokerId,
    /// Which of its lives this is.
    pub epoch: BrokerEpoch,
    /// The id of the process.
    pub incarnation: Uuid,
    /// Where clients reach it, in the order of its listeners, and then [`Endpoint::CLUSTER`].
    pub endpoints: Vec<Endpoint>,
    /// The features it can speak: name, lowest and highest level.
    pub features: Vec<(String, i16, i16)>,
    /// The rack it is in.
    pub rack: Option<String>,
    /// Whether it may not lead nor serve.
    pub fenced: bool,
    /// Whether it is about to stop.
    pub in_controlled_shutdown: bool,
    /// The ids of its log directories.
    pub log_dirs: Vec<Uuid>,
}

/// Where a listener of a broker is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The listener's name, as `PLAINTEXT`.
    pub listener: String,
    /// The host that clients are told.
    pub host: String,
    /// The port that clients are told.
    pub port: u16,
    /// Kafka's number of the security protocol: 0 is PLAINTEXT.
    pub security_protocol: i16,
}

impl Endpoint {
    /// The listener on which only nodes of the cluster speak with each other. Clients are never told of it.
    pub const CLUSTER: &str = "CLUSTER";

    /// `host:port`, the host in brackets if it has colons.
    pub fn address(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl Broker {
    /// Its endpoint on a listener.
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.listener == listener)
    }

    /// Where the other nodes reach it; `None` if it has no listener for them.
    pub fn cluster_address(&self) -> Option<&Endpoint> {
        self.endpoint(Endpoint::CLUSTER)
    }

    /// Where clients reach it.
    pub fn client_endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.endpoints.iter().filter(|endpoint| endpoint.listener != Endpoint::CLUSTER)
    }
}
