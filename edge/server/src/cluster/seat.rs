//! The place of this node in the metadata quorum.
//!
//! ```text
//!   observer ── a leader calls it ─────────────────────────▶ member
//!   observer ◀── its vote is taken, or nobody calls it again ── member
//! ```
//!
//! One thread sees to it that it is one of the two, and goes on with the same log when it becomes the other.
//! Whoever is told of the metadata is told of each part once, in order, however often that changes.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread::JoinHandle;

use base::{BrokerId, Offset};
use bytes::Bytes;
use controller::{MetadataQuorum, Proposal, QuorumEvent};
use metadata::Image;
use metadata::settings::BrokerSettings;
use net::StopSwitch;
use parking_lot::Mutex;
use quorum::{
    Member, MemberStart, Observer, ObserverStart, OpenError, SnapshotEvery, Tell, Timing, Voter, is_call,
    refuse,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tracing::{debug, error, info};

use super::link::Source;
use super::links::Links;
use super::network::QuorumNetwork;
use super::observing::{self, Ended, Following};
use crate::log_dir::LogDirectory;

/// What a place in the quorum is made of.
pub(crate) struct SeatStart {
    pub(crate) settings: BrokerSettings,
    pub(crate) cluster_id: String,
    /// The directory with the metadata log.
    pub(crate) home: Arc<LogDirectory>,
    pub(crate) me: Voter,
    /// Whether its log names it a member; `None` without a log.
    pub(crate) is_member: Option<bool>,
    /// Who votes first, should there be no log: see [`MemberStart::voters`].
    pub(crate) founders: Vec<Voter>,
    /// Where messages to other nodes are carried.
    pub(crate) cluster: Handle,
    pub(crate) links: Arc<Links>,
    /// Who is told of the metadata.
    pub(crate) tell: Arc<dyn Fn(QuorumEvent) + Send + Sync>,
    /// Who is told that the node cannot go on, and why.
    pub(crate) on_failed: Box<dyn Fn(String) + Send + Sync>,
}

/// See the module.
pub(crate) struct Seat {
    start: SeatStart,
    place: Mutex<Place>,
    /// A leader takes this node for a member.
    called: Notify,
    stop: StopSwitch,
    /// Up to where the control thread was told.
    told: Arc<AtomicI64>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Whether it votes with a disk that it has not.
    lost_its_disk: AtomicBool,
}

/// What this node is to the quorum.
enum Place {
    Member(Arc<Member>),
    /// With those who vote, as far as it knows.
    Observer(Vec<Voter>),
}

/// What a node begins as.
enum Begun {
    Member(Arc<Member>),
    Observer(Box<Observer>),
}

/// Says that the quorum failed, if its thread panics.
struct FailsIfPanicking<'a>(&'a Seat);

impl Drop for FailsIfPanicking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0.start.on_failed)("its thread panicked".to_owned());
        }
    }
}

impl Seat {
    /// Takes the place that the log of this node gives it; a node without a log founds its cluster, or waits to
    /// be called. What is known to be committed is told before it returns.
    pub(crate) fn take(start: SeatStart) -> Result<Arc<Self>, OpenError> {
        let seat = Arc::new(Self {
            start,
            place: Mutex::new(Place::Observer(Vec::new())),
            called: Notify::new(),
            stop: StopSwitch::new(),
            told: Arc::default(),
            thread: Mutex::new(None),
            lost_its_disk: AtomicBool::new(false),
        });
        let begun = std::thread::scope(|scope| scope.spawn(|| seat.begin()).join());
        let begun = begun.map_err(|_| OpenError::Quorum("it failed".to_owned()))??;
        let running = Arc::clone(&seat);
        let thread = std::thread::Builder::new().name("quorum".to_owned()).spawn(move || running.run(begun));
        let thread = thread.map_err(|error| OpenError::Quorum(error.to_string()))?;
        *seat.thread.lock() = Some(thread);
        Ok(seat)
    }

    /// This node as a member of the quorum, if it is one.
    pub(crate) fn member(&self) -> Option<Arc<Member>> {
        match &*self.place.lock() {
            Place::Member(member) => Some(Arc::clone(member)),
            Place::Observer(_) => None,
        }
    }

    /// Who votes, as far as this node knows.
    pub(crate) fn voters(&self) -> Vec<Voter> {
        match &*self.place.lock() {
            Place::Member(member) => member.voters(),
            Place::Observer(voters) => voters.clone(),
        }
    }

    /// What this node was given at start.
    pub(crate) fn settings(&self) -> &BrokerSettings {
        &self.start.settings
    }

