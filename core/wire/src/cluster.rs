//! What nodes of one cluster say to each other beside Kafka's own requests, on the listener for nodes.
//!
//! ```text
//!   request  | size i32 | key i16 | version i16 | correlation id i32 | body |
//!   answer   | size i32 | correlation id i32 | body |
//! ```
//!
//! The first request of a connection is a [`Hello`]: who connects, and what for. Then a connection for
//! records carries Kafka's Fetch, and one for control the rest of [`ClusterRequest`]. Kafka leaves its
//! controllers' listener to each implementation; the keys are out of the way of its own.

use base::{BrokerId, Uuid};

use crate::decoder::Decoder;
use crate::encoder::Encoder;
use crate::error::{DecodeError, EncodeError};

const HELLO: i16 = 20_000;
const QUORUM: i16 = 20_001;
const COMMAND: i16 = 20_002;

/// The one version there is.
const VERSION: i16 = 0;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Elections, metadata, commands: few bytes, and none may wait for records.
    Control,
    /// Records for a follower.
    Records,
}

/// The first request of a connection between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The cluster that the node belongs to; `None` if it belongs to none yet.
    pub cluster_id: Option<&'a str>,
    /// Its `node.id`.
    pub node: BrokerId,
    /// The id of its log directory that has the metadata: another one is another node's, or an empty one.
    pub directory: Uuid,
    /// What the connection is for.
    pub purpose: Purpose,
}

/// The answer to a [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome<'a> {
    /// Why the node is not spoken to, in words for its log; `None` if it is.
    pub refusal: Option<&'a str>,
    /// The cluster that this node belongs to; `None` if it belongs to none yet.
    pub cluster_id: Option<&'a str>,
    /// This node.
    pub node: BrokerId,
    /// The id of its log directory that has the metadata.
    pub directory: Uuid,
    /// Whether it is a broker; else it only votes.
    pub is_broker: bool,
    /// Who votes on the metadata, where each listens, and the directory that it votes with, as far as this node
    /// knows; [`Uuid::ZERO`] if it does not.
    pub voters: Vec<(BrokerId, &'a str, Uuid)>,
}

