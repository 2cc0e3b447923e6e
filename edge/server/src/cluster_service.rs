//! What other nodes ask of this one, on the listener for nodes.
//!
//! ```text
//!   Hello ─▶ who are you ─┬─ Records ─▶ an I/O thread, as any connection, but a node's
//!                         └─ Control ─▶ here: the quorum's messages and commands, answered as they are done
//! ```

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::{BrokerId, Offset};
use broker::call::Peer;
use bytes::Bytes;
use controller::{Command, ControllerError};
use net::{Connection, FrameError, FrameLimits, FrameReader, IoThreads, MemoryBudget, Stop};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tracing::{debug, info, warn};
use wire::cluster::{ClusterRequest, Purpose, encode_answer};

use crate::cluster::identity::Identity;
use crate::cluster::link::{FRAME_BYTES_MAX, watch_peer};
use crate::cluster::links::Links;
use crate::cluster::seat::Seat;
use crate::connection;
use crate::control::{Control, Decided, News};
use crate::node::Node;

/// How long a node may take to introduce itself.
const HELLO_MAX: Duration = Duration::from_secs(10);

/// What an introduction may take.
const HELLO_BYTES_MAX: usize = 4 << 10;

/// Requests of one node that are worked on at a time: beyond it no more are read, but for commands that come from
/// its clients, which are refused: what it says of its own life, and to the quorum, does not wait behind them.
const IN_FLIGHT_MAX: usize = 256;

/// Who serves the other nodes.
pub(crate) struct ClusterService {
    pub(crate) seat: Arc<Seat>,
    pub(crate) control: Control,
    pub(crate) links: Arc<Links>,
    pub(crate) node: Arc<Node>,
    /// The threads on which records are sent.
    pub(crate) io: Arc<IoThreads>,
}

/// Serves a connection until it ends. While this node is not there yet, it only says who it will be.
pub(crate) async fn serve(
    identity: Arc<Identity>,
    service: Arc<OnceLock<ClusterService>>,
    connection: Connection,
    stop: Stop,
) {
    let Connection { mut stream, peer, local, seat, mut cut, .. } = connection;
    watch_peer(&stream);
    let greeted = timeout(HELLO_MAX, greet(&identity, service.get(), &mut stream)).await;
    let (node, purpose) = match greeted {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(why)) => return debug!(%peer, %why, "a connection on the listener for nodes was closed"),
        Err(_) => return debug!(%peer, "nobody introduced itself on the listener for nodes"),
    };
    let Some(there) = service.get() else { return };
    match purpose {
        Purpose::Control => {
            let was_asked = control(&service, node, stream, stop.clone()).await;
            drop(seat);
            // Who asked nothing only looked whether this node is there: to look back would go on for ever.
            if was_asked && !stop.is_stopped() {
                suspect(there, node).await;
            }
        }
        Purpose::Records => {
            let Ok(stream) = stream.into_std() else { return };
            let thread = there.io.next();
            let owner = Arc::clone(&there.node);
            there.io.spawn_on(thread, async move {
                if let Ok(stream) = TcpStream::from_std(stream) {
                    let connection = Connection { stream, peer, local, thread, seat, cut: cut.clone() };
                    tokio::select! {
                        () = connection::serve(owner, connection, Peer::Node(node), stop) => {}
                        () = cut.stopped() => {}
                    }
                }
            });
        }
    }
}

/// Reads who connects, and says whether it is spoken to.
async fn greet(
    identity: &Identity,
    service: Option<&ClusterService>,
    stream: &mut TcpStream,
) -> std::io::Result<(BrokerId, Purpose)> {
    let malformed = |why: String| std::io::Error::new(std::io::ErrorKind::InvalidData, why);
    let mut len = [0; 4];
    stream.read_exact(&mut len).await?;
    let len = wire::frame_len(len, HELLO_BYTES_MAX).map_err(|why| malformed(why.to_string()))?;
    let mut frame = vec![0; len];
    stream.read_exact(&mut frame).await?;
    let (id, request) = ClusterRequest::decode(&frame).map_err(|why| malformed(why.to_string()))?;
    let ClusterRequest::Hello(hello) = request else {
        return Err(malformed("it did not introduce itself".to_owned()));
    };
    let founders = || identity.founders().to_vec();
    let voters = service.map_or_else(founders, |service| service.seat.voters());
    let refusal = identity.check_hello(&hello).err().map(|why| why.to_string());
    let cluster_id = identity.cluster_id();
    let cluster_id = cluster_id.as_deref().map(String::as_str);
    let welcome = identity.welcome(cluster_id, refusal.as_deref(), &voters);
    let answer = welcome.encode(id).map_err(|why| malformed(why.to_string()))?;
    stream.write_all(&answer).await?;
    match refusal {
        None => Ok((hello.node, hello.purpose)),
        Some(why) => {
            warn!(node = %hello.node, why, "refused a node");
            Err(malformed(why))
        }
    }
}

