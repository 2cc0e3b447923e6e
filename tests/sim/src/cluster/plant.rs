//! Bugs that are planted in simulated clusters, to prove that such bugs are found.
//!
//! None of them is in the product: each is made where the simulated node hands something on, or in the
//! simulated quorum, as a careless change would make it behind that door.

use wire::messages::produce::ProduceRequest;
use wire::{ApiKey, Message};

use super::net::Purpose;

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// What is in the page cache counts as durable.
    CacheCounts,
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
}

impl Plant {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::CacheCounts,
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
    ];

    /// The one with this name, as `Debug` prints it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plant| format!("{plant:?}").eq_ignore_ascii_case(name))
    }
}

/// A request as a node that has the bug takes it.
pub(crate) fn alter_request(plant: Option<Plant>, purpose: Purpose, frame: &[u8]) -> Vec<u8> {
    if plant != Some(Plant::AckAtOnce) || purpose != Purpose::Client {
        return frame.to_vec();
    }
    let Ok((header, mut body)) = wire::decode_request_header(frame) else { return frame.to_vec() };
    if ApiKey::from_i16(header.api_key) != Some(ApiKey::Produce) {
        return frame.to_vec();
    }
    let version = header.api_version;
    let Ok(request) = ProduceRequest::decode(&mut body, version) else { return frame.to_vec() };
    let request = ProduceRequest { acks: request.acks.abs(), ..request };
    let frame = wire::encode_request(header.correlation_id, None, version, &request);
    frame.expect("it was a request before").bytes.split_off(4)
}
