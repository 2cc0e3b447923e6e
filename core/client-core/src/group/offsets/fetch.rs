//! OffsetFetch: what is asked, and what is answered.

use std::collections::BTreeMap;

use base::{ErrorCode, LeaderEpoch, Now, Offset, PartitionIndex, TopicName, TopicPartition, Uuid};
use wire::ApiKey;
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse,
};

use crate::group::{Asked, CommittedOffsets, FetchId, GroupError, Membership, OffsetAndMetadata};
use crate::links::Asking;

/// Later ones name topics by id only.
const VERSION_MAX: i16 = 9;
/// From here on a request names several groups (KIP-709).
const VERSION_BATCHED_MIN: i16 = 8;
/// From here on offsets can be waited for that an open transaction may change (KIP-447).
const VERSION_STABLE_MIN: i16 = 7;

impl Membership {
    pub(super) fn send_fetches(&mut self, now: Now) {
        let waiting = self.offsets.fetches.iter().filter(|(_, fetch)| !fetch.is_asked);
        let ids: Vec<FetchId> = waiting.map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return;
        }
        let Some(peer) = self.usable_coordinator(now) else { return };
        let Ok(version) = self.links.version(peer, ApiKey::OffsetFetch) else {
            return self.fail_offsets(&GroupError::Unsupported("OffsetFetch"));
        };
        let version = version.min(VERSION_MAX);
        let requires_stable = self.settings.requires_stable && version >= VERSION_STABLE_MIN;
        let mut names: BTreeMap<&TopicName, Vec<i32>> = BTreeMap::new();
        for of in ids.iter().flat_map(|id| &self.offsets.fetches[id].of) {
            names.entry(&of.topic).or_default().push(of.partition.0);
        }
        for parts in names.values_mut() {
            parts.sort_unstable();
            parts.dedup();
        }
        let request = request(&self.settings.group_id, &names, version, requires_stable);
        let about = Asked::Offsets(ids.clone());
        let asking = Asking { version, about, fills: Vec::new(), is_answered: true };
        let sent = self.links.send((peer, now), &request, asking, &mut self.net);
        for id in ids {
            match (&sent, self.offsets.fetches.get_mut(&id)) {
                (Ok(()), Some(fetch)) => fetch.is_asked = true,
                _ => self.settle_fetch(id, Err(GroupError::Unsayable)),
            }
        }
    }

    pub(in crate::group) fn on_fetched(
        &mut self,
        asked: Vec<FetchId>,
        said: &OffsetFetchResponse<'_>,
        now: Now,
    ) {
        let (code, found) = read(said);
        if matches!(code, ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable) {
            self.lose_coordinator();
        }
        let mut is_again = false;
        for id in asked {
            let Some(fetch) = self.offsets.fetches.get_mut(&id) else { continue };
            fetch.is_asked = false;
            match verdict(fetch.of.iter(), code, &found) {
                Some(result) => self.settle_fetch(id, result),
                None => is_again = true,
            }
        }
        if is_again {
            self.offsets_failed_once(now);
        } else {
            self.offsets.failures = 0;
        }
    }

    /// These questions get no answer: they are asked again.
    pub(in crate::group) fn on_fetch_lost(&mut self, asked: &[FetchId], now: Now) {
        for id in asked {
            if let Some(fetch) = self.offsets.fetches.get_mut(id) {
                fetch.is_asked = false;
            }
        }
        self.offsets_failed_once(now);
    }
}

fn request<'a>(
    group_id: &'a str,
    names: &BTreeMap<&'a TopicName, Vec<i32>>,
    version: i16,
    require_stable: bool,
) -> OffsetFetchRequest<'a> {
    if version < VERSION_BATCHED_MIN {
        let topics = names.iter().map(|(name, parts)| OffsetFetchRequestTopic {
            name: name.as_str(),
            partition_indexes: parts.clone(),
        });
        let topics = Some(topics.collect());
        return OffsetFetchRequest { group_id, topics, require_stable, ..OffsetFetchRequest::default() };
    }
    let topics = names.iter().map(|(name, parts)| OffsetFetchRequestTopics {
        name: name.as_str(),
        topic_id: Uuid::ZERO,
        partition_indexes: parts.clone(),
    });
    let group = OffsetFetchRequestGroup {
        group_id,
        topics: Some(topics.collect()),
        ..OffsetFetchRequestGroup::default()
    };
    OffsetFetchRequest { groups: vec![group], require_stable, ..OffsetFetchRequest::default() }
}

/// What is said of each partition.
type Found = BTreeMap<TopicPartition, Result<Option<OffsetAndMetadata>, ErrorCode>>;

fn read(said: &OffsetFetchResponse<'_>) -> (ErrorCode, Found) {
    let mut found = BTreeMap::new();
    let mut put =
        |topic: &str, index: i32, (offset, epoch): (i64, i32), metadata: Option<&str>, code: i16| {
            let Ok(topic) = TopicName::new(topic) else { return };
            let code = ErrorCode::from_i16(code).unwrap_or(ErrorCode::UnknownServerError);
            let committed = (offset >= 0).then(|| OffsetAndMetadata {
                offset: Offset(offset),
                leader_epoch: LeaderEpoch(epoch),
                metadata: metadata.unwrap_or_default().into(),
            });
            let result = if code.is_none() { Ok(committed) } else { Err(code) };
            found.insert(TopicPartition { topic, partition: PartitionIndex(index) }, result);
        };
    let mut code = said.error_code;
    for topic in &said.topics {
        for part in &topic.partitions {
            let at = (part.committed_offset, part.committed_leader_epoch);
            put(topic.name, part.partition_index, at, part.metadata, part.error_code);
        }
    }
    for group in said.groups.iter().take(1) {
        code = group.error_code;
        for topic in &group.topics {
            for part in &topic.partitions {
                let at = (part.committed_offset, part.committed_leader_epoch);
                put(topic.name, part.partition_index, at, part.metadata, part.error_code);
            }
        }
    }
    (ErrorCode::from_i16(code).unwrap_or(ErrorCode::UnknownServerError), found)
}

/// Whether the same may be answered otherwise later: also where a broker does not know what is wrong with it.
fn may_pass(code: ErrorCode) -> bool {
    code.is_retriable() || code == ErrorCode::UnknownServerError
}

/// The result, or `None` if it is to be asked again.
fn verdict<'a>(
    asked: impl Iterator<Item = &'a TopicPartition>,
    code: ErrorCode,
    found: &Found,
) -> Option<Result<CommittedOffsets, GroupError>> {
    if !code.is_none() {
        return (!may_pass(code)).then_some(Err(GroupError::Refused(code)));
    }
    let mut all = CommittedOffsets::new();
    for of in asked {
        match found.get(of) {
            Some(Ok(committed)) => {
                all.insert(of.clone(), committed.clone());
            }
            Some(Err(code)) if may_pass(*code) => return None,
            Some(Err(code)) => return Some(Err(GroupError::Refused(*code))),
            // A broker that leaves it out says nothing else the next time.
            None => return Some(Err(GroupError::Refused(ErrorCode::UnknownServerError))),
        }
    }
    Some(Ok(all))
}
