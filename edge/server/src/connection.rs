//! One connection: frames in, outcomes in a queue, answers out from its front.
//!
//! ```text
//!   socket ─▶ FrameReader ─▶ Session::on_request ─▶ queue ─▶ front settled? ─▶ AnswerWriter ─▶ socket
//!                                                     ▲            │ no
//!                                                     └── bell, deadline, controller ◀──┘
//! ```
//!
//! Requests are taken in while earlier ones wait, and answered in their order. No more are taken in
//! while [`IN_FLIGHT_MAX`] wait, while what waits takes too much memory, while the controller decides
//! about the last of them (the next one must see what it did), or while the client does not take its
//! answers.
//!
//! What ends a connection is queued like a request: all that came before it is answered first. A
//! connection that is not read from still notices that its peer is gone.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::call::{Answer, CloseReason, Outcome, ParkedRequest, Peer, Session, Submission};
use broker::parked::{Waiter, Wake};
use broker::session::Dispatched;
use net::{AnswerWriter, FrameError, FrameReader, HangUp, Stop, WriteError};
use records::Scratch;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tracing::{debug, error, info};
use wire::ApiKey;

use crate::files;
use crate::node::Node;

mod bell;
mod held;
mod queue;

use bell::Bell;
use held::{Held, Pace};
use queue::{Queued, Slot, Waiting, settled};

/// Requests of one connection that may wait for their answer. Kafka's clients have 5 in flight by
/// default; more leaves room for tools that pipeline.
const IN_FLIGHT_MAX: usize = 64;

/// Answers are sent once this much waits, though more requests are there to be read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// How long requests that are there are worked on before the other connections of the thread have
/// their turn.
const TURN_MAX: Duration = Duration::from_millis(1);

/// How long a fetch waits on for data once the peer has ended its side: who goes on reading after that
/// is a script, and does not wait for long.
const ENDING_MAX: Duration = Duration::from_secs(30);

/// How often to look whether others wait for memory that is held here.
const LOOK: Duration = Duration::from_secs(1);

/// How long bytes that nobody will read are taken in at the end, so that the last answers arrive.
const LINGER_MAX: Duration = Duration::from_secs(1);

thread_local! {
    /// Where batches are decompressed to be checked: one for all connections of a thread.
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
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
    #[error("the peer takes its answers too slowly, and others wait for the memory")]
    TooSlow,
    #[error("the peer is gone")]
    HungUp,
    #[error("the node stops")]
    Stopped,
}

impl Ended {
    /// Whether the peer has ended it: its socket is closed, or its machine says that there is none.
    fn is_by_peer(&self) -> bool {
        match self {
            Self::Read(FrameError::Closed | FrameError::Cut { .. } | FrameError::Io(_))
            | Self::Write(WriteError::Io(_))
            | Self::HungUp => true,
            Self::Read(_) | Self::Write(_) | Self::Protocol(_) | Self::TooSlow | Self::Stopped => false,
        }
    }
}

/// What became of the front of the queue.
enum Settled {
    Answer(Answer),
    Waits(Waiting),
    Ended(Ended),
}

