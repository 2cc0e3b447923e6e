//! A metadata record as bytes, the value of one record in a batch of the metadata log.
//!
//! ```text
//!   | frame version, varint: 1 | key, varint: which record | its version, varint | fields |
//! ```
//!
//! This is Kafka's framing and these are Kafka's records, so its tools read our metadata log. What is
//! decoded is checked as a whole; a record that we do not know is an error, never skipped: it changes a
//! cluster in a way that this node cannot follow.

mod broker;
mod partition;
#[cfg(test)]
mod tests;

use base::{BrokerEpoch, BrokerId, ProducerId, TopicId, TopicName};
use wire::{DecodeError, Decoder, EncodeError, Encoder, Message};

use crate::metadata_record::{ConfigChange, FeatureLevel, MetadataRecord, NewTopic, ProducerIds};
use crate::parts::ConfigResource;
use crate::record::{
    BrokerRegistrationChangeRecord, ConfigRecord, FeatureLevelRecord, NoOpRecord, PartitionChangeRecord,
    PartitionRecord, ProducerIdsRecord, RegisterBrokerRecord, RemoveTopicRecord, TopicRecord,
    UnregisterBrokerRecord,
};

const FRAME_VERSION: u32 = 1;

/// Kafka's numbers of the kinds of resources that have configs.
const RESOURCE_TOPIC: i8 = 2;
const RESOURCE_BROKER: i8 = 4;
const RESOURCE_GROUP: i8 = 32;

/// Bytes that are no metadata record of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The frame around the record is of another kind.
    #[error("frame version {0}, expected {FRAME_VERSION}")]
    Frame(u32),
    /// A record of a kind that this node does not know.
    #[error("a record of kind {key}, version {version}, which this release does not know")]
    Unknown {
        /// Kafka's number of the kind.
        key: u32,
        /// Its version.
        version: u32,
    },
    /// The fields cannot be read.
    #[error("a record of kind {key} that cannot be read: {error}")]
    Fields {
        /// Kafka's number of the kind.
        key: u32,
        /// What is wrong.
        error: DecodeError,
    },
    /// A field says what cannot be.
    #[error("{field} is {value}")]
    Value {
        /// The field, as Kafka calls it.
        field: &'static str,
        /// What it says.
        value: String,
    },
    /// The bytes do not even hold a frame.
    #[error("the bytes end within the frame: {0}")]
    Short(DecodeError),
}

impl MetadataRecord {
    /// Writes the record behind what is in `out`. Fails only if a text is longer than the format can say.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut e = Encoder::new();
        match self {
            Self::Topic(topic) => {
                let record = TopicRecord { name: topic.name.to_string(), topic_id: topic.id.0 };
                put(&mut e, TopicRecord::API_KEY, 0, &record)
            }
            Self::Partition(new) => put(&mut e, PartitionRecord::API_KEY, 2, &PartitionRecord::from(new)),
            Self::PartitionChange(change) => {
                put(&mut e, PartitionChangeRecord::API_KEY, 2, &PartitionChangeRecord::from(change))
            }
            Self::RemoveTopic(id) => {
                put(&mut e, RemoveTopicRecord::API_KEY, 0, &RemoveTopicRecord { topic_id: id.0 })
            }
            Self::Config(change) => put(&mut e, ConfigRecord::API_KEY, 0, &ConfigRecord::from(change)),
            Self::ProducerIds(ids) => {
                let record = ProducerIdsRecord {
                    broker_id: ids.broker.0,
                    broker_epoch: ids.broker_epoch.0,
                    next_producer_id: ids.next.0,
                };
                put(&mut e, ProducerIdsRecord::API_KEY, 0, &record)
            }
            Self::RegisterBroker(broker) => {
                put(&mut e, RegisterBrokerRecord::API_KEY, 3, &RegisterBrokerRecord::from(broker))
            }
            Self::UnregisterBroker(id, epoch) => {
                let record = UnregisterBrokerRecord { broker_id: id.0, broker_epoch: epoch.0 };
                put(&mut e, UnregisterBrokerRecord::API_KEY, 0, &record)
            }
            Self::BrokerChange(change) => {
                let record = BrokerRegistrationChangeRecord::from(change);
                put(&mut e, BrokerRegistrationChangeRecord::API_KEY, 2, &record)
            }
            Self::FeatureLevel(feature) => {
                let record = FeatureLevelRecord { name: feature.name.clone(), feature_level: feature.level };
                put(&mut e, FeatureLevelRecord::API_KEY, 0, &record)
            }
            Self::NoOp => put(&mut e, NoOpRecord::API_KEY, 0, &NoOpRecord {}),
        }?;
        out.extend_from_slice(e.as_bytes());
        Ok(())
    }

    /// Reads a record, all of the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut d = Decoder::new(bytes);
        let frame = d.uvarint().map_err(RecordError::Short)?;
        if frame != FRAME_VERSION {
            return Err(RecordError::Frame(frame));
        }
        let key = d.uvarint().map_err(RecordError::Short)?;
        let version = d.uvarint().map_err(RecordError::Short)?;
        let unknown = RecordError::Unknown { key, version };
        let (Ok(kind), Ok(at)) = (i16::try_from(key), i16::try_from(version)) else { return Err(unknown) };
        let mut fields = Fields { decoder: d, key, version: at };
        match kind {
            TopicRecord::API_KEY => fields.read(topic),
            PartitionRecord::API_KEY => fields.read(partition::new),
            PartitionChangeRecord::API_KEY => fields.read(partition::change),
            RemoveTopicRecord::API_KEY => {
                fields.read(|it: RemoveTopicRecord| Ok(Self::RemoveTopic(TopicId(it.topic_id))))
            }
            ConfigRecord::API_KEY => fields.read(config),
            ProducerIdsRecord::API_KEY => fields.read(producer_ids),
            RegisterBrokerRecord::API_KEY => fields.read(broker::registered),
            UnregisterBrokerRecord::API_KEY => fields.read(|it: UnregisterBrokerRecord| {
                Ok(Self::UnregisterBroker(BrokerId(it.broker_id), BrokerEpoch(it.broker_epoch)))
            }),
            BrokerRegistrationChangeRecord::API_KEY => fields.read(broker::changed),
            FeatureLevelRecord::API_KEY => fields.read(|it: FeatureLevelRecord| {
                Ok(Self::FeatureLevel(FeatureLevel { name: it.name, level: it.feature_level }))
            }),
            NoOpRecord::API_KEY => fields.read(|_: NoOpRecord| Ok(Self::NoOp)),
            _ => Err(unknown),
        }
    }
}

