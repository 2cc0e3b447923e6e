//! The way to one other node: requests out, answers in, in any order.
//!
//! Several may say where the node listens ([`Source`]), and it may have been moved since: it is looked for at all
//! of these addresses, and whoever answers has to be that node of this cluster.
//!
//! A connection is made when it is first needed, and made anew after it broke. Who asks while there is
//! none hears so at once if the node refuses connections: that is how others learn that it died. Who gives up
//! meanwhile leaves it to be made for those who ask next.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use base::{BrokerId, Uuid};
use net::{FrameError, FrameLimits, FrameReader, MemoryBudget};
use parking_lot::Mutex;
use quorum::Voter;
use rustix::net::sockopt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use wire::cluster::{ClusterRequest, Purpose, Welcome, decode_answer};

use super::identity::{Identity, Met, Refusal};

/// How long a connection may take to be made, the greeting included.
const CONNECT_MAX: Duration = Duration::from_secs(1);

/// How long a process may take to end, and how often it is looked whether it has.
const ENDING_MAX: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How long the other machine may acknowledge nothing of what it was sent.
const SILENT_MAX: Duration = Duration::from_secs(3);

/// How often a machine of which nothing is wanted is asked whether it is there.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// How long the address that was best before is tried alone.
const AHEAD: Duration = Duration::from_millis(20);

/// Requests that wait to be written. The quorum has few in flight, and commands wait for their answers.
const WAITING_MAX: usize = 1024;

/// What one frame between nodes may take: a part of a snapshot, or a command with ten thousand partitions.
pub(crate) const FRAME_BYTES_MAX: u32 = 64 << 20;

/// What a greeting may take: it names those who vote.
const WELCOME_BYTES_MAX: usize = 64 << 10;

/// Why there is no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum LinkError {
    /// Nobody listens where the node should: its process is gone.
    #[error("node {node} refuses connections at {address}")]
    Dead { node: BrokerId, address: String },
    /// It cannot be reached.
    #[error("node {node} cannot be reached at {address}: {why}")]
    Unreachable { node: BrokerId, address: String, why: String },
    /// It is not who it should be, or does not want to speak.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The connection broke before the answer came: what was asked may be done, or not.
    #[error("the connection to node {0} broke")]
    Broken(BrokerId),
    /// No answer in time: what was asked may be done, or not.
    #[error("node {0} did not answer in time")]
    Late(BrokerId),
}

/// Who says where a node listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// The node itself, when it asked something.
    Said,
    /// A node of `cluster.join`.
    Told,
    /// The node, when it registered as a broker.
    Registered,
    /// The quorum's log, or one who knows it.
    Quorum,
    /// The settings of this node.
    Settings,
}

/// See the module.
pub(crate) struct Link {
    identity: Arc<Identity>,
    node: BrokerId,
    addresses: Mutex<Addresses>,
    /// Whether the node is a broker, as it said when it was met last.
    is_broker: Mutex<Option<bool>>,
    way: Mutex<Way>,
}

/// What there is of a connection.
#[derive(Default)]
enum Way {
    #[default]
    None,
    /// One is being made: this will tell.
    Making(Making),
    Open(Arc<Open>),
}

type Making = watch::Receiver<Option<Result<Arc<Open>, LinkError>>>;

/// Where a node may be.
#[derive(Debug, Default)]
struct Addresses {
    by: BTreeMap<Source, String>,
    /// Where it was met last.
    met_at: Option<String>,
}

impl Addresses {
    /// Each once, the likeliest first.
    fn all(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let is_said = |address: &&String| self.by.values().any(|by| by == *address);
        for address in self.met_at.iter().filter(is_said).chain(self.by.values()) {
            if !all.contains(address) {
                all.push(address.clone());
            }
        }
        all
    }
}

/// A connection that was made.
struct Open {
    out: mpsc::Sender<Vec<u8>>,
    next: AtomicI32,
    awaited: Arc<Awaited>,
}

/// Who waits for an answer, by correlation id. Bounded by those who ask, each of whom waits for a while.
#[derive(Default)]
struct Awaited {
    broken: AtomicBool,
    waiting: Mutex<BTreeMap<i32, oneshot::Sender<Vec<u8>>>>,
}

