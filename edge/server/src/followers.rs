//! Keeps the replicas of this node that follow close behind their leaders: two tasks a leader, on two threads
//! that do nothing else.
//!
//! ```text
//!   image changes, a disk has caught up ──▶ bell of the leader and lane ──▶ task: ask, append, ask on
//! ```
//!
//! Replicas that keep up and those that catch up have a lane each, since producers wait for those that keep up:
//! they must not wait for the megabytes of the others, neither on the connection nor for a core.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::{BrokerEpoch, BrokerId};
use broker::host::HostedPartition;
use broker::replication::{Fetcher, FetcherError, FetcherLimits, Hurry, LeaderAnswer, Next, PartitionKey};
use net::{FrameError, FrameLimits, FrameReader, MemoryBudget};
use parking_lot::Mutex;
use replica::{FollowError, FollowerId, Lane, NextFetch};
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use crate::clock::Clock;
use crate::cluster::identity::Identity;
use crate::cluster::link::{LinkError, connect_for_records};
use crate::complaints::Complaints;
use crate::partition::PartitionCell;
use crate::requests::{FetchBell, LeaderBells};
use crate::table::PartitionTable;
use crate::throttles::Throttles;

/// How long a task waits for disks of this node that are behind before it asks for the rest without them.
const BEHIND_MAX: Duration = Duration::from_millis(100);

/// How long a leader may take beyond what it was allowed to wait.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long to wait before a leader that cannot be reached is tried again.
const RECONNECT_AFTER: Duration = Duration::from_millis(50);
const RECONNECT_AFTER_MAX: Duration = Duration::from_secs(1);

/// How long to wait before a replica is asked for again that there is no room for. What comes is thrown away, a whole
/// answer each time; deletions that make room may wait as long.
const FULL_PAUSE: Duration = Duration::from_secs(5);

/// Everything that the tasks share.
pub(crate) struct Followers {
    pub(crate) identity: Arc<Identity>,
    pub(crate) table: Arc<PartitionTable>,
    pub(crate) clock: Clock,
    pub(crate) limits: FetcherLimits,
    pub(crate) throttles: Arc<Throttles>,
    pub(crate) lanes: Lanes,
    pub(crate) complaints: Complaints,
    state: Mutex<State>,
}

/// Where the tasks of each lane run.
#[derive(Debug, Clone)]
pub(crate) struct Lanes {
    pub(crate) keeping_up: tokio::runtime::Handle,
    pub(crate) catching_up: tokio::runtime::Handle,
}

impl Lanes {
    fn of(&self, lane: Lane) -> &tokio::runtime::Handle {
        match lane {
            Lane::KeepingUp => &self.keeping_up,
            Lane::CatchingUp => &self.catching_up,
        }
    }
}

struct State {
    epoch: BrokerEpoch,
    leaders: BTreeMap<BrokerId, Leader>,
}

struct Leader {
    bells: Arc<LeaderBells>,
    address: Arc<Mutex<String>>,
    tasks: [tokio::task::JoinHandle<()>; Lane::ALL.len()],
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

impl Followers {
    pub(crate) fn new(
        identity: Arc<Identity>,
        table: Arc<PartitionTable>,
        clock: Clock,
        (limits, throttles): (FetcherLimits, Arc<Throttles>),
        lanes: Lanes,
    ) -> Self {
        let state = State { epoch: BrokerEpoch::NONE, leaders: BTreeMap::new() };
        let complaints = Complaints::default();
        Self { identity, table, clock, limits, throttles, lanes, complaints, state: Mutex::new(state) }
    }

    /// A new life of this broker has begun: leaders are to know (KIP-903).
    pub(crate) fn on_registered(self: &Arc<Self>, epoch: BrokerEpoch) {
        let mut state = self.state.lock();
        state.epoch = epoch;
        // What an earlier life said of itself is not believed any more: all begin anew.
        let ended = std::mem::take(&mut state.leaders);
        for (leader, it) in ended {
            let address = it.address.lock().clone();
            let begun = self.begin(leader, epoch, address);
            for lane in Lane::ALL {
                it.bells.of(lane).take().into_iter().for_each(|key| begun.bells.ring_all(key));
            }
            state.leaders.insert(leader, begun);
        }
    }

    /// The bells of a leader that listens at an address.
    pub(crate) fn of(self: &Arc<Self>, leader: BrokerId, address: &str) -> Arc<LeaderBells> {
        let mut state = self.state.lock();
        if let Some(known) = state.leaders.get(&leader) {
            address.clone_into(&mut known.address.lock());
            return Arc::clone(&known.bells);
        }
        let begun = self.begin(leader, state.epoch, address.to_owned());
        let bells = Arc::clone(&begun.bells);
        state.leaders.insert(leader, begun);
        bells
    }

    /// Until when a replica of this node is not filled any further, if somebody limits it.
    fn rests_until(&self, cell: &PartitionCell) -> Option<Duration> {
        let is_held_back = self.throttles.hold_back(cell);
        is_held_back.then(|| self.throttles.follower.lock().until(self.clock.now())).flatten()
    }

