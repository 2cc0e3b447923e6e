//! What nodes of a quorum say to each other, as bytes.
//!
//! ```text
//!   request  | version i8 | cluster id | from i32, home | to i32, directory | kind i8 | body |
//!   answer   | version i8 | home | 0 | body |
//!            | version i8 | home | 1, or 2: you are no member | why it was refused |
//!   home     | directory | address |
//! ```
//!
//! Entries travel as the batches they are in the log of whoever led when they were made.
//!
//! **Invariant:** no bytes make this module panic, and what it lets through is what the consensus library
//! takes for granted: entries that follow each other, of epochs that do not fall and are not beyond the vote.

use base::{BrokerId, LeaderEpoch, Offset, Uuid};
use bytes::Bytes;
use openraft::EntryPayload;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse,
};
use records::{HEADER_BYTES, Scratch, StoredBatch};
use wire::{DecodeError, Decoder, EncodeError, Encoder};

use crate::batch::{self, STORED_BYTES_MAX};
use crate::error::Malformed;
use crate::read_request::ReadRequest;
use crate::snapshot::SnapshotId;
use crate::types::{Entry, Home, LogId, Types, Vote, broker, log_id, node};

const VERSION: i8 = 1;

/// The longest request or answer: whoever carries them has to take as much.
pub const MESSAGE_BYTES_MAX: usize = STORED_BYTES_MAX + (1 << 20);

/// Who asks whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Addressed {
    pub(crate) cluster: String,
    pub(crate) from: u64,
    /// Where the one who asks listens, and its directory.
    pub(crate) home: Home,
    pub(crate) to: u64,
    /// The directory that the one who is asked is known by; [`Uuid::ZERO`] if none is. With another it is not who
    /// is meant.
    pub(crate) directory: Uuid,
}

/// A part of a snapshot on its way from a leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotPart {
    pub(crate) vote: Vote,
    pub(crate) id: SnapshotId,
    /// Where in the file it belongs.
    pub(crate) position: u64,
    /// Bytes of the file.
    pub(crate) total: u64,
    pub(crate) bytes: Bytes,
}

/// What is asked.
#[derive(Debug)]
pub(crate) enum Request {
    Append(AppendEntriesRequest<Types>),
    Vote(VoteRequest<Types>),
    PreVote(VoteRequest<Types>),
    Snapshot(SnapshotPart),
    TransferLeader(TransferLeaderRequest<Types>),
    Read(ReadRequest),
    /// A part of a snapshot for one who reads it.
    ReadSnapshot {
        id: SnapshotId,
        position: u64,
        bytes_max: u32,
    },
}

impl Request {
    /// Whether one asks it who follows without a vote.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self, Self::Read(_) | Self::ReadSnapshot { .. })
    }
}

/// What is answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answer {
    Append(AppendEntriesResponse<Types>),
    Vote(VoteResponse<Types>),
    /// The vote of the one who takes it, and where it goes on.
    Snapshot {
        vote: Vote,
        next: u64,
    },
    TransferLeader {
        taken: bool,
    },
    Read(Read),
    ReadSnapshot {
        total: u64,
        bytes: Bytes,
    },
}

/// The answer to a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Read {
    /// Batches, and up to where the log is committed.
    Records { leader: Option<BrokerId>, epoch: LeaderEpoch, high_watermark: Offset, batches: Bytes },
    /// What is asked for is only in a snapshot.
    Snapshot(SnapshotId),
    /// The reader has something else: this epoch ends here.
    Diverging { epoch: LeaderEpoch, end: Offset },
}

/// What a request was answered with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Answered {
    Well(Answer),
    Refused(String),
    /// The one who asks is no member of the quorum.
    NoMember(String),
}

fn put_vote(e: &mut Encoder, vote: &Vote) {
    e.i32(crate::types::epoch(vote.leader_id.term).0);
    e.i32(broker(vote.leader_id.voted_for).0);
    e.bool(vote.committed);
}

fn put_log_id(e: &mut Encoder, id: Option<LogId>) {
    e.i64(id.map_or(-1, |id| id.index.cast_signed()));
    e.i32(id.map_or(-1, |id| crate::types::epoch(id.leader_id.term).0));
}

fn put_snapshot_id(e: &mut Encoder, id: SnapshotId) {
    e.i64(id.offset.0);
    e.i32(id.epoch.0);
}

fn put_vote_request(e: &mut Encoder, request: &VoteRequest<Types>) {
    put_vote(e, &request.vote);
    put_log_id(e, request.last_log_id);
    e.bool(request.leadership_transfer);
}

