//! A member of a group: `core/client-core`, and an owner that reads what it is told to, commits how far it came, and
//! now and then crashes, is paused, or leaves, and comes back.
//!
//! It does not read records: how far it came is a number that grows from what was committed on. Beside each it
//! writes what no other has.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use base::{Effects, LeaderEpoch, Offset, TopicName, TopicPartition};
use client_core::group::{
    Assignor, CommitId, Effect, GroupProtocol, GroupSettings, Membership, OffsetAndMetadata, Pattern,
    RevocationId, Subscription,
};
use client_core::{Address, Backoff, Chance, ConnectionId, LinksSettings, NetEffect};

use super::producer::{bytes_of, host};
use super::{ClientAct, at, place};
use crate::cluster::net::ConnId;
use crate::cluster::options::{GroupOptions, Protocol};
use crate::random::Random;

/// How long a commit may take.
const COMMIT_WAITS: Duration = Duration::from_secs(3);

/// How a member is set up.
#[derive(Debug, Clone)]
pub(crate) struct MemberOptions {
    pub(crate) client: usize,
    pub(crate) nodes: usize,
    pub(crate) topics: Vec<String>,
    pub(crate) instance_id: Option<String>,
    pub(crate) group: GroupOptions,
}

/// What comes in from the network.
enum Input {
    Connected(ConnId),
    Closed(ConnId),
    Frame(ConnId, Vec<u8>),
}

/// See the module.
pub(crate) struct GroupMember {
    options: MemberOptions,
    /// Counts processes.
    life: u32,
    /// `None` while its process does not run.
    membership: Option<Membership>,
    effects: Effects<Effect>,
    conns: BTreeSet<ConnId>,
    /// How far it came in what it reads.
    positions: BTreeMap<TopicPartition, i64>,
    /// What it is to give up, and when it will have.
    revoking: Option<(RevocationId, BTreeSet<TopicPartition>, u64)>,
    commits: BTreeSet<CommitId>,
    marks: u64,
    acts_at: u64,
    is_leaving: bool,
    /// When its process runs again.
    back_at: u64,
    /// Until when it is stopped, and what came meanwhile.
    paused_until: u64,
    inbox: VecDeque<Input>,
    /// Whether it crashes, is paused, and leaves.
    is_restless: bool,
    /// Whether it reads on.
    pub(crate) goes_on: bool,
    seed: u64,
    random: Random,
}

impl GroupMember {
    pub(crate) fn new(options: MemberOptions, seed: u64, mut random: Random) -> Self {
        let back_at = random.below(1_000_000);
        Self {
            options,
            life: 0,
            membership: None,
            effects: Effects::new(),
            conns: BTreeSet::new(),
            positions: BTreeMap::new(),
            revoking: None,
            commits: BTreeSet::new(),
            marks: 0,
            acts_at: 0,
            is_leaving: false,
            back_at,
            paused_until: 0,
            inbox: VecDeque::new(),
            is_restless: true,
            goes_on: true,
            seed,
            random,
        }
    }

    pub(crate) fn group(&self) -> &str {
        &self.options.group.name
    }

    /// What it believes to own.
    pub(crate) fn owned(&self) -> Option<&BTreeSet<TopicPartition>> {
        self.membership.as_ref().map(Membership::owned)
    }

    /// For how long a coordinator keeps its place at least since it heard of it, and since it wants something back.
    pub(crate) fn patience_us(&self) -> (u64, u64) {
        (self.options.group.session_us, self.options.group.rebalance_us)
    }

    /// Whether its coordinator may speak the new protocol.
    pub(crate) fn may_have_epochs(&self) -> bool {
        self.options.group.protocol != Protocol::Classic
    }

    /// What of it is still on its way.
    pub(crate) fn awaited(&self) -> Option<String> {
        let Some(membership) = &self.membership else { return Some("it does not run".to_owned()) };
        let unsaved = membership.unsaved(membership.owned());
        if !unsaved.is_empty() {
            return Some(format!("it has not committed {unsaved:?}"));
        }
        if !self.commits.is_empty() {
            return Some(format!("commits {:?} are not answered", self.commits));
        }
        self.revoking.as_ref().map(|(id, parts, at)| format!("it gives up {id:?} {parts:?} at {at}"))
    }

