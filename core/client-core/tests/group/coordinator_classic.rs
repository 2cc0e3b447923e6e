//! The classic protocol, from the coordinator's side.

use std::collections::{BTreeMap, BTreeSet};

use base::ErrorCode;
use wire::messages::heartbeat::HeartbeatRequest;
use wire::messages::join_group::{JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember};
use wire::messages::leave_group::LeaveGroupRequest;
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};

use super::coordinator::Reply;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Empty,
    Preparing,
    Completing,
    Stable,
}

#[derive(Debug)]
pub(crate) struct Member {
    /// Which of the world's members it is.
    pub(crate) whose: usize,
    pub(crate) instance_id: Option<String>,
    metadata: Vec<u8>,
    protocols: Vec<String>,
    session_ms: u64,
    pub(crate) dead_at_ms: u64,
    rebalance_ms: u64,
    join: Option<Reply>,
    sync: Option<Reply>,
    assignment: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Classic {
    pub(crate) state: State,
    pub(crate) generation: i32,
    pub(crate) members: BTreeMap<String, Member>,
    pending: BTreeSet<String>,
    leader: String,
    protocol: String,
    /// When those are thrown out that have not joined.
    prepared_by_ms: u64,
    id_next: u32,
    /// Answers that are due at once: who gets which.
    pub(crate) due: Vec<(Reply, Due)>,
    /// Whose members were thrown out.
    pub(crate) thrown_out: Vec<usize>,
    /// How often all met.
    pub(crate) rebalances: u32,
}

/// An answer in the making.
#[derive(Debug)]
pub(crate) enum Due {
    Joined {
        code: ErrorCode,
        generation: i32,
        protocol: String,
        leader: String,
        member: String,
        all: Vec<(String, Option<String>, Vec<u8>)>,
    },
    Synced {
        code: ErrorCode,
        assignment: Vec<u8>,
    },
}

impl Due {
    pub(crate) fn joined(&self) -> Option<JoinGroupResponse<'_>> {
        let Self::Joined { code, generation, protocol, leader, member, all } = self else { return None };
        let members = all.iter().map(|(id, instance, metadata)| JoinGroupResponseMember {
            member_id: id,
            group_instance_id: instance.as_deref(),
            metadata,
        });
        Some(JoinGroupResponse {
            error_code: code.code(),
            generation_id: *generation,
            protocol_type: Some("consumer"),
            protocol_name: Some(protocol),
            leader,
            member_id: member,
            members: members.collect(),
            ..JoinGroupResponse::default()
        })
    }

    pub(crate) fn synced(&self) -> Option<SyncGroupResponse<'_>> {
        let Self::Synced { code, assignment } = self else { return None };
        Some(SyncGroupResponse {
            error_code: code.code(),
            protocol_type: Some("consumer"),
            protocol_name: None,
            assignment,
            throttle_time_ms: 0,
        })
    }
}

fn names(said: &JoinGroupRequest<'_>) -> Vec<String> {
    said.protocols.iter().map(|it| it.name.to_owned()).collect()
}

fn refused_join(code: ErrorCode, member: &str) -> Due {
    Due::Joined {
        code,
        generation: -1,
        protocol: String::new(),
        leader: String::new(),
        member: member.to_owned(),
        all: Vec::new(),
    }
}

impl Classic {
    pub(crate) const fn is_completing(&self) -> bool {
        matches!(self.state, State::Completing)
    }

