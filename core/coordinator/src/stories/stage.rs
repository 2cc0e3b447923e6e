//! A shard, its log, and clients that speak to it.

mod client;
mod topics;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use base::{Effects, ErrorCode, Now, Offset, TimestampMs, Uuid};
use metadata::Image;
use wire::messages::consumer_protocol_subscription::{ConsumerProtocolSubscription, TopicPartition};
use wire::messages::heartbeat::HeartbeatRequest;
use wire::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_fetch::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use wire::{Encoder, Message};

use crate::{
    Caller, ConnectionId, Count, Effect, JoinedGroup, Record, Request, Response, Shard, ShardSettings, Ticket,
};

pub(super) use client::Client;
pub(super) use topics::{add_topic, image};

pub(super) const GROUP: &str = "readers";
const WALL_START: i64 = 1_700_000_000_000;

/// What a consumer says of itself: the topics it wants, and the partitions of `events` that it has.
pub(super) fn subscription(topics: &[&str], owned: &[i32]) -> Vec<u8> {
    let owned = TopicPartition { topic: "events", partitions: owned.to_vec() };
    let owned_partitions = Some(owned).into_iter().filter(|of| !of.partitions.is_empty()).collect();
    let subscription =
        ConsumerProtocolSubscription { topics: topics.to_vec(), owned_partitions, ..Default::default() };
    let mut e = Encoder::new();
    e.i16(1);
    subscription.encode(&mut e, 1).expect("it is small");
    e.into_bytes()
}

pub(super) struct Stage {
    pub(super) shard: Shard,
    pub(super) now: Duration,
    pub(super) image: Image,
    pub(super) log: Vec<Record>,
    /// When those were written, each as the log has it.
    times: Vec<TimestampMs>,
    pub(super) committed: usize,
    /// Whether what is appended is committed at once.
    pub(super) commits: bool,
    /// Why nothing can be appended.
    pub(super) refuses: Option<ErrorCode>,
    pub(super) counts: Vec<Count>,
    pub(super) replies: BTreeMap<Ticket, Response>,
    /// What has to be committed before a commit's reply may leave.
    promised: BTreeMap<Ticket, usize>,
    /// Whether commits are released only before other steps.
    pub(super) gathers: bool,
    /// Whose commits the shard has gathered.
    gathered: Vec<Ticket>,
    next: u64,
    /// Over which connection it is asked.
    pub(super) connection: u64,
}

impl Stage {
    pub(super) fn new() -> Self {
        Self::with(ShardSettings::default())
    }

    pub(super) fn with(settings: ShardSettings) -> Self {
        let mut stage = Self {
            shard: Shard::new(settings),
            now: Duration::ZERO,
            image: image(&[("events", 8), ("clicks", 2)]),
            log: Vec::new(),
            times: Vec::new(),
            committed: 0,
            commits: true,
            refuses: None,
            counts: Vec::new(),
            replies: BTreeMap::new(),
            promised: BTreeMap::new(),
            gathers: false,
            gathered: Vec::new(),
            next: 0,
            connection: 0,
        };
        stage.load();
        stage
    }

    pub(super) fn at(&self) -> Now {
        Now::new(self.now, TimestampMs(WALL_START + self.now.as_millis() as i64))
    }

    /// Another broker leads the partition, and loads what is in its log.
    pub(super) fn load(&mut self) {
        self.shard.on_load_begin();
        self.times.resize(self.log.len(), TimestampMs::NONE);
        for (offset, (record, time)) in (0..).map(Offset).zip(self.log.iter().zip(&self.times)) {
            let (key, value) = (Some(&record.key[..]), record.value.as_deref());
            self.shard.on_record((offset, *time), key, value).expect("it was written here");
        }
        let (end, committed) = (Offset(self.log.len() as i64), Offset(self.committed as i64));
        let mut out = Effects::new();
        self.shard.on_loaded(self.at(), (end, committed), &self.image, &mut out);
        self.perform(out);
    }

    /// The broker is gone, and what was not committed with it; another one loads the rest.
    pub(super) fn fail_over(&mut self) {
        self.log.truncate(self.committed);
        self.replies.clear();
        self.gathered.clear();
        self.load();
    }

    /// The broker hears that it does not lead any more.
    pub(super) fn unload(&mut self) {
        self.gathered.clear();
        let mut out = Effects::new();
        self.shard.on_unload(&mut out);
        self.perform(out);
    }