    /// It goes on from here without trouble.
    pub(crate) fn calm(&mut self, now_us: u64) {
        self.is_restless = false;
        self.paused_until = self.paused_until.min(now_us);
        self.back_at = self.back_at.min(now_us);
    }

    pub(crate) fn step(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        if now_us < self.paused_until {
            return acts.push(ClientAct::Wake(self.paused_until));
        }
        while let Some(input) = self.inbox.pop_front() {
            self.take_in(now_us, input, acts);
        }
        if self.membership.is_none() {
            if now_us < self.back_at {
                return acts.push(ClientAct::Wake(self.back_at));
            }
            self.begin(now_us, acts);
        }
        if now_us >= self.acts_at {
            self.acts_at = now_us + self.random.below(2 * self.options.group.commit_every_us) + 1;
            if self.is_restless && self.random.chance(self.options.group.restless_per_thousand) {
                self.act_up(now_us, acts);
            }
            self.read_on(now_us);
        }
        self.release(now_us);
        if let Some(membership) = &mut self.membership {
            membership.step(at(now_us), &mut self.effects);
        }
        self.perform(now_us, acts);
    }

    fn begin(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        // Whoever had its connections before is gone for good.
        self.hang_up(acts);
        self.life += 1;
        let chance = Chance::new(self.seed ^ u64::from(self.life) << 32);
        let bootstrap = (0..self.options.nodes).map(|node| Address { host: host(node).into(), port: 9092 });
        let settings = self.settings();
        let protocol = settings.protocol;
        let mut membership = Membership::new(settings, bootstrap.collect(), chance);
        membership.subscribe(self.subscription(), at(now_us));
        membership.on_polled(at(now_us));
        self.membership = Some(membership);
        let (life, group) = (self.life, self.group());
        acts.push(ClientAct::Say(format!("begins its life {life} in {group}: {protocol:?}")));
    }

    fn subscription(&self) -> Subscription {
        if self.options.group.has_pattern {
            return Subscription::Pattern(Pattern::new("topic-.*").expect("it is one"));
        }
        let topics = self.options.topics.iter().map(|topic| TopicName::new(topic).expect("a legal name"));
        Subscription::Topics(topics.collect())
    }

    /// What it speaks in this life.
    fn protocol(&mut self) -> GroupProtocol {
        match self.options.group.protocol {
            Protocol::Classic => GroupProtocol::Classic,
            Protocol::Consumer => GroupProtocol::Consumer,
            Protocol::Mixed => self.random.pick(&[GroupProtocol::Classic, GroupProtocol::Consumer]),
        }
    }

    fn settings(&mut self) -> GroupSettings {
        let protocol = self.protocol();
        let (millis, group) = (Duration::from_millis, &self.options.group);
        let session = Duration::from_micros(group.session_us);
        GroupSettings {
            instance_id: self.options.instance_id.as_deref().map(Into::into),
            protocol,
            assignors: match group.is_cooperative {
                true => vec![Assignor::CooperativeSticky],
                false => vec![Assignor::Range],
            },
            session_timeout: session,
            heartbeat_interval: session / 6,
            poll_interval_max: Duration::from_micros(group.rebalance_us),
            auto_commit: group.auto_commits.then_some(millis(200)),
            requires_stable: true,
            retry: Backoff { first: millis(20), max: millis(300) },
            metadata_age_max: millis(5_000),
            links: LinksSettings {
                request_timeout: millis(3_000),
                connect_timeout: millis(1_000),
                reconnect: Backoff { first: millis(20), max: millis(300) },
                ..LinksSettings::default()
            },
            ..GroupSettings::new(&group.name)
        }
    }