impl Link {
    pub(crate) fn new(identity: Arc<Identity>, node: BrokerId) -> Self {
        let (addresses, is_broker, way) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { identity, node, addresses, is_broker, way }
    }

    /// The node listens here, as somebody says.
    pub(crate) fn note(&self, source: Source, address: &str) {
        let mut addresses = self.addresses.lock();
        // Who listens nowhere says an empty one.
        if !address.is_empty() && addresses.by.get(&source).is_none_or(|by| by != address) {
            addresses.by.insert(source, address.to_owned());
        }
    }

    /// Whether the node is a broker; `None` if it was not met yet.
    pub(crate) fn is_broker(&self) -> Option<bool> {
        *self.is_broker.lock()
    }

    /// Asks, and waits for the answer at most so long.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        request: ClusterRequest<'_>,
        patience: Duration,
    ) -> Result<Vec<u8>, LinkError> {
        match timeout(patience, self.ask_on(request)).await {
            Ok(answered) => answered,
            Err(_) => Err(LinkError::Late(self.node)),
        }
    }

    async fn ask_on(self: &Arc<Self>, request: ClusterRequest<'_>) -> Result<Vec<u8>, LinkError> {
        let broken = || LinkError::Broken(self.node);
        let open = self.opened().await?;
        let correlation_id = open.next.fetch_add(1, Ordering::Relaxed);
        let frame = request.encode(correlation_id).map_err(|_| broken())?;
        let (sender, answer) = oneshot::channel();
        let place = open.awaited.wait(correlation_id, sender).ok_or_else(broken)?;
        open.out.send(frame).await.map_err(|_| broken())?;
        let answer = answer.await.map_err(|_| broken());
        drop(place);
        answer
    }

    async fn opened(self: &Arc<Self>) -> Result<Arc<Open>, LinkError> {
        let mut making = {
            let mut way = self.way.lock();
            match &*way {
                Way::Open(open) if !open.awaited.broken.load(Ordering::Acquire) => {
                    return Ok(Arc::clone(open));
                }
                // If whoever makes it is gone, nobody will tell.
                Way::Making(making) if making.has_changed().is_ok() => making.clone(),
                Way::Making(_) | Way::Open(_) | Way::None => {
                    let making = self.make();
                    *way = Way::Making(making.clone());
                    making
                }
            }
        };
        let made = making.wait_for(Option::is_some).await.map(|made| made.clone());
        made.ok().flatten().unwrap_or(Err(LinkError::Broken(self.node)))
    }

    /// Makes a connection, whether those who wait for it go on waiting or not.
    fn make(self: &Arc<Self>) -> Making {
        let (tell, making) = watch::channel(None);
        let link = Arc::clone(self);
        tokio::spawn(async move {
            let made = link.connect().await.map(|stream| Arc::new(open(stream)));
            *link.way.lock() = made.as_ref().map_or(Way::None, |open| Way::Open(Arc::clone(open)));
            tell.send_replace(Some(made));
        });
        making
    }

    /// Connects to the node where it answers first.
    async fn connect(&self) -> Result<TcpStream, LinkError> {
        let addresses = self.addresses.lock().all();
        let mut tries = JoinSet::new();
        for (place, address) in addresses.into_iter().enumerate() {
            let (identity, node) = (Arc::clone(&self.identity), self.node);
            let ahead = if place == 0 { Duration::ZERO } else { AHEAD };
            tries.spawn(async move {
                sleep(ahead).await;
                let made = connect(&identity, node, &address, Purpose::Control).await;
                made.map(|(stream, met)| (stream, met, address))
            });
        }
        let mut failures = Vec::new();
        while let Some(tried) = tries.join_next().await {
            match tried {
                Ok(Ok((stream, met, address))) => {
                    *self.is_broker.lock() = Some(met.is_broker);
                    self.addresses.lock().met_at = Some(address);
                    return Ok(stream);
                }
                Ok(Err(why)) => failures.push(why),
                Err(_) => {}
            }
        }
        Err(verdict(self.node, failures))
    }

    /// Whether nobody listens where the node should. A process that ends closes its sockets one after the
    /// other: who is let in and told nothing looks again.
    pub(crate) async fn is_dead(&self) -> bool {
        let until = Instant::now() + ENDING_MAX;
        loop {
            match self.connect().await {
                Err(LinkError::Dead { .. }) => return true,
                Err(LinkError::Unreachable { .. }) if Instant::now() < until => sleep(LOOK_AGAIN).await,
                _ => return false,
            }
        }
    }
}

