//! Snapshots: the cluster as it was at one place in the metadata log, in Kafka's file and form.
//!
//! ```text
//!   00000000000000004711-0000000003.checkpoint      up to offset 4711, the last record is of epoch 3
//!
//!   | SnapshotHeader | KRaftVersion, KRaftVoters | records of the image … | SnapshotFooter |
//!       tag 10000: index, epoch, membership's, offset        offsets are counted from 0
//! ```
//!
//! The footer is what tells a whole one: without it, with anything behind it, or with a checksum that is
//! wrong, it is none.

use std::path::{Path, PathBuf};

use base::{LeaderEpoch, Offset, TimestampMs};
use bytes::Bytes;
use metadata::{Image, MetadataRecord};
use records::{BatchBuilder, BatchOptions, ControlType, Scratch, StoredBatch, batches};
use storage::disk::{Disk, DiskError, OpenMode};
use wire::messages::kraft_version_record::KRaftVersionRecord;
use wire::messages::snapshot_footer_record::SnapshotFooterRecord;
use wire::{DecodeError, Decoder, EncodeError, Encoder, Message};

use crate::batch;
use crate::error::Malformed;
use crate::members;
use crate::types::{LogId, Membership, SnapshotMeta, StoredMembership, epoch, log_id};

/// Far above the tags that Kafka gives out in order.
const TAG: u32 = 10_000;

/// Records of one batch.
const RECORDS_PER_BATCH: usize = 1_000;

/// How large a snapshot may be that is taken from another node, or read from a disk: a thousand times that
/// of a cluster with ten thousand partitions.
pub(crate) const SNAPSHOT_BYTES_MAX: usize = 2 << 30;

const SUFFIX: &str = ".checkpoint";

/// A snapshot's name: the offset behind its last record, and that record's epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SnapshotId {
    /// The offset behind the last record in it.
    pub(crate) offset: Offset,
    /// The epoch of that record.
    pub(crate) epoch: LeaderEpoch,
}

impl SnapshotId {
    pub(crate) fn file_name(self) -> String {
        format!("{:020}-{:010}{SUFFIX}", self.offset.0, self.epoch.0)
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (offset, epoch) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        let id = Self { offset: Offset(offset.parse().ok()?), epoch: LeaderEpoch(epoch.parse().ok()?) };
        (id.file_name() == name).then_some(id)
    }
}

/// What a snapshot holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Checkpoint {
    /// The last entry in it.
    pub(crate) last: LogId,
    /// Who votes, and the entry that said so.
    pub(crate) members: StoredMembership,
    /// The cluster; its end is the offset behind the last entry.
    pub(crate) image: Image,
}

impl Checkpoint {
    pub(crate) fn id(&self) -> SnapshotId {
        SnapshotId { offset: self.image.end(), epoch: epoch(self.last.leader_id.term) }
    }

    pub(crate) fn meta(&self) -> SnapshotMeta {
        SnapshotMeta { last_log_id: Some(self.last), last_membership: self.members.clone() }
    }

    pub(crate) fn encode(&self, now: TimestampMs) -> Result<Bytes, Malformed> {
        let mut out = Writer { out: Vec::new(), offset: Offset::ZERO, epoch: self.id().epoch, now };
        let unwritable = |error: EncodeError| Malformed(error.to_string());
        let header = encode_header(self.last, self.image.end(), &self.members, now).map_err(unwritable)?;
        out.control(&[(ControlType::SnapshotHeader, &header)])?;
        let version =
            encode_message(&KRaftVersionRecord { version: 0, kraft_version: 1 }).map_err(unwritable)?;
        let voters = members::encode(self.members.membership()).map_err(unwritable)?;
        out.control(&[(ControlType::KRaftVersion, &version), (ControlType::KRaftVoters, &voters)])?;
        let mut records = self.image.to_records().peekable();
        while records.peek().is_some() {
            let some: Vec<_> = records.by_ref().take(RECORDS_PER_BATCH).collect();
            out.records(&some)?;
        }
        let footer = encode_message(&SnapshotFooterRecord { version: 0 }).map_err(unwritable)?;
        out.control(&[(ControlType::SnapshotFooter, &footer)])?;
        Ok(out.out.into())
    }

    /// Reads the snapshot of this name.
    pub(crate) fn decode(id: SnapshotId, bytes: &[u8]) -> Result<Self, Malformed> {
        let checkpoint = Self::decode_any(bytes)?;
        match checkpoint.id() == id {
            true => Ok(checkpoint),
            false => Err(Malformed(format!("it is {}", checkpoint.id().file_name()))),
        }
    }

