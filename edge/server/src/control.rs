//! The control thread: decides, if this node's controller is the active one, and carries commands to the
//! one that is, if not.
//!
//! ```text
//!   connections ─▶ bounded queue ─▶ active here? ─ yes ─▶ Controller ─▶ quorum ─▶ committed ─▶ answer
//!                                        └────────── no ─▶ the active one's node ─────────────────┘
//!   quorum ─▶ QuorumEvent ─▶ Controller ─▶ Changed ─▶ hosting thread: logs made, roles taken ─▶ Applied
//! ```
//!
//! It never waits for a disk or a peer: while it did, this broker would be taken for dead.

mod body;
mod door;
mod last_word;
mod life;
mod quorum;
mod replicas;
mod suspects;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerId, Effects, Offset};
use broker::lifecycle::{Answer, Lifecycle, Replaced};
use broker::replication::Proposals;
use controller::{
    Command, CommandId, Controller, ControllerError, Effect, MetadataQuorum, QuorumCommand, QuorumEvent,
    Reply,
};
use metadata::Delta;
use telemetry::Metrics;
use tokio::sync::oneshot;
use tracing::{debug, error, info, warn};

use crate::clock::Clock;
use crate::cluster::link::{Link, Source};
use crate::cluster::links::Links;
use crate::cluster::seat::{Seat, address_of};
use crate::in_sync::InSyncs;
use crate::log_dir::LogDirectory;
use crate::requests::Outbox;
use crate::table::PartitionTable;

pub(crate) use door::{Control, Inbox, News, Step};
pub(crate) use waiting::{Decided, Decision};

use waiting::{Asker, Pending, Waiting};

/// Commands on their way at a time: beyond it no more are taken from the queue, but for what brokers say as long as
/// they live.
const PENDING_MAX: usize = 4096;

/// How long a command looks for a controller that decides it. Clients ask again after as long.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a client is told when that was not long enough for a controller that has no majority, or whose disks are slow.
const NOT_COMMITTED: &str =
    "the controllers did not commit it in 30 s, and may do so later; see `vltava cluster status`";

/// How long this broker waits for an answer to what it says of its own life: others take it for dead meanwhile.
const LIFE_PATIENCE: Duration = Duration::from_secs(2);

/// How long after it got nowhere a command is given again.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// How often it looks at directories, and for what was never answered.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What the control thread owns.
pub(crate) struct ControlThread {
    pub(crate) node: BrokerId,
    pub(crate) controller: Controller,
    pub(crate) quorum: Box<dyn MetadataQuorum + Send>,
    /// This node in the quorum, for those who ask about it.
    pub(crate) seat: Arc<Seat>,
    /// The life of the broker, if this node is one.
    pub(crate) lifecycle: Option<Lifecycle>,
    pub(crate) hosting: std::sync::mpsc::Sender<Step>,
    pub(crate) links: Arc<Links>,
    /// Where requests to other nodes are carried.
    pub(crate) cluster: tokio::runtime::Handle,
    pub(crate) control: Control,
    pub(crate) outbox: Arc<Outbox>,
    /// To look up who is where: who locks a partition waits for its disk.
    pub(crate) table: Arc<PartitionTable>,
    pub(crate) dirs: Vec<Arc<LogDirectory>>,
    pub(crate) in_sync: InSyncs,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    pub(crate) on_serving: Option<oneshot::Sender<()>>,
    pub(crate) on_may_stop: Option<oneshot::Sender<()>>,
    pub(crate) state: State,
}

/// What it keeps in mind.
#[derive(Default)]
pub(crate) struct State {
    waiting: Waiting,
    proposals: Proposals,
    /// Before this no in-sync sets are asked for, after a request that got nowhere.
    proposals_at: Duration,
    /// The answer to the last request, and the end of the metadata that partitions are to be told of before.
    proposals_decided: Option<(Offset, Reply)>,
    look_at: Duration,
    applied: Offset,
    /// The end of the metadata with which this broker serves; it does once this node has acted on them.
    serves_from: Option<Offset>,
    /// The end of the metadata that the hosting thread was told of.
    told: Offset,
    active: Option<BrokerId>,
    /// Whether it was said that this broker is not taken in.
    was_refused: bool,
    /// The node whose controller was the active one before.
    predecessor: Option<BrokerId>,
    /// Whether the process is about to end, for its metadata cannot be written any more.
    is_ending: bool,
    /// Nodes whose sockets were gone, and when.
    suspects: BTreeMap<BrokerId, Duration>,
}

/// The node has to stop.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlFailed {
    #[error("this node cannot go on: {0}")]
    Quorum(String),
    #[error(transparent)]
    Replaced(#[from] Replaced),
}