    /// How many brokers are known to be part of the cluster by who votes, before they register: those of
    /// `cluster.peers` whose vote was not taken. Who was not met yet is taken for what this node is: a broker, or one
    /// that only votes. Nobody knows on a node without a vote.
    pub(crate) fn brokers_expected(&self) -> Option<usize> {
        let SeatStart { settings, links, .. } = &self.start;
        let member = self.member()?;
        let is_broker = |id| links.get(id).and_then(|link| link.is_broker()).unwrap_or(settings.roles.broker);
        let peers = settings.cluster_peers.iter().map(|peer| peer.id);
        Some(peers.filter(|id| member.is_voter(*id) && is_broker(*id)).count())
    }

    /// Those of these brokers who are registered no more are not counted among those who follow.
    pub(crate) fn forget_gone(&self, image: &Image, brokers: &BTreeSet<BrokerId>) {
        let Some(member) = self.member() else { return };
        brokers.iter().filter(|id| image.broker(**id).is_none()).for_each(|id| member.forget_reader(*id));
    }

    /// Answers a message of another node's quorum.
    pub(crate) async fn handle(&self, request: Bytes) -> Bytes {
        if let Some(member) = self.member() {
            return member.handle(request).await;
        }
        let SeatStart { settings, cluster_id, me, .. } = &self.start;
        let why = match settings.roles.controller {
            false => "process.roles of this node has no controller: it does not vote",
            true => {
                if is_call(&request, cluster_id, me) {
                    self.called.notify_one();
                }
                "this node follows the metadata without a vote"
            }
        };
        refuse(me, why)
    }

    /// Has another lead the quorum, if this node does: it is about to stop, and nobody should have to find out by
    /// its silence.
    pub(crate) async fn hand_over(&self) {
        let Some(member) = self.member() else { return };
        // The quorum's runtime has what it takes.
        let handed = self.start.cluster.spawn(async move { member.hand_over().await }).await;
        match handed {
            Ok(Ok(Some(to))) => info!(%to, "handed the lead of the metadata over"),
            Ok(Ok(None)) | Err(_) => {}
            Ok(Err(why)) => debug!(%why, "did not hand the lead of the metadata over"),
        }
    }

