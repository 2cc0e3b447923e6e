//! Which requests come in: the first thing after the header, before a byte of the body is read.

use wire::{ApiKey, RequestHeader};

use crate::api;
use crate::call::{CloseReason, Outcome};

/// What the gate says of a request.
pub enum Admission {
    /// It is served.
    Serve(ApiKey),
    /// It asks which versions there are, in a version that there is not: it is told, so that the
    /// client can ask again.
    Fallback(Outcome),
    /// It is not served; Kafka closes the connection without a word, and so do we.
    Refuse(CloseReason),
}

/// Judges a request by its header.
pub fn admit(header: &RequestHeader<'_>) -> Admission {
    let known = ApiKey::from_i16(header.api_key).and_then(|key| Some((key, api::find(key)?)));
    let Some((key, api)) = known else {
        return Admission::Refuse(CloseReason::UnknownApi { key: header.api_key });
    };
    if api.served.contains(&header.api_version) {
        return Admission::Serve(key);
    }
    if key == ApiKey::ApiVersions {
        return Admission::Fallback(api::api_versions::unsupported(header.correlation_id));
    }
    Admission::Refuse(CloseReason::UnsupportedVersion { key, version: header.api_version })
}
