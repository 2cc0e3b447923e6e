//! Members of groups and those who ask how far they came: what they and coordinators say to each other is overheard,
//! so that what they are told can be compared with what is true.

use std::collections::{BTreeMap, BTreeSet};

use base::{LeaderEpoch, Offset, PartitionIndex, TopicId, TopicName, TopicPartition};
use broker::groups::{OFFSETS_TOPIC, partition_of};
use coordinator::Shard;
use wire::messages::consumer_group_heartbeat::{
    Assignment, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
};
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use wire::messages::join_group::JoinGroupRequest;
use wire::messages::offset_commit::{OffsetCommitRequest, OffsetCommitResponse};
use wire::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchResponse};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};
use wire::{ApiKey, DecodeError, Decoder, Message};

use super::{Event, World};
use crate::cluster::client::Client;
use crate::cluster::client::auditor::Auditor;
use crate::cluster::client::member::{GroupMember, MemberOptions};
use crate::cluster::client::producer::Target;
use crate::cluster::groups::{Mark, Place};
use crate::cluster::invariants::{i11_commits, i11_one_owner, i11_shards};
use crate::cluster::net::{ConnId, Place as NetPlace};
use crate::cluster::process::{PartitionKey, Process};
use crate::cluster::quorum::node_of;
use crate::random::Random;

/// What is on its way to coordinators, and what their answers promised.
#[derive(Debug, Default)]
pub(crate) struct Overheard {
    asked: BTreeMap<(ConnId, i32), Asked>,
    /// What each member has a right to.
    rights: BTreeMap<usize, Rights>,
    /// When each group was last told how far it came, as of when that was asked.
    pub(crate) told: BTreeMap<String, u64>,
}

/// What a member may believe to be its own.
#[derive(Debug, Default)]
struct Rights {
    /// What it was assigned last.
    assigned: BTreeSet<TopicPartition>,
    /// Until when it has a right to each, in microseconds.
    until: BTreeMap<TopicPartition, u64>,
    /// When it asked what was last answered with yes.
    heard_us: u64,
    /// When it asked to join last.
    joined_us: u64,
    /// Since when its coordinator may have waited for what it has to give back.
    awaited_us: Option<u64>,
}

impl Rights {
    /// It was heard of: what it was assigned is its own for longer, as is what it has not given up yet. `had` is what
    /// it had when it asked at `at_us`; `patience_us` for how long it may be silent, and may take to give back.
    fn extend(
        &mut self,
        (now_us, at_us): (u64, u64),
        (had, owned): (&BTreeSet<TopicPartition>, &BTreeSet<TopicPartition>),
        (session_us, rebalance_us): (u64, u64),
    ) {
        // Nothing was awaited when the coordinator said yes before; since then it may be.
        self.awaited_us = match had.is_subset(&self.assigned) {
            true => None,
            false => self.awaited_us.or(Some(self.heard_us)),
        };
        self.heard_us = at_us;
        let until_us = (at_us + session_us).min(self.awaited_us.unwrap_or(at_us) + rebalance_us);
        self.until.retain(|part, until| *until > now_us && owned.contains(part));
        self.until.extend(self.assigned.iter().map(|part| (part.clone(), 0)));
        self.until.values_mut().for_each(|until| *until = until_us.max(*until));
    }
}

/// Something that a coordinator was asked.
#[derive(Debug)]
struct Asked {
    at_us: u64,
    node: usize,
    group: String,
    /// The epoch in which the node led by then, if nobody else did since it began to, and it had read its log: until
    /// it has, it takes whoever says to be alive for a member.
    reign: Option<LeaderEpoch>,
    /// Up to where the log was committed by then.
    committed: Offset,
    about: About,
}

#[derive(Debug)]
enum About {
    /// That it is there, and what it had by then.
    Presence(ApiKey, i16, BTreeSet<TopicPartition>),
    Commit {
        version: i16,
        /// The member, and its generation or epoch.
        sender: (String, i32),
        marks: Vec<(Place, Mark)>,
    },
    Fetch(i16),
}

