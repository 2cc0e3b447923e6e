//! Bugs that are planted in simulated clusters, to prove that such bugs are found.
//!
//! None of them is in the product: each is made where the simulated node hands something on, or in the
//! simulated quorum, as a careless change would make it behind that door.

use std::collections::BTreeMap;

use broker::call::{Answer, Outcome, ReplyTo};
use coordinator::GroupRecord;
use coordinator::consumer::ConsumerGroupRecord;
use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use wire::messages::offset_commit::OffsetCommitRequest;
use wire::messages::produce::ProduceRequest;
use wire::{ApiKey, Decoder, Message, Request, RequestHeader};

use super::keyed::KeyedRecord;
use super::net::Purpose;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// What is in the page cache counts as durable.
    CacheCounts,
    /// Disks say yes to every barrier and do nothing.
    BarriersIgnored,
    /// `min.insync.replicas` is taken for 1.
    MinIsrIgnored,
    /// Who produces with acks=all is answered as with acks=1.
    AckAtOnce,
    /// Followers do not say of which epoch their last record is.
    EpochsUncompared,
    /// A follower that diverges cuts to its own high watermark instead of the end of the epoch (KIP-101).
    CutToCommitted,
    /// A follower takes all that it has for committed.
    AllIsCommitted,
    /// A log that is opened is taken for committed to its end.
    CommittedToTheEnd,
    /// A leader changes its in-sync set without asking.
    IsrUnasked,
    /// A follower is taken for what the metadata say it is by now, not for what it was when it caught up
    /// (KIP-903).
    BrokerEpochGuessed,
    /// A broker does not say which of its logs it cannot vouch for (KIP-966).
    DoubtUnsaid,
    /// The mark of an orderly end is there from the beginning.
    CleanMarkKept,
    /// A process acts on what the metadata were before it registered.
    ActsTooSoon,
    /// A leader does not hear that it was deposed.
    LeadershipKept,
    /// Leaders are elected that lack what was acknowledged.
    UncleanElected,
    /// The quorum loses the last batch that it committed when another leads it.
    QuorumForgets,
    /// The quorum commits what a deposed leader proposes.
    DeposedIsHeard,
    /// A shard takes everything for committed that its log has.
    ReplyUncommitted,
    /// A shard is kept although its partition is led elsewhere, and goes on when it is led here again.
    ShardKept,
    /// A shard is loaded up to what is committed, not to the end of the log that its node leads.
    OnlyCommittedLoaded,
    /// Who reads the log of a shard takes a gap for its end.
    LoadEndsAtGap,
    /// Nobody looks at the generation of a commit.
    StaleCommitTaken,
    /// Every member that says that it is there is told that all is well.
    HeartbeatsUnread,
    /// A log that is to keep of each key the last loses what is old.
    CompactIsDelete,
    /// Tombstones are dropped that a replica may lack.
    TombstonesForgotten,
    /// Nobody looks at the epoch of a commit.
    StaleEpochTaken,
    /// Members of the new protocol are taken to have given up what they should as soon as they are heard.
    GivenBeforeRevoked,
    /// A shard does not learn from its log what members of the new protocol have.
    AssignmentsUnloaded,
    /// A shard does not learn from its log in which epoch groups of the new protocol are.
    EpochsUnloaded,
    /// A broker takes itself for one in touch, however long it has heard no controller: as a coordinator it says from
    /// memory what is committed.
    OutOfTouchSpeaks,
    /// A shard whose log could not be read is left alone.
    UnreadIsLeft,
    /// A replica whose records are damaged is not given up.
    DamageKept,
}

impl Plant {
    /// Those that show in any cluster.
    pub const ALL: [Self; 18] = [
        Self::CacheCounts,
        Self::BarriersIgnored,
        Self::MinIsrIgnored,
        Self::AckAtOnce,
        Self::EpochsUncompared,
        Self::CutToCommitted,
        Self::AllIsCommitted,
        Self::CommittedToTheEnd,
        Self::IsrUnasked,
        Self::BrokerEpochGuessed,
        Self::DoubtUnsaid,
        Self::CleanMarkKept,
        Self::ActsTooSoon,
        Self::LeadershipKept,
        Self::UncleanElected,
        Self::QuorumForgets,
        Self::DeposedIsHeard,
        Self::DamageKept,
    ];

    /// Those that show where there are groups.
    pub const OF_GROUPS: [Self; 14] = [
        Self::ReplyUncommitted,
        Self::ShardKept,
        Self::OnlyCommittedLoaded,
        Self::LoadEndsAtGap,
        Self::StaleCommitTaken,
        Self::HeartbeatsUnread,
        Self::CompactIsDelete,
        Self::TombstonesForgotten,
        Self::StaleEpochTaken,
        Self::GivenBeforeRevoked,
        Self::AssignmentsUnloaded,
        Self::EpochsUnloaded,
        Self::OutOfTouchSpeaks,
        Self::UnreadIsLeft,
    ];

    /// The one with this name, as `Debug` prints it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .chain(Self::OF_GROUPS)
            .find(|plant| format!("{plant:?}").eq_ignore_ascii_case(name))
    }
}

/// A request as a node that has the bug takes it.
pub(crate) fn alter_request(plant: Option<Plant>, purpose: Purpose, frame: &[u8]) -> Vec<u8> {
    let altered = match plant {
        Some(Plant::AckAtOnce) => acks_at_once(purpose, frame),
        Some(Plant::GivenBeforeRevoked) => has_nothing(purpose, frame),
        _ => None,
    };
    altered.unwrap_or_else(|| frame.to_vec())
}

