//! Asks one leader for what comes behind the logs that follow it.
//!
//! One request at a time, in a session (KIP-227): it names only what changed since the one before. What
//! cannot be asked for now (its own disk has to catch up, or the leader refused it a moment ago) is taken
//! out of the session, so that it holds up nobody else. While a disk has to catch up, the leader may not
//! keep the question for long: it would be asked for the rest only after that.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use base::{ErrorCode, LeaderEpoch, Now, Offset, PartitionIndex, TopicId, Uuid};
use replica::{FollowerFetch, FollowerId, FromLeader, NextFetch};
use wire::messages::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, PartitionData, ReplicaState,
};
use wire::{ApiKey, DecodeError, EncodeError, Frame, Message, Records};

/// A partition, as nodes name it to each other.
pub type PartitionKey = (TopicId, PartitionIndex);

/// The version of Fetch that nodes speak to each other.
const VERSION: i16 = 18;

/// How many partitions one request names or forgets at most; the next one goes on. Each may be the only one of its
/// topic, which counts like another, and a broker takes no more than twice as much from anybody.
const NAMED_MAX: usize = 50_000;

/// How much of the usual time a partition is left alone at first whose leader may not know yet that it leads.
const FIRST_REST_SHARE: u32 = 10;

/// Comes before every partition.
const BEFORE_ALL: PartitionKey = (TopicId(Uuid([0; 16])), PartitionIndex(-1));

/// How long the leader may keep a question while a partition waits for its own disk to be asked for, or for the next
/// request to be named.
const WAIT_WHILE_BEHIND: Duration = Duration::from_millis(10);

/// How much to ask for at a time, and how long to wait for it.
#[derive(Debug, Clone, Copy)]
pub struct FetcherLimits {
    /// `replica.fetch.wait.max.ms`: how long the leader waits for something to say.
    pub wait_max: Duration,
    /// `replica.fetch.response.max.bytes`.
    pub response_bytes_max: i32,
    /// `replica.fetch.max.bytes`, of one partition.
    pub partition_bytes_max: i32,
    /// `replica.fetch.backoff.ms`: how long a partition that was refused is left alone; a tenth of it, and twice as
    /// long each time, by who may not know yet that it leads.
    pub backoff: Duration,
}

/// What a leader answered of one partition.
#[derive(Debug)]
pub enum LeaderAnswer<'a> {
    /// Records, marks, or where to cut: for [`replica::Partition::on_fetched`].
    Fetched(FromLeader<'a>),
    /// For [`replica::Partition::on_out_of_range`].
    OutOfRange {
        /// The leadership that was asked.
        epoch: LeaderEpoch,
        /// Where the leader's log starts.
        start: Offset,
        /// Where it ends.
        end: Offset,
    },
    /// Something else; it is asked again after a while, or when the metadata say something new.
    Refused(ErrorCode),
}

/// What came of a leader's answer about one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// What to ask for next.
    pub fetch: NextFetch,
    /// Whether the answer was of no use: the same is asked again only after a while.
    pub has_failed: bool,
    /// Until when to leave the partition alone all the same, by `Now::elapsed`: see [`super::Throttle`].
    pub rests_until: Option<Duration>,
}

/// Why the connection to the leader has to be made anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetcherError {
    /// The answer cannot be read.
    #[error("cannot read the leader's answer: {0}")]
    Malformed(#[from] DecodeError),
    /// It answers something that was not asked.
    #[error("the leader answered what was not asked")]
    Unasked,
    /// The leader refused the whole request.
    #[error("the leader refuses to be followed: {0}")]
    Refused(ErrorCode),
}

/// See the module.
#[derive(Debug)]
pub struct Fetcher {
    me: FollowerId,
    limits: FetcherLimits,
    wanted: BTreeMap<PartitionKey, FollowerFetch>,
    /// What is wanted as soon as its own disk has caught up.
    behind: BTreeSet<PartitionKey>,
    /// What the leader knows to be wanted, in the session or by the last request.
    asked: BTreeMap<PartitionKey, FollowerFetch>,
    /// Where `wanted` and `asked` may differ.
    changed: BTreeSet<PartitionKey>,
    /// The last one that had its turn to be named, if others still wait for theirs.
    turn: Option<PartitionKey>,
    /// What to leave alone for a while, of what is wanted.
    resting: BTreeMap<PartitionKey, Rest>,
    /// For how long what may not be known yet was left alone the last time, if it is still asked for the same.
    refused: BTreeMap<PartitionKey, Duration>,
    session: Session,
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    /// By `Now::elapsed`.
    until: Duration,
    /// Whether it may not be asked for, rather than being of no use.
    is_held: bool,
}