    /// Ends an orderly life; blocks until all is on the disk.
    pub(crate) fn close(&self) {
        self.stop.stop();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic was reported by the panic hook.
            let _ = thread.join();
        }
    }

    /// Those who vote are these, as far as one knows who follows.
    fn note_voters(&self, voters: Vec<Voter>) {
        let me = &self.start.me;
        let other_disk = voters.iter().find(|voter| voter.id == me.id && !me.has_disk(voter.directory));
        let was_known = self.lost_its_disk.swap(other_disk.is_some(), Ordering::Relaxed);
        if let Some(voter) = other_disk.filter(|_| !was_known) {
            error!(
                votes_with = %voter.directory, has = %me.directory,
                "the disk with which this node votes on the metadata is gone: it follows without a vote; `vltava cluster \
                 add {}` gives its vote to the disk that it has now", me.id
            );
        }
        let mut place = self.place.lock();
        if matches!(&*place, Place::Observer(known) if *known != voters) {
            for voter in voters.iter().filter(|voter| voter.id != self.start.me.id) {
                self.start.links.to(voter.id, Source::Quorum, &voter.address);
            }
            *place = Place::Observer(voters);
        }
    }

    fn begin(&self) -> Result<Begun, OpenError> {
        let SeatStart { settings, home, cluster_id, is_member, founders, .. } = &self.start;
        let is_founder = || match settings.cluster_join.is_empty() {
            true if home.marks.lock().properties().joins => {
                Err(OpenError::NeverJoined { cluster: cluster_id.clone() })
            }
            is_founder => Ok(is_founder),
        };
        let is_member = (*is_member).map_or_else(is_founder, Ok)?;
        match settings.roles.controller && is_member {
            true => Ok(Begun::Member(self.join(founders.clone())?)),
            false => Ok(Begun::Observer(Box::new(self.observe()?))),
        }
    }

    fn run(&self, begun: Begun) {
        // A node whose metadata stand still would go on as if nothing had happened.
        let _fails = FailsIfPanicking(self);
        let mut begun = Ok(begun);
        loop {
            let (was_member, ended) = match begun {
                Ok(Begun::Member(member)) => (true, self.be_member(&member)),
                Ok(Begun::Observer(observer)) => (false, self.follow(*observer)),
                Err(why) => (false, Ended::Failed(OpenError::to_string(&why))),
            };
            begun = match ended {
                Ended::Stopped => return,
                Ended::Failed(why) => return (self.start.on_failed)(why),
                Ended::Changed if was_member => {
                    info!("this node has no vote on the metadata any more: it follows those who have one");
                    self.observe().map(|observer| Begun::Observer(Box::new(observer)))
                }
                Ended::Changed => {
                    info!("this node is to get a vote on the metadata");
                    self.join(Vec::new()).map(Begun::Member)
                }
            };
        }
    }

    fn follow(&self, observer: Observer) -> Ended {
        let SeatStart { settings, links, cluster, me, .. } = &self.start;
        let following = Following {
            me: me.id,
            settings,
            links,
            cluster,
            called: &self.called,
            stop: self.stop.watch(),
            note_voters: &|voters| self.note_voters(voters),
        };
        observing::run(&following, observer)
    }

    fn be_member(&self, member: &Arc<Member>) -> Ended {
        self.start.cluster.block_on(async {
            let mut stop = self.stop.watch();
            let ended = tokio::select! {
                why = member.stopped() => Ended::Failed(why.to_string()),
                () = member.left() => Ended::Changed,
                () = stop.stopped() => Ended::Stopped,
            };
            if matches!(ended, Ended::Changed) {
                *self.place.lock() = Place::Observer(member.voters());
            }
            member.close().await;
            ended
        })
    }

    fn join(&self, voters: Vec<Voter>) -> Result<Arc<Member>, OpenError> {
        let SeatStart { settings, cluster_id, home, me, cluster, links, .. } = &self.start;
        let timing = Timing {
            election_timeout: settings.quorum_election_timeout,
            heartbeat: settings.quorum_election_timeout / HEARTBEATS,
        };
        let start = MemberStart {
            disk: Arc::clone(&home.disk),
            log_dir: PathBuf::new(),
            me: me.clone(),
            cluster_id: cluster_id.clone(),
            voters,
            network: Arc::new(QuorumNetwork(Arc::clone(links))),
            timing,
            snapshot_every: self.snapshot_every(),
            tell: self.tell(),
        };
        let member = Arc::new(cluster.block_on(Member::start(start))?);
        *self.place.lock() = Place::Member(Arc::clone(&member));
        Ok(member)
    }

    fn observe(&self) -> Result<Observer, OpenError> {
        let SeatStart { settings, cluster_id, home, me, .. } = &self.start;
        let observer = Observer::open(ObserverStart {
            disk: Arc::clone(&home.disk),
            log_dir: PathBuf::new(),
            me: me.clone(),
            may_vote: settings.roles.controller,
            cluster_id: cluster_id.clone(),
            snapshot_every: self.snapshot_every(),
            tell: self.tell(),
        })?;
        self.note_voters(observer.voters());
        Ok(observer)
    }

    fn snapshot_every(&self) -> SnapshotEvery {
        let settings = &self.start.settings;
        SnapshotEvery {
            bytes: settings.metadata_snapshot_bytes,
            age: settings.metadata_snapshot_age,
            ..SnapshotEvery::default()
        }
    }

    /// Tells the control thread what it was not told before.
    fn tell(&self) -> Tell {
        let (tell, told) = (Arc::clone(&self.start.tell), Arc::clone(&self.told));
        Box::new(move |event| {
            let end = match &event {
                QuorumEvent::Committed(committed) => Some(committed.end),
                QuorumEvent::Snapshot(image) => Some(image.end()),
                QuorumEvent::Elected { .. } | QuorumEvent::Following { .. } => None,
            };
            let is_news = end.is_none_or(|end| end > Offset(told.fetch_max(end.0, Ordering::Relaxed)));
            if is_news {
                tell(event);
            }
        })
    }
}

/// How often a leader of the quorum lets itself be heard in one election timeout.
const HEARTBEATS: u32 = 5;

/// Proposes for the controller of this node, as long as it is a member.
pub(crate) struct SeatProposer(pub(crate) Arc<Seat>);

impl MetadataQuorum for SeatProposer {
    fn propose(&mut self, proposal: Proposal) {
        // Who is none does not lead, and the controller is told so.
        if let Some(member) = self.0.member() {
            member.proposer().propose(proposal);
        }
    }
}

/// Where a node of the quorum listens, if that is known.
pub(crate) fn address_of(voters: &[Voter], id: BrokerId) -> Option<&str> {
    voters.iter().find(|voter| voter.id == id).map(|voter| voter.address.as_str())
}
