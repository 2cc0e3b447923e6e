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
//! **Invariant:** what a peer sends costs at most a fixed multiple of its own bytes. A declared length
//! or count is compared with the bytes that are left before anything is allocated for it.

mod api_key;
mod decoder;
mod encoder;
mod error;
mod frame;
mod header;
mod message;
pub mod messages;
mod records;

pub use api_key::{ApiKey, Listeners};
pub use decoder::{ARRAY_ELEMENTS_MAX, Decoder, STRING_BYTES_MAX, TAGS_MAX};
pub use encoder::{Encoder, OpenTag, OpenTags};
pub use error::{DecodeError, EncodeError, FrameError};
pub use frame::{Frame, Hole, Part, frame_len};
pub use header::{
    RequestHeader, decode_request_header, decode_response_header, encode_request, encode_response,
};
pub use message::{Message, Request};
pub use records::Records;