    /// All that was appended is committed.
    pub(super) fn commit(&mut self) {
        self.release();
        self.commit_to(self.log.len());
    }

    /// What was appended is committed up to there.
    pub(super) fn commit_to(&mut self, end: usize) {
        self.release();
        self.committed = end;
        let mut out = Effects::new();
        self.shard.on_committed(Offset(self.committed as i64), &mut out);
        self.perform(out);
    }

    /// Time passes; what is due happens when it is due.
    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        for _ in 0..100_000 {
            let Some(due) = self.shard.deadline().filter(|due| *due <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(due);
            self.release();
            let mut out = Effects::new();
            self.shard.on_tick(self.at(), &self.image, &mut out);
            self.perform(out);
        }
        panic!("it is always due");
    }

    /// Time passes, and nobody looks at what is due.
    pub(super) fn stand_still(&mut self, time: Duration) {
        self.now += time;
    }

    pub(super) fn pass_ms(&mut self, ms: u64) {
        self.pass(Duration::from_millis(ms));
    }

    pub(super) fn ask(&mut self, version: i16, client: &str, request: Request<'_>) -> Ticket {
        self.next += 1;
        let ticket = Ticket(self.next);
        let random = u128::from(self.next).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let connection = ConnectionId(self.connection);
        let caller = Caller { version, client_id: client, client_host: "/10.0.0.1", random, connection };
        if !matches!(request, Request::OffsetCommit(_)) {
            self.release();
        }
        let (had, mut out) = (self.shard.gathered_since().is_some(), Effects::new());
        let now = self.at();
        self.shard.on_request(now, (ticket, caller), request, &self.image, &mut out);
        let writes = out.iter().any(|effect| matches!(effect, Effect::Append { .. }));
        if matches!(request, Request::OffsetCommit(_)) {
            match writes {
                true => drop(self.promised.insert(ticket, self.log.len() + 1)),
                false if self.shard.gathered_since().is_some() => self.gathered.push(ticket),
                false => {}
            }
        }
        if had && self.shard.gathered_since().is_none() {
            self.promise_gathered();
        }
        self.perform(out);
        if !self.gathers {
            self.release();
        }
        ticket
    }

    /// What the shard has gathered is written, as it is before any step that is no commit.
    pub(super) fn release(&mut self) {
        if self.shard.gathered_since().is_some() {
            self.promise_gathered();
            let mut out = Effects::new();
            self.shard.release(&mut out);
            self.perform(out);
        }
    }

    /// Each takes one record at least.
    fn promise_gathered(&mut self) {
        for (place, ticket) in self.gathered.drain(..).enumerate() {
            self.promised.insert(ticket, self.log.len() + place + 1);
        }
    }

    pub(super) fn perform(&mut self, mut out: Effects<Effect>) {
        let mut todo: VecDeque<Effect> = out.drain().collect();
        while let Some(effect) = todo.pop_front() {
            match effect {
                Effect::Append { records } => {
                    let result = match self.refuses {
                        Some(error) => Err(error),
                        None => {
                            self.log.extend(records.iter().cloned());
                            self.times.resize(self.log.len(), self.at().wall);
                            Ok(Offset(self.log.len() as i64))
                        }
                    };
                    let now = self.at();
                    self.shard.on_appended(now, result, &mut out);
                    todo.extend(out.drain());
                    if self.commits && !todo.iter().any(|it| matches!(it, Effect::Append { .. })) {
                        self.committed = self.log.len();
                        self.shard.on_committed(Offset(self.committed as i64), &mut out);
                        todo.extend(out.drain());
                    }
                }
                Effect::Reply { ticket, response } => self.note_reply(ticket, response),
                Effect::Count(count) => self.counts.push(count),
            }
        }
    }

    fn note_reply(&mut self, ticket: Ticket, response: Response) {
        if let Response::OffsetCommit(topics) = &response
            && topics.iter().flat_map(|topic| &topic.partitions).any(|(_, error)| error.is_none())
        {
            let promised = self.promised[&ticket];
            assert!(promised <= self.committed, "{ticket:?} was told before its commit was committed");
        }
        let before = self.replies.insert(ticket, response);
        assert_eq!(before, None, "{ticket:?} was answered twice");
    }

    /// What somebody was told, if it was.
    pub(super) fn told(&mut self, ticket: Ticket) -> Option<Response> {
        self.replies.remove(&ticket)
    }

    // Members.

