//! From settings to a node that serves, and back to a clean stop.

mod found; // first
mod registration;
mod threads;

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak, mpsc};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use broker::api::APIS;
use broker::call::Peer;
use broker::replication::FetcherLimits;
use metadata::Image;
use metadata::settings::{BrokerSettings, SecurityProtocol};
use net::{FrameLimits, Listener, ListenerLimits, MemoryBudget, StopSwitch, WriteLimits};
use telemetry::{Build, Metrics};
use tracing::{error, info, warn};

use crate::clock::Clock;
use crate::cluster::link::Source;
use crate::cluster::links::Links;
use crate::cluster::seat::{Seat, SeatStart};
use crate::cluster_service::ClusterService;
use crate::complaints::Complaints;
use crate::config;
use crate::connection;
use crate::control::{Control, News};
use crate::coordinators::{Coordinators, ShardCell};
use crate::directories::Directories;
use crate::error::ServerError;
use crate::followers::Followers;
use crate::hosting::Hosting;
use crate::log_dir::DiskReserve;
use crate::node::{FetchSessionSlots, Node, ProducerIds};
use crate::requests::Outbox;
use crate::stop::{self, Started};
use crate::table::PartitionTable;
use crate::{ServerArgs, memory, watch};

use found::{Founded, found};
use threads::{Beginning, Running, node_threads, start_threads};

/// Which program this is.
const BUILD: Build = Build { version: env!("CARGO_PKG_VERSION") };

/// Runs a node until it is told to stop by SIGTERM or SIGINT.
pub fn run(args: ServerArgs) -> Result<(), ServerError> {
    let began = Instant::now();
    let settings = config::settings(&args)?;
    telemetry::init_logging()?;
    if !settings.ignored.is_empty() {
        warn!(
            settings = settings.ignored.join(", "),
            "settings of Kafka's that mean nothing to this node were passed over"
        );
    }
    let descriptors = net::raise_descriptors_max();
    let edge = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("edge")
        .enable_all()
        .build()?;
    let listener = {
        let _inside = edge.enter();
        settings.roles.broker.then(|| listen(&settings)).transpose()?
    };
    let metrics = metrics();
    // Whoever watches the node can see that it lives while its logs are opened, which may take long.
    let watched = Arc::new(OnceLock::new());
    let http = match &settings.http_listen {
        Some(address) => Some(edge.block_on(http::bind(http_address(address)?))?),
        None => None,
    };
    let switch = StopSwitch::new();
    let http = http.map(|bound| {
        let mut stop = switch.watch();
        let state = watch::http_state(Arc::clone(&watched), Arc::clone(&metrics));
        edge.spawn(async move { http::serve(bound, state, async move { stop.stopped().await }).await })
    });
    let outcome = edge.block_on(live(settings, (descriptors, metrics), listener, &switch, &watched, began));
    switch.stop();
    if let Some(http) = http {
        // A panic was reported by the panic hook.
        let _ = edge.block_on(http);
    }
    outcome
}

/// From here on a signal ends the node, wherever it is.
async fn live(
    settings: BrokerSettings,
    (descriptors, metrics): (u64, Arc<Metrics>),
    listener: Option<Listener>,
    switch: &StopSwitch,
    watched: &OnceLock<Weak<Node>>,
    began: Instant,
) -> Result<(), ServerError> {
    let mut signal = std::pin::pin!(stop::signal());
    let founding = found(settings, Arc::clone(&metrics));
    let founded = tokio::select! {
        founded = founding => founded?,
        signalled = &mut signal => return signalled.map_err(ServerError::System),
    };
    let mut started = begin(descriptors, metrics, listener.as_ref(), founded)?;
    let mut ended = started.control.ended.clone();
    let served = tokio::select! {
        serving = &mut started.serving => serving.is_ok(),
        signalled = &mut signal => return stop_early(started, signalled).await,
        () = ended.stopped() => false,
    };
    if !served {
        return stop::in_order(started).await;
    }
    let node = Arc::clone(&started.node);
    // From now on it is ready: what it is asked for it can do, with the cluster.
    let _ = watched.set(Arc::downgrade(&node));
    let connections = match listener {
        Some(listener) => {
            info!(
                kafka = %listener.address(), node = %node.settings.node_id, cluster = node.cluster_id,
                partitions = node.partitions.len(), took_ms = began.elapsed().as_millis(), "serving"
            );
            Some(serve(listener, &started, switch))
        }
        None => {
            let took_ms = began.elapsed().as_millis();
            info!(node = %node.settings.node_id, cluster = node.cluster_id, took_ms, "a controller that serves no clients is up");
            None
        }
    };
    let outcome = tokio::select! {
        signalled = &mut signal => signalled.map_err(ServerError::System),
        () = ended.stopped() => Ok(()),
    };
    // Others lead before those who are connected are told to go.
    stop::hand_over(&mut started).await;
    node.coordinators.stop();
    switch.stop();
    if let Some(connections) = connections {
        // A panic was reported by the panic hook.
        let _ = connections.await;
    }
    stop::in_order(started).await?;
    outcome
}