impl World {
    /// The members of groups, and those who ask how far they came.
    pub(super) fn begin_groups(&mut self, targets: &[Target]) {
        let topics: Vec<String> = targets.iter().map(|target| target.name.clone()).collect();
        for (group_number, group) in self.options.groups.clone().into_iter().enumerate() {
            for number in 0..group.members {
                let options = MemberOptions {
                    client: self.clients.len(),
                    nodes: self.options.nodes,
                    topics: topics.clone(),
                    instance_id: group.is_static.then(|| format!("i{number}")),
                    group: group.clone(),
                };
                let name = format!("member {number} of {}", group.name);
                let seed = self.seed ^ (group_number * 100 + number + 1) as u64;
                let member = GroupMember::new(options, seed, Random::stream(self.seed, &name));
                self.add_client(Client::Member(Box::new(member)));
            }
        }
        let groups: Vec<String> = self.options.groups.iter().map(|group| group.name.clone()).collect();
        for number in 0..self.options.auditors {
            let random = Random::stream(self.seed, &format!("auditor {number}"));
            let parts = targets.iter().map(|target| (target.name.clone(), target.partitions)).collect();
            let auditor = Auditor::new(self.clients.len(), self.options.nodes, groups.clone(), parts, random);
            self.add_client(Client::Auditor(auditor));
        }
    }

    /// The partition that keeps a group.
    pub(crate) fn keeper_of(&self, group: &str) -> Option<PartitionKey> {
        let image = self.quorum.image();
        let topic = image.topic(OFFSETS_TOPIC)?;
        Some((topic.id, partition_of(group, topic.partitions().len())))
    }

    /// A client asks something.
    pub(super) fn overhear(&mut self, conn: ConnId, frame: &[u8]) {
        let Some(NetPlace::Node(node)) = self.net.conns.get(&conn).map(|it| it.to) else { return };
        let Ok((header, body)) = wire::decode_request_header(frame) else { return };
        let Some(api) = ApiKey::from_i16(header.api_key) else { return };
        let Some((group, mut about)) = read_request(api, header.api_version, body) else { return };
        let Some(key) = self.keeper_of(&group) else { return };
        match &mut about {
            About::Presence(_, _, had) => *had = self.owned_by(conn.owner),
            About::Commit { sender, marks, .. } => {
                marks.iter().for_each(|(_, mark)| self.truth.groups.on_sent(&mark.name, sender.clone()));
            }
            About::Fetch(_) => {}
        }
        let Some(history) = self.truth.histories.get(&key) else { return };
        let led = history.reigns.iter().rev().find(|(_, reign)| reign.node == node).map(|(epoch, _)| *epoch);
        let reign = led.filter(|epoch| history.is_latest(*epoch) && self.has_read(node, key, *epoch));
        let (at_us, committed) = (self.now_us, history.end);
        let asked = Asked { at_us, node, group, reign, committed, about };
        self.overheard.asked.insert((conn, header.correlation_id), asked);
    }

    /// Whether a node coordinates the groups of a partition as its leader of this epoch.
    fn has_read(&self, node: usize, key: PartitionKey, epoch: LeaderEpoch) -> bool {
        let mut shards = self.nodes[node].process.iter().flat_map(Process::shards);
        shards.any(|it| it.index() == key.1 && it.epoch == epoch && it.with(Shard::is_active))
    }

    /// A client is answered.
    pub(super) fn overhear_answer(&mut self, client: usize, conn: ConnId, frame: &[u8]) {
        let Some(number) = frame.first_chunk().map(|bytes| i32::from_be_bytes(*bytes)) else { return };
        let Some(asked) = self.overheard.asked.remove(&(conn, number)) else { return };
        match &asked.about {
            About::Presence(ApiKey::JoinGroup, _, _) => {
                self.overheard.rights.entry(client).or_default().joined_us = asked.at_us;
            }
            About::Presence(api, version, had) => {
                if let Some(assigned) = self.read_yes(frame, *api, *version) {
                    self.grant(client, &asked, (*api, had), assigned);
                }
            }
            About::Commit { version, marks, .. } => self.on_commit_answered(frame, *version, &asked, marks),
            About::Fetch(version) => self.on_told(frame, *version, &asked),
        }
    }

    /// What a member believes to own.
    fn owned_by(&self, place: NetPlace) -> BTreeSet<TopicPartition> {
        let NetPlace::Client(client) = place else { return BTreeSet::new() };
        let Client::Member(member) = &self.clients[client] else { return BTreeSet::new() };
        member.owned().cloned().unwrap_or_default()
    }

