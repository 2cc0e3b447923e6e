//! The Kafka protocol: frames, headers, every message of every version.
//!
//! ```text
//!   frame   | size i32 | header: key, version, correlation id, client | body: a message of that version |
//!
//!   bytes ── decode_request_header ──▶ RequestHeader, Decoder ── Message::decode ──▶ ProduceRequest<'_>
//!   Frame ◀── encode_response ──────── ProduceResponse<'_>          (strings, bytes: slices of the frame)
//! ```
//!
//! One struct serves all versions of a message: a field that a version lacks has its default. Decoding
//! borrows from the frame; encoding writes into one buffer and leaves a [`Hole`] where the records of a
//! file belong, so that they need never be in memory.
//!
//! ```
//! # use vltava_wire as wire;
//! use wire::messages::produce::{PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse};
//! use wire::{ApiKey, Message};
//!
//! fn answer(frame: &[u8]) -> Result<wire::Frame, Box<dyn std::error::Error>> {
//!     let (header, mut body) = wire::decode_request_header(frame)?;
//!     let request = ProduceRequest::decode(&mut body, header.api_version)?;
//!     let mut response = ProduceResponse::default();
//!     for topic in &request.topic_data {
//!         let part = |index| PartitionProduceResponse { index, base_offset: 42, ..Default::default() };
//!         let partition_responses = topic.partition_data.iter().map(|data| part(data.index)).collect();
//!         let (name, topic_id) = (topic.name, topic.topic_id);
//!         response.responses.push(TopicProduceResponse { name, topic_id, partition_responses });
//!     }
//!     Ok(wire::encode_response(header.correlation_id, ApiKey::Produce, header.api_version, &response)?)
//! }
//! # let request = ProduceRequest::default();
//! # let frame = wire::encode_request(7, None, 9, &request).unwrap().bytes;
//! # assert_eq!(answer(&frame[4..]).unwrap().bytes[4..8], [0, 0, 0, 7]);
//! ```
//!
//! **Invariant:** what a peer sends costs at most a fixed multiple of its own bytes. A declared length
//! or count is compared with the bytes that are left before anything is allocated for it.

mod api_key;
pub mod cluster; // among nodes
mod decoder;
mod encoder;
mod error;
mod frame;
mod header;
mod message;
pub mod messages;
mod records;

pub use api_key::{ApiKey, Listeners};
pub use decoder::{ARRAY_ELEMENTS_MAX, Decoder, NOT_UTF8, STRING_BYTES_MAX, TAGS_MAX};
pub use encoder::{Encoder, OpenTag, OpenTags};
pub use error::{DecodeError, EncodeError, FrameError};
pub use frame::{Frame, Hole, Part, frame_len};
pub use header::{
    RequestHeader, decode_request_header, decode_response_header, encode_request, encode_response,
};
pub use message::{Message, Request};
pub use records::Records;
