//! UpdateFeatures · key 57 · v0..=v2
//!
//! v0 flexible (KIP-584) · v1 three ways to go, trials · v2 one result for all (KIP-1022).

use base::ErrorCode;
use controller::{Command, ControllerError, FeatureDirection, FeatureUpdate, Reply, UpdateFeatures};
use wire::messages::update_features::{
    FeatureUpdateKey, UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse,
};
use wire::{ApiKey, Decoder};

use super::{Api, read};
use crate::call::{Call, CloseReason, Outcome, ReplyTo, Submission};

/// See the module.
pub const API: Api = Api::new(ApiKey::UpdateFeatures, 0..=2, handle);

fn handle(call: &mut Call<'_>, body: Decoder<'_>) -> Result<Outcome, CloseReason> {
    let request: UpdateFeaturesRequest<'_> = read(call, body)?;
    super::check_entries(request.feature_updates.len())?;
    let version = call.reply.version;
    let names: Vec<String> = request.feature_updates.iter().map(|it| it.feature.to_owned()).collect();
    let updates: Result<Vec<FeatureUpdate>, ControllerError> =
        request.feature_updates.iter().map(|it| update(it, version)).collect();
    let reply = call.reply;
    let updates = match updates {
        Ok(updates) => updates,
        Err(error) => return Ok(finish(reply, &names, Err(error))),
    };
    let validate_only = request.validate_only;
    Ok(Outcome::Submit(Submission {
        command: Command::UpdateFeatures(UpdateFeatures { updates, validate_only }),
        finish: Box::new(move |_, decision| finish(reply, &names, decision)),
    }))
}

fn update(asked: &FeatureUpdateKey<'_>, version: i16) -> Result<FeatureUpdate, ControllerError> {
    let direction = match (version, asked.upgrade_type) {
        (0, _) if asked.allow_downgrade => FeatureDirection::SafeDowngrade,
        (0, _) | (_, 1) => FeatureDirection::Upgrade,
        (_, 2) => FeatureDirection::SafeDowngrade,
        (_, 3) => FeatureDirection::UnsafeDowngrade,
        _ => {
            return Err(ControllerError::InvalidFeature(format!(
                "Invalid update version {} for feature {}. The controller does not support the given upgrade type.",
                asked.max_version_level, asked.feature
            )));
        }
    };
    Ok(FeatureUpdate { name: asked.feature.to_owned(), level: asked.max_version_level, direction })
}

fn finish(reply: ReplyTo, names: &[String], decision: Result<Reply, ControllerError>) -> Outcome {
    let refused = match decision {
        Ok(Reply::UpdateFeatures(outcomes)) => outcomes.into_iter().find_map(Result::err),
        Ok(_) => unreachable!("a decision answers its command"),
        Err(error) => Some(error),
    };
    let refused = refused.map(|error| {
        let why = super::words(&error);
        let all = "The update failed for all features since the following feature had an error";
        (error.code(), format!("{all}: {why}"))
    });
    // Kafka tells of each only where all went well, and then says nothing but that.
    let results = names.iter().map(|feature| UpdatableFeatureResult {
        feature,
        error_code: ErrorCode::None.code(),
        error_message: Some(ErrorCode::None.name()),
    });
    let tells_each = reply.version < 2 && refused.is_none();
    reply.answer(&UpdateFeaturesResponse {
        error_code: refused.as_ref().map_or(ErrorCode::None, |(code, _)| *code).code(),
        error_message: refused.as_ref().map(|(_, message)| message.as_str()),
        results: if tells_each { results.collect() } else { Vec::new() },
        ..UpdateFeaturesResponse::default()
    })
}
