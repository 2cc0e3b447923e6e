use std::sync::Arc;

use base::Uuid;

use super::*;
use crate::consumer::GroupEpoch;
use crate::record::group_metadata::MemberMetadata;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The layouts are those of OffsetCommitKey.json, OffsetCommitValue.json and their like in Kafka 4.4.
#[test]
fn records_are_written_as_kafka_writes_them() {
    let value = OffsetCommitValue {
        offset: 42,
        leader_epoch: 5,
        metadata: "me".into(),
        commit_timestamp: 1_000,
        expire_timestamp: -1,
        topic_id: Uuid([0xab; 16]),
    };
    let group = "grp";
    let commit = GroupRecord::OffsetCommit { group, topic: "t", partition: 3, value: Some(value.clone()) };
    let record = commit.encode();
    assert_eq!(hex(&record.key), "0001 0003 677270 0001 74 00000003".replace(' ', ""));
    let fields = "0004 000000000000002a 00000005 03 6d65 00000000000003e8";
    let topic_id = "01 00 10 abababababababababababababababab";
    assert_eq!(hex(&record.value.unwrap()), format!("{fields}{topic_id}").replace(' ', ""));

    let expiring = OffsetCommitValue { expire_timestamp: 2_000, ..value };
    let commit = GroupRecord::OffsetCommit { group, topic: "t", partition: 3, value: Some(expiring) };
    let fields = "0001 000000000000002a 0002 6d65 00000000000003e8 00000000000007d0";
    assert_eq!(hex(&commit.encode().value.unwrap()), fields.replace(' ', ""));

    let member = MemberMetadata {
        member_id: "m".into(),
        group_instance_id: None,
        client_id: "c".into(),
        client_host: "/h".into(),
        rebalance_timeout: 300_000,
        session_timeout: 45_000,
        subscription: vec![1, 2],
        assignment: vec![3],
    };
    let value = GroupMetadataValue {
        protocol_type: "consumer".into(),
        generation: 7,
        protocol: Some("range".into()),
        leader: Some("m".into()),
        current_state_timestamp: 1_000,
        members: vec![member],
    };
    let record = GroupRecord::GroupMetadata { group, value: Some(value) }.encode();
    assert_eq!(hex(&record.key), "0002 0003 677270".replace(' ', ""));
    let head = "0003 0008 636f6e73756d6572 00000007 0005 72616e6765 0001 6d 00000000000003e8 00000001";
    let member = "0001 6d ffff 0001 63 0002 2f68 000493e0 0000afc8 00000002 0102 00000001 03";
    assert_eq!(hex(&record.value.unwrap()), format!("{head}{member}").replace(' ', ""));
}

#[test]
fn what_is_written_is_read_and_a_tombstone_has_no_value() {
    let value = OffsetCommitValue { offset: 1, metadata: "x".into(), ..OffsetCommitValue::default() };
    let said = [
        GroupRecord::OffsetCommit { group: "g", topic: "t", partition: 0, value: Some(value) },
        GroupRecord::OffsetCommit { group: "g", topic: "t", partition: 0, value: None },
        GroupRecord::GroupMetadata { group: "g", value: Some(GroupMetadataValue::default()) },
        GroupRecord::GroupMetadata { group: "g", value: None },
        GroupRecord::ConsumerGroup { group: "g", change: ConsumerGroupRecord::Metadata(None) },
        GroupRecord::ConsumerGroup {
            group: "g",
            change: ConsumerGroupRecord::Metadata(Some(GroupEpoch { epoch: 3, metadata_hash: -1 })),
        },
        GroupRecord::ConsumerGroup {
            group: "g",
            change: ConsumerGroupRecord::MemberMetadata("m".into(), Some(Arc::default())),
        },
    ];
    for record in said {
        let Record { key, value } = record.encode();
        assert_eq!(GroupRecord::decode(&key, value.as_deref()), Ok(Some(record)));
    }
}

#[test]
fn what_kafka_wrote_before_is_read_and_what_is_not_known_is_left_alone() {
    // A key of Kafka 0.8, with a value as it was then: offset, metadata, time.
    let key = [0, 0, 0, 1, b'g', 0, 1, b't', 0, 0, 0, 2];
    let value = [0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let Ok(Some(GroupRecord::OffsetCommit { group: "g", topic: "t", partition: 2, value: Some(value) })) =
        GroupRecord::decode(&key, Some(&value))
    else {
        panic!("it is a commit");
    };
    assert_eq!((value.offset, value.commit_timestamp, value.leader_epoch), (9, 1, -1));
    for kind in [9_i16, 17, 99] {
        let key = [&kind.to_be_bytes()[..], b"whatever"].concat();
        assert_eq!(GroupRecord::decode(&key, Some(&[1, 2, 3])), Ok(None), "kind {kind}");
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(mut key: Vec<u8>, value: Option<Vec<u8>>, kind in 0_i16..18) {
        let _ = GroupRecord::decode(&key, value.as_deref());
        key.splice(0..0, kind.to_be_bytes());
        let _ = GroupRecord::decode(&key, value.as_deref());
        let good = GroupRecord::OffsetCommit { group: "g", topic: "t", partition: 0, value: None }.encode();
        let _ = GroupRecord::decode(&good.key, value.as_deref());
    }
}

#[test]
fn what_is_cut_short_is_refused() {
    let value = OffsetCommitValue::default();
    let record =
        GroupRecord::OffsetCommit { group: "g", topic: "t", partition: 0, value: Some(value) }.encode();
    let value = record.value.unwrap();
    let cut = &value[..value.len() - 1];
    assert!(matches!(GroupRecord::decode(&record.key, Some(cut)), Err(RecordError::Value { kind: 1, .. })));
    let cut = &record.key[..record.key.len() - 1];
    assert!(matches!(GroupRecord::decode(cut, Some(&value)), Err(RecordError::Key(_))));
    assert!(matches!(GroupRecord::decode(&[], None), Err(RecordError::Key(_))));
}

/// The bytes of a block in `docs/FORMATS.md`.
fn block(name: &str) -> Vec<u8> {
    let page = include_str!("../../../../docs/FORMATS.md");
    let (_, after) = page.split_once(&format!("```hex {name}\n")).expect("the page has it");
    let (text, _) = after.split_once("```").expect("it ends");
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("it is hex")).collect()
}

#[test]
fn the_example_in_the_documents_is_what_it_is_said_to_be() {
    let value = OffsetCommitValue {
        offset: 42,
        leader_epoch: 5,
        metadata: "me".into(),
        commit_timestamp: 1_000,
        expire_timestamp: -1,
        topic_id: Uuid([0xab; 16]),
    };
    let commit = GroupRecord::OffsetCommit { group: "grp", topic: "t", partition: 3, value: Some(value) };
    let record = Record { key: block("group-key"), value: Some(block("group-value")) };
    assert_eq!(commit.encode(), record);
}