    /// Ends the tasks of leaders that are gone.
    pub(crate) fn retain(&self, leads: impl Fn(BrokerId) -> bool) {
        self.state.lock().leaders.retain(|leader, _| leads(*leader));
    }

    fn begin(self: &Arc<Self>, leader: BrokerId, epoch: BrokerEpoch, address: String) -> Leader {
        let bells = Arc::new(LeaderBells::default());
        let address = Arc::new(Mutex::new(address));
        let me = FollowerId { broker: self.identity.node, epoch };
        let tasks = Lane::ALL.map(|lane| {
            let task = Task {
                followers: Arc::downgrade(self),
                leader,
                lane,
                fetcher: Fetcher::new(me, self.limits),
                bells: Arc::clone(&bells),
                hurry: Hurry::default(),
                correlation_id: 0,
            };
            self.lanes.of(lane).spawn(task.run(Arc::clone(&address)))
        });
        Leader { bells, address, tasks }
    }
}

/// Follows one leader, in one lane.
struct Task {
    followers: Weak<Followers>,
    leader: BrokerId,
    lane: Lane,
    fetcher: Fetcher,
    bells: Arc<LeaderBells>,
    hurry: Hurry,
    correlation_id: i32,
}

/// A connection to the leader.
struct Wire {
    reader: FrameReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("write: {0}")]
    Write(#[from] std::io::Error),
    #[error(transparent)]
    Fetcher(#[from] FetcherError),
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("there is something new to ask for")]
    Hurried,
    #[error("there is nothing to ask for any more")]
    Idle,
    #[error("the node stops")]
    Stopped,
}

impl Task {
    async fn run(mut self, address: Arc<Mutex<String>>) {
        let mut pause = RECONNECT_AFTER;
        loop {
            self.wait_for_work().await;
            let to = address.lock().clone();
            let ended = match self.connect(&to).await {
                Ok(wire) => {
                    debug!(leader = %self.leader, address = to, "following");
                    pause = RECONNECT_AFTER;
                    self.follow(wire).await
                }
                Err(ended) => ended,
            };
            self.fetcher.on_disconnected();
            let Some(followers) = self.followers.upgrade() else { return };
            if let Ended::Hurried = ended {
                self.hurry.on_given_up(followers.clock.now().elapsed);
                continue;
            }
            self.hurry.on_disconnected();
            if let Ended::Idle = ended {
                continue;
            }
            if let Some(unsaid) = followers.complaints.next(followers.clock.now().elapsed) {
                info!(leader = %self.leader, address = to, why = %ended, unsaid, "not following for now");
            }
            drop(followers);
            sleep(pause).await;
            pause = (pause * 2).min(RECONNECT_AFTER_MAX);
        }
    }

    /// Waits until there is a partition to ask for.
    async fn wait_for_work(&mut self) {
        loop {
            let now = {
                let Some(followers) = self.followers.upgrade() else { return };
                self.look(&followers);
                followers.clock.now().elapsed
            };
            if self.fetcher.due_at().is_some_and(|at| at <= now) {
                return;
            }
            self.rest(now).await;
        }
    }

    async fn connect(&self, address: &str) -> Result<Wire, Ended> {
        let followers = self.followers.upgrade().ok_or(Ended::Stopped)?;
        let stream = connect_for_records(&followers.identity, self.leader, address).await?;
        let (read, writer) = stream.into_split();
        let answer = u32::try_from(followers.limits.response_bytes_max).unwrap_or(0);
        // One batch comes whole, whatever its size, and the answer has a frame around it.
        let bytes_max = answer.saturating_add(256 << 20);
        let limits = FrameLimits { bytes_max, ..FrameLimits::default() };
        Ok(Wire { reader: FrameReader::new(read, limits, &MemoryBudget::new(u64::MAX)), writer })
    }

    /// Asks and appends until something goes wrong.
    async fn follow(&mut self, mut wire: Wire) -> Ended {
        loop {
            self.wait_for_disks().await;
            let (frame, now) = {
                let Some(followers) = self.followers.upgrade() else { return Ended::Stopped };
                let now = followers.clock.now();
                self.correlation_id = self.correlation_id.wrapping_add(1) & i32::MAX;
                (self.fetcher.request(now, self.correlation_id), now)
            };
            match frame {
                Ok(Some(frame)) => match self.ask(&mut wire, &frame.bytes).await {
                    Ok(()) => {}
                    Err(ended) => return ended,
                },
                Ok(None) if self.fetcher.due_at().is_none() && !self.fetcher.is_behind() => {
                    return Ended::Idle;
                }
                Ok(None) => self.rest(now.elapsed).await,
                Err(why) => {
                    // A request is a few bytes for each partition: more than 2 GiB of them cannot be.
                    warn!(leader = %self.leader, %why, "cannot ask the leader");
                    return Ended::Stopped;
                }
            }
        }
    }