    pub(super) fn join_in(&mut self, group: &str, client: &Client) -> Ticket {
        let protocols =
            client.protocols.iter().map(|(name, metadata)| JoinGroupRequestProtocol { name, metadata });
        let request = JoinGroupRequest {
            group_id: group,
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 60_000,
            member_id: &client.id,
            group_instance_id: client.instance,
            protocol_type: client.protocol_type,
            protocols: protocols.collect(),
            reason: None,
        };
        self.ask(client.version, &client.name, Request::JoinGroup(&request))
    }

    /// Asks to join, and comes back with the id if it is given one.
    pub(super) fn join(&mut self, client: &mut Client) -> Ticket {
        let ticket = self.join_in(GROUP, client);
        match self.replies.get(&ticket) {
            Some(Response::JoinGroup(it)) if it.error == ErrorCode::MemberIdRequired => {
                client.id = it.member_id.clone();
                self.join_in(GROUP, client)
            }
            _ => ticket,
        }
    }

    /// What a client was told that asked to join, in a line; it takes over its id and generation.
    pub(super) fn joined(&mut self, ticket: Ticket, client: &mut Client) -> String {
        let Some(response) = self.told(ticket) else { return "waits".into() };
        let Response::JoinGroup(joined) = response else { panic!("{response:?}") };
        if joined.error.is_none() {
            client.id = joined.member_id.clone();
            client.generation = joined.generation;
        }
        join_line(&joined)
    }

    pub(super) fn sync(&mut self, client: &Client, assignments: &[(&Client, &str)]) -> Ticket {
        let assignments = assignments.iter().map(|(client, assignment)| SyncGroupRequestAssignment {
            member_id: &client.id,
            assignment: assignment.as_bytes(),
        });
        let request = SyncGroupRequest {
            group_id: GROUP,
            generation_id: client.generation,
            member_id: &client.id,
            group_instance_id: client.instance,
            protocol_type: None,
            protocol_name: None,
            assignments: assignments.collect(),
        };
        self.ask(5, &client.name, Request::SyncGroup(&request))
    }

    /// What a client was told that asked for its assignment: the assignment or an error.
    pub(super) fn synced(&mut self, ticket: Ticket) -> String {
        let Some(response) = self.told(ticket) else { return "waits".into() };
        let Response::SyncGroup(synced) = response else { panic!("{response:?}") };
        match synced.error {
            ErrorCode::None => String::from_utf8(synced.assignment.to_vec()).expect("the story wrote it"),
            error => error.name().into(),
        }
    }

