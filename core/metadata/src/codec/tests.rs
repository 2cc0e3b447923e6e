//! Records as Kafka writes them, and bytes that are none.

use base::{LeaderEpoch, PartitionIndex, Uuid};

use super::*;
use crate::parts::{Broker, Endpoint, Unsettled};
use crate::{BrokerChange, NewPartition, PartitionChange};

fn id(number: u128) -> TopicId {
    TopicId(Uuid(number.to_be_bytes()))
}

fn name(text: &str) -> TopicName {
    TopicName::new(text).expect("legal")
}

fn ids(numbers: &[i32]) -> Vec<BrokerId> {
    numbers.iter().map(|&number| BrokerId(number)).collect()
}

fn encoded(record: &MetadataRecord) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut bytes).expect("it is short");
    bytes
}

/// One of each kind, with something in every field.
fn samples() -> Vec<MetadataRecord> {
    let mut moving = NewPartition::first(id(1), PartitionIndex(1), ids(&[1, 2, 3]), ids(&[2]));
    moving.partition.leader_epoch = LeaderEpoch(7);
    moving.partition.recovering = true;
    moving.partition.unclean_epoch = LeaderEpoch(6);
    moving.partition.unsettled = Some(Box::new(Unsettled {
        adding: ids(&[3]),
        removing: ids(&[1]),
        eligible: ids(&[1]),
        last_known_eligible: ids(&[3]),
    }));
    let change = PartitionChange {
        leader: Some(BrokerId::NONE),
        isr: Some(ids(&[2])),
        replicas: Some(ids(&[2, 3])),
        adding: Some(vec![]),
        removing: Some(ids(&[1])),
        eligible: Some(ids(&[3])),
        last_known_eligible: Some(ids(&[1])),
        recovering: Some(false),
        directories: Some(vec![Uuid([3; 16])]),
        ..PartitionChange::of(id(1), PartitionIndex(1))
    };
    let broker = Broker {
        id: BrokerId(1),
        epoch: BrokerEpoch(5),
        incarnation: Uuid([9; 16]),
        endpoints: vec![Endpoint {
            listener: "PLAINTEXT".into(),
            host: "localhost".into(),
            port: 65_535,
            security_protocol: 0,
        }],
        features: vec![("metadata.version".into(), 1, 33)],
        rack: Some("r".into()),
        fenced: false,
        in_controlled_shutdown: true,
        log_dirs: vec![Uuid([4; 16])],
    };
    let config = |resource, value: Option<&str>| {
        MetadataRecord::Config(ConfigChange {
            resource,
            name: "retention.ms".into(),
            value: value.map(Into::into),
        })
    };
    vec![
        MetadataRecord::Topic(NewTopic { name: name("a"), id: id(1) }),
        MetadataRecord::Partition(NewPartition::first(id(1), PartitionIndex(0), ids(&[1]), ids(&[1]))),
        MetadataRecord::Partition(moving),
        MetadataRecord::PartitionChange(PartitionChange::of(id(1), PartitionIndex(0))),
        MetadataRecord::PartitionChange(change),
        MetadataRecord::RemoveTopic(id(1)),
        config(ConfigResource::Topic(name("a")), Some("5")),
        config(ConfigResource::Broker(BrokerId(3)), Some("")),
        config(ConfigResource::DefaultBroker, None),
        config(ConfigResource::Group("billing".into()), Some("5")),
        MetadataRecord::ProducerIds(ProducerIds {
            broker: BrokerId(1),
            broker_epoch: BrokerEpoch(5),
            next: ProducerId(1000),
        }),
        MetadataRecord::RegisterBroker(broker.clone()),
        MetadataRecord::RegisterBroker(Broker { rack: None, ..broker }),
        MetadataRecord::UnregisterBroker(BrokerId(1), BrokerEpoch(5)),
        MetadataRecord::BrokerChange(BrokerChange {
            broker: BrokerId(1),
            epoch: BrokerEpoch(5),
            fenced: Some(false),
            in_controlled_shutdown: true,
            log_dirs: Some(vec![Uuid([4; 16])]),
        }),
        MetadataRecord::FeatureLevel(FeatureLevel { name: "metadata.version".into(), level: 33 }),
        MetadataRecord::NoOp,
    ]
}

#[test]
fn every_record_comes_back_as_it_was() {
    for record in samples() {
        assert_eq!(MetadataRecord::decode(&encoded(&record)), Ok(record));
    }
}

#[test]
fn the_bytes_are_kafkas() {
    // Frame 1, kind 2, version 0, the name in compact form, the id, no tags.
    let topic = MetadataRecord::Topic(NewTopic { name: name("ab"), id: id(0x0102) });
    let expected = [&[1, 2, 0, 3, b'a', b'b'][..], &0x0102u128.to_be_bytes(), &[0]].concat();
    assert_eq!(encoded(&topic), expected);
    // Frame 1, kind 12, version 0, the name, level 33, no tags.
    let feature = MetadataRecord::FeatureLevel(FeatureLevel { name: "m".into(), level: 33 });
    assert_eq!(encoded(&feature), [1, 12, 0, 2, b'm', 0, 33, 0]);
    assert_eq!(encoded(&MetadataRecord::NoOp), [1, 20, 0, 0]);
}

#[test]
fn bytes_that_are_no_record_are_refused_with_the_reason() {
    assert!(matches!(MetadataRecord::decode(&[]), Err(RecordError::Short(_))));
    assert_eq!(MetadataRecord::decode(&[0, 2, 0]), Err(RecordError::Frame(0)));
    assert_eq!(MetadataRecord::decode(&[1, 99, 3]), Err(RecordError::Unknown { key: 99, version: 3 }));
    // A newer version of a record that is known.
    assert!(matches!(MetadataRecord::decode(&[1, 2, 7, 1]), Err(RecordError::Fields { key: 2, .. })));
    let bad_name = MetadataRecord::decode(&[&[1, 2, 0, 3, b'/', b'b'][..], &[0; 17]].concat());
    assert_eq!(bad_name.map_err(|e| e.to_string()), Err("TopicRecord.name is /b".into()));
    let bad_kind = MetadataRecord::decode(&[1, 4, 0, 77, 2, b'x', 2, b'y', 0, 0]);
    assert_eq!(bad_kind.map_err(|e| e.to_string()), Err("ConfigRecord.resourceType is 77".into()));
}

#[test]
fn no_cut_and_no_flipped_bit_makes_it_panic() {
    for record in samples() {
        let bytes = encoded(&record);
        for len in 0..bytes.len() {
            assert!(MetadataRecord::decode(&bytes[..len]).is_err(), "{record:?} cut at {len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // It may be another record; it must not be a panic.
            let _ = MetadataRecord::decode(&flipped);
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(MetadataRecord::decode(&longer).is_err(), "{record:?} with a byte too many");
    }
}
