//! Who votes, who learns, and where they are: as the log and its snapshots say it.
//!
//! ```text
//!   VotersRecord   voters: id, directory, host and port     what Kafka's tools read
//!     tag 10000    configs: one set of ids, or two while it changes
//!                  nodes: id, address, directory            learners, too
//! ```

use std::collections::{BTreeMap, BTreeSet};

use base::{BrokerId, Uuid};
use wire::messages::voters_record as kafka;
use wire::{DecodeError, Decoder, EncodeError, Encoder, Message};

use crate::error::Malformed;
use crate::types::{Home, Membership, broker, node};

/// Far above the tags that Kafka gives out in order.
const TAG: u32 = 10_000;

/// The name of the listener in Kafka's record.
const LISTENER: &str = "CONTROLLER";

/// A node of the quorum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Voter {
    /// Its `node.id`, not negative.
    pub id: BrokerId,
    /// Where nodes of the cluster reach it: `host:port`.
    pub address: String,
    /// The directory that has its metadata log; [`Uuid::ZERO`] as long as it is not known.
    pub directory: Uuid,
}

impl Voter {
    /// Whether who is known by this directory is this one, as far as anybody can tell.
    pub fn has_disk(&self, directory: Uuid) -> bool {
        directory.is_zero() || directory == self.directory
    }

    pub(crate) fn home(&self) -> Home {
        Home { address: self.address.clone(), directory: self.directory }
    }

    pub(crate) fn of(id: u64, home: &Home) -> Self {
        Self { id: broker(id), address: home.address.clone(), directory: home.directory }
    }
}

/// The value of Kafka's VotersRecord for a membership.
pub(crate) fn encode(membership: &Membership) -> Result<Vec<u8>, EncodeError> {
    let mut e = Encoder::new();
    e.i16(0);
    let voters: BTreeSet<u64> = membership.voter_ids().collect();
    let voters: Vec<(u64, &Home)> =
        membership.nodes().map(|(id, home)| (*id, home)).filter(|(id, _)| voters.contains(id)).collect();
    e.array(&voters, true, |e, (id, home)| kafka_voter(*id, home).encode(e, 0))?;
    let tags = e.tags();
    let tag = e.tag(&tags, TAG);
    let configs: Vec<Vec<u64>> =
        membership.get_joint_config().iter().map(|config| config.iter().copied().collect()).collect();
    e.array(&configs, true, |e, config| {
        e.array(config, true, |e, id| {
            e.i32(broker(*id).0);
            Ok(())
        })
    })?;
    let nodes: Vec<(u64, &Home)> = membership.nodes().map(|(id, home)| (*id, home)).collect();
    e.array(&nodes, true, |e, (id, home)| {
        e.i32(broker(*id).0);
        e.uuid(home.directory);
        e.str(&home.address, true)
    })?;
    e.end_tag(tag)?;
    Ok(e.into_bytes())
}

fn kafka_voter(id: u64, home: &Home) -> kafka::Voter<'_> {
    let (host, port) = home.address.rsplit_once(':').unwrap_or((&home.address, ""));
    let endpoint = kafka::Endpoint { name: LISTENER, host, port: port.parse().unwrap_or(0) };
    kafka::Voter {
        voter_id: broker(id).0,
        voter_directory_id: home.directory,
        endpoints: vec![endpoint],
        kraft_version_feature: kafka::KRaftVersionFeature {
            min_supported_version: 0,
            max_supported_version: 1,
        },
    }
}

#[derive(Default)]
struct Said {
    configs: Vec<BTreeSet<u64>>,
    nodes: BTreeMap<u64, Home>,
    is_ours: bool,
}

/// The membership in the value of a VotersRecord. One of Kafka's has voters only.
pub(crate) fn decode(value: &[u8]) -> Result<Membership, Malformed> {
    let mut d = Decoder::new(value);
    let said = read(&mut d).map_err(|error| Malformed(format!("the voters: {error}")))?;
    if said.configs.iter().all(BTreeSet::is_empty) && said.nodes.is_empty() {
        return Ok(Membership::default());
    }
    Membership::new(said.configs, said.nodes).map_err(|error| Malformed(format!("the voters: {error}")))
}

fn read(d: &mut Decoder<'_>) -> Result<Said, DecodeError> {
    d.i16()?;
    let voters = d.array(true, kafka::Voter::size_min(0), |d| kafka::Voter::decode(d, 0))?;
    let mut said = Said::default();
    d.tags(|tag, d| {
        if tag == TAG {
            said = read_ours(d)?;
        }
        Ok(tag == TAG)
    })?;
    if !said.is_ours {
        let home = |voter: &kafka::Voter<'_>| Home {
            address: voter.endpoints.first().map(|at| format!("{}:{}", at.host, at.port)).unwrap_or_default(),
            directory: voter.voter_directory_id,
        };
        said.nodes = voters.iter().map(|voter| (node(BrokerId(voter.voter_id)), home(voter))).collect();
        said.configs = vec![said.nodes.keys().copied().collect()];
    }
    Ok(said)
}

fn read_ours(d: &mut Decoder<'_>) -> Result<Said, DecodeError> {
    let configs = d.array(true, 1, |d| d.array(true, 4, |d| Ok(node(BrokerId(d.i32()?)))))?;
    let nodes = d.array(true, 21, |d| {
        let id = node(BrokerId(d.i32()?));
        let directory: Uuid = d.uuid()?;
        Ok((id, Home { directory, address: d.str(true)?.to_owned() }))
    })?;
    let configs = configs.into_iter().map(|config| config.into_iter().collect()).collect();
    Ok(Said { configs, nodes: nodes.into_iter().collect(), is_ours: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(port: u16) -> Home {
        Home { address: format!("host:{port}"), directory: Uuid([7; 16]) }
    }

    #[test]
    fn voters_learners_and_a_change_under_way_are_kept() {
        let nodes: BTreeMap<_, _> = [(1, home(1)), (2, home(2)), (3, home(3)), (9, home(9))].into();
        let membership =
            Membership::new(vec![[1, 2].into(), [2, 3].into()], nodes).expect("every voter has a node");
        let value = encode(&membership).expect("it is small");
        assert_eq!(decode(&value), Ok(membership));
        let read = kafka::VotersRecord::decode(&mut Decoder::new(&value), 0).expect("it is Kafka's record");
        let voters: Vec<_> =
            read.voters.iter().map(|voter| (voter.voter_id, voter.endpoints[0].port)).collect();
        assert_eq!(voters, [(1, 1), (2, 2), (3, 3)]);
    }

    #[test]
    fn no_bytes_panic() {
        let nodes: BTreeMap<_, _> = [(1, home(1))].into();
        let value = encode(&Membership::new(vec![[1].into()], nodes).expect("legal")).expect("small");
        for len in 0..value.len() {
            let _ = decode(&value[..len]);
        }
        for at in 0..value.len() {
            for bit in 0..8 {
                let mut flipped = value.clone();
                flipped[at] ^= 1 << bit;
                let _ = decode(&flipped);
            }
        }
    }
}
