//! The consumer protocol, from the coordinator's side: simply, and with what matters of Kafka's: a partition
//! is free only after the member that had it said that it has given it up.

use std::collections::{BTreeMap, BTreeSet};

use base::{ErrorCode, TopicPartition};
use wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;

pub(crate) const SESSION_MS: u64 = 45_000;
pub(crate) const INTERVAL_MS: i32 = 3_000;

#[derive(Debug, Default)]
pub(crate) struct Member {
    /// Which of the world's members it is.
    pub(crate) whose: usize,
    instance_id: Option<String>,
    pub(crate) epoch: i32,
    topics: BTreeSet<String>,
    pub(crate) regex: String,
    /// What it may own, and what it said it owns.
    given: BTreeSet<TopicPartition>,
    pub(crate) owned: BTreeSet<TopicPartition>,
    target: BTreeSet<TopicPartition>,
    /// What it was told last.
    told: Option<BTreeSet<TopicPartition>>,
    dead_at_ms: u64,
    has_left_for_a_while: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Epochs {
    pub(crate) epoch: i32,
    /// The epoch that the targets are of.
    pub(crate) assigned_epoch: i32,
    pub(crate) members: BTreeMap<String, Member>,
    pub(crate) thrown_out: Vec<usize>,
    /// What a heartbeat is refused with, once.
    pub(crate) refuse_next: Option<ErrorCode>,
}

/// What a heartbeat is answered: the epoch, and the assignment if it is said.
pub(crate) type Told = Result<(i32, Option<BTreeSet<TopicPartition>>), ErrorCode>;

impl Epochs {
    pub(crate) fn heartbeat(
        &mut self,
        whose: usize,
        said: &ConsumerGroupHeartbeatRequest<'_>,
        owned: Option<BTreeSet<TopicPartition>>,
        now_ms: u64,
    ) -> Told {
        if let Some(code) = self.refuse_next.take() {
            if code == ErrorCode::FencedMemberEpoch {
                self.throw_out(said.member_id);
            }
            return Err(code);
        }
        match said.member_epoch {
            -1 => {
                self.members.remove(said.member_id);
                self.assign_later();
                return Ok((-1, None));
            }
            -2 => {
                if let Some(member) = self.members.get_mut(said.member_id) {
                    member.has_left_for_a_while = true;
                }
                return Ok((-2, None));
            }
            0 => self.take_in(whose, said, owned.as_ref())?,
            _ => {}
        }
        if self.members.is_empty() {
            return Err(ErrorCode::GroupIdNotFound);
        }
        let Some(member) = self.members.get_mut(said.member_id) else {
            return Err(ErrorCode::UnknownMemberId);
        };
        if said.member_epoch != 0 && said.member_epoch != member.epoch {
            self.throw_out(said.member_id);
            return Err(ErrorCode::FencedMemberEpoch);
        }
        member.dead_at_ms = now_ms + SESSION_MS;
        let is_whole = said.rebalance_timeout_ms > 0;
        if let Some(topics) = &said.subscribed_topic_names {
            let topics: BTreeSet<String> = topics.iter().map(|&topic| topic.to_owned()).collect();
            if member.topics != topics {
                member.topics = topics;
                self.epoch += 1;
            }
        }
        let member = self.members.get_mut(said.member_id).expect("it was found");
        if let Some(regex) = said.subscribed_topic_regex
            && member.regex != regex
        {
            member.regex = regex.to_owned();
            self.epoch += 1;
        }
        let is_reported = owned.is_some();
        if let Some(owned) = owned {
            member.owned = owned;
        }
        Ok(self.reconcile(said.member_id, is_whole, is_reported))
    }

