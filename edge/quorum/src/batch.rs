//! Entries as record batches.
//!
//! ```text
//!   blank        control batch, LeaderChange      a leader's first
//!   membership   control batch, KRaftVoters
//!   normal       batch of metadata records        what a controller proposed
//! ```
//!
//! The leader writes the batch once; every other log gets its bytes.

use base::{LeaderEpoch, Offset, TimestampMs};
use bytes::Bytes;
use metadata::{MetadataRecord, RecordError};
use openraft::EntryPayload;
use records::{
    BatchBuilder, BatchHeader, BatchOptions, ControlType, HEADER_BYTES, LeaderChange, Scratch, StoredBatch,
};

use crate::error::{Malformed, ProposeError};
use crate::members;
use crate::types::{Entry, Membership, Payload, Records, broker, log_id};

/// How much the records of one batch may take: Kafka's limit of a metadata batch.
pub(crate) const BATCH_BYTES_MAX: usize = 8 << 20;

/// What a batch may have beside the records, and then some: the limit on what is taken from others.
pub(crate) const STORED_BYTES_MAX: usize = BATCH_BYTES_MAX + (1 << 20);

/// A batch of these records, of no place yet.
pub(crate) fn propose(records: &[MetadataRecord], at: TimestampMs) -> Result<Bytes, ProposeError> {
    let mut batch = BatchBuilder::new(BATCH_BYTES_MAX);
    let mut value = Vec::new();
    let too_large = ProposeError::TooLarge { bytes_max: BATCH_BYTES_MAX };
    // A batch has a record at least.
    let nothing = [MetadataRecord::NoOp];
    for record in if records.is_empty() { &nothing } else { records } {
        value.clear();
        record.encode(&mut value).map_err(|_| too_large.clone())?;
        batch.try_append(at, None, Some(&value), &[]).map_err(|_| too_large.clone())?;
    }
    if batch.size_bytes() > STORED_BYTES_MAX {
        return Err(too_large);
    }
    finish(batch, &BatchOptions::default())
}

fn finish(mut batch: BatchBuilder, options: &BatchOptions) -> Result<Bytes, ProposeError> {
    let mut bytes = Vec::new();
    let finished = batch.finish(options, &mut Scratch::default(), &mut bytes);
    finished.map_err(|_| ProposeError::TooLarge { bytes_max: BATCH_BYTES_MAX })?;
    Ok(bytes.into())
}

/// Who writes entries of its own: what a blank one says of it.
pub(crate) struct Author<'a> {
    pub(crate) node: u64,
    pub(crate) members: &'a Membership,
    pub(crate) now: TimestampMs,
}