    fn bell(&self) -> &FetchBell {
        self.bells.of(self.lane)
    }

    /// Waits until something is to be asked for again.
    async fn rest(&mut self, now: Duration) {
        let Some(at) = self.fetcher.due_at() else { return self.bell().rung().await };
        let pause = at.saturating_sub(now).max(Duration::from_millis(1));
        let _ = timeout(pause, self.bell().rung()).await;
    }

    /// Waits a while for the disks that have to catch up before their partitions are asked for.
    async fn wait_for_disks(&mut self) {
        let deadline = Instant::now() + BEHIND_MAX;
        loop {
            {
                let Some(followers) = self.followers.upgrade() else { return };
                self.look(&followers);
            }
            if !self.fetcher.is_behind() {
                return;
            }
            if tokio::time::timeout_at(deadline, self.bell().rung()).await.is_err() {
                return;
            }
        }
    }

    /// Looks at the partitions for which the bell rang.
    fn look(&mut self, followers: &Followers) {
        for key in self.bell().take() {
            let cell = followers.table.get(key.0, key.1);
            let next = cell.as_ref().map(|cell| cell.next_fetch(self.leader, self.lane));
            self.fetcher.set(key, next.unwrap_or(NextFetch::Nothing));
            self.fetcher.hold(key, cell.and_then(|cell| followers.rests_until(&cell)));
        }
    }

    async fn ask(&mut self, wire: &mut Wire, frame: &[u8]) -> Result<(), Ended> {
        wire.writer.write_all(frame).await?;
        let (patience, clock) = {
            let followers = self.followers.upgrade().ok_or(Ended::Stopped)?;
            (followers.limits.wait_max + ANSWER_MAX, followers.clock)
        };
        let (bell, hurry) = (self.bells.of(self.lane), &mut self.hurry);
        let hurried = async {
            bell.hurried().await;
            let now = clock.now().elapsed;
            sleep(hurry.on_news(now).saturating_sub(now)).await;
        };
        let answer = tokio::select! {
            biased;
            answer = timeout(patience, wire.reader.next()) => answer,
            () = hurried => return Err(Ended::Hurried),
        };
        let answer = answer.map_err(|_| Ended::Late(patience))??;
        self.hurry.on_answer();
        let followers = self.followers.upgrade().ok_or(Ended::Stopped)?;
        let now = followers.clock.now();
        let (leader, lane) = (self.leader, self.lane);
        let mut each = |key: PartitionKey, answer: LeaderAnswer<'_>| {
            let Some(cell) = followers.table.get(key.0, key.1) else {
                return Next { fetch: NextFetch::Nothing, has_failed: false, rests_until: None };
            };
            let next = catch_unwind(AssertUnwindSafe(|| step(&followers, &cell, (leader, lane), answer)));
            next.unwrap_or_else(|_| {
                // Nothing is known of that one any more; the others are followed on.
                cell.retire();
                Next { fetch: NextFetch::Nothing, has_failed: false, rests_until: None }
            })
        };
        self.fetcher.on_answer(now, self.correlation_id, answer, &mut each)?;
        Ok(())
    }
}

/// Does what a leader said of a partition. What is next.
pub(crate) fn step(
    followers: &Followers,
    cell: &PartitionCell,
    (leader, lane): (BrokerId, Lane),
    answer: LeaderAnswer<'_>,
) -> Next {
    let now = followers.clock.now();
    let mut full_until = None;
    let done = match answer {
        LeaderAnswer::Fetched(mut said) => {
            if !said.records.is_empty() && !cell.has_room() {
                // What the leader says besides is taken in: what was deleted there makes room here.
                said.records = &[];
                full_until = Some(now.elapsed + FULL_PAUSE);
            }
            if followers.throttles.hold_back(cell) {
                followers.throttles.follower.lock().charge(now, said.records.len() as u64);
            }
            cell.act(|partition, out| partition.on_fetched(now, &said, out).map(drop))
        }
        LeaderAnswer::OutOfRange { epoch, start, end } => {
            cell.act(|partition, out| partition.on_out_of_range(epoch, (start, end), out))
        }
        LeaderAnswer::Refused(code) => {
            debug!(partition = %cell.name, %leader, %code, "the leader refuses; it is asked again");
            let fetch = cell.next_fetch(leader, lane);
            return Next { fetch, has_failed: true, rests_until: None };
        }
    };
    if let Err(why @ (FollowError::CommittedDiverges { .. } | FollowError::Unusable(_))) = &done
        && let Some(unsaid) = followers.complaints.next(now.elapsed)
    {
        warn!(partition = %cell.name, %leader, %why, unsaid, "this replica cannot follow");
    }
    let rests_until = followers.rests_until(cell).max(full_until);
    Next { fetch: cell.next_fetch(leader, lane), has_failed: done.is_err(), rests_until }
}