    /// A coordinator knew a member when it sent this, or later, and assigned these to it, if it said so.
    fn grant(
        &mut self,
        client: usize,
        asked: &Asked,
        (api, had): (ApiKey, &BTreeSet<TopicPartition>),
        assigned: Option<BTreeSet<TopicPartition>>,
    ) {
        let owned = self.owned_by(NetPlace::Client(client));
        // One that began anew before the question arrived says yes to every heartbeat, and to nothing else.
        let key = self.keeper_of(&asked.group);
        let is_same = |(key, epoch)| api != ApiKey::Heartbeat || self.has_read(asked.node, key, epoch);
        let knows_members = key.zip(asked.reign).is_some_and(is_same);
        let fastest = (0..self.nodes.len()).map(|node| self.pace(node)).max().unwrap_or(1000);
        let Client::Member(member) = &self.clients[client] else { return };
        // The coordinator's clock decides, and whoever coordinates next may have the fastest of all.
        let (session_us, rebalance_us) = member.patience_us();
        let patience_us = (session_us * 1000 / fastest, rebalance_us * 1000 / fastest);
        let rights = self.overheard.rights.entry(client).or_default();
        if let Some(assigned) = assigned {
            rights.assigned = assigned;
        }
        // In a group of the new protocol, it is when it joins that a member is heard, not when it asks what it gets.
        let is_heard_before = api == ApiKey::SyncGroup && member.may_have_epochs();
        let at_us = if is_heard_before { rights.joined_us } else { asked.at_us };
        if knows_members {
            rights.extend((self.now_us, at_us), (had, &owned), patience_us);
        }
    }

    /// Whether a member is told that it is one; and what it is assigned, if that is said.
    fn read_yes(&self, frame: &[u8], api: ApiKey, version: i16) -> Option<Option<BTreeSet<TopicPartition>>> {
        match api {
            ApiKey::Heartbeat => {
                let said = read_answer::<HeartbeatResponse>(frame, api, version)?;
                (said.error_code == 0).then_some(None)
            }
            ApiKey::SyncGroup => {
                let said = read_answer::<SyncGroupResponse<'_>>(frame, api, version)?;
                (said.error_code == 0).then(|| assignment(said.assignment).ok())
            }
            _ => {
                let said = read_answer::<ConsumerGroupHeartbeatResponse<'_>>(frame, api, version)?;
                let image = self.quorum.image();
                let named = |assigned: Assignment| {
                    let of = |part: ConsumerGroupHeartbeatResponseTopicPartitions| {
                        let topic = image.topic_by_id(TopicId(part.topic_id)).map(|topic| topic.name.clone());
                        let parts = part.partitions.into_iter().map(PartitionIndex);
                        topic.into_iter().flat_map(move |topic| {
                            let of = |partition| TopicPartition { topic: topic.clone(), partition };
                            parts.clone().map(of).collect::<Vec<_>>()
                        })
                    };
                    assigned.topic_partitions.into_iter().flat_map(of).collect()
                };
                (said.error_code == 0).then(|| said.assignment.map(named))
            }
        }
    }