impl ControlThread {
    /// Decides until it is told to stop.
    pub(crate) fn run(mut self, mut inbox: Inbox) -> Result<(), ControlFailed> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        let runtime = runtime.map_err(|why| ControlFailed::Quorum(why.to_string()))?;
        runtime.block_on(async {
            loop {
                match self.turn(&mut inbox).await {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(failed) => {
                        error!("{failed}");
                        return Err(failed);
                    }
                }
            }
        })
    }

    /// Waits for the next thing, and does it. Whether to go on.
    async fn turn(&mut self, inbox: &mut Inbox) -> Result<bool, ControlFailed> {
        let deadline = self.clock.instant(self.deadline());
        let has_room = self.state.waiting.len() < PENDING_MAX;
        tokio::select! {
            biased;
            news = inbox.news.recv() => match news {
                None | Some(News::Stop) => return Ok(false),
                Some(news) => self.on_news(news)?,
            },
            () = tokio::time::sleep_until(deadline) => {}
            Some(given) = inbox.life.recv() => {
                let command = *given.command;
                self.give(given.asker, command)?;
            }
            Some(given) = inbox.commands.recv(), if has_room => {
                let command = *given.command;
                self.give(given.asker, command)?;
            }
        }
        self.on_tick()?;
        self.tell_hosting(None);
        Ok(true)
    }

    fn deadline(&self) -> Duration {
        let state = &self.state;
        let is_registered = self.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.epoch().is_some());
        let all = [
            self.controller.deadline(),
            self.lifecycle.as_ref().and_then(Lifecycle::deadline),
            state.waiting.deadline(),
            (is_registered && state.proposals.are_due()).then_some(state.proposals_at),
        ];
        all.into_iter().flatten().chain([state.look_at]).min().unwrap_or(state.look_at)
    }

    fn on_tick(&mut self) -> Result<(), ControlFailed> {
        let now = self.clock.now();
        if self.controller.deadline().is_some_and(|at| at <= now.elapsed) {
            self.step(|controller, out| controller.on_tick(now, out))?;
        }
        self.live(|lifecycle, out| lifecycle.on_tick(now, out))?;
        for id in self.state.waiting.due(now.elapsed) {
            self.give_again(id)?;
        }
        if now.elapsed >= self.state.look_at {
            self.state.look_at = now.elapsed + LOOK_EVERY;
            self.look_at_directories(now);
            self.give_up_lost()?;
            for asker in self.state.waiting.take_late(now.elapsed) {
                asker.refuse(ControllerError::TimedOut(NOT_COMMITTED.into()));
            }
        }
        self.ask_for_in_sync_sets(now)
    }

    fn on_news(&mut self, news: News) -> Result<(), ControlFailed> {
        let now = self.clock.now();
        match news {
            News::Quorum(event) => {
                if let QuorumEvent::Committed(committed) = &event {
                    tracing::trace!(epoch = %committed.epoch, records = committed.records.len(), end = %committed.end, "committed");
                }
                let before = self.state.active.filter(|active| *active != self.node);
                self.state.predecessor = before.or(self.state.predecessor);
                if let QuorumEvent::Following { leader, .. } = &event {
                    self.state.active = *leader;
                } else if matches!(event, QuorumEvent::Elected { .. }) {
                    info!("this node's controller is the active one");
                    self.state.active = Some(self.node);
                    self.probe_suspects(now);
                }
                self.step(|controller, out| controller.on_event(now, event, out))?;
                self.metrics.replication.controller_active.set(self.controller.is_active().into());
                if self.lifecycle.is_none() && self.state.active.is_some() {
                    self.serving();
                }
                for id in self.state.waiting.take_stranded(self.state.active) {
                    self.on_nowhere(id, None);
                }
            }
            // It has only its last word to say.
            News::QuorumFailed(_) if self.state.is_ending => {}
            News::QuorumFailed(why) => return Err(ControlFailed::Quorum(why)),
            News::Answered { id, by, decided } => self.on_answered(id, by, decided)?,
            News::Applied(image) => {
                self.state.applied = image.end();
                self.of_life(|lifecycle| lifecycle.on_image(now, &image));
                self.state.waiting.on_applied(image.end());
                self.serve_if_applied();
                self.tell_in_sync_sets(now);
            }
            News::LogsOpen => {
                // Before this broker is unfenced, and may be told to lead.
                self.give_up_lost()?;
                self.of_life(|lifecycle| lifecycle.on_logs_open(now));
            }
            News::LogDirFailed { directory, is_home } => {
                self.of_life(|lifecycle| lifecycle.on_log_dir_failed(now, directory));
                if is_home && !std::mem::replace(&mut self.state.is_ending, true) {
                    self.say_last_word();
                }
            }
            News::Proposed => {
                for (key, proposal) in self.outbox.take() {
                    self.state.proposals.add(key, proposal);
                }
            }
            News::Dead(node) => self.suspect(now, node)?,
            News::ShutDown => self.of_life(|lifecycle| lifecycle.stop(now)),
            News::Stop => {}
        }
        Ok(())
    }

    /// Gives a command to whoever decides it.
    fn give(&mut self, asker: Asker, command: Command) -> Result<(), ControlFailed> {
        let now = self.clock.now();
        let pending =
            Pending { asker, give_up_at: now.elapsed + PATIENCE, command, asked: None, is_again: false };
        let id = self.state.waiting.add(pending);
        self.give_again(id)
    }

    fn give_again(&mut self, id: u64) -> Result<(), ControlFailed> {
        let now = self.clock.now();
        let Some(Pending { command, asker, .. }) = self.state.waiting.get(id) else { return Ok(()) };
        let is_remote = matches!(asker, Asker::Remote(_));
        let patience = if matches!(asker, Asker::Lifecycle) { LIFE_PATIENCE } else { PATIENCE };
        tracing::trace!(id, is_remote, active = self.controller.is_active(), to = ?self.state.active, ?command, "give");
        if let Command::Quorum(asked) = command
            && self.controller.is_active()
        {
            let asked = asked.clone();
            self.ask_quorum(id, asked);
            return Ok(());
        }
        if is_remote || self.controller.is_active() {
            self.controller.on_room(self.dirs.iter().any(|dir| dir.takes_more()));
            if let Some(count) = self.seat.brokers_expected() {
                self.controller.on_brokers_expected(count);
            }
            let command = command.clone();
            return self.step(|controller, out| controller.on_command(now, CommandId(id), &command, out));
        }
        let Some((active, link)) = self.link_to_active() else {
            // Nobody is known who decides; there will be somebody soon.
            self.on_nowhere(id, None);
            return Ok(());
        };
        let body = match body::of(command) {
            Ok(body) => body,
            Err(refusal) => {
                self.on_nowhere(id, Some(refusal));
                return Ok(());
            }
        };
        self.state.waiting.on_asked(id, active);
        let control = self.control.clone();
        self.cluster.spawn(async move {
            let asked = link.ask(wire::cluster::ClusterRequest::Command(&body), patience).await;
            let decided = match asked {
                Ok(answer) => serde_json::from_slice(&answer).ok(),
                Err(why) => {
                    debug!(%why, "a command got nowhere");
                    None
                }
            };
            control.tell(News::Answered { id, by: Some(active), decided });
        });
        Ok(())
    }

    /// The way to the node whose controller is the active one.
    fn link_to_active(&self) -> Option<(BrokerId, Arc<Link>)> {
        let active = self.state.active.filter(|active| *active != self.node)?;
        let by_quorum =
            || Some(self.links.to(active, Source::Quorum, address_of(&self.seat.voters(), active)?));
        Some((active, self.links.get(active).or_else(by_quorum)?))
    }

    /// Asks the quorum instead of the controller, which may take as long as a node takes to catch up.
    fn ask_quorum(&mut self, id: u64, command: QuorumCommand) {
        let Some(member) = self.seat.member() else { return self.on_nowhere(id, None) };
        let control = self.control.clone();
        let image = self.controller.image().clone();
        self.cluster.spawn(async move {
            let end = Offset::ZERO;
            let result = quorum::ask(member, image, command).await;
            control.tell(News::Answered {
                id,
                by: None,
                decided: Some(Decided { result, end, sure_ago: None }),
            });
        });
    }

    fn on_answered(
        &mut self,
        id: u64,
        by: Option<BrokerId>,
        decided: Option<Decided>,
    ) -> Result<(), ControlFailed> {
        let is_awaited = self.state.waiting.get(id).is_some_and(|pending| pending.asked == by);
        if !is_awaited && !matches!(decided, Some(Decided { result: Ok(_), .. })) {
            // Another is asked by now, and this one did nothing.
            return Ok(());
        }
        let fits = |pending: &Pending| match &decided {
            Some(Decided { result: Ok(reply), .. }) => pending.command.is_answered_by(reply),
            _ => true,
        };
        if self.state.waiting.get(id).is_some_and(|pending| !fits(pending)) {
            let why = "the active controller answers something else than what was asked".to_owned();
            self.on_nowhere(id, Some(ControllerError::Unknown(why)));
            return Ok(());
        }
        match decided {
            Some(decided) => self.on_decided(id, decided),
            None => {
                self.on_nowhere(id, None);
                Ok(())
            }
        }
    }

    /// A command was not decided by anybody. It is given again, unless that is somebody else's concern.
    fn on_nowhere(&mut self, id: u64, refusal: Option<ControllerError>) {
        let now = self.clock.now();
        let Some(pending) = self.state.waiting.get(id) else { return };
        let gives_up = match &pending.asker {
            Asker::Client { answer, .. } => answer.is_closed() || now.elapsed >= pending.give_up_at,
            Asker::Node(answer) => answer.is_closed(),
            // These have a time of their own.
            Asker::Lifecycle | Asker::Proposals | Asker::Remote(_) | Asker::Nobody => true,
        };
        if !gives_up && refusal.is_none() {
            return self.state.waiting.retry(id, now.elapsed + RETRY_AFTER);
        }
        let why = refusal.unwrap_or(ControllerError::NotController { active: self.state.active });
        let Some(pending) = self.state.waiting.take(id) else { return };
        match pending.asker {
            Asker::Lifecycle => {
                let told = self.live(|lifecycle, out| lifecycle.on_answer(now, Err(&why), out));
                if let Err(failed) = told {
                    warn!(%failed, "told of nothing");
                }
            }
            Asker::Proposals => self.on_in_sync_sets(now, None),
            asker => asker.refuse(why),
        }
    }

    fn on_decided(&mut self, id: u64, decided: Decided) -> Result<(), ControlFailed> {
        let Decided { result, end, sure_ago } = decided;
        let now = self.clock.now();
        tracing::trace!(id, ?result, %end, "decided");
        let is_remote = |pending: &Pending| matches!(pending.asker, Asker::Remote(_));
        let is_nowhere = matches!(result, Err(ControllerError::NotController { .. } | ControllerError::Busy));
        if is_nowhere && self.state.waiting.get(id).is_some_and(|pending| !is_remote(pending)) {
            self.on_nowhere(id, None);
            return Ok(());
        }
        let Some(pending) = self.state.waiting.take(id) else { return Ok(()) };
        if let Err(refused) = &result {
            debug!(%refused, "command refused");
        }
        match pending.asker {
            Asker::Client { answer, held } => match result {
                Ok(reply) if end > self.state.applied => {
                    self.state.waiting.decided(end, answer, held, reply);
                }
                // The client may have gone.
                result => drop(answer.send(result)),
            },
            Asker::Node(answer) => drop(answer.send(result)),
            Asker::Remote(answer) => drop(answer.send(Decided { result, end, sure_ago })),
            Asker::Lifecycle => {
                self.say_why_not(&result);
                let answer = result.as_ref().map(|reply| Answer { reply, end, sure_ago });
                self.live(|lifecycle, out| lifecycle.on_answer(now, answer, out))?;
                self.state.serves_from = self.state.serves_from.map(|from| from.max(end));
                self.serve_if_applied();
            }
            Asker::Proposals => self.on_sets_decided(now, result, end),
            Asker::Nobody => {}
        }
        Ok(())
    }

    /// Steps the controller, and does what it says.
    fn step(&mut self, act: impl FnOnce(&mut Controller, &mut Effects<Effect>)) -> Result<(), ControlFailed> {
        let mut out = Effects::new();
        act(&mut self.controller, &mut out);
        for effect in out.drain() {
            match effect {
                Effect::Propose(proposal) => {
                    tracing::trace!(epoch = %proposal.epoch, records = proposal.records.len(), "propose");
                    self.quorum.propose(proposal);
                }
                Effect::Answer { id, result, end } => {
                    let is_asked_for = matches!(result, Ok(Reply::BrokerHeartbeat(_)));
                    let member = self.seat.member().filter(|_| is_asked_for);
                    let sure_ago = member.and_then(|member| member.led_ago());
                    self.on_decided(id.0, Decided { result, end, sure_ago })?;
                }
                Effect::Changed(delta) => {
                    self.links.note_brokers(self.controller.image(), &delta.brokers_changed);
                    self.seat.forget_gone(self.controller.image(), &delta.brokers_changed);
                    self.tell_of_elections(&delta);
                    self.tell_hosting(Some(delta));
                }
                Effect::Silent { broker, silence } => {
                    warn!(%broker, silent_ms = silence.as_millis(), "fenced a broker that was not heard");
                }
            }
        }
        Ok(())
    }

    /// Has this node act on what changed, or only know how far the metadata goes.
    fn tell_hosting(&mut self, delta: Option<Delta>) {
        let end = self.controller.image().end();
        if delta.is_none() && end == self.state.told {
            return;
        }
        self.state.told = end;
        let image = Arc::new(self.controller.image().clone());
        // If that thread has ended, the node ends.
        let _ = self.hosting.send(Step::Changed { image, delta: Box::new(delta.unwrap_or_default()) });
    }
}
