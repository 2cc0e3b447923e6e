//! Records in words, for people who look into a log: every kind that Kafka 4.4 writes, also those that are not kept
//! here.

use std::fmt::Debug;

use wire::{Decoder, Message};

use super::{RecordError, versioned};
use crate::record::*;

/// A record in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownRecord {
    /// What its key is about, by Kafka's name, and what it names.
    pub key: String,
    /// What is true of it; `None` for a tombstone.
    pub value: Option<String>,
}

impl ShownRecord {
    /// Puts a record into words. `None` for a kind that Kafka 4.4 does not write.
    ///
    /// # Errors
    /// Bytes that are not what their number says.
    pub fn read(key: &[u8], value: Option<&[u8]>) -> Result<Option<Self>, RecordError> {
        let mut d = Decoder::new(key);
        let kind = d.i16().map_err(RecordError::Key)?;
        let read = match kind {
            0 => of::<LegacyOffsetCommitKey, LegacyOffsetCommitValue>,
            1 => of::<OffsetCommitKey, OffsetCommitValue>,
            2 => of::<GroupMetadataKey, GroupMetadataValue>,
            3 => of::<ConsumerGroupMetadataKey, ConsumerGroupMetadataValue>,
            4 => of::<ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue>,
            5 => of::<ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue>,
            6 => of::<ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue>,
            7 => of::<ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue>,
            8 => of::<ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue>,
            10 => of::<ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue>,
            11 => of::<ShareGroupMetadataKey, ShareGroupMetadataValue>,
            12 => of::<ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue>,
            13 => of::<ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue>,
            14 => of::<ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue>,
            15 => of::<ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue>,
            16 => of::<ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue>,
            17 => of::<StreamsGroupMetadataKey, StreamsGroupMetadataValue>,
            19 => of::<StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue>,
            20 => of::<StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue>,
            21 => of::<StreamsGroupTargetAssignmentMemberKey, StreamsGroupTargetAssignmentMemberValue>,
            22 => of::<StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue>,
            23 => of::<StreamsGroupTopologyKey, StreamsGroupTopologyValue>,
            _ => return Ok(None),
        };
        read(kind, d, value).map(Some)
    }
}

fn of<K, V>(kind: i16, mut key: Decoder<'_>, value: Option<&[u8]>) -> Result<ShownRecord, RecordError>
where
    K: for<'a> Message<'a> + Debug,
    V: for<'a> Message<'a> + Debug,
{
    let read = K::decode(&mut key, 0).map_err(RecordError::Key)?;
    key.finish().map_err(RecordError::Key)?;
    let value = versioned::<V>(kind, value)?;
    Ok(ShownRecord { key: format!("{read:?}"), value: value.map(|value| format!("{value:?}")) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GroupRecord;

    #[test]
    fn what_kafka_writes_can_be_read_by_people() {
        let value = OffsetCommitValue { offset: 42, ..OffsetCommitValue::default() };
        let record =
            GroupRecord::OffsetCommit { group: "g", topic: "t", partition: 3, value: Some(value) }.encode();
        let shown = ShownRecord::read(&record.key, record.value.as_deref()).unwrap().unwrap();
        assert_eq!(shown.key, "OffsetCommitKey { group: \"g\", topic: \"t\", partition: 3 }");
        assert!(shown.value.unwrap().starts_with("OffsetCommitValue { offset: 42, leader_epoch: -1"));
        // A share group's, which nobody here keeps, and its end.
        let key = [0, 11, 0, 1, b's'];
        let shown = ShownRecord::read(&key, None).unwrap().unwrap();
        assert_eq!((&*shown.key, shown.value), ("ShareGroupMetadataKey { group_id: \"s\" }", None));
        assert_eq!(ShownRecord::read(&[0, 99, 1], None), Ok(None));
        for kind in 0..=24 {
            for len in 0..key.len() {
                let bytes = [&[0, kind][..], &[0, 1, b's', 0, 9][..len]].concat();
                let _ = ShownRecord::read(&bytes, Some(&bytes));
            }
        }
        assert!(ShownRecord::read(&[0], None).is_err());
    }
}
