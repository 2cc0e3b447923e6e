//! An answer of which some records turn out to be unreadable before it leaves.
//!
//! Records are not read where the answer is made: it is decoded again, with nothing where they go, which costs what
//! the marks of its partitions do. Only a disk that fails has that done.

use base::ErrorCode;
use wire::messages::fetch::FetchResponse;
use wire::{Message, Records, decode_response_header};

use super::found::Found;
use crate::call::{Answer, CloseReason};

impl Answer {
    /// The answer to a fetch without the records that cannot be read: their partitions say that their storage
    /// failed, and nothing changes for the others. `is_unreadable` says it of each slice, in their order.
    pub fn without_unreadable(self, is_unreadable: &[bool]) -> Result<Self, CloseReason> {
        let Self { frame, slices, reply } = self;
        let whole = frame.with_zeroes();
        let (_, mut body) = decode_response_header(&whole[4..], reply.key, reply.version)?;
        let mut response = FetchResponse::decode(&mut body, reply.version)?;
        let mut left = slices.into_iter().zip(is_unreadable);
        let mut kept = Vec::with_capacity(left.len());
        let parts = response.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
        for part in parts {
            let len = part.records.map_or(0, |records| records.len());
            let (mut missing, mut is_lost) = (len, false);
            let start = kept.len();
            while missing > 0 {
                let (slice, is_unreadable) = left.next().expect("the slices of an answer fill its holes");
                missing = missing.checked_sub(slice.len as usize).expect("a slice lies within its hole");
                is_lost |= is_unreadable;
                kept.push(slice);
            }
            if is_lost {
                kept.truncate(start);
                let failed = Found::Error(ErrorCode::KafkaStorageError).known_to(reply.version);
                *part = failed.response(part.partition_index, &mut Vec::new());
            } else if len > 0 {
                part.records = Some(Records::External { len: u32::try_from(len).expect("as it was") });
            }
        }
        let frame = wire::encode_response(reply.correlation_id, reply.key, reply.version, &response)?;
        Ok(Self { frame, slices: kept, reply })
    }
}