    /// Crashes, with a word of its machine's or without, is paused, or leaves in good order.
    fn act_up(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        let away_us = self.random.below(2 * self.options.group.session_us) + 10_000;
        match self.random.below(10) {
            0..=2 => self.crash(now_us + away_us, true, acts),
            3 => self.crash(now_us + away_us, false, acts),
            4..=6 => {
                acts.push(ClientAct::Say(format!("is paused for {away_us}")));
                self.paused_until = now_us + away_us;
            }
            _ => {
                acts.push(ClientAct::Say("leaves".to_owned()));
                self.is_leaving = true;
                self.back_at = now_us + away_us;
                self.positions.clear();
                self.revoking = None;
                if let Some(membership) = &mut self.membership {
                    membership.unsubscribe(at(now_us));
                }
            }
        }
    }

    pub(crate) fn crash(&mut self, back_at: u64, is_heard: bool, acts: &mut Vec<ClientAct>) {
        acts.push(ClientAct::Say(format!("crashes until {back_at}")));
        if is_heard {
            self.hang_up(acts);
        }
        self.end(back_at);
    }

    fn end(&mut self, back_at: u64) {
        (self.membership, self.revoking, self.back_at) = (None, None, back_at);
        self.effects = Effects::new();
        self.positions.clear();
        self.commits.clear();
        self.is_leaving = false;
    }

    fn hang_up(&mut self, acts: &mut Vec<ClientAct>) {
        acts.extend(std::mem::take(&mut self.conns).into_iter().map(ClientAct::Close));
    }

    /// Reads what it is to read, and commits how far it came.
    fn read_on(&mut self, now_us: u64) {
        let Some(membership) = self.membership.as_mut().filter(|_| !self.is_leaving) else { return };
        // It asks for more, and has it at once.
        membership.on_waiting(at(now_us));
        membership.on_given(at(now_us));
        if !self.goes_on {
            // What the last commit could not do is done by another, as whoever reads on has it.
            let is_due = !membership.commits_by_itself() && self.commits.is_empty();
            if is_due && !membership.unsaved(membership.owned()).is_empty() {
                self.commits.insert(membership.commit_read(at(now_us).elapsed + COMMIT_WAITS));
            }
            return;
        }
        for (of, position) in &mut self.positions {
            if self.revoking.as_ref().is_some_and(|(_, parts, _)| parts.contains(of)) {
                continue;
            }
            *position += self.random.between(0, 3) as i64;
            self.marks += 1;
            let mark = format!("{}.{}.{}", self.options.client, self.life, self.marks);
            let (offset, leader_epoch) = (Offset(*position), LeaderEpoch::NONE);
            membership.on_read(of, OffsetAndMetadata { offset, leader_epoch, metadata: mark.into() });
        }
        if !membership.commits_by_itself() {
            self.commits.insert(membership.commit_read(at(now_us).elapsed + COMMIT_WAITS));
        }
    }

    /// Gives up what it was told to, once it is done with that.
    fn release(&mut self, now_us: u64) {
        if let Some((id, parts, _)) = self.revoking.take_if(|(_, _, at)| *at <= now_us)
            && let Some(membership) = &mut self.membership
        {
            let offsets = membership.unsaved(&parts);
            self.positions.retain(|of, _| !parts.contains(of));
            membership.release(id, offsets, at(now_us));
        }
    }

    pub(crate) fn on_connected(&mut self, now_us: u64, conn: ConnId, acts: &mut Vec<ClientAct>) {
        self.inbox.push_back(Input::Connected(conn));
        self.step(now_us, acts);
    }

    pub(crate) fn on_closed(&mut self, now_us: u64, conn: ConnId, acts: &mut Vec<ClientAct>) {
        self.inbox.push_back(Input::Closed(conn));
        self.step(now_us, acts);
    }

    pub(crate) fn on_frame(&mut self, now_us: u64, conn: ConnId, frame: &[u8], acts: &mut Vec<ClientAct>) {
        self.inbox.push_back(Input::Frame(conn, frame.to_vec()));
        self.step(now_us, acts);
    }

