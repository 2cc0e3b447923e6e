//! Each kind of record as the bytes that Kafka writes.

use std::sync::Arc;

use base::{PartitionIndex, TimestampMs};
use proptest::prelude::*;

use super::super::*;
use super::stage::topic_id;
use crate::assign::Partitions;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check(record: &ConsumerGroupRecord, key: &str, value: &str) {
    let (key_bytes, value_bytes) = record.encode("g").expect("short names");
    assert_eq!(hex(&key_bytes), key, "{record:?}");
    assert_eq!(value_bytes.as_deref().map(hex).as_deref(), Some(value), "{record:?}");
    let read = ConsumerGroupRecord::decode(&key_bytes, value_bytes.as_deref());
    assert_eq!(read, Ok(Some(("g".to_owned(), record.clone()))));
}

const TOPIC: &str = "00000000000000000000000000000007";

#[test]
fn every_kind_is_written_as_kafka_does() {
    let partitions: Partitions = [(topic_id(7), [PartitionIndex(0), PartitionIndex(2)].into())].into();
    let owned: Owned = [(topic_id(7), [(PartitionIndex(1), 3)].into())].into();
    let metadata = MemberMetadata {
        instance_id: None,
        rack_id: Some("r".into()),
        client_id: "c".into(),
        client_host: "/h".into(),
        topics: vec!["t".into()],
        regex: None,
        rebalance_timeout_ms: 300_000,
        assignor: Some("range".into()),
        classic: None,
    };
    let current = CurrentAssignment {
        epoch: 5,
        previous_epoch: 4,
        state: MemberState::UnrevokedPartitions,
        assigned: owned,
        revoking: Owned::new(),
    };
    let (group, member) = ("000167", "0001670001" /* g, and the length of the member's id */);
    check(
        &ConsumerGroupRecord::Metadata(Some(GroupEpoch { epoch: 9, metadata_hash: 1 })),
        &format!("0003{group}"),
        "0000000000090100080000000000000001",
    );
    check(
        &ConsumerGroupRecord::MemberMetadata("m".into(), Some(Arc::new(metadata))),
        &format!("0005{member}6d"),
        "00000002720263032f6802027401000493e00672616e676500",
    );
    check(
        &ConsumerGroupRecord::TargetAssignmentMetadata(Some(TargetEpoch {
            epoch: 9,
            at: Some(TimestampMs(2)),
        })),
        &format!("0006{group}"),
        "0000000000090100080000000000000002",
    );
    check(
        &ConsumerGroupRecord::TargetAssignmentMember("m".into(), Some(Arc::new(partitions))),
        &format!("0007{member}6d"),
        &format!("000002{TOPIC}0300000000000000020000"),
    );
    check(
        &ConsumerGroupRecord::CurrentMemberAssignment("m".into(), Some(Arc::new(current))),
        &format!("0008{member}6d"),
        &format!("000000000005000000040102{TOPIC}020000000101000502000000030100"),
    );
    check(
        &ConsumerGroupRecord::RegularExpression(
            "t.*".into(),
            Some(Arc::new(ResolvedRegex { topics: vec!["t".into()], version: 3, at: TimestampMs(4) })),
        ),
        &format!("0010{group}0003742e2a"),
        "00000202740000000000000003000000000000000400",
    );
}

#[test]
fn what_is_gone_has_no_value_and_what_is_old_is_read() {
    let gone = ConsumerGroupRecord::PartitionMetadata(None);
    let (key, value) = gone.encode("g").expect("short names");
    assert_eq!((hex(&key).as_str(), value), ("0004000167", None));
    assert_eq!(ConsumerGroupRecord::decode(&key, None), Ok(Some(("g".into(), gone))));
    // A current assignment from before the epochs of partitions: they count as the member's own.
    let (key, _) = ConsumerGroupRecord::CurrentMemberAssignment("m".into(), None).encode("g").expect("short");
    let mut value = vec![0, 0, 0, 0, 0, 5, 0, 0, 0, 4, 0, 2];
    value.extend(topic_id(7).0.0);
    value.extend([2, 0, 0, 0, 1, 0, 1, 0]);
    let Ok(Some((_, ConsumerGroupRecord::CurrentMemberAssignment(_, Some(current))))) =
        ConsumerGroupRecord::decode(&key, Some(&value))
    else {
        panic!("it is one of ours")
    };
    assert_eq!(current.assigned, [(topic_id(7), [(PartitionIndex(1), 5)].into())].into());
    // Other kinds are somebody else's; what is cut short is refused.
    assert_eq!(ConsumerGroupRecord::decode(&[0, 2, 0, 1, 103], None), Ok(None));
    assert!(ConsumerGroupRecord::decode(&key, Some(&value[..20])).is_err());
    assert!(ConsumerGroupRecord::decode(&key, Some(&[0, 9])).is_err(), "a version of the future");
}

/// A record of few members, topics and partitions, so that they get in each other's way.
fn any_record() -> impl Strategy<Value = ConsumerGroupRecord> {
    let member = || proptest::sample::select(vec!["a", "b", "c"]).prop_map(MemberId::from);
    let owned = || {
        let of = proptest::collection::btree_map((0..3i32).prop_map(PartitionIndex), 0..9i32, 0..3);
        proptest::collection::btree_map((1..3u128).prop_map(topic_id), of, 0..3)
    };
    let current = (owned(), owned(), -2..9i32).prop_map(|(assigned, revoking, epoch)| {
        Arc::new(CurrentAssignment { epoch, assigned, revoking, ..CurrentAssignment::default() })
    });
    let names = proptest::sample::subsequence(vec!["t", "u"], 0..=2);
    let metadata = (names, proptest::option::of("[tu]"), proptest::option::of("[ij]")).prop_map(
        |(names, regex, instance_id)| {
            let topics = names.into_iter().map(str::to_owned).collect();
            Arc::new(MemberMetadata { topics, regex, instance_id, ..MemberMetadata::default() })
        },
    );
    prop_oneof![
        (member(), proptest::option::of(current))
            .prop_map(|(id, it)| ConsumerGroupRecord::CurrentMemberAssignment(id, it)),
        (member(), proptest::option::of(metadata))
            .prop_map(|(id, it)| ConsumerGroupRecord::MemberMetadata(id, it)),
        member().prop_map(|id| ConsumerGroupRecord::TargetAssignmentMember(id, None)),
        Just(ConsumerGroupRecord::Metadata(None)),
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        kind in 0..20i16, key in proptest::collection::vec(any::<u8>(), 0..20),
        value in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..60)),
    ) {
        let key = [&kind.to_be_bytes()[..], &[0, 1, b'g', 0, 1, b'm'], &key].concat();
        let value = value.map(|rest| [&[0, 0][..], &rest].concat());
        if let Ok(Some((group, record))) = ConsumerGroupRecord::decode(&key, value.as_deref()) {
            ConsumerGroup::new(&group).replay(&record);
        }
    }

    #[test]
    fn any_records_are_taken_in_and_taken_back(records in proptest::collection::vec(any_record(), 0..30)) {
        let mut group = ConsumerGroup::new("g");
        records.iter().for_each(|record| group.replay(record));
        let gone = group.tombstones();
        gone.iter().for_each(|record| group.replay(record));
        prop_assert_eq!(group.state, State::default());
    }
}