    fn on_commit_answered(&mut self, frame: &[u8], version: i16, asked: &Asked, marks: &[(Place, Mark)]) {
        let Some(said) = read_answer::<OffsetCommitResponse<'_>>(frame, ApiKey::OffsetCommit, version) else {
            return;
        };
        let mut acked = 0;
        for topic in &said.topics {
            for part in topic.partitions.iter().filter(|part| part.error_code == 0) {
                let place = (asked.group.clone(), topic.name.to_owned(), part.partition_index);
                if let Some((_, mark)) = marks.iter().find(|(of, _)| *of == place) {
                    i11_commits::check_acked(&place, mark, &self.truth.groups, &mut self.found);
                    acked += 1;
                }
            }
        }
        *self.truth.groups.acked.entry(asked.group.clone()).or_default() += acked;
    }

    fn on_told(&mut self, frame: &[u8], version: i16, asked: &Asked) {
        let Some(said) = read_answer::<OffsetFetchResponse<'_>>(frame, ApiKey::OffsetFetch, version) else {
            return;
        };
        let Self { truth, found, overheard, .. } = self;
        for group in said.groups.iter().filter(|group| group.error_code == 0) {
            let parts =
                group.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |it| (topic, it)));
            for (topic, part) in parts.filter(|(_, part)| part.error_code == 0) {
                let place = (group.group_id.to_owned(), topic.name.to_owned(), part.partition_index);
                let name = part.metadata.unwrap_or_default().to_owned();
                let mark =
                    (part.committed_offset >= 0).then_some(Mark { offset: part.committed_offset, name });
                let told = (mark.as_ref(), asked.committed);
                i11_commits::check_told(&place, asked.node, told, &truth.groups, found);
            }
            let told = overheard.told.entry(asked.group.clone()).or_default();
            *told = asked.at_us.max(*told);
        }
    }

    /// After a member was stepped: what each of its group owns.
    pub(super) fn look_at_owners(&mut self, client: usize) {
        let Self { clients, overheard, now_us, found, .. } = self;
        let Client::Member(stepped) = &clients[client] else { return };
        let has_right = |client: usize, part: &TopicPartition| {
            let rights = overheard.rights.get(&client);
            rights.and_then(|rights| rights.until.get(part)).is_some_and(|until| until > now_us)
        };
        let owned = clients.iter().enumerate().filter_map(|(number, client)| match client {
            Client::Member(member) if member.group() == stepped.group() => Some((number, member.owned()?)),
            _ => None,
        });
        let parts = owned.flat_map(|(number, parts)| parts.iter().map(move |part| (number, part)));
        i11_one_owner::check(stepped.group(), parts.filter(|(number, part)| has_right(*number, part)), found);
    }

    /// After a process was stepped.
    pub(super) fn look_at_shards(&mut self, node: usize) {
        if let Some(process) = &self.nodes[node].process {
            i11_shards::check(process, &mut self.found);
        }
    }

    /// A process compacts.
    pub(super) fn compact(&mut self, node: usize, life: u32) {
        let draw = self.compactions.index(1 << 16);
        if self.nodes[node].process.as_ref().is_some_and(|process| process.life == life) {
            self.step(node, life, |process, now| process.compact(now, draw));
            self.compact_later(node);
        }
    }

    /// Members come back, and stay.
    pub(crate) fn calm_members(&mut self) {
        for (number, client) in self.clients.iter_mut().enumerate() {
            if let Client::Member(member) = client {
                member.calm(self.now_us);
                self.wakes[number] = self.now_us;
                self.queue.push(self.now_us, Event::Client(number));
            }
        }
    }

    /// Members read no more, and so commit no more once that is done.
    pub(crate) fn end_reading(&mut self) {
        for client in &mut self.clients {
            if let Client::Member(member) = client {
                member.goes_on = false;
            }
        }
    }

    /// Why a group does not go on although a majority is well. `acked` is how many commits were acknowledged before.
    pub(crate) fn groups_stuck_in(&self, core: &[usize], acked: &BTreeMap<String, u64>) -> Option<String> {
        let image = self.quorum.image();
        let is_core = |id: &&base::BrokerId| **id != base::BrokerId::NONE && core.contains(&node_of(**id));
        for group in self.options.groups.iter().map(|group| &group.name) {
            let Some(key) = self.keeper_of(group) else { continue };
            let (Some(kept), Some(history)) = (image.partition(key.0, key.1), self.truth.histories.get(&key))
            else {
                continue;
            };
            let is_good = |id: &&base::BrokerId| {
                let process = self.nodes[node_of(**id)].process.as_ref();
                is_core(id) && process.is_some_and(|process| !process.needs_repair())
            };
            let able = kept.replicas.iter().filter(is_good).count();
            // A log that rotted is kept, and served by nobody, until one that has its records can lead.
            let has_records = |id: &&base::BrokerId| is_good(id) && !self.is_rotten(node_of(**id), key);
            let is_readable = kept.isr.iter().chain(kept.eligible()).any(|id| has_records(&id));
            let is_led = is_core(&&kept.leader) && able >= history.isr_min && is_readable;
            let acks = |acked: &BTreeMap<String, u64>| acked.get(group).copied().unwrap_or(0);
            if is_led && acks(&self.truth.groups.acked) <= acks(acked) {
                return Some(format!("nothing is committed in {group}: {kept:?}"));
            }
        }
        None
    }

    /// Whether somebody can coordinate a group in the end: where nobody may lead the partition that keeps it, its
    /// members wait for as long as nobody asks for an unclean election.
    fn is_group_kept(&self, group: &str) -> bool {
        let Some(key) = self.keeper_of(group) else { return true };
        let image = self.quorum.image();
        let (Some(partition), Some(history)) =
            (image.partition(key.0, key.1), self.truth.histories.get(&key))
        else {
            return true;
        };
        self.is_kept(history, key, partition)
    }

    /// What is not well with the groups: each partition has an owner, all that was read is committed, and who asked
    /// since `quiet_us` was told.
    pub(crate) fn groups_unwell(&self, quiet_us: Option<u64>) -> Option<String> {
        for group in self.options.groups.iter().filter(|group| self.is_group_kept(&group.name)) {
            let mut owned = 0;
            for (number, client) in self.clients.iter().enumerate() {
                let Client::Member(member) = client else { continue };
                if *member.group() != *group.name {
                    continue;
                }
                if let Some(awaited) = member.awaited() {
                    return Some(format!(
                        "client {number} of {} has not come to rest: {awaited}",
                        group.name
                    ));
                }
                owned += member.owned().map_or(0, BTreeSet::len);
            }
            let parts: i32 = self.targets().iter().map(|target| target.partitions).sum();
            if group.members > 0 && owned != parts as usize {
                return Some(format!("{owned} of {parts} partitions have an owner in {}", group.name));
            }
            let told = self.overheard.told.get(&group.name).copied().unwrap_or(0);
            if self.options.auditors > 0 && quiet_us.is_some_and(|quiet| told <= quiet) {
                return Some(format!("nobody is told how far {} came", group.name));
            }
        }
        None
    }
}

