//! UnregisterBroker · key 64 · v0
//!
//! Flexible (KIP-631). The broker is forgotten; what it had a replica of is to be moved before.

use base::BrokerId;
use controller::{Command, Reply, UnregisterBroker};
use wire::messages::unregister_broker::{UnregisterBrokerRequest, UnregisterBrokerResponse};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::UnregisterBroker, 0..=0, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: UnregisterBrokerRequest = read(call, body)?;
    let reply = call.reply;
    Ok(Outcome::Submit(Submission {
        command: Command::UnregisterBroker(UnregisterBroker { id: BrokerId(request.broker_id) }),
        finish: Box::new(move |_, decision| match decision {
            // Not null: Kafka says an empty text.
            Ok(Reply::UnregisterBroker) => {
                reply.answer(&UnregisterBrokerResponse { error_message: Some(""), ..Default::default() })
            }
            Ok(_) => unreachable!("a decision answers its command"),
            Err(error) => reply.answer(&UnregisterBrokerResponse {
                error_code: error.code().code(),
                error_message: Some(&super::words(&error)),
                ..UnregisterBrokerResponse::default()
            }),
        }),
    }))
}
