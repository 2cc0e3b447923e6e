//! One connection: frames in, outcomes in a queue, answers out from its front.
//!
//! ```text
//!   socket ─▶ FrameReader ─▶ Session::on_request ─▶ queue ─▶ front settled? ─▶ AnswerWriter ─▶ socket
//!                                                     ▲            │ no
//!                                                     └── bell, deadline, controller ◀──┘
//! ```
//!
//! Requests are taken in while earlier ones wait, up to [`IN_FLIGHT_MAX`], and answered in their
//! order. A client that does not take its answers is not read from.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::call::{Answer, CloseReason, Finish, Outcome, ParkedRequest, Session, Submission};
use broker::parked::{Waiter, Wake};
use broker::session::Dispatched;
use net::{AnswerWriter, Charge, FrameError, FrameReader, Stop, WriteError};
use records::Scratch;
use telemetry::Gauge;
use tokio::sync::{Notify, oneshot};
use tracing::{debug, info};
use wire::ApiKey;

use crate::control::Decision;
use crate::files;
use crate::node::Node;

/// Requests of one connection that may wait for their answer. Kafka's clients have 5 in flight by
/// default; more leaves room for tools that pipeline, and each costs at most a frame.
const IN_FLIGHT_MAX: usize = 64;

/// What an answer may take without being charged: most are far smaller.
const ANSWER_BYTES_FREE: usize = 64 << 10;

/// Answers are sent once this much waits, though more requests are there to be read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