fn read_request(api: ApiKey, version: i16, mut body: Decoder<'_>) -> Option<(String, About)> {
    let presence = |group: &str| (group.to_owned(), About::Presence(api, version, BTreeSet::new()));
    match api {
        ApiKey::JoinGroup => Some(presence(JoinGroupRequest::decode(&mut body, version).ok()?.group_id)),
        ApiKey::Heartbeat => Some(presence(HeartbeatRequest::decode(&mut body, version).ok()?.group_id)),
        ApiKey::SyncGroup => Some(presence(SyncGroupRequest::decode(&mut body, version).ok()?.group_id)),
        ApiKey::ConsumerGroupHeartbeat => {
            Some(presence(ConsumerGroupHeartbeatRequest::decode(&mut body, version).ok()?.group_id))
        }
        ApiKey::OffsetCommit => {
            let request = OffsetCommitRequest::decode(&mut body, version).ok()?;
            let sender = (request.member_id.to_owned(), request.generation_id_or_member_epoch);
            let about = About::Commit { version, sender, marks: marks(&request) };
            Some((request.group_id.to_owned(), about))
        }
        ApiKey::OffsetFetch => {
            let request = OffsetFetchRequest::decode(&mut body, version).ok()?;
            let group = request.groups.first().map_or(request.group_id, |group| group.group_id);
            Some((group.to_owned(), About::Fetch(version)))
        }
        _ => None,
    }
}

fn marks(request: &OffsetCommitRequest<'_>) -> Vec<(Place, Mark)> {
    let parts =
        request.topics.iter().flat_map(|topic| topic.partitions.iter().map(move |it| (topic.name, it)));
    let mark = |(topic, part): (&str, &wire::messages::offset_commit::OffsetCommitRequestPartition<'_>)| {
        let place = (request.group_id.to_owned(), topic.to_owned(), part.partition_index);
        let name = part.committed_metadata.unwrap_or_default().to_owned();
        (place, Mark { offset: part.committed_offset, name })
    };
    parts.map(mark).collect()
}

/// What SyncGroup says to a consumer: version, then of each topic its partitions.
fn assignment(bytes: &[u8]) -> Result<BTreeSet<TopicPartition>, DecodeError> {
    let (mut d, mut found) = (Decoder::new(bytes), BTreeSet::new());
    d.i16()?;
    for _ in 0..d.i32()? {
        let topic = TopicName::new(d.str(false)?).expect("it was subscribed");
        for _ in 0..d.i32()? {
            found.insert(TopicPartition { topic: topic.clone(), partition: PartitionIndex(d.i32()?) });
        }
    }
    Ok(found)
}

fn read_answer<'f, M: Message<'f>>(frame: &'f [u8], api: ApiKey, version: i16) -> Option<M> {
    let (_, mut body) = wire::decode_response_header(frame, api, version).ok()?;
    M::decode(&mut body, version).ok()
}