struct Connection {
    node: Arc<Node>,
    bell: Arc<Bell>,
    session: Session,
    queue: VecDeque<Queued>,
    writer: AnswerWriter,
    held: Held,
    stop: Stop,
    /// Since when nothing more will come.
    ending_since: Option<Instant>,
    /// Whether the client has said what software it is.
    introduced: bool,
    /// Whether it was the peer who ended it.
    is_hung_up: bool,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(node: Arc<Node>, connection: net::Connection, at_other_end: Peer, stop: Stop) {
    let net::Connection { stream, peer, seat, .. } = connection;
    let (read, write) = stream.into_split();
    let mut reader = FrameReader::new(read, node.frame_limits.clone(), &node.request_memory);
    let mut connection = Connection::new(Arc::clone(&node), write, (at_other_end, peer), stop);
    let ended = connection.run(&mut reader).await;
    tell(&node, peer, &ended);
    connection.is_hung_up = ended.is_by_peer();
    // Tells the peer that nothing more comes.
    drop(connection);
    if matches!(ended, Ended::Read(_) | Ended::Protocol(_)) {
        reader.discard(LINGER_MAX).await;
    }
    drop(seat);
}

/// Says why a connection ended, as loudly as it deserves.
fn tell(node: &Node, peer: SocketAddr, why: &Ended) {
    use FrameError as Read;
    match why {
        Ended::Read(Read::Closed) | Ended::Stopped => debug!(%peer, "connection closed"),
        Ended::Read(Read::Idle(_) | Read::Cut { .. } | Read::Io(_))
        | Ended::Write(WriteError::Io(_))
        | Ended::HungUp => debug!(%peer, %why, "connection closed"),
        Ended::Write(WriteError::File { .. } | WriteError::Short { .. }) => {
            node.metrics.fetch.failed_reads.inc();
            match node.complaints.next(node.clock.now().elapsed) {
                Some(unsaid) => error!(%peer, %why, unsaid, "connection closed: its answer cannot be read"),
                None => debug!(%peer, %why, "connection closed: its answer cannot be read"),
            }
        }
        _ => {
            node.metrics.network.connections_cut.inc();
            match node.complaints.next(node.clock.now().elapsed) {
                Some(unsaid) => info!(%peer, %why, unsaid, "connection closed by this node"),
                None => debug!(%peer, %why, "connection closed by this node"),
            }
        }
    }
}

impl Connection {
    fn new(
        node: Arc<Node>,
        write: OwnedWriteHalf,
        (at_other_end, address): (Peer, SocketAddr),
        stop: Stop,
    ) -> Self {
        let bell = Bell::new();
        let waiter = Waiter { id: node.next_waiter(), bell: Arc::clone(&bell) as Arc<dyn Wake> };
        Self {
            session: Session {
                host: format!("/{}", address.ip()).into(),
                ..Session::new(waiter, at_other_end)
            },
            bell,
            queue: VecDeque::new(),
            writer: AnswerWriter::new(write, node.write_limits.clone()),
            held: Held::new(&node.answer_memory),
            stop,
            ending_since: None,
            introduced: false,
            is_hung_up: false,
            node,
        }
    }

    async fn run(&mut self, reader: &mut FrameReader<OwnedReadHalf>) -> Ended {
        loop {
            match self.serve_some(reader).await {
                Ok(()) => {}
                Err(ended) => return ended,
            }
        }
    }

    /// Works on what is there, sends what is answered, and waits for more.
    async fn serve_some(&mut self, reader: &mut FrameReader<OwnedReadHalf>) -> Result<(), Ended> {
        // What was taken in is answered first; a client that always has more to ask is not waited for.
        let stopping = self.stop.is_stopped();
        self.answer().await?;
        let began = Instant::now();
        while !stopping && self.has_room() && reader.has_frame() && self.held.has_turn() {
            let since = Instant::now();
            if since - began > TURN_MAX {
                self.flush().await?;
                tokio::task::yield_now().await;
                return Ok(());
            }
            match reader.next().await {
                Ok(frame) => self.take(frame, since).await,
                Err(error) => self.close(error.into()),
            }
            self.answer().await?;
        }
        self.flush().await?;
        if stopping && self.queue.is_empty() {
            return Err(Ended::Stopped);
        }
        self.wait(reader, stopping).await
    }

    /// Waits until there is something to do.
    async fn wait(&mut self, reader: &mut FrameReader<OwnedReadHalf>, stopping: bool) -> Result<(), Ended> {
        let room = !stopping && self.has_room();
        let (wants_turn, reads) = (room && reader.has_frame(), room && !reader.has_frame());
        if !wants_turn {
            self.held.give_back();
        }
        if !reads {
            reader.rest();
        }
        let (due, watched) = (self.due(), !reads && self.ending_since.is_none());
        let Self { queue, bell, held, writer, stop, .. } = self;
        // In no order: a bell that rings again and again must not keep the socket from being looked at.
        tokio::select! {
            () = settled(queue.front_mut(), bell, due) => {}
            () = held.turn(), if wants_turn => {}
            ready = reader.ready(), if reads => match ready {
                Ok(()) => {}
                // Who waits for an answer is not idle.
                Err(FrameError::Idle(_)) if !self.queue.is_empty() => {}
                Err(error @ FrameError::Io(_)) => return Err(error.into()),
                Err(error) => self.close(error.into()),
            },
            hung_up = writer.hung_up(), if watched => match hung_up {
                HangUp::Sending => self.ending_since = Some(Instant::now()),
                HangUp::Whole => return Err(Ended::HungUp),
            },
            () = stop.stopped(), if !stopping => {}
        }
        Ok(())
    }