/// Serves clients until the switch is thrown.
fn serve(listener: Listener, started: &Started, switch: &StopSwitch) -> tokio::task::JoinHandle<()> {
    let (owner, stop) = (Arc::clone(&started.node), switch.watch());
    tokio::spawn(listener.serve(Arc::clone(&started.io), switch.watch(), move |connection| {
        connection::serve(Arc::clone(&owner), connection, Peer::Client, stop.clone())
    }))
}

async fn stop_early(started: Started, signalled: std::io::Result<()>) -> Result<(), ServerError> {
    stop::in_order(started).await?;
    signalled.map_err(ServerError::System)
}

fn listen(settings: &BrokerSettings) -> Result<Listener, ServerError> {
    let [listener] = settings.listeners.as_slice() else {
        return Err(ServerError::Listener(
            "`listeners` names several: this node serves one, PLAINTEXT".to_owned(),
        ));
    };
    if listener.protocol != SecurityProtocol::Plaintext {
        let name = listener.protocol.name();
        return Err(ServerError::Listener(format!("a {name} listener is not served: use PLAINTEXT")));
    }
    let host = if listener.host.is_empty() { "0.0.0.0" } else { &listener.host };
    let address = resolve(host, listener.port)?;
    if !address.ip().is_loopback() {
        warn!(%address, "listening without encryption or login on an address that others may reach");
    }
    let affordable = net::connections_affordable();
    if settings.connections_max > affordable {
        let wanted = settings.connections_max;
        info!(wanted, affordable, "max.connections is cut: this process may open too few files (ulimit -n)");
    }
    let limits = ListenerLimits {
        connections_max: settings.connections_max.min(affordable),
        connections_per_ip_max: settings.connections_per_ip_max,
        ..ListenerLimits::default()
    };
    Ok(Listener::bind(address, limits)?)
}

pub(crate) fn resolve(host: &str, port: u16) -> Result<SocketAddr, ServerError> {
    let resolved = (host, port).to_socket_addrs();
    resolved.ok().and_then(|mut addresses| addresses.next()).ok_or_else(|| {
        ServerError::Listener(format!("{host} is no address of this machine that can be found"))
    })
}