/// What a request names.
struct Named {
    named: Vec<PartitionKey>,
    forgotten: Vec<PartitionKey>,
    /// The last of them, if others have to wait for the next request.
    turn: Option<PartitionKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Session {
    /// 0 for none.
    id: i32,
    /// That of the next request.
    epoch: i32,
}

impl Session {
    /// Asks for one.
    const NEW: Self = Self { id: 0, epoch: 0 };
}

impl Fetcher {
    /// One that follows nothing yet, for this life of this broker.
    pub fn new(me: FollowerId, limits: FetcherLimits) -> Self {
        Self {
            me,
            limits,
            wanted: BTreeMap::new(),
            behind: BTreeSet::new(),
            asked: BTreeMap::new(),
            changed: BTreeSet::new(),
            turn: None,
            resting: BTreeMap::new(),
            refused: BTreeMap::new(),
            session: Session::NEW,
        }
    }

    /// What to ask for of a partition from here on.
    pub fn set(&mut self, key: PartitionKey, next: NextFetch) {
        match next {
            NextFetch::AfterItsDisk(_) => self.behind.insert(key),
            NextFetch::Ask(_) | NextFetch::Nothing => self.behind.remove(&key),
        };
        let fetch = next.ask();
        // Whoever was refused may be asked something new at once.
        if self.resting.contains_key(&key) && self.wanted.get(&key) == fetch.as_ref() {
            return;
        }
        self.resting.remove(&key);
        if self.wanted.get(&key) != fetch.as_ref() {
            self.refused.remove(&key);
        }
        match fetch {
            Some(fetch) => self.wanted.insert(key, fetch),
            None => self.wanted.remove(&key),
        };
        self.changed.insert(key);
    }

    /// Leaves a partition alone until then, by `Now::elapsed`; with `None` no longer. Who was refused is left
    /// alone all the same.
    pub fn hold(&mut self, key: PartitionKey, until: Option<Duration>) {
        let before = self.resting.get(&key).copied();
        match (until, before) {
            (Some(until), before) if self.wanted.contains_key(&key) => {
                let refused = before.filter(|before| !before.is_held);
                let until = refused.map_or(until, |refused| refused.until.max(until));
                self.resting.insert(key, Rest { until, is_held: true });
            }
            (None, Some(Rest { is_held: true, .. })) => drop(self.resting.remove(&key)),
            _ => return,
        }
        self.changed.insert(key);
    }

    /// When there is something to ask for, by `Now::elapsed`: zero if there is now, `None` if nothing is wanted.
    pub fn due_at(&self) -> Option<Duration> {
        let is_due = self.wanted.len() > self.resting.len();
        if is_due { Some(Duration::ZERO) } else { self.deadline() }
    }

    /// Whether a partition waits for its own disk to be asked for. It is worth a moment's patience: then one
    /// question does for all.
    pub fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// When a partition that was left alone is to be asked for again, by `Now::elapsed`.
    pub fn deadline(&self) -> Option<Duration> {
        self.resting.values().map(|rest| rest.until).min()
    }

    /// The connection is gone, and its session with it.
    pub fn on_disconnected(&mut self) {
        self.forget_session();
    }

    /// The next request; `None` if there is nothing to ask for. To be called once the answer to the one
    /// before is there.
    pub fn request(&mut self, now: Now, correlation_id: i32) -> Result<Option<Frame>, EncodeError> {
        let over: Vec<_> = self.resting.extract_if(.., |_, rest| rest.until <= now.elapsed).collect();
        self.changed.extend(over.into_iter().map(|(key, _)| key));
        if self.due_at() != Some(Duration::ZERO) {
            return Ok(None);
        }
        let Named { named, forgotten, turn } = self.named();
        // The leader must not keep what is to be asked again sooner.
        let rest = self.deadline().map_or(Duration::MAX, |until| until.saturating_sub(now.elapsed));
        let wait_max = if self.is_behind() || turn.is_some() { rest.min(WAIT_WHILE_BEHIND) } else { rest };
        let request = FetchRequest {
            replica_state: ReplicaState { replica_id: self.me.broker.0, replica_epoch: self.me.epoch.0 },
            max_wait_ms: i32::try_from(wait_max.min(self.limits.wait_max).as_millis()).unwrap_or(i32::MAX),
            min_bytes: 1,
            max_bytes: self.limits.response_bytes_max,
            session_id: self.session.id,
            session_epoch: self.session.epoch,
            topics: self.topics(&named),
            forgotten_topics_data: forgotten_topics(&forgotten),
            ..FetchRequest::default()
        };
        let frame = wire::encode_request(correlation_id, Some("replica"), VERSION, &request)?;
        if self.session == Session::NEW {
            self.asked.clear();
            self.changed.extend(self.wanted.keys());
        }
        match turn {
            None => self.changed.clear(),
            Some(_) => named.iter().chain(&forgotten).for_each(|key| {
                self.changed.remove(key);
            }),
        }
        self.turn = turn;
        for key in &forgotten {
            self.asked.remove(key);
        }
        self.asked.extend(named.into_iter().map(|key| (key, self.wanted[&key])));
        Ok(Some(frame))
    }

