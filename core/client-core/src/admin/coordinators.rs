//! Which brokers keep which groups, as far as calls need to know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{BrokerId, ErrorCode};
use wire::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};

use crate::cluster::Cluster;
use crate::inquiry::Inquiry;

/// From here on a request names several groups (KIP-699).
const VERSION_BATCHED_MIN: i16 = 4;
/// One request is about so many groups at most.
const GROUPS_MAX: usize = 1_000;
/// As many are remembered.
const KNOWN_MAX: usize = 100_000;

/// What is known, and what is to be found out.
#[derive(Debug, Default)]
pub(super) struct Coordinators {
    known: BTreeMap<Arc<str>, BrokerId>,
    wanted: BTreeSet<Arc<str>>,
    pub(super) inquiry: Inquiry,
}

impl Coordinators {
    pub(super) fn of(&self, group: &str) -> Option<BrokerId> {
        self.known.get(group).copied()
    }

    pub(super) fn want(&mut self, group: &str) {
        if !self.wanted.contains(group) {
            self.wanted.insert(group.into());
        }
        self.inquiry.is_wanted = true;
    }

    /// Who was said to keep it does not, or cannot be reached.
    pub(super) fn lose(&mut self, group: &str) {
        self.known.remove(group);
    }

    /// Nobody waits for what was wanted.
    pub(super) fn want_nothing(&mut self) {
        self.wanted.clear();
        self.inquiry.is_wanted = false;
    }

    /// The groups that the next request is about.
    pub(super) fn next(&self, version: i16) -> Vec<Arc<str>> {
        let groups_max = if version >= VERSION_BATCHED_MIN { GROUPS_MAX } else { 1 };
        self.wanted.iter().take(groups_max).cloned().collect()
    }

    /// Learns from an answer about these groups: whom nobody keeps for good, and whether others are to be
    /// asked for again after a while.
    pub(super) fn learn(
        &mut self,
        asked: &[Arc<str>],
        said: &FindCoordinatorResponse<'_>,
        cluster: &mut Cluster,
    ) -> (BTreeMap<Arc<str>, ErrorCode>, bool) {
        let (mut refused, mut is_again) = (BTreeMap::new(), false);
        for group in asked {
            let named = said.coordinators.iter().find(|found| found.key == &**group);
            let found = match named {
                Some(found) => (found.error_code, found.node_id, found.host, found.port),
                // As one alone is answered in the versions before.
                None if said.coordinators.is_empty() => (said.error_code, said.node_id, said.host, said.port),
                None => (ErrorCode::CoordinatorNotAvailable.code(), -1, "", 0),
            };
            let code = ErrorCode::from_i16(found.0).unwrap_or(ErrorCode::UnknownServerError);
            match code {
                ErrorCode::None => match cluster.learn_broker(found.1, found.2, found.3) {
                    Some(id) => {
                        if self.known.len() >= KNOWN_MAX {
                            self.known.clear();
                        }
                        self.known.insert(group.clone(), id);
                    }
                    None => {
                        is_again = true;
                        continue;
                    }
                },
                code if code.is_retriable() || code == ErrorCode::UnknownServerError => {
                    is_again = true;
                    continue;
                }
                code => {
                    refused.insert(group.clone(), code);
                }
            }
            self.wanted.remove(group);
        }
        (refused, is_again)
    }

    /// Whether something is left to be asked.
    pub(super) fn is_any_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }
}

/// The question for some groups.
pub(super) fn request(groups: &[Arc<str>], version: i16) -> FindCoordinatorRequest<'_> {
    if version >= VERSION_BATCHED_MIN {
        let coordinator_keys = groups.iter().map(|group| &**group).collect();
        return FindCoordinatorRequest { coordinator_keys, ..FindCoordinatorRequest::default() };
    }
    let key = groups.first().map_or("", |group| group);
    FindCoordinatorRequest { key, ..FindCoordinatorRequest::default() }
}