    fn take_in(&mut self, now_us: u64, input: Input, acts: &mut Vec<ClientAct>) {
        let (Input::Connected(conn) | Input::Closed(conn) | Input::Frame(conn, _)) = &input;
        let (conn, now) = (*conn, at(now_us));
        if let Input::Closed(_) = &input {
            self.conns.remove(&conn);
        }
        let is_ours = conn.number >> 32 == u64::from(self.life);
        let Some(membership) = self.membership.as_mut().filter(|_| is_ours) else { return };
        let connection = ConnectionId(Membership::CONNECTIONS_FROM.0 + (conn.number & u64::from(u32::MAX)));
        match input {
            Input::Connected(_) => membership.on_connected(connection, now, &mut self.effects),
            Input::Closed(_) => membership.on_closed(connection, now, &mut self.effects),
            Input::Frame(_, frame) => membership.on_frame(connection, &frame, now, &mut self.effects),
        }
        self.perform(now_us, acts);
    }

    fn perform(&mut self, now_us: u64, acts: &mut Vec<ClientAct>) {
        for effect in self.effects.drain().collect::<Vec<_>>() {
            self.perform_one(now_us, effect, acts);
        }
        let Some(membership) = &self.membership else {
            return acts.push(ClientAct::Wake(self.back_at.max(now_us + 1)));
        };
        if self.is_leaving && membership.has_left() {
            self.hang_up(acts);
            self.end(self.back_at.max(now_us));
            return acts.push(ClientAct::Wake(self.back_at.max(now_us + 1)));
        }
        let due = membership.deadline(at(now_us)).map(|due| due.as_micros() as u64 + 1);
        let released = self.revoking.as_ref().map(|(_, _, at)| *at);
        if let Some(due) = due.into_iter().chain(released).chain([self.acts_at]).min() {
            acts.push(ClientAct::Wake(due.max(now_us + 1)));
        }
    }

    fn perform_one(&mut self, now_us: u64, effect: Effect, acts: &mut Vec<ClientAct>) {
        match effect {
            Effect::Net(effect) => self.perform_net(effect, acts),
            Effect::Assigned(found) => {
                acts.push(ClientAct::Say(format!("owns {}", words(found.keys()))));
                for (of, committed) in found {
                    self.positions.insert(of, committed.map_or(0, |committed| committed.offset.0));
                }
            }
            Effect::Revoking { id, partitions } => {
                acts.push(ClientAct::Say(format!("gives up {}", words(partitions.iter()))));
                let at = now_us + self.random.below(100_000);
                self.revoking = Some((id, partitions, at));
            }
            Effect::Lost(partitions) => {
                acts.push(ClientAct::Say(format!("loses {}", words(partitions.iter()))));
                if let Some(membership) = &mut self.membership {
                    membership.on_loss_heard(&partitions);
                }
                self.positions.retain(|of, _| !partitions.contains(of));
                self.revoking = None;
            }
            Effect::Committed { id, result } => {
                self.commits.remove(&id);
                if let Err(why) = result {
                    acts.push(ClientAct::Hum(format!("has not committed: {why}")));
                }
            }
            Effect::Fetched { .. } => {}
            Effect::Failed(why) => {
                acts.push(ClientAct::Say(format!("cannot be a member: {why}")));
                self.crash(now_us + 200_000, true, acts);
            }
        }
    }

    fn perform_net(&mut self, effect: NetEffect, acts: &mut Vec<ClientAct>) {
        let (client, life) = (self.options.client, u64::from(self.life));
        let of = |connection: ConnectionId| ConnId {
            owner: place(client),
            number: life << 32 | (connection.0 - Membership::CONNECTIONS_FROM.0),
        };
        match effect {
            NetEffect::Connect { connection, address } => {
                let node = address.host.strip_prefix("node-").and_then(|node| node.parse().ok());
                let to = node.expect("nodes are called so");
                self.conns.insert(of(connection));
                acts.push(ClientAct::Connect { conn: of(connection), to });
            }
            NetEffect::Send { connection, outgoing } => {
                acts.push(ClientAct::Send { conn: of(connection), frame: bytes_of(&outgoing) });
            }
            NetEffect::Close { connection } => {
                self.conns.remove(&of(connection));
                acts.push(ClientAct::Close(of(connection)));
            }
        }
    }
}

fn words<'a>(parts: impl Iterator<Item = &'a TopicPartition>) -> String {
    parts.map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
