//! What every message can do, whatever it says.

use crate::api_key::ApiKey;
use crate::decoder::Decoder;
use crate::encoder::Encoder;
use crate::error::{DecodeError, EncodeError};

/// A message of the protocol, or a struct within one.
pub trait Message<'a>: Sized {
    /// The fewest bytes that one takes in a version.
    fn size_min(version: i16) -> usize;

    /// Reads one of a version. What the version lacks gets its default.
    fn decode(d: &mut Decoder<'a>, version: i16) -> Result<Self, DecodeError>;

    /// Writes it as a version has it. Fails if that would lose something that matters.
    fn encode(&self, e: &mut Encoder, version: i16) -> Result<(), EncodeError>;
}

/// A message that asks for an answer.
pub trait Request<'a>: Message<'a> {
    /// The API it belongs to.
    const KEY: ApiKey;
    /// The answer, in the same version.
    type Response<'r>: Message<'r>;
}

#[cfg(test)]
mod tests;