fn put<'a>(e: &mut Encoder, key: i16, version: i16, record: &impl Message<'a>) -> Result<(), EncodeError> {
    e.uvarint(FRAME_VERSION);
    e.uvarint(key.unsigned_abs().into());
    e.uvarint(version.unsigned_abs().into());
    record.encode(e, version)
}

/// The fields of one record, not read yet.
struct Fields<'a> {
    decoder: Decoder<'a>,
    key: u32,
    version: i16,
}

impl<'a> Fields<'a> {
    fn read<R: Message<'a>>(
        &mut self,
        make: impl FnOnce(R) -> Result<MetadataRecord, RecordError>,
    ) -> Result<MetadataRecord, RecordError> {
        let fields = R::decode(&mut self.decoder, self.version);
        let fields = fields.and_then(|fields| self.decoder.finish().map(|()| fields));
        make(fields.map_err(|error| RecordError::Fields { key: self.key, error })?)
    }
}

fn topic(it: TopicRecord) -> Result<MetadataRecord, RecordError> {
    Ok(MetadataRecord::Topic(NewTopic {
        name: topic_name("TopicRecord.name", &it.name)?,
        id: TopicId(it.topic_id),
    }))
}

fn topic_name(field: &'static str, name: &str) -> Result<TopicName, RecordError> {
    TopicName::new(name).map_err(|_| wrong(field, name.escape_debug().take(64).collect::<String>()))
}

fn wrong(field: &'static str, value: impl ToString) -> RecordError {
    RecordError::Value { field, value: value.to_string() }
}

fn producer_ids(it: ProducerIdsRecord) -> Result<MetadataRecord, RecordError> {
    if it.next_producer_id < 0 {
        return Err(wrong("ProducerIdsRecord.nextProducerId", it.next_producer_id));
    }
    Ok(MetadataRecord::ProducerIds(ProducerIds {
        broker: BrokerId(it.broker_id),
        broker_epoch: BrokerEpoch(it.broker_epoch),
        next: ProducerId(it.next_producer_id),
    }))
}

fn config(it: ConfigRecord) -> Result<MetadataRecord, RecordError> {
    let resource = match (it.resource_type, it.resource_name.as_str()) {
        (RESOURCE_TOPIC, name) => ConfigResource::Topic(topic_name("ConfigRecord.resourceName", name)?),
        (RESOURCE_BROKER, "") => ConfigResource::DefaultBroker,
        (RESOURCE_BROKER, id) => {
            let id = id.parse().map_err(|_| wrong("ConfigRecord.resourceName", id.escape_debug()))?;
            ConfigResource::Broker(BrokerId(id))
        }
        (RESOURCE_GROUP, id) => ConfigResource::Group(id.to_owned()),
        (kind, _) => return Err(wrong("ConfigRecord.resourceType", kind)),
    };
    Ok(MetadataRecord::Config(ConfigChange { resource, name: it.name, value: it.value }))
}

impl From<&ConfigChange> for ConfigRecord {
    fn from(change: &ConfigChange) -> Self {
        let (resource_type, resource_name) = match &change.resource {
            ConfigResource::Topic(name) => (RESOURCE_TOPIC, name.to_string()),
            ConfigResource::Broker(id) => (RESOURCE_BROKER, id.to_string()),
            ConfigResource::DefaultBroker => (RESOURCE_BROKER, String::new()),
            ConfigResource::Group(id) => (RESOURCE_GROUP, id.clone()),
        };
        Self { resource_type, resource_name, name: change.name.clone(), value: change.value.clone() }
    }
}