fn metrics() -> Arc<Metrics> {
    let names: Vec<(i16, &'static str)> = APIS.iter().map(|api| (api.key.code(), api.key.name())).collect();
    Metrics::new(BUILD, &names)
}

/// A node without HTTP and signals, for tests.
#[cfg(test)]
pub(crate) fn start(
    settings: BrokerSettings,
    listener: &Listener,
    runtime: &tokio::runtime::Runtime,
) -> Result<Started, ServerError> {
    runtime.block_on(async {
        let metrics = metrics();
        let founded = found(settings, Arc::clone(&metrics)).await?;
        let mut started = begin(u64::MAX, metrics, Some(listener), founded)?;
        let mut ended = started.control.ended.clone();
        let serves = tokio::select! {
            serving = &mut started.serving => serving.is_ok(),
            () = ended.stopped() => false,
        };
        match serves {
            true => Ok(started),
            false => Err(stop::in_order(started)
                .await
                .err()
                .unwrap_or_else(|| ServerError::Control("the node ended before it served".to_owned()))),
        }
    })
}

fn begin(
    descriptors: u64,
    metrics: Arc<Metrics>,
    listener: Option<&Listener>,
    founded: Founded,
) -> Result<Started, ServerError> {
    let Founded { settings, directories, cluster_id, cluster, identity, me, is_member, founders } = founded;
    let home = Arc::clone(&directories.all[directories.home].dir);
    let threads = node_threads(&settings)?;
    let (control, inbox) = Control::channel();
    let (hosting, to_load) = hosting(&settings, &directories, metrics, &control);
    let bound = listener.map(Listener::address);
    let registration = {
        let cluster_at = cluster.as_ref().and(settings.cluster_address());
        registration::of(&settings, &cluster_id, &directories, bound, cluster_at)
    };
    let links = Arc::new(Links::new(Arc::clone(&identity)));
    for peer in settings.cluster_peers.iter().filter(|peer| peer.id != settings.node_id) {
        links.to(peer.id, Source::Settings, &peer.address.to_string());
    }
    let (told, failed, disk) = (control.clone(), control.clone(), Arc::downgrade(&home));
    let seat = Seat::take(SeatStart {
        settings: settings.clone(),
        cluster_id: cluster_id.clone(),
        me,
        is_member,
        founders,
        home: Arc::clone(&home),
        cluster: threads.cluster.handle().clone(),
        links: Arc::clone(&links),
        tell: Arc::new(move |event| told.tell(News::Quorum(event))),
        on_failed: Box::new(move |why| {
            // If it was the disk, the others are to know before this node ends.
            if let Some(disk) = disk.upgrade() {
                disk.look_at_disk();
            }
            failed.tell(News::QuorumFailed(why));
        }),
    });
    let seat = seat.map_err(Box::new)?;
    // Not before the log is there and can be read: what a directory names must not be missed for nothing.
    for directory in &directories.all {
        directory.dir.mark(|marks| marks.name_metadata_directory(home.id));
    }
    let table = Arc::clone(&hosting.table);
    let lanes = threads.lanes();
    let limits = (fetcher_limits(&settings), Arc::clone(&hosting.throttles));
    let followers = Followers::new(identity, table, hosting.clock, limits, lanes);
    let node = Arc::new(node(settings, cluster_id, &hosting, control.clone(), directories.failing.clone()));
    watch::all(&node, listener);
    if let Some(cluster) = &cluster {
        let _ = cluster.service.set(ClusterService {
            seat: Arc::clone(&seat),
            control: control.clone(),
            links: Arc::clone(&links),
            node: Arc::clone(&node),
            io: Arc::clone(&threads.io),
        });
    }
    let followers = Arc::new(followers);
    start_threads(
        Beginning { hosting, directories, registration, followers, links, control, inbox, to_load },
        Running { node, seat, listener: cluster.map(|cluster| (cluster.stop, cluster.task)), threads },
        descriptors,
    )
}

/// What is made so on this node.
fn hosting(
    settings: &BrokerSettings,
    directories: &Directories,
    metrics: Arc<Metrics>,
    control: &Control,
) -> (Hosting, mpsc::Receiver<Arc<ShardCell>>) {
    let outbox = Arc::new(Outbox::default());
    let news = control.clone();
    outbox.when_proposed(move || news.tell(News::Proposed));
    let (table, clock) = (Arc::new(PartitionTable::default()), Clock::start());
    let image = Arc::new(ArcSwap::from_pointee(Image::default()));
    let (coordinators, to_load) = Coordinators::new(
        settings.node_id,
        &settings.group,
        (Arc::clone(&table), Arc::clone(&image)),
        clock,
        Arc::clone(&metrics),
    );
    let hosting = Hosting {
        node: settings.node_id,
        settings: settings.clone(),
        table,
        dirs: directories.all.iter().map(|directory| Arc::clone(&directory.dir)).collect(),
        clock,
        metrics,
        image,
        outbox,
        throttles: Arc::default(),
        coordinators,
    };
    let reserve = DiskReserve(settings.disk_reserve_bytes);
    hosting.dirs.iter().for_each(|dir| dir.look_at_space(reserve));
    retire_together(&hosting, directories.home, control);
    (hosting, to_load)
}

fn fetcher_limits(settings: &BrokerSettings) -> FetcherLimits {
    FetcherLimits {
        wait_max: settings.replica_fetch_wait_max,
        response_bytes_max: settings.replica_fetch_response_bytes_max,
        partition_bytes_max: settings.replica_fetch_bytes_max,
        backoff: settings.replica_fetch_backoff,
    }
}

/// A directory that fails takes its partitions offline; the one with the metadata takes the node.
fn retire_together(hosting: &Hosting, home: usize, control: &Control) {
    for (place, dir) in hosting.dirs.iter().enumerate() {
        let (table, id, control) = (Arc::downgrade(&hosting.table), dir.id, control.clone());
        dir.when_retired(move |_| {
            let is_home = place == home;
            control.tell(News::LogDirFailed { directory: id, is_home });
            if let Some(table) = table.upgrade() {
                table.retire_in(id);
            }
            if is_home {
                error!(
                    "the metadata is in this directory, so the node stops; repair the disk and start again"
                );
                end_soon();
            }
        });
    }
}

/// Ends the process if nobody else does. Whoever saw the disk fail does not wait for that.
fn end_soon() {
    let end = || {
        std::thread::sleep(END_MAX);
        std::process::exit(1);
    };
    if std::thread::Builder::new().name("end".to_owned()).spawn(end).is_err() {
        std::process::exit(1);
    }
}

fn node(
    settings: BrokerSettings,
    cluster_id: String,
    hosting: &Hosting,
    control: Control,
    dirs_failing: Vec<PathBuf>,
) -> Node {
    // A quarter of what there is, each way: the rest is for the page cache, which serves reads.
    let quarter = memory::bytes_max() / 4;
    Node {
        frame_limits: FrameLimits {
            bytes_max: settings.request_bytes_max,
            idle_max: settings.connection_idle_max,
            ..FrameLimits::default()
        },
        write_limits: WriteLimits { stall_max: STALL_MAX, ..WriteLimits::default() },
        request_memory: MemoryBudget::new(settings.queued_request_bytes_max.unwrap_or(quarter)),
        answer_memory: MemoryBudget::new(quarter),
        producer_ids: ProducerIds::default(),
        throttles: Arc::clone(&hosting.throttles),
        coordinators: Arc::clone(&hosting.coordinators),
        fetch_sessions: FetchSessionSlots::new(
            settings.fetch_sessions_max,
            usize::try_from(quarter / 4 / FETCH_PARTITION_BYTES).unwrap_or(usize::MAX),
            Arc::clone(&hosting.metrics),
        ),
        waiters: AtomicU64::new(1),
        complaints: Complaints::default(),
        suspects: Arc::default(),
        image: Arc::clone(&hosting.image),
        partitions: Arc::clone(&hosting.table),
        dirs: hosting.dirs.clone(),
        dirs_failing,
        control,
        clock: hosting.clock,
        cluster_id,
        settings,
        metrics: Arc::clone(&hosting.metrics),
    }
}

fn http_address(text: &str) -> Result<SocketAddr, ServerError> {
    let wrong = || ServerError::Listener(format!("http.listen: {text} is not host:port, as 127.0.0.1:9644"));
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']').ok_or_else(wrong)?,
        None if host.contains(':') => return Err(wrong()),
        None if host.is_empty() => "0.0.0.0",
        None => host,
    };
    resolve(host, port.parse().map_err(|_| wrong())?)
}

/// What a partition of a fetch session takes in memory at most, with its topic's name. A fetch that waits has a copy,
/// for which its connection pays.
const FETCH_PARTITION_BYTES: u64 = 512;

/// How long a node whose metadata cannot be written may take to tell the others.
const END_MAX: Duration = Duration::from_secs(3);

/// How long a client may take no byte of an answer. A consumer reads its socket only when it polls,
/// and `max.poll.interval.ms` lets it work five minutes between two polls.
const STALL_MAX: Duration = Duration::from_secs(330);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_http_may_be_of_either_kind() {
        assert_eq!(http_address("127.0.0.1:9644").unwrap().to_string(), "127.0.0.1:9644");
        assert_eq!(http_address("[::1]:9644").unwrap().to_string(), "[::1]:9644");
        assert_eq!(http_address(":9644").unwrap().to_string(), "0.0.0.0:9644");
        for wrong in ["9644", "::1:9644", "[::1:9644", "127.0.0.1:port"] {
            assert!(http_address(wrong).is_err(), "{wrong}");
        }
    }
}