thread_local! {
    /// Where batches are decompressed to be checked: one for all connections of a thread.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

struct Bell(Notify);

impl Wake for Bell {
    fn wake(&self) {
        self.0.notify_one();
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Read(#[from] FrameError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error(transparent)]
    Protocol(#[from] CloseReason),
    #[error("the node stops")]
    Stopped,
}

/// A request that is not answered yet.
struct Queued {
    key: Option<ApiKey>,
    since: Instant,
    waiting: Waiting,
}

/// What it waits for: its turn, or something else.
enum Waiting {
    Answer(Answer),
    Parked(ParkedRequest),
    Submitted { slot: Slot, finish: Finish },
}

impl Waiting {
    /// The number that it is counted in while it waits.
    fn gauge<'n>(&self, node: &'n Node) -> Option<&'n Gauge> {
        match self {
            Self::Parked(parked) if parked.key() == ApiKey::Fetch => Some(&node.metrics.state.parked_fetch),
            Self::Parked(_) => Some(&node.metrics.state.parked_produce),
            Self::Answer(_) | Self::Submitted { .. } => None,
        }
    }
}

/// The controller's decision, once it is there; `None` if there will be none.
enum Slot {
    Empty(oneshot::Receiver<Decision>),
    Filled(Option<Decision>),
}

struct Connection {
    node: Arc<Node>,
    bell: Arc<Bell>,
    session: Session,
    queue: VecDeque<Queued>,
    writer: AnswerWriter,
    /// What the answers that are being sent take of the node's memory.
    charges: Vec<Charge>,
    stop: Stop,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(node: Arc<Node>, connection: net::Connection, stop: Stop) {
    let net::Connection { stream, peer, seat, .. } = connection;
    let (read, write) = stream.into_split();
    let reader = FrameReader::new(read, node.frame_limits.clone(), &node.request_memory);
    let bell = Arc::new(Bell(Notify::new()));
    let waiter = Waiter { id: node.next_waiter(), bell: Arc::clone(&bell) as Arc<dyn Wake> };
    let mut connection = Connection {
        session: Session::new(waiter),
        bell,
        queue: VecDeque::new(),
        writer: AnswerWriter::new(write, node.write_limits.clone()),
        charges: Vec::new(),
        stop,
        node,
    };
    match connection.run(reader).await {
        Ended::Read(FrameError::Closed) | Ended::Stopped => debug!(%peer, "connection closed"),
        Ended::Read(error @ (FrameError::Idle(_) | FrameError::Cut { .. } | FrameError::Io(_))) => {
            debug!(%peer, %error, "connection closed");
        }
        Ended::Write(WriteError::Io(error)) => debug!(%peer, %error, "connection closed"),
        why => match connection.node.complaints.next(connection.node.clock.now().elapsed) {
            Some(unsaid) => info!(%peer, %why, unsaid, "connection closed by this node"),
            None => debug!(%peer, %why, "connection closed by this node"),
        },
    }
    connection.leave();
    drop(seat);
}

impl Connection {
    async fn run<S>(&mut self, mut reader: FrameReader<S>) -> Ended
    where
        S: tokio::io::AsyncRead + Unpin,
    {
        let mut stop = self.stop.clone();
        loop {
            if let Err(ended) = self.answer().await {
                return ended;
            }
            // What was taken in is answered first; a client that always has more to ask is not waited for.
            let stopping = stop.is_stopped();
            if stopping && self.queue.is_empty() {
                return Ended::Stopped;
            }
            let room = self.queue.len() < IN_FLIGHT_MAX && !stopping;
            let deadline = self.deadline();
            let bell = Arc::clone(&self.bell);
            tokio::select! {
                biased;
                () = settled(self.queue.front_mut().map(|queued| &mut queued.waiting), &bell, deadline) => {}
                frame = reader.next(), if room => {
                    match frame {
                        Ok(frame) => if let Err(ended) = self.take(frame).await { return ended },
                        Err(FrameError::Idle(_)) if !self.queue.is_empty() => {}
                        Err(error) => return error.into(),
                    }
                    if let Err(ended) = self.take_pipelined(&mut reader).await {
                        return ended;
                    }
                }
                () = stop.stopped(), if !stopping => {}
            }
        }
    }

    /// Takes the frames that are already there, so that their answers leave together.
    async fn take_pipelined<S>(&mut self, reader: &mut FrameReader<S>) -> Result<(), Ended>
    where
        S: tokio::io::AsyncRead + Unpin,
    {
        while reader.has_frame() && self.queue.len() < IN_FLIGHT_MAX && self.bytes_ready() < ANSWER_BYTES_MAX
        {
            let frame = reader.next().await?;
            self.take(frame).await?;
        }
        Ok(())
    }

    async fn take(&mut self, frame: &[u8]) -> Result<(), Ended> {
        let since = Instant::now();
        let Dispatched { key, outcome, background } = {
            let (node, session) = (&self.node, &mut self.session);
            node.in_context(|context| {
                SCRATCH.with_borrow_mut(|scratch| session.on_request(context, frame, scratch))
            })
        };
        self.node.count_request(key, frame.len());
        for command in background {
            self.node.control.decide_unheard(command);
        }
        let waiting = match outcome {
            Outcome::Silent => return Ok(()),
            Outcome::Close(reason) => return Err(reason.into()),
            Outcome::Answer(answer) => Waiting::Answer(answer),
            Outcome::Parked(parked) => Waiting::Parked(parked),
            Outcome::Submit(submission) => self.submit(submission).await,
        };
        if let Some(parked) = waiting.gauge(&self.node) {
            parked.add(1);
        }
        self.queue.push_back(Queued { key, since, waiting });
        Ok(())
    }

    async fn submit(&mut self, submission: Submission) -> Waiting {
        let slot = Slot::Empty(self.node.control.decide(submission.command).await);
        Waiting::Submitted { slot, finish: submission.finish }
    }

    fn bytes_ready(&self) -> u64 {
        self.writer.bytes_waiting()
    }

    /// Sends what is settled at the front of the queue.
    async fn answer(&mut self) -> Result<(), Ended> {
        while let Some(Queued { key, since, waiting }) = self.queue.pop_front() {
            let node = Arc::clone(&self.node);
            let parked = waiting.gauge(&node);
            match self.settle(waiting) {
                Ok(Ok(answer)) => {
                    parked.inspect(|parked| parked.sub(1));
                    self.node.count_answer(key, since.elapsed(), &answer);
                    self.push(answer).await?;
                }
                Ok(Err(waiting)) => {
                    self.queue.push_front(Queued { key, since, waiting });
                    break;
                }
                Err(ended) => {
                    parked.inspect(|parked| parked.sub(1));
                    return Err(ended);
                }
            }
        }
        self.flush().await
    }

    async fn push(&mut self, answer: Answer) -> Result<(), Ended> {
        let bytes = answer.frame.bytes.len();
        if bytes > ANSWER_BYTES_FREE {
            self.flush().await?;
            self.charges.push(self.node.answer_memory.acquire(bytes as u64).await);
        }
        files::warm(&self.node, &answer.slices).await;
        self.writer.push(files::for_socket(answer));
        if self.writer.bytes_waiting() >= ANSWER_BYTES_MAX { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), Ended> {
        if !self.writer.is_empty() {
            self.writer.flush().await?;
        }
        self.charges.clear();
        Ok(())
    }

    /// The answer, or what has to wait on.
    fn settle(&mut self, front: Waiting) -> Result<Result<Answer, Waiting>, Ended> {
        let outcome = match front {
            Waiting::Answer(answer) => return Ok(Ok(answer)),
            Waiting::Parked(parked) => {
                let (node, session) = (&self.node, &mut self.session);
                // A node that stops has no more data to come: then the time of a fetch is up.
                let is_late = parked.key() == ApiKey::Fetch && self.stop.is_stopped();
                node.in_context(|mut context| {
                    if is_late {
                        context.now.elapsed = context.now.elapsed.max(parked.deadline());
                    }
                    parked.look(context, session)
                })
            }
            waiting @ Waiting::Submitted { slot: Slot::Empty(_), .. } => return Ok(Err(waiting)),
            Waiting::Submitted { slot: Slot::Filled(decision), finish } => {
                let decision = decision.ok_or(Ended::Stopped)?;
                self.node.in_context(|context| finish(&context, decision))
            }
        };
        match outcome {
            Outcome::Answer(answer) => Ok(Ok(answer)),
            Outcome::Parked(parked) => Ok(Err(Waiting::Parked(parked))),
            Outcome::Close(reason) => Err(reason.into()),
            Outcome::Silent | Outcome::Submit(_) => unreachable!("a request that waited is answered"),
        }
    }

    /// When the front gives up waiting.
    fn deadline(&self) -> Option<tokio::time::Instant> {
        match &self.queue.front()?.waiting {
            Waiting::Parked(parked) => Some(self.node.clock.instant(parked.deadline())),
            Waiting::Answer(_) | Waiting::Submitted { .. } => None,
        }
    }

    fn leave(&mut self) {
        let (node, session) = (&self.node, &mut self.session);
        for Queued { waiting, .. } in self.queue.drain(..) {
            if let Some(parked) = waiting.gauge(node) {
                parked.sub(1);
            }
            if let Waiting::Parked(parked) = waiting {
                node.in_context(|context| parked.abandon(context, session));
            }
        }
        session.on_closed(node.as_ref());
    }
}

/// Waits until it is worth looking at the front of the queue again.
async fn settled(front: Option<&mut Waiting>, bell: &Bell, deadline: Option<tokio::time::Instant>) {
    match front {
        None => std::future::pending().await,
        Some(Waiting::Answer(_)) => {}
        Some(Waiting::Parked(_)) => {
            let deadline = deadline.unwrap_or_else(|| tokio::time::Instant::now() + Duration::from_secs(30));
            tokio::select! {
                () = bell.0.notified() => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
        Some(Waiting::Submitted { slot, .. }) => {
            if let Slot::Empty(decision) = slot {
                *slot = Slot::Filled(decision.await.ok());
            }
        }
    }
}
