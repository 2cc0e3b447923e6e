//! One process of a node: the stepped machines of `core/`, wired as `edge/server` wires them, in one thread.
//!
//! ```text
//!   frames, what the quorum tells, time ─▶ Process ─▶ Act: frames, proposals, flushes, its own end
//!                                            │
//!        controller · lifecycle · partitions · sessions · fetchers · proposals
//! ```
//!
//! **Invariant:** it acts on the metadata only once it has seen its own registration in them: what it was
//! before its last end is not what it is.

pub(crate) mod cell;

pub(crate) mod boot; // from a disk to a process
mod command; // to the active controller
mod compact; // logs that keep of each key the last
mod doors; // what its requests see
mod follow; // from leaders
mod home; // where logs lie
mod host; // logs, as the metadata say
mod keep; // flushes, checkpoints, and the end
mod serve; // requests
mod shard_cell;
pub(crate) mod shards; // of the group coordinator

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use base::{BrokerEpoch, BrokerId, Effects, LeaderEpoch, Now, Offset, PartitionIndex};
use broker::call::{Context, Session};
use broker::lifecycle::{self, Lifecycle};
use broker::parked::WaiterId;
use broker::replication::{FetcherLimits, Proposals};
use controller::{Controller, Proposal, QuorumEvent};
use coordinator::ShardSettings;
use metadata::Image;
use metadata::settings::BrokerSettings;
use records::Scratch;
use storage::Flush;
use storage::disk::Disk;

use super::net::{ConnId, Place, Purpose};
use super::plant::Plant;
use cell::{Cell, Outbox};
use doors::Doors;

pub(crate) use broker::replication::PartitionKey;

/// The cluster that all nodes belong to.
pub(crate) const CLUSTER: &str = "5L6g3nShT-eMCtK--X86sw";

/// What a process wants the world to do, in order.
#[derive(Debug)]
pub(crate) enum Act {
    Connect {
        conn: ConnId,
        to: Place,
        purpose: Purpose,
    },
    Send {
        conn: ConnId,
        frame: Vec<u8>,
    },
    Close(ConnId),
    Propose(Proposal),
    Flush(PartitionKey),
    /// The log of a shard is to be read on, in the epoch in which it is led.
    Load(PartitionIndex, LeaderEpoch),
    /// A replica cut the end of its log off.
    Truncated {
        key: PartitionKey,
        from: Offset,
        to: Offset,
        committed: Offset,
    },
    /// A leader is about to ask that these be in sync, too.
    Asks {
        joiners: Vec<BrokerId>,
    },
    Say(String),
    /// A replica that was damaged begins with an empty log.
    BeginAnew(PartitionKey),
    /// The process ends; in an orderly way, or because it cannot go on.
    Exit {
        is_clean: bool,
    },
}

/// How a process is set up; the same for all of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// `replica.lag.time.max.ms`.
    pub(crate) lag_max: Duration,
    /// How often checkpoints are written.
    pub(crate) checkpoint_every: Duration,
    /// How long an answer of another node is waited for.
    pub(crate) patience: Duration,
    /// How long after something went wrong it is tried again.
    pub(crate) retry_after: Duration,
    pub(crate) fetcher: FetcherLimits,
}

