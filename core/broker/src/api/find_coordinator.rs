//! FindCoordinator · key 10 · v0..=v6
//!
//! v1 transactions · v3 flexible · v4 several keys (KIP-699). There is no coordinator here, neither of
//! groups nor of transactions, and the answer says so. The API is served all the same: librdkafka
//! takes a broker that does not know it for one from before lz4, and silently compresses nothing.

use base::ErrorCode;
use wire::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome};

/// See the module.
pub const API: Api = Api::new(ApiKey::FindCoordinator, 0..=6, handle);

/// One that clients retry. Any other ends librdkafka's consumers, which must have a group id and look
/// for its coordinator even if they only read partitions that were assigned by hand.
const CODE: ErrorCode = ErrorCode::CoordinatorNotAvailable;
const MESSAGE: &str =
    "this node coordinates neither groups nor transactions: read by assigned partitions, write idempotently";

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: FindCoordinatorRequest<'_> = read(call, body)?;
    super::check_entries(request.coordinator_keys.len())?;
    let version = call.reply.version;
    let mut response = FindCoordinatorResponse::default();
    if version >= 4 {
        let absent = |key| Coordinator {
            key,
            node_id: -1,
            host: "",
            port: -1,
            error_code: CODE.code(),
            error_message: Some(MESSAGE),
        };
        response.coordinators = request.coordinator_keys.iter().map(|key| absent(*key)).collect();
    } else {
        (response.node_id, response.port) = (-1, -1);
        (response.error_code, response.error_message) = (CODE.code(), Some(MESSAGE));
    }
    Ok(call.reply.answer(&response))
}
