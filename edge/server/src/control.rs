//! The control thread: decides, commits, and makes it so on this node, one command after the other.
//!
//! ```text
//!   connections ─▶ bounded queue ─▶ handle ─▶ commit (synced) ─▶ replay ─▶ new image ─▶ logs made,
//!                                                                                      removed ─▶ answer
//! ```
//!
//! It is the only writer of the metadata log and the only one who changes the partition table. A
//! command is answered once the partitions it made can be written to.

use std::sync::Arc;

use arc_swap::ArcSwap;
use controller::{Command, ControllerError, Reply};
use metadata::{Delta, Image};
use net::Charge;
use quorum::{CommitError, ExecuteError, Executed, Quorum};
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, error};

use crate::clock::Clock;
use crate::hosting::Hosting;

/// What a command came to.
pub(crate) type Decision = Result<Reply, ControllerError>;

/// Commands that wait. Beyond it the connections that bring more are not read from.
const WAITING_MAX: usize = 1024;

/// Commits between two checkpoints of the metadata log.
const CHECKPOINT_COMMITS: u64 = 64;

pub(crate) enum Request {
    Decide {
        command: Box<Command>,
        answer: Option<oneshot::Sender<Decision>>,
        /// Pays for the memory of the command, also when its connection is gone before it is decided.
        held: Option<Charge>,
    },
    Stop,
}

/// The way to the control thread.
#[derive(Clone)]
pub(crate) struct Control(mpsc::Sender<Request>);

impl Control {
    pub(crate) fn channel() -> (Self, mpsc::Receiver<Request>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (Self(sender), receiver)
    }

    /// Hands a command over, with what pays for it. The receiver fails if the node stops first.
    pub(crate) async fn decide(&self, command: Command, held: Charge) -> oneshot::Receiver<Decision> {
        let (answer, decision) = oneshot::channel();
        let request = Request::Decide { command: Box::new(command), answer: Some(answer), held: Some(held) };
        // A closed queue drops the sender, and so fails the receiver.
        let _ = self.0.send(request).await;
        decision
    }

    /// Hands over a command for whose answer nobody waits; it is dropped if too many wait, and
    /// whoever set it off will do so again.
    pub(crate) fn decide_unheard(&self, command: Command) {
        let request = Request::Decide { command: Box::new(command), answer: None, held: None };
        if self.0.try_send(request).is_err() {
            debug!("a command was dropped: too many wait for the control thread");
        }
    }

    /// Ends the thread once it has decided what waits.
    pub(crate) fn stop(&self) {
        // If the thread has ended by itself, there is nobody to tell.
        let _ = self.0.blocking_send(Request::Stop);
    }
}

/// What the control thread owns.
pub(crate) struct ControlThread {
    pub(crate) quorum: Quorum,
    pub(crate) image: Arc<ArcSwap<Image>>,
    pub(crate) hosting: Hosting,
    pub(crate) clock: Clock,
    pub(crate) commits: u64,
}

/// The metadata log cannot be written any more: the node has to stop.
#[derive(Debug, thiserror::Error)]
#[error("this node cannot go on: {0}")]
pub(crate) struct ControlFailed(CommitError);

impl ControlThread {
    /// Decides until it is told to stop; hands itself back for an orderly end.
    pub(crate) fn run(mut self, mut requests: mpsc::Receiver<Request>) -> Result<Self, ControlFailed> {
        while let Some(Request::Decide { command, answer, held: _held }) = requests.blocking_recv() {
            let decision = self.decide(&command).inspect_err(|failed| error!("{failed}"))?;
            if let Err(refused) = &decision {
                debug!(%refused, "command refused");
            }
            if let Some(answer) = answer {
                // The client may have gone.
                let _ = answer.send(decision);
            }
        }
        Ok(self)
    }

    /// Decides one command and makes it so.
    fn decide(&mut self, command: &Command) -> Result<Decision, ControlFailed> {
        self.quorum.on_room(self.hosting.has_room());
        let (reply, delta) = match self.commit(command)? {
            Ok(committed) => committed,
            Err(refused) => return Ok(Err(refused)),
        };
        if !delta.is_empty() {
            // Partitions are there before clients can hear of them, and gone after.
            let made = self.hosting.make_new(self.quorum.image(), &delta);
            self.serve(made)?;
            let image = Arc::new(self.quorum.image().clone());
            self.hosting.reconfigure(&image, &delta);
            self.image.store(image);
            self.hosting.clear(&delta);
            self.count();
        }
        Ok(Ok(reply))
    }

    /// Decides and commits one command; what it changes is not made so on this node yet.
    pub(crate) fn commit(
        &mut self,
        command: &Command,
    ) -> Result<Result<(Reply, Delta), ControllerError>, ControlFailed> {
        let Executed { reply, delta } = match self.quorum.execute(self.clock.now(), command) {
            Ok(executed) => executed,
            Err(ExecuteError::Refused(refused)) => return Ok(Err(refused)),
            Err(ExecuteError::Commit(why)) if why.is_harmless() => {
                return Ok(Err(ControllerError::InvalidRequest(why.to_string())));
            }
            Err(ExecuteError::Commit(why)) => return Err(ControlFailed(why)),
        };
        self.keep_checkpoint()?;
        Ok(Ok((reply, delta)))
    }

    /// Shows how much there is.
    pub(crate) fn count(&self) {
        let state = &self.hosting.metrics.state;
        state.topics.set(self.quorum.image().topic_count() as u64);
        state.partitions.set(self.hosting.table.len() as u64);
    }

    /// Writes down now and then up to where the metadata is durable: below it, damage is not taken
    /// for the torn end that a crash leaves.
    fn keep_checkpoint(&mut self) -> Result<(), ControlFailed> {
        self.commits += 1;
        if self.commits.is_multiple_of(CHECKPOINT_COMMITS) {
            self.quorum.checkpoint().map_err(ControlFailed)?;
        }
        Ok(())
    }
}
