//! Headers of requests and answers, and whole frames.
//!
//! ```text
//!   request   v1   key i16, version i16, correlation id i32, client id: rigid string or null
//!             v2   the same, then tagged fields; the client id stays rigid
//!   answer    v0   correlation id i32
//!             v1   correlation id i32, tagged fields
//! ```
//!
//! An API's flexible versions have the later header, with one exception: the answer of ApiVersions
//! always has the first, because a client asks before it knows what the broker speaks.

use crate::api_key::ApiKey;
use crate::decoder::Decoder;
use crate::encoder::Encoder;
use crate::error::{DecodeError, EncodeError};
use crate::frame::Frame;
use crate::message::{Message, Request};

/// What comes before the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// Which API; [`ApiKey::from_i16`] knows it.
    pub api_key: i16,
    /// Which version of it; not checked against the versions there are.
    pub api_version: i16,
    /// The answer carries it back.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<&'a str>,
}

/// Reads the header of a request; the decoder is at the body.
///
/// An unknown key is an error, because the form of its header is unknown, too.
pub fn decode_request_header(frame: &[u8]) -> Result<(RequestHeader<'_>, Decoder<'_>), DecodeError> {
    let mut d = Decoder::new(frame);
    let api_key = d.i16()?;
    let api_version = d.i16()?;
    let correlation_id = d.i32()?;
    let key = ApiKey::from_i16(api_key).ok_or(DecodeError::UnknownKey { key: api_key })?;
    let client_id = d.nullable_str(false)?;
    if key.is_flexible(api_version) {
        d.no_tags()?;
    }
    Ok((RequestHeader { api_key, api_version, correlation_id, client_id }, d))
}

/// Makes the frame of a request.
pub fn encode_request<'a, R: Request<'a>>(
    correlation_id: i32,
    client_id: Option<&str>,
    version: i16,
    request: &R,
) -> Result<Frame, EncodeError> {
    let mut e = Encoder::framed();
    e.i16(R::KEY.code());
    e.i16(version);
    e.i32(correlation_id);
    e.nullable_str(client_id, false)?;
    if R::KEY.is_flexible(version) {
        e.no_tags();
    }
    request.encode(&mut e, version)?;
    e.into_frame()
}

/// Reads the header of the answer to a request of that key and version: its correlation id, and the
/// decoder at the body.
pub fn decode_response_header(
    frame: &[u8],
    key: ApiKey,
    version: i16,
) -> Result<(i32, Decoder<'_>), DecodeError> {
    let mut d = Decoder::new(frame);
    let correlation_id = d.i32()?;
    if has_flexible_answer_header(key, version) {
        d.no_tags()?;
    }
    Ok((correlation_id, d))
}

/// Makes the frame of an answer.
pub fn encode_response<'a>(
    correlation_id: i32,
    key: ApiKey,
    version: i16,
    response: &impl Message<'a>,
) -> Result<Frame, EncodeError> {
    let mut e = Encoder::framed();
    e.i32(correlation_id);
    if has_flexible_answer_header(key, version) {
        e.no_tags();
    }
    response.encode(&mut e, version)?;
    e.into_frame()
}

fn has_flexible_answer_header(key: ApiKey, version: i16) -> bool {
    key != ApiKey::ApiVersions && key.is_flexible(version)
}

#[cfg(test)]
mod tests;