/// The batch of an entry at its place in the log.
pub(crate) fn place(entry: &Entry, offset: Offset, author: &Author<'_>) -> Result<Bytes, Malformed> {
    let epoch = crate::types::epoch(entry.log_id.leader_id.term);
    if let Some(stored) = &entry.stored {
        let header = check_place(stored, offset, epoch)?;
        debug_assert_eq!(header.base_offset, offset);
        return Ok(stored.clone());
    }
    match &entry.payload {
        EntryPayload::Normal(Records(bytes)) => {
            let mut placed = bytes.to_vec();
            let mut header = BatchHeader::parse(&placed).map_err(|error| Malformed(error.to_string()))?;
            header.place(offset, epoch);
            placed[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
            Ok(placed.into())
        }
        EntryPayload::Blank => {
            let voters = author.members.voter_ids().map(broker).collect();
            let change = LeaderChange { leader: broker(author.node), voters, granting: Vec::new() };
            let mut bytes = Vec::new();
            change.write_batch(epoch, author.now, &mut bytes);
            let mut header = BatchHeader::parse(&bytes).map_err(|error| Malformed(error.to_string()))?;
            header.place(offset, epoch);
            bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
            Ok(bytes.into())
        }
        EntryPayload::Membership(membership) => {
            let value = members::encode(membership).map_err(|error| Malformed(error.to_string()))?;
            // Every voter writes the first one for itself, and all are to be the same.
            let at = if entry.log_id.leader_id.term == 0 { TimestampMs(0) } else { author.now };
            let mut bytes = Vec::new();
            write_control(&[(ControlType::KRaftVoters, &value)], offset, epoch, at, &mut bytes)?;
            Ok(bytes.into())
        }
    }
}

/// Appends a control batch of these records.
pub(crate) fn write_control(
    records: &[(ControlType, &[u8])],
    offset: Offset,
    epoch: LeaderEpoch,
    at: TimestampMs,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let full = || Malformed("a control batch is too large".into());
    let mut batch = BatchBuilder::new(BATCH_BYTES_MAX);
    for (of, value) in records {
        batch.try_append(at, Some(&of.key()), Some(value), &[]).map_err(|_| full())?;
    }
    let options =
        BatchOptions { base_offset: offset, leader_epoch: epoch, control: true, ..BatchOptions::default() };
    batch.finish(&options, &mut Scratch::default(), out).map_err(|_| full())?;
    Ok(())
}

fn check_place(stored: &Bytes, offset: Offset, epoch: LeaderEpoch) -> Result<BatchHeader, Malformed> {
    let header = BatchHeader::parse(stored).map_err(|error| Malformed(error.to_string()))?;
    if header.base_offset != offset || header.leader_epoch != epoch {
        return Err(Malformed(format!(
            "a batch of epoch {} at offset {}, where one of epoch {epoch} at offset {offset} belongs",
            header.leader_epoch, header.base_offset
        )));
    }
    Ok(header)
}

/// The entry that a batch is, checked as far as it can be without looking at its records.
pub(crate) fn entry(index: u64, bytes: Bytes) -> Result<Entry, Malformed> {
    let batch = StoredBatch::check(&bytes).map_err(|error| Malformed(error.to_string()))?;
    let term = u64::try_from(batch.leader_epoch().0)
        .map_err(|_| Malformed(format!("a batch of leader epoch {}", batch.leader_epoch())))?;
    let payload = payload(&batch, &bytes)?;
    Ok(Entry { log_id: log_id(term, index), payload, stored: Some(bytes) })
}

fn payload(batch: &StoredBatch<'_>, bytes: &Bytes) -> Result<Payload, Malformed> {
    if !batch.header().attributes.is_control() {
        return Ok(EntryPayload::Normal(Records(bytes.clone())));
    }
    let mut scratch = Scratch::default();
    for (of, value) in control_records(batch, &mut scratch)? {
        if of == ControlType::KRaftVoters {
            return members::decode(&value).map(EntryPayload::Membership);
        }
    }
    Ok(EntryPayload::Blank)
}

/// The records of a control batch.
pub(crate) fn control_records(
    batch: &StoredBatch<'_>,
    scratch: &mut Scratch,
) -> Result<Vec<(ControlType, Vec<u8>)>, Malformed> {
    let records = batch.records(scratch).map_err(|error| Malformed(error.to_string()))?;
    let mut found = Vec::new();
    for record in records {
        let record = record.map_err(|error| Malformed(error.to_string()))?;
        let key = record.key.ok_or_else(|| Malformed("a control record without a key".into()))?;
        let of = ControlType::from_key(key).map_err(|error| Malformed(error.to_string()))?;
        found.push((of, record.value.unwrap_or_default().to_vec()));
    }
    Ok(found)
}

/// The metadata records of a batch; none of a control batch.
pub(crate) fn metadata_records(
    batch: &StoredBatch<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<MetadataRecord>,
) -> Result<(), (Offset, RecordError)> {
    if batch.header().attributes.is_control() {
        return Ok(());
    }
    let wrong = |what: String| RecordError::Value { field: "the record", value: what };
    let at = batch.base_offset();
    let records = batch.records(scratch).map_err(|error| (at, wrong(error.to_string())))?;
    for record in records {
        let record = record.map_err(|error| (at, wrong(error.to_string())))?;
        let offset = record.offset(batch.header());
        let value = record.value.ok_or_else(|| (offset, wrong("empty".into())))?;
        out.push(MetadataRecord::decode(value).map_err(|error| (offset, error))?);
    }
    Ok(())
}
