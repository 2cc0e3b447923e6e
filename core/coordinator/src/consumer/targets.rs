//! Group epochs, and what each member should have in them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::Now;
use metadata::Image;

use super::draft::Draft;
use super::member::{MemberId, MemberMetadata};
use super::record::{ConsumerGroupRecord, GroupEpoch, ResolvedRegex, TargetEpoch};
use super::settings::ConsumerGroupSettings;
use super::state::State;
use super::topics::{self, Patterns};
use crate::assign::{Assignor, Partitions, Subscriber, Topic, assign};

/// Looks up the topics of all patterns again, and takes away those that nobody has any more.
pub(super) fn resolve(draft: &mut Draft<'_>, patterns: &mut Patterns, image: &Image, now: Now) {
    forget_regexes(draft);
    let regexes: Vec<String> = draft.state().subscribed_regexes().cloned().collect();
    patterns.keep(&regexes);
    regexes.iter().for_each(|regex| look_up(draft, patterns, regex, (image, now)));
}

/// A member has come with a pattern, or has another one than before, or none: looks up that one unless it is known,
/// and takes away the one before if nobody has it any more.
pub(super) fn resolve_one(
    draft: &mut Draft<'_>,
    patterns: &mut Patterns,
    regex: Option<&str>,
    image: &Image,
    now: Now,
) {
    forget_regexes(draft);
    let state = draft.state();
    patterns.keep(state.subscribed_regexes());
    if let Some(regex) = regex.filter(|regex| !state.regexes.contains_key(*regex)) {
        look_up(draft, patterns, regex, (image, now));
    }
}

fn look_up(draft: &mut Draft<'_>, patterns: &mut Patterns, regex: &str, (image, now): (&Image, Now)) {
    let topics = patterns.matching(regex, image);
    if draft.state().regexes.get(regex).is_none_or(|known| known.topics != topics) {
        let resolved = ResolvedRegex { topics, version: image.end().0, at: now.wall };
        draft.push(ConsumerGroupRecord::RegularExpression(regex.to_owned(), Some(Arc::new(resolved))));
    }
}

/// Takes away the patterns that nobody has any more.
pub(super) fn forget_regexes(draft: &mut Draft<'_>) {
    let state = draft.state();
    let gone = state.regexes.keys().filter(|regex| !state.is_regex_subscribed(regex));
    let gone: Vec<String> = gone.cloned().collect();
    gone.into_iter().for_each(|regex| draft.push(ConsumerGroupRecord::RegularExpression(regex, None)));
}

/// A hash over what is known of the topics that the group reads.
pub(super) fn metadata_hash(state: &State, image: &Image) -> i64 {
    topics::hash(&state.subscribed_topics(), image)
}

/// Begins the next epoch of the group.
pub(super) fn bump(draft: &mut Draft<'_>, metadata_hash: i64) {
    if draft.state().has_partition_metadata {
        draft.push(ConsumerGroupRecord::PartitionMetadata(None));
    }
    let epoch = draft.state().group_epoch.saturating_add(1);
    draft.push(ConsumerGroupRecord::Metadata(Some(GroupEpoch { epoch, metadata_hash })));
}

/// Whether the targets are of an older epoch and may be made anew.
///
/// While many members come or go, they are made once in an interval. A member alone need not wait for others.
pub(super) fn is_due(
    state: &State,
    last: Option<Duration>,
    now: Now,
    settings: &ConsumerGroupSettings,
) -> bool {
    let late = state.group_epoch > state.target_epoch && !state.members.is_empty();
    let waited = last.is_none_or(|last| now.elapsed >= last + settings.assignment_interval);
    late && (waited || state.target_epoch == 0 || state.members.len() == 1)
}

/// Makes the targets of all members for the group's epoch.
pub(super) fn make(draft: &mut Draft<'_>, image: &Image, now: Now, settings: &ConsumerGroupSettings) {
    let epoch = draft.state().group_epoch;
    for (id, partitions) in changed(draft.state(), image, settings) {
        draft.push(ConsumerGroupRecord::TargetAssignmentMember(id, Some(Arc::new(partitions))));
    }
    draft
        .push(ConsumerGroupRecord::TargetAssignmentMetadata(Some(TargetEpoch { epoch, at: Some(now.wall) })));
}

/// The members whose targets are no longer what they should be, and what those should be.
fn changed(state: &State, image: &Image, settings: &ConsumerGroupSettings) -> Vec<(MemberId, Partitions)> {
    let known: Vec<_> = state.subscribed_topics().into_iter().filter_map(|name| image.topic(name)).collect();
    let with_racks = state.members.values().any(|member| member.metadata.rack_id.is_some());
    let mut topics: Vec<Topic<'_>> = Vec::with_capacity(known.len());
    for topic in &known {
        let racks = if with_racks { topics::racks(topic, image).collect() } else { Vec::new() };
        topics.push(Topic { id: topic.id, partitions: topic.partitions().len(), racks });
    }
    let places: BTreeMap<&str, usize> =
        known.iter().enumerate().map(|(at, topic)| (topic.name.as_str(), at)).collect();
    // Most members want the same: each wish is looked up once.
    let mut wishes: BTreeMap<(&[String], Option<&String>), Vec<usize>> = BTreeMap::new();
    for member in state.members.values() {
        wishes.entry(key(&member.metadata)).or_insert_with(|| {
            let names = state.wish(&member.metadata).into_iter().flatten();
            let mut wish: Vec<usize> = names.filter_map(|name| places.get(name.as_str()).copied()).collect();
            wish.sort_unstable();
            wish.dedup();
            wish
        });
    }
    let subscribers = state.members.iter().map(|(id, member)| Subscriber {
        id,
        instance_id: member.metadata.instance_id.as_deref(),
        rack: member.metadata.rack_id.as_deref(),
        topics: &wishes[&key(&member.metadata)],
        owned: state.targets.get(id).map(|target| &**target),
    });
    let given = assign(assignor(state, settings), &subscribers.collect::<Vec<_>>(), &topics);
    let nothing = Partitions::new();
    let before = |id: &MemberId| state.targets.get(id).map_or(&nothing, |target| &**target);
    let all = state.members.keys().zip(given);
    all.filter(|(id, partitions)| before(id) != partitions)
        .map(|(id, partitions)| (id.clone(), partitions))
        .collect()
}

/// What two members have in common that want the same.
fn key(metadata: &MemberMetadata) -> (&[String], Option<&String>) {
    (&metadata.topics, metadata.regex.as_ref())
}

/// The assignor that most members ask for; the first one of the settings if they ask for none.
pub(super) fn assignor(state: &State, settings: &ConsumerGroupSettings) -> Assignor {
    let asks = |assignor: Assignor| {
        let members = state.members.values();
        members.filter(|member| member.metadata.assignor.as_deref() == Some(assignor.name())).count()
    };
    // Of those that are asked for equally often, the one that comes first in the settings.
    let most = settings.assignors.iter().rev().max_by_key(|assignor| asks(**assignor));
    most.copied().unwrap_or(Assignor::Uniform)
}