    fn take_in(
        &mut self,
        whose: usize,
        said: &ConsumerGroupHeartbeatRequest<'_>,
        owned: Option<&BTreeSet<TopicPartition>>,
    ) -> Result<(), ErrorCode> {
        let wants = said.subscribed_topic_names.is_some() || said.subscribed_topic_regex.is_some();
        if owned.is_none_or(|owned| !owned.is_empty()) || !wants || said.rebalance_timeout_ms <= 0 {
            return Err(ErrorCode::InvalidRequest);
        }
        let instance_id = said.instance_id.map(str::to_owned);
        let mut member = Member { whose, instance_id: instance_id.clone(), ..Member::default() };
        if let Some(instance) = instance_id {
            let mut all = self.members.iter();
            let old =
                all.find(|(_, it)| it.instance_id.as_ref() == Some(&instance)).map(|(id, _)| id.clone());
            if let Some(old) = old {
                if !self.members[&old].has_left_for_a_while && old != said.member_id {
                    return Err(ErrorCode::UnreleasedInstanceId);
                }
                let before = self.members.remove(&old).expect("it was found");
                (member.topics, member.target) = (before.topics, before.target);
                member.given = before.given;
            }
        }
        if let Some(before) = self.members.remove(said.member_id) {
            (member.topics, member.target, member.given) = (before.topics, before.target, before.given);
        } else if member.target.is_empty() {
            self.epoch += 1;
        }
        self.members.insert(said.member_id.to_owned(), member);
        Ok(())
    }

    fn assign_later(&mut self) {
        self.epoch += 1;
    }

    /// Computes the target of all: the partitions of each topic in turn to those who want it.
    pub(crate) fn assign(&mut self, partitions: &[TopicPartition], fits: impl Fn(&str, &str) -> bool) {
        self.assigned_epoch = self.epoch;
        for member in self.members.values_mut() {
            member.target.clear();
        }
        for (turn, part) in partitions.iter().enumerate() {
            let topic = part.topic.as_str();
            let wanting = self.members.values_mut();
            let mut wanting: Vec<&mut Member> = wanting
                .filter(|it| it.topics.contains(topic) || (!it.regex.is_empty() && fits(&it.regex, topic)))
                .collect();
            let heads = wanting.len();
            if heads > 0 {
                wanting[turn % heads].target.insert(part.clone());
            }
        }
    }

    /// Goes a step towards the target of a member.
    fn reconcile(
        &mut self,
        id: &str,
        is_whole: bool,
        is_reported: bool,
    ) -> (i32, Option<BTreeSet<TopicPartition>>) {
        let epoch = self.epoch;
        let others: BTreeSet<TopicPartition> = self
            .members
            .iter()
            .filter(|(other, _)| *other != id)
            .flat_map(|(_, it)| it.given.union(&it.owned))
            .cloned()
            .collect();
        let member = self.members.get_mut(id).expect("it is one");
        let keeps: BTreeSet<_> = member.given.intersection(&member.target).cloned().collect();
        // What it is to give up is free once it says that it does not have it, as with Kafka also if it was not told yet.
        let assigned = if keeps == member.given || (is_reported && member.owned.is_subset(&keeps)) {
            member.epoch = epoch;
            let free = member.target.iter().filter(|part| !others.contains(*part));
            member.given = free.cloned().collect();
            member.given.clone()
        } else {
            keeps
        };
        let is_news = is_whole || member.told.as_ref() != Some(&assigned);
        member.told = Some(assigned.clone());
        if member.epoch == 0 {
            member.epoch = epoch;
        }
        (member.epoch, is_news.then_some(assigned))
    }

    fn throw_out(&mut self, id: &str) {
        if let Some(gone) = self.members.remove(id) {
            self.thrown_out.push(gone.whose);
            self.epoch += 1;
        }
    }

    pub(crate) fn on_time(&mut self, now_ms: u64) {
        let dead = self.members.iter().filter(|(_, it)| it.dead_at_ms <= now_ms && it.dead_at_ms > 0);
        let dead: Vec<String> = dead.map(|(id, _)| id.clone()).collect();
        dead.iter().for_each(|id| self.throw_out(id));
    }
}
