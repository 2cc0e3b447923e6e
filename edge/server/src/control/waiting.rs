//! Commands that wait: for their decision, for a controller that decides, for this node to act on it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::{BrokerId, Offset};
use controller::{Command, ControllerError, Reply};
use net::Charge;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

/// What a command came to.
pub(crate) type Decision = Result<Reply, ControllerError>;

/// What a command came to, as one node tells another.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Decided {
    pub(crate) result: Decision,
    /// The end of the metadata that has all of it.
    pub(crate) end: Offset,
    /// How long before this the node that decided was certainly the one to decide; `None` if it does not know.
    #[serde(default)]
    pub(crate) sure_ago: Option<Duration>,
}

/// Who gave a command.
pub(crate) enum Asker {
    /// A client of this node. It is answered once this node has acted on what was decided, so that what it
    /// asks next finds it.
    Client {
        answer: oneshot::Sender<Decision>,
        /// Pays for the memory of the command, also when its connection is gone before it is decided.
        held: Charge,
    },
    /// A part of this node, which is answered once it is decided.
    Node(oneshot::Sender<Decision>),
    /// Another node, which finds the active controller itself.
    Remote(oneshot::Sender<Decided>),
    /// The life of this broker.
    Lifecycle,
    /// Leaders of this broker, who want other in-sync sets.
    Proposals,
    /// Nobody waits.
    Nobody,
}

/// A command on its way.
pub(crate) struct Pending {
    pub(crate) asker: Asker,
    /// Until when to look for a controller that decides it, by `Now::elapsed`.
    pub(crate) give_up_at: Duration,
    /// What to ask again, should it have got nowhere.
    pub(crate) command: Command,
    /// The node that was asked last and has not answered.
    pub(crate) asked: Option<BrokerId>,
    /// Whether it waits to be given again.
    pub(crate) is_again: bool,
}

/// See the module. Bounded by those who ask: a connection has one command on its way, a node few.
#[derive(Default)]
pub(crate) struct Waiting {
    next: u64,
    pending: BTreeMap<u64, Pending>,
    /// Commands that got nowhere, by when they are given again.
    again: BTreeSet<(Duration, u64)>,
    /// Decided, and not yet acted on, by the end of the metadata that has it.
    decided: BTreeMap<(Offset, u64), (oneshot::Sender<Decision>, Reply, Charge)>,
}

impl Waiting {
    /// Takes a command in; its number.
    pub(crate) fn add(&mut self, pending: Pending) -> u64 {
        self.next += 1;
        self.pending.insert(self.next, pending);
        self.next
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Pending> {
        self.pending.get(&id)
    }

    pub(crate) fn take(&mut self, id: u64) -> Option<Pending> {
        self.pending.remove(&id)
    }

    /// A node is asked for its decision.
    pub(crate) fn on_asked(&mut self, id: u64, node: BrokerId) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.asked = Some(node);
        }
    }

    /// Commands whose answer is awaited from a node that has nothing to decide any more. It may be a node
    /// that is silent, and to wait until its time is up would have this one taken for dead meanwhile.
    pub(crate) fn take_stranded(&mut self, active: Option<BrokerId>) -> Vec<u64> {
        let is_stranded = |pending: &Pending| pending.asked.is_some() && pending.asked != active;
        let stranded = self.pending.iter_mut().filter(|(_, pending)| is_stranded(pending));
        let stranded = stranded.map(|(id, pending)| {
            pending.asked = None;
            *id
        });
        stranded.collect()
    }

    /// Clients' commands whose time is up while the controller here is to decide: its quorum commits nothing. What comes
    /// of them nobody is told.
    pub(crate) fn take_late(&mut self, now: Duration) -> Vec<Asker> {
        let is_late = |_: &u64, pending: &mut Pending| {
            let is_client = matches!(pending.asker, Asker::Client { .. });
            let is_here = pending.asked.is_none() && !pending.is_again;
            is_client && is_here && pending.give_up_at <= now
        };
        self.pending.extract_if(.., is_late).map(|(_, pending)| pending.asker).collect()
    }

    /// How many wait for a decision.
    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }

    /// A command got nowhere, and is to be given again at this time, if it does not wait for that already: given twice
    /// it might be done, and refused since it is done.
    pub(crate) fn retry(&mut self, id: u64, at: Duration) {
        let Some(pending) = self.pending.get_mut(&id) else { return };
        pending.asked = None;
        if !std::mem::replace(&mut pending.is_again, true) {
            self.again.insert((at, id));
        }
    }

    /// The commands that are due again.
    pub(crate) fn due(&mut self, now: Duration) -> Vec<u64> {
        let later = self.again.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut self.again, later).into_iter().map(|(_, id)| id);
        due.inspect(|id| {
            if let Some(pending) = self.pending.get_mut(id) {
                pending.is_again = false;
            }
        })
        .collect()
    }

    /// When the next is due.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.again.first().map(|(at, _)| *at)
    }

    /// A client's command is decided; it is answered once this node has acted on it.
    pub(crate) fn decided(
        &mut self,
        end: Offset,
        answer: oneshot::Sender<Decision>,
        held: Charge,
        reply: Reply,
    ) {
        self.next += 1;
        self.decided.insert((end, self.next), (answer, reply, held));
    }

    /// This node has acted on the metadata up to `end`.
    pub(crate) fn on_applied(&mut self, end: Offset) {
        let later = self.decided.split_off(&(Offset(end.0.saturating_add(1)), 0));
        for (answer, reply, _held) in std::mem::replace(&mut self.decided, later).into_values() {
            // The client may have gone.
            let _ = answer.send(Ok(reply));
        }
    }
}

