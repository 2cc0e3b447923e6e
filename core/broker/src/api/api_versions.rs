//! ApiVersions · key 18 · v0..=v5
//!
//! v3 flexible, client software (KIP-511), features (KIP-584) · v5 cluster and node id, to notice a client that was
//! pointed at the wrong cluster (KIP-1242). The header of its response is never flexible, and a
//! version that is not served is answered in v0 rather than refused: this is how a client that
//! knows nothing of the broker finds out.

use base::ErrorCode;
use metadata::FEATURES;
use wire::messages::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey, SupportedFeatureKey,
};
use wire::{ApiKey, Decoder};

use super::{APIS, Api, read};
use crate::call::{Call, CloseReason, Outcome, ReplyTo};

/// See the module.
pub const API: Api = Api::new(ApiKey::ApiVersions, 0..=5, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: ApiVersionsRequest<'_> = read(call, body)?;
    let code = judge(call, &request);
    if code.is_none() && call.reply.version >= 3 {
        call.session.software =
            Some((request.client_software_name.into(), request.client_software_version.into()));
    }
    let api_keys = if code.is_none() { APIS.iter().map(advertise).collect() } else { Vec::new() };
    let image = call.context.image;
    let supported = FEATURES.iter().map(|(name, min_version, max_version)| SupportedFeatureKey {
        name,
        min_version: *min_version,
        max_version: *max_version,
    });
    let finalized = image.features().iter().map(|(name, level)| FinalizedFeatureKey {
        name,
        max_version_level: *level,
        min_version_level: *level,
    });
    Ok(call.reply.answer(&ApiVersionsResponse {
        error_code: code.code(),
        api_keys,
        // Up to v3 there are clients that take no feature whose lowest level is 0 (KAFKA-17011); none has.
        supported_features: supported.collect(),
        finalized_features_epoch: image.end().0,
        finalized_features: finalized.collect(),
        ..ApiVersionsResponse::default()
    }))
}

fn advertise(api: &Api) -> ApiVersion {
    ApiVersion {
        api_key: api.key.code(),
        min_version: *api.advertised.start(),
        max_version: *api.advertised.end(),
    }
}

fn judge(call: &Call<'_>, request: &ApiVersionsRequest<'_>) -> ErrorCode {
    let version = call.reply.version;
    if version >= 3 && !(is_word(request.client_software_name) && is_word(request.client_software_version)) {
        return ErrorCode::InvalidRequest;
    }
    match request.cluster_id {
        None if request.node_id >= 0 => ErrorCode::InvalidRequest,
        None => ErrorCode::None,
        Some(cluster) if cluster != call.context.cluster_id => ErrorCode::RebootstrapRequired,
        Some(_) if request.node_id >= 0 && request.node_id != call.context.node.0 => {
            ErrorCode::RebootstrapRequired
        }
        Some(_) => ErrorCode::None,
    }
}

/// `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`, as KIP-511 has it.
fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.'))
}

/// The answer to a version that is not served: error 35 and the versions of this API alone.
pub fn unsupported(correlation_id: i32) -> Outcome {
    let reply = ReplyTo { key: ApiKey::ApiVersions, version: 0, correlation_id };
    reply.answer(&ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys: vec![advertise(&API)],
        ..ApiVersionsResponse::default()
    })
}