/// The bytes of a request.
pub(crate) fn encode_request(to: &Addressed, request: &Request) -> Result<Bytes, EncodeError> {
    let mut e = Encoder::new();
    e.i8(VERSION);
    e.str(&to.cluster, true)?;
    e.i32(broker(to.from).0);
    to.home.encode(&mut e)?;
    e.i32(broker(to.to).0);
    e.uuid(to.directory);
    match request {
        Request::Append(append) => {
            e.i8(0);
            put_append(&mut e, append)?;
        }
        Request::Vote(vote) => {
            e.i8(1);
            put_vote_request(&mut e, vote);
        }
        Request::PreVote(vote) => {
            e.i8(2);
            put_vote_request(&mut e, vote);
        }
        Request::Snapshot(part) => {
            e.i8(3);
            put_vote(&mut e, &part.vote);
            put_snapshot_id(&mut e, part.id);
            e.i64(part.position.cast_signed());
            e.i64(part.total.cast_signed());
            e.bytes(&part.bytes, true)?;
        }
        Request::TransferLeader(transfer) => {
            e.i8(4);
            put_vote(&mut e, transfer.from_leader());
            e.i32(broker(*transfer.to_node_id()).0);
            put_log_id(&mut e, transfer.last_log_id().copied());
        }
        Request::Read(read) => {
            e.i8(5);
            read.encode(&mut e)?;
        }
        Request::ReadSnapshot { id, position, bytes_max } => {
            e.i8(6);
            put_snapshot_id(&mut e, *id);
            e.i64(position.cast_signed());
            e.i32(bytes_max.cast_signed());
        }
    }
    Ok(e.into_bytes().into())
}

fn put_append(e: &mut Encoder, append: &AppendEntriesRequest<Types>) -> Result<(), EncodeError> {
    put_vote(e, &append.vote);
    put_log_id(e, append.prev_log_id);
    put_log_id(e, append.leader_commit);
    e.array(&append.entries, true, |e, entry| {
        // What is read from a log was stored there.
        e.bytes(entry.stored.as_deref().unwrap_or_default(), true)
    })
}

/// The bytes of an answer.
pub(crate) fn encode_answer(home: &Home, answered: &Answered) -> Bytes {
    let begin = || {
        let mut e = Encoder::new();
        e.i8(VERSION);
        // An address is a setting, which is shorter than a string can be.
        let _ = home.encode(&mut e);
        e
    };
    let mut e = begin();
    let refused = |e: &mut Encoder, status: i8, why: &str| {
        e.i8(status);
        // It is short, and what is not told is in the log of the one who refused.
        let _ = e.str(why, true);
    };
    match answered {
        Answered::Refused(why) => refused(&mut e, 1, why),
        Answered::NoMember(why) => refused(&mut e, 2, why),
        Answered::Well(answer) => {
            e.i8(0);
            if put_answer(&mut e, answer).is_err() {
                e = begin();
                refused(&mut e, 1, "the answer is too large");
            }
        }
    }
    e.into_bytes().into()
}

fn put_answer(e: &mut Encoder, answer: &Answer) -> Result<(), EncodeError> {
    match answer {
        Answer::Append(append) => {
            e.i8(0);
            match append {
                AppendEntriesResponse::Success => e.i8(0),
                // Nobody answers with a part of success: what follows is sent again.
                AppendEntriesResponse::Conflict | AppendEntriesResponse::PartialSuccess(_) => e.i8(1),
                AppendEntriesResponse::HigherVote(vote) => {
                    e.i8(2);
                    put_vote(e, vote);
                }
            }
        }
        Answer::Vote(vote) => {
            e.i8(1);
            put_vote(e, &vote.vote);
            e.bool(vote.vote_granted);
            put_log_id(e, vote.last_log_id);
        }
        Answer::Snapshot { vote, next } => {
            e.i8(3);
            put_vote(e, vote);
            e.i64(next.cast_signed());
        }
        Answer::TransferLeader { taken } => {
            e.i8(4);
            e.bool(*taken);
        }
        Answer::Read(read) => {
            e.i8(5);
            put_read(e, read)?;
        }
        Answer::ReadSnapshot { total, bytes } => {
            e.i8(6);
            e.i64(total.cast_signed());
            e.bytes(bytes, true)?;
        }
    }
    Ok(())
}

fn put_read(e: &mut Encoder, read: &Read) -> Result<(), EncodeError> {
    match read {
        Read::Records { leader, epoch, high_watermark, batches } => {
            e.i8(0);
            e.i32(leader.unwrap_or(BrokerId::NONE).0);
            e.i32(epoch.0);
            e.i64(high_watermark.0);
            e.bytes(batches, true)?;
        }
        Read::Snapshot(id) => {
            e.i8(1);
            put_snapshot_id(e, *id);
        }
        Read::Diverging { epoch, end } => {
            e.i8(2);
            e.i32(epoch.0);
            e.i64(end.0);
        }
    }
    Ok(())
}

