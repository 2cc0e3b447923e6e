//! What one asks who follows without a vote.

use base::{LeaderEpoch, Offset};
use wire::{Decoder, EncodeError, Encoder};

use crate::error::Malformed;

/// Committed batches from an offset on, for one who follows without a vote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadRequest {
    pub(crate) from: Offset,
    /// The epoch of its last batch before.
    pub(crate) epoch: LeaderEpoch,
    pub(crate) bytes_max: u32,
    /// How long to wait if there is nothing new.
    pub(crate) wait_max_ms: u32,
    /// Whether it can be given a vote.
    pub(crate) may_vote: bool,
}

impl ReadRequest {
    pub(crate) fn encode(&self, e: &mut Encoder) -> Result<(), EncodeError> {
        e.i64(self.from.0);
        e.i32(self.epoch.0);
        e.i32(self.bytes_max.cast_signed());
        e.i32(self.wait_max_ms.cast_signed());
        e.bool(self.may_vote);
        Ok(())
    }

    pub(crate) fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let malformed = |error: wire::DecodeError| Malformed(error.to_string());
        let from = Offset(d.i64().map_err(malformed)?);
        if from < Offset::ZERO {
            return Err(Malformed(format!("offset {from}")));
        }
        Ok(Self {
            from,
            epoch: LeaderEpoch(d.i32().map_err(malformed)?),
            bytes_max: d.i32().map_err(malformed)?.max(0).cast_unsigned(),
            wait_max_ms: d.i32().map_err(malformed)?.max(0).cast_unsigned(),
            may_vote: d.bool().map_err(malformed)?,
        })
    }
}
