//! From settings to a node that serves, and back to a clean stop.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use base::{TopicPartition, Uuid};
use broker::api::APIS;
use controller::{AdoptTopic, Command, ControllerSettings, RegisterBroker};
use metadata::settings::{BrokerSettings, SecurityProtocol};
use metadata::{Endpoint, Image};
use net::{FrameLimits, IoThreads, Listener, ListenerLimits, MemoryBudget, StopSwitch, WriteLimits};
use parking_lot::Mutex;
use quorum::{Quorum, Start};
use telemetry::{Build, Metrics};
use tracing::{error, info, warn};

use crate::clock::Clock;
use crate::complaints::Complaints;
use crate::config;
use crate::connection;
use crate::control::{Control, ControlThread};
use crate::directories::{Directories, Directory};
use crate::error::ServerError;
use crate::hosting::Hosting;
use crate::housekeeping::Housekeeping;
use crate::node::{FetchSessionSlots, Node, ProducerIds};
use crate::random::random;
use crate::recovery::{self, Recovery};
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
    net::raise_descriptors_max();
    let edge = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("edge")
        .enable_all()
        .build()?;
    let listener = {
        let _inside = edge.enter();
        listen(&settings)?
    };
    let started = start(settings, &listener)?;
    let node = Arc::clone(&started.node);
    info!(
        kafka = %listener.address(), node = %node.settings.node_id, cluster = node.cluster_id,
        partitions = node.partitions.len(), took_ms = began.elapsed().as_millis(), "serving"
    );
    let outcome = edge.block_on(serve(&node, listener, &started.io, &started.control));
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

/// Where clients are told to connect.
fn endpoints(settings: &BrokerSettings, bound: SocketAddr) -> Vec<Endpoint> {
    let listeners = settings.advertised_listeners().iter();
    listeners
        .map(|listener| Endpoint {
            listener: listener.name.clone(),
            host: match listener.host.as_str() {
                "" | "0.0.0.0" | "::" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
                host => host.to_owned(),
            },
            port: if listener.port == 0 { bound.port() } else { listener.port },
            security_protocol: listener.protocol.code(),
        })
        .collect()
}