    pub(super) fn heartbeat(&mut self, client: &Client) -> ErrorCode {
        let request = HeartbeatRequest {
            group_id: GROUP,
            generation_id: client.generation,
            member_id: &client.id,
            group_instance_id: client.instance,
        };
        let ticket = self.ask(4, &client.name, Request::Heartbeat(&request));
        match self.told(ticket) {
            Some(Response::Heartbeat(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    /// Leaves by its id; what it was told.
    pub(super) fn leave(&mut self, client: &Client) -> ErrorCode {
        let ticket = self.ask_to_leave(client);
        match self.told(ticket) {
            Some(Response::LeaveGroup(left)) if left.error.is_none() => left.members[0].2,
            Some(Response::LeaveGroup(left)) => left.error,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn ask_to_leave(&mut self, client: &Client) -> Ticket {
        let member =
            MemberIdentity { member_id: &client.id, group_instance_id: client.instance, reason: None };
        let request = LeaveGroupRequest { group_id: GROUP, member_id: "", members: vec![member] };
        self.ask(5, &client.name, Request::LeaveGroup(&request))
    }

    /// All of them join, the first leads and gives each its own name.
    pub(super) fn settle(&mut self, clients: &mut [&mut Client]) {
        let tickets: Vec<Ticket> = clients.iter_mut().map(|client| self.join(client)).collect();
        self.pass_ms(3_000);
        for (ticket, client) in tickets.iter().zip(clients.iter_mut()) {
            let line = self.joined(*ticket, client);
            assert!(line.starts_with("generation"), "{line}");
        }
        let names: Vec<(Client, String)> =
            clients.iter().map(|client| ((**client).clone(), format!("part of {}", client.name))).collect();
        let shares: Vec<(&Client, &str)> = names.iter().map(|(client, name)| (client, &**name)).collect();
        let tickets: Vec<Ticket> = clients.iter().map(|client| self.sync(client, &shares)).collect();
        for (ticket, (_, name)) in tickets.into_iter().zip(&names) {
            assert_eq!(self.synced(ticket), *name);
        }
    }

    // Offsets.

    pub(super) fn commit_as(&mut self, client: &Client, at: &[(&str, i32, i64)]) -> Ticket {
        self.commit_in(GROUP, client, at)
    }

    pub(super) fn commit_in(&mut self, group: &str, client: &Client, at: &[(&str, i32, i64)]) -> Ticket {
        let topics = at.iter().map(|(topic, partition, offset)| OffsetCommitRequestTopic {
            name: topic,
            topic_id: Uuid::ZERO,
            partitions: vec![OffsetCommitRequestPartition {
                partition_index: *partition,
                committed_offset: *offset,
                committed_leader_epoch: 1,
                committed_metadata: Some(""),
            }],
        });
        let request = OffsetCommitRequest {
            group_id: group,
            generation_id_or_member_epoch: client.generation,
            member_id: &client.id,
            group_instance_id: client.instance,
            retention_time_ms: -1,
            topics: topics.collect(),
        };
        self.ask(9, &client.name, Request::OffsetCommit(&request))
    }

    /// The errors of a commit, partition by partition; `None` while it waits.
    pub(super) fn commit_told(&mut self, ticket: Ticket) -> Option<Vec<ErrorCode>> {
        let Response::OffsetCommit(topics) = self.told(ticket)? else { panic!("it was a commit") };
        Some(topics.iter().flat_map(|topic| &topic.partitions).map(|(_, error)| *error).collect())
    }

    pub(super) fn fetch(&mut self, topic: &str, partition: i32) -> Ticket {
        let name = topic;
        let topic =
            OffsetFetchRequestTopics { name, topic_id: Uuid::ZERO, partition_indexes: vec![partition] };
        let request = OffsetFetchRequestGroup {
            group_id: GROUP,
            member_id: None,
            member_epoch: -1,
            topics: Some(vec![topic]),
        };
        self.ask(9, "somebody", Request::OffsetFetch(&request))
    }

    /// How far the group came in a partition; -1 if it did not.
    pub(super) fn offset(&mut self, topic: &str, partition: i32) -> i64 {
        let ticket = self.fetch(topic, partition);
        let Some(Response::OffsetFetch(fetched)) = self.told(ticket) else { panic!("it waits") };
        assert_eq!(fetched.error, ErrorCode::None);
        fetched.topics[0].partitions[0].offset
    }

    /// State, generation's protocol, and who has what, as people are shown it.
    pub(super) fn describe(&mut self, group: &str) -> String {
        let ticket = self.ask(6, "somebody", Request::DescribeGroup(group));
        let Some(Response::DescribeGroup(it)) = self.told(ticket) else { panic!("it waits") };
        let members = it.members.iter().map(|member| {
            let assignment = String::from_utf8_lossy(&member.assignment);
            format!(" {}={assignment:?}", name_of(&member.member_id))
        });
        format!("{} {}{}", it.state, it.protocol, members.collect::<String>())
    }

    /// What a shard says that loads this log, and what this one says.
    pub(super) fn check_replay(&mut self) {
        let mut other = Self::new();
        other.log.clone_from(&self.log);
        other.times.clone_from(&self.times);
        other.committed = other.log.len();
        other.now = self.now;
        other.image = self.image.clone();
        other.load();
        assert_eq!(other.shard.offset_count(), self.shard.offset_count());
        let (loaded, mut lasting) = (other.shard.lasting(), self.shard.lasting());
        // What a rebalance on its way has changed is not written yet.
        for (id, (_, group)) in lasting.iter_mut().filter(|(_, (_, group))| group.is_none()) {
            *group = loaded.get(id).and_then(|(_, group)| group.clone());
        }
        assert_eq!(loaded, lasting);
    }
}

fn join_line(joined: &JoinedGroup) -> String {
    if !joined.error.is_none() {
        return joined.error.name().into();
    }
    let protocol = joined.protocol.as_deref().unwrap_or("none");
    let mut line = format!("generation {} {protocol} led by {}", joined.generation, name_of(&joined.leader));
    if !joined.members.is_empty() {
        let names: Vec<&str> = joined.members.iter().map(|member| name_of(&member.member_id)).collect();
        line += &format!(": {}", names.join(" "));
    }
    line + if joined.skip_assignment { ", which must not assign" } else { "" }
}

/// What comes before the UUID of a member's id.
pub(super) fn name_of(member_id: &str) -> &str {
    member_id.split_once('-').map_or(member_id, |(name, _)| name)
}