impl Awaited {
    /// `None` if no answer will come any more.
    fn wait(self: &Arc<Self>, id: i32, sender: oneshot::Sender<Vec<u8>>) -> Option<Place> {
        let mut waiting = self.waiting.lock();
        if self.broken.load(Ordering::Acquire) {
            return None;
        }
        waiting.insert(id, sender);
        Some(Place { awaited: Arc::clone(self), id })
    }

    fn on_answer(&self, frame: &[u8]) {
        if let Ok((id, body)) = decode_answer(frame)
            && let Some(waiting) = self.waiting.lock().remove(&id)
        {
            // Who asked may have given up.
            let _ = waiting.send(body.to_vec());
        }
    }

    fn on_broken(&self) {
        let mut waiting = self.waiting.lock();
        self.broken.store(true, Ordering::Release);
        waiting.clear();
    }
}

/// The place of one who waits; it is free again when nobody waits there any more.
struct Place {
    awaited: Arc<Awaited>,
    id: i32,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.awaited.waiting.lock().remove(&self.id);
    }
}

/// What it means that a node was met at none of its addresses: it is dead if its machine says so at one, and it
/// can be at no other.
fn verdict(node: BrokerId, failures: Vec<LinkError>) -> LinkError {
    let rank = |why: &LinkError| match why {
        LinkError::Refused(Refusal::Theirs { .. }) => 4,
        LinkError::Unreachable { .. } | LinkError::Broken(_) | LinkError::Late(_) => 3,
        LinkError::Dead { .. } => 2,
        // Somebody else is there.
        LinkError::Refused(_) => 1,
    };
    failures.into_iter().max_by_key(rank).unwrap_or_else(|| {
        let why = "nobody says where it listens".to_owned();
        LinkError::Unreachable { node, address: String::new(), why }
    })
}

/// Connects to a node, for records, and makes sure that it is the one.
pub(crate) async fn connect_for_records(
    identity: &Identity,
    node: BrokerId,
    address: &str,
) -> Result<TcpStream, LinkError> {
    connect(identity, node, address, Purpose::Records).await.map(|(stream, _)| stream)
}

async fn connect(
    identity: &Identity,
    node: BrokerId,
    address: &str,
    purpose: Purpose,
) -> Result<(TcpStream, Met), LinkError> {
    let unreachable = |why: String| LinkError::Unreachable { node, address: address.to_owned(), why };
    let greeted = timeout(CONNECT_MAX, async {
        let mut stream = TcpStream::connect(address).await.map_err(|why| match why.kind() {
            io::ErrorKind::ConnectionRefused => LinkError::Dead { node, address: address.to_owned() },
            _ => unreachable(why.to_string()),
        })?;
        let _ = stream.set_nodelay(true);
        watch_peer(&stream);
        let welcome =
            greet(identity, &mut stream, purpose).await.map_err(|why| unreachable(why.to_string()))?;
        identity.check_welcome(node, address, &welcome)?;
        Ok((stream, welcome))
    });
    greeted.await.unwrap_or_else(|_| Err(unreachable(format!("no greeting within {CONNECT_MAX:?}"))))
}

/// Has a connection break when the other machine is silent for [`SILENT_MAX`]. Otherwise what is sent again and again
/// while a network is cut waits longer each time, and is not heard for as long as it was cut after it is whole.
pub(crate) fn watch_peer(stream: &TcpStream) {
    let user_timeout_ms = u32::try_from(SILENT_MAX.as_millis()).unwrap_or(u32::MAX);
    // Whatever is refused, the connection is as good as without it.
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, PROBE_EVERY);
    let _ = sockopt::set_tcp_keepintvl(stream, PROBE_EVERY);
    let _ = sockopt::set_tcp_user_timeout(stream, user_timeout_ms);
}