    /// Reads a snapshot whole, and believes nothing in it before all of it was checked.
    pub(crate) fn decode_any(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut read = Reader::default();
        let mut scratch = Scratch::default();
        for batch in batches(bytes) {
            let batch = batch.map_err(|error| Malformed(error.to_string()))?;
            let batch = StoredBatch::check(batch.bytes()).map_err(|error| Malformed(error.to_string()))?;
            read.batch(&batch, &mut scratch)?;
        }
        let missing = |what: &str| Malformed(format!("it has no {what}"));
        let header = read.header.ok_or_else(|| missing("header"))?;
        let voters = read.voters.ok_or_else(|| missing("voters"))?;
        if !read.is_whole {
            return Err(missing("footer"));
        }
        if header.offset < Offset::ZERO {
            return Err(Malformed(format!("it ends at offset {}", header.offset)));
        }
        let (image, _) = Image::default().after(&read.records, header.offset);
        let term = |epoch: LeaderEpoch| {
            u64::try_from(epoch.0).map_err(|_| Malformed(format!("an epoch of {epoch}")))
        };
        let said_by = match header.members {
            Some((index, epoch)) => Some(log_id(term(epoch)?, index)),
            None => None,
        };
        let last = log_id(term(header.epoch)?, header.index);
        Ok(Self { last, members: StoredMembership::new(said_by, voters), image })
    }
}

struct Writer {
    out: Vec<u8>,
    offset: Offset,
    epoch: LeaderEpoch,
    now: TimestampMs,
}

impl Writer {
    fn control(&mut self, records: &[(ControlType, &[u8])]) -> Result<(), Malformed> {
        batch::write_control(records, self.offset, self.epoch, self.now, &mut self.out)?;
        self.offset.0 += records.len() as i64;
        Ok(())
    }

    fn records(&mut self, records: &[MetadataRecord]) -> Result<(), Malformed> {
        let full = || Malformed("a batch of the snapshot is too large".into());
        let mut batch = BatchBuilder::new(i32::MAX as usize / 2);
        let mut value = Vec::new();
        for record in records {
            value.clear();
            record.encode(&mut value).map_err(|error| Malformed(error.to_string()))?;
            batch.try_append(self.now, None, Some(&value), &[]).map_err(|_| full())?;
        }
        let options =
            BatchOptions { base_offset: self.offset, leader_epoch: self.epoch, ..BatchOptions::default() };
        batch.finish(&options, &mut Scratch::default(), &mut self.out).map_err(|_| full())?;
        self.offset.0 += records.len() as i64;
        Ok(())
    }
}

/// What the header says beside Kafka's fields.
#[derive(Debug)]
struct Header {
    index: u64,
    epoch: LeaderEpoch,
    offset: Offset,
    members: Option<(u64, LeaderEpoch)>,
}

#[derive(Default)]
struct Reader {
    header: Option<Header>,
    voters: Option<Membership>,
    records: Vec<MetadataRecord>,
    is_whole: bool,
}

impl Reader {
    fn batch(&mut self, batch: &StoredBatch<'_>, scratch: &mut Scratch) -> Result<(), Malformed> {
        if self.is_whole {
            return Err(Malformed("something stands behind its footer".into()));
        }
        if !batch.header().attributes.is_control() {
            let read = batch::metadata_records(batch, scratch, &mut self.records);
            return read.map_err(|(offset, error)| Malformed(format!("{error} at {offset}")));
        }
        for (of, value) in batch::control_records(batch, scratch)? {
            match of {
                ControlType::SnapshotHeader => {
                    let header = decode_header(&value).map_err(|error| Malformed(error.to_string()))?;
                    self.header = header;
                }
                ControlType::KRaftVoters => self.voters = Some(members::decode(&value)?),
                ControlType::SnapshotFooter => self.is_whole = true,
                ControlType::Abort
                | ControlType::Commit
                | ControlType::LeaderChange
                | ControlType::KRaftVersion
                | ControlType::Unknown(_) => {}
            }
        }
        Ok(())
    }
}

fn encode_message<'a>(message: &impl Message<'a>) -> Result<Vec<u8>, EncodeError> {
    let mut e = Encoder::new();
    message.encode(&mut e, 0)?;
    Ok(e.into_bytes())
}

fn encode_header(
    last: LogId,
    offset: Offset,
    members: &StoredMembership,
    now: TimestampMs,
) -> Result<Vec<u8>, EncodeError> {
    let mut e = Encoder::new();
    e.i16(0);
    e.i64(now.0);
    let tags = e.tags();
    let tag = e.tag(&tags, TAG);
    e.i64(last.index.cast_signed());
    e.i32(epoch(last.leader_id.term).0);
    let (index, said_in) =
        members.log_id().map_or((-1, -1), |at| (at.index.cast_signed(), epoch(at.leader_id.term).0));
    e.i64(index);
    e.i32(said_in);
    e.i64(offset.0);
    e.end_tag(tag)?;
    Ok(e.into_bytes())
}