    /// Whether one more request may be taken in.
    fn has_room(&self) -> bool {
        let last = self.queue.back().map(|queued| &queued.waiting);
        self.queue.len() < IN_FLIGHT_MAX
            && !self.held.is_full()
            && !matches!(last, Some(Waiting::Submitted { .. } | Waiting::Close(_)))
    }

    async fn take(&mut self, frame: &[u8], since: Instant) {
        let Dispatched { key, outcome, background } = {
            let (node, session) = (&self.node, &mut self.session);
            node.in_context(|context| {
                SCRATCH.with_borrow_mut(|scratch| session.on_request(context, frame, scratch))
            })
        };
        self.node.count_request(key, frame.len(), since.elapsed());
        self.introduce(key);
        for command in background {
            self.node.control.decide_unheard(command);
        }
        let waiting = match outcome {
            Outcome::Silent => return,
            Outcome::Close(reason) => {
                self.node.count_failure(key);
                return self.close(reason.into());
            }
            Outcome::Answer(answer) => Waiting::Answer(answer),
            Outcome::Parked(parked) => Waiting::Parked(parked),
            Outcome::Submit(submission) => self.submit(submission, frame.len()).await,
        };
        if let Some(parked) = waiting.gauge(&self.node) {
            parked.add(1);
        }
        let bytes = waiting.bytes();
        self.held.queued(bytes);
        self.queue.push_back(Queued { key, since, waiting, bytes });
    }

    /// Hands a command over that came in a frame of so many bytes, which is about what it takes.
    async fn submit(&mut self, submission: Submission, frame: usize) -> Waiting {
        let mut charge = self.node.answer_memory.charge();
        charge.ask_for(frame as u64);
        let slot = Slot::Empty(self.node.control.decide(submission.command, charge).await);
        Waiting::Submitted { slot, finish: submission.finish }
    }

    /// Ends the connection once what was taken in is answered.
    fn close(&mut self, why: Ended) {
        let since = Instant::now();
        self.ending_since.get_or_insert(since);
        self.queue.push_back(Queued { key: None, since, waiting: Waiting::Close(why), bytes: 0 });
    }

    /// Counts what software the client is, the first time it says so.
    fn introduce(&mut self, key: Option<ApiKey>) {
        if key != Some(ApiKey::ApiVersions) || self.introduced {
            return;
        }
        if let Some((name, version)) = &self.session.software {
            self.introduced = true;
            self.node.metrics.clients.connected(name, version);
        }
    }

    /// Hands what is settled at the front of the queue to the writer.
    async fn answer(&mut self) -> Result<(), Ended> {
        // Asked before the look: who rings during it is heard at the next call.
        let mut looks = self.bell.rang();
        while (looks || self.is_front_due())
            && let Some(Queued { key, since, waiting, bytes }) = self.queue.pop_front()
        {
            let node = Arc::clone(&self.node);
            let parked = waiting.gauge(&node);
            match self.settle(waiting, since) {
                Settled::Waits(waiting) => {
                    self.queue.push_front(Queued { key, since, waiting, bytes });
                    break;
                }
                Settled::Answer(answer) => {
                    parked.inspect(|parked| parked.sub(1));
                    let took = since.elapsed();
                    let answer = files::readable(&node, answer).await?;
                    node.count_answer(key, took, &answer);
                    self.held.unqueued(bytes);
                    self.push(answer).await?;
                    // The bell may have rung for the next one while it was not the front.
                    looks = true;
                }
                Settled::Ended(ended) => {
                    parked.inspect(|parked| parked.sub(1));
                    self.flush().await?;
                    return Err(ended);
                }
            }
        }
        Ok(())
    }

    async fn push(&mut self, answer: Answer) -> Result<(), Ended> {
        let answer = files::for_socket(&self.node, answer);
        self.held.sending(self.writer.memory_of(&answer));
        self.writer.push(answer);
        if self.writer.bytes_waiting() >= ANSWER_BYTES_MAX { self.flush().await } else { Ok(()) }
    }