/// Who writes is answered as with acks=1.
fn acks_at_once(purpose: Purpose, frame: &[u8]) -> Option<Vec<u8>> {
    let (header, mut body) = read_header(purpose, ApiKey::Produce, frame)?;
    let request = ProduceRequest::decode(&mut body, header.api_version).ok()?;
    Some(write(&header, &ProduceRequest { acks: request.acks.abs(), ..request }))
}

/// Whoever is there has nothing.
fn has_nothing(purpose: Purpose, frame: &[u8]) -> Option<Vec<u8>> {
    let (header, mut body) = read_header(purpose, ApiKey::ConsumerGroupHeartbeat, frame)?;
    let request = ConsumerGroupHeartbeatRequest::decode(&mut body, header.api_version).ok()?;
    let topic_partitions = (request.member_epoch > 0).then(Vec::new).or(request.topic_partitions);
    Some(write(&header, &ConsumerGroupHeartbeatRequest { topic_partitions, ..request }))
}

/// The header of a client's request, if it is one of these.
fn read_header(purpose: Purpose, key: ApiKey, frame: &[u8]) -> Option<(RequestHeader<'_>, Decoder<'_>)> {
    let (header, body) = wire::decode_request_header(frame).ok()?;
    let is_meant = purpose == Purpose::Client && ApiKey::from_i16(header.api_key) == Some(key);
    is_meant.then_some((header, body))
}

fn write<'a>(header: &RequestHeader<'_>, request: &impl Request<'a>) -> Vec<u8> {
    let frame = wire::encode_request(header.correlation_id, None, header.api_version, request);
    frame.expect("it was a request before").bytes.split_off(4)
}

/// Whether a shard that has the bug takes in a record of its log.
pub(crate) fn is_loaded(plant: Option<Plant>, record: &KeyedRecord) -> bool {
    if !matches!(plant, Some(Plant::AssignmentsUnloaded | Plant::EpochsUnloaded)) {
        return true;
    }
    let read = GroupRecord::decode(&record.key, record.value.as_deref());
    let Ok(Some(GroupRecord::ConsumerGroup { change, .. })) = read else { return true };
    match change {
        ConsumerGroupRecord::CurrentMemberAssignment(..) => plant != Some(Plant::AssignmentsUnloaded),
        ConsumerGroupRecord::Metadata(_) => plant != Some(Plant::EpochsUnloaded),
        _ => true,
    }
}

/// The last members that were heard, by group: generation or epoch, and member id, to be taken for whoever commits.
#[derive(Debug, Default)]
pub(crate) struct Heard(BTreeMap<String, (i32, String)>);

impl Heard {
    /// A request as a node takes it that does not look at the generations of commits, or at their epochs: each is
    /// taken for one of the member that was heard last.
    pub(crate) fn alter(&mut self, plant: Option<Plant>, purpose: Purpose, frame: Vec<u8>) -> Vec<u8> {
        match plant {
            Some(Plant::StaleCommitTaken) => self.hear_generation(purpose, &frame),
            Some(Plant::StaleEpochTaken) => self.hear_epoch(purpose, &frame),
            _ => return frame,
        };
        self.take_for_heard(purpose, &frame).unwrap_or(frame)
    }

    fn hear_generation(&mut self, purpose: Purpose, frame: &[u8]) -> Option<()> {
        let (header, mut body) = read_header(purpose, ApiKey::Heartbeat, frame)?;
        let said = HeartbeatRequest::decode(&mut body, header.api_version).ok()?;
        self.hear(said.group_id, said.generation_id, said.member_id);
        Some(())
    }

    fn hear_epoch(&mut self, purpose: Purpose, frame: &[u8]) -> Option<()> {
        let (header, mut body) = read_header(purpose, ApiKey::ConsumerGroupHeartbeat, frame)?;
        let said = ConsumerGroupHeartbeatRequest::decode(&mut body, header.api_version).ok()?;
        self.hear(said.group_id, said.member_epoch, said.member_id);
        Some(())
    }

    fn hear(&mut self, group: &str, generation: i32, member: &str) {
        let known = self.0.entry(group.to_owned()).or_default();
        if generation >= known.0 {
            *known = (generation, member.to_owned());
        }
    }

    /// A commit as one of the member that was heard last.
    fn take_for_heard(&self, purpose: Purpose, frame: &[u8]) -> Option<Vec<u8>> {
        let (header, mut body) = read_header(purpose, ApiKey::OffsetCommit, frame)?;
        let request = OffsetCommitRequest::decode(&mut body, header.api_version).ok()?;
        let (generation, member_id) = self.0.get(request.group_id)?;
        let request = OffsetCommitRequest {
            generation_id_or_member_epoch: *generation,
            member_id,
            group_instance_id: None,
            ..request
        };
        Some(write(&header, &request))
    }
}

/// The answer to a request, if it is one that a node with the bug answers without looking.
pub(crate) fn answer_blindly(plant: Option<Plant>, frame: &[u8]) -> Option<Answer> {
    if plant != Some(Plant::HeartbeatsUnread) {
        return None;
    }
    let (header, _) = wire::decode_request_header(frame).ok()?;
    let key = ApiKey::from_i16(header.api_key).filter(|key| *key == ApiKey::Heartbeat)?;
    let reply = ReplyTo { key, version: header.api_version, correlation_id: header.correlation_id };
    match reply.answer(&HeartbeatResponse::default()) {
        Outcome::Answer(all_is_well) => Some(all_is_well),
        _ => None,
    }
}
