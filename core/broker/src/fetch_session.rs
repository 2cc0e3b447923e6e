//! Fetch sessions (KIP-227): the client says once which partitions it reads, then only what changed.
//!
//! ```text
//!   epoch 0   the whole list         ─▶ a new session, if there is room for one
//!   epoch n   what changed, and      ─▶ n must be the one expected; the answer has only partitions
//!             what was forgotten        with records, an error, or news
//!   epoch -1  the whole list         ─▶ no session
//! ```
//!
//! A partition that a list names twice is read once, as the list has it last.
//!
//! A session belongs to the connection that made it and ends with it: a client that comes back on
//! another connection is told that its session is unknown and sends its list again. So a session
//! needs no lock, nothing has to be evicted, and a session id that was overheard is worth nothing.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use base::{ErrorCode, TopicName, Uuid};

/// How a request names a topic: by name to v12, by id from v13. Cheap to clone: each partition has one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicKey {
    /// Its name.
    Name(TopicName),
    /// Its id.
    Id(Uuid),
}

impl TopicKey {
    /// Bytes of memory beside the key itself.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Name(name) => name.as_str().len(),
            Self::Id(_) => 0,
        }
    }
}

/// What a client wants of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The leader epoch the client knows; -1 for none.
    pub current_leader_epoch: i32,
    /// Where to read from.
    pub fetch_offset: i64,
    /// Epoch of the last record the client has; -1 for none.
    pub last_fetched_epoch: i32,
    /// The first offset that a follower has; -1 of anybody else.
    pub log_start_offset: i64,
    /// How many bytes at most.
    pub bytes_max: i32,
}

/// What the last answer said of a partition, to tell what is news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The high watermark.
    pub high_watermark: i64,
    /// The last stable offset.
    pub last_stable_offset: i64,
    /// The first offset of the log.
    pub log_start_offset: i64,
}

/// One partition of a fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// Its topic.
    pub topic: TopicKey,
    /// Its index.
    pub partition: i32,
    /// What is wanted of it.
    pub wanted: Wanted,
    /// What was said of it last; `None` if nothing.
    pub told: Option<Told>,
}

/// A request as far as sessions are concerned.
#[derive(Debug, Default)]
pub struct FetchChange {
    /// 0 for none.
    pub session_id: i32,
    /// -1 for no session, 0 for a new one.
    pub session_epoch: i32,
    /// The partitions it names, in its order.
    pub partitions: Vec<(TopicKey, i32, Wanted)>,
    /// Those that are to be dropped.
    pub forgotten: Vec<(TopicKey, i32)>,
}

/// What a fetch is about to do.
#[derive(Debug, PartialEq, Eq)]
pub struct FetchScope {
    /// The session to name in the answer; 0 for none.
    pub session_id: i32,
    /// Whether partitions without news are left out.
    pub incremental: bool,
    /// What to read, in the order to read it.
    pub partitions: Vec<FetchPartition>,
}

/// The room that a broker has for the sessions of all connections.
pub trait FetchSessionRoom {
    /// The id of a new session of so many partitions; `None` if there is no room for it.
    fn begin(&self, partitions: usize) -> Option<i32>;
    /// The id of a new session of a node of the cluster, which takes no room.
    fn begin_of_node(&self) -> i32;
    /// A session is to have another number of partitions: whether there is room for as many. If not, it goes on
    /// being counted as it was.
    fn resize(&self, before: usize, after: usize) -> bool;
    /// A session of so many partitions has ended.
    fn end(&self, partitions: usize);
}

/// The session of one connection, if it has one.
#[derive(Debug, Default)]
pub struct FetchSessions {
    live: Option<Live>,
    is_of_node: bool,
}

#[derive(Debug)]
struct Live {
    id: i32,
    epoch_next: i32,
    by_id: bool,
    /// In the order they are read: those that gave records last go to the end, so that a few busy
    /// partitions cannot keep the others from being read.
    order: Vec<FetchPartition>,
}

const NEW_SESSION: i32 = 0;
const NO_SESSION: i32 = -1;

/// Partitions of one session at most. A fetch of more is answered without a session.
pub const SESSION_PARTITIONS_MAX: usize = 100_000;

/// The same of a node of the cluster, which follows all that others lead and has a few such sessions: what a broker
/// cannot have many more of. They take no room from those of clients.
pub const NODE_SESSION_PARTITIONS_MAX: usize = 1_000_000;

impl FetchSessions {
    /// Those of a connection that comes from a node of the cluster.
    pub fn of_node() -> Self {
        Self { live: None, is_of_node: true }
    }

    /// Decides what a request reads.
    pub fn begin(
        &mut self,
        change: FetchChange,
        room: &dyn FetchSessionRoom,
    ) -> Result<FetchScope, ErrorCode> {
        if !matches!(change.session_epoch, NEW_SESSION | NO_SESSION) {
            return self.go_on(change, room);
        }
        if change.session_id != 0 && self.live.as_ref().is_some_and(|live| live.id == change.session_id) {
            self.end(room);
        }
        let by_id = matches!(change.partitions.first(), Some((TopicKey::Id(_), ..)));
        let mut partitions = Vec::with_capacity(change.partitions.len());
        if is_any_twice(&change.partitions) {
            merge(&mut partitions, &change.partitions);
        } else {
            let new = |(topic, partition, wanted)| FetchPartition { topic, partition, wanted, told: None };
            partitions.extend(change.partitions.into_iter().map(new));
        }
        let no_session = |partitions| Ok(FetchScope { session_id: 0, incremental: false, partitions });
        let count = partitions.len();
        if change.session_epoch == NO_SESSION || !(1..=self.partitions_max()).contains(&count) {
            return no_session(partitions);
        }
        self.end(room);
        let id = if self.is_of_node { Some(room.begin_of_node()) } else { room.begin(count) };
        let Some(id) = id else { return no_session(partitions) };
        self.live = Some(Live { id, epoch_next: 1, by_id, order: partitions.clone() });
        Ok(FetchScope { session_id: id, incremental: false, partitions })
    }

