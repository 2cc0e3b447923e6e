//! Commands on their way to the active controller, wherever it is, and what comes back.
//!
//! One connection at a time, to the node whose controller is active as the quorum said last. What got no
//! answer may have been carried out or not: whoever gave it is told that nobody knows, and gives it again.

use std::collections::BTreeMap;
use std::time::Duration;

use base::{BrokerId, Now, Offset};
use broker::lifecycle::Answer;
use controller::{AlterPartition, AlterPartitions, Command, CommandId, ControllerError, Reply};
use replica::{AlterIsr, IsrAnswer};
use wire::cluster::{ClusterRequest, decode_answer, encode_answer};

use super::{Act, PartitionKey, Process};
use crate::cluster::net::{ConnId, Place, Purpose};
use crate::cluster::plant::Plant;
use crate::cluster::quorum::node_of;

/// What a command came to, the end of the metadata that has it, and how long before who decided was certain to lead
/// the quorum.
type Decision = (Result<Reply, ControllerError>, Offset, Option<Duration>);

/// Who gave a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    Lifecycle,
    Proposals,
    Placing,
    /// A request that waits at the end of this connection's queue.
    Request(ConnId),
    /// Another node, by its own number.
    Remote(ConnId, i32),
    Nobody,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    next: u64,
    asked: BTreeMap<u64, Asker>,
    /// Of what another node answered, how long before it was certain to lead the quorum.
    sure: BTreeMap<u64, Option<Duration>>,
    link: Option<Link>,
}

#[derive(Debug)]
struct Link {
    to: BrokerId,
    conn: ConnId,
    is_open: bool,
    /// Frames that wait for it to open.
    waiting: Vec<Vec<u8>>,
    /// What is awaited over it, by its number, and since when.
    awaited: BTreeMap<i32, (u64, Duration)>,
}

impl Process {
    /// Gives a command to the active controller.
    pub(super) fn give(&mut self, now: Now, asker: Asker, command: &Command) {
        self.commands.next += 1;
        let id = self.commands.next;
        self.commands.asked.insert(id, asker);
        if self.controller.is_active() {
            return self.controller.on_command(now, CommandId(id), command, &mut self.decided);
        }
        match self.active.filter(|active| *active != self.id) {
            Some(active) => self.send_command(now, active, id, command),
            None => self.fail_command(id, None),
        }
    }

    /// Somebody gives a command and does not wait for the answer.
    pub(crate) fn ask(&mut self, now: Now, command: &Command) {
        self.give(now, Asker::Nobody, command);
        self.settle(now);
    }

    fn fail_command(&mut self, id: u64, active: Option<BrokerId>) {
        let result = Err(ControllerError::NotController { active });
        let end = self.image.end();
        self.decided.push(controller::Effect::Answer { id: CommandId(id), result, end });
    }

    fn send_command(&mut self, now: Now, to: BrokerId, id: u64, command: &Command) {
        if self.commands.link.as_ref().is_none_or(|link| link.to != to) {
            self.drop_control_link(now);
            let conn = self.new_conn();
            let to_node = Place::Node(node_of(to));
            self.acts.push_back(Act::Connect { conn, to: to_node, purpose: Purpose::Control });
            let link = Link { to, conn, is_open: false, waiting: Vec::new(), awaited: BTreeMap::new() };
            self.commands.link = Some(link);
        }
        let correlation_id = i32::try_from(id).expect("a process gives few commands");
        let body = serde_json::to_vec(command).expect("commands can be said");
        let frame = ClusterRequest::Command(&body).encode(correlation_id).expect("it is small");
        let link = self.commands.link.as_mut().expect("it was made");
        link.awaited.insert(correlation_id, (id, now.elapsed));
        let (conn, frame) = (link.conn, frame[4..].to_vec());
        match link.is_open {
            true => self.acts.push_back(Act::Send { conn, frame }),
            false => link.waiting.push(frame),
        }
    }

    /// Another node gives a command.
    pub(super) fn on_remote_command(&mut self, now: Now, conn: ConnId, frame: &[u8]) {
        let Ok((correlation_id, ClusterRequest::Command(body))) = ClusterRequest::decode(frame) else {
            return self.acts.push_back(Act::Close(conn));
        };
        let mut command: Command = serde_json::from_slice(body).expect("nodes speak the same language");
        if self.plant == Some(Plant::BrokerEpochGuessed) {
            self.guess_epochs(&mut command);
        }
        self.commands.next += 1;
        let id = self.commands.next;
        self.commands.asked.insert(id, Asker::Remote(conn, correlation_id));
        self.controller.on_command(now, CommandId(id), &command, &mut self.decided);
    }

    pub(super) fn on_control_open(&mut self, conn: ConnId) {
        let Some(link) = self.commands.link.as_mut().filter(|link| link.conn == conn) else { return };
        link.is_open = true;
        for frame in std::mem::take(&mut link.waiting) {
            self.acts.push_back(Act::Send { conn, frame });
        }
    }

    pub(super) fn is_control_link(&self, conn: ConnId) -> bool {
        self.commands.link.as_ref().is_some_and(|link| link.conn == conn)
    }

    pub(super) fn on_control_frame(&mut self, frame: &[u8]) {
        let Some(link) = &mut self.commands.link else { return };
        let Ok((correlation_id, body)) = decode_answer(frame) else { return };
        let Some((id, _)) = link.awaited.remove(&correlation_id) else { return };
        let decision = serde_json::from_slice(body).expect("nodes speak the same language");
        let (result, end, sure_ago): Decision = decision;
        self.commands.sure.insert(id, sure_ago);
        self.decided.push(controller::Effect::Answer { id: CommandId(id), result, end });
    }