    /// Sends all that the writer has. While others wait for memory that is held here, the peer has to
    /// take it at some pace.
    async fn flush(&mut self) -> Result<(), Ended> {
        if self.writer.is_empty() {
            return Ok(());
        }
        self.held.give_back();
        let mut pace = Pace::new(self.writer.bytes_waiting());
        while self.held.is_charged() {
            if let Ok(flushed) = tokio::time::timeout(LOOK, self.writer.flush()).await {
                flushed?;
                break;
            }
            let slow = pace.is_slow(self.writer.bytes_waiting(), &self.node.write_limits);
            if slow && self.held.is_missed() {
                return Err(Ended::TooSlow);
            }
        }
        self.writer.flush().await?;
        self.held.sent();
        self.held.give_back();
        Ok(())
    }

    /// The answer, or what has to wait on.
    fn settle(&mut self, front: Waiting, since: Instant) -> Settled {
        let outcome = match front {
            Waiting::Answer(answer) => return Settled::Answer(answer),
            Waiting::Close(ended) => return Settled::Ended(ended),
            Waiting::Parked(parked) => {
                let is_late = self.is_late(&parked, since);
                let (node, session) = (&self.node, &mut self.session);
                node.in_context(|mut context| {
                    if is_late {
                        context.now.elapsed = context.now.elapsed.max(parked.deadline());
                    }
                    parked.look(context, session)
                })
            }
            waiting @ Waiting::Submitted { slot: Slot::Empty(_), .. } => return Settled::Waits(waiting),
            Waiting::Submitted { slot: Slot::Filled(decision), finish } => {
                let Some(decision) = decision else { return Settled::Ended(Ended::Stopped) };
                self.node.in_context(|context| finish(&context, decision))
            }
        };
        match outcome {
            Outcome::Answer(answer) => Settled::Answer(answer),
            Outcome::Parked(parked) => Settled::Waits(Waiting::Parked(parked)),
            Outcome::Close(reason) => Settled::Ended(reason.into()),
            Outcome::Silent | Outcome::Submit(_) => unreachable!("a request that waited is answered"),
        }
    }

    /// Whether the front is worth a look though nobody rang. One that waits was looked at when it came
    /// there, and is not worth another for each request behind it: a fetch plans all its partitions anew.
    fn is_front_due(&self) -> bool {
        match self.queue.front() {
            Some(Queued { waiting: Waiting::Parked(parked), since, .. }) => self.is_late(parked, *since),
            Some(_) => true,
            None => false,
        }
    }

    fn is_late(&self, parked: &ParkedRequest, since: Instant) -> bool {
        tokio::time::Instant::now() >= self.patience(parked, since)
    }

    /// When to look at the front again, whoever rings. Who waits as long as it takes costs no timer.
    fn due(&self) -> Option<tokio::time::Instant> {
        let front = self.queue.front()?;
        let Waiting::Parked(parked) = &front.waiting else { return None };
        let ends = parked.deadline() < Duration::MAX || parked.key() == ApiKey::Fetch;
        let due = ends.then(|| self.patience(parked, front.since));
        let look = self.held.is_charged().then(|| tokio::time::Instant::now() + LOOK);
        [due, look].into_iter().flatten().min()
    }

    /// Until when a request may wait. A fetch asks again if it is answered early, so it does not keep
    /// what the node needs: its end, memory that others wait for, a connection that its peer has ended or
    /// would be closed as idle.
    fn patience(&self, parked: &ParkedRequest, since: Instant) -> tokio::time::Instant {
        let deadline = self.node.clock.instant(parked.deadline());
        if parked.key() != ApiKey::Fetch {
            return deadline;
        }
        if self.stop.is_stopped() || self.held.is_missed() {
            return since.into();
        }
        let idle = since + self.node.frame_limits.idle_max;
        let end = self.ending_since.map_or(idle, |since| idle.min(since + ENDING_MAX));
        deadline.min(end.into())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let (node, session) = (&self.node, &mut self.session);
        for Queued { waiting, .. } in self.queue.drain(..) {
            if let Some(parked) = waiting.gauge(node) {
                parked.sub(1);
            }
            if let Waiting::Parked(parked) = waiting {
                node.in_context(|context| parked.abandon(context, session));
            }
        }
        let is_by_peer = self.is_hung_up;
        node.in_context(|context| session.on_closed(&context, is_by_peer));
    }
}

#[cfg(test)]
mod tests;