/// A request between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterRequest<'a> {
    /// See [`Hello`].
    Hello(Hello<'a>),
    /// A message of the metadata quorum, which alone knows what it means.
    Quorum(&'a [u8]),
    /// A command for the active controller, as JSON.
    Command(&'a [u8]),
}

impl<'a> ClusterRequest<'a> {
    /// Makes the frame of a request.
    pub fn encode(&self, correlation_id: i32) -> Result<Vec<u8>, EncodeError> {
        let mut e = Encoder::framed();
        let mut header = |key: i16| {
            e.i16(key);
            e.i16(VERSION);
            e.i32(correlation_id);
        };
        match self {
            Self::Hello(hello) => {
                header(HELLO);
                e.nullable_str(hello.cluster_id, false)?;
                e.i32(hello.node.0);
                e.uuid(hello.directory);
                e.bool(hello.purpose == Purpose::Records);
            }
            Self::Quorum(body) => {
                header(QUORUM);
                e.put(body);
            }
            Self::Command(body) => {
                header(COMMAND);
                e.put(body);
            }
        }
        Ok(e.into_frame()?.bytes)
    }

    /// Reads a request from a frame without its size: its correlation id, and what it is.
    pub fn decode(frame: &'a [u8]) -> Result<(i32, Self), DecodeError> {
        let mut d = Decoder::new(frame);
        let (key, version, correlation_id) = (d.i16()?, d.i16()?, d.i32()?);
        if version != VERSION {
            return Err(DecodeError::Key { key, version });
        }
        let request = match key {
            HELLO => Self::Hello(Hello {
                cluster_id: d.nullable_str(false)?,
                node: BrokerId(d.i32()?),
                directory: d.uuid()?,
                purpose: if d.bool()? { Purpose::Records } else { Purpose::Control },
            }),
            QUORUM => Self::Quorum(d.remaining()),
            COMMAND => Self::Command(d.remaining()),
            _ => return Err(DecodeError::Key { key, version }),
        };
        Ok((correlation_id, request))
    }
}

impl<'a> Welcome<'a> {
    /// Makes the frame of an answer.
    pub fn encode(&self, correlation_id: i32) -> Result<Vec<u8>, EncodeError> {
        let mut e = Encoder::framed();
        e.i32(correlation_id);
        e.nullable_str(self.refusal, false)?;
        e.nullable_str(self.cluster_id, false)?;
        e.i32(self.node.0);
        e.uuid(self.directory);
        e.bool(self.is_broker);
        e.array(&self.voters, false, |e, (id, address, directory)| {
            e.i32(id.0);
            e.str(address, false)?;
            e.uuid(*directory);
            Ok(())
        })?;
        Ok(e.into_frame()?.bytes)
    }

    /// Reads an answer from a frame without its size.
    pub fn decode(frame: &'a [u8]) -> Result<(i32, Self), DecodeError> {
        let mut d = Decoder::new(frame);
        let correlation_id = d.i32()?;
        let refusal = d.nullable_str(false)?;
        let cluster_id = d.nullable_str(false)?;
        let (node, directory, is_broker) = (BrokerId(d.i32()?), d.uuid()?, d.bool()?);
        let voters = d.array(false, 22, |d| Ok((BrokerId(d.i32()?), d.str(false)?, d.uuid()?)))?;
        Ok((correlation_id, Self { refusal, cluster_id, node, directory, is_broker, voters }))
    }
}

/// Makes the frame of an answer whose body is for whoever asked.
pub fn encode_answer(correlation_id: i32, body: &[u8]) -> Result<Vec<u8>, EncodeError> {
    let mut e = Encoder::framed();
    e.i32(correlation_id);
    e.put(body);
    Ok(e.into_frame()?.bytes)
}

/// Reads such an answer from a frame without its size.
pub fn decode_answer(frame: &[u8]) -> Result<(i32, &[u8]), DecodeError> {
    let mut d = Decoder::new(frame);
    Ok((d.i32()?, d.remaining()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let hello = Hello {
            cluster_id: Some("5L6g3nShT-eMCtK--X86sw"),
            node: BrokerId(3),
            directory: Uuid([4; 16]),
            purpose: Purpose::Records,
        };
        let stranger = Hello { cluster_id: None, purpose: Purpose::Control, ..hello };
        let requests = [
            ClusterRequest::Hello(hello),
            ClusterRequest::Hello(stranger),
            ClusterRequest::Quorum(b"vote"),
            ClusterRequest::Command(b"{}"),
        ];
        for request in requests {
            let frame = request.encode(9).unwrap();
            assert_eq!(ClusterRequest::decode(&frame[4..]), Ok((9, request)));
            for len in 0..20.min(frame.len() - 4) {
                // Cut anywhere, it is an error or a shorter body; never a panic.
                let _ = ClusterRequest::decode(&frame[4..4 + len]);
            }
        }
        let welcome = Welcome {
            refusal: Some("no"),
            cluster_id: None,
            node: BrokerId(1),
            directory: Uuid::ZERO,
            is_broker: true,
            voters: vec![(BrokerId(1), "a:1", Uuid([1; 16])), (BrokerId(2), "[::1]:2", Uuid::ZERO)],
        };
        let frame = welcome.encode(2).unwrap();
        assert_eq!(Welcome::decode(&frame[4..]), Ok((2, welcome)));
        for len in 0..frame.len() - 4 {
            assert!(Welcome::decode(&frame[4..4 + len]).is_err(), "cut at {len}");
        }
        assert_eq!(decode_answer(&encode_answer(5, b"x").unwrap()[4..]), Ok((5, &b"x"[..])));
    }

    #[test]
    fn a_request_of_kafkas_is_none_of_ours() {
        let frame =
            crate::encode_request(1, None, 4, &crate::messages::fetch::FetchRequest::default()).unwrap();
        assert!(ClusterRequest::decode(&frame.bytes[4..]).is_err());
    }
}