impl Asker {
    /// Tells who waits that the command was refused.
    pub(crate) fn refuse(self, why: ControllerError) {
        match self {
            Self::Client { answer, .. } | Self::Node(answer) => drop(answer.send(Err(why))),
            Self::Remote(answer) => {
                drop(answer.send(Decided { result: Err(why), end: Offset::ZERO, sure_ago: None }))
            }
            Self::Lifecycle | Self::Proposals | Self::Nobody => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_in_time_that_nothing_is_decided() {
        let mut waiting = Waiting::default();
        let command = Command::UnregisterBroker(controller::UnregisterBroker { id: BrokerId(9) });
        let client = || {
            let (answer, answered) = oneshot::channel();
            (Asker::Client { answer, held: net::MemoryBudget::new(1).charge() }, answered)
        };
        let ((early, mut never), (late, mut told)) = (client(), client());
        for (asker, give_up_at) in [(early, 9), (late, 5), (Asker::Lifecycle, 5)] {
            let give_up_at = Duration::from_secs(give_up_at);
            waiting.add(Pending {
                asker,
                give_up_at,
                command: command.clone(),
                asked: None,
                is_again: false,
            });
        }
        let at = |secs| Duration::from_secs(secs);
        assert!(waiting.take_late(at(4)).is_empty());
        waiting.take_late(at(5)).into_iter().for_each(|late| late.refuse(ControllerError::Busy));
        assert_eq!(told.try_recv().expect("it is answered"), Err(ControllerError::Busy));
        assert!(never.try_recv().is_err() && waiting.len() == 2, "the others wait on");
    }

    #[test]
    fn who_waits_for_a_controller_that_is_none_any_more_waits_in_vain() {
        let mut waiting = Waiting::default();
        let command = Command::UnregisterBroker(controller::UnregisterBroker { id: BrokerId(9) });
        let pending = || Pending {
            asker: Asker::Nobody,
            give_up_at: Duration::ZERO,
            command: command.clone(),
            asked: None,
            is_again: false,
        };
        let [first, second, _] = [(); 3].map(|()| waiting.add(pending()));
        waiting.on_asked(first, BrokerId(1));
        assert_eq!(waiting.take_stranded(Some(BrokerId(1))), [0; 0]);
        waiting.on_asked(second, BrokerId(2));
        assert_eq!(waiting.take_stranded(Some(BrokerId(2))), [first]);
        assert_eq!(waiting.take_stranded(None), [second]);
        assert_eq!(waiting.take_stranded(None), [0; 0], "they are told once");
    }

    /// The way to a controller that died is found to be closed, and then another one is heard of.
    #[test]
    fn a_command_that_got_nowhere_twice_is_given_again_once() {
        let mut waiting = Waiting::default();
        let command = Command::UnregisterBroker(controller::UnregisterBroker { id: BrokerId(9) });
        let (asker, give_up_at) = (Asker::Nobody, Duration::ZERO);
        let id = waiting.add(Pending { asker, give_up_at, command, asked: None, is_again: false });
        let at = Duration::from_millis;
        waiting.on_asked(id, BrokerId(1));
        waiting.retry(id, at(50));
        waiting.take_stranded(Some(BrokerId(2))).into_iter().for_each(|id| waiting.retry(id, at(60)));
        waiting.retry(id, at(70));
        assert_eq!((waiting.deadline(), waiting.due(at(49))), (Some(at(50)), vec![]));
        assert_eq!(waiting.due(at(100)), [id]);
        assert_eq!(waiting.due(at(200)), [0; 0]);
        waiting.retry(id, at(250));
        assert_eq!(waiting.due(at(250)), [id], "as often as it gets nowhere");
    }
}