    fn go_on(&mut self, change: FetchChange, room: &dyn FetchSessionRoom) -> Result<FetchScope, ErrorCode> {
        let live = self
            .live
            .as_mut()
            .filter(|live| live.id == change.session_id)
            .ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if change.session_epoch != live.epoch_next {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        let names = change.partitions.iter().map(|(topic, ..)| topic);
        if names
            .chain(change.forgotten.iter().map(|(topic, _)| topic))
            .any(|t| live.by_id != matches!(t, TopicKey::Id(_)))
        {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        let before = live.order.len();
        live.change(&change.partitions, &change.forgotten);
        live.epoch_next = if live.epoch_next == i32::MAX { 1 } else { live.epoch_next + 1 };
        let (session_id, order, after) = (live.id, live.order.clone(), live.order.len());
        let fits = (1..=self.partitions_max()).contains(&after)
            && (before == after || self.is_of_node || room.resize(before, after));
        if !fits {
            self.live = None;
            self.give_back(before, room);
            return Ok(FetchScope { session_id: 0, incremental: false, partitions: order });
        }
        Ok(FetchScope { session_id, incremental: true, partitions: order })
    }

    /// How many partitions the session has; 0 without one.
    pub fn partitions(&self) -> usize {
        self.live.as_ref().map_or(0, |live| live.order.len())
    }

    /// The session ends, if there is one.
    pub fn end(&mut self, room: &dyn FetchSessionRoom) {
        if let Some(live) = self.live.take() {
            self.give_back(live.order.len(), room);
        }
    }

    fn give_back(&self, partitions: usize, room: &dyn FetchSessionRoom) {
        if !self.is_of_node {
            room.end(partitions);
        }
    }

    const fn partitions_max(&self) -> usize {
        if self.is_of_node { NODE_SESSION_PARTITIONS_MAX } else { SESSION_PARTITIONS_MAX }
    }

    /// Remembers what an answer told: `told(i)` for each partition of the scope that it had, and
    /// whether it carried records.
    pub fn answered(&mut self, session_id: i32, told: &[(TopicKey, i32, Option<Told>, bool)]) {
        let Some(live) = self.live.as_mut().filter(|live| live.id == session_id && session_id != 0) else {
            return;
        };
        live.tell(told);
    }
}

/// Whether a list names a partition twice. Most do not: that costs no map and no copy of a key.
fn is_any_twice(partitions: &[(TopicKey, i32, Wanted)]) -> bool {
    let mut names: Vec<(&TopicKey, i32)> = partitions.iter().map(|(topic, p, _)| (topic, *p)).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// Puts partitions at the end, or in the place of those that are there.
fn merge(order: &mut Vec<FetchPartition>, more: &[(TopicKey, i32, Wanted)]) {
    // By what is named, not by what is there: a session has many partitions, of which few change.
    let news = more.iter().map(|(topic, partition, wanted)| ((topic, *partition), Cell::new(Some(*wanted))));
    let news: BTreeMap<(&TopicKey, i32), Cell<Option<Wanted>>> = news.collect();
    for known in &mut *order {
        if let Some(wanted) = news.get(&(&known.topic, known.partition)).and_then(Cell::take) {
            // Who follows another leadership may have passed over what it was told in the one before.
            if known.wanted.current_leader_epoch != wanted.current_leader_epoch {
                known.told = None;
            }
            known.wanted = wanted;
        }
    }
    for (topic, partition, _) in more {
        if let Some(wanted) = news.get(&(topic, *partition)).and_then(Cell::take) {
            order.push(FetchPartition { topic: topic.clone(), partition: *partition, wanted, told: None });
        }
    }
}

impl Live {
    fn change(&mut self, partitions: &[(TopicKey, i32, Wanted)], forgotten: &[(TopicKey, i32)]) {
        if !partitions.is_empty() {
            merge(&mut self.order, partitions);
        }
        if !forgotten.is_empty() {
            let gone: BTreeSet<(&TopicKey, i32)> = forgotten.iter().map(|(topic, p)| (topic, *p)).collect();
            self.order.retain(|part| !gone.contains(&(&part.topic, part.partition)));
        }
    }

    fn tell(&mut self, told: &[(TopicKey, i32, Option<Told>, bool)]) {
        let told: BTreeMap<(&TopicKey, i32), (Option<Told>, bool)> = told
            .iter()
            .map(|(topic, partition, told, records)| ((topic, *partition), (*told, *records)))
            .collect();
        let mut gave = Vec::new();
        let mut rest = Vec::with_capacity(self.order.len());
        for mut partition in std::mem::take(&mut self.order) {
            match told.get(&(&partition.topic, partition.partition)) {
                Some((news, records)) => {
                    partition.told = *news;
                    if *records { gave.push(partition) } else { rest.push(partition) }
                }
                None => rest.push(partition),
            }
        }
        rest.append(&mut gave);
        self.order = rest;
    }
}

#[cfg(test)]
mod tests;
