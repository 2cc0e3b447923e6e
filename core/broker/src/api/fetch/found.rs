//! What there is to say of one partition, and how it is said.

use base::{BrokerId, ErrorCode, LeaderEpoch, Offset};
use replica::Fetched;
use storage::FileSlice;
use wire::Records;
use wire::messages::fetch::{AbortedTransaction, EpochEndOffset, PartitionData};

use crate::fetch_session::Told;

/// What there is to say of one partition.
pub(super) enum Found {
    Read(Fetched),
    /// It is to be read from this replica: the marks, and no records.
    Elsewhere(Fetched, BrokerId),
    /// Nobody has it, as far as the cluster knows.
    Absent(ErrorCode),
    Error(ErrorCode),
    /// A follower asks for what is not between these.
    Outside(Offset, Offset),
}

/// Never null: librdkafka takes a null for a message set of -1 bytes.
const NOTHING: Option<Records<'static>> = Some(Records::Bytes(&[]));

impl Found {
    /// Clients from before v6 do not know that a storage fails: they are to look for another leader.
    pub(super) fn known_to(self, version: i16) -> Self {
        match self {
            Self::Error(ErrorCode::KafkaStorageError) if version < 6 => {
                Self::Error(ErrorCode::NotLeaderOrFollower)
            }
            found => found,
        }
    }

    pub(super) fn told(&self) -> Option<Told> {
        match self {
            Self::Read(fetched) | Self::Elsewhere(fetched, _) => Some(Told {
                high_watermark: fetched.high_watermark.0,
                last_stable_offset: fetched.last_stable.0,
                log_start_offset: fetched.log_start.0,
            }),
            Self::Absent(_) | Self::Error(_) | Self::Outside(..) => None,
        }
    }

    pub(super) fn response(
        self,
        partition_index: i32,
        slices: &mut Vec<FileSlice>,
    ) -> PartitionData<'static> {
        // As captured from Kafka: no list of aborted transactions if the partition is there, an empty
        // one if not.
        let (code, aborted_transactions) = match self {
            Self::Read(fetched) => return read_response(fetched, partition_index, slices),
            Self::Elsewhere(marks, replica) => {
                let preferred_read_replica = replica.0;
                let response = read_response(marks, partition_index, slices);
                return PartitionData { preferred_read_replica, ..response };
            }
            Self::Absent(code) => (code, Some(Vec::new())),
            Self::Error(code) => (code, None),
            Self::Outside(start, end) => {
                return PartitionData {
                    partition_index,
                    error_code: ErrorCode::OffsetOutOfRange.code(),
                    high_watermark: -1,
                    last_stable_offset: end.0,
                    log_start_offset: start.0,
                    records: NOTHING,
                    ..PartitionData::default()
                };
            }
        };
        PartitionData {
            partition_index,
            error_code: code.code(),
            high_watermark: -1,
            aborted_transactions,
            records: NOTHING,
            ..PartitionData::default()
        }
    }
}

fn read_response(
    fetched: Fetched,
    partition_index: i32,
    slices: &mut Vec<FileSlice>,
) -> PartitionData<'static> {
    let len = fetched.bytes();
    slices.extend(fetched.slices);
    let aborted = |(producer, first): (base::ProducerId, Offset)| AbortedTransaction {
        producer_id: producer.0,
        first_offset: first.0,
    };
    let parted = |(epoch, end): (LeaderEpoch, Offset)| EpochEndOffset { epoch: epoch.0, end_offset: end.0 };
    PartitionData {
        partition_index,
        high_watermark: fetched.high_watermark.0,
        last_stable_offset: fetched.last_stable.0,
        log_start_offset: fetched.log_start.0,
        aborted_transactions: fetched.aborted.map(|txns| txns.into_iter().map(aborted).collect()),
        diverging_epoch: fetched.diverging.map_or_else(EpochEndOffset::default, parted),
        records: match u32::try_from(len) {
            Ok(len) if len > 0 => Some(Records::External { len }),
            _ => NOTHING,
        },
        ..PartitionData::default()
    }
}