    /// What is to be named, and what taken out of the session. Where that is too much for one request, all have
    /// their turn.
    fn named(&self) -> Named {
        let is_wanted = |key: &PartitionKey| self.wanted.contains_key(key) && !self.resting.contains_key(key);
        let turn = self.turn.unwrap_or(BEFORE_ALL);
        let ranges = [(Bound::Excluded(turn), Bound::Unbounded), (Bound::Unbounded, Bound::Included(turn))]
            .into_iter();
        let (mut named, mut forgotten) = (Vec::new(), Vec::new());
        let is_new = self.session == Session::NEW;
        let wanted = is_new.then(|| ranges.clone().flat_map(|range| self.wanted.range(range)));
        let changed = (!is_new).then(|| ranges.flat_map(|range| self.changed.range(range)));
        let wanted = wanted.into_iter().flatten().map(|(key, _)| key);
        let mut in_turn = wanted.chain(changed.into_iter().flatten()).peekable();
        while let Some(key) = in_turn.next() {
            match (is_wanted(key), self.asked.get(key)) {
                (true, asked) if is_new || asked != self.wanted.get(key) => named.push(*key),
                (false, Some(_)) if !is_new => forgotten.push(*key),
                _ => {}
            }
            if named.len() + forgotten.len() == NAMED_MAX {
                let turn = in_turn.peek().is_some().then_some(*key);
                return Named { named, forgotten, turn };
            }
        }
        Named { named, forgotten, turn: None }
    }

    fn topics(&self, named: &[PartitionKey]) -> Vec<FetchTopic<'static>> {
        let mut topics: Vec<FetchTopic<'static>> = Vec::new();
        for (topic, index) in named {
            let fetch = &self.wanted[&(*topic, *index)];
            let partition = FetchPartition {
                partition: index.0,
                current_leader_epoch: fetch.current_epoch.0,
                fetch_offset: fetch.from.0,
                last_fetched_epoch: fetch.last_epoch.0,
                log_start_offset: fetch.log_start.0,
                partition_max_bytes: self.limits.partition_bytes_max,
                ..FetchPartition::default()
            };
            match topics.last_mut() {
                Some(last) if last.topic_id == topic.0 => last.partitions.push(partition),
                _ => topics.push(FetchTopic {
                    topic_id: topic.0,
                    partitions: vec![partition],
                    ..FetchTopic::default()
                }),
            }
        }
        topics
    }