impl From<DecodeError> for Malformed {
    fn from(error: DecodeError) -> Self {
        Self(error.to_string())
    }
}

fn take_node(d: &mut Decoder<'_>) -> Result<u64, Malformed> {
    let id = d.i32()?;
    if id < 0 {
        return Err(Malformed(format!("node {id}")));
    }
    Ok(node(BrokerId(id)))
}

fn take_term(d: &mut Decoder<'_>) -> Result<u64, Malformed> {
    let epoch = d.i32()?;
    u64::try_from(epoch).map_err(|_| Malformed(format!("epoch {epoch}")))
}

fn take_position(d: &mut Decoder<'_>) -> Result<u64, Malformed> {
    let position = d.i64()?;
    u64::try_from(position).map_err(|_| Malformed(format!("position {position}")))
}

fn take_vote(d: &mut Decoder<'_>) -> Result<Vote, Malformed> {
    let (term, node) = (take_term(d)?, take_node(d)?);
    Ok(if d.bool()? { Vote::new_committed(term, node) } else { Vote::new(term, node) })
}

fn take_log_id(d: &mut Decoder<'_>) -> Result<Option<LogId>, Malformed> {
    let (index, term) = (d.i64()?, d.i32()?);
    match (u64::try_from(index), u64::try_from(term)) {
        (Ok(index), Ok(term)) if index < i64::MAX as u64 => Ok(Some(log_id(term, index))),
        _ if (index, term) == (-1, -1) => Ok(None),
        _ => Err(Malformed(format!("index {index} of epoch {term}"))),
    }
}

fn take_snapshot_id(d: &mut Decoder<'_>) -> Result<SnapshotId, Malformed> {
    Ok(SnapshotId { offset: take_offset(d)?, epoch: crate::types::epoch(take_term(d)?) })
}

fn take_offset(d: &mut Decoder<'_>) -> Result<Offset, Malformed> {
    let offset = Offset(d.i64()?);
    if offset < Offset::ZERO {
        return Err(Malformed(format!("offset {offset}")));
    }
    Ok(offset)
}

fn take_vote_request(d: &mut Decoder<'_>) -> Result<VoteRequest<Types>, Malformed> {
    let mut request = VoteRequest::<Types>::new(take_vote(d)?, take_log_id(d)?);
    request.leadership_transfer = d.bool()?;
    let is_beyond =
        request.last_log_id.is_some_and(|last: LogId| last.leader_id.term > request.vote.leader_id.term);
    if is_beyond || request.vote.committed {
        return Err(Malformed(format!("{request}")));
    }
    Ok(request)
}

fn take_version(d: &mut Decoder<'_>) -> Result<(), Malformed> {
    match d.i8()? {
        VERSION => Ok(()),
        version => Err(Malformed(format!("version {version}, which this release does not speak"))),
    }
}

/// Who asks whom, and a decoder that stands at what.
pub(crate) fn decode_addressed(bytes: &[u8]) -> Result<(Addressed, Decoder<'_>), Malformed> {
    let mut d = Decoder::new(bytes);
    take_version(&mut d)?;
    let cluster = d.str(true)?.to_owned();
    let from = take_node(&mut d)?;
    let home = Home::decode(&mut d)?;
    let (to, directory) = (take_node(&mut d)?, d.uuid()?);
    Ok((Addressed { cluster, from, home, to, directory }, d))
}

/// What is asked.
pub(crate) fn decode_request(d: &mut Decoder<'_>) -> Result<Request, Malformed> {
    let request = match d.i8()? {
        0 => Request::Append(take_append(d)?),
        1 => Request::Vote(take_vote_request(d)?),
        2 => Request::PreVote(take_vote_request(d)?),
        3 => Request::Snapshot(SnapshotPart {
            vote: take_vote(d)?,
            id: take_snapshot_id(d)?,
            position: take_position(d)?,
            total: take_position(d)?,
            bytes: Bytes::copy_from_slice(d.bytes(true)?),
        }),
        4 => {
            let (from, to) = (take_vote(d)?, take_node(d)?);
            Request::TransferLeader(TransferLeaderRequest::new(from, to, take_log_id(d)?))
        }
        5 => Request::Read(ReadRequest::decode(d)?),
        6 => {
            let (id, position) = (take_snapshot_id(d)?, take_position(d)?);
            Request::ReadSnapshot { id, position, bytes_max: d.i32()?.max(0).cast_unsigned() }
        }
        kind => return Err(Malformed(format!("a request of kind {kind}"))),
    };
    d.finish()?;
    Ok(request)
}