/// Asks whoever listens at an address who it is.
pub(crate) async fn ask_who(identity: &Identity, address: &str) -> io::Result<Met> {
    let met = timeout(CONNECT_MAX, async {
        let mut stream = TcpStream::connect(address).await?;
        greet(identity, &mut stream, Purpose::Control).await
    });
    met.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn greet(identity: &Identity, stream: &mut TcpStream, purpose: Purpose) -> io::Result<Met> {
    let malformed = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let cluster_id = identity.cluster_id();
    let hello = identity.hello(cluster_id.as_deref().map(String::as_str), purpose);
    let frame = ClusterRequest::Hello(hello).encode(0).map_err(|why| malformed(why.to_string()))?;
    stream.write_all(&frame).await?;
    let mut len = [0; 4];
    stream.read_exact(&mut len).await?;
    let len = wire::frame_len(len, WELCOME_BYTES_MAX).map_err(|why| malformed(why.to_string()))?;
    let mut answer = vec![0; len];
    stream.read_exact(&mut answer).await?;
    let (_, welcome) = Welcome::decode(&answer).map_err(|why| malformed(why.to_string()))?;
    Ok(Met {
        refusal: welcome.refusal.map(str::to_owned),
        cluster_id: welcome.cluster_id.map(str::to_owned),
        node: welcome.node,
        directory: welcome.directory,
        is_broker: welcome.is_broker,
        voters: welcome.voters.into_iter().map(voter).collect(),
    })
}

/// A voter of whom only another node told.
fn voter((id, address, directory): (BrokerId, &str, Uuid)) -> Voter {
    Voter { id, address: address.to_owned(), directory }
}

/// Starts what writes and what reads.
fn open(stream: TcpStream) -> Open {
    let (read, mut write) = stream.into_split();
    let (out, mut frames) = mpsc::channel::<Vec<u8>>(WAITING_MAX);
    let awaited = Arc::new(Awaited::default());
    let writing = Arc::clone(&awaited);
    tokio::spawn(async move {
        while let Some(frame) = frames.recv().await {
            if write.write_all(&frame).await.is_err() {
                break;
            }
        }
        writing.on_broken();
    });
    let reading = Arc::clone(&awaited);
    tokio::spawn(async move {
        let mut reader = FrameReader::new(read, limits(), &MemoryBudget::new(u64::MAX));
        loop {
            match reader.next().await {
                Ok(frame) => reading.on_answer(frame),
                Err(FrameError::Idle(_)) => {}
                Err(_) => break,
            }
        }
        reading.on_broken();
    });
    Open { out, next: AtomicI32::new(1), awaited }
}

/// A node's answers are small, and it may be silent for long.
fn limits() -> FrameLimits {
    FrameLimits { bytes_max: FRAME_BYTES_MAX, idle_max: Duration::from_secs(3600), ..FrameLimits::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_be_at_one_of_its_addresses_is_not_dead() {
        let node = BrokerId(2);
        let dead = || LinkError::Dead { node, address: "a:1".to_owned() };
        let silent =
            || LinkError::Unreachable { node, address: "b:1".to_owned(), why: "nobody answers".to_owned() };
        let stranger = || {
            let address = "c:1".to_owned();
            LinkError::Refused(Refusal::OtherNode { address, met: BrokerId(3), expected: node })
        };
        let theirs = || LinkError::Refused(Refusal::Theirs { node, why: "no".to_owned() });
        let is_dead = |failures: Vec<LinkError>| matches!(verdict(node, failures), LinkError::Dead { .. });
        assert!(is_dead(vec![dead()]) && is_dead(vec![dead(), dead()]));
        assert!(is_dead(vec![dead(), stranger()]) && is_dead(vec![stranger(), dead()]));
        assert!(!is_dead(vec![dead(), silent()]) && !is_dead(vec![silent(), dead()]));
        assert!(!is_dead(vec![dead(), theirs()]), "that is the node itself");
        assert!(!is_dead(vec![stranger()]) && !is_dead(Vec::new()), "nothing is known of it");
    }

    #[test]
    fn each_address_is_tried_once_and_the_last_good_one_first() {
        let mut addresses = Addresses::default();
        for (source, address) in
            [(Source::Settings, "old:1"), (Source::Quorum, "old:1"), (Source::Said, "new:1")]
        {
            addresses.by.insert(source, address.to_owned());
        }
        assert_eq!(addresses.all(), ["new:1", "old:1"]);
        addresses.met_at = Some("old:1".to_owned());
        assert_eq!(addresses.all(), ["old:1", "new:1"]);
        addresses.by.retain(|source, _| *source == Source::Said);
        assert_eq!(addresses.all(), ["new:1"], "nobody says the other any more");
    }
}