/// See the module.
pub(crate) struct Process {
    pub(crate) node: usize,
    pub(crate) life: u32,
    id: BrokerId,
    settings: BrokerSettings,
    times: Times,
    plant: Option<Plant>,
    disk: Arc<dyn Disk>,
    homes: Vec<home::Home>,
    controller: Controller,
    decided: Effects<controller::Effect>,
    /// Whose controller is active, as the quorum said last.
    active: Option<BrokerId>,
    /// When it was last certain that this node leads the quorum, as a majority answered it.
    pub(crate) led_at: Option<Duration>,
    pub(crate) image: Arc<Image>,
    lifecycle: Option<Lifecycle>,
    lived: Effects<lifecycle::Effect>,
    pub(crate) epoch: Option<BrokerEpoch>,
    /// Whether it has seen itself in the metadata and acts on them.
    pub(crate) is_acting: bool,
    pub(crate) cells: BTreeMap<PartitionKey, Arc<Cell>>,
    doors: Arc<Doors>,
    pub(crate) outbox: Arc<Outbox>,
    placing: host::Placing,
    offline: BTreeMap<PartitionKey, host::Offline>,
    incoming: BTreeMap<ConnId, serve::Incoming>,
    waiters: BTreeMap<WaiterId, ConnId>,
    commands: command::Commands,
    follows: BTreeMap<follow::Whom, follow::Follow>,
    /// Whom each partition follows, and in which lane.
    followed: BTreeMap<PartitionKey, follow::Whom>,
    proposals: Proposals,
    proposals_at: Option<Duration>,
    flushes: BTreeMap<PartitionKey, Flushing>,
    /// Where stored records may be damaged.
    suspects: BTreeMap<PartitionKey, Offset>,
    shard_settings: ShardSettings,
    loads: BTreeMap<PartitionIndex, shards::Load>,
    compacting: Option<compact::Compacting>,
    /// What a planted bug has to remember.
    pub(crate) heard: super::plant::Heard,
    upkeep: keep::Upkeep,
    conn_next: u64,
    waiter_next: u64,
    scratch: Scratch,
    acts: VecDeque<Act>,
    has_ended: bool,
}

/// The flushes of one partition: one at a time.
#[derive(Debug, Default)]
struct Flushing {
    is_asked: bool,
    /// Whether tables are to be brought to the disk, too.
    for_checkpoint: bool,
    running: Option<Flush>,
}

impl Process {
    /// What it wants done since the last call.
    pub(crate) fn take_acts(&mut self) -> VecDeque<Act> {
        std::mem::take(&mut self.acts)
    }

    fn say(&mut self, what: String) {
        self.acts.push_back(Act::Say(what));
    }