    pub(crate) fn join(&mut self, whose: usize, said: &JoinGroupRequest<'_>, reply: Reply, now_ms: u64) {
        let instance = said.group_instance_id.map(str::to_owned);
        let known = instance.as_ref().and_then(|instance| {
            let mut all = self.members.iter();
            all.find(|(_, it)| it.instance_id.as_ref() == Some(instance)).map(|(id, _)| id.clone())
        });
        let mut id = said.member_id.to_owned();
        if id.is_empty() {
            self.id_next += 1;
            id = format!("m{}", self.id_next);
            if instance.is_none() {
                self.pending.insert(id.clone());
                return self.due.push((reply, refused_join(ErrorCode::MemberIdRequired, &id)));
            }
        } else if known.as_ref().is_some_and(|known| *known != id) {
            return self.due.push((reply, refused_join(ErrorCode::FencedInstanceId, "")));
        } else if !self.pending.remove(&id) && !self.members.contains_key(&id) {
            return self.due.push((reply, refused_join(ErrorCode::UnknownMemberId, "")));
        }
        if let Some(known) = known.filter(|known| *known != id) {
            // It comes back under another id, and whoever had the old one is no member any more.
            let mut old = self.members.remove(&known).expect("it was found");
            self.thrown_out.push(old.whose);
            if self.state == State::Stable && old.protocols == names(said) {
                old.whose = whose;
                let (generation, protocol) = (self.generation, self.protocol.clone());
                if self.leader == known {
                    self.leader.clone_from(&id);
                }
                self.members.insert(id.clone(), old);
                let leader = if self.leader == id { "somebody else".to_owned() } else { self.leader.clone() };
                let due = Due::Joined {
                    code: ErrorCode::None,
                    generation,
                    protocol,
                    leader,
                    member: id,
                    all: Vec::new(),
                };
                return self.due.push((reply, due));
            }
        }
        let session_ms = said.session_timeout_ms as u64;
        let member = Member {
            whose,
            instance_id: instance,
            metadata: said.protocols[0].metadata.to_vec(),
            protocols: names(said),
            session_ms,
            dead_at_ms: now_ms + session_ms,
            rebalance_ms: said.rebalance_timeout_ms as u64,
            join: Some(reply),
            sync: None,
            assignment: Vec::new(),
        };
        self.members.insert(id, member);
        self.prepare(now_ms);
        self.meet(now_ms);
    }

    /// A JoinGroup without a member id that was long on its way: who has this name gets another id, of which only
    /// a connection hears that nobody listens to.
    pub(crate) fn join_late(&mut self, instance: &str) {
        let is_named = |it: &Member| it.instance_id.as_deref() == Some(instance);
        let id = self.members.iter().find(|(_, it)| is_named(it)).map(|(id, _)| id.clone());
        let id = id.expect("it is a member");
        let member = self.members.remove(&id).expect("it was found");
        self.id_next += 1;
        let next = format!("m{}", self.id_next);
        if self.leader == id {
            self.leader.clone_from(&next);
        }
        self.members.insert(next, member);
    }

    fn prepare(&mut self, now_ms: u64) {
        if self.state == State::Preparing {
            return;
        }
        self.state = State::Preparing;
        let longest = self.members.values().map(|it| it.rebalance_ms).max().unwrap_or(0);
        self.prepared_by_ms = now_ms + longest;
        for member in self.members.values_mut() {
            if let Some(reply) = member.sync.take() {
                let code = ErrorCode::RebalanceInProgress;
                self.due.push((reply, Due::Synced { code, assignment: Vec::new() }));
            }
        }
    }

    /// If all have come, they meet.
    fn meet(&mut self, now_ms: u64) {
        if self.state != State::Preparing || self.members.values().any(|it| it.join.is_none()) {
            return;
        }
        let Some(first) = self.members.keys().next().cloned() else {
            self.state = State::Empty;
            return;
        };
        self.rebalances += 1;
        self.generation += 1;
        if !self.members.contains_key(&self.leader) {
            self.leader = first;
        }
        let all = |name: &&String| self.members.values().all(|it| it.protocols.contains(*name));
        self.protocol = self.members[&self.leader].protocols.iter().find(all).expect("one in common").clone();
        self.state = State::Completing;
        let everybody: Vec<_> = self
            .members
            .iter()
            .map(|(id, it)| (id.clone(), it.instance_id.clone(), it.metadata.clone()))
            .collect();
        for (id, member) in &mut self.members {
            let reply = member.join.take().expect("all have come");
            member.dead_at_ms = now_ms + member.session_ms;
            let due = Due::Joined {
                code: ErrorCode::None,
                generation: self.generation,
                protocol: self.protocol.clone(),
                leader: self.leader.clone(),
                member: id.clone(),
                all: if *id == self.leader { everybody.clone() } else { Vec::new() },
            };
            self.due.push((reply, due));
        }
    }

