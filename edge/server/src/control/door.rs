//! The way to the control thread, and what it says to others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base::{BrokerEpoch, BrokerId, Uuid};
use controller::{Command, QuorumEvent};
use metadata::{Delta, Image};
use net::Charge;
use tokio::sync::{mpsc, oneshot};
use tracing::debug;

use super::waiting::{Asker, Decided, Decision};

/// Commands that wait to be looked at. Beyond it the connections that bring more are not read from.
const WAITING_MAX: usize = 1024;

/// A command, and who gave it.
pub(crate) struct Given {
    pub(super) command: Box<Command>,
    pub(super) asker: Asker,
}

/// What the rest of the node tells the control thread. Bounded by its sources: each node, task and thread
/// has few things to say at a time.
pub(crate) enum News {
    /// The quorum tells something.
    Quorum(QuorumEvent),
    /// The quorum's log cannot be written any more.
    QuorumFailed(String),
    /// The controller of a node or this node's quorum answered, or could not be asked.
    Answered { id: u64, by: Option<BrokerId>, decided: Option<Decided> },
    /// This node has acted on the metadata up to here.
    Applied(Arc<Image>),
    /// The logs of this broker are open.
    LogsOpen,
    /// A log directory failed; the one with the metadata takes the node with it.
    LogDirFailed { directory: Uuid, is_home: bool },
    /// Leaders want other in-sync sets: see [`Outbox`].
    Proposed,
    /// The connection of a node broke, and nobody listens at its address any more.
    Dead(BrokerId),
    /// Others are to lead, for this node is about to stop.
    ShutDown,
    /// The end.
    Stop,
}

/// The way to the control thread.
#[derive(Clone)]
pub(crate) struct Control {
    commands: mpsc::Sender<Given>,
    /// What brokers say as long as they live, which does not wait behind what clients want.
    life: mpsc::Sender<Given>,
    news: mpsc::UnboundedSender<News>,
    /// In milliseconds since the node began: see [`Control::in_touch_until`].
    in_touch_until: Arc<AtomicU64>,
    is_stuck: Arc<AtomicBool>,
}

/// What the control thread listens to.
pub(crate) struct Inbox {
    pub(super) commands: mpsc::Receiver<Given>,
    pub(super) life: mpsc::Receiver<Given>,
    pub(super) news: mpsc::UnboundedReceiver<News>,
}

impl Control {
    pub(crate) fn channel() -> (Self, Inbox) {
        let (commands, given) = mpsc::channel(WAITING_MAX);
        let (life, alive) = mpsc::channel(WAITING_MAX);
        let (news, heard) = mpsc::unbounded_channel();
        let (in_touch_until, is_stuck) = Default::default();
        let control = Self { commands, life, news, in_touch_until, is_stuck };
        (control, Inbox { commands: given, life: alive, news: heard })
    }

    /// Hands a client's command over, with what pays for it. The receiver fails if the node stops first.
    pub(crate) async fn decide(&self, command: Command, held: Charge) -> oneshot::Receiver<Decision> {
        let (answer, decision) = oneshot::channel();
        let given = Given { command: Box::new(command), asker: Asker::Client { answer, held } };
        // A closed queue drops the sender, and so fails the receiver.
        let _ = self.commands.send(given).await;
        decision
    }

    /// Hands over a command of this node's own, and waits for its decision; `None` if the node stops first.
    pub(crate) fn decide_blocking(&self, command: Command) -> Option<Decision> {
        let (answer, decision) = oneshot::channel();
        let given = Given { command: Box::new(command), asker: Asker::Node(answer) };
        self.commands.blocking_send(given).ok()?;
        decision.blocking_recv().ok()
    }

    /// Hands over a command that another node brings. The receiver fails if the node stops first.
    pub(crate) async fn decide_for(&self, command: Command) -> oneshot::Receiver<Decided> {
        let (answer, decided) = oneshot::channel();
        let way = if command.is_of_life() { &self.life } else { &self.commands };
        let _ = way.send(Given { command: Box::new(command), asker: Asker::Remote(answer) }).await;
        decided
    }

    /// Hands over a command for whose answer nobody waits; it is dropped if too many wait, and
    /// whoever set it off will do so again.
    pub(crate) fn decide_unheard(&self, command: Command) {
        let given = Given { command: Box::new(command), asker: Asker::Nobody };
        if self.commands.try_send(given).is_err() {
            debug!("a command was dropped: too many wait for the control thread");
        }
    }

    /// Until when nobody else leads what this node has heard that it leads, by [`base::Now::elapsed`]: see
    /// [`broker::lifecycle::Lifecycle::in_touch_until`].
    pub(crate) fn in_touch_until(&self) -> Duration {
        Duration::from_millis(self.in_touch_until.load(Ordering::Acquire))
    }

    pub(super) fn set_in_touch_until(&self, until: Duration) {
        let ms = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.in_touch_until.store(ms, Ordering::Release);
    }

    /// Whether this broker asks for others to lead: see [`broker::lifecycle::Lifecycle::is_stuck`].
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }

    pub(super) fn set_stuck(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Ordering::Relaxed);
    }

    /// Tells the thread something; once it has ended, nobody is left to hear.
    pub(crate) fn tell(&self, news: News) {
        let _ = self.news.send(news);
    }
}

/// What the hosting thread is told.
pub(crate) enum Step {
    /// The metadata are this now, and that changed.
    Changed { image: Arc<Image>, delta: Box<Delta> },
    /// A life of this broker has begun.
    Registered(BrokerEpoch),
    /// The end.
    Stop,
}