    /// The connection to the active controller is of no use any more.
    pub(super) fn drop_control_link(&mut self, _now: Now) {
        let Some(link) = self.commands.link.take() else { return };
        self.acts.push_back(Act::Close(link.conn));
        for (id, _) in link.awaited.into_values() {
            self.fail_command(id, None);
        }
    }

    pub(super) fn command_deadline(&self) -> Option<Duration> {
        let oldest = self.commands.link.as_ref()?.awaited.values().map(|(_, since)| *since).min()?;
        Some(oldest + self.times.patience)
    }

    /// Gives up waiting for an answer that does not come.
    pub(super) fn look_at_late_commands(&mut self, now: Now) {
        if self.command_deadline().is_some_and(|at| at <= now.elapsed) {
            self.drop_control_link(now);
        }
    }

    /// A command was answered.
    pub(super) fn on_answered(
        &mut self,
        now: Now,
        id: u64,
        result: Result<Reply, ControllerError>,
        end: Offset,
    ) {
        let led_ago = || self.led_at.and_then(|at| now.elapsed.checked_sub(at));
        let sure_ago = self.commands.sure.remove(&id).unwrap_or_else(led_ago);
        match self.commands.asked.remove(&id) {
            Some(Asker::Lifecycle) => {
                if let Some(lifecycle) = &mut self.lifecycle {
                    let answer = result.as_ref().map(|reply| Answer { reply, end, sure_ago });
                    lifecycle.on_answer(now, answer, &mut self.lived);
                }
            }
            Some(Asker::Proposals) => self.on_proposals_answered(now, result),
            Some(Asker::Placing) => self.on_placed(now, result.is_ok()),
            Some(Asker::Request(conn)) => self.on_decision(now, conn, result, end),
            Some(Asker::Remote(conn, correlation_id)) => {
                let body = serde_json::to_vec(&(result, end, sure_ago)).expect("answers can be said");
                let frame = encode_answer(correlation_id, &body).expect("it is small")[4..].to_vec();
                self.acts.push_back(Act::Send { conn, frame });
            }
            Some(Asker::Nobody) | None => {}
        }
    }

    /// Asks for the in-sync sets that leaders here want, one command at a time.
    pub(super) fn propose(&mut self, now: Now) {
        let Some(epoch) = self.epoch else { return };
        if self.proposals_at.take_if(|at| *at <= now.elapsed).is_none() && self.proposals_at.is_some() {
            return;
        }
        let wanted = self.proposals.next(100);
        if wanted.is_empty() {
            return;
        }
        let shrinks = |(key, asked): &(PartitionKey, AlterIsr)| {
            let known = self.image.partition(key.0, key.1);
            known.is_some_and(|known| asked.isr.len() < known.isr.len())
        };
        if self.plant == Some(Plant::IsrUnasked) && wanted.iter().any(shrinks) {
            return self.agree_with_ourselves();
        }
        let joins = |(key, asked): &(PartitionKey, AlterIsr)| {
            let isr = &self.image.partition(key.0, key.1)?.isr;
            asked.isr.iter().map(|(id, _)| *id).find(|id| *id != self.id && !isr.contains(id))
        };
        let joiners = wanted.iter().filter_map(joins).collect();
        self.acts.push_back(Act::Asks { joiners });
        let partitions = wanted.iter().map(|(key, asked)| alteration(*key, asked)).collect();
        let command = AlterPartitions { broker: self.id, broker_epoch: epoch, partitions };
        self.give(now, Asker::Proposals, &Command::AlterPartitions(command));
    }

    fn on_proposals_answered(&mut self, now: Now, result: Result<Reply, ControllerError>) {
        let asked = self.proposals.on_answered(result.ok());
        for (key, asked, answer) in asked {
            if answer.may_come_again() {
                self.proposals_at = Some(now.elapsed + self.times.retry_after);
            }
            if let Some(cell) = self.cells.get(&key) {
                cell.act(|partition, out| partition.on_isr_answer(&asked, answer, out));
            }
        }
    }

    /// A planted bug: nobody is asked.
    fn agree_with_ourselves(&mut self) {
        for (key, asked, _) in self.proposals.on_answered(None) {
            let isr = asked.isr.iter().map(|&(id, _)| id).collect();
            let answer = IsrAnswer::Altered { isr, partition_epoch: asked.partition_epoch + 1 };
            if let Some(cell) = self.cells.get(&key) {
                cell.act(|partition, out| partition.on_isr_answer(&asked, answer, out));
            }
        }
    }

    /// A planted bug: a follower is taken to be in the life that the active controller knows.
    fn guess_epochs(&self, command: &mut Command) {
        let Command::AlterPartitions(command) = command else { return };
        if let Some(broker) = self.image.broker(command.broker) {
            command.broker_epoch = broker.epoch;
        }
        for (id, epoch) in command.partitions.iter_mut().flat_map(|partition| &mut partition.isr) {
            if let Some(broker) = self.image.broker(*id) {
                *epoch = broker.epoch;
            }
        }
    }

    /// Until when it rests after a command that got nowhere.
    pub(super) fn proposals_deadline(&self) -> Option<Duration> {
        self.proposals_at
    }
}

fn alteration(key: PartitionKey, asked: &AlterIsr) -> AlterPartition {
    AlterPartition {
        topic: key.0,
        partition: key.1,
        leader_epoch: asked.leader_epoch,
        partition_epoch: asked.partition_epoch,
        isr: asked.isr.clone(),
        recovering: false,
    }
}
