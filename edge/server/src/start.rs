//! From settings to a node that serves, and back to a clean stop.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use broker::api::APIS;
use metadata::settings::{BrokerSettings, SecurityProtocol};
use net::{FrameLimits, IoThreads, Listener, ListenerLimits, MemoryBudget, StopSwitch, WriteLimits};
use telemetry::{Build, Metrics};
use tracing::{error, info, warn};

use crate::bring_up::bring_up;
use crate::clock::Clock;
use crate::complaints::Complaints;
use crate::config;
use crate::connection;
use crate::control::{Control, ControlThread};
use crate::directories::Directories;
use crate::error::ServerError;
use crate::hosting::Hosting;
use crate::housekeeping::Housekeeping;
use crate::log_dir::DiskReserve;
use crate::node::{FetchSessionSlots, Node, ProducerIds};
use crate::stop::{self, ControlHandle, Started};
use crate::table::PartitionTable;
use crate::{ServerArgs, watch};

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
        listen(&settings)?
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
    let started = begin(settings, descriptors, metrics, &listener)?;
    let _ = watched.set(Arc::downgrade(&started.node));
    let node = Arc::clone(&started.node);
    info!(
        kafka = %listener.address(), node = %node.settings.node_id, cluster = node.cluster_id,
        partitions = node.partitions.len(), took_ms = began.elapsed().as_millis(), "serving"
    );
    let outcome = edge.block_on(serve(&node, listener, &started, switch, http));
    stop::in_order(started)?;
    outcome
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
    let limits = ListenerLimits {
        connections_max: settings.connections_max.min(ListenerLimits::default().connections_max),
        connections_per_ip_max: settings.connections_per_ip_max,
        ..ListenerLimits::default()
    };
    Ok(Listener::bind(address, limits)?)
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, ServerError> {
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
pub(crate) fn start(settings: BrokerSettings, listener: &Listener) -> Result<Started, ServerError> {
    begin(settings, u64::MAX, metrics(), listener)
}

fn begin(
    settings: BrokerSettings,
    descriptors: u64,
    metrics: Arc<Metrics>,
    listener: &Listener,
) -> Result<Started, ServerError> {
    let mut directories = Directories::open(&settings, &metrics).map_err(Box::new)?;
    let cluster_id = directories.cluster_id.clone();
    let hosting = Hosting {
        node: settings.node_id,
        settings: settings.clone(),
        table: Arc::new(PartitionTable::default()),
        dirs: directories.all.iter().map(|directory| Arc::clone(&directory.dir)).collect(),
        clock: Clock::start(),
        metrics,
    };
    let reserve = DiskReserve(settings.disk_reserve_bytes);
    hosting.dirs.iter().for_each(|dir| dir.look_at_space(reserve));
    retire_together(&hosting, directories.home);
    let control = bring_up(hosting, &mut directories, listener.address())?;
    drop(directories);
    let (table, dirs) = (Arc::clone(&control.hosting.table), control.hosting.dirs.clone());
    let (to_control, requests) = Control::channel();
    let node = Arc::new(node(settings, cluster_id, &control, to_control));
    watch::all(&node, listener);
    let vital = Arc::new(StopSwitch::new());
    let (mut housekeeping, mut housekeeping_stop) = (Vec::new(), Vec::new());
    for dir in dirs {
        let work = Housekeeping {
            table: Arc::clone(&table),
            dir,
            retention_every: node.settings.retention_check_interval,
            checkpoint_every: node.settings.checkpoint_interval,
            open_logs_max: open_logs_max(descriptors),
            reserve,
            clock: control.clock,
        };
        for (name, run) in Housekeeping::THREADS {
            let (stop, stopped) = mpsc::channel();
            let work = work.clone();
            housekeeping_stop.push(stop);
            housekeeping.push(vital_thread(name, &vital, move || run(work, &stopped))?);
        }
    }
    let ended = vital.watch();
    let thread = vital_thread("control", &vital, move || control.run(requests))?;
    let threads = node.settings.io_threads.unwrap_or_else(IoThreads::count_default);
    Ok(Started {
        io: Arc::new(IoThreads::start(threads)?),
        housekeeping,
        control: ControlHandle { thread, ended },
        housekeeping_stop,
        node,
    })
}

/// A thread without which the node cannot go on: when it ends, for whatever reason, the node stops.
fn vital_thread<T: Send + 'static>(
    name: &str,
    vital: &Arc<StopSwitch>,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    struct Rings(Arc<StopSwitch>);
    impl Drop for Rings {
        fn drop(&mut self) {
            self.0.stop();
        }
    }
    let rings = Rings(Arc::clone(vital));
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _rings_when_dropped = rings;
        work()
    })
}

/// How many logs may keep their files open, given how many descriptors the process may have: half of
/// them are for logs. A log that is written to has four, and as many for each of two segments that are read.
fn open_logs_max(descriptors: u64) -> usize {
    usize::try_from(descriptors / 24).unwrap_or(usize::MAX)
}

/// A directory that fails takes its partitions offline; the one with the metadata takes the node.
fn retire_together(hosting: &Hosting, home: usize) {
    for (place, dir) in hosting.dirs.iter().enumerate() {
        let (table, id) = (Arc::downgrade(&hosting.table), dir.id);
        dir.when_retired(move |_| {
            if let Some(table) = table.upgrade() {
                table.retire_in(id);
            }
            if place == home {
                error!(
                    "the metadata is in this directory, so the node stops; repair the disk and start again"
                );
                std::process::exit(1);
            }
        });
    }
}

fn node(settings: BrokerSettings, cluster_id: String, control: &ControlThread, to_control: Control) -> Node {
    // A quarter of what the machine has, each way: the rest is for the page cache, which serves reads.
    let quarter = rustix::system::sysinfo().totalram as u64 / 4;
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
        fetch_sessions: FetchSessionSlots::new(settings.fetch_sessions_max),
        waiters: AtomicU64::new(1),
        complaints: Complaints::default(),
        image: Arc::clone(&control.image),
        partitions: Arc::clone(&control.hosting.table),
        dirs: control.hosting.dirs.clone(),
        control: to_control,
        clock: control.clock,
        cluster_id,
        settings,
        metrics: Arc::clone(&control.hosting.metrics),
    }
}

async fn serve(
    node: &Arc<Node>,
    listener: Listener,
    started: &Started,
    switch: StopSwitch,
    http: Option<tokio::task::JoinHandle<()>>,
) -> Result<(), ServerError> {
    let (node, stop) = (Arc::clone(node), switch.watch());
    let connections = listener.serve(Arc::clone(&started.io), switch.watch(), move |connection| {
        connection::serve(Arc::clone(&node), connection, stop.clone())
    });
    let connections = tokio::spawn(connections);
    let mut control_ended = started.control.ended.clone();
    let outcome = tokio::select! {
        signal = stop::signal() => signal.map_err(ServerError::System),
        () = control_ended.stopped() => Ok(()),
    };
    switch.stop();
    // A panic of either was reported by the panic hook.
    let _ = connections.await;
    if let Some(http) = http {
        let _ = http.await;
    }
    outcome
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