    pub(crate) fn sync(&mut self, said: &SyncGroupRequest<'_>, reply: Reply, now_ms: u64) {
        let refuse = |code| Due::Synced { code, assignment: Vec::new() };
        let (state, generation, leader) = (self.state, self.generation, self.leader.clone());
        let Some(member) = self.members.get_mut(said.member_id) else {
            return self.due.push((reply, refuse(ErrorCode::UnknownMemberId)));
        };
        member.dead_at_ms = now_ms + member.session_ms;
        if said.generation_id != generation {
            return self.due.push((reply, refuse(ErrorCode::IllegalGeneration)));
        }
        match state {
            State::Stable => {
                let due = Due::Synced { code: ErrorCode::None, assignment: member.assignment.clone() };
                self.due.push((reply, due));
            }
            State::Completing => {
                member.sync = Some(reply);
                if said.member_id == leader {
                    self.complete(said);
                }
            }
            State::Empty | State::Preparing => {
                self.due.push((reply, refuse(ErrorCode::RebalanceInProgress)));
            }
        }
    }

    fn complete(&mut self, said: &SyncGroupRequest<'_>) {
        self.state = State::Stable;
        for (id, member) in &mut self.members {
            let own = said.assignments.iter().find(|it| it.member_id == id);
            member.assignment = own.map(|it| it.assignment.to_vec()).unwrap_or_default();
            if let Some(reply) = member.sync.take() {
                let due = Due::Synced { code: ErrorCode::None, assignment: member.assignment.clone() };
                self.due.push((reply, due));
            }
        }
    }

    pub(crate) fn heartbeat(&mut self, said: &HeartbeatRequest<'_>, now_ms: u64) -> ErrorCode {
        let (state, generation) = (self.state, self.generation);
        let is_named = |it: &Member| it.instance_id.as_deref() == said.group_instance_id;
        let is_anothers = said.group_instance_id.is_some() && self.members.values().any(is_named);
        let Some(member) = self.members.get_mut(said.member_id) else {
            return if is_anothers { ErrorCode::FencedInstanceId } else { ErrorCode::UnknownMemberId };
        };
        if said.generation_id != generation {
            return ErrorCode::IllegalGeneration;
        }
        member.dead_at_ms = now_ms + member.session_ms;
        if state == State::Preparing { ErrorCode::RebalanceInProgress } else { ErrorCode::None }
    }

    pub(crate) fn leave(&mut self, said: &LeaveGroupRequest<'_>, now_ms: u64) {
        for member in &said.members {
            if self.members.remove(member.member_id).is_some() {
                self.prepare(now_ms);
            }
        }
        self.meet(now_ms);
    }

    /// Throws out whoever was silent for too long, or keeps the others waiting.
    pub(crate) fn on_time(&mut self, now_ms: u64) {
        let is_late = self.state == State::Preparing && self.prepared_by_ms <= now_ms;
        let is_dead = |it: &Member| it.join.is_none() && (it.dead_at_ms <= now_ms || is_late);
        let dead: Vec<String> =
            self.members.iter().filter(|(_, it)| is_dead(it)).map(|(id, _)| id.clone()).collect();
        for id in &dead {
            let gone = self.members.remove(id).expect("it was found");
            self.thrown_out.push(gone.whose);
        }
        if !dead.is_empty() {
            self.prepare(now_ms);
            self.meet(now_ms);
        }
    }

    /// Another broker keeps the group: who waits for an answer of the old one is told so.
    pub(crate) fn forget_waiting(&mut self) {
        let code = ErrorCode::NotCoordinator;
        for member in self.members.values_mut() {
            if let Some(reply) = member.join.take() {
                self.due.push((reply, refused_join(code, "")));
            }
            if let Some(reply) = member.sync.take() {
                self.due.push((reply, Due::Synced { code, assignment: Vec::new() }));
            }
        }
    }
}