    /// The leader answered, with a frame without its size prefix. `each` does what is said of a partition,
    /// and says what to ask for next.
    pub fn on_answer(
        &mut self,
        now: Now,
        correlation_id: i32,
        frame: &[u8],
        each: &mut dyn FnMut(PartitionKey, LeaderAnswer<'_>) -> Next,
    ) -> Result<(), FetcherError> {
        let (answered, mut body) = wire::decode_response_header(frame, ApiKey::Fetch, VERSION)?;
        if answered != correlation_id {
            return Err(FetcherError::Unasked);
        }
        let response = FetchResponse::decode(&mut body, VERSION)?;
        self.go_on(&response)?;
        for topic in &response.responses {
            for data in &topic.partitions {
                let key = (TopicId(topic.topic_id), PartitionIndex(data.partition_index));
                self.on_partition(now, key, data, each);
            }
        }
        Ok(())
    }

    fn go_on(&mut self, response: &FetchResponse<'_>) -> Result<(), FetcherError> {
        match ErrorCode::from_i16(response.error_code) {
            Some(ErrorCode::None) if response.session_id == 0 => {
                // No session for us: everything is named again.
                self.forget_session();
            }
            Some(ErrorCode::None) => {
                let epoch = self.session.epoch.checked_add(1).unwrap_or(1);
                self.session = Session { id: response.session_id, epoch };
            }
            Some(
                ErrorCode::FetchSessionIdNotFound
                | ErrorCode::InvalidFetchSessionEpoch
                | ErrorCode::FetchSessionTopicIdError,
            ) => self.forget_session(),
            Some(code) => return Err(FetcherError::Refused(code)),
            None => return Err(FetcherError::Refused(ErrorCode::UnknownServerError)),
        }
        Ok(())
    }

    fn forget_session(&mut self) {
        self.session = Session::NEW;
        // What is told of a partition still belongs to what was asked last.
        self.changed.extend(self.asked.keys());
    }

    fn on_partition(
        &mut self,
        now: Now,
        key: PartitionKey,
        data: &PartitionData<'_>,
        each: &mut dyn FnMut(PartitionKey, LeaderAnswer<'_>) -> Next,
    ) {
        let Some(asked) = self.asked.get(&key).copied() else { return };
        // It may have been led by another since it was asked for. That it only has to say that more of its log is gone
        // makes no other answer of this one: what it tells, it does not tell again.
        let is_of = |wanted: &FollowerFetch| FollowerFetch { log_start: asked.log_start, ..*wanted } == asked;
        let Some(wanted) = self.wanted.get(&key).copied().filter(is_of) else { return };
        let answer = answer(&asked, data);
        let is_redirected = match &answer {
            LeaderAnswer::Fetched(said) => said.diverging.is_some() || !said.records.is_empty(),
            LeaderAnswer::OutOfRange { .. } => true,
            LeaderAnswer::Refused(_) => false,
        };
        let may_not_know = may_not_know_yet(&answer);
        let Next { fetch, has_failed, rests_until } = each(key, answer);
        // Who was told to go on elsewhere, or given something, and does not go on would be told the same at once.
        if (has_failed || is_redirected) && fetch == NextFetch::Ask(wanted) {
            let until = now.elapsed.saturating_add(self.refusal_rest(key, may_not_know));
            let until = rests_until.map_or(until, |rests_until| rests_until.max(until));
            self.resting.insert(key, Rest { until, is_held: false });
            self.changed.insert(key);
            return;
        }
        self.refused.remove(&key);
        self.set(key, fetch);
        self.hold(key, rests_until);
    }

    /// For how long to leave a partition alone that was refused. A leader that was named a moment ago may hear of it
    /// later than its followers: producers wait until it has them.
    fn refusal_rest(&mut self, key: PartitionKey, may_not_know: bool) -> Duration {
        let backoff = self.limits.backoff;
        if !may_not_know {
            self.refused.remove(&key);
            return backoff;
        }
        let rest = self.refused.get(&key).map_or(backoff / FIRST_REST_SHARE, |last| (*last * 2).min(backoff));
        self.refused.insert(key, rest);
        rest
    }
}

/// Whether a broker says so that has yet to hear that it leads.
fn may_not_know_yet(answer: &LeaderAnswer<'_>) -> bool {
    matches!(
        answer,
        LeaderAnswer::Refused(
            ErrorCode::NotLeaderOrFollower
                | ErrorCode::UnknownLeaderEpoch
                | ErrorCode::UnknownTopicId
                | ErrorCode::UnknownTopicOrPartition
        )
    )
}

fn answer<'a>(asked: &FollowerFetch, data: &'a PartitionData<'_>) -> LeaderAnswer<'a> {
    let epoch = asked.current_epoch;
    match ErrorCode::from_i16(data.error_code) {
        Some(ErrorCode::None) => {
            let diverging = (data.diverging_epoch.end_offset >= 0).then_some((
                LeaderEpoch(data.diverging_epoch.epoch),
                Offset(data.diverging_epoch.end_offset),
            ));
            let records = match &data.records {
                Some(Records::Bytes(bytes)) => bytes,
                _ => &[][..],
            };
            LeaderAnswer::Fetched(FromLeader {
                epoch,
                high_watermark: Offset(data.high_watermark),
                log_start: Offset(data.log_start_offset),
                diverging,
                records,
            })
        }
        // Among nodes the answer says between which offsets it would be within range.
        Some(ErrorCode::OffsetOutOfRange) if data.log_start_offset >= 0 => LeaderAnswer::OutOfRange {
            epoch,
            start: Offset(data.log_start_offset),
            end: Offset(data.last_stable_offset.max(data.log_start_offset)),
        },
        Some(code) => LeaderAnswer::Refused(code),
        None => LeaderAnswer::Refused(ErrorCode::UnknownServerError),
    }
}

fn forgotten_topics(forgotten: &[PartitionKey]) -> Vec<ForgottenTopic<'static>> {
    let mut topics: Vec<ForgottenTopic<'static>> = Vec::new();
    for (topic, index) in forgotten {
        match topics.last_mut() {
            Some(last) if last.topic_id == topic.0 => last.partitions.push(index.0),
            _ => topics.push(ForgottenTopic {
                topic_id: topic.0,
                partitions: vec![index.0],
                ..ForgottenTopic::default()
            }),
        }
    }
    topics
}