fn take_append(d: &mut Decoder<'_>) -> Result<AppendEntriesRequest<Types>, Malformed> {
    let vote = take_vote(d)?;
    let prev_log_id = take_log_id(d)?;
    let leader_commit = take_log_id(d)?;
    // Each is a batch.
    let raw = d.array(true, HEADER_BYTES, |d| d.bytes(true))?;
    if !vote.committed {
        return Err(Malformed("entries of one who was not elected".into()));
    }
    let mut last = prev_log_id;
    let mut entries: Vec<Entry> = Vec::new();
    let mut scratch = Scratch::default();
    for bytes in raw {
        let index = last.map_or(0, |last| last.index + 1);
        let entry = checked_entry(index, bytes, &mut scratch)?;
        let term = entry.log_id.leader_id.term;
        if term > vote.leader_id.term || last.is_some_and(|last| term < last.leader_id.term) {
            return Err(Malformed(format!("an entry of epoch {term} at index {index}")));
        }
        last = Some(entry.log_id);
        entries.push(entry);
    }
    let beyond = [prev_log_id, leader_commit];
    if beyond.into_iter().flatten().any(|id| id.leader_id.term > vote.leader_id.term) {
        return Err(Malformed("entries beyond the epoch of their leader".into()));
    }
    Ok(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
}

/// An entry of which even the records were looked at.
pub(crate) fn checked_entry(index: u64, bytes: &[u8], scratch: &mut Scratch) -> Result<Entry, Malformed> {
    if bytes.len() > STORED_BYTES_MAX {
        return Err(Malformed(format!("an entry of {} bytes", bytes.len())));
    }
    let entry = batch::entry(index, Bytes::copy_from_slice(bytes))?;
    if let EntryPayload::Normal(_) = entry.payload {
        let batch = StoredBatch::trust(bytes).map_err(|error| Malformed(error.to_string()))?;
        let read = batch::metadata_records(&batch, scratch, &mut Vec::new());
        read.map_err(|(offset, error)| Malformed(format!("at offset {offset}: {error}")))?;
    }
    Ok(entry)
}

/// What was answered, and the home of the one who did.
pub(crate) fn decode_answer(bytes: &[u8]) -> Result<(Home, Answered), Malformed> {
    let mut d = Decoder::new(bytes);
    take_version(&mut d)?;
    let home = Home::decode(&mut d)?;
    let answered = match d.i8()? {
        0 => Answered::Well(take_answer(&mut d)?),
        1 => Answered::Refused(d.str(true)?.to_owned()),
        2 => Answered::NoMember(d.str(true)?.to_owned()),
        status => return Err(Malformed(format!("an answer of status {status}"))),
    };
    d.finish()?;
    Ok((home, answered))
}

fn take_answer(d: &mut Decoder<'_>) -> Result<Answer, Malformed> {
    Ok(match d.i8()? {
        0 => Answer::Append(match d.i8()? {
            0 => AppendEntriesResponse::Success,
            1 => AppendEntriesResponse::Conflict,
            2 => AppendEntriesResponse::HigherVote(take_vote(d)?),
            kind => return Err(Malformed(format!("an answer of kind {kind} to entries"))),
        }),
        1 => {
            let (vote, granted) = (take_vote(d)?, d.bool()?);
            Answer::Vote(VoteResponse::new(vote, take_log_id(d)?, granted))
        }
        3 => Answer::Snapshot { vote: take_vote(d)?, next: take_position(d)? },
        4 => Answer::TransferLeader { taken: d.bool()? },
        5 => Answer::Read(match d.i8()? {
            0 => Read::Records {
                leader: Some(BrokerId(d.i32()?)).filter(|leader| leader.0 >= 0),
                epoch: LeaderEpoch(d.i32()?),
                high_watermark: take_offset(d)?,
                batches: Bytes::copy_from_slice(d.bytes(true)?),
            },
            1 => Read::Snapshot(take_snapshot_id(d)?),
            2 => Read::Diverging { epoch: LeaderEpoch(d.i32()?), end: take_offset(d)? },
            kind => return Err(Malformed(format!("an answer of kind {kind} to a reader"))),
        }),
        6 => Answer::ReadSnapshot { total: take_position(d)?, bytes: Bytes::copy_from_slice(d.bytes(true)?) },
        kind => return Err(Malformed(format!("an answer of kind {kind}"))),
    })
}