/// Answers what a node asks, each as soon as it is done. Whether it asked anything.
async fn control(
    service: &Arc<OnceLock<ClusterService>>,
    node: BrokerId,
    stream: TcpStream,
    mut stop: Stop,
) -> bool {
    let mut was_asked = false;
    let (read, mut write) = stream.into_split();
    let limits = FrameLimits {
        bytes_max: FRAME_BYTES_MAX,
        idle_max: Duration::from_secs(3600),
        ..FrameLimits::default()
    };
    let mut reader = FrameReader::new(read, limits, &MemoryBudget::new(u64::MAX));
    let (answers, mut ready) = mpsc::channel::<Vec<u8>>(IN_FLIGHT_MAX);
    let writer = tokio::spawn(async move {
        while let Some(answer) = ready.recv().await {
            if write.write_all(&answer).await.is_err() {
                return;
            }
        }
    });
    let [in_flight, of_clients] = [(); 2].map(|()| Arc::new(Semaphore::new(IN_FLIGHT_MAX)));
    loop {
        let frame = tokio::select! {
            frame = reader.next() => frame,
            () = stop.stopped() => break,
        };
        let (id, request) = match frame.map(ClusterRequest::decode) {
            Ok(Ok(request)) => request,
            Ok(Err(why)) => {
                debug!(%node, %why, "a node asks what cannot be read");
                break;
            }
            Err(FrameError::Idle(_)) => continue,
            Err(_) => break,
        };
        was_asked = true;
        let (service, answers) = (Arc::clone(service), answers.clone());
        let work = match Work::of(&request) {
            Ok(work) => work,
            Err(why) => {
                debug!(%node, %why, "a node asks for what cannot be done");
                break;
            }
        };
        let permit = match work.is_of_clients() {
            true => Arc::clone(&of_clients).try_acquire_owned().ok(),
            false => Arc::clone(&in_flight).acquire_owned().await.ok(),
        };
        tokio::spawn(async move {
            let answer = match (&permit, service.get()) {
                (Some(_), Some(there)) => work.done(there).await,
                (None, _) => Work::refused(),
                (_, None) => None,
            };
            if let Some(answer) = answer
                && let Ok(frame) = encode_answer(id, &answer)
            {
                let _ = answers.send(frame).await;
            }
            drop(permit);
        });
    }
    drop(answers);
    writer.abort();
    was_asked
}

enum Work {
    Quorum(Bytes),
    Command(Box<Command>),
}

impl Work {
    fn of(request: &ClusterRequest<'_>) -> Result<Self, String> {
        match request {
            ClusterRequest::Hello(_) => Err("it has introduced itself before".to_owned()),
            ClusterRequest::Quorum(body) => Ok(Self::Quorum(Bytes::copy_from_slice(body))),
            ClusterRequest::Command(body) => match serde_json::from_slice(body) {
                Ok(command) => Ok(Self::Command(Box::new(command))),
                Err(why) => Err(format!("a command that cannot be read: {why}")),
            },
        }
    }

    fn is_of_clients(&self) -> bool {
        matches!(self, Self::Command(command) if !command.is_of_life())
    }

    /// Too much is on its way: whoever asked does so again.
    fn refused() -> Option<Vec<u8>> {
        serde_json::to_vec(&Decided { result: Err(ControllerError::Busy), end: Offset::ZERO, sure_ago: None })
            .ok()
    }

    async fn done(self, service: &ClusterService) -> Option<Vec<u8>> {
        match self {
            Self::Quorum(request) => Some(service.seat.handle(request).await.to_vec()),
            Self::Command(command) => {
                let decided = service.control.decide_for(*command).await.await.ok()?;
                serde_json::to_vec(&decided).ok()
            }
        }
    }
}

/// The connection of a node broke. If nobody listens at its address any more, it is dead: that is worth
/// more than to wait for the end of its session.
async fn suspect(service: &ClusterService, node: BrokerId) {
    let Some(link) = service.links.get(node) else { return };
    if link.is_dead().await {
        info!(%node, "a node is gone: nobody listens at its address");
        service.control.tell(News::Dead(node));
    }
}