/// `None` if another program wrote it.
fn decode_header(value: &[u8]) -> Result<Option<Header>, DecodeError> {
    let mut d = Decoder::new(value);
    // Kafka's version of the record, and when the last of its log was written.
    let _ = (d.i16()?, d.i64()?);
    let mut header = None;
    d.tags(|tag, d| {
        if tag == TAG {
            let (index, epoch) = (d.i64()?, LeaderEpoch(d.i32()?));
            let (members, said_in) = (d.i64()?, LeaderEpoch(d.i32()?));
            let members = u64::try_from(members).ok().map(|index| (index, said_in));
            let offset = Offset(d.i64()?);
            header = u64::try_from(index).ok().map(|index| Header { index, epoch, offset, members });
        }
        Ok(tag == TAG)
    })?;
    Ok(header)
}

/// The snapshots in a directory, the oldest first.
pub(crate) fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<SnapshotId>, DiskError> {
    let entries = disk.list(dir)?;
    let mut found: Vec<_> = entries.iter().filter_map(|entry| SnapshotId::parse(&entry.name)).collect();
    found.sort();
    Ok(found)
}

pub(crate) fn path(dir: &Path, id: SnapshotId) -> PathBuf {
    dir.join(id.file_name())
}

/// Reads a snapshot's bytes.
pub(crate) fn read(disk: &dyn Disk, dir: &Path, id: SnapshotId) -> Result<Option<Bytes>, DiskError> {
    Ok(disk.read(&path(dir, id), SNAPSHOT_BYTES_MAX as u64)?.map(Bytes::from))
}

/// Reads a part of a snapshot, and how long the whole is.
pub(crate) fn read_part(
    disk: &dyn Disk,
    dir: &Path,
    id: SnapshotId,
    (position, bytes_max): (u64, usize),
) -> Result<(u64, Bytes), DiskError> {
    let file = disk.open(&path(dir, id), OpenMode::Read)?;
    let len = file.len()?;
    let room = usize::try_from(len.saturating_sub(position)).unwrap_or(usize::MAX).min(bytes_max);
    let mut part = vec![0; room];
    let read = file.read_at(&mut part, position)?;
    part.truncate(read);
    Ok((len, part.into()))
}

/// Puts a snapshot in the directory; the older ones go once it is there for certain.
pub(crate) fn write(disk: &dyn Disk, dir: &Path, id: SnapshotId, bytes: &[u8]) -> Result<(), DiskError> {
    disk.replace(&path(dir, id), bytes)?;
    for older in list(disk, dir)?.into_iter().filter(|other| *other < id) {
        disk.remove_file(&path(dir, older))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use base::Uuid;
    use metadata::FeatureLevel;

    use super::*;
    use crate::types::Home;

    fn checkpoint() -> Checkpoint {
        let home = Home { address: "a:1".into(), directory: Uuid([1; 16]) };
        let nodes: BTreeMap<_, _> = [(1, home.clone()), (2, home)].into();
        let members = Membership::new(vec![[1].into()], nodes).expect("legal");
        let level = MetadataRecord::FeatureLevel(FeatureLevel { name: "metadata.version".into(), level: 33 });
        let (image, _) = Image::default().after(&[level], Offset(4711));
        Checkpoint { last: log_id(3, 99), members: StoredMembership::new(Some(log_id(0, 0)), members), image }
    }

    #[test]
    fn what_is_written_is_read() {
        let written = checkpoint();
        let bytes = written.encode(TimestampMs(5)).expect("small");
        assert_eq!(Checkpoint::decode(written.id(), &bytes), Ok(written.clone()));
        assert_eq!(written.id().file_name(), "00000000000000004711-0000000003.checkpoint");
        assert_eq!(SnapshotId::parse(&written.id().file_name()), Some(written.id()));
        let other = SnapshotId { epoch: LeaderEpoch(4), ..written.id() };
        assert!(Checkpoint::decode(other, &bytes).is_err());
    }

    #[test]
    fn a_part_of_one_is_none_and_no_bytes_panic() {
        let written = checkpoint();
        let bytes = written.encode(TimestampMs(5)).expect("small");
        for len in 0..bytes.len() {
            assert!(Checkpoint::decode(written.id(), &bytes[..len]).is_err(), "{len} bytes");
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 1;
            if let Ok(read) = Checkpoint::decode(written.id(), &flipped) {
                // Offsets and epochs of its batches are under no checksum, and of no meaning.
                assert_eq!(read, written, "byte {at}");
            }
        }
    }
}
