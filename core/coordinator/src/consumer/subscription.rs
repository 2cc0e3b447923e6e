//! What a member wants to read, and what became of it: the reasons for another epoch.
//!
//! A pattern is looked up in all topics when it is new, and again when the metadata moved or some time has passed. One
//! member that comes with another pattern costs a look-up of that one only: the shard stands still meanwhile.

use std::sync::Arc;
use std::time::Duration;

use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;

use super::member::{Caller, MemberId, MemberMetadata};
use super::record::ConsumerGroupRecord;
use super::settings::ConsumerGroupError;
use super::{Context, Draft, Soft, targets};

/// How far apart all patterns are looked up at least while the metadata changes.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(1);

/// Different patterns in a group at most. Its members are copies of one program, of which two or three releases run at
/// a time; and each pattern is matched with the names of all topics whenever those change.
pub(super) const REGEXES_MAX: usize = 32;

/// Why a group began another epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebalanceCause {
    /// A member came.
    Joined,
    /// A member left.
    Left,
    /// A member wants something else.
    Subscribed,
    /// There is something else to read.
    TopicsChanged,
}

/// Takes in what the member says of itself and what became of the topics; begins another epoch if any of it matters.
pub(super) fn refresh(
    draft: &mut Draft<'_>,
    soft: &mut Soft,
    (id, before): (&MemberId, Option<&MemberMetadata>),
    (request, caller): (&ConsumerGroupHeartbeatRequest<'_>, &Caller<'_>),
    context: &Context<'_>,
) -> Result<Option<RebalanceCause>, ConsumerGroupError> {
    let metadata = updated(before, request, caller);
    let subscribed = before.is_none_or(|it| (&it.topics, &it.regex) != (&metadata.topics, &metadata.regex));
    let regex_changed = before.and_then(|it| it.regex.as_ref()) != metadata.regex.as_ref();
    let regex = metadata.regex.clone().filter(|_| regex_changed);
    if before != Some(&metadata) {
        draft.push(ConsumerGroupRecord::MemberMetadata(id.clone(), Some(Arc::new(metadata))));
    }
    if let Some(regex) = &regex {
        if draft.state().subscribed_regexes().count() > REGEXES_MAX {
            return Err(ConsumerGroupError::TooManyRegexes(REGEXES_MAX));
        }
        soft.patterns.learn(regex)?;
    }
    let moved = soft.seen != Some(context.image.end());
    let with_regexes = draft.state().subscribed_regexes().next().is_some();
    let is_since = |long: Duration| soft.resolved.is_none_or(|at| context.now.elapsed >= at + long);
    let is_old = is_since(context.settings.regex_refresh_interval);
    let resolves_all = with_regexes && (is_old || (moved && is_since(RESOLVE_INTERVAL)));
    if resolves_all {
        targets::resolve(draft, &mut soft.patterns, context.image, context.now);
        soft.resolved = Some(context.now.elapsed);
    } else if regex_changed {
        targets::resolve_one(draft, &mut soft.patterns, regex.as_deref(), context.image, context.now);
    }
    if !subscribed && !moved && !resolves_all {
        return Ok(None);
    }
    let hash = targets::metadata_hash(draft.state(), context.image);
    let known = draft.state().metadata_hash;
    if !subscribed && hash == known && draft.state().group_epoch > 0 {
        // Nothing new in this metadata, unless patterns are yet to be looked up in it.
        soft.seen = Some(context.image.end()).filter(|_| resolves_all || !with_regexes);
        return Ok(None);
    }
    targets::bump(draft, hash);
    Ok(Some(match before {
        None => RebalanceCause::Joined,
        Some(_) if subscribed => RebalanceCause::Subscribed,
        Some(_) => RebalanceCause::TopicsChanged,
    }))
}

/// What a member says of itself, over what it said before: what it leaves out is as it was.
fn updated(
    before: Option<&MemberMetadata>,
    request: &ConsumerGroupHeartbeatRequest<'_>,
    caller: &Caller<'_>,
) -> MemberMetadata {
    let mut metadata = before.cloned().unwrap_or_default();
    let set = |field: &mut Option<String>, said: Option<&str>| {
        if let Some(said) = said {
            *field = Some(said.to_owned());
        }
    };
    set(&mut metadata.instance_id, request.instance_id);
    set(&mut metadata.rack_id, request.rack_id);
    set(&mut metadata.assignor, request.server_assignor);
    set(&mut metadata.regex, request.subscribed_topic_regex);
    metadata.regex = metadata.regex.filter(|regex| !regex.is_empty());
    if request.rebalance_timeout_ms != -1 {
        metadata.rebalance_timeout_ms = request.rebalance_timeout_ms;
    }
    if let Some(names) = &request.subscribed_topic_names {
        metadata.topics = names.iter().map(|&name| name.to_owned()).collect();
        metadata.topics.sort_unstable();
        metadata.topics.dedup();
    }
    caller.client_id.clone_into(&mut metadata.client_id);
    caller.client_host.clone_into(&mut metadata.client_host);
    metadata.classic = None;
    metadata
}