pub(crate) fn start(settings: BrokerSettings, listener: &Listener) -> Result<Started, ServerError> {
    let names: Vec<(i16, &'static str)> = APIS.iter().map(|api| (api.key.code(), api.key.name())).collect();
    let metrics = Metrics::new(BUILD, &names);
    let Directories { all: mut directories, cluster_id } =
        Directories::open(&settings, &metrics).map_err(Box::new)?;
    let (discarded, to_remove) = mpsc::channel();
    let hosting = Hosting {
        node: settings.node_id,
        settings: settings.clone(),
        table: Arc::new(PartitionTable::default()),
        dirs: directories.iter().map(|directory| Arc::clone(&directory.dir)).collect(),
        discarded,
        clock: Clock::start(),
        metrics,
        placing: Mutex::new(()),
    };
    retire_together(&hosting);
    let control = bring_up(hosting, &mut directories, listener.address())?;
    let housekeeping = Housekeeping {
        table: Arc::clone(&control.hosting.table),
        dirs: control.hosting.dirs.clone(),
        discarded: to_remove,
        retention_every: settings.retention_check_interval,
        clock: control.clock,
    };
    let (to_control, requests) = Control::channel();
    let node = Arc::new(node(settings, cluster_id, &control, to_control));
    watch::all(&node, listener);
    let (housekeeping_stop, stopped) = mpsc::channel();
    let spawn = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let bell = StopSwitch::new();
    let ended = bell.watch();
    let thread = spawn("control").spawn(move || {
        let _rings_when_dropped = bell;
        control.run(requests)
    })?;
    let threads = node.settings.io_threads.unwrap_or_else(IoThreads::count_default);
    Ok(Started {
        io: Arc::new(IoThreads::start(threads)?),
        housekeeping: spawn("housekeeping").spawn(move || housekeeping.run(&stopped))?,
        control: ControlHandle { thread, ended },
        housekeeping_stop,
        node,
    })
}

/// Reads the metadata, begins a new life of this broker, and opens its logs.
fn bring_up(
    hosting: Hosting,
    directories: &mut [Directory],
    bound: SocketAddr,
) -> Result<ControlThread, ServerError> {
    let (settings, clock) = (hosting.settings.clone(), hosting.clock);
    let opening = Start {
        log_dir: Path::new(""),
        node_id: settings.node_id,
        settings: ControllerSettings {
            partitions_default: settings.partitions_default,
            replication_factor_default: settings.replication_factor_default,
            delete_topics: settings.delete_topics,
            fixed: settings.fixed.clone(),
        },
        fresh_cluster_id: Uuid::from_random(random()),
        now: clock.now(),
    };
    let quorum = Quorum::open(Arc::clone(&directories[0].dir.disk), opening).map_err(Box::new)?;
    // Before anything else looks at them: a node without topics takes in those it finds.
    directories.iter_mut().for_each(|directory| directory.finish_deletions(quorum.deleted()));
    let image = Arc::new(ArcSwap::from_pointee(Image::default()));
    let mut control = ControlThread { quorum, image, hosting, clock, commits: 0 };
    let complete = is_complete(&control, directories);
    register(&mut control, &settings, directories, bound)?;
    adopt(&mut control, directories)?;
    let recovered = recovery::open_all(&control.hosting, directories, control.quorum.image(), complete);
    control.image.store(Arc::new(control.quorum.image().clone()));
    control.count();
    control.hosting.metrics.state.partitions_offline.set(recovered.offline as u64);
    let Recovery { opened, offline, scanned_bytes } = recovered;
    if opened + offline > 0 {
        info!(opened, offline, scanned_bytes, "logs opened");
    }
    Ok(control)
}

/// A directory that fails takes its partitions offline; the one with the metadata takes the node.
fn retire_together(hosting: &Hosting) {
    for (place, dir) in hosting.dirs.iter().enumerate() {
        let (table, id) = (Arc::downgrade(&hosting.table), dir.id);
        dir.when_retired(move |_| {
            if let Some(table) = table.upgrade() {
                table.retire_in(id);
            }
            if place == 0 {
                error!("the metadata is in this directory, so the node cannot go on");
                std::process::exit(1);
            }
        });
    }
}

/// Whether every log directory that this node had in its last life is there.
fn is_complete(control: &ControlThread, directories: &[Directory]) -> bool {
    let node = control.hosting.node;
    let Some(before) = control.quorum.image().broker(node) else {
        return true;
    };
    let missing: Vec<&Uuid> = before
        .log_dirs
        .iter()
        .filter(|id| !directories.iter().any(|directory| directory.dir.id == **id))
        .collect();
    for id in &missing {
        error!(directory = %id, "a log directory that this node had is not among log.dirs");
    }
    missing.is_empty()
}

fn register(
    control: &mut ControlThread,
    settings: &BrokerSettings,
    directories: &[Directory],
    bound: SocketAddr,
) -> Result<(), ServerError> {
    let command = Command::RegisterBroker(RegisterBroker {
        id: settings.node_id,
        incarnation: Uuid::from_random(random()),
        endpoints: endpoints(settings, bound),
        features: Vec::new(),
        rack: settings.rack.clone(),
        log_dirs: directories.iter().map(|directory| directory.dir.id).collect(),
        fenced: false,
        after_crash: directories.iter().any(|directory| !directory.clean && !directory.is_new),
    });
    control.commit(&command)?.map_err(|refused| ServerError::Control(refused.to_string()))?;
    Ok(())
}

/// Takes topics in that another program left in the log directories, Apache Kafka say.
///
/// Only a node without any topics does so: on any other a directory that nobody knows is a mistake
/// that a person should look at.
fn adopt(control: &mut ControlThread, directories: &[Directory]) -> Result<(), ServerError> {
    if control.quorum.image().topic_count() > 0 {
        return Ok(());
    }
    let mut topics: std::collections::BTreeMap<_, AdoptTopic> = std::collections::BTreeMap::new();
    for directory in directories {
        for (TopicPartition { topic, partition }, id) in &directory.partitions {
            if id.0.is_zero() {
                warn!(%topic, %partition, "left alone: its directory does not say the topic's id");
                continue;
            }
            let adopted = topics.entry(topic.clone()).or_insert_with(|| AdoptTopic {
                name: topic.clone(),
                id: *id,
                partitions: std::collections::BTreeMap::new(),
                broker: control.hosting.node,
            });
            adopted.partitions.insert(*partition, directory.last_epoch(topic, *partition));
        }
    }
    for (name, command) in topics {
        let partitions = command.partitions.len();
        match control.commit(&Command::AdoptTopic(command))? {
            Ok(_) => info!(topic = %name, partitions, "took in a topic that was in the log directories"),
            Err(why) => warn!(topic = %name, %why, "a topic in the log directories was left alone"),
        }
    }
    Ok(())
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
    io: &Arc<IoThreads>,
    control: &ControlHandle,
) -> Result<(), ServerError> {
    let switch = StopSwitch::new();
    let http = match &node.settings.http_listen {
        Some(address) => Some(http::bind(http_address(address)?).await?),
        None => None,
    };
    let http = http.map(|bound| {
        let mut stop = switch.watch();
        let state = watch::http_state(node);
        tokio::spawn(async move { http::serve(bound, state, async move { stop.stopped().await }).await })
    });
    let (node, stop) = (Arc::clone(node), switch.watch());
    let connections = listener.serve(Arc::clone(io), switch.watch(), move |connection| {
        connection::serve(Arc::clone(&node), connection, stop.clone())
    });
    let connections = tokio::spawn(connections);
    let mut control_ended = control.ended.clone();
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
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    resolve(host, port.parse().map_err(|_| wrong())?)
}

/// How long a client may take no byte of an answer. A consumer reads its socket only when it polls,
/// and `max.poll.interval.ms` lets it work five minutes between two polls.
const STALL_MAX: Duration = Duration::from_secs(330);