    fn context(&self, now: Now) -> Context<'_> {
        *cell::lock(&self.doors.clock) = now;
        let in_touch_until = match self.plant {
            Some(Plant::OutOfTouchSpeaks) => Some(Duration::MAX),
            _ => self.lifecycle.as_ref().map(Lifecycle::in_touch_until),
        };
        *cell::lock(&self.doors.in_touch_until) = in_touch_until.unwrap_or_default();
        Context {
            node: self.id,
            cluster_id: CLUSTER,
            settings: &self.settings,
            image: &self.image,
            host: &*self.doors,
            now,
        }
    }

    fn session(&mut self, conn: ConnId, peer: broker::call::Peer) -> Session {
        self.waiter_next += 1;
        let id = WaiterId(self.waiter_next);
        self.waiters.insert(id, conn);
        let bell = Arc::new(cell::Bell { id, outbox: Arc::clone(&self.outbox) });
        Session::new(broker::parked::Waiter { id, bell }, peer)
    }

    fn new_conn(&mut self) -> ConnId {
        self.conn_next += 1;
        let number = u64::from(self.life) << 32 | self.conn_next;
        ConnId { owner: Place::Node(self.node), number }
    }

    /// The quorum tells something.
    pub(crate) fn on_quorum(&mut self, now: Now, event: QuorumEvent) {
        match &event {
            QuorumEvent::Following { leader, .. } => self.active = *leader,
            QuorumEvent::Elected { .. } => self.active = Some(self.id),
            QuorumEvent::Committed(_) | QuorumEvent::Snapshot(_) => {}
        }
        if let QuorumEvent::Following { .. } | QuorumEvent::Elected { .. } = &event {
            self.drop_control_link(now);
        }
        let before = self.controller.image().end();
        self.controller.on_event(now, event, &mut self.decided);
        if self.controller.image().end() != before {
            // What changed nothing that must be acted on is told to nobody, and moves the end all the same.
            self.on_image(now);
        }
        self.settle(now);
    }

    /// It is time.
    pub(crate) fn on_tick(&mut self, now: Now) {
        self.controller.on_tick(now, &mut self.decided);
        if let Some(lifecycle) = &mut self.lifecycle {
            lifecycle.on_tick(now, &mut self.lived);
        }
        self.keep_house(now);
        self.keep_shards(now);
        self.look_at_late(now);
        self.settle(now);
    }

    /// When it has something to do although nothing happens.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let lifecycle = self.lifecycle.as_ref().and_then(Lifecycle::deadline);
        let all = [
            self.controller.deadline(),
            lifecycle,
            self.upkeep_deadline(),
            self.shards_deadline(),
            self.serve_deadline(),
            self.command_deadline(),
            self.follow_deadline(),
        ];
        all.into_iter().flatten().min()
    }

    /// Does what all that happened asks for, until nothing is left.
    fn settle(&mut self, now: Now) {
        while !self.has_ended {
            if let Some((key, effect)) = self.outbox.next_effect() {
                self.perform(now, key, effect);
            } else if let Some(key) = self.outbox.next_start() {
                self.ask_for_start(now, key);
            } else if let Some(shard) = self.outbox.next_rung() {
                self.on_rung(now, shard);
            } else if let Some(decided) = first(&mut self.decided) {
                self.on_decided(now, decided);
            } else if let Some(lived) = first(&mut self.lived) {
                self.on_lived(now, lived);
            } else {
                let woken = self.outbox.take_woken();
                if woken.is_empty() && !self.hand_on(now) {
                    return;
                }
                for id in woken {
                    if let Some(conn) = self.waiters.get(&id).copied() {
                        self.answer(now, conn, true);
                    }
                }
            }
        }
    }

    /// Sends what has gathered; whether anything was sent.
    fn hand_on(&mut self, now: Now) -> bool {
        let sent = self.acts.len();
        self.take_roles(now);
        self.say_counted();
        self.place(now);
        self.propose(now);
        self.follow(now);
        self.acts.len() > sent || !self.decided.is_empty()
    }

    fn on_decided(&mut self, now: Now, effect: controller::Effect) {
        match effect {
            controller::Effect::Propose(proposal) => self.acts.push_back(Act::Propose(proposal)),
            controller::Effect::Answer { id, result, end } => self.on_answered(now, id.0, result, end),
            controller::Effect::Changed(delta) => self.on_changed(now, &delta),
            controller::Effect::Silent { broker, silence } => {
                self.say(format!("broker {broker} was silent for {silence:?}"));
            }
        }
    }

    fn on_lived(&mut self, now: Now, effect: lifecycle::Effect) {
        match effect {
            lifecycle::Effect::Send(command) => self.give(now, command::Asker::Lifecycle, &command),
            lifecycle::Effect::Registered(epoch) => {
                self.say(format!("registered with epoch {epoch}"));
                self.epoch = Some(epoch);
                if self.plant == Some(Plant::CleanMarkKept) {
                    self.homes.iter_mut().for_each(|home| drop(home.dir.mark_clean(epoch.0)));
                }
                self.on_image(now);
            }
            lifecycle::Effect::Serving => self.say("serves".to_owned()),
            lifecycle::Effect::MayStop { .. } => self.end_in_order(now),
            lifecycle::Effect::Replaced(why) => self.fail(format!("replaced: {why}")),
        }
    }

    /// It cannot go on.
    fn fail(&mut self, why: String) {
        if !self.has_ended {
            self.say(format!("ends: {why}"));
            // What else was done to logs was done.
            while let Some((key, effect)) = self.outbox.next_effect() {
                if let broker::host::Effect::Truncated { from, to, committed } = effect {
                    self.acts.push_back(Act::Truncated { key, from, to, committed });
                }
            }
            self.acts.push_back(Act::Exit { is_clean: false });
            self.has_ended = true;
        }
    }

    /// It is asked to stop, as by SIGTERM.
    pub(crate) fn stop(&mut self, now: Now) {
        match &mut self.lifecycle {
            Some(lifecycle) => lifecycle.stop(now),
            None => self.fail("stopped before it began".to_owned()),
        }
        self.settle(now);
    }
}

/// The first effect that was not performed; those behind it stay.
fn first<E>(effects: &mut Effects<E>) -> Option<E> {
    let mut all: VecDeque<E> = effects.drain().collect();
    let first = all.pop_front();
    all.into_iter().for_each(|effect| effects.push(effect));
    first
}
